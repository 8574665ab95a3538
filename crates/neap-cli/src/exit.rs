//! Exit codes: the one table, and how neap ends as its command ended.

use std::process::ExitCode;

use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};
use signal_hook::low_level::{emulate_default_handler, signal_name};

/// Exit codes with a meaning of their own, as docker, env and timeout have them; every other code is
/// the command's. Shown by `neap run --help`.
pub const TABLE: &[(u8, &str)] = &[
    (
        0,
        "the command succeeded; for doctor: neap run would manage a program here",
    ),
    (1, "for doctor: something is missing"),
    (
        2,
        "neap was called without a subcommand, or doctor with a wrong flag",
    ),
    (FAILED, "neap itself failed before the command ran"),
    (
        NOT_EXECUTABLE,
        "the command was found but cannot be executed",
    ),
    (NOT_FOUND, "the command was not found"),
    (128, "and above: 128+N, the command was ended by signal N"),
];

/// The exit codes of `neap bench`, which never ends as its command did. Shown by `neap bench --help`.
pub const BENCH_TABLE: &[(u8, &str)] = &[
    (
        0,
        "every counted run ended as plain did, with the same output (unless the plain ones differ among themselves)",
    ),
    (
        DIFFERENT,
        "a counted run ended otherwise, some output differs, or only plain could be measured",
    ),
    (2, "a wrong flag"),
    (FAILED, "neap itself failed"),
    (
        NOT_EXECUTABLE,
        "the command was found but cannot be executed",
    ),
    (NOT_FOUND, "the command was not found"),
    (128, "and above: 128+N, the bench was ended by signal N"),
];

/// A bench whose runs differ in what they did, or that compared nothing.
pub const DIFFERENT: u8 = 1;
/// neap itself failed.
pub const FAILED: u8 = 125;
/// The command was found but cannot be executed.
pub const NOT_EXECUTABLE: u8 = 126;
/// The command was not found.
pub const NOT_FOUND: u8 = 127;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// By itself, with this code.
    Exited(u8),
    /// By this signal.
    Signaled(i32),
}

impl Ending {
    /// The status as a shell shows it: the code, or 128+N.
    #[must_use]
    pub fn status(self) -> u8 {
        match self {
            Ending::Exited(code) => code,
            // Signal numbers end at 64, so the sum fits.
            Ending::Signaled(signal) => 128u8.saturating_add(u8::try_from(signal).unwrap_or(127)),
        }
    }

    /// The line of `--exit-file`: unlike a status, it tells exit 137 from signal 9.
    #[must_use]
    pub fn line(self) -> String {
        match self {
            Ending::Exited(code) => format!("exited {code}\n"),
            Ending::Signaled(signal) => format!("signaled {signal} {}\n", name(signal)),
        }
    }

    /// Ends this process in the same way. A signal is raised on ourselves, so that whoever waits for
    /// neap sees what it would have seen of the command; cores are off, for the memory that tells
    /// anything is the command's.
    pub fn imitate(self) -> ExitCode {
        if let Ending::Signaled(signal) = self {
            let none = Rlimit {
                current: Some(0),
                maximum: Some(0),
            };
            // Both may only fail towards a core too many.
            let _ = setrlimit(Resource::Core, none);
            let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
            // Comes back for signals that do not end a process, and in the init process of a
            // container, which no signal of its own ends.
            if ends_a_process(signal) {
                let _ = emulate_default_handler(signal);
            }
        }
        ExitCode::from(self.status())
    }
}

/// Whether the signal ended a process by default action, which emulation may then repeat. Others (real
/// time signals, SIGSTKFLT, SIGPWR) are told by the status alone.
fn ends_a_process(signal: i32) -> bool {
    signal_name(signal).is_some()
}

/// The signal's name, such as SIGKILL, or SIGN for one without.
#[must_use]
pub fn name(signal: i32) -> String {
    signal_name(signal).map_or_else(|| format!("SIG{signal}"), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_the_code_or_128_and_the_signal() {
        assert_eq!(Ending::Exited(0).status(), 0);
        assert_eq!(Ending::Exited(255).status(), 255);
        assert_eq!(Ending::Signaled(9).status(), 137);
        assert_eq!(Ending::Signaled(64).status(), 192);
    }

    #[test]
    fn the_exit_file_tells_137_from_signal_9() {
        assert_eq!(Ending::Exited(137).line(), "exited 137\n");
        assert_eq!(Ending::Signaled(9).line(), "signaled 9 SIGKILL\n");
        assert_eq!(Ending::Signaled(40).line(), "signaled 40 SIG40\n");
    }

    #[test]
    fn the_table_is_in_order_and_names_the_constants() {
        for table in [TABLE, BENCH_TABLE] {
            assert!(table.windows(2).all(|pair| pair[0].0 < pair[1].0));
            for code in [FAILED, NOT_EXECUTABLE, NOT_FOUND] {
                assert!(table.iter().any(|(listed, _)| *listed == code));
            }
        }
    }
}
