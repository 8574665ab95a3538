//! One connection: what it has sent, and what it has yet to read. Nothing here waits.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use neap_control::LONGEST;
use neap_sys::Interest;
use neap_tuning::TUNING;

use super::log::Event;
use crate::group::Group;

/// What a connection is at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum At {
    /// It may ask.
    Rest,
    /// What it asked for is being done.
    Waits,
    /// It follows the events.
    Follows,
    /// It gets what it has to read, and no more.
    Leaves,
}

pub(super) struct Peer {
    pub stream: UnixStream,
    /// Tells it from all others.
    pub id: u64,
    pub pid: i32,
    pub uid: u32,
    pub at: At,
    /// The next event that it is told of.
    pub hears: Option<u64>,
    /// The number of the group whose events it follows.
    pub follows: u64,
    /// The job that joined by it.
    pub member: Option<Arc<Group>>,
    /// When it did something last, in nanoseconds.
    pub heard: u64,
    /// What the kernel was told that is waited for.
    pub watched: Option<Interest>,
    input: Vec<u8>,
    output: Vec<u8>,
    gone: bool,
}

impl Peer {
    pub fn new(stream: UnixStream, id: u64, (pid, uid): (i32, u32), now: u64) -> Self {
        Self {
            stream,
            id,
            pid,
            uid,
            hears: None,
            follows: Group::TOP,
            member: None,
            at: At::Rest,
            heard: now,
            watched: None,
            input: Vec::new(),
            output: Vec::new(),
            gone: false,
        }
    }

    /// What is waited for: it is read from only when it has read what there was for it.
    pub fn interest(&self) -> Interest {
        match self.at {
            _ if !self.output.is_empty() => Interest::Write,
            At::Rest => Interest::Read,
            _ => Interest::End,
        }
    }

    /// Whether a request is there already.
    pub fn has_line(&self) -> bool {
        self.at == At::Rest && self.output.is_empty() && self.input.contains(&b'\n')
    }

    /// What is waited for has come.
    pub fn go_on(&mut self, now: u64) {
        match self.interest() {
            Interest::Write => self.flush(now),
            Interest::Read if self.has_line() => {} // answered first, before more is read
            Interest::Read => self.read(now),
            // It may have been told of what was waited for before.
            Interest::End => self.gone |= self.watched == Some(Interest::End),
        }
    }

    fn read(&mut self, now: u64) {
        let mut bytes = [0; LONGEST];
        match self.stream.read(&mut bytes) {
            Ok(0) => self.gone = true,
            Ok(count) => {
                self.heard = now;
                self.input.extend_from_slice(&bytes[..count]);
            }
            Err(error) => self.note(&error),
        }
    }

    /// The next request, without the end of its line. `Err`: it is too long.
    pub fn line(&mut self) -> Result<Option<Vec<u8>>, ()> {
        if self.at != At::Rest || !self.output.is_empty() {
            return Ok(None);
        }
        let Some(end) = self.input.iter().position(|&byte| byte == b'\n') else {
            return match self.input.len() > LONGEST {
                true => Err(()),
                false => Ok(None),
            };
        };
        let rest = self.input.split_off(end + 1);
        let mut line = std::mem::replace(&mut self.input, rest);
        line.truncate(end);
        if line.len() > LONGEST {
            Err(())
        } else {
            Ok(Some(line))
        }
    }

    /// Has it get this. One that does not read is closed.
    pub fn say(&mut self, line: &str, now: u64) {
        self.output.extend_from_slice(line.as_bytes());
        self.flush(now);
        // A job lives as long as its connection: its client may be stopped.
        let much = self.output.len() as u64 > TUNING.control.unread.0;
        self.gone |= much && self.member.is_none();
    }

    fn flush(&mut self, now: u64) {
        while !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(0) => break,
                Ok(count) => {
                    self.heard = now;
                    self.output.drain(..count);
                }
                Err(error) => return self.note(&error),
            }
        }
        self.gone |= self.at == At::Leaves;
    }

    fn note(&mut self, error: &std::io::Error) {
        let passes = [ErrorKind::WouldBlock, ErrorKind::Interrupted];
        self.gone |= !passes.contains(&error.kind());
    }

    /// Whether it may be told of events now: who joined hears of them once it has read what there was.
    pub fn hears_now(&self) -> bool {
        self.member.is_none() || self.output.is_empty()
    }

    /// Whether an event concerns it. A client that joined hears of its own job and of the service. One that follows a group hears of
    /// that, of the groups below it, and of the end of all.
    pub fn is_about_it(&self, event: &Event) -> bool {
        match &self.member {
            Some(own) => [own.number, Group::TOP].contains(&event.group()),
            None => event.is_within(self.follows) || event.is_end_of(Group::TOP),
        }
    }

    /// Whether it is to be closed.
    pub fn is_over(&self, now: u64) -> bool {
        let waits = !self.output.is_empty() || matches!(self.at, At::Rest | At::Leaves);
        self.gone || waits && self.member.is_none() && now > self.heard + TUNING.control.silent.0
    }
}

/// Where there is room for one more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Room {
    /// Beside the others.
    Free,
    /// In the place of this one, which has been silent.
    Of(usize),
}

/// Whether there is room for one more beside the connections of jobs. Who has been let in is heard first: many may come at once.
pub(super) fn has_room(peers: &[Peer], now: u64) -> Option<Room> {
    let others = peers.iter().enumerate();
    let others = others.filter(|(_, peer)| peer.member.is_none());
    if others.clone().count() < TUNING.control.connections {
        return Some(Room::Free);
    }
    let silent = |peer: &Peer| peer.at == At::Rest && now > peer.heard + TUNING.control.patient.0;
    let silent = others.filter(|(_, peer)| silent(peer));
    let longest = silent.min_by_key(|(_, peer)| peer.heard);
    longest.map(|(at, _)| Room::Of(at))
}

/// Lets one in, if there is room. A process has a part of it only.
pub(super) fn admit(peers: &mut Vec<Peer>, peer: Peer, now: u64) {
    let others = peers.iter().filter(|other| other.member.is_none());
    let its = others.filter(|other| other.pid == peer.pid).count();
    if its >= TUNING.control.connections_of_one {
        return;
    }
    match has_room(peers, now) {
        Some(Room::Free) => peers.push(peer),
        Some(Room::Of(at)) => peers[at] = peer,
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meet() -> (UnixStream, Peer) {
        let (one, other) = UnixStream::pair().expect("a pair");
        other.set_nonblocking(true).expect("a flag");
        (one, Peer::new(other, 1, (1, 1), 0))
    }

    #[test]
    fn requests_are_lines_one_after_the_other() {
        let (mut client, mut peer) = meet();
        client.write_all(b"one\ntwo\nthr").expect("room");
        peer.go_on(1);
        assert_eq!(peer.line(), Ok(Some(b"one".to_vec())));
        assert!(peer.has_line());
        assert_eq!(peer.line(), Ok(Some(b"two".to_vec())));
        assert_eq!(peer.line(), Ok(None));
        client.write_all(b"ee\n").expect("room");
        peer.go_on(2);
        assert_eq!(peer.line(), Ok(Some(b"three".to_vec())));
        drop(client);
        peer.go_on(3);
        assert!(peer.is_over(3));
    }

    #[test]
    fn a_line_without_end_is_refused_and_silence_is_closed() {
        let (mut client, mut peer) = meet();
        client.write_all(&[b'x'; LONGEST + 1]).expect("room");
        peer.go_on(1);
        peer.go_on(1);
        assert_eq!(peer.line(), Err(()));
        assert!(!peer.is_over(TUNING.control.silent.0));
        assert!(peer.is_over(TUNING.control.silent.0 + 2));
    }

    /// A client that is stopped reads nothing for as long, and its job is not to end by that.
    #[test]
    fn the_connection_of_a_job_is_closed_by_its_end_only() {
        let (client, mut peer) = meet();
        let meter = std::sync::Arc::new(crate::meter::Meter::new(neap_units::Bytes::mib(64), true));
        peer.member = Some(Group::top(None, false, meter));
        assert!(peer.hears_now());
        let line = "x".repeat(64 << 10);
        let most = (TUNING.control.unread.0 >> 16) + 16;
        for _ in 0..most {
            peer.say(&line, 1);
        }
        assert!(!peer.hears_now(), "it has not read what there is");
        assert!(!peer.is_over(1 + 2 * TUNING.control.silent.0));
        drop(client);
        // A process that another test is starting may have its end for a moment.
        for _ in 0..1000 {
            peer.go_on(2);
            if peer.is_over(2) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("its end is not seen");
    }

    #[test]
    fn many_at_once_are_let_in_one_after_the_other_and_only_silence_costs_a_place() {
        let later = 2 + TUNING.control.patient.0;
        let come = |pid: i32, now: u64| {
            let (_, other) = UnixStream::pair().expect("a pair");
            Peer::new(other, 0, (pid, 1), now)
        };
        let mut peers = Vec::new();
        let most = i32::try_from(TUNING.control.connections).expect("a few");
        for pid in 0..2 * most {
            admit(&mut peers, come(pid, 1), 1);
        }
        let pids: Vec<_> = peers.iter().map(|peer| peer.pid).collect();
        assert_eq!(pids, (0..most).collect::<Vec<_>>(), "the first stay");
        assert_eq!(has_room(&peers, 1), None);
        // One has asked meanwhile, and one waits for what it asked for.
        peers[0].heard = later;
        peers[1].at = At::Waits;
        assert_eq!(has_room(&peers, later), Some(Room::Of(2)));
        admit(&mut peers, come(-1, later), later);
        assert_eq!((peers.len(), peers[2].pid), (pids.len(), -1));
        // The connections of jobs leave room for others.
        let meter = std::sync::Arc::new(crate::meter::Meter::new(neap_units::Bytes::mib(64), true));
        peers[2].member = Some(Group::top(None, false, meter));
        assert_eq!(has_room(&peers, later), Some(Room::Free));
    }

    #[test]
    fn one_that_reads_nothing_is_closed() {
        let (_client, mut peer) = meet();
        let line = "x".repeat(64 << 10);
        let most = (TUNING.control.unread.0 >> 16) + 16;
        for _ in 0..most {
            peer.say(&line, 1);
        }
        assert_eq!(peer.interest(), Interest::Write);
        assert!(peer.is_over(1));
    }
}
