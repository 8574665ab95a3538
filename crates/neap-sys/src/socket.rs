//! The unix sockets between the engine and the programs: messages with descriptors, names in the
//! abstract namespace (they need no directory and vanish with the engine).

use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use crate::errno::{Result, SysError};

/// Descriptors in one message.
const MAX_FDS: usize = 8;

/// A listening SOCK_SEQPACKET socket.
#[derive(Debug)]
pub struct Listener(OwnedFd);

/// One end of a connection.
#[derive(Debug)]
pub struct Peer(OwnedFd);

/// What arrived.
#[derive(Debug)]
pub struct Message {
    /// Bytes received; 0 when the other end is gone.
    pub len: usize,
    /// Descriptors received, in order.
    pub fds: Vec<OwnedFd>,
}

fn seqpacket() -> Result<OwnedFd> {
    // SAFETY: the call takes integers only.
    let fd = unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(SysError::last("socket", "unix"));
    }
    // SAFETY: the kernel just gave us this descriptor and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn address(name: &[u8]) -> (libc::sockaddr_un, libc::socklen_t) {
    // SAFETY: an all-zero sockaddr_un is valid.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    // The first byte of sun_path stays 0: the abstract namespace.
    let room = address.sun_path.len() - 1;
    for (to, from) in address.sun_path[1..].iter_mut().zip(name) {
        *to = *from as libc::c_char;
    }
    let len = size_of::<libc::sa_family_t>() + 1 + name.len().min(room);
    (address, len as libc::socklen_t)
}

impl Listener {
    /// Listens on the abstract name.
    pub fn bind(name: &[u8]) -> Result<Self> {
        let fd = seqpacket()?;
        let (address, len) = address(name);
        // SAFETY: `address` is a sockaddr_un and `len` is within it.
        let bound = unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) };
        if bound < 0 {
            return Err(SysError::last("bind", String::from_utf8_lossy(name)));
        }
        // SAFETY: integers only.
        if unsafe { libc::listen(fd.as_raw_fd(), 128) } < 0 {
            return Err(SysError::last("listen", String::from_utf8_lossy(name)));
        }
        Ok(Self(fd))
    }

    /// Waits for a connection.
    pub fn accept(&self) -> Result<Peer> {
        // SAFETY: null address pointers ask for no address.
        let fd = unsafe {
            libc::accept4(
                self.0.as_raw_fd(),
                std::ptr::null_mut(),
                std::ptr::null_mut(),
                libc::SOCK_CLOEXEC,
            )
        };
        if fd < 0 {
            return Err(SysError::last("accept", ""));
        }
        // SAFETY: the kernel just gave us this descriptor and nobody else owns it.
        Ok(Peer(unsafe { OwnedFd::from_raw_fd(fd) }))
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsFd for Peer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Peer {
    /// Both ends of a connection, without a listener.
    pub fn pair() -> Result<(Self, Self)> {
        let mut fds = [-1; 2];
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
        // SAFETY: the kernel writes two descriptors.
        if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, fds.as_mut_ptr()) } < 0 {
            return Err(SysError::last("socketpair", "unix"));
        }
        // SAFETY: the kernel just gave us these descriptors and nobody else owns them.
        let [one, other] = fds.map(|fd| Self(unsafe { OwnedFd::from_raw_fd(fd) }));
        Ok((one, other))
    }

    /// The process at the other end, as the kernel saw it connect, in our pid namespace.
    pub fn pid(&self) -> Result<i32> {
        let mut who = libc::ucred {
            pid: 0,
            uid: 0,
            gid: 0,
        };
        let mut len = size_of::<libc::ucred>() as libc::socklen_t;
        // SAFETY: the kernel writes at most `len` bytes to `who`.
        let got = unsafe {
            libc::getsockopt(
                self.0.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                (&raw mut who).cast(),
                &raw mut len,
            )
        };
        if got < 0 {
            return Err(SysError::last("getsockopt", "SO_PEERCRED"));
        }
        Ok(who.pid)
    }

    /// Gives up a `receive` that has waited for `millis`.
    pub fn set_timeout(&self, millis: u32) -> Result<()> {
        let limit = libc::timeval {
            tv_sec: libc::time_t::from(millis / 1000),
            tv_usec: libc::suseconds_t::from(millis % 1000 * 1000),
        };
        // SAFETY: the kernel reads one timeval.
        let set = unsafe {
            libc::setsockopt(
                self.0.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_RCVTIMEO,
                (&raw const limit).cast(),
                size_of::<libc::timeval>() as libc::socklen_t,
            )
        };
        if set < 0 {
            return Err(SysError::last("setsockopt", "SO_RCVTIMEO"));
        }
        Ok(())
    }

    /// Sends `bytes` with `fds` (at most 8) as one message.
    pub fn send(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<()> {
        let mut iov = libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        let mut control = [0u64; 16];
        // SAFETY: an all-zero msghdr is valid.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_iov = &raw mut iov;
        header.msg_iovlen = 1;
        let fds = &fds[..fds.len().min(MAX_FDS)];
        if !fds.is_empty() {
            let room = size_of::<RawFd>() * fds.len();
            header.msg_control = control.as_mut_ptr().cast();
            // SAFETY: CMSG_SPACE and CMSG_LEN are arithmetic; the control buffer holds 8
            // descriptors and a header; CMSG_FIRSTHDR points into it.
            unsafe {
                header.msg_controllen = libc::CMSG_SPACE(room as u32) as usize;
                let first = libc::CMSG_FIRSTHDR(&raw const header);
                (*first).cmsg_level = libc::SOL_SOCKET;
                (*first).cmsg_type = libc::SCM_RIGHTS;
                (*first).cmsg_len = libc::CMSG_LEN(room as u32) as usize;
                let data = libc::CMSG_DATA(first).cast::<RawFd>();
                for (i, fd) in fds.iter().enumerate() {
                    data.add(i).write_unaligned(fd.as_raw_fd());
                }
            }
        }
        // SAFETY: the header's pointers are to locals and `bytes`, all alive here.
        let sent =
            unsafe { libc::sendmsg(self.0.as_raw_fd(), &raw const header, libc::MSG_NOSIGNAL) };
        if sent < 0 {
            return Err(SysError::last("sendmsg", ""));
        }
        Ok(())
    }

    /// Waits for one message; `len` 0 means that the other end is gone.
    pub fn receive(&self, bytes: &mut [u8]) -> Result<Message> {
        let mut iov = libc::iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: bytes.len(),
        };
        let mut control = [0u64; 16];
        // SAFETY: an all-zero msghdr is valid.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_iov = &raw mut iov;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of::<[u64; 16]>();
        // SAFETY: the header's pointers are to locals and `bytes`, all alive here.
        let got =
            unsafe { libc::recvmsg(self.0.as_raw_fd(), &raw mut header, libc::MSG_CMSG_CLOEXEC) };
        if got < 0 {
            return Err(SysError::last("recvmsg", ""));
        }
        let mut fds = Vec::new();
        // SAFETY: the kernel filled the control buffer; the CMSG macros walk it within
        // msg_controllen, and each descriptor was installed for us.
        unsafe {
            let mut next = libc::CMSG_FIRSTHDR(&raw const header);
            while !next.is_null() {
                if (*next).cmsg_level == libc::SOL_SOCKET && (*next).cmsg_type == libc::SCM_RIGHTS {
                    let bytes = (*next).cmsg_len - libc::CMSG_LEN(0) as usize;
                    let data = libc::CMSG_DATA(next).cast::<RawFd>();
                    for i in 0..bytes / size_of::<RawFd>() {
                        fds.push(OwnedFd::from_raw_fd(data.add(i).read_unaligned()));
                    }
                }
                next = libc::CMSG_NXTHDR(&raw const header, next);
            }
        }
        Ok(Message {
            len: got.unsigned_abs(),
            fds,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_descriptors_arrive_together() {
        let name = format!("neap-test-{}", std::process::id());
        let listener = Listener::bind(name.as_bytes()).expect("bind");
        let (from, len) = address(name.as_bytes());
        let client = Peer(seqpacket().expect("socket"));
        // SAFETY: `from` is a sockaddr_un and `len` is within it.
        let done = unsafe { libc::connect(client.0.as_raw_fd(), (&raw const from).cast(), len) };
        assert_eq!(done, 0);
        let server = listener.accept().expect("accept");
        let waker = crate::Waker::new().expect("waker");
        client.send(b"hello", &[waker.as_fd()]).expect("send");
        let mut bytes = [0; 64];
        let message = server.receive(&mut bytes).expect("receive");
        assert_eq!(&bytes[..message.len], b"hello");
        assert_eq!(message.fds.len(), 1);
        waker.wake();
        let ready = crate::wait_readable(&[message.fds[0].as_fd()], Some(0)).expect("poll");
        assert_eq!(ready, 1);
        assert_eq!(
            server.pid().expect("pid").unsigned_abs(),
            std::process::id()
        );
        drop(client);
        assert_eq!(server.receive(&mut bytes).expect("receive").len, 0);
    }
}
