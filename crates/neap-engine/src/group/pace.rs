//! What each group below the top uses, and how it keeps within a limit of its own.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use neap_policy::{Pacer, Plan};
use neap_record::{Noted, PacerOf, Recorder};
use neap_store::Holding;
use neap_units::{Bytes, Limit, Nanos, Pages};

use super::Group;
use crate::job::Job;
use crate::meter::Sample;
use crate::space::Space;

/// What a pacer for a limit on this machine is made of.
fn of_machine(limit: Bytes) -> PacerOf {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let cpus = u32::try_from(cpus).unwrap_or(u32::MAX);
    PacerOf { limit, cpus }
}

/// A pacer for a limit on this machine, to be looked at.
pub(crate) fn pacer(limit: Bytes) -> Pacer {
    let of = of_machine(limit);
    Pacer::new(of.limit, of.cpus)
}

/// The same, that is recorded.
pub(crate) fn noted_pacer(recorder: &Recorder, limit: Bytes) -> Noted<Pacer> {
    Noted::new(recorder, of_machine(limit))
}

/// The pace of each group below the top.
#[derive(Debug, Default)]
pub(crate) struct Paces {
    limits: HashMap<u64, Noted<Pacer>>,
    /// Of `memory.high`, the top's too: when to register memory, and when to look.
    highs: HashMap<u64, Noted<Pacer>>,
}

/// Sums over the spaces of each group below the top and of those below it, by one look at each space.
struct Sums<const N: usize>(HashMap<u64, [u64; N]>);

impl<const N: usize> Sums<N> {
    /// Of some values for each space.
    fn of<'a>(
        spaces: impl IntoIterator<Item = &'a Arc<Space>>,
        values: impl IntoIterator<Item = [u64; N]>,
    ) -> Self {
        let mut sums = HashMap::new();
        for (space, values) in spaces.into_iter().zip(values) {
            for group in space.group.chain().filter(|group| group.parent.is_some()) {
                let sum = sums.entry(group.number).or_insert([0; N]);
                sum.iter_mut()
                    .zip(values)
                    .for_each(|(sum, value)| *sum += value);
            }
        }
        Self(sums)
    }

    fn of_group(&self, group: &Group) -> [u64; N] {
        self.0.get(&group.number).copied().unwrap_or([0; N])
    }
}

/// What these groups want.
#[derive(Debug, Default)]
pub(crate) struct Wants {
    /// Groups whose memory is to be registered, if it is not.
    pub armed: Vec<Arc<Group>>,
    /// Some group is to be reclaimed from.
    pub reclaims: bool,
    /// When to look again, at the latest.
    pub next: Option<Nanos>,
}

impl Wants {
    fn look_by(&mut self, next: Nanos) {
        self.next = Some(self.next.map_or(next, |before| before.min(next)));
    }
}

impl Paces {
    /// Looks at what each group uses: `resident` has the bytes of each space.
    pub fn look(&mut self, job: &Arc<Job>, resident: &[(Arc<Space>, u64)], now: Nanos) -> Wants {
        let mut wants = Wants::default();
        let groups = job.groups.below();
        self.look_at_highs(job, now, &mut wants);
        if groups.is_empty() {
            self.limits.clear();
            return wants;
        }
        let compressed = job
            .store
            .compressed_of(resident.iter().map(|(space, _)| space.id));
        if self.limits.len() > groups.len() {
            let there: HashSet<u64> = groups.iter().map(|group| group.number).collect();
            self.limits.retain(|number, _| there.contains(number));
        }
        let values = resident.iter().zip(&compressed);
        let values =
            values.map(|((space, bytes), pool)| [*bytes, pool.0, space.is_thawed().into()]);
        let sums = Sums::of(resident.iter().map(|(space, _)| space), values);
        for group in groups.iter() {
            let [anon, pool, thawed] = sums.of_group(group);
            let thaws = thawed > 0;
            let unexplained = group.meter.sample(Sample {
                resident: anon,
                own: pool,
                pool: Holding {
                    bytes: pool,
                    backed: pool,
                    compressed: pool,
                    ..Holding::default()
                },
                thaws,
            });
            if let Some(plan) = self.plan(&job.recorder, group, now, unexplained) {
                wants.reclaims |= plan.reclaim_to.is_some();
                if plan.arm {
                    wants.armed.push(group.clone());
                }
                wants.look_by(plan.next_sample);
                job.look_at_limit(group, group.meter.usage() > plan.hold_above.0);
            }
        }
        wants
    }

    /// What `memory.high` wants, of the groups that have one below their limit. Memory is reclaimed above it, and not before.
    fn look_at_highs(&mut self, job: &Job, now: Nanos, wants: &mut Wants) {
        let has_one = |group: &&Arc<Group>| group.meter.high() < Limit::Bytes(group.meter.limit());
        let groups = job.groups.all_that(has_one);
        self.highs
            .retain(|number, _| groups.iter().any(|group| group.number == *number));
        for group in groups {
            let Limit::Bytes(high) = group.meter.high() else {
                continue;
            };
            let usage = group.meter.usage();
            let pacer = self
                .highs
                .entry(group.number)
                .or_insert_with(|| noted_pacer(&job.recorder, high));
            pacer.set_limit(high);
            let plan = pacer.observe(now, Bytes(usage));
            wants.reclaims |= usage > high.0;
            wants.look_by(plan.next_sample);
            if plan.arm {
                wants.armed.push(group);
            }
        }
    }

    /// What a group with a limit does next.
    fn plan(
        &mut self,
        recorder: &Recorder,
        group: &Group,
        now: Nanos,
        unexplained: u64,
    ) -> Option<Plan> {
        if !group.meter.is_limited() {
            return None;
        }
        let limit = group.meter.limit();
        let pacer = self
            .limits
            .entry(group.number)
            .or_insert_with(|| noted_pacer(recorder, limit));
        pacer.set_limit(limit);
        pacer.observe_native(now, Bytes(unexplained));
        let plan = pacer.observe(now, Bytes(group.meter.usage()));
        group.meter.set_plan(plan.hold_above, plan.reclaim_to);
        Some(plan)
    }
}

/// Pages of a space that are staged.
fn staged(space: &Arc<Space>) -> u64 {
    space.body.get().map_or(0, |body| body.stage.frames())
}

impl Job {
    /// Has the meter of a group know what reclaim may still take; `staging` has all spaces that stage pages. Returns the
    /// resident pages of the group.
    pub fn note_reclaimable(&self, group: &Group, staging: &[Arc<Space>]) -> Pages {
        let resident = self.resident_of(group);
        let its = staging.iter().filter(|space| space.group.is_within(group));
        let staged: u64 = its.map(staged).sum();
        let pool = match group.parent {
            None => self.store.writable_bytes().0,
            Some(_) if self.store.can_write_back() && group.account.writes() => group.meter.pool(),
            Some(_) => 0,
        };
        group
            .meter
            .note_reclaimable(Pages(resident.0 + staged), pool);
        resident
    }

    /// Has the meters of all groups know what reclaim may still take, by one look at each space.
    pub fn note_all_reclaimable(&self, spaces: &[Arc<Space>]) {
        self.note_reclaimable(self.groups.top(), spaces);
        let groups = self.groups.below();
        if groups.is_empty() {
            return;
        }
        let resident: Vec<u64> = {
            let core = self.core();
            let resident = |space: &Arc<Space>| match core.is_live(space.id) {
                true => core.resident(space.id).0,
                false => 0,
            };
            spaces.iter().map(resident).collect()
        };
        let pages = resident.iter().zip(spaces);
        let pages = Sums::of(spaces, pages.map(|(pages, space)| [pages + staged(space)]));
        let writes = self.store.can_write_back();
        for group in groups.iter() {
            let pool = match writes && group.account.writes() {
                true => group.meter.pool(),
                false => 0,
            };
            let pages = Pages(pages.of_group(group)[0]);
            group.meter.note_reclaimable(pages, pool);
        }
    }

    /// The resident pages of a group and those below it.
    pub fn resident_of(&self, group: &Group) -> Pages {
        if group.parent.is_none() {
            return self.core().total_resident();
        }
        let spaces = self.spaces_of(group);
        let core = self.core();
        let its = spaces.iter().filter(|space| core.is_live(space.id));
        Pages(its.map(|space| core.resident(space.id).0).sum())
    }

    /// The pool has changed by what a group has there: its estimate and those of the groups above go along. Those of others do
    /// at the next look.
    pub fn note_pool(&self, group: &Group) {
        self.meter.note_pool(self.store.pool_memory().0);
        for group in group.chain().filter(|group| group.parent.is_some()) {
            let spaces = self.spaces_of(group);
            let compressed = self
                .store
                .compressed_of(spaces.iter().map(|space| space.id));
            let bytes = compressed.iter().map(|bytes| bytes.0).sum();
            group.meter.note_pool(bytes);
        }
    }
}
