//! The unix sockets between the engine and the programs: messages with descriptors, and who is at the other end.

use std::ffi::CString;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::thread;

use crate::errno::{Result, SysError, persist};
use crate::process::Pidfd;

/// Descriptors in one message. What comes beyond that the kernel closes.
const MAX_FDS: usize = 8;
/// Words of a control message with so many.
const CONTROL: usize = 2 + MAX_FDS / 2;
/// Callers that the kernel keeps until they are accepted.
const BACKLOG: i32 = 128;

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

/// Errors of a message that another try may not meet.
pub(crate) fn lacks_memory(errno: i32) -> bool {
    matches!(errno, libc::ENOMEM | libc::ENOBUFS)
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

/// Binds a socket to a name in a directory, and listens.
fn bind_in(socket: &OwnedFd, dir: &Path, name: &str) -> io::Result<()> {
    let dir = CString::new(dir.as_os_str().as_bytes())?;
    // SAFETY: an all-zero sockaddr_un is valid.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let room = address.sun_path.len() - 1; // the path ends with a zero
    for (to, from) in address.sun_path[..room].iter_mut().zip(name.as_bytes()) {
        *to = *from as libc::c_char;
    }
    let len = size_of::<libc::sockaddr_un>() as libc::socklen_t;
    // SAFETY: integers, a path that ends with a zero, and a sockaddr_un of its own size. What is unshared is the
    // calling thread's: the working directory of all others stays.
    let failed = unsafe {
        libc::unshare(libc::CLONE_FS) != 0
            || libc::chdir(dir.as_ptr()) != 0
            || libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) != 0
            || libc::listen(socket.as_raw_fd(), BACKLOG) != 0
    };
    if failed {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

impl Listener {
    /// Listens in a directory, without waiting in [`accept`](Self::accept). A thread of its own goes there and binds
    /// the bare name, which is all that `/proc/net/unix` shows: everyone may read that.
    pub fn bind(dir: &Path, name: &str) -> Result<Self> {
        let socket = seqpacket()?;
        let bound = thread::scope(|scope| {
            let work = || bind_in(&socket, dir, name);
            let helper = thread::Builder::new().spawn_scoped(scope, work)?;
            helper
                .join()
                .unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
        });
        bound.map_err(|error| SysError::new("bind", dir.display().to_string(), error))?;
        // SAFETY: integers only.
        unsafe { libc::fcntl(socket.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
        Ok(Self(socket))
    }

    /// The next connection that waits.
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

    /// An option of the socket that the kernel fills in.
    fn option<T>(&self, name: libc::c_int, what: &'static str, mut value: T) -> Result<T> {
        let mut len = size_of::<T>() as libc::socklen_t;
        let socket = self.0.as_raw_fd();
        // SAFETY: the kernel writes at most `len` bytes to `value`, whose type every caller chooses as the kernel has it.
        let got = unsafe {
            libc::getsockopt(
                socket,
                libc::SOL_SOCKET,
                name,
                (&raw mut value).cast(),
                &raw mut len,
            )
        };
        match got {
            0 => Ok(value),
            _ => Err(SysError::last("getsockopt", what)),
        }
    }

    /// The number, in our pid namespace, of the process at the other end, as the kernel saw it connect. It may mean
    /// another by now: see [`pidfd`](Self::pidfd).
    pub fn pid(&self) -> Result<i32> {
        let nobody = libc::ucred {
            pid: 0,
            uid: 0,
            gid: 0,
        };
        let who = self.option(libc::SO_PEERCRED, "SO_PEERCRED", nobody)?;
        Ok(who.pid)
    }

    /// That process itself. Kernels before 6.5 know its number only.
    pub fn pidfd(&self) -> Result<Pidfd> {
        const SO_PEERPIDFD: libc::c_int = 77;
        match self.option(SO_PEERPIDFD, "SO_PEERPIDFD", -1) {
            // SAFETY: the kernel just gave us this descriptor and nobody else owns it.
            Ok(fd) => Ok(Pidfd::adopt(unsafe { OwnedFd::from_raw_fd(fd) })),
            Err(error) if error.errno() == libc::ENOPROTOOPT => Pidfd::open(self.pid()?),
            Err(error) => Err(error),
        }
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

    /// Sends `bytes` with `fds` (at most 8) as one message, if there is room for it: nobody waits for one who does not
    /// listen.
    pub fn send(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<()> {
        let mut iov = libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        let mut control = [0u64; CONTROL];
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
        let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
        // SAFETY: the header's pointers are to locals and `bytes`, all alive here.
        let send = || unsafe { libc::sendmsg(self.0.as_raw_fd(), &raw const header, flags) };
        if persist(send, lacks_memory) < 0 {
            return Err(SysError::last("sendmsg", ""));
        }
        Ok(())
    }

    /// Waits for one message; `len` 0 means that the other end is gone.
    pub fn receive(&self, bytes: &mut [u8]) -> Result<Message> {
        self.take(bytes, 0)
    }

    /// The same without waiting.
    pub fn try_receive(&self, bytes: &mut [u8]) -> Result<Message> {
        self.take(bytes, libc::MSG_DONTWAIT)
    }

    fn take(&self, bytes: &mut [u8], flags: libc::c_int) -> Result<Message> {
        let mut iov = libc::iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: bytes.len(),
        };
        let mut control = [0u64; CONTROL];
        // SAFETY: an all-zero msghdr is valid.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_iov = &raw mut iov;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of::<[u64; CONTROL]>();
        let flags = flags | libc::MSG_CMSG_CLOEXEC;
        // SAFETY: the header's pointers are to locals and `bytes`, all alive here; the kernel changes it on success only.
        let receive = || unsafe { libc::recvmsg(self.0.as_raw_fd(), &raw mut header, flags) };
        let got = persist(receive, lacks_memory);
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

    /// A client of a socket of its own directory, and the engine's end of it.
    fn meet() -> (Peer, Peer) {
        let dir = tempfile::tempdir().expect("a directory");
        let here = std::env::current_dir().expect("a working directory");
        let listener = Listener::bind(dir.path(), "s").expect("bind");
        assert_eq!(std::env::current_dir().expect("the same"), here);
        let client = UnixSocket::connect(&dir.path().join("s"));
        let server = listener.accept().expect("accept");
        assert!(listener.accept().is_err(), "nobody waits");
        (client, server)
    }

    struct UnixSocket;

    impl UnixSocket {
        fn connect(path: &Path) -> Peer {
            let client = seqpacket().expect("socket");
            // SAFETY: an all-zero sockaddr_un is valid.
            let mut to: libc::sockaddr_un = unsafe { std::mem::zeroed() };
            to.sun_family = libc::AF_UNIX as libc::sa_family_t;
            for (to, from) in to.sun_path.iter_mut().zip(path.as_os_str().as_bytes()) {
                *to = *from as libc::c_char;
            }
            let len = size_of::<libc::sockaddr_un>() as libc::socklen_t;
            // SAFETY: a sockaddr_un of its own size.
            let done = unsafe { libc::connect(client.as_raw_fd(), (&raw const to).cast(), len) };
            assert_eq!(done, 0, "{}", io::Error::last_os_error());
            Peer(client)
        }
    }

    #[test]
    fn bytes_and_descriptors_arrive_together() {
        let (client, server) = meet();
        let mut bytes = [0; 64];
        assert!(
            server
                .try_receive(&mut bytes)
                .is_err_and(|error| error.passes())
        );
        let waker = crate::Waker::new().expect("waker");
        client.send(b"hello", &[waker.as_fd()]).expect("send");
        let message = server.receive(&mut bytes).expect("receive");
        assert_eq!(&bytes[..message.len], b"hello");
        assert_eq!(message.fds.len(), 1);
        waker.wake();
        let ready = crate::wait_readable(&[message.fds[0].as_fd()], Some(0));
        assert_eq!(ready, 1);
        drop(client);
        assert_eq!(server.receive(&mut bytes).expect("receive").len, 0);
    }

    #[test]
    fn who_connects_is_known_and_where_is_not_shown() {
        let (_client, server) = meet();
        assert_eq!(
            server.pid().expect("pid").unsigned_abs(),
            std::process::id()
        );
        assert!(server.pidfd().expect("pidfd").lives());
        let shown = std::fs::read_to_string("/proc/net/unix").expect("sockets");
        assert!(shown.lines().any(|line| line.ends_with(" s")), "{shown}");
        let dirs = std::env::temp_dir();
        assert!(!shown.contains(&format!("{}/.tmp", dirs.display())));
    }

    #[test]
    fn nobody_waits_for_one_who_does_not_listen() {
        let (client, _server) = meet();
        let failed = std::iter::repeat_with(|| client.send(&[0; 4096], &[])).find(Result::is_err);
        assert!(failed.is_some_and(|failed| failed.is_err_and(|error| error.passes())));
    }
}
