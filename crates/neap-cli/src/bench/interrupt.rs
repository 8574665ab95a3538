//! How a bench is ended before its end, by a signal or by a failure, and that it then still tidies.

use std::io;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::Signal;
use signal_hook::consts;

use crate::failure::Failure;
use crate::machine::{Root, ignored_signals};

/// The signals that end a bench: those that would end it at once, with the machine as it is then. Those that tell
/// of a fault of the program's own are no part of it.
const ENDING: [i32; 13] = [
    consts::SIGINT,
    consts::SIGTERM,
    consts::SIGHUP,
    consts::SIGQUIT,
    consts::SIGALRM,
    consts::SIGUSR1,
    consts::SIGUSR2,
    consts::SIGXCPU,
    consts::SIGVTALRM,
    consts::SIGPROF,
    consts::SIGIO,
    Signal::POWER.as_raw(),
    Signal::STKFLT.as_raw(),
];
/// The real-time signals, which end a process too; glibc keeps the two before them (signal(7)).
const REAL_TIME: RangeInclusive<i32> = 34..=64;

/// Why a bench stops before its end.
#[derive(Debug)]
pub enum Stop {
    /// By a signal.
    Signal(i32),
    /// By a failure of neap's own.
    Failed(Failure),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Stop::Failed(failure)
    }
}

/// The last signal that asked for the end.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicUsize>);

impl Interrupt {
    /// Catches the signals, but for those that were ignored when neap started.
    ///
    /// # Errors
    /// When the kernel refuses a handler.
    pub fn install(root: &Root) -> io::Result<Self> {
        let caught = Self::default();
        let ignored = ignored_signals(root);
        for signal in ENDING.into_iter().chain(REAL_TIME) {
            if ignored >> (signal - 1) & 1 == 0 {
                let value = usize::try_from(signal).unwrap_or_default();
                signal_hook::flag::register_usize(signal, caught.0.clone(), value)?;
            }
        }
        Ok(caught)
    }

    /// As if `signal` had come.
    #[cfg(test)]
    pub fn catch(&self, signal: i32) {
        let value = usize::try_from(signal).unwrap_or_default();
        self.0.store(value, Ordering::Relaxed);
    }

    /// The signal, if there was one.
    #[must_use]
    pub fn caught(&self) -> Option<i32> {
        let signal = self.0.load(Ordering::Relaxed);
        i32::try_from(signal).ok().filter(|signal| *signal != 0)
    }

    /// Goes on unless there was one.
    ///
    /// # Errors
    /// There was.
    pub fn check(&self) -> Result<(), Stop> {
        self.caught()
            .map_or(Ok(()), |signal| Err(Stop::Signal(signal)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_stops_a_bench_once_it_came() {
        let interrupt = Interrupt::default();
        assert!(interrupt.check().is_ok());
        interrupt.catch(15);
        assert!(matches!(interrupt.check(), Err(Stop::Signal(15))));
    }

    /// In a process of its own, for handlers stay.
    #[test]
    fn whatever_would_end_a_bench_at_once_is_caught() {
        const OWN: &str = "NEAP_TEST_CATCHES";
        if std::env::var_os(OWN).is_none() {
            let name = "bench::interrupt::tests::whatever_would_end_a_bench_at_once_is_caught";
            let done = std::process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", name])
                .env(OWN, "1")
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&done.stdout);
            assert!(done.status.success(), "{said}");
            assert!(said.contains("1 passed"), "{said}");
            return;
        }
        let root = Root::real();
        let caught = Interrupt::install(&root).unwrap();
        let status = root.read("/proc/self/status").unwrap();
        let mask = |name| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            u64::from_str_radix(line.unwrap().trim(), 16).unwrap()
        };
        let kept = mask("SigCgt:") | mask("SigIgn:");
        for signal in ENDING.into_iter().chain(REAL_TIME) {
            assert_eq!(kept >> (signal - 1) & 1, 1, "signal {signal}");
        }
        for signal in [Signal::POWER.as_raw(), 40] {
            signal_hook::low_level::raise(signal).unwrap();
            assert_eq!(caught.caught(), Some(signal));
        }
    }
}
