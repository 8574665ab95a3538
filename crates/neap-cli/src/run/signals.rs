//! Passes signals on to the command, once each.
//!
//! A signal that was ignored when neap started stays ignored: a handler would be reset to the default
//! action in the command, where an ignored signal stays ignored (nohup, background jobs of a plain
//! shell). The mask is never touched.
//!
//! The terminal signals its whole foreground process group, the command included, so what the kernel
//! sent is passed on only to a command in another group. What a process sent was meant for neap alone,
//! as far as neap can know: signals to a whole group reach the command twice, as with timeout(1).
//!
//! A frozen job (`neap freeze`) that is to end, or to go on, is thawed once the signal is on its way: it is the first thing that
//! a stopped process meets.
//!
//! Each signal arrives as the signal that it was: a notebook interrupts a cell as often as its user asks. Only with
//! `--escalate` does a second SIGINT become something stronger.

use std::fs::File;
use std::io;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use neap_sys::{Pidfd, Thread};
use neap_tuning::TUNING;
use rustix::fd::OwnedFd;
use rustix::process::{
    Pid, PidfdFlags, Signal, getpgrp, kill_process, pidfd_open, pidfd_send_signal,
};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::siginfo::{Cause, Origin};

use crate::machine::{Root, children, ignored_signals, is_stopped, process_group};

/// The signals that neap passes on.
const FORWARDED: [Signal; 9] = [
    Signal::TERM,
    Signal::INT,
    Signal::HUP,
    Signal::QUIT,
    Signal::USR1,
    Signal::USR2,
    Signal::WINCH,
    Signal::TSTP,
    Signal::CONT,
];

/// Those that a frozen job is thawed for.
const THAWING: [Signal; 5] = [
    Signal::TERM,
    Signal::INT,
    Signal::HUP,
    Signal::QUIT,
    Signal::CONT,
];

/// Lets a frozen job go on.
type Thaw = Box<dyn Fn() + Send>;

/// Whom signals go to.
#[derive(Debug)]
enum Target {
    /// No command yet: what comes early waits.
    None,
    /// The command. The descriptor cannot mean a later process of the same number. `None`: another thread was given
    /// the last one; then one is opened for each signal, if that can be.
    Command(Pid, Option<OwnedFd>),
    /// The command has ended: all that neap has inherited from it.
    Heirs,
}

/// The forwarder: installed before the command starts, so that no early signal is lost, and with all it
/// needs, so that nothing can be lacking once the command runs.
#[derive(Debug)]
pub struct Forwarder {
    target: Arc<Mutex<Target>>,
    /// Lets the thread begin.
    begin: Sender<Thaw>,
    /// Keeps a descriptor for the command's.
    spare: File,
}

/// Tells a running forwarder that the command has ended.
#[derive(Clone, Debug)]
pub struct Switch(Arc<Mutex<Target>>);

impl Switch {
    /// From now on signals go to the command's heirs.
    pub fn command_ended(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Target::Heirs;
    }
}

impl Forwarder {
    /// Catches the signals to be passed on; they wait until [`start`](Self::start). `escalates`: see [`Patience`].
    ///
    /// # Errors
    /// When the kernel refuses a handler, a thread or a descriptor.
    pub fn install(root: &Root, clock: fn() -> u64, escalates: bool) -> io::Result<Self> {
        let ignored = ignored_signals(root);
        let caught = FORWARDED
            .iter()
            .map(|signal| signal.as_raw())
            .filter(|signal| !is_in(ignored, *signal));
        let mut signals = SignalsInfo::<WithOrigin>::new(caught)?;
        let target = Arc::new(Mutex::new(Target::None));
        let (begin, begins) = channel::<Thaw>();
        let (of_thread, root) = (target.clone(), root.clone());
        Thread::start("neap-signals", TUNING.talk.stack.as_usize(), move || {
            let Ok(thaw) = begins.recv() else {
                return; // there will be no command
            };
            let mut patience = escalates.then(Patience::default);
            for origin in signals.forever() {
                pass_on(&origin, &of_thread, &root, |signal| match &mut patience {
                    Some(patience) => patience.step(signal, clock()),
                    None => signal,
                });
                if THAWING.iter().any(|one| one.as_raw() == origin.signal) {
                    thaw();
                }
            }
        })?;
        Ok(Self {
            target,
            begin,
            spare: File::open("/dev/null")?,
        })
    }

    /// Starts passing signals on to the command. It runs already: there is no way back. `thaw` lets a frozen job go on.
    pub fn start(self, command: Pid, thaw: impl Fn() + Send + 'static) -> Switch {
        drop(self.spare);
        let descriptor = pidfd_open(command, PidfdFlags::empty()).ok();
        *self.target.lock().unwrap_or_else(PoisonError::into_inner) =
            Target::Command(command, descriptor);
        let _ = self.begin.send(Box::new(thaw));
        Switch(self.target)
    }
}

/// Whether a signal set of /proc holds signal `number`.
fn is_in(set: u64, number: i32) -> bool {
    set >> (number - 1) & 1 == 1
}

/// Sends the signal on; `becomes` says as which.
fn pass_on(
    origin: &Origin,
    target: &Mutex<Target>,
    root: &Root,
    becomes: impl FnOnce(Signal) -> Signal,
) {
    let Some(signal) = Signal::from_named_raw(origin.signal) else {
        return;
    };
    let from_kernel = origin.cause == Cause::Kernel;
    match &*target.lock().unwrap_or_else(PoisonError::into_inner) {
        Target::None => {}
        Target::Command(command, descriptor) => {
            let pid = command.as_raw_pid();
            let view = View {
                from_kernel,
                same_group: process_group(root, pid) == Some(getpgrp().as_raw_pid()),
                stopped: is_stopped(root, pid),
            };
            if let Some(signal) = view.passes(signal) {
                let signal = becomes(signal);
                // The command may have ended meanwhile; then there is nobody to tell.
                match descriptor {
                    Some(descriptor) => _ = pidfd_send_signal(descriptor, signal),
                    None if signal_member(pid, signal) => {}
                    // No descriptor is to be had. Until it is waited for the number is the command's.
                    None => _ = kill_process(*command, signal),
                }
            }
        }
        Target::Heirs if !from_kernel => {
            for pid in children(root, rustix::process::getpid().as_raw_pid()) {
                signal_member(pid, signal);
            }
        }
        Target::Heirs => {}
    }
}

/// Sends the signal to process `pid`, if that is one of the job: its number may mean another since it was listed. Whether it could
/// be looked at.
fn signal_member(pid: i32, signal: Signal) -> bool {
    let Ok(process) = Pidfd::open(pid) else {
        return false;
    };
    if neap_sys::Root::own().has_descendant(pid, &process) {
        let _ = process.signal(signal.as_raw()); // it has ended
    }
    true
}

/// What is known when a signal arrives.
#[derive(Clone, Copy, Debug)]
struct View {
    from_kernel: bool,
    same_group: bool,
    stopped: bool,
}

impl View {
    /// The signal to send, if any.
    fn passes(self, signal: Signal) -> Option<Signal> {
        if self.from_kernel && self.same_group {
            return None;
        }
        // A shell continues the whole group; a command that runs needs no second word.
        if signal == Signal::CONT && !self.stopped {
            return None;
        }
        Some(signal)
    }
}

/// `--escalate`: turns repeated SIGINT to neap into something stronger. Only what neap passes on itself counts: at a
/// terminal the command hears each Ctrl-C and decides alone.
#[derive(Debug, Default)]
struct Patience {
    last: Option<u64>,
    repeats: u32,
}

impl Patience {
    fn step(&mut self, signal: Signal, now: u64) -> Signal {
        if signal != Signal::INT {
            return signal;
        }
        let soon = self
            .last
            .is_some_and(|last| now - last < TUNING.command.impatience.0);
        self.repeats = if soon { self.repeats + 1 } else { 0 };
        self.last = Some(now);
        match self.repeats {
            0 => Signal::INT,
            1 => Signal::TERM,
            _ => Signal::KILL,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(from_kernel: bool, same_group: bool, stopped: bool) -> View {
        View {
            from_kernel,
            same_group,
            stopped,
        }
    }

    #[test]
    fn the_terminal_has_told_its_group_already() {
        assert_eq!(view(true, true, false).passes(Signal::INT), None);
        assert_eq!(view(true, true, false).passes(Signal::WINCH), None);
        assert_eq!(
            view(true, false, false).passes(Signal::INT),
            Some(Signal::INT)
        );
    }

    #[test]
    fn what_a_process_sends_to_neap_is_passed_on() {
        for signal in FORWARDED {
            assert_eq!(view(false, true, true).passes(signal), Some(signal));
        }
    }

    #[test]
    fn a_running_command_is_not_continued() {
        assert_eq!(view(false, true, false).passes(Signal::CONT), None);
        assert_eq!(
            view(false, true, true).passes(Signal::CONT),
            Some(Signal::CONT)
        );
    }

    #[test]
    fn a_second_interrupt_within_two_seconds_escalates() {
        let second = 1_000_000_000;
        let mut patience = Patience::default();
        assert_eq!(patience.step(Signal::INT, 0), Signal::INT);
        assert_eq!(patience.step(Signal::INT, second), Signal::TERM);
        assert_eq!(patience.step(Signal::INT, 2 * second), Signal::KILL);
        assert_eq!(patience.step(Signal::INT, 5 * second), Signal::INT);
        assert_eq!(patience.step(Signal::TERM, 5 * second), Signal::TERM);
        assert_eq!(patience.step(Signal::INT, 8 * second), Signal::INT);
    }

    #[test]
    fn signal_sets_count_from_one() {
        assert!(is_in(0x1000, 13));
        assert!(!is_in(0x1000, 12));
        assert!(is_in(1, 1));
    }
}
