//! Whether a file may be mapped as code: what the dynamic linker does with a library.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Bytes that are mapped to find out.
const PAGE: usize = 4096;

/// Maps the beginning of a file as code and lets it go again.
///
/// # Errors
/// The kernel's word: EPERM on a file system that forbids code (noexec), EACCES of a security module.
pub fn map_as_code(file: BorrowedFd<'_>) -> io::Result<()> {
    let (protection, flags) = (libc::PROT_READ | libc::PROT_EXEC, libc::MAP_PRIVATE);
    let (nowhere, fd) = (std::ptr::null_mut(), file.as_raw_fd());
    // SAFETY: a new mapping at an address of the kernel's choice disturbs nothing; nobody reads or runs it.
    let at = unsafe { libc::mmap(nowhere, PAGE, protection, flags, fd, 0) };
    if at == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the mapping was made above, and nothing refers to it.
    unsafe { libc::munmap(at, PAGE) };
    Ok(())
}
