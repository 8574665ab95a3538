//! What happens to a job, in lines for those who follow it. The last ones are kept.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use neap_control::Name;
use neap_sys::{Lock, Waker};
use neap_tuning::TUNING;
use serde::Serialize;

use crate::group::Group;
use crate::job::Job;

/// A kind of event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Memory was wanted at the limit, and waited for reclaim.
    Limit,
    /// The job takes more than its limit and what a burst may.
    Over,
    /// Nothing more can be reclaimed.
    Exhausted,
    /// A process runs without a limit.
    Unmanaged,
    /// Something else that the user was told of.
    Warning,
    /// Something was changed while the job ran.
    Set,
    /// All processes of the job are stopped.
    Freeze,
    /// They go on.
    Thaw,
    /// The job has ended.
    End,
    /// A job has joined the service, or left it.
    Join,
    Leave,
    /// The service is to end: its jobs are asked to.
    Stop,
    /// Threads that take memory wait, for `memory.high`.
    Throttled,
    /// Threads wait for memory for more than the share of time that was set.
    Pressure,
}

impl Kind {
    /// All of them, in the order of their numbers.
    pub const NAMES: [&'static str; 14] = [
        "limit",
        "over",
        "exhausted",
        "unmanaged",
        "warning",
        "set",
        "freeze",
        "thaw",
        "end",
        "join",
        "leave",
        "stop",
        "throttled",
        "pressure",
    ];

    fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// One event, as it is written.
#[derive(Debug, Serialize)]
pub(super) struct Event {
    event: &'static str,
    /// They are numbered from 1 on: who missed some sees it.
    pub seq: u64,
    time_seconds: f64,
    usage_bytes: u64,
    limit_bytes: u64,
    message: String,
    /// The job of a service that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<String>,
    /// The numbers of its group and of those above, the lowest first.
    #[serde(skip)]
    groups: Vec<u64>,
}

impl Event {
    /// The number of the group that it is about.
    pub fn group(&self) -> u64 {
        self.groups.first().copied().unwrap_or(Group::TOP)
    }

    /// Whether it is about that group or one below it.
    pub fn is_within(&self, group: u64) -> bool {
        self.groups.contains(&group)
    }

    /// Whether it is the last one of that group.
    pub fn is_end_of(&self, group: u64) -> bool {
        let kinds = [Kind::End, Kind::Leave];
        self.group() == group && kinds.iter().any(|kind| kind.name() == self.event)
    }
}

/// The events of a job.
#[derive(Default)]
pub(crate) struct Log {
    kept: Lock<Kept, 8>,
    /// Wakes who tells of them.
    waker: OnceLock<Waker>,
}

/// A group as the sampler saw it last.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Memory waits at the limit.
    full: AtomicBool,
    /// The group is over it.
    over: AtomicBool,
    /// Faults that had waited since it was full.
    held: AtomicU64,
    /// When it was last told that memory waits, in nanoseconds.
    last: AtomicU64,
    /// How often each kind of event has come, of the group and of those below it.
    counts: [AtomicU64; Kind::NAMES.len()],
}

impl Seen {
    /// How often each kind of event has come.
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        let counts = self.counts.iter().map(|count| count.load(Relaxed));
        Kind::NAMES.into_iter().zip(counts).collect()
    }
}

/// Threads that a program waits for take its lock. So nothing is allocated, copied or freed under it.
struct Kept {
    events: VecDeque<Arc<Event>>,
    seq: u64,
}

impl Default for Kept {
    fn default() -> Self {
        Self {
            events: VecDeque::with_capacity(TUNING.control.events),
            seq: 0,
        }
    }
}

impl Kept {
    /// One more. The oldest, if there is no room for both.
    fn keep(&mut self, mut event: Arc<Event>) -> Option<Arc<Event>> {
        self.seq += 1;
        Arc::get_mut(&mut event)
            .expect("nobody else has it yet")
            .seq = self.seq;
        let full = self.events.len() >= TUNING.control.events;
        let oldest = full.then(|| self.events.pop_front()).flatten();
        self.events.push_back(event);
        oldest
    }
}

impl Log {
    /// From now on this is rung for each event.
    pub(super) fn set_waker(&self, waker: Waker) {
        let _ = self.waker.set(waker);
    }

    pub(super) fn waker(&self) -> Option<&Waker> {
        self.waker.get()
    }

    /// Wakes who tells of the events.
    pub fn ring(&self) {
        if let Some(waker) = self.waker.get() {
            waker.wake();
        }
    }

    /// Something has happened.
    pub fn note(&self, job: &Job, kind: Kind, message: String) {
        self.note_of(job, job.groups.top(), kind, message);
    }

    /// Something has happened to a group.
    pub fn note_of(&self, job: &Job, group: &Group, kind: Kind, message: String) {
        for level in group.chain() {
            level.seen.counts[kind as usize].fetch_add(1, Relaxed);
        }
        #[expect(clippy::disallowed_methods, reason = "a person reads when it was")]
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let event = Arc::new(Event {
            event: kind.name(),
            seq: 0,
            time_seconds: now.unwrap_or_default().as_secs_f64(),
            usage_bytes: group.meter.usage(),
            limit_bytes: group.meter.limit().min(job.meter.limit()).0,
            message,
            job: group.name.as_ref().map(Name::to_string),
            groups: group.chain().map(|group| group.number).collect(),
        });
        let oldest = self.kept.lock().keep(event);
        drop(oldest); // after the lock
        self.ring();
    }

    /// The sampler has looked at a group; `full`: faults have to wait now. What lasts is one event.
    pub fn look(&self, job: &Job, group: &Group, full: bool) {
        let seen = &group.seen;
        let held = group.events.full.load(Relaxed);
        let full = seen.held.swap(held, Relaxed) != held || full;
        let over = group.meter.is_far_over() && !group.meter.settles();
        let was_full = seen.full.swap(full, Relaxed);
        let was_over = seen.over.swap(over, Relaxed);
        if over && !was_over {
            let line = "the job takes more than its limit";
            self.note_of(job, group, Kind::Over, line.to_owned());
        }
        if full && !was_full {
            let now = neap_sys::monotonic_nanos();
            if now < seen.last.load(Relaxed) + TUNING.control.event.0 {
                return;
            }
            seen.last.store(now, Relaxed);
            let line = "memory is reclaimed before the job gets more";
            self.note_of(job, group, Kind::Limit, line.to_owned());
        }
    }

    /// A thread of a group begins to wait for `memory.high`. Told once a second at most, of the lowest level that is above.
    pub fn throttled(&self, job: &Job, group: &Group) {
        let over = |level: &&Group| level.meter.over_high() > 0;
        let Some(level) = group.chain().find(over) else {
            return;
        };
        let now = neap_sys::monotonic_nanos();
        let last = level.told_high.load(Relaxed);
        if last > 0 && now < last + TUNING.control.event.0 {
            return;
        }
        level.told_high.store(now, Relaxed);
        let high = level.meter.high();
        let line = format!("above memory.high, which is {high}: threads that take memory wait");
        self.note_of(job, level, Kind::Throttled, line);
    }

    /// The number of the next event.
    pub(super) fn next(&self) -> u64 {
        self.kept.lock().seq + 1
    }

    /// The kept events from this number on.
    pub(super) fn since(&self, seq: u64) -> Vec<Arc<Event>> {
        let mut all = Vec::with_capacity(TUNING.control.events);
        let kept = self.kept.lock();
        all.extend(kept.events.iter().filter(|event| event.seq >= seq).cloned());
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event() -> Arc<Event> {
        Arc::new(Event {
            event: "set",
            seq: 0,
            time_seconds: 0.0,
            usage_bytes: 0,
            limit_bytes: 0,
            message: String::new(),
            job: None,
            groups: vec![Group::TOP],
        })
    }

    #[test]
    fn the_last_events_are_shared_in_order_and_nothing_grows_under_the_lock() {
        let log = Log::default();
        let most = TUNING.control.events as u64;
        let room = log.kept.lock().events.capacity();
        for number in 1..=most + 3 {
            let oldest = log.kept.lock().keep(event());
            assert_eq!(oldest.is_some(), number > most, "{number}");
        }
        assert_eq!(log.kept.lock().events.capacity(), room);
        let seqs = |from| {
            log.since(from)
                .iter()
                .map(|event| event.seq)
                .collect::<Vec<_>>()
        };
        assert_eq!(seqs(0), (4..=most + 3).collect::<Vec<_>>());
        assert_eq!(seqs(most + 2), [most + 2, most + 3]);
        let (one, other) = (log.since(most + 3), log.since(most + 3));
        assert!(Arc::ptr_eq(&one[0], &other[0]), "it is not copied");
    }
}
