//! Waiting for many descriptors at once, at a cost that does not grow with those to which nothing comes.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use neap_tuning::TUNING;

use crate::errno::{Result, SysError};
use crate::process::Pidfd;
use crate::thread::{Waker, pause};

/// What a descriptor is waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interest {
    /// Something can be read, or the other end is gone.
    Read,
    /// Something can be written, or the other end is gone.
    Write,
    /// The other end is gone.
    End,
}

/// An epoll(7) instance. It names each descriptor by the token that it was added with.
#[derive(Debug)]
pub struct Epoll(OwnedFd);

impl Epoll {
    /// Nothing is waited for yet.
    pub fn new() -> Result<Self> {
        // SAFETY: the call takes an integer only.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(SysError::last("epoll_create1", ""));
        }
        // SAFETY: the kernel just gave us this descriptor and nobody else owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Tells once of the end of a process, or that it has ended.
    pub fn add_process(&self, process: &Pidfd, token: u64) -> Result<()> {
        self.add(process, libc::EPOLLIN | libc::EPOLLONESHOT, token)
    }

    /// Tells once when the other end of a socket is closed. What arrives there is left alone.
    pub fn add_socket(&self, socket: BorrowedFd<'_>, token: u64) -> Result<()> {
        self.add(&socket, libc::EPOLLRDHUP | libc::EPOLLONESHOT, token)
    }

    /// Tells each time, as long as somebody wakes it.
    pub fn add_waker(&self, waker: &Waker, token: u64) -> Result<()> {
        self.add(waker, libc::EPOLLIN, token)
    }

    /// Tells each time, as long as what is waited for is there; of another thing than before, if it was watched already.
    pub fn watch(&self, fd: &impl AsFd, interest: Interest, token: u64) -> Result<()> {
        let events = match interest {
            Interest::Read => libc::EPOLLIN,
            Interest::Write => libc::EPOLLOUT,
            Interest::End => 0, // of that it is always told
        };
        match self.control(libc::EPOLL_CTL_MOD, fd, events, token) {
            Err(error) if error.errno() == libc::ENOENT => self.add(fd, events, token),
            done => done,
        }
    }

    fn add(&self, fd: &impl AsFd, events: i32, token: u64) -> Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, events, token)
    }

    fn control(&self, what: i32, fd: &impl AsFd, events: i32, token: u64) -> Result<()> {
        let mut event = libc::epoll_event {
            events: events.cast_unsigned(),
            u64: token,
        };
        let (own, fd) = (self.0.as_raw_fd(), fd.as_fd().as_raw_fd());
        // SAFETY: the kernel reads one event.
        match unsafe { libc::epoll_ctl(own, what, fd, &raw mut event) } {
            0 => Ok(()),
            _ => Err(SysError::last("epoll_ctl", "")),
        }
    }

    /// No longer tells of a process or a socket.
    pub fn remove(&self, fd: &impl AsFd) {
        let (own, fd) = (self.0.as_raw_fd(), fd.as_fd().as_raw_fd());
        // SAFETY: integers, and no event. Failure means that it was never added.
        unsafe { libc::epoll_ctl(own, libc::EPOLL_CTL_DEL, fd, std::ptr::null_mut()) };
    }

    /// The tokens of those to which something has come, at most 64 at a time; none if `millis` have passed (`None`: never). An error
    /// passes: it is told after a moment, so that who waits again and again does not spin.
    pub fn wait(&self, millis: Option<u32>) -> Result<Vec<u64>> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; TUNING.system.ends];
        let limit = millis.map_or(-1, |millis| i32::try_from(millis).unwrap_or(i32::MAX));
        let own = self.0.as_raw_fd();
        // SAFETY: room for TUNING.system.ends events.
        let count =
            unsafe { libc::epoll_wait(own, events.as_mut_ptr(), TUNING.system.ends as i32, limit) };
        let Ok(count) = usize::try_from(count) else {
            let error = SysError::last("epoll_wait", "");
            pause();
            return Err(error);
        };
        Ok(events[..count].iter().map(|event| event.u64).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::socket::Peer;

    #[test]
    fn each_end_is_told_of_once() {
        let ends = Epoll::new().unwrap();
        let (socket, other) = Peer::pair().unwrap();
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let process = Pidfd::open(child.id().cast_signed()).unwrap();
        ends.add_process(&process, 1).unwrap();
        ends.add_socket(socket.as_fd(), 2).unwrap();
        other.send(b"a word", &[]).unwrap();
        assert!(ends.wait(Some(0)).unwrap().is_empty(), "a word is no end");
        drop(other);
        assert_eq!(ends.wait(None).unwrap(), [2]);
        assert!(
            ends.wait(Some(0)).unwrap().is_empty(),
            "it was told already"
        );
        drop(child.stdin.take());
        assert_eq!(ends.wait(None).unwrap(), [1]);
        assert!(
            ends.wait(Some(0)).unwrap().is_empty(),
            "it was told already"
        );
        child.wait().unwrap();
    }

    #[test]
    fn what_is_watched_is_told_of_as_long_as_it_is_there() {
        let epoll = Epoll::new().unwrap();
        let (mut one, other) = UnixStream::pair().unwrap();
        let told = |interest| {
            epoll.watch(&other, interest, 5).unwrap();
            epoll.wait(Some(0)).unwrap() == [5]
        };
        let all = [Interest::Read, Interest::Write, Interest::End];
        assert_eq!(all.map(told), [false, true, false]);
        one.write_all(b"x").unwrap();
        assert_eq!(all.map(told), [true, true, false]);
        assert_eq!(all.map(told), [true, true, false], "it is there still");
        drop(one);
        assert_eq!(all.map(told), [true, true, true]);
    }

    #[test]
    fn an_end_before_is_told_of_and_one_that_was_removed_is_not() {
        let ends = Epoll::new().unwrap();
        let (socket, other) = Peer::pair().unwrap();
        drop(other);
        ends.add_socket(socket.as_fd(), 7).unwrap();
        assert_eq!(ends.wait(Some(0)).unwrap(), [7]);
        let (socket, other) = Peer::pair().unwrap();
        ends.add_socket(socket.as_fd(), 8).unwrap();
        ends.remove(&socket);
        drop(other);
        assert!(ends.wait(Some(0)).unwrap().is_empty());
    }

    #[test]
    fn a_waker_is_told_of_until_it_is_cleared() {
        let (ends, waker) = (Epoll::new().unwrap(), Waker::new().unwrap());
        ends.add_waker(&waker, 3).unwrap();
        waker.wake();
        assert_eq!(ends.wait(None).unwrap(), [3]);
        assert_eq!(ends.wait(None).unwrap(), [3]);
        waker.clear();
        assert!(ends.wait(Some(0)).unwrap().is_empty());
    }
}
