//! The visits of reclaim of everything: old once, from a random bin on, until it is enough (SPEC 3.10; kernel: mm/vmscan.c,
//! `shrink_many` and `shrink_one`).
//!
//! [`shrink_many`] does all of it. [`BinWalk`] is the same as a cursor: groups may come, go and move between its calls. So
//! a caller whose groups lie under a lock takes it for each call, and reclaims without it.

use neap_units::Pages;

use super::{MEMCG_NR_BINS, MemcgLru, MemcgOp, MemcgTrigger, VisitRules};
use crate::generations::MIN_LRU_BATCH;
use crate::list::LinkId;
use crate::memcg::Protection;
use crate::shrinker::DEF_PRIORITY;

/// Live generations of the memcg LRU, and the lowest initial priority since 6.7.
const LIVE_GENERATIONS: u64 = 2;
const LOWEST_START: i64 = 6;

/// What a walk asks about groups.
pub trait Groups<Id: LinkId> {
    /// The memcg LRU that is walked.
    fn lru(&mut self) -> &mut MemcgLru<Id>;

    /// A number below `n`, drawn at random.
    fn random(&mut self, n: u32) -> u32;

    /// What protects a group from this reclaimer ([`MinLow::judge`](crate::MinLow::judge)).
    fn protection(&mut self, id: Id) -> Protection;

    /// Counts the event `low`: a group is reclaimed from although it is below `memory.low`.
    fn count_low(&mut self, id: Id);

    /// Whether somebody may still live in a group.
    fn online(&self, id: Id) -> bool;

    /// Whether a group has too little to scan at the priority of this reclaim ([`too_small`]).
    fn too_small(&self, id: Id) -> bool;

    /// Whether enough was reclaimed, so that the walk stops where it is (kernel: `should_abort_scan`).
    fn enough(&self) -> bool;
}

/// What a visit came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Visited {
    /// It has opened a generation of the group's pages: the group gave what was old.
    pub aged: bool,
}

/// Visits the groups of old from a random bin on, until `groups` has enough. `shrink` reclaims from one group; it may move,
/// insert and remove groups.
///
/// ```
/// use neap_policy::{
///     Groups, MemcgId, MemcgLru, MinLow, Protection, VisitRules, Visited, shrink_many, too_small,
/// };
/// use neap_units::Pages;
///
/// struct Job {
///     lru: MemcgLru<MemcgId>,
///     usage: Vec<Pages>,
///     effective: Vec<MinLow>,
///     freed: Pages,
/// }
///
/// impl Groups<MemcgId> for Job {
///     fn lru(&mut self) -> &mut MemcgLru<MemcgId> {
///         &mut self.lru
///     }
///     fn random(&mut self, n: u32) -> u32 {
///         4 % n // an engine draws it
///     }
///     fn protection(&mut self, id: MemcgId) -> Protection {
///         self.effective[id.index()].judge(self.usage[id.index()])
///     }
///     fn count_low(&mut self, _: MemcgId) {}
///     fn online(&self, _: MemcgId) -> bool {
///         true
///     }
///     fn too_small(&self, id: MemcgId) -> bool {
///         too_small(self.usage[id.index()], 2, true)
///     }
///     fn enough(&self) -> bool {
///         self.freed >= Pages(64)
///     }
/// }
///
/// let mut job = Job {
///     lru: MemcgLru::default(),
///     usage: vec![Pages(100); 3],
///     effective: vec![MinLow::default(); 3],
///     freed: Pages::ZERO,
/// };
/// job.effective[0].min = Pages(200);
/// for id in 0..3 {
///     job.lru.insert(MemcgId(id), id);
/// }
/// shrink_many(VisitRules::V67, &mut job, |job, id| {
///     job.usage[id.index()] -= Pages(40);
///     job.freed += Pages(40);
///     Visited { aged: true }
/// });
/// // The first is below its min; the others gave, and all three are young: that is, they are old again.
/// assert_eq!(job.usage, [Pages(100), Pages(60), Pages(60)]);
/// assert_eq!(job.lru.seq(), 1);
/// ```
pub fn shrink_many<Id: LinkId, G: Groups<Id>>(
    rules: VisitRules,
    groups: &mut G,
    mut shrink: impl FnMut(&mut G, Id) -> Visited,
) {
    let mut walk = BinWalk::new(rules, groups);
    while let Some(id) = walk.next_group(groups) {
        let visited = shrink(groups, id);
        walk.end_visit(groups, visited);
    }
}

/// A walk through the old generation of a memcg LRU, under way. It comes by each bin of the generation that was old at its
/// start once. It meets a group again that has moved to a bin still to come, and it begins a bin anew if the group that it
/// visited last was moved meanwhile.
#[derive(Clone, Debug)]
pub struct BinWalk<Id> {
    rules: VisitRules,
    seq: u64,
    first_bin: u32,
    bin: u32,
    /// The group visited last; what is to be done with it when the walk goes on.
    at: Option<Id>,
    op: Option<MemcgOp>,
    over: bool,
}

impl<Id: LinkId> BinWalk<Id> {
    /// A walk that has visited nobody.
    pub fn new(rules: VisitRules, groups: &mut impl Groups<Id>) -> BinWalk<Id> {
        let bin = groups.random(MEMCG_NR_BINS) % MEMCG_NR_BINS;
        BinWalk {
            rules,
            seq: groups.lru().seq(),
            first_bin: bin,
            bin,
            at: None,
            op: None,
            over: false,
        }
    }

    /// The next group to reclaim from, if the walk goes on; [`BinWalk::end_visit`] must follow. Groups that are not to be
    /// reclaimed from move and are passed over.
    pub fn next_group(&mut self, groups: &mut impl Groups<Id>) -> Option<Id> {
        while !self.over {
            let Some(id) = self.next_in_bin(groups) else {
                self.at = None;
                self.bin = (self.bin + 1) % MEMCG_NR_BINS;
                self.over = self.bin == self.first_bin;
                continue;
            };
            self.at = Some(id);
            self.op = self.before_visit(id, groups);
            if self.op.is_none() {
                return Some(id);
            }
            if groups.enough() {
                self.stop(groups);
            }
        }
        None
    }

    /// The visit of the group that [`BinWalk::next_group`] gave is over.
    pub fn end_visit(&mut self, groups: &mut impl Groups<Id>, visited: Visited) {
        let Some(id) = self.at else {
            return;
        };
        // Nothing is asked about a group that was removed meanwhile.
        if let Some(place) = groups.lru().place(id) {
            let online = groups.online(id);
            let trigger = self.rules.after(visited, online, || groups.too_small(id));
            self.op = trigger.and_then(|trigger| trigger.op(place.seg));
        }
        if groups.enough() {
            self.stop(groups);
        }
    }

    /// Ends the walk where it is.
    pub fn stop(&mut self, groups: &mut impl Groups<Id>) {
        self.apply(groups);
        self.over = true;
    }

    /// The next member of the walk's generation in its bin. What was decided about the
    /// last one is done when the walk has left it.
    fn next_in_bin(&mut self, groups: &mut impl Groups<Id>) -> Option<Id> {
        let (seq, bin) = (self.seq, self.bin);
        let lru = groups.lru();
        let stays = |id: &Id| {
            let place = lru.place(*id);
            place.is_some_and(|place| (place.seq, place.bin) == (seq, bin))
        };
        let next = match self.at.filter(stays) {
            Some(id) => lru.after(id),
            // None was visited, or somebody moved it meanwhile, and its links with it: from the start.
            None => lru.first(seq, bin),
        };
        self.apply(groups);
        // A slot that another generation has by now is left alone.
        let lru = groups.lru();
        next.filter(|&id| lru.place(id).is_some_and(|place| place.seq == seq))
    }

    /// The tests before any work on a group; an operation instead of a visit.
    fn before_visit(&self, id: Id, groups: &mut impl Groups<Id>) -> Option<MemcgOp> {
        let seg = groups.lru().place(id)?.seg;
        if self.rules.size_first() && groups.too_small(id) {
            return MemcgTrigger::TooSmall.op(seg);
        }
        let protection = groups.protection(id);
        let op = protection.trigger().and_then(|trigger| trigger.op(seg));
        if op.is_none() && protection == Protection::BelowLow {
            groups.count_low(id);
        }
        op
    }

    fn apply(&mut self, groups: &mut impl Groups<Id>) {
        if let (Some(id), Some(op)) = (self.at, self.op.take()) {
            let bin = groups.random(MEMCG_NR_BINS);
            groups.lru().rotate(id, op, bin);
        }
    }
}

/// Whether a group has nothing to scan at a priority; an offline one is asked without shift (SPEC 3.10; kernel:
/// `lruvec_is_sizable`). `evictable` is what its generations hold that may leave.
#[must_use]
pub fn too_small(evictable: Pages, priority: u8, online: bool) -> bool {
    let shift = if online { priority } else { 0 };
    evictable.0 >> shift == 0
}

/// The priority that should meet a goal in one pass; the usual one for goals below 64 pages (SPEC 3.10; kernel:
/// `set_initial_priority`). `reclaimable`: what is inactive of everyone, and can be freed.
#[must_use]
pub fn initial_priority(rules: VisitRules, reclaimable: Pages, goal: Pages) -> u8 {
    if goal.0 < MIN_LRU_BATCH {
        return DEF_PRIORITY;
    }
    let (of, lowest) = match rules {
        VisitRules::V63 => (LIVE_GENERATIONS, 0),
        VisitRules::V67 => (1, LOWEST_START),
    };
    let priority = fls(reclaimable.0 / of) - 1 - fls(goal.0 - 1);
    priority.clamp(lowest, DEF_PRIORITY.into()) as u8
}

/// The highest bit that is set, counted from 1; 0 of 0.
fn fls(n: u64) -> i64 {
    i64::from(u64::BITS - n.leading_zeros())
}
