//! Parents and children: which spaces share pages since a fork.
//!
//! Shared pages count once against the limit, though the kernel counts them for each process
//! (RssAnon); and they do not move until they are shared no longer. So reclaim parts them: each process
//! gets a copy of its own, which leaves at once, and what the store keeps of the first is offered to the
//! others, so that the same bytes are compressed and kept once.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use neap_policy::{Core, State, Step};
use neap_units::{EntryId, PAGE_SIZE, PageNr};

use super::Space;
use crate::job::Job;

#[derive(Default)]
pub(crate) struct Kin {
    parent: OnceLock<Weak<Space>>,
    /// The space from which all of them come; 0: there was no fork.
    family: AtomicU64,
    children: AtomicU32,
    /// The pages that were there at the fork are not in the table yet.
    inherits: AtomicBool,
    /// Pages that were shared until our agent made them the process's own: relatives may have the same
    /// bytes.
    parted: Mutex<HashSet<PageNr>>,
    /// Bytes of the process that are counted elsewhere, as measured last.
    elsewhere: AtomicU64,
}

impl Kin {
    pub fn set_parent(&self, parent: &Arc<Space>) {
        let family = match parent.kin.family.load(Relaxed) {
            0 => parent.cookie,
            known => known,
        };
        parent.kin.family.store(family, Relaxed);
        self.family.store(family, Relaxed);
        self.inherits.store(true, Relaxed);
        // All that a child has at first is its parent's.
        let inherited = parent.body.get();
        let inherited = inherited.and_then(|body| neap_sys::anon_resident(body.pid));
        self.elsewhere.store(inherited.unwrap_or(0), Relaxed);
        parent.kin.children.fetch_add(1, Relaxed);
        let _ = self.parent.set(Arc::downgrade(parent));
    }

    /// The space is gone; what it shared is its parent's alone.
    pub fn leave(&self) {
        if let Some(parent) = self.parent() {
            parent.kin.children.fetch_sub(1, Relaxed);
        }
    }

    pub fn parent(&self) -> Option<Arc<Space>> {
        self.parent.get().and_then(Weak::upgrade)
    }

    /// Whether pages may be shared with another space.
    pub fn shares(&self) -> bool {
        let parent = || self.parent().is_some_and(|parent| !parent.is_dead());
        self.children.load(Relaxed) > 0 || parent()
    }

    /// True once, if the pages that were there at the fork must still be found.
    pub fn take_inherits(&self) -> bool {
        self.inherits.swap(false, Relaxed)
    }

    /// Our agent is about to make these pages the process's own.
    pub fn part(&self, pages: &[PageNr]) {
        self.parted.lock().expect("parted lock").extend(pages);
        let bytes = (pages.len() * PAGE_SIZE) as u64;
        let less = |elsewhere: u64| Some(elsewhere.saturating_sub(bytes));
        let _ = self.elsewhere.fetch_update(Relaxed, Relaxed, less);
    }

    /// Whether the page was parted, once.
    pub fn take_parted(&self, page: PageNr) -> bool {
        self.parted.lock().expect("parted lock").remove(&page)
    }

    fn is_related(&self, other: &Kin) -> bool {
        let family = self.family.load(Relaxed);
        family != 0 && family == other.family.load(Relaxed)
    }

    /// Measures how much of process `pid` is counted elsewhere. The kernel walks every page for that.
    pub fn measure(&self, pid: i32) {
        let resident = neap_sys::anon_resident(pid).unwrap_or(0);
        if let Some(bytes) = neap_sys::anon_proportional(pid) {
            let elsewhere = resident.saturating_sub(bytes);
            self.elsewhere.store(elsewhere, Relaxed);
        }
    }

    /// Anonymous memory of process `pid` in bytes, shared pages divided by their sharers as measured last.
    pub fn proportional(&self, pid: i32) -> u64 {
        let resident = neap_sys::anon_resident(pid).unwrap_or(0);
        resident.saturating_sub(self.elsewhere.load(Relaxed))
    }
}

/// Tells the relatives of `space` that `entry` may hold the bytes of their page, too. A copy is compared
/// before it is used, so that a wrong guess costs no more than that. `others`: as they were before the core
/// was locked.
pub(crate) fn offer(
    job: &Job,
    core: &mut Core,
    space: &Space,
    others: &[Arc<Space>],
    page: PageNr,
    entry: EntryId,
) {
    for other in others {
        // Who is not dead under the core's lock keeps its number while that is held.
        if other.id == space.id || !space.kin.is_related(&other.kin) || other.is_dead() {
            continue;
        }
        accept(job, core, other, page, entry);
    }
}

fn accept(job: &Job, core: &mut Core, space: &Space, page: PageNr, entry: EntryId) {
    if let Some(id) = core.find(space.id, page)
        && let State::Resident { copy: None } = core.state(id)
    {
        job.store.get(entry);
        job.must(core.apply(id, Step::SetCopy(entry)));
    }
}

/// What the parent keeps of a page is offered to its child.
pub(crate) fn inherit(job: &Job, core: &mut Core, parent: &Space, child: &Space, page: PageNr) {
    if parent.is_dead() {
        return;
    }
    if let State::Resident { copy: Some(entry) } = core.state_at(parent.id, page) {
        accept(job, core, child, page, entry);
    }
}
