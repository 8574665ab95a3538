//! Connections of other programs: who is at the other end, and waiting until something can be done on some of many.

use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::errno::{Result, SysError};
use crate::process::Pidfd;

/// The process that connected, in our pid namespace, and the user that it acted for then.
pub fn peer_of(socket: BorrowedFd<'_>) -> Result<(i32, u32)> {
    let mut who = libc::ucred {
        pid: 0,
        uid: u32::MAX,
        gid: u32::MAX,
    };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to `who`, which is as it has it.
    let got = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut who).cast(),
            &raw mut len,
        )
    };
    match got {
        0 => Ok((who.pid, who.uid)),
        _ => Err(SysError::last("getsockopt", "SO_PEERCRED")),
    }
}

/// That process itself. Kernels before 6.5 know its number only.
pub fn pidfd_of(socket: BorrowedFd<'_>) -> Result<Pidfd> {
    const SO_PEERPIDFD: libc::c_int = 77;
    let mut fd: libc::c_int = -1;
    let mut len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to `fd`, which is as it has it.
    let got = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PEERPIDFD,
            (&raw mut fd).cast(),
            &raw mut len,
        )
    };
    if got == 0 {
        // SAFETY: the kernel just gave us this descriptor and nobody else owns it.
        return Ok(Pidfd::adopt(unsafe { OwnedFd::from_raw_fd(fd) }));
    }
    match SysError::last("getsockopt", "SO_PEERPIDFD") {
        error if error.errno() == libc::ENOPROTOOPT => Pidfd::open(peer_of(socket)?.0),
        error => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn the_other_end_is_known() {
        let (_one, other) = UnixStream::pair().expect("a pair");
        let own = std::process::id().cast_signed();
        assert_eq!(
            peer_of(other.as_fd()).expect("it"),
            (own, crate::own_user())
        );
    }
}
