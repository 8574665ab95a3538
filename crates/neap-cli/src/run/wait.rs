//! Waits for the command, and for what it leaves behind.
//!
//! neap is the subreaper of its job: a process that loses its parent becomes neap's child, so waiting
//! for children until there are none is waiting for the whole job. A managed process cannot live
//! without the engine, so neap stays until the last one is gone and then ends as the *command* ended.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustix::io::{Errno, retry_on_intr};
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpgrp, getpid, kill_process, set_child_subreaper, wait,
};

use crate::exit::Ending;
use crate::machine::{Root, has_terminal, ignored_signals, is_stopped, process_group};

/// Makes this process the one that inherits orphans of the job.
///
/// # Errors
/// When the kernel refuses (it does not since Linux 3.4).
pub fn become_subreaper() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// Makes sure that statuses can be waited for: a parent that ignored SIGCHLD has handed that down, and
/// the kernel then throws statuses away. The command finds SIGCHLD at its default instead of ignored.
///
/// # Errors
/// When the kernel refuses a handler.
pub fn keep_statuses(root: &Root) -> io::Result<()> {
    let child = Signal::CHILD.as_raw();
    if ignored_signals(root) >> (child - 1) & 1 == 1 {
        signal_hook::flag::register(child, Arc::new(AtomicBool::new(false)))?;
    }
    Ok(())
}

/// How long to stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stay {
    /// Until the command has ended.
    ForCommand,
    /// Until the last process of the job has ended.
    ForAll,
}

/// Waits; `ended` is called once, when the command has ended.
///
/// # Errors
/// When the kernel does not know the command as a child.
pub fn wait_for(
    command: Pid,
    stay: Stay,
    root: &Root,
    ended: impl FnOnce(Ending),
) -> io::Result<Ending> {
    let mut ended = Some(ended);
    let mut ending = None;
    loop {
        match retry_on_intr(|| wait(WaitOptions::UNTRACED)) {
            Ok(Some((pid, status))) if pid == command => {
                if let Some(signal) = status.stopping_signal() {
                    follow_stop(command, signal, root);
                } else if let Some(how) = ending_of(status) {
                    ending = Some(how);
                    if let Some(ended) = ended.take() {
                        ended(how);
                    }
                    if stay == Stay::ForCommand {
                        return Ok(how);
                    }
                }
            }
            Ok(_) => {}
            Err(Errno::CHILD) => return ending.ok_or_else(|| Errno::CHILD.into()),
            Err(errno) => return Err(errno.into()),
        }
    }
}

fn ending_of(status: WaitStatus) -> Option<Ending> {
    let code = |code| u8::try_from(code).unwrap_or(u8::MAX);
    let exited = status.exit_status().map(|n| Ending::Exited(code(n)));
    exited.or_else(|| status.terminating_signal().map(Ending::Signaled))
}

/// Stops neap when job control stopped the command, so that the shell takes the terminal back. Not
/// after SIGSTOP or without a terminal: nobody would continue neap, and with it the page faults of a
/// command that somebody did continue.
fn follow_stop(command: Pid, signal: i32, root: &Root) {
    let by_terminal = [Signal::TSTP, Signal::TTIN, Signal::TTOU]
        .iter()
        .any(|stop| stop.as_raw() == signal);
    let pid = command.as_raw_pid();
    let same_group = process_group(root, pid) == Some(getpgrp().as_raw_pid());
    if by_terminal && same_group && has_terminal(root) && is_stopped(root, pid) {
        // Comes back when the shell continues the group.
        let _ = kill_process(getpid(), Signal::STOP);
    }
}
