//! How a bench is ended before its end, by a signal or by a failure, and that it then still tidies.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts;

use crate::failure::Failure;
use crate::machine::{Root, ignored_signals};

/// The signals that end a bench: those that would end it at once, with the machine as it is then.
const ENDING: [i32; 10] = [
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
];

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
    /// Catches the signals and SIGXFSZ, but for those that were ignored when neap started.
    ///
    /// # Errors
    /// When the kernel refuses a handler.
    pub fn install(root: &Root) -> io::Result<Self> {
        let caught = Self::default();
        let ignored = ignored_signals(root);
        for signal in ENDING {
            if ignored >> (signal - 1) & 1 == 0 {
                let value = usize::try_from(signal).unwrap_or_default();
                signal_hook::flag::register_usize(signal, caught.0.clone(), value)?;
            }
        }
        // Its writer hears of the file that is too large.
        if ignored >> (consts::SIGXFSZ - 1) & 1 == 0 {
            signal_hook::flag::register(consts::SIGXFSZ, Arc::new(AtomicBool::new(false)))?;
        }
        Ok(caught)
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
        interrupt.0.store(15, Ordering::Relaxed);
        assert!(matches!(interrupt.check(), Err(Stop::Signal(15))));
    }

    #[test]
    fn whatever_would_end_a_bench_at_once_is_caught() {
        let root = Root::real();
        let _caught = Interrupt::install(&root).unwrap();
        let status = root.read("/proc/self/status").unwrap();
        let mask = |name| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            u64::from_str_radix(line.unwrap().trim(), 16).unwrap()
        };
        let kept = mask("SigCgt:") | mask("SigIgn:");
        for signal in [1, 2, 3, 10, 12, 14, 15, 24, 25, 26, 27] {
            assert_eq!(kept >> (signal - 1) & 1, 1, "signal {signal}");
        }
    }
}
