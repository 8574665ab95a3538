//! Parents and children: which spaces share pages since a fork.
//!
//! Shared pages count once against the limit, though the kernel counts them for each process (RssAnon). And they do not move
//! until they are shared no longer. So reclaim parts them: each process gets a copy of its own, which leaves at once. The entry
//! that the store makes of the first copy is offered to the others. So the same bytes are compressed and kept once.

mod account;

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, Weak};

use neap_policy::{State, Step};
use neap_record::Recorded;
use neap_sys::{Lock, Process};
use neap_tuning::TUNING;
use neap_units::{EntryId, PAGE_SIZE, PageNr, SpaceId};

use self::account::Account;
pub(crate) use self::account::Stale;
use super::Space;
use crate::job::Job;

/// The spaces that come from one by forks.
struct Family {
    number: u64,
    /// How many of them are left.
    members: AtomicU32,
    /// Pages that one or another of them has parted, and others still have.
    parts: AtomicU64,
    /// A child was seen to copy what it shares.
    copies: AtomicBool,
    /// Shared bytes that no member counts: those who counted them have ended, or given them up, since all were measured.
    bequeathed: AtomicU64,
}

/// What those who come from a process know of it.
#[derive(Default)]
struct Line {
    /// Bytes that it shared at the last measure of all; 0: it was not measured, or shared none.
    measured: AtomicU64,
}

pub(crate) struct Kin {
    family: Arc<Family>,
    line: Arc<Line>,
    /// Those from whom it comes and who were there when it was forked, the nearest last.
    elders: OnceLock<Vec<Weak<Line>>>,
    /// Who forked it: its copies may serve here, too, and what was absent there is absent here.
    parent: OnceLock<Weak<Space>>,
    /// The pages that were there at the fork are not in the table yet.
    inherits: AtomicBool,
    /// Pages that were shared until our agent made them the process's own: relatives may have the same
    /// bytes.
    parted: Lock<HashSet<PageNr>, 6>,
    account: Account,
    /// When it was forked, in nanoseconds; 0: never, or nobody is left of its family.
    born: u64,
}

impl Kin {
    /// The first of a family, which has this number from now on.
    pub fn first(number: u64) -> Self {
        let family = Family {
            number,
            members: AtomicU32::new(1),
            parts: AtomicU64::new(0),
            copies: AtomicBool::new(false),
            bequeathed: AtomicU64::new(0),
        };
        Self::of(Arc::new(family), 0)
    }

    /// One more, forked `now`. Where the process that forked it has ended since, any other of them knows the family.
    pub fn another(&self, now: u64) -> Self {
        if !self.shares() {
            // Measured with those that are gone; from here on it counts.
            self.reset();
        }
        self.family.members.fetch_add(1, Relaxed);
        Self::of(self.family.clone(), now)
    }

    fn of(family: Arc<Family>, born: u64) -> Self {
        Self {
            family,
            line: Arc::default(),
            elders: OnceLock::new(),
            parent: OnceLock::new(),
            inherits: AtomicBool::new(false),
            parted: Lock::default(),
            account: Account::new(born > 0),
            born,
        }
    }

    /// Its pages may have copies at the process that forked it.
    pub fn inherit_from(&self, parent: &Arc<Space>) {
        let _ = self.parent.set(Arc::downgrade(parent));
        self.come_from(&parent.kin);
        parent.kin.bear(neap_sys::monotonic_nanos());
        self.inherits.store(true, Relaxed);
    }

    fn come_from(&self, parent: &Self) {
        let lines = parent.elders.get().into_iter().flatten();
        let living = lines.filter(|line| line.strong_count() > 0).cloned();
        let own = std::iter::once(Arc::downgrade(&parent.line));
        let _ = self.elders.set(living.chain(own).collect());
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

    /// So many pages were parted, of so many processes that share them, and some of these have them yet. How many are free by that, in
    /// the mean: each page is, once the last has parted it.
    pub fn note_parts(&self, pages: u64, processes: u64) -> u64 {
        let before = self.family.parts.fetch_add(pages, Relaxed);
        (before + pages) / processes - before / processes
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

    /// Whether it was forked so lately that what it shares is to stay: most children end soon. The more share a page, the longer it takes
    /// until all have given it up.
    pub fn is_spared(&self, now: u64) -> bool {
        let members = u64::from(self.family.members.load(Relaxed));
        let age = TUNING.reclaim.spared.0 * members;
        now.saturating_sub(self.born) < age.min(TUNING.looks.childhood.0)
    }

    /// Whether another of its family forked it.
    pub fn is_forked(&self) -> bool {
        self.born > 0
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
    // A space that is not dead under the core's lock keeps its number while that is held.
    for relative in relatives.iter().filter(|relative| !relative.is_dead()) {
        accept(job, core, relative, page, entry);
    }
}

fn accept(job: &Job, core: &mut Recorded, space: &Space, page: PageNr, entry: EntryId) {
    let Some(id) = core.find(space.id, page) else {
        return;
    };
    let takes = match core.state(id) {
        // A copy holds its place in the pool.
        State::Resident { copy: None } => job.keeps_copies(TUNING.loads.offer_below),
        // It is to be stored anyway, and takes no other place then.
        State::Staged { copy: None, .. } => true,
        _ => false,
    };
    if takes {
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
