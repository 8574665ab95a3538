//! Whom reclaim for a service's limit takes from next: the memcg LRU over its jobs (SPEC 3.10), or a walk through all of them,
//! for comparison.
//!
//! A visit takes a share in proportion to what a job has: its pages, shifted by the priority of this reclaim. A job whose pages have
//! aged by that goes to the young generation. So each gives a generation before any gives two, and no step looks at all jobs. The
//! rules are those of the simulator, but for what `memory.low` protects (see [`Asked`]).

use std::sync::Arc;

use neap_policy::{
    BinWalk, Cookie, DEF_PRIORITY, GroupTree, Groups as Ground, MemcgId, MemcgLru, Protection,
    TreeWalk, VisitRules, Visited, initial_priority, too_small,
};
use neap_units::{PAGE_SIZE, Pages};

use super::BATCH;
use crate::group::Group;
use crate::job::Job;
use crate::options::Walk;

/// The order of visits.
pub(super) struct Visits {
    lru: MemcgLru<MemcgId>,
    /// The groups by their numbers in the LRU; empty places are given anew.
    groups: Vec<Option<Arc<Group>>>,
    /// How often groups had come or gone when they were looked at last.
    epoch: u64,
    way: Option<Way>,
    /// Where walks through all of them are.
    cookie: Cookie<MemcgId>,
    visit: Option<Visit>,
    priority: u8,
    /// This walk has taken something.
    took: bool,
    /// Nothing comes of who is not protected: `memory.low` protects nothing now.
    low_reclaim: bool,
    chance: u64,
}

/// From whom pages are taken next.
pub(super) enum Turn {
    /// There is one group only.
    All,
    /// From this one, and so many at most.
    Of(Arc<Group>, usize),
    /// From nobody, just now: the others are protected.
    Nobody,
}

/// A walk under way.
enum Way {
    Bins(BinWalk<MemcgId>),
    /// Everyone by number, or from where the last walk stopped.
    Tree(TreeWalk<MemcgId>),
}

/// The groups below the top, in the order of their numbers.
struct Tree<'a>(&'a [Option<Arc<Group>>]);

/// The top, which has no number.
const ROOT: MemcgId = MemcgId(u32::MAX);

impl Tree<'_> {
    fn from(&self, first: usize) -> Option<MemcgId> {
        let mut rest = first..self.0.len();
        let at = rest.find(|&at| self.0[at].is_some())?;
        Some(MemcgId(at as u32))
    }
}

impl GroupTree<MemcgId> for Tree<'_> {
    fn parent(&self, id: MemcgId) -> Option<MemcgId> {
        (id != ROOT).then_some(ROOT)
    }

    fn first_child(&self, id: MemcgId) -> Option<MemcgId> {
        if id == ROOT { self.from(0) } else { None }
    }

    fn next_sibling(&self, id: MemcgId) -> Option<MemcgId> {
        if id == ROOT {
            None
        } else {
            self.from(id.index() + 1)
        }
    }
}

/// A visit under way.
struct Visit {
    id: MemcgId,
    group: Arc<Group>,
    /// Pages that it may still take.
    left: u64,
    /// Generations that its spaces had opened when it began.
    aged: u64,
}

/// What a walk asks.
struct Asked<'a> {
    job: &'a Job,
    lru: &'a mut MemcgLru<MemcgId>,
    groups: &'a [Option<Arc<Group>>],
    chance: &'a mut u64,
    priority: u8,
    low_reclaim: bool,
}

/// A number below `n`, by xorshift: it decides only who is first.
fn draw(chance: &mut u64, n: u32) -> u32 {
    *chance ^= *chance << 13;
    *chance ^= *chance >> 7;
    *chance ^= *chance << 17;
    (*chance >> 33) as u32 % n.max(1)
}

fn pages(bytes: u64) -> Pages {
    Pages(bytes / PAGE_SIZE as u64)
}

/// What of a group may leave, by its estimate: all but what the pool holds of it, or nothing where the store takes no more.
fn evictable(job: &Job, group: &Group) -> Pages {
    match job.lets_out(group) {
        true => pages(group.meter.usage().saturating_sub(group.meter.pool())),
        false => Pages(0),
    }
}

impl Asked<'_> {
    /// Whether a walk of the tree takes from it: such a walk spares what is protected.
    fn is_open(&mut self, id: MemcgId) -> bool {
        self.protection(id) != Protection::BelowMin
    }

    fn group(&self, id: MemcgId) -> Option<&Group> {
        self.groups.get(id.index())?.as_deref()
    }
}

impl Ground<MemcgId> for Asked<'_> {
    fn lru(&mut self) -> &mut MemcgLru<MemcgId> {
        self.lru
    }

    fn random(&mut self, n: u32) -> u32 {
        draw(self.chance, n)
    }

    /// The kernel takes from who is below low with the second visit. Walks are many here, and short, and old would wait for
    /// whom nothing is taken from: so low protects as min does until nobody else has anything to give.
    fn protection(&mut self, id: MemcgId) -> Protection {
        let judge = |group: &Group| group.protection().judge(pages(group.meter.usage()));
        match self.group(id).map_or(Protection::Open, judge) {
            Protection::BelowLow if !self.low_reclaim => Protection::BelowMin,
            protection => protection,
        }
    }

    fn count_low(&mut self, id: MemcgId) {
        if let Some(group) = self.group(id) {
            group.count(|events| &events.low, 1);
        }
    }

    fn online(&self, id: MemcgId) -> bool {
        self.group(id).is_some_and(|group| !group.is_over())
    }

    fn too_small(&self, id: MemcgId) -> bool {
        let small = |group: &Group| {
            let evictable = evictable(self.job, group);
            too_small(evictable, self.priority, !group.is_over())
        };
        self.group(id).is_none_or(small)
    }

    /// No walk ends early: it goes on with the next reclaim.
    fn enough(&self) -> bool {
        false
    }
}

impl Visits {
    pub fn new(seed: u64) -> Self {
        Self {
            lru: MemcgLru::default(),
            groups: Vec::new(),
            epoch: 0,
            way: None,
            cookie: Cookie::default(),
            visit: None,
            priority: DEF_PRIORITY,
            took: false,
            low_reclaim: false,
            chance: seed | 1,
        }
    }

    /// Reclaim begins to work. A walk through the bins goes on where the last reclaim had enough, in the middle of a visit too:
    /// each job gives its share before any gives a second, however little is asked for at a time.
    pub fn begin(&mut self, job: &Job) {
        self.meet(job);
        let protected = |visit: &Visit| visit.group.is_protected();
        if self.visit.as_ref().is_some_and(protected) {
            self.end_visit(job); // since the last reclaim
        }
        if let Some(Way::Tree(_)) = self.way {
            self.end_visit(job);
            self.way = None;
        }
        if self.way.is_none() {
            self.took = false;
            self.set_out(job);
        }
    }

    /// A walk begins: as gently as the bytes allow that are wanted. But a call of an agent costs the same whatever it takes: so
    /// a job of the usual size gives a block, and who is not visited now is visited later.
    fn set_out(&mut self, job: &Job) {
        let usage = pages(job.meter.usage().saturating_sub(job.meter.pool()));
        let goal = pages(job.meter.excess());
        let each = usage.0 / self.lru.len().max(1);
        let of_a_block = (each / BATCH as u64).max(1).ilog2() as u8;
        self.priority = initial_priority(VisitRules::V67, usage, goal).min(of_a_block);
    }

    /// From whom the next pages are to be taken. `in_vain`: nothing comes of those that are not protected.
    pub fn next(&mut self, job: &Job, in_vain: bool) -> Turn {
        self.low_reclaim = in_vain;
        self.meet(job);
        if self.lru.is_empty() {
            return Turn::All;
        }
        if self.visit.is_none() {
            self.visit = self.begin_visit(job);
        }
        let Some(visit) = &self.visit else {
            return Turn::Nobody;
        };
        let most = usize::try_from(visit.left).map_or(BATCH, |left| left.min(BATCH));
        Turn::Of(visit.group.clone(), most)
    }

    /// So many pages were taken from that group. 0: nothing comes from it now.
    pub fn took(&mut self, job: &Job, taken: usize) {
        let Some(visit) = &mut self.visit else {
            return;
        };
        visit.left = visit.left.saturating_sub(taken as u64);
        self.took |= taken > 0;
        let stops = matches!(self.way, Some(Way::Tree(_))) && job.meter.excess() == 0;
        if visit.left == 0 || taken == 0 || stops {
            self.end_visit(job);
        }
    }

    /// Groups come and go. Looked at only when some did.
    fn meet(&mut self, job: &Job) {
        let epoch = job.groups.epoch();
        if epoch == self.epoch {
            return;
        }
        self.epoch = epoch;
        let below = job.groups.units();
        for at in 0..self.groups.len() {
            let is_there =
                |group: &Arc<Group>| below.iter().any(|other| other.number == group.number);
            if self.groups[at]
                .as_ref()
                .is_some_and(|group| !is_there(group))
            {
                self.groups[at] = None;
                self.cookie.forget(MemcgId(at as u32));
                self.lru.remove(MemcgId(at as u32));
            }
        }
        // Before its place is another's.
        let gone = |visit: &Visit| self.groups[visit.id.index()].is_none();
        if self.visit.as_ref().is_some_and(gone) {
            self.visit = None;
        }
        for group in below {
            let known = self.groups.iter().flatten();
            if known.into_iter().any(|other| other.number == group.number) {
                continue;
            }
            let free = self.groups.iter().position(Option::is_none);
            let at = free.unwrap_or(self.groups.len());
            if at == self.groups.len() {
                self.groups.push(None);
            }
            self.groups[at] = Some(group);
            let bin = draw(&mut self.chance, neap_policy::MEMCG_NR_BINS);
            self.lru.insert(MemcgId(at as u32), bin);
        }
    }

    /// The next group of the walk. One that is over begins anew, and harder if nothing came of it.
    fn begin_visit(&mut self, job: &Job) -> Option<Visit> {
        let mut walks = 0;
        while walks <= DEF_PRIORITY {
            let Some(id) = self.step(job) else {
                walks += 1;
                self.end_walk(job);
                continue;
            };
            let group = self.groups[id.index()].clone()?;
            // Of whom nothing can leave is passed over, as the kernel does where there is no swap for a cgroup.
            let size = match job.lets_out(&group) {
                true => job.resident_of(&group),
                false => Pages(0),
            };
            let usage = pages(group.meter.usage());
            let target = group.protection().scan(size, usage, self.low_reclaim);
            let left = target.pages.min(size).0 >> self.priority;
            let aged = aged_of(job, &group);
            self.visit = Some(Visit {
                id,
                group,
                left,
                aged,
            });
            if left > 0 {
                return self.visit.take();
            }
            self.end_visit(job); // too little for so gentle a walk
        }
        None
    }

    /// What comes next is harder if this was in vain.
    fn end_walk(&mut self, job: &Job) {
        self.way = None;
        match std::mem::take(&mut self.took) {
            true => self.set_out(job),
            false => self.priority = self.priority.saturating_sub(1),
        }
    }

    fn step(&mut self, job: &Job) -> Option<MemcgId> {
        let walk = job.options.walk;
        let mut asked = Asked {
            job,
            lru: &mut self.lru,
            groups: &self.groups,
            chance: &mut self.chance,
            priority: self.priority,
            low_reclaim: self.low_reclaim,
        };
        let way = self.way.get_or_insert_with(|| match walk {
            Walk::MemcgLru => Way::Bins(BinWalk::new(VisitRules::V67, &mut asked)),
            Walk::Full => Way::Tree(TreeWalk::full()),
            Walk::Cookie => Way::Tree(TreeWalk::shared()),
        });
        match way {
            Way::Bins(walk) => walk.next_group(&mut asked),
            Way::Tree(walk) => {
                let tree = Tree(&self.groups);
                let mut next = || walk.next_group(&tree, ROOT, &mut self.cookie);
                std::iter::from_fn(&mut next).find(|&id| id != ROOT && asked.is_open(id))
            }
        }
    }

    fn end_visit(&mut self, job: &Job) {
        let Some(visit) = self.visit.take() else {
            return;
        };
        if self.groups[visit.id.index()].is_none() {
            return;
        }
        let enough = job.meter.excess() == 0;
        match &mut self.way {
            Some(Way::Bins(walk)) => {
                let aged = aged_of(job, &visit.group) > visit.aged;
                let mut asked = Asked {
                    job,
                    lru: &mut self.lru,
                    groups: &self.groups,
                    chance: &mut self.chance,
                    priority: self.priority,
                    low_reclaim: self.low_reclaim,
                };
                walk.end_visit(&mut asked, Visited { aged });
            }
            Some(Way::Tree(walk)) if enough => walk.goal_met(),
            _ => {}
        }
    }
}

/// Generations that the spaces of a group have opened.
fn aged_of(job: &Job, group: &Group) -> u64 {
    let spaces = job.spaces_of(group);
    let core = job.core();
    let live = spaces.iter().filter(|space| core.is_live(space.id));
    live.map(|space| core.vmstat_of(space.id).aged_generations)
        .sum()
}

#[cfg(test)]
mod tests;
