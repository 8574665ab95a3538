//! neap's voice: stderr, whole lines, never stdout. A closed stderr is not an error.

use std::io::Write;

/// One line as it is.
pub fn say(line: &str) {
    raw(&format!("{line}\n"));
}

/// One line of warning.
pub fn warn(line: &str) {
    say(&format!("neap: warning: {line}"));
}

/// One line of `-v`.
pub fn note(line: &str) {
    say(&format!("neap: {line}"));
}

/// Text that brings its own newlines, in one write so that it does not mix with the command's.
pub fn raw(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}
