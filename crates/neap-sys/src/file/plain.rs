//! pread and pwrite until everything is done.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Runs a call that returns -1 and sets errno, again while a signal interrupts it.
pub(super) fn retry(mut call: impl FnMut() -> isize) -> io::Result<usize> {
    loop {
        if let Ok(n) = usize::try_from(call()) {
            return Ok(n);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Fills `buffer` from `offset`.
pub(super) fn read_all(file: &File, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
    file.read_exact_at(buffer, offset)
}

/// Writes all of `bytes` at `offset`.
pub(super) fn write_all(file: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
    file.write_all_at(bytes, offset)
}
