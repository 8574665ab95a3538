//! One error type: which call, on what, and the errno.

use std::io;

use neap_tuning::TUNING;

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

    /// What a kernel that is not the machine's answers with.
    pub fn of(call: &'static str, errno: i32) -> Self {
        Self::new(call, "", io::Error::from_raw_os_error(errno))
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

    /// The mode of a file forbids it (EACCES), where a rule would answer with EPERM.
    pub fn is_denied(&self) -> bool {
        self.errno() == libc::EACCES
    }

    /// There is no such file, or nothing behind it.
    pub fn is_missing(&self) -> bool {
        let missing = [libc::ENOENT, libc::ENOTDIR, libc::ENXIO, libc::ENODEV];
        missing.contains(&self.errno())
    }

    /// There is no such system call, or a filter says so.
    pub fn is_unknown_call(&self) -> bool {
        self.errno() == libc::ENOSYS
    }

    /// There is no memory, or no address for it (ENOMEM).
    pub fn is_no_room(&self) -> bool {
        self.errno() == libc::ENOMEM
    }

    /// The kernel does not know what was asked for.
    pub fn is_unknown_flag(&self) -> bool {
        self.errno() == libc::EINVAL
    }

    /// The kernel's word alone, without what was tried.
    pub fn word(&self) -> String {
        let text = self.source.to_string();
        text.split(" (os error")
            .next()
            .unwrap_or_default()
            .to_owned()
    }

    /// See [`shortage`].
    pub fn shortage(&self) -> Option<&'static str> {
        shortage(&self.source)
    }

    /// It may pass: a signal came, or the kernel was short of memory or of room in a queue. What was asked for was not
    /// done, and may be asked for again.
    pub fn passes(&self) -> bool {
        passes(self.errno())
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

/// See [`SysError::passes`].
pub(crate) fn passes(errno: i32) -> bool {
    matches!(
        errno,
        libc::EINTR | libc::EAGAIN | libc::ENOMEM | libc::ENOBUFS
    )
}

/// Makes a call that returns a negative number on failure: at once again after a signal, and a few times more where
/// another error passes that is `worth` it. Its last result.
pub(crate) fn persist(mut call: impl FnMut() -> isize, worth: impl Fn(i32) -> bool) -> isize {
    let mut tries = 1;
    loop {
        let result = call();
        let errno = match result {
            0.. => return result,
            _ => io::Error::last_os_error().raw_os_error().unwrap_or(0),
        };
        if errno == libc::EINTR {
            continue;
        }
        if tries == TUNING.system.calls || !worth(errno) {
            return result;
        }
        tries += 1;
        crate::thread::pause();
    }
}

/// What every fallible call of this crate returns.
pub type Result<T> = std::result::Result<T, SysError>;
