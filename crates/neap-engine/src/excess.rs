//! Groups that took more than their limit: what the reason was, for the message at their end.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use neap_units::{Bytes, PAGE_SIZE};

use crate::control::Kind;
use crate::group::Group;
use crate::job::Job;
use crate::reclaim::Inventory;
use crate::spawn::try_spawn;

/// What of a group could not be reclaimed when it was first far over its limit.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// Somebody looks, or has looked.
    counted: AtomicBool,
    found: OnceLock<Stays>,
}

/// What reclaim cannot take from programs.
#[derive(Clone, Debug, Default)]
struct Stays {
    /// Bytes of which that is sure.
    sure: u64,
    /// With those that nobody had found by then, or that stay since that was asked for.
    all: u64,
    /// The largest reasons.
    words: String,
}

/// How far a group was over its limit.
struct Excess {
    limit: u64,
    /// That far.
    bytes: u64,
    /// What neap took for itself then, without the pool.
    own: u64,
    /// What reclaim leaves to the programs in any case.
    floor: u64,
    /// Since all pages came back for a fork.
    thawed: bool,
    /// What reclaim could not take then; nothing if nobody has looked.
    stays: Stays,
}

impl Excess {
    /// Whether there was no room beside what neap itself took, and there would have been without that.
    fn is_of_neap(&self) -> bool {
        let needed = self.stays.sure + self.floor;
        self.bytes <= self.own && needed <= self.limit && needed + self.own > self.limit
    }

    /// Whether what cannot leave the programs left too little room for the rest.
    fn is_of_what_stays(&self) -> bool {
        self.stays.all + self.floor + self.own > self.limit && !self.stays.words.is_empty()
    }

    /// What it was, as far as that is known, and what to do; `trouble` is with the swap file.
    fn cause(&self, trouble: Option<String>) -> String {
        if self.thawed {
            return "it forked, and without CAP_SYS_PTRACE all pages come back for that (neap doctor)".to_owned();
        }
        let cause = if self.is_of_neap() {
            format!(
                "{} of it is what neap itself takes, and too little is left for the programs; give a larger -m, {} more or so",
                Bytes(self.own),
                Bytes(self.bytes.next_multiple_of(1 << 20)),
            )
        } else if self.is_of_what_stays() {
            format!("{}; give a larger -m", self.stays.words)
        } else {
            "memory came faster than it could leave; give a larger -m".to_owned()
        };
        match trouble {
            Some(trouble) => format!("{cause}; and {trouble}"),
            None => cause,
        }
    }
}

impl Job {
    /// Has another thread look what a group has, once it is far over its limit.
    pub fn look_at_excess(self: &Arc<Self>, group: &Arc<Group>) {
        let meter = &group.meter;
        if !meter.is_far_over() || meter.settles() || group.held.counted.swap(true, Relaxed) {
            return;
        }
        let (job, group) = (self.clone(), group.clone());
        let _ = try_spawn("neap-count", move || {
            neap_sys::lower_to_ordinary();
            let inventory = Inventory::take(&job, &group);
            let found = Stays {
                sure: inventory.held(),
                all: inventory.held_at_most(),
                words: inventory.words_of_held(),
            };
            let _ = group.held.found.set(found);
        });
    }

    /// A group ends. A program may lock or map memory faster than anything can be found, and be done before reclaim is sure:
    /// the user is told of it all the same.
    pub fn tell_of_excess(&self, group: &Group) {
        let meter = &group.meter;
        if !meter.was_far_over() || group.is_told_dry() {
            return;
        }
        let (bytes, limit) = meter.furthest();
        let excess = Excess {
            limit: limit.0,
            bytes,
            own: meter.peaked_own(),
            floor: meter.floor().0 * PAGE_SIZE as u64,
            thawed: meter.peaked_thawed(),
            stays: group.held.found.get().cloned().unwrap_or_default(),
        };
        let own = group.account.trouble(self.store.can_write());
        let trouble = own.map(str::to_owned).or_else(|| self.store.swap_trouble());
        let line = format!(
            "{} took {} at its peak, more than its limit of {limit}: {}",
            group.who(),
            Bytes(limit.0 + bytes),
            excess.cause(trouble),
        );
        self.tell_group(group, Kind::Warning, line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn excess(own: u64, sure: u64, words: &str) -> Excess {
        Excess {
            limit: 24 * MIB,
            bytes: 6 * MIB,
            own: own * MIB,
            floor: 2 * MIB,
            thawed: false,
            stays: Stays {
                sure: sure * MIB,
                all: sure * MIB,
                words: words.to_owned(),
            },
        }
    }

    #[test]
    fn neap_itself_is_the_reason_only_where_all_would_fit_without_it() {
        let is = |own, sure| excess(own, sure, "").is_of_neap();
        assert!(!is(8, 0), "there was room: memory came too fast");
        assert!(is(8, 15), "8 + 15 + 2 of 24");
        assert!(!is(8, 14), "all would have fitted");
        assert!(!is(5, 20), "the job was over by more than neap took");
        assert!(!is(8, 23), "nor would it fit without neap");
    }

    #[test]
    fn each_reason_comes_with_what_to_do() {
        let cause = |own, sure, words| excess(own, sure, words).cause(None);
        let words = cause(8, 20, "20MiB is locked");
        assert!(words.starts_with("8MiB of it is what neap itself takes"));
        assert!(
            words.ends_with("give a larger -m, 6MiB more or so"),
            "{words}"
        );
        let fast = "memory came faster than it could leave; give a larger -m";
        assert_eq!(cause(2, 0, ""), fast);
        assert_eq!(cause(2, 1, "1MiB is of files"), fast, "that is no reason");
        let locked = cause(1, 26, "26MiB is locked");
        assert_eq!(locked, "26MiB is locked; give a larger -m");
        let full = excess(0, 0, "").cause(Some("the disk is full".into()));
        assert!(full.ends_with("; and the disk is full"));
        let forked = Excess {
            thawed: true,
            ..excess(8, 0, "")
        };
        let forked = forked.cause(Some("the disk is full".into()));
        assert!(forked.contains("it forked"));
    }
}
