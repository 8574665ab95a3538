//! Who calls: accepted, proven, and kept until it speaks.
//!
//! One thread listens. It asks the kernel who is at the other end, and from which group's root that process descends; to
//! others it says nothing. A caller that says nothing takes its place in a list and no thread. What it asks for is done by
//! a thread of a few (`talk`), since it may take long.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::thread;

use bytemuck::bytes_of;
use neap_sys::{Listener, Peer, Pidfd, SysError, Waker};
use neap_tuning::TUNING;
use neap_wire as wire;
use neap_wire::{Bad, Request};

use crate::attendant::{self, Plea};
use crate::group::Group;
use crate::job::Job;
use crate::space::Space;
use crate::strays::Strays;
use crate::talk::{Talks, refuse_or_answer};
use crate::unannounced::Unannounced;

/// A process of this job, at the other end of a connection.
pub(crate) struct Caller {
    pub peer: Peer,
    pub pid: i32,
    pub pidfd: Pidfd,
    /// The group that it belongs to.
    pub group: Arc<Group>,
    /// The number of a space that it named; 0: none yet.
    pub number: u64,
    pub next: Next,
    /// When it was last heard of, in nanoseconds.
    since: u64,
    /// Since when no thread can be had for it; 0: one can.
    tried: u64,
    _talk: Conversation,
}

impl Caller {
    /// The space of that number, if it is of the caller's job, or of one around it: nobody is kin to another job's processes.
    pub fn space_within(&self, job: &Job, number: u64) -> Option<Arc<Space>> {
        let space = job.space_by_cookie(number)?;
        self.group.is_within(&space.group).then_some(space)
    }

    /// Whether it names a child that is expected, in its job or one around it.
    pub fn is_expected(&self, job: &Job) -> bool {
        let parent = job.unborn.parent_of(self.number);
        parent.is_some_and(|parent| self.group.is_within(&parent.group))
    }

    /// Whether the process has its memory yet: who ends in the middle of a conversation needs no advice.
    pub fn lives(&self) -> bool {
        self.pidfd.lives() && neap_sys::anon_resident(self.pid).is_some_and(|bytes| bytes > 0)
    }

    /// Whether it has said all that it has to say, and waits for a thread that answers it: no message will tell of it.
    fn is_heard(&self) -> bool {
        matches!(self.next, Next::Answer(_))
    }
}

/// The next step of a conversation with a caller.
pub(crate) enum Next {
    /// Its first word.
    Hello,
    /// Its address space.
    Offer(Plea),
    /// Nothing: it waits for what it asked for.
    Answer(Request),
}

/// Counts among those that [`Job::hear_out`] waits for.
struct Conversation(Arc<Job>);

impl Conversation {
    fn begin(job: &Arc<Job>) -> Self {
        job.conversations.fetch_add(1, Relaxed);
        Self(job.clone())
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        self.0.conversations.fetch_sub(1, Release);
    }
}

/// Accepts connections until the engine stops.
pub(crate) fn listen(job: &Arc<Job>, listener: &Listener) {
    neap_sys::block_signals();
    // Those that it starts, too: a thread begins by changing the mappings of this process, and while one that does
    // so waits for a cpu, the sampler waits for it.
    neap_sys::raise_to_realtime();
    let mut reception = Reception {
        job: job.clone(),
        callers: VecDeque::new(),
        rests_until: 0,
    };
    let (strays, unannounced) = (Strays::new(), Unannounced::new());
    while !job.is_stopping() {
        let ready = reception.wait(listener);
        if job.is_stopping() {
            break;
        }
        job.bell.clear();
        strays.look(job);
        unannounced.look(job);
        reception.hear(&ready);
        if ready.first() == Some(&true) {
            reception.admit(listener);
        }
    }
}

struct Reception {
    job: Arc<Job>,
    /// Longest silent first, more or less.
    callers: VecDeque<Caller>,
    /// Until then, in nanoseconds, no thread is asked for: there was none.
    rests_until: u64,
}

impl Reception {
    /// Waits until somebody calls or speaks: the first answer is about the listener, the second about the bell, and the
    /// others about the callers, as far as anyone may speak with them.
    fn wait(&mut self, listener: &Listener) -> Vec<bool> {
        let rests = self.rests_until > neap_sys::monotonic_nanos();
        let may_speak = !rests && !self.job.talks.are_many();
        let mut timeout = match rests {
            true => TUNING.talk.pause.0,
            false => TUNING.looks.strays.0.min(Unannounced::pause(&self.job)),
        };
        let mut fds = vec![listener.as_fd(), self.job.bell.as_fd()];
        let mut asked = vec![true; 2];
        for caller in self.callers.iter().filter(|_| may_speak) {
            // The end of another conversation of its process rings the bell.
            let greeted = !matches!(caller.next, Next::Hello);
            let waits = greeted && self.job.talks.are_many_of(caller.pid);
            if !waits {
                fds.push(caller.peer.as_fd());
                timeout = if caller.is_heard() { 0 } else { timeout };
            }
            asked.push(!waits);
        }
        let mut ready = neap_sys::wait_any(&fds, Some(timeout)).into_iter();
        let answer = |asked| asked && ready.next() == Some(true);
        asked.into_iter().map(answer).collect()
    }

    /// Goes on with those who have spoken, or hung up.
    fn hear(&mut self, ready: &[bool]) {
        for &spoke in ready.iter().skip(2) {
            let Some(caller) = self.callers.pop_front() else {
                break;
            };
            let heard = caller.is_heard() && !self.job.talks.are_many_of(caller.pid);
            let caller = if spoke || heard {
                self.advance(caller)
            } else {
                Some(caller)
            };
            self.callers.extend(caller);
        }
    }

    /// Takes in the next connection, if it is from a process of this job.
    fn admit(&mut self, listener: &Listener) {
        self.job.spares.keep();
        let Some(peer) = self.accept(listener) else {
            return;
        };
        let Some(caller) = self.prove(peer) else {
            return;
        };
        self.job.met.store(true, Relaxed);
        caller.group.met.store(true, Relaxed);
        if self.has_place(caller.pid) {
            let caller = self.advance(caller);
            self.callers.extend(caller);
        }
    }

    fn accept(&mut self, listener: &Listener) -> Option<Peer> {
        let error = match listener.accept() {
            Ok(peer) => return Some(peer),
            Err(error) if error.passes() => return None, // it has gone again
            Err(error) => error,
        };
        self.job.met.store(true, Relaxed); // though nobody knows who it is
        // No descriptor left, most likely: who is not answered waits for ever.
        self.job.warn(format!(
            "a process cannot be managed: {error}; raise `ulimit -n`"
        ));
        self.evict(|_| true);
        let spared = self.job.spares.for_caller(|| listener.accept());
        let accepted = spared.unwrap_or_else(|| {
            thread::sleep(TUNING.talk.pause.duration());
            listener.accept()
        });
        accepted.ok()
    }

    /// Who it is, if the kernel says that it is of a group.
    fn prove(&self, peer: Peer) -> Option<Caller> {
        let pid = peer.pid().ok()?;
        let mut pidfd = peer.pidfd();
        if pidfd
            .as_ref()
            .is_err_and(|error| error.shortage().is_some())
        {
            pidfd = self.job.spares.for_caller(|| peer.pidfd())?;
        }
        let pidfd = pidfd.ok()?;
        let look = || self.job.groups.of(pid, &pidfd);
        // Without a descriptor to look with nobody seems to descend from anybody.
        let again = || self.look_again(&Waker::new().err()?, look);
        let group = look().or_else(again)?;
        Some(Caller {
            peer,
            pid,
            pidfd,
            group,
            number: 0,
            next: Next::Hello,
            since: neap_sys::monotonic_nanos(),
            tried: 0,
            _talk: Conversation::begin(&self.job),
        })
    }

    /// Looks with a descriptor that was kept: there is no other.
    fn look_again<T>(&self, error: &SysError, look: impl FnOnce() -> Option<T>) -> Option<T> {
        self.job.met.store(true, Relaxed); // though nobody knows who it is
        self.job.warn(format!(
            "a process cannot be managed: {error}; raise `ulimit -n`"
        ));
        self.job.spares.for_caller(look)?
    }

    /// Whether one more of a process is kept; one that has long been silent may have to go.
    fn has_place(&mut self, pid: i32) -> bool {
        let of_it = self.callers.iter().filter(|caller| caller.pid == pid);
        if of_it.count() >= TUNING.talk.callers_of_one {
            return self.evict(|caller| caller.pid == pid);
        }
        self.callers.len() < TUNING.talk.callers || self.evict(|_| true)
    }

    /// Hangs up on one that has long been silent.
    fn evict(&mut self, among: impl Fn(&Caller) -> bool) -> bool {
        let now = neap_sys::monotonic_nanos();
        let silent = |caller: &Caller| now - caller.since > TUNING.talk.silent.0 && among(caller);
        let longest = self.callers.iter().position(silent);
        longest.and_then(|at| self.callers.remove(at)).is_some()
    }

    /// What a caller that has spoken wants next; none: it needs no more attention.
    fn advance(&mut self, mut caller: Caller) -> Option<Caller> {
        if let Next::Hello = caller.next {
            caller = self.greet(caller)?;
            match caller.next {
                Next::Answer(_) => {}
                _ => return Some(caller),
            }
        }
        self.attend(caller)
    }

    /// Hears what a caller wants.
    fn greet(&self, mut caller: Caller) -> Option<Caller> {
        let mut bytes = [0; size_of::<wire::Hello>()];
        let message = match caller.peer.try_receive(&mut bytes) {
            Err(error) if error.passes() => return Some(caller),
            heard => heard.ok()?,
        };
        let (number, request) = match wire::request(&bytes[..message.len]) {
            Ok(request) => request,
            Err(Bad::Nonsense) => return None,
            Err(Bad::Version) => {
                let why = "its libneap_preload.so is of another version";
                self.job.keeps_out(why);
                return None;
            }
        };
        caller.number = number;
        caller.since = neap_sys::monotonic_nanos();
        caller.next = match request {
            Request::Attach { .. } | Request::Adopt { .. } | Request::Inherit => {
                let plea = Plea::of(&self.job, &caller, request)?;
                self.welcome(&caller, &plea)?;
                Next::Offer(plea)
            }
            other => Next::Answer(other),
        };
        Some(caller)
    }

    /// Tells a process what to offer.
    fn welcome(&self, caller: &Caller, plea: &Plea) -> Option<()> {
        let device = self.job.device().filter(|_| plea.needs_device());
        let fds: Vec<_> = device.iter().map(|device| device.as_fd()).collect();
        let words = attendant::words(&self.job, caller.number);
        if let Err(error) = caller.peer.send(bytes_of(&words), &fds) {
            if caller.lives() {
                self.job.stays_unmanaged(&error);
            }
            return None;
        }
        Some(())
    }

    /// Has a thread do what a caller wants. Without one it waits, and in the end that is done without.
    fn attend(&mut self, caller: Caller) -> Option<Caller> {
        let now = neap_sys::monotonic_nanos();
        if self.job.talks.are_many() || self.job.talks.are_many_of(caller.pid) {
            return Some(caller);
        }
        if caller.tried != 0 && now - caller.tried > TUNING.talk.no_thread.0 {
            refuse_or_answer(&self.job, caller);
            return None;
        }
        let mut caller = Talks::begin(&self.job, caller)?;
        self.rests_until = now + TUNING.talk.pause.0;
        caller.tried = if caller.tried == 0 { now } else { caller.tried };
        Some(caller)
    }
}
