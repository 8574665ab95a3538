//! One error type: which call, on what, and the errno.

use std::io;

/// A system call that failed in a way its caller has no answer to.
#[derive(Debug, thiserror::Error)]
#[error("{call}{on}: {source}")]
pub struct SysError {
    call: &'static str,
    on: String,
    source: io::Error,
}

impl SysError {
    /// The errno of the last failed libc call, with what was tried.
    pub(crate) fn last(call: &'static str, on: impl Into<String>) -> Self {
        Self::new(call, on, io::Error::last_os_error())
    }

    pub(crate) fn new(call: &'static str, on: impl Into<String>, source: io::Error) -> Self {
        let on = on.into();
        let on = if on.is_empty() { on } else { format!("({on})") };
        Self { call, on, source }
    }

    /// The errno behind the failure; 0 when the failure was not the kernel's.
    pub fn errno(&self) -> i32 {
        self.source.raw_os_error().unwrap_or(0)
    }

    /// The machine or its policy forbids the call (EPERM or EACCES): a remedy may exist.
    pub fn is_refused(&self) -> bool {
        matches!(self.errno(), libc::EPERM | libc::EACCES)
    }

    /// See [`shortage`].
    pub fn shortage(&self) -> Option<&'static str> {
        shortage(&self.source)
    }

    /// The wait was given up.
    pub fn is_timeout(&self) -> bool {
        matches!(self.errno(), libc::EAGAIN | libc::EINTR)
    }

    /// The other process or its address space no longer exists.
    pub fn is_gone(&self) -> bool {
        self.errno() == libc::ESRCH
    }
}

/// What to do where one of this user's limits was met; `None` where the error is another.
#[must_use]
pub fn shortage(error: &io::Error) -> Option<&'static str> {
    match error.raw_os_error()? {
        libc::EMFILE => Some("raise `ulimit -n`"),
        libc::ENFILE => Some("raise the sysctl fs.file-max"),
        libc::EAGAIN => Some("raise `ulimit -u`, or pids.max of the cgroup"),
        _ => None,
    }
}

/// What every fallible call of this crate returns.
pub type Result<T> = std::result::Result<T, SysError>;
