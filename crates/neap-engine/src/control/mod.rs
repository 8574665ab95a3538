//! The control socket: others of this user look at the job and steer it while it runs.
//!
//! One thread serves all connections, and waits for none of them. Who stalls is closed, who floods is served no faster
//! than a fifth of a cpu allows, and of each job one request that lasts is under way at a time. docs/guide/control.md has the words.

mod frost;
mod log;
mod peer;
mod stat;
mod steer;

pub(crate) use log::{Kind, Log, Seen};
pub use stat::Stat;

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;

use neap_control::{Call, Join, Name, Place, Request, failure, folders, success};
use neap_sys::{Epoll, Interest, Root, Waker};
use neap_tuning::TUNING;
use neap_units::Bytes;
use serde::Serialize;
use serde_json::json;

use crate::engine::StartError;
use crate::group::Group;
use crate::job::Job;
use crate::options::Follow;
use frost::Refused;
use peer::{At, Peer};
use steer::{Errand, Outcome};

/// Tokens of epoll that are no connection's number: connections count from 1 on.
const WAKER: u64 = u64::MAX;
const LISTENER: u64 = u64::MAX - 1;

/// Who serves the connections.
pub(crate) struct Desk {
    job: Arc<Job>,
    epoll: Epoll,
    /// The socket, if one could be made, and the job's place among others.
    listener: Option<UnixListener>,
    /// What the kernel was told that is waited for at the socket.
    listens: Option<Interest>,
    place: Option<Place>,
    peers: Vec<Peer>,
    /// Connections so far.
    count: u64,
    errands: Vec<Errand>,
    follow: Option<Follow>,
    /// The limit that was followed to, and when to look again.
    followed: Bytes,
    next_follow: u64,
}

/// Takes a place with this name in the first folder that lets one; `given`: a user has chosen the name, so that no other will do.
fn take_place(name: &Name, given: bool) -> Result<Option<(Place, UnixListener)>, StartError> {
    for folder in folders() {
        match folder.take(name) {
            Ok(taken) => return Ok(Some(taken)),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && given => {
                return Err(StartError::Taken(name.clone()));
            }
            Err(_) => {}
        }
    }
    Ok(None)
}

/// Makes the job's place. That there is none keeps no job from running, unless its name is taken.
pub(crate) fn open(job: &Arc<Job>) -> Result<Option<Desk>, StartError> {
    let Some(control) = &job.options.control else {
        return Ok(None);
    };
    let none = |why, remedy| match job.options.serves {
        true => Err(StartError::Unreachable(why, remedy)),
        false => Ok(None),
    };
    if neap_sys::descriptor_limit() < TUNING.control.descriptors {
        return none("it may have too few descriptors", "raise `ulimit -n`");
    }
    let (Ok(waker), Ok(epoll)) = (Waker::new(), Epoll::new()) else {
        return none("no descriptor for its socket", "raise `ulimit -n`");
    };
    if epoll.add_waker(&waker, WAKER).is_err() {
        return none(
            "the kernel watches no more descriptors",
            "raise fs.epoll.max_user_watches",
        );
    }
    job.log.set_waker(waker);
    let own = || {
        Name::of(
            Path::new(control.command.first().map_or("job", |word| word)),
            std::process::id(),
        )
    };
    let name = control.name.clone().unwrap_or_else(own);
    let found = take_place(&name, control.name.is_some())?;
    if found.is_none() && job.options.serves {
        return none(
            "no folder for its socket",
            "XDG_RUNTIME_DIR with a folder that only this user enters",
        );
    }
    if found.is_none() && control.name.is_some() {
        job.warn(format!("{name} cannot be found by name: no folder for its socket; set XDG_RUNTIME_DIR to one that only this user enters"));
    }
    let (place, listener) = found.unzip();
    let _ = job.called.set(name);
    Ok(Some(Desk {
        job: job.clone(),
        epoll,
        listener,
        listens: None,
        place,
        peers: Vec::new(),
        count: 0,
        errands: Vec::new(),
        follow: control.follow.clone(),
        followed: job.options.limit,
        next_follow: neap_sys::monotonic_nanos() + TUNING.control.follow.0,
    }))
}

impl Desk {
    /// Serves until the engine ends.
    pub fn run(mut self) {
        neap_sys::block_signals();
        if let Some(place) = &self.place {
            place.folder().sweep();
        }
        while !self.job.is_stopping() {
            let ready = self.wait();
            let now = neap_sys::monotonic_nanos();
            self.accept(now);
            self.serve(&ready, now);
            self.look_at_errands(now);
            self.tell_events(now);
            self.follow(now);
            self.let_go(now);
            self.rest(now);
        }
        for peer in &mut self.peers {
            // Its programs end with the service, and not because it has left.
            peer.member = None;
        }
        let ended = "the job has ended".to_owned();
        self.job.log.note(&self.job, Kind::End, ended);
        self.tell_events(neap_sys::monotonic_nanos());
    }

    /// Waits until there is something to do. The connections on which there is, by number.
    fn wait(&mut self) -> Vec<u64> {
        let now = neap_sys::monotonic_nanos();
        let full = peer::has_room(&self.peers, now).is_none();
        self.watch(full);
        let patience = self.patience(full, now);
        let millis =
            patience.map(|nanos| u32::try_from(nanos.div_ceil(1_000_000)).unwrap_or(u32::MAX));
        let mut ready = self.epoll.wait(millis).unwrap_or_default();
        if let Some(waker) = self.job.log.waker() {
            waker.clear();
        }
        let unwatched = self.peers.iter().filter(|peer| peer.watched.is_none());
        let tried = unwatched.filter(|peer| peer.interest() != Interest::End);
        ready.extend(tried.map(|peer| peer.id));
        ready
    }

    /// Has the kernel tell of what is waited for now. Where it cannot, that is tried.
    fn watch(&mut self, full: bool) {
        let wanted = if full { Interest::End } else { Interest::Read };
        if let Some(listener) = &self.listener
            && self.listens != Some(wanted)
        {
            let watched = self.epoll.watch(listener, wanted, LISTENER);
            self.listens = watched.is_ok().then_some(wanted);
        }
        for peer in &mut self.peers {
            let wanted = peer.interest();
            if peer.watched != Some(wanted) {
                let watched = self.epoll.watch(&peer.stream, wanted, peer.id);
                peer.watched = watched.is_ok().then_some(wanted);
            }
        }
    }

    /// `full`: somebody may wait to be let in.
    fn patience(&self, full: bool, now: u64) -> Option<u64> {
        let follow = self
            .follow
            .is_some()
            .then(|| self.next_follow.saturating_sub(now));
        let silent = (!self.peers.is_empty()).then_some(TUNING.control.silent.0);
        let unwatched = self.listener.is_some() && self.listens.is_none()
            || self.peers.iter().any(|peer| peer.watched.is_none());
        let look = (full || unwatched || !self.errands.is_empty()).then_some(TUNING.control.look.0);
        let line = self.peers.iter().any(Peer::has_line).then_some(0);
        [follow, silent, look, line].into_iter().flatten().min()
    }

    /// Closes what is over. With the connection of a job that has not left, its programs end.
    fn let_go(&mut self, now: u64) {
        if !self.peers.iter().any(|peer| peer.is_over(now)) {
            return;
        }
        let (over, kept) = std::mem::take(&mut self.peers)
            .into_iter()
            .partition::<Vec<_>, _>(|peer| peer.is_over(now));
        self.peers = kept;
        let members: Vec<_> = over.into_iter().filter_map(|peer| peer.member).collect();
        for group in &members {
            self.job.abandon(group);
        }
        if !members.is_empty() {
            self.look_for_jobs();
        }
    }

    /// Whether the last job is gone: who waits for that is told.
    fn look_for_jobs(&self) {
        let control = self.job.options.control.as_ref();
        if let Some(idle) = control.and_then(|control| control.idle.as_ref())
            && self.job.groups.below().is_empty()
        {
            idle();
        }
    }

    /// After work it pauses in proportion.
    fn rest(&self, began: u64) {
        let took = neap_sys::monotonic_nanos() - began;
        let pause = (took * TUNING.control.pause_times).max(TUNING.control.pause.0);
        std::thread::sleep(std::time::Duration::from_nanos(pause));
    }

    fn accept(&mut self, now: u64) {
        let Some(listener) = &self.listener else {
            return;
        };
        for _ in 0..TUNING.control.connections {
            if peer::has_room(&self.peers, now).is_none() {
                return; // it waits where the kernel keeps it
            }
            let Ok((stream, _)) = listener.accept() else {
                return;
            };
            let user = neap_sys::own_user();
            let trusted = |&(_, uid): &(i32, u32)| uid == user || uid == 0;
            let peer = neap_sys::peer_of(stream.as_fd()).ok().filter(trusted);
            if let Some((pid, uid)) = peer
                && stream.set_nonblocking(true).is_ok()
            {
                self.count += 1;
                let peer = Peer::new(stream, self.count, (pid, uid), now);
                peer::admit(&mut self.peers, peer, now);
            }
        }
    }

    fn serve(&mut self, ready: &[u64], now: u64) {
        for at in 0..self.peers.len() {
            let peer = &mut self.peers[at];
            if ready.contains(&peer.id) {
                peer.go_on(now);
            }
            match peer.line() {
                Ok(Some(line)) => self.answer(at, &line, now),
                Ok(None) => {}
                Err(()) => {
                    peer.at = At::Leaves;
                    peer.say(
                        &failure("E2BIG", "the request is too long", &json!(null)),
                        now,
                    );
                }
            }
        }
    }

    fn answer(&mut self, at: usize, line: &[u8], now: u64) {
        let said = match Call::read(line) {
            Err(fault) => Some(failure(fault.code(), &fault.to_string(), &json!(null))),
            Ok(Call { job, request }) => match self.group(job.as_ref()) {
                Ok(group) => self.answer_about(at, &group, request),
                Err(line) => Some(line),
            },
        };
        if let Some(line) = said {
            self.peers[at].say(&line, now);
        }
    }

    /// Whom a request is about.
    fn group(&self, name: Option<&Name>) -> Result<Arc<Group>, String> {
        let Some(name) = name else {
            return Ok(self.job.groups.top().clone());
        };
        let no_job = || failure("ESRCH", &format!("no job {name} runs there"), &json!(null));
        self.job.groups.named(name).ok_or_else(no_job)
    }

    fn answer_about(&mut self, at: usize, group: &Arc<Group>, request: Request) -> Option<String> {
        match request {
            Request::Stat => Some(told(&self.job.stat_of(group))),
            Request::Series => Some(success(&self.job.told_series(group))),
            Request::Events => self.begin_stream(at, group),
            Request::Set(changes) => self.set(at, group, &changes),
            Request::Reclaim(bytes) => {
                let id = self.peers[at].id;
                let job = self.job.clone();
                self.begin(at, group, || {
                    Ok(Errand::reclaim(id, bytes, &job, group.clone()))
                })
            }
            Request::Freeze { to_disk } => self.freeze(at, group, to_disk),
            Request::Thaw { prefetch } => self.thaw(at, group, prefetch),
            Request::Join(wish) => Some(self.join(at, wish)),
            Request::Leave => {
                let Some(group) = self.peers[at].member.clone() else {
                    let line = "no job has joined by this connection";
                    return Some(failure("EINVAL", line, &json!(null)));
                };
                let report = self.job.leave(&group);
                self.tell_events(neap_sys::monotonic_nanos()); // before the answer, after which its client is gone
                let peer = &mut self.peers[at];
                (peer.member, peer.hears) = (None, None);
                self.look_for_jobs();
                Some(told(&report))
            }
        }
    }

    /// The process that asks is the root of a job from now on, as long as its connection is there. It hears of what happens.
    fn join(&mut self, at: usize, wish: Join) -> String {
        let peer = &self.peers[at];
        let no = |code: &str, line: &str| failure(code, line, &json!(null));
        if peer.uid != neap_sys::own_user() {
            return no("EPERM", "only the user of a service joins it");
        }
        if peer.member.is_some() {
            return no("EBUSY", "a job has joined by this connection already");
        }
        let root = match neap_sys::pidfd_of(peer.stream.as_fd()) {
            Ok(pidfd) if peer.pid > 0 => Root::of(peer.pid, pidfd),
            Ok(_) => return no("ESRCH", "it is in another pid namespace than the service"),
            Err(error) => {
                let advice = error.shortage().map(|advice| format!("; {advice}"));
                let line = format!("{error}{}", advice.unwrap_or_default());
                return no("EAGAIN", &line);
            }
        };
        let required = wish.require;
        let next = self.job.log.next();
        let group = match self.job.join(wish, root) {
            Ok(group) => group,
            Err((code, line)) => return no(code, &line),
        };
        let result = json!({
            "service": self.job.called.get().map(Name::as_str),
            "name": group.name.as_ref().map(Name::as_str),
            "socket": self.job.door(required),
            "limit_bytes": group.limit_above().0,
        });
        let peer = &mut self.peers[at];
        (peer.member, peer.hears) = (Some(group), Some(next));
        success(&result)
    }

    fn begin_stream(&mut self, at: usize, group: &Group) -> Option<String> {
        let follows = |peer: &&Peer| peer.at == At::Follows;
        if self.peers.iter().filter(follows).count() >= TUNING.control.streams {
            let line = "as many follow the events as may";
            return Some(failure("EBUSY", line, &json!(null)));
        }
        let peer = &mut self.peers[at];
        (peer.at, peer.hears, peer.follows) = (At::Follows, Some(0), group.number);
        None
    }

    /// Whether something that lasts is under way for this group.
    fn is_at(&self, group: &Group) -> bool {
        let mut errands = self.errands.iter();
        errands.any(|errand| errand.is_for(group))
    }

    /// Begins what lasts. One at a time for each group.
    fn begin(
        &mut self,
        at: usize,
        group: &Group,
        errand: impl FnOnce() -> Result<Errand, Refused>,
    ) -> Option<String> {
        if self.is_at(group) {
            let line = "another request that lasts is under way for it";
            return Some(failure("EBUSY", line, &json!(null)));
        }
        match errand() {
            Ok(errand) => self.errands.push(errand),
            Err((code, line)) => return Some(failure(code, line, &json!(null))),
        }
        self.peers[at].at = At::Waits;
        None
    }

    fn look_at_errands(&mut self, now: u64) {
        for mut errand in std::mem::take(&mut self.errands) {
            let peer = self.peers.iter_mut().find(|peer| peer.id == errand.id);
            if peer.is_none() && !errand.goes_on_alone() {
                errand.end();
                continue;
            }
            let line = match errand.look(&self.job) {
                Outcome::UnderWay => {
                    self.errands.push(errand);
                    continue;
                }
                Outcome::Done(result) => success(&result),
                Outcome::Short(why, result) => failure("EAGAIN", &why, &result),
            };
            errand.end();
            if let Some(peer) = peer {
                peer.at = At::Rest;
                peer.say(&line, now);
            }
        }
    }

    /// Those who follow get what is new, up to the end of what they follow. Who does not read is closed.
    fn tell_events(&mut self, now: u64) {
        let newest = self.job.log.next();
        for peer in &mut self.peers {
            let Some(next) = peer.hears.filter(|&next| next < newest && peer.hears_now()) else {
                continue;
            };
            for event in self.job.log.since(next) {
                peer.hears = Some(event.seq + 1);
                if !peer.is_about_it(&event) {
                    continue;
                }
                let ends = peer.at == At::Follows && event.is_end_of(peer.follows);
                if ends {
                    (peer.at, peer.hears) = (At::Leaves, None);
                }
                let line = serde_json::to_string(&*event).unwrap_or_default();
                peer.say(&format!("{line}\n"), now);
                if ends {
                    break;
                }
            }
        }
    }

    /// Goes along with a limit that is somebody else's.
    fn follow(&mut self, now: u64) {
        if now < self.next_follow {
            return;
        }
        self.next_follow = now + TUNING.control.follow.0;
        let limit = self.follow.as_ref().and_then(|limit| limit());
        if let Some(limit) = limit.filter(|limit| *limit != self.followed) {
            self.followed = limit;
            self.job.set_limit(limit, ", as the memory cgroup has it");
        }
    }
}

/// The answer that has these figures.
fn told(figures: &impl Serialize) -> String {
    success(&serde_json::to_value(figures).unwrap_or_default())
}
