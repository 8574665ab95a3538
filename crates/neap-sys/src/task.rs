//! Tasks beside a process: which one a message came from, whether it has the memory of another, and the end of either.

use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

use crate::errno::{Result, SysError, persist};
use crate::process::Pidfd;
use crate::socket::{Peer, lacks_memory};

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

/// From now on the kernel notes of each message that arrives who sent it.
pub fn note_senders(socket: &Peer) -> Result<()> {
    let on: libc::c_int = 1;
    let set = |name| {
        // SAFETY: the kernel reads one integer.
        unsafe {
            libc::setsockopt(
                socket.as_fd().as_raw_fd(),
                libc::SOL_SOCKET,
                name,
                (&raw const on).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        }
    };
    set(SO_PASSPIDFD); // from Linux 6.5 on
    match set(libc::SO_PASSCRED) {
        0 => Ok(()),
        _ => Err(SysError::last("setsockopt", "SO_PASSCRED")),
    }
}

/// From now on it does not: that costs a descriptor for each message.
pub fn forget_senders(socket: &Peer) {
    let off: libc::c_int = 0;
    for name in [SO_PASSPIDFD, libc::SO_PASSCRED] {
        // SAFETY: the kernel reads one integer.
        unsafe {
            libc::setsockopt(
                socket.as_fd().as_raw_fd(),
                libc::SOL_SOCKET,
                name,
                (&raw const off).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            );
        }
    }
}

/// The next message, without waiting, and who sent it if that was [noted](note_senders). Returns its length.
pub fn receive_from(socket: &Peer, bytes: &mut [u8]) -> Result<(usize, Option<Sender>)> {
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
    let fd = socket.as_fd().as_raw_fd();
    let flags = libc::MSG_CMSG_CLOEXEC | libc::MSG_DONTWAIT;
    // SAFETY: the header's pointers are to locals and `bytes`, all alive here.
    let receive = || unsafe { libc::recvmsg(fd, &raw mut header, flags) };
    let got = persist(receive, lacks_memory);
    if got < 0 {
        return Err(SysError::last("recvmsg", ""));
    }
    let (mut who, mut pidfd) = (None, None);
    // SAFETY: the kernel filled the control buffer; the CMSG macros walk it within msg_controllen; each descriptor
    // was installed for us.
    unsafe {
        let mut next = libc::CMSG_FIRSTHDR(&raw const header);
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
                    let count =
                        ((*next).cmsg_len - libc::CMSG_LEN(0) as usize) / size_of::<RawFd>();
                    for i in 0..count {
                        let fd = data.cast::<RawFd>().add(i).read_unaligned();
                        drop(OwnedFd::from_raw_fd(fd)); // nobody asked for it
                    }
                }
                _ => {}
            }
            next = libc::CMSG_NXTHDR(&raw const header, next);
        }
    }
    let sender = who.map(|who: libc::ucred| Sender {
        pid: who.pid,
        uid: who.uid,
        pidfd,
    });
    Ok((got.unsigned_abs(), sender))
}

/// Whether two processes have the same memory; `None`: the kernel does not say, or not to us, or one has ended.
pub fn share_memory(one: i32, other: i32) -> Option<bool> {
    const KCMP_VM: libc::c_int = 1;
    // SAFETY: integers only.
    let order = unsafe { libc::syscall(libc::SYS_kcmp, one, other, KCMP_VM, 0, 0) };
    (order >= 0).then_some(order == 0)
}

/// What came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The other end of the socket was closed.
    Socket,
    /// The process ended: its last thread.
    Process,
    /// Neither, in that time.
    Neither,
}

/// Waits until the other end of a socket is closed, or the process has ended; what arrives on the socket meanwhile is
/// left alone. `millis`: no longer than that.
pub fn wait_for_end(socket: &Peer, process: Option<&Pidfd>, millis: Option<u32>) -> End {
    let polled = |fd: RawFd, events| libc::pollfd {
        fd,
        events,
        revents: 0,
    };
    let mut both = [
        polled(socket.as_fd().as_raw_fd(), libc::POLLRDHUP),
        // One that is negative is passed over.
        polled(
            process.map_or(-1, |process| process.as_fd().as_raw_fd()),
            libc::POLLIN,
        ),
    ];
    let limit = millis.map_or(-1, |millis| i32::try_from(millis).unwrap_or(i32::MAX));
    // SAFETY: two pollfds.
    while unsafe { libc::poll(both.as_mut_ptr(), 2, limit) } < 0 {
        crate::thread::pause(); // EINTR, or ENOMEM for a while
    }
    match (both[0].revents, both[1].revents) {
        (0, 0) => End::Neither,
        (0, _) => End::Process,
        _ => End::Socket,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sender_of_a_message_is_known_where_it_is_to_be() {
        let (one, other) = Peer::pair().expect("a pair");
        note_senders(&one).expect("noted");
        let mut bytes = [0; 8];
        other.send(b"here", &[other.as_fd()]).expect("sent");
        let (len, sender) = receive_from(&one, &mut bytes).expect("received");
        let sender = sender.expect("a sender");
        assert_eq!((len, sender.pid.unsigned_abs()), (4, std::process::id()));
        forget_senders(&one);
        other.send(b"there", &[]).expect("sent");
        let (len, sender) = receive_from(&one, &mut bytes).expect("received");
        assert!(len == 5 && sender.is_none());
    }

    #[test]
    fn a_process_has_its_own_memory_and_not_its_parents() {
        let own = std::process::id().cast_signed();
        let Some(same) = share_memory(own, own) else {
            return; // the kernel does not say
        };
        assert!(same);
        assert_ne!(
            share_memory(own, std::os::unix::process::parent_id().cast_signed()),
            Some(true)
        );
    }

    #[test]
    fn either_end_is_heard_of() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .expect("sleep");
        let process = Pidfd::open(child.id().cast_signed()).expect("a pidfd");
        let (one, other) = Peer::pair().expect("a pair");
        other.send(b"not an end", &[]).expect("sent");
        assert_eq!(wait_for_end(&one, Some(&process), Some(1)), End::Neither);
        let pid = child.id().cast_signed();
        let known = crate::Process::open(pid, &process).expect("it lives");
        assert!(!known.is_stopped());
        process.signal(libc::SIGSTOP).expect("stopped");
        while !known.is_stopped() {
            std::thread::yield_now();
        }
        process.signal(libc::SIGKILL).expect("killed");
        assert_eq!(wait_for_end(&one, Some(&process), None), End::Process);
        drop(other);
        assert_eq!(wait_for_end(&one, None, None), End::Socket);
        child.wait().expect("it was killed");
    }
}
