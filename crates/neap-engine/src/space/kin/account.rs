//! What a process counts of the memory that it shares with its relatives.
//!
//! A page that several processes have counts once: each counts its part of it. The kernel walks every page to tell the parts, so they
//! are measured seldom, of a whole family at once. In between they follow what neap sees: copies, pages that leave, and processes that
//! begin and end. Where neap cannot know, it counts too much rather than too little, until the family is measured again.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use neap_sys::{Process, Sharing};
use neap_tuning::TUNING;
use neap_units::PAGE_SIZE;

use super::{Kin, Line};

/// How much of a process counts here, and how much at its relatives.
#[derive(Debug, Default)]
pub(super) struct Account {
    /// Bytes of the process that are counted elsewhere, as measured last.
    elsewhere: AtomicU64,
    /// Bytes of the process that others have as well, as measured last, less what it has parted since.
    shared: AtomicU64,
    /// How many processes have a page that it shares, in the mean, as measured last; 0: not measured.
    sharers: AtomicU64,
    /// Children that shared when it was measured, as far as can be known, and were not measured with it: each has a part like its own.
    unseen: AtomicU64,
    /// When it was measured, in nanoseconds, or somewhat later if it was forking then; [`Account::NOW`]: it is just being measured.
    measured: AtomicU64,
    /// Faults of the process that copied nothing: neap served them.
    explained: AtomicU64,
    /// Its other faults when that was measured. A child begins with none.
    faults: AtomicU64,
    /// Those other faults as seen last.
    seen: AtomicU64,
    /// Bytes that it may have copied of what it shared since it was measured.
    copied: AtomicU64,
    /// Those other faults when nothing was found that is the process's alone, and one more. 0: it was not looked for.
    settled: AtomicU64,
    /// Not measured yet.
    new: AtomicBool,
}

impl Account {
    const NOW: u64 = u64::MAX;

    /// `new`: of a child just forked.
    pub fn new(new: bool) -> Self {
        Self {
            new: AtomicBool::new(new),
            ..Self::default()
        }
    }
}

impl Kin {
    /// All that a child has at first, `resident` bytes, is its relatives'.
    pub fn begin(&self, resident: Option<u64>) {
        if self.is_new() {
            let resident = resident.unwrap_or(0);
            self.account.elsewhere.store(resident, Relaxed);
            self.account.shared.store(resident, Relaxed);
        }
    }

    /// The space is gone; what it shared is the others' alone, and so is its part of that. The sampler may still have it in a list, where
    /// it has no part any more. What counts elsewhere stays as it is: its memory may have been looked at just before.
    pub fn leave(&self) {
        self.bequeath(self.uncounted(0));
        self.account.shared.store(0, Relaxed);
        self.line.measured.store(0, Relaxed);
        self.family.members.fetch_sub(1, Relaxed);
    }

    fn bequeath(&self, bytes: u64) {
        self.family.bequeathed.fetch_add(bytes, Relaxed);
    }

    /// Bytes that it counts of what it shares, as measured last.
    fn share(&self) -> u64 {
        let shared = self.account.shared.load(Relaxed);
        shared.saturating_sub(self.account.elsewhere.load(Relaxed))
    }

    /// Whether it has come to the family since it was measured.
    pub fn is_new(&self) -> bool {
        self.account.new.load(Relaxed)
    }

    /// Bytes of the process that may be copied yet.
    pub fn may_copy(&self) -> u64 {
        self.account.elsewhere.load(Relaxed)
    }

    /// Its family is measured from now on, all at once.
    pub fn begin_measure(&self) {
        self.family.bequeathed.store(0, Relaxed);
        self.line.measured.store(0, Relaxed);
        self.account.unseen.store(0, Relaxed);
        self.account.measured.store(Account::NOW, Relaxed);
    }

    /// Measures how much of its process is counted elsewhere; `memory` has the same memory. The kernel walks every page
    /// for that.
    pub fn measure(&self, process: &Process, memory: &Process) {
        self.account.new.store(false, Relaxed);
        if let Some(faults) = self.unexplained(process) {
            self.account.faults.store(faults, Relaxed);
        }
        // Without an answer all of it is taken as the process's own.
        self.note_measure(memory.sharing().unwrap_or_default());
        self.account
            .measured
            .store(neap_sys::monotonic_nanos(), Relaxed);
    }

    /// Forgets the measure: the relatives of that time are gone.
    pub(super) fn reset(&self) {
        self.begin_measure();
        self.note_sharing(Sharing::default());
        self.account.measured.store(0, Relaxed);
    }

    fn note_measure(&self, sharing: Sharing) {
        self.note_sharing(sharing);
        self.line.measured.store(sharing.shared, Relaxed);
    }

    /// How many of those from whom it comes were measured with it and share with it. That is told from how much they share: of one that
    /// shares as much with others alone, a part of a child that nobody measured does not count until the next measure.
    fn elders(&self) -> u64 {
        let shared = self.account.shared.load(Relaxed);
        let shares = |elder: &Arc<Line>| elder.measured.load(Relaxed) * 2 > shared;
        let lines = self.elders.get().into_iter().flatten();
        lines.filter_map(Weak::upgrade).filter(shares).count() as u64
    }

    fn note_sharing(&self, sharing: Sharing) {
        self.account.copied.store(0, Relaxed);
        self.account.elsewhere.store(sharing.elsewhere, Relaxed);
        self.account.shared.store(sharing.shared, Relaxed);
        let sharers = sharing.shared.div_ceil(self.share().max(1));
        self.account.sharers.store(sharers, Relaxed);
    }

    /// A fork is under way, or may be, whose child shared already when it was measured.
    pub fn note_forking(&self) {
        let most = TUNING.looks.fork.0;
        self.account.measured.fetch_add(most, Relaxed);
    }

    /// A child shares with it that is not measured with it.
    pub fn note_unseen(&self) {
        self.account.unseen.fetch_add(1, Relaxed);
    }

    /// It is heard that it has forked a child, which the kernel did before.
    pub(super) fn bear(&self, now: u64) {
        let measured = self.account.measured.load(Relaxed);
        if now.saturating_sub(measured) < TUNING.looks.birth.0 {
            self.note_unseen();
        }
    }

    /// Bytes that the others count too little for it, where it has `anon` bytes: the part of such children, and its own part where it has
    /// ended or executed, so that nothing is there any more.
    fn uncounted(&self, anon: u64) -> u64 {
        // Of whom it shares with, it is itself one.
        let measured = 1 + self.elders();
        let others = self.account.sharers.load(Relaxed).saturating_sub(measured);
        let parts = self.account.unseen.load(Relaxed).min(others) + u64::from(anon == 0);
        parts * self.share()
    }

    /// So many pages that were parted have left: no other process counts them any more. Where the process counted them itself, the
    /// others have them yet.
    pub fn has_parted(&self, pages: usize) {
        let bytes = (pages * PAGE_SIZE) as u64;
        let less = |count: &AtomicU64| {
            let less = |before: u64| Some(before.saturating_sub(bytes));
            count.fetch_update(Relaxed, Relaxed, less).unwrap_or(0)
        };
        less(&self.account.shared);
        let counted_elsewhere = less(&self.account.elsewhere);
        self.bequeath(bytes.saturating_sub(counted_elsewhere));
    }

    /// So many pages have left that nobody has any more who shared them.
    pub fn has_given_up(&self, pages: usize) {
        let bytes = (pages * PAGE_SIZE) as u64;
        let shared = self.account.shared.load(Relaxed);
        if shared == 0 {
            return; // nothing is known of it
        }
        let left = shared.saturating_sub(bytes);
        let elsewhere = part_of(self.account.elsewhere.load(Relaxed), left, shared);
        self.account.shared.store(left, Relaxed);
        self.account.elsewhere.store(elsewhere, Relaxed);
    }

    /// So many faults of the process copied nothing, or will turn out to.
    pub fn explain(&self, faults: u64) {
        self.account.explained.fetch_add(faults, Relaxed);
    }

    /// Nothing is the process's alone just now.
    pub fn settle(&self, process: &Process) {
        if let Some(faults) = self.unexplained(process) {
            self.account.settled.store(faults + 1, Relaxed);
        }
    }

    /// Whether the process may have copied something since.
    pub fn has_news(&self, process: &Process) -> bool {
        let settled = self.account.settled.load(Relaxed);
        let enough = settled + TUNING.reclaim.news;
        settled == 0 || self.unexplained(process).is_none_or(|now| now > enough)
    }

    /// Faults of the process that may have copied something, as seen last.
    pub fn seen(&self) -> u64 {
        self.account.seen.load(Relaxed)
    }

    pub(super) fn unexplained(&self, process: &Process) -> Option<u64> {
        let faults = process.faults()?;
        Some(faults.saturating_sub(self.account.explained.load(Relaxed)))
    }

    /// Looks at what the process may have copied since: the kernel copies a shared page at the first write to it, and
    /// counts no memory for it that it did not count before. Faults of memory that is not registered are taken for copies,
    /// too. How much that is, in bytes.
    pub fn note_copies(&self, process: &Process) -> u64 {
        if let Some(now) = self.unexplained(process) {
            self.account.seen.store(now, Relaxed);
            let pages = now.saturating_sub(self.account.faults.load(Relaxed));
            // All that it shares, of which at least a half counts elsewhere.
            let most = self.account.elsewhere.load(Relaxed) * 2;
            self.account
                .copied
                .store(most.min(pages * PAGE_SIZE as u64), Relaxed);
        }
        self.account.copied.load(Relaxed)
    }

    /// What the process adds to the memory of its family, of `resident` bytes of its own: shared pages are divided by their
    /// sharers as measured last, and each copy since is one page more.
    pub fn proportional(&self, resident: u64) -> u64 {
        let own = resident.saturating_sub(self.account.elsewhere.load(Relaxed));
        own + self.account.copied.load(Relaxed)
    }
}

/// So many parts of a whole of this.
fn part_of(all: u64, parts: u64, whole: u64) -> u64 {
    (u128::from(all) * u128::from(parts) / u128::from(whole.max(1))) as u64
}

/// What a family has beside what its members count, as far as the shares measured of them are stale.
///
/// It has no less than its largest member: a new one counts only its copies until it is measured. And it still has what those counted
/// who have ended since, or were not measured; but all of it is in one member or another.
#[derive(Default)]
pub(crate) struct Stale {
    counted: u64,
    /// What the members have, each for itself.
    all: u64,
    bequeathed: u64,
    uncounted: u64,
    /// Of the member that has most: which it is, and what it has.
    most: (usize, u64),
}

impl Stale {
    /// Member `which` has `anon` bytes, of which it counts so many.
    pub fn note(&mut self, which: usize, kin: &Kin, anon: u64, counted: u64) {
        self.counted += counted;
        self.all += anon;
        self.uncounted += kin.uncounted(anon);
        self.bequeathed = kin.family.bequeathed.load(Relaxed);
        if anon > self.most.1 {
            self.most = (which, anon);
        }
    }

    /// What lacks, and the member that it is to count for.
    pub fn lacking(&self) -> (usize, u64) {
        let (which, anon) = self.most;
        let left = self.all.saturating_sub(self.counted);
        let lacking = left.min(self.bequeathed + self.uncounted);
        (which, lacking.max(anon.saturating_sub(self.counted)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_has_at_least_what_one_of_it_has() {
        assert_eq!(
            lacking(&Kin::first(1), 2),
            (1, 52),
            "measured beside others"
        );
        assert_eq!(lacking(&Kin::first(1), 54), (1, 0));
        assert_eq!(lacking(&Kin::first(1), 70), (1, 0));
    }

    /// Of a family of three.
    fn lacking(kin: &Kin, parents: u64) -> (usize, u64) {
        let mut stale = Stale::default();
        for (which, anon, counted) in [(0, 5, 5), (1, 64, parents), (2, 60, 5)] {
            stale.note(which, kin, anon, counted);
        }
        stale.lacking()
    }

    #[test]
    fn what_a_child_counted_of_what_it_shared_counts_when_it_has_ended() {
        let kin = Kin::first(1);
        let (measured, new, parting) = (kin.another(1), kin.another(1), kin.another(1));
        new.begin(Some(60));
        new.leave();
        assert_eq!(lacking(&kin, 54), (1, 0), "it counted nothing");
        let page = PAGE_SIZE as u64;
        let (elsewhere, shared) = (15 * page, 20 * page);
        measured.note_sharing(Sharing { elsewhere, shared });
        measured.leave();
        assert_eq!(bequeathed(&kin), 5 * page);
        parting.note_sharing(Sharing { elsewhere, shared });
        parting.has_parted(3); // it counts no less than before, since others count no more
        parting.leave();
        assert_eq!(bequeathed(&kin), 10 * page);
        assert_eq!(lacking(&kin, 2), (1, 129 - 12), "not more than there is");
        kin.begin_measure();
        assert_eq!(lacking(&kin, 54), (1, 0));
    }

    fn bequeathed(kin: &Kin) -> u64 {
        kin.family.bequeathed.load(Relaxed)
    }

    /// A chain: the first of it and one in the middle were measured, who forked the last and ended.
    #[test]
    fn what_a_chain_shares_counts_once_while_its_middle_ends() {
        let page = PAGE_SIZE as u64;
        let (elsewhere, shared) = (30 * page, 60 * page);
        let first = Kin::first(1);
        let (middle, last) = (first.another(1), first.another(1));
        middle.come_from(&first);
        last.come_from(&middle);
        assert_eq!(last.elders.get().map(Vec::len), Some(2));
        first.begin_measure();
        middle.begin_measure();
        for kin in [&first, &middle] {
            kin.note_measure(Sharing { elsewhere, shared });
        }
        middle.note_unseen(); // so it may seem; but the kernel has seen two
        assert_eq!((first.elders(), middle.elders()), (0, 1));
        last.begin(Some(shared));
        let counts = |middle_has| {
            let mut stale = Stale::default();
            let all = [(&first, shared), (&middle, middle_has), (&last, shared)];
            let each = all.into_iter().enumerate().map(|(which, (kin, anon))| {
                let counted = kin.proportional(anon);
                stale.note(which, kin, anon, counted);
                counted
            });
            let counted: u64 = each.sum();
            counted + stale.lacking().1
        };
        assert_eq!(counts(shared), shared, "all live");
        assert_eq!(counts(0), shared, "the middle has ended");
        middle.leave();
        assert_eq!(counts(0), shared, "it is still in a list");
        drop(middle);
        let newest = first.another(1);
        newest.come_from(&last);
        assert_eq!(
            newest.elders.get().map(Vec::len),
            Some(2),
            "who is gone is in no line"
        );
    }

    #[test]
    fn what_others_still_have_of_what_a_process_gave_up_counts() {
        let page = PAGE_SIZE as u64;
        let kin = Kin::first(1);
        let _child = kin.another(1);
        let (elsewhere, shared) = (10 * page, 20 * page);
        kin.note_sharing(Sharing { elsewhere, shared });
        kin.has_parted(20);
        assert_eq!(kin.proportional(0), 0);
        assert_eq!(
            bequeathed(&kin),
            10 * page,
            "the child counts the other half"
        );
    }

    #[test]
    fn a_child_that_shares_and_is_not_measured_counts_as_its_parent_does() {
        let pid = std::process::id().cast_signed();
        let pidfd = neap_sys::Pidfd::open(pid).unwrap();
        let process = Process::open(pid, &pidfd).unwrap();
        let sharing = Sharing {
            elsewhere: 90,
            shared: 100,
        };
        let kin = Kin::first(1);
        let _child = kin.another(1);
        kin.bear(1 << 60);
        kin.note_sharing(sharing);
        assert_eq!(kin.uncounted(100), 0, "it was never measured");
        kin.begin_measure();
        kin.bear(0);
        kin.measure(&process, &process);
        kin.note_sharing(sharing);
        assert_eq!(kin.uncounted(100), 10);
        let end = kin.account.measured.load(Relaxed);
        kin.bear(end + TUNING.looks.birth.0 - 1);
        assert_eq!(kin.uncounted(100), 20);
        kin.bear(end + TUNING.looks.birth.0);
        assert_eq!(kin.uncounted(100), 20);
        kin.note_forking();
        kin.bear(end + TUNING.looks.birth.0);
        assert_eq!(kin.uncounted(100), 30);
        kin.bear(end + TUNING.looks.birth.0 + TUNING.looks.fork.0);
        assert_eq!(kin.uncounted(100), 30);
        (0..20).for_each(|_| kin.note_unseen());
        assert_eq!(kin.uncounted(100), 90, "it shares with nine");
        kin.begin_measure();
        assert_eq!(kin.uncounted(100), 0);
    }

    #[test]
    fn what_all_have_given_up_counts_for_nobody() {
        let page = PAGE_SIZE as u64;
        let (elsewhere, shared) = (20 * page, 30 * page);
        let first = Kin::first(1);
        let all = [first.another(1), first.another(1), first];
        let mut left = 0;
        for kin in &all {
            kin.note_sharing(Sharing { elsewhere, shared });
            kin.has_given_up(15);
            kin.has_given_up(0);
            left += kin.proportional(15 * page) + bequeathed(kin);
        }
        assert_eq!(left, 15 * page);
        let new = all[0].another(1);
        new.begin(Some(30 * page));
        new.has_given_up(10);
        assert_eq!(new.proportional(20 * page), 0, "its parent counts it");
    }

    #[test]
    fn what_was_written_since_counts_as_copied_until_it_is_measured_anew() {
        let pid = std::process::id().cast_signed();
        let pidfd = neap_sys::Pidfd::open(pid).unwrap();
        let process = Process::open(pid, &pidfd).unwrap();
        let after_writing = |kin: &Kin| {
            let memory = std::hint::black_box(vec![1_u8; 40 << 20]); // more than malloc keeps
            (kin.note_copies(&process), memory).0
        };
        let kin = Kin::first(1);
        kin.measure(&process, &process);
        assert_eq!(after_writing(&kin), 0, "nothing is shared");
        kin.account.elsewhere.store(1 << 40, Relaxed);
        let (before, after) = (kin.note_copies(&process), after_writing(&kin));
        assert!(after > before, "{after} after {before}");
        assert_eq!(kin.proportional(1 << 40), after);
        kin.account.elsewhere.store(PAGE_SIZE as u64, Relaxed);
        let most = 2 * PAGE_SIZE as u64;
        assert_eq!(kin.note_copies(&process), most, "no more than is shared");
        kin.explain(1 << 40);
        assert_eq!(kin.note_copies(&process), 0, "neap served them all");
        kin.measure(&process, &process);
        assert_eq!(kin.proportional(1 << 40), 1 << 40);
    }
}
