//! What the user is told while the job runs: a line on standard error each.
//!
//! Nobody may read standard error, and then a write waits for ever. So a thread of its own writes, and ends when all is
//! written. Whoever warns may hold locks, and programs may wait for it.

use std::io::Write;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use crate::spawn::try_spawn;

/// The warnings of a job.
#[derive(Default)]
pub(crate) struct Warnings {
    lines: Mutex<Lines>,
    written: Condvar,
}

#[derive(Default)]
struct Lines {
    all: Vec<String>,
    /// So many of them are written.
    written: usize,
    /// A thread writes the others.
    writing: bool,
}

impl Warnings {
    /// Kept, and never written.
    pub fn unwritten() -> Self {
        let lines = Lines {
            writing: true,
            ..Lines::default()
        };
        Self {
            lines: Mutex::new(lines),
            written: Condvar::new(),
        }
    }

    /// Adds a line, unless it is there, and has it written. After `most` lines nothing more is said. Whether it is new.
    pub fn add(self: &Arc<Self>, mut line: String, most: usize) -> bool {
        {
            let mut lines = self.lines();
            if lines.all.contains(&line) || lines.all.len() >= most {
                return false;
            }
            if lines.all.len() == most - 1 {
                line = "there is more to warn of than is said here".into();
            }
            lines.all.push(line);
            if std::mem::replace(&mut lines.writing, true) {
                return true;
            }
        }
        let its = self.clone();
        let writes = move || {
            neap_sys::block_signals();
            its.write(&mut std::io::stderr());
        };
        if try_spawn("neap-warn", writes).is_err() {
            self.write(&mut std::io::stderr()); // it may be of just that
        }
        true
    }

    /// All lines so far.
    pub fn all(&self) -> Vec<String> {
        self.lines().all.clone()
    }

    /// Waits until all lines are written, but no longer than this.
    pub fn flush(&self, longest: Duration) {
        let waits = |lines: &mut Lines| lines.writing;
        let waited = self
            .written
            .wait_timeout_while(self.lines(), longest, waits);
        drop(waited.expect("warnings lock"));
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().expect("warnings lock")
    }

    /// Writes what is not written yet. The caller is the only one who does.
    fn write(&self, to: &mut impl Write) {
        loop {
            let line = {
                let mut lines = self.lines();
                let Some(line) = lines.all.get(lines.written).cloned() else {
                    lines.writing = false;
                    self.written.notify_all();
                    return;
                };
                lines.written += 1;
                line
            };
            let _ = to.write_all(format!("neap: {line}\n").as_bytes()); // a closed stderr is no reason to end the job
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_written_once_in_their_order_and_no_more_than_most() {
        let warnings = Arc::new(Warnings::default());
        warnings.lines().writing = true; // as while another thread writes
        for line in ["one", "two", "one", "three", "four"] {
            warnings.add(line.into(), 3);
        }
        let mut said = Vec::new();
        warnings.write(&mut said);
        let rest = "there is more to warn of than is said here";
        assert_eq!(warnings.all(), ["one", "two", rest]);
        let said = String::from_utf8(said).unwrap();
        assert_eq!(said, format!("neap: one\nneap: two\nneap: {rest}\n"));
        assert!(!warnings.lines().writing);
        warnings.flush(Duration::MAX);
    }

    #[test]
    fn a_line_that_nobody_reads_is_not_waited_for() {
        let warnings = Warnings::default();
        warnings.lines().writing = true;
        warnings.flush(Duration::ZERO);
    }
}
