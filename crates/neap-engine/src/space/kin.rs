//! Parents and children: which spaces share pages since a fork.
//!
//! Shared pages count once against the limit, though the kernel counts them for each process
//! (RssAnon); and they do not move until they are shared no longer. So reclaim parts them: each process
//! gets a copy of its own, which leaves at once, and what the store keeps of the first is offered to the
//! others, so that the same bytes are compressed and kept once.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, Weak};

use neap_policy::{State, Step};
use neap_record::Recorded;
use neap_sys::{Lock, Process};
use neap_tuning::TUNING;
use neap_units::{EntryId, PAGE_SIZE, PageNr, SpaceId};

use super::Space;
use crate::job::Job;

/// The spaces that come from one by forks.
struct Family {
    number: u64,
    /// How many of them are left.
    members: AtomicU32,
    /// Pages that one or another of them has parted.
    parted: AtomicU64,
    /// A child was seen to copy what it shares.
    copies: AtomicBool,
}

pub(crate) struct Kin {
    family: Arc<Family>,
    /// Who forked it: its copies may serve here, too, and what was absent there is absent here.
    parent: OnceLock<Weak<Space>>,
    /// The pages that were there at the fork are not in the table yet.
    inherits: AtomicBool,
    /// Pages that were shared until our agent made them the process's own: relatives may have the same
    /// bytes.
    parted: Lock<HashSet<PageNr>, 6>,
    /// Bytes of the process that are counted elsewhere, as measured last.
    elsewhere: AtomicU64,
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
    /// When it was forked, in nanoseconds; 0: never, or nobody is left of its family.
    born: u64,
}

impl Kin {
    /// The first of a family, which has this number from now on.
    pub fn first(number: u64) -> Self {
        let family = Family {
            number,
            members: AtomicU32::new(1),
            parted: AtomicU64::new(0),
            copies: AtomicBool::new(false),
        };
        Self::of(Arc::new(family), 0)
    }

    /// One more, forked just now. Where the process that forked it has ended since, any other of them knows the family.
    pub fn another(&self) -> Self {
        if !self.shares() {
            // Measured with those that are gone; from here on it counts.
            self.elsewhere.store(0, Relaxed);
            self.copied.store(0, Relaxed);
        }
        self.family.members.fetch_add(1, Relaxed);
        Self::of(self.family.clone(), neap_sys::monotonic_nanos())
    }

    fn of(family: Arc<Family>, born: u64) -> Self {
        Self {
            family,
            parent: OnceLock::new(),
            inherits: AtomicBool::new(false),
            parted: Lock::default(),
            elsewhere: AtomicU64::new(0),
            explained: AtomicU64::new(0),
            faults: AtomicU64::new(0),
            seen: AtomicU64::new(0),
            copied: AtomicU64::new(0),
            settled: AtomicU64::new(0),
            new: AtomicBool::new(born > 0),
            born,
        }
    }

    /// What is found in it may have copies there.
    pub fn inherit_from(&self, parent: &Arc<Space>) {
        let _ = self.parent.set(Arc::downgrade(parent));
        self.inherits.store(true, Relaxed);
    }

    /// All that a child has at first, `resident` bytes, is its relatives'.
    pub fn begin(&self, resident: Option<u64>) {
        if self.is_new() {
            self.elsewhere.store(resident.unwrap_or(0), Relaxed);
        }
    }

    /// The space is gone; what it shared is the others' alone.
    pub fn leave(&self) {
        self.family.members.fetch_sub(1, Relaxed);
    }

    pub fn parent(&self) -> Option<Arc<Space>> {
        self.parent.get().and_then(Weak::upgrade)
    }

    /// Whether pages may be shared with another space.
    pub fn shares(&self) -> bool {
        self.family.members.load(Relaxed) > 1
    }

    /// Whether the pages that were there at the fork must still be found.
    pub fn inherits(&self) -> bool {
        self.inherits.load(Relaxed)
    }

    /// Whether that can wait: the child shares what it has, and has touched next to nothing else. The records of its pages
    /// would take more of neap's memory than it has of its own.
    pub fn is_idle(&self, process: &Process) -> bool {
        let quiet = |faults| faults * (PAGE_SIZE as u64) < TUNING.looks.idle_child.0;
        self.inherits() && self.shares() && self.unexplained(process).is_some_and(quiet)
    }

    /// They have been found.
    pub fn end_inherits(&self) {
        self.inherits.store(false, Relaxed);
    }

    /// Our agent is about to make these pages the process's own.
    pub fn part(&self, pages: &[PageNr]) {
        self.parted.lock().extend(pages);
    }

    /// So many pages that were parted have left: no other process counts them any more.
    pub fn has_parted(&self, pages: usize) {
        let bytes = (pages * PAGE_SIZE) as u64;
        let less = |elsewhere: u64| Some(elsewhere.saturating_sub(bytes));
        let _ = self.elsewhere.fetch_update(Relaxed, Relaxed, less);
    }

    /// How many of so many pages that it parted others still have, in the mean: each page is free when the last has parted it.
    pub fn still_with_others(&self, pages: u64) -> u64 {
        let members = u64::from(self.family.members.load(Relaxed)).max(1);
        let before = self.family.parted.fetch_add(pages, Relaxed);
        pages - ((before + pages) / members - before / members)
    }

    /// Whether the page was parted, once.
    pub fn take_parted(&self, page: PageNr) -> bool {
        self.parted.lock().remove(&page)
    }

    /// Nothing is shared any more: what was parted is the process's alone.
    pub fn forget_parted(&self) {
        self.parted.lock().clear();
    }

    /// The other spaces that come from the same one. `own`: the id of this space.
    pub fn relatives(&self, job: &Job, own: SpaceId) -> Vec<Arc<Space>> {
        if !self.shares() {
            return Vec::new();
        }
        let spaces = job.spaces();
        let is_relative =
            |other: &&Arc<Space>| other.id != own && other.kin.family() == self.family();
        spaces.iter().filter(is_relative).cloned().collect()
    }

    /// The number of the family: of no other space, of no other family.
    pub fn family(&self) -> u64 {
        self.family.number
    }

    /// Whether it was forked a moment ago, so that its agent may still come.
    pub fn is_young(&self, now: u64) -> bool {
        now.saturating_sub(self.born) < TUNING.looks.childhood.0
    }

    /// Whether another of its family forked it.
    pub fn is_forked(&self) -> bool {
        self.born > 0
    }

    /// Bytes of the process that may be copied yet.
    pub fn may_copy(&self) -> u64 {
        self.elsewhere.load(Relaxed)
    }

    /// It copies what it shares.
    pub fn note_copier(&self) {
        if self.is_forked() {
            self.family.copies.store(true, Relaxed);
        }
    }

    /// Whether a child of the family does, so that the next one will.
    pub fn has_copier(&self) -> bool {
        self.family.copies.load(Relaxed)
    }

    /// Whether it has come to the family since it was measured.
    pub fn is_new(&self) -> bool {
        self.new.load(Relaxed)
    }

    /// Measures how much of its process is counted elsewhere; `memory` has the same memory. The kernel walks every page
    /// for that.
    pub fn measure(&self, process: &Process, memory: &Process) {
        self.new.store(false, Relaxed);
        if let Some(faults) = self.unexplained(process) {
            self.faults.store(faults, Relaxed);
        }
        self.copied.store(0, Relaxed);
        // What may not be read is taken as its own.
        let elsewhere = memory.anon_of_sharers().unwrap_or(0);
        self.elsewhere.store(elsewhere, Relaxed);
    }

    /// So many faults of the process copied nothing, or will turn out to.
    pub fn explain(&self, faults: u64) {
        self.explained.fetch_add(faults, Relaxed);
    }

    /// Nothing is the process's alone just now.
    pub fn settle(&self, process: &Process) {
        if let Some(faults) = self.unexplained(process) {
            self.settled.store(faults + 1, Relaxed);
        }
    }

    /// Whether the process may have copied something since.
    pub fn has_news(&self, process: &Process) -> bool {
        let settled = self.settled.load(Relaxed);
        let enough = settled + TUNING.reclaim.news;
        settled == 0 || self.unexplained(process).is_none_or(|now| now > enough)
    }

    /// Faults of the process that may have copied something, as seen last.
    pub fn seen(&self) -> u64 {
        self.seen.load(Relaxed)
    }

    fn unexplained(&self, process: &Process) -> Option<u64> {
        let faults = process.faults()?;
        Some(faults.saturating_sub(self.explained.load(Relaxed)))
    }

    /// Looks at what the process may have copied since: the kernel copies a shared page at the first write to it, and
    /// counts no memory for it that it did not count before. Faults of memory that is not registered are taken for copies,
    /// too. How much that is, in bytes.
    pub fn note_copies(&self, process: &Process) -> u64 {
        if let Some(now) = self.unexplained(process) {
            self.seen.store(now, Relaxed);
            let pages = now.saturating_sub(self.faults.load(Relaxed));
            // All that it shares, of which at least a half counts elsewhere.
            let most = self.elsewhere.load(Relaxed) * 2;
            self.copied
                .store(most.min(pages * PAGE_SIZE as u64), Relaxed);
        }
        self.copied.load(Relaxed)
    }

    /// What the process adds to the memory of its family, of `resident` bytes of its own: shared pages are divided by their
    /// sharers as measured last, and each copy since is one page more.
    pub fn proportional(&self, resident: u64) -> u64 {
        let own = resident.saturating_sub(self.elsewhere.load(Relaxed));
        own + self.copied.load(Relaxed)
    }
}

/// The least memory that a family can have: that of its largest member. The shares measured of its members can be too small. They
/// are stale once a member has ended, and a new member counts only its copies until it is measured.
#[derive(Default)]
pub(crate) struct Least {
    counted: u64,
    /// Of the member that has most: which it is, and what it has.
    most: (usize, u64),
}

impl Least {
    /// Member `which` has `anon` bytes, of which it counts so many.
    pub fn note(&mut self, which: usize, anon: u64, counted: u64) {
        self.counted += counted;
        if anon > self.most.1 {
            self.most = (which, anon);
        }
    }

    /// What lacks, and the member that it is to count for.
    pub fn lacking(&self) -> (usize, u64) {
        let (which, anon) = self.most;
        (which, anon.saturating_sub(self.counted))
    }
}

/// Tells relatives that `entry` may hold the bytes of their page, too. A copy is compared before it is used,
/// so that a wrong guess costs no more than that.
pub(crate) fn offer(
    job: &Job,
    core: &mut Recorded,
    relatives: &[Arc<Space>],
    page: PageNr,
    entry: EntryId,
) {
    // Who is not dead under the core's lock keeps its number while that is held.
    for relative in relatives.iter().filter(|relative| !relative.is_dead()) {
        accept(job, core, relative, page, entry);
    }
}

fn accept(job: &Job, core: &mut Recorded, space: &Space, page: PageNr, entry: EntryId) {
    if !job.keeps_copies(TUNING.loads.offer_below) {
        return; // a copy holds its place in the pool
    }
    if let Some(id) = core.find(space.id, page)
        && let State::Resident { copy: None } = core.state(id)
    {
        job.store.get(entry);
        job.must(core.apply(id, Step::SetCopy(entry)));
    }
}

/// What the parent keeps of a page is offered to its child.
pub(crate) fn inherit(job: &Job, core: &mut Recorded, parent: &Space, child: &Space, page: PageNr) {
    if parent.is_dead() {
        return;
    }
    if let State::Resident { copy: Some(entry) } = core.state_at(parent.id, page) {
        accept(job, core, child, page, entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_has_at_least_what_one_of_it_has() {
        let lacking = |parents: u64| {
            let mut least = Least::default();
            for (which, anon, counted) in [(0, 5, 5), (1, 64, parents), (2, 60, 5)] {
                least.note(which, anon, counted);
            }
            least.lacking()
        };
        assert_eq!(lacking(2), (1, 52), "it was measured beside others");
        assert_eq!(lacking(54), (1, 0));
        assert_eq!(lacking(70), (1, 0));
    }

    #[test]
    fn of_what_a_family_parts_as_much_is_free_as_one_of_it_has_however_large_it_is() {
        let (first, parts) = (Kin::first(1), 10);
        let others: Vec<Kin> = (1..100).map(|_| first.another()).collect();
        let still: u64 = others[..parts]
            .iter()
            .map(|kin| kin.still_with_others(64))
            .sum();
        assert_eq!(still, 640 - 6);
        assert_eq!(Kin::first(2).still_with_others(64), 0);
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
        kin.elsewhere.store(1 << 40, Relaxed);
        let (before, after) = (kin.note_copies(&process), after_writing(&kin));
        assert!(after > before, "{after} after {before}");
        assert_eq!(kin.proportional(1 << 40), after);
        kin.elsewhere.store(PAGE_SIZE as u64, Relaxed);
        let most = 2 * PAGE_SIZE as u64;
        assert_eq!(kin.note_copies(&process), most, "no more than is shared");
        kin.explain(1 << 40);
        assert_eq!(kin.note_copies(&process), 0, "neap served them all");
        kin.measure(&process, &process);
        assert_eq!(kin.proportional(1 << 40), 1 << 40);
    }
}
