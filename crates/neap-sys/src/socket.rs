//! The unix sockets between the engine and the programs: messages with descriptors, and who is at the other end.

use std::fs::File;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;

use neap_tuning::TUNING;

use crate::errno::{Result, SysError, persist};
use crate::process::Pidfd;

/// Descriptors in one message. What comes beyond that the kernel closes.
const MAX_FDS: usize = 8;
/// Words of a control message with so many.
const CONTROL: usize = 2 + MAX_FDS / 2;
/// The same with who sent it: its credentials, and its descriptor.
const CONTROL_WITH_SENDER: usize = CONTROL + 4 + 3;

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
    /// Who sent it, if that is [noted](Peer::note_senders) and was asked for.
    pub sender: Option<Sender>,
}

/// Whose message it was, as the kernel saw it: its number in our pid namespace, and the task itself.
#[derive(Debug)]
pub struct Sender {
    /// 0: it is in another pid namespace.
    pub pid: i32,
    /// The user that it acts for.
    pub uid: u32,
    /// Kernels before 6.5 know its number only.
    pub pidfd: Option<Pidfd>,
}

const SCM_PIDFD: libc::c_int = 4;
const SO_PASSPIDFD: libc::c_int = 76;

/// Errors of a message that another try may not meet.
fn lacks_memory(errno: i32) -> bool {
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

/// Binds a socket to a path, and listens.
fn bind_to(socket: &OwnedFd, path: &[u8]) -> io::Result<()> {
    // SAFETY: an all-zero sockaddr_un is valid.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let room = address.sun_path.len() - 1; // the path ends with a zero
    if path.len() > room {
        return Err(io::ErrorKind::InvalidFilename.into());
    }
    for (to, from) in address.sun_path.iter_mut().zip(path) {
        *to = *from as libc::c_char;
    }
    let len = size_of::<libc::sockaddr_un>() as libc::socklen_t;
    // SAFETY: integers, and a sockaddr_un of its own size.
    let failed = unsafe {
        libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) != 0
            || libc::listen(socket.as_raw_fd(), TUNING.system.backlog) != 0
    };
    if failed {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

impl Listener {
    /// Listens in a directory, without waiting in [`accept`](Self::accept). `/proc/net/unix`, which everyone may read, shows the
    /// path as it is bound: by way of a descriptor it does not tell where the directory is. A thread with a
    /// working directory of its own could bind the bare name, but filters of containers refuse unshare(2).
    pub fn bind(dir: &Path, name: &str) -> Result<Self> {
        let socket = seqpacket()?;
        let bound = File::open(dir).and_then(|open| {
            let path = format!("/proc/self/fd/{}/{name}", open.as_raw_fd());
            bind_to(&socket, path.as_bytes())
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
        crate::pidfd_of(self.0.as_fd())
    }

    /// Sets an option of the socket.
    fn set<T>(&self, name: libc::c_int, what: &'static str, value: &T) -> Result<()> {
        let socket = self.0.as_raw_fd();
        let len = size_of::<T>() as libc::socklen_t;
        let value = std::ptr::from_ref(value).cast();
        // SAFETY: the kernel reads at most `len` bytes of `value`, whose type every caller chooses as the kernel has it.
        match unsafe { libc::setsockopt(socket, libc::SOL_SOCKET, name, value, len) } {
            0 => Ok(()),
            _ => Err(SysError::last("setsockopt", what)),
        }
    }

    /// Gives up a `receive` that has waited for `millis`.
    pub fn set_timeout(&self, millis: u32) -> Result<()> {
        let limit = libc::timeval {
            tv_sec: libc::time_t::from(millis / 1000),
            tv_usec: libc::suseconds_t::from(millis % 1000 * 1000),
        };
        self.set(libc::SO_RCVTIMEO, "SO_RCVTIMEO", &limit)
    }

    /// Whether the kernel notes of each message that arrives who sent it. That costs a descriptor for each message.
    pub fn note_senders(&self, noted: bool) -> Result<()> {
        let noted = libc::c_int::from(noted);
        let _ = self.set(SO_PASSPIDFD, "SO_PASSPIDFD", &noted); // from Linux 6.5 on
        self.set(libc::SO_PASSCRED, "SO_PASSCRED", &noted)
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
        self.take(bytes, &mut [0; CONTROL], 0)
    }

    /// The same without waiting.
    pub fn try_receive(&self, bytes: &mut [u8]) -> Result<Message> {
        self.take(bytes, &mut [0; CONTROL], libc::MSG_DONTWAIT)
    }

    /// The same with its sender.
    pub fn try_receive_from(&self, bytes: &mut [u8]) -> Result<Message> {
        self.take(bytes, &mut [0; CONTROL_WITH_SENDER], libc::MSG_DONTWAIT)
    }

    fn take(&self, bytes: &mut [u8], control: &mut [u64], flags: libc::c_int) -> Result<Message> {
        let mut iov = libc::iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: bytes.len(),
        };
        // SAFETY: an all-zero msghdr is valid.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_iov = &raw mut iov;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(control);
        let flags = flags | libc::MSG_CMSG_CLOEXEC;
        // SAFETY: the header's pointers are to `iov`, `bytes` and `control`, all alive here; the kernel changes it on success
        // only.
        let receive = || unsafe { libc::recvmsg(self.0.as_raw_fd(), &raw mut header, flags) };
        let got = persist(receive, lacks_memory);
        if got < 0 {
            return Err(SysError::last("recvmsg", ""));
        }
        let mut message = Message {
            len: got.unsigned_abs(),
            fds: Vec::new(),
            sender: None,
        };
        // SAFETY: the kernel has just filled the control buffer, which is alive.
        unsafe { message.take_control(&header) };
        // A sender whose descriptors leave no room for its own is not known.
        if header.msg_flags & libc::MSG_CTRUNC != 0 {
            message.sender = None;
        }
        Ok(message)
    }
}

impl Message {
    /// Takes over what came beside the bytes.
    ///
    /// # Safety
    /// recvmsg(2) has just filled `header`, its control buffer is alive, and nobody else takes the descriptors there.
    unsafe fn take_control(&mut self, header: &libc::msghdr) {
        let (mut who, mut pidfd) = (None, None);
        // SAFETY: the CMSG macros walk the buffer within msg_controllen; each descriptor was installed for us.
        unsafe {
            let mut next = libc::CMSG_FIRSTHDR(header);
            while !next.is_null() {
                let data = libc::CMSG_DATA(next);
                match ((*next).cmsg_level, (*next).cmsg_type) {
                    (libc::SOL_SOCKET, libc::SCM_CREDENTIALS) => {
                        who = Some(data.cast::<libc::ucred>().read_unaligned());
                    }
                    (libc::SOL_SOCKET, SCM_PIDFD) => {
                        let fd = data.cast::<RawFd>().read_unaligned();
                        pidfd = (fd >= 0).then(|| Pidfd::adopt(OwnedFd::from_raw_fd(fd)));
                    }
                    (libc::SOL_SOCKET, libc::SCM_RIGHTS) => {
                        let bytes = (*next).cmsg_len - libc::CMSG_LEN(0) as usize;
                        for i in 0..bytes / size_of::<RawFd>() {
                            let fd = data.cast::<RawFd>().add(i).read_unaligned();
                            self.fds.push(OwnedFd::from_raw_fd(fd));
                        }
                    }
                    _ => {}
                }
                next = libc::CMSG_NXTHDR(header, next);
            }
        }
        self.sender = who.map(|who: libc::ucred| Sender {
            pid: who.pid,
            uid: who.uid,
            pidfd,
        });
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    /// A client of a socket of its own directory, and the engine's end of it.
    fn meet() -> (Peer, Peer) {
        let dir = tempfile::tempdir().expect("a directory");
        meet_in(dir.path())
    }

    fn meet_in(dir: &Path) -> (Peer, Peer) {
        let here = std::env::current_dir().expect("a working directory");
        let listener = Listener::bind(dir, "s").expect("bind");
        assert_eq!(std::env::current_dir().expect("the same"), here);
        let client = UnixSocket::connect(&dir.join("s"));
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
        let dir = tempfile::tempdir().expect("a directory");
        let (_client, server) = meet_in(dir.path());
        assert_eq!(
            server.pid().expect("pid").unsigned_abs(),
            std::process::id()
        );
        assert!(server.pidfd().expect("pidfd").lives());
        let shown = std::fs::read_to_string("/proc/net/unix").expect("sockets");
        assert!(shown.contains(" /proc/self/fd/"), "{shown}");
        let place = dir.path().display().to_string();
        assert!(!shown.contains(&place), "{shown}");
    }

    #[test]
    fn the_sender_of_a_message_is_known_where_it_is_to_be() {
        let (one, other) = Peer::pair().expect("a pair");
        one.note_senders(true).expect("noted");
        let mut bytes = [0; 8];
        other.send(b"here", &[other.as_fd()]).expect("sent");
        let message = one.try_receive_from(&mut bytes).expect("received");
        let sender = message.sender.expect("a sender");
        let pid = sender.pid.unsigned_abs();
        assert_eq!((message.len, pid), (4, std::process::id()));
        one.note_senders(false).expect("no longer");
        other.send(b"there", &[]).expect("sent");
        let message = one.try_receive_from(&mut bytes).expect("received");
        assert!(message.len == 5 && message.sender.is_none());
    }

    /// More descriptors than [`Peer::send`] has room for.
    fn send_crowd(peer: &Peer) {
        const CROWD: u32 = 24;
        let mut control = [0u64; 32];
        // SAFETY: the header's pointers are to locals, alive here; the control buffer has room for the descriptors.
        let sent = unsafe {
            let mut header: libc::msghdr = std::mem::zeroed();
            let mut iov = libc::iovec {
                iov_base: b"x".as_ptr().cast_mut().cast(),
                iov_len: 1,
            };
            (header.msg_iov, header.msg_iovlen) = (&raw mut iov, 1);
            header.msg_control = control.as_mut_ptr().cast();
            header.msg_controllen = libc::CMSG_SPACE(CROWD * 4) as usize;
            let first = libc::CMSG_FIRSTHDR(&raw const header);
            (*first).cmsg_level = libc::SOL_SOCKET;
            (*first).cmsg_type = libc::SCM_RIGHTS;
            (*first).cmsg_len = libc::CMSG_LEN(CROWD * 4) as usize;
            let data = libc::CMSG_DATA(first).cast::<RawFd>();
            (0..CROWD as usize).for_each(|i| data.add(i).write_unaligned(peer.0.as_raw_fd()));
            libc::sendmsg(peer.0.as_raw_fd(), &raw const header, 0)
        };
        assert_eq!(sent, 1, "{}", io::Error::last_os_error());
    }

    #[test]
    fn a_sender_hides_behind_no_crowd_of_descriptors() {
        let (one, other) = Peer::pair().expect("a pair");
        one.note_senders(true).expect("noted");
        send_crowd(&other);
        let message = one.try_receive_from(&mut [0; 8]).expect("received");
        assert!(message.sender.is_none_or(|sender| sender.pidfd.is_some()));
        one.note_senders(false).expect("no longer");
        send_crowd(&other);
        let message = one.try_receive(&mut [0; 8]).expect("received");
        assert_eq!(message.fds.len(), MAX_FDS);
    }

    #[test]
    fn nobody_waits_for_one_who_does_not_listen() {
        let (client, _server) = meet();
        let failed = std::iter::repeat_with(|| client.send(&[0; 4096], &[])).find(Result::is_err);
        assert!(failed.is_some_and(|failed| failed.is_err_and(|error| error.passes())));
    }
}
