//! Tasks beside a process: whether one has the memory of another, and the end of either.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use crate::process::Pidfd;

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
    /// Neither has.
    Neither,
}

/// Whether the other end of a socket is closed by now, or else the process has ended; what has arrived on the socket is
/// left alone.
pub fn which_ended(socket: BorrowedFd<'_>, process: &Pidfd) -> End {
    let polled = |fd: RawFd, events| libc::pollfd {
        fd,
        events,
        revents: 0,
    };
    let mut both = [
        polled(socket.as_raw_fd(), libc::POLLRDHUP),
        polled(process.as_fd().as_raw_fd(), libc::POLLIN),
    ];
    // SAFETY: two pollfds.
    while unsafe { libc::poll(both.as_mut_ptr(), 2, 0) } < 0 {
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
    use crate::socket::Peer;

    #[test]
    fn a_process_has_its_own_memory_and_not_its_parents() {
        let own = std::process::id().cast_signed();
        let Some(same) = share_memory(own, own) else {
            let line =
                b"SKIP a_process_has_its_own_memory_and_not_its_parents: the kernel has no kcmp\n";
            let _ = std::io::Write::write_all(&mut std::io::stderr().lock(), line);
            return;
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
        assert_eq!(which_ended(one.as_fd(), &process), End::Neither);
        let pid = child.id().cast_signed();
        let known = crate::Process::open(pid, &process).expect("it lives");
        assert!(!known.is_stopped());
        process.signal(libc::SIGSTOP).expect("stopped");
        while !known.is_stopped() {
            std::thread::yield_now();
        }
        process.signal(libc::SIGKILL).expect("killed");
        crate::wait_readable(&[process.as_fd()], None);
        assert_eq!(which_ended(one.as_fd(), &process), End::Process);
        drop(other);
        assert_eq!(which_ended(one.as_fd(), &process), End::Socket);
        child.wait().expect("it was killed");
    }
}
