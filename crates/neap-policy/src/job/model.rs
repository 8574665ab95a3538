//! The table against a naive model: hash maps and vectors that do the same without
//! packing, links or indices.

use std::collections::{BTreeMap, HashMap};

use neap_units::{EntryId, PageId, PageNr, Pages, SlotId, SpaceId};
use proptest::prelude::*;

use super::*;
use crate::page::step;

#[derive(Clone, Copy, Debug)]
struct Page {
    state: State,
    stamp: u64,
    workingset: bool,
    wanted: bool,
}

/// One space: states by page, and for each generation its pages, oldest first.
#[derive(Debug)]
struct ModelSpace {
    pages: HashMap<u64, Page>,
    lists: BTreeMap<u64, Vec<u64>>,
    max_seq: u64,
    min_seq: u64,
    age: u64,
    counted: Vmstat,
}

impl ModelSpace {
    fn new() -> ModelSpace {
        let (pages, lists) = (HashMap::new(), BTreeMap::new());
        ModelSpace {
            pages,
            lists,
            max_seq: 3,
            min_seq: 0,
            age: 0,
            counted: Vmstat::default(),
        }
    }

    fn len(&self, seq: u64) -> u64 {
        self.lists.get(&seq).map_or(0, |list| list.len() as u64)
    }

    fn resident(&self) -> u64 {
        self.lists.values().map(|list| list.len() as u64).sum()
    }

    fn state(&self, page: u64) -> State {
        self.pages
            .get(&page)
            .map_or(State::Absent, |page| page.state)
    }

    fn unlist(&mut self, page: u64) {
        for list in self.lists.values_mut() {
            list.retain(|&other| other != page);
        }
    }

    fn enlist(&mut self, page: u64, heat: Heat) {
        let seq = if heat == Heat::Hot {
            self.max_seq
        } else {
            self.max_seq - 1
        };
        self.lists.entry(seq).or_default().push(page);
    }

    fn apply(&mut self, page: u64, taken: Step) -> Result<Effect, Illegal> {
        let before = self.state(page);
        let (after, effect) = step(before, taken)?;
        if before.is_resident() && !after.is_resident() {
            self.unlist(page);
        }
        let fresh = Page {
            state: before,
            stamp: 0,
            workingset: false,
            wanted: false,
        };
        let mut record = *self.pages.entry(page).or_insert(fresh);
        record.state = after;
        let mut heat = match taken {
            Step::Adopt(heat) | Step::Putback(heat) | Step::EndReturn(heat) => heat,
            _ => Heat::Hot,
        };
        if let Step::EndLoad { heat: asked, .. } = taken {
            let active = self.len(self.max_seq) + self.len(self.max_seq - 1);
            let recent = self.age - record.stamp <= active;
            heat = if recent { asked } else { Heat::Warm };
            self.counted.workingset_refault_anon += 1;
            self.counted.workingset_activate_anon += u64::from(heat == Heat::Hot);
            self.counted.pgactivate += u64::from(heat == Heat::Hot);
            self.counted.workingset_restore_anon += u64::from(recent && record.workingset);
            record.workingset = recent && (asked == Heat::Hot || record.workingset);
            self.age += u64::from(heat == Heat::Hot);
        }
        if matches!(taken, Step::CommitStore(_) | Step::Discarded) {
            record.stamp = self.age;
            self.age += 1;
            self.counted.pgsteal += 1;
        }
        self.counted.pgrotated += u64::from(taken == Step::Putback(Heat::Warm));
        let touched = matches!(taken, Step::Putback(Heat::Hot) | Step::EndReturn(Heat::Hot));
        self.counted.pgactivate += u64::from(touched);
        self.pages.insert(page, record);
        if after == State::Absent {
            self.pages.remove(&page);
        }
        if after.is_resident() && !before.is_resident() {
            self.enlist(page, heat);
        }
        Ok(effect)
    }

    fn advance(&mut self) {
        while self.max_seq - self.min_seq >= 2 && self.len(self.min_seq) == 0 {
            self.min_seq += 1;
        }
    }

    fn seq_of(&self, page: u64) -> Option<u64> {
        self.lists
            .iter()
            .find(|(_, list)| list.contains(&page))
            .map(|(&seq, _)| seq)
    }

    fn pick(&mut self, max: usize) -> Vec<u64> {
        let mut out = Vec::new();
        let mut limit = self.max_seq - 2;
        if self.resident() > 0 {
            self.advance();
            while self.min_seq + 2 >= self.max_seq {
                self.max_seq += 1;
                self.counted.aged_generations += 1;
                self.counted.pgrefill += self.len(self.max_seq - 2);
                self.advance();
            }
        }
        while out.len() < max {
            self.advance();
            let seq = self.min_seq;
            if seq + 2 > self.max_seq || self.len(seq) == 0 {
                break;
            }
            if out.is_empty() {
                limit = limit.max(seq);
            } else if seq > limit {
                break;
            }
            let oldest = self.lists[&seq][0];
            for page in oldest - oldest % 16..oldest - oldest % 16 + 16 {
                if out.len() < max && self.seq_of(page).is_some_and(|other| other <= seq) {
                    self.apply(page, Step::Isolate).unwrap();
                    out.push(page);
                }
            }
        }
        self.counted.pgscan += out.len() as u64;
        out.sort_unstable();
        out
    }

    fn inside(&self, range: std::ops::Range<u64>) -> Vec<u64> {
        let mut pages: Vec<u64> = self
            .pages
            .keys()
            .copied()
            .filter(|page| range.contains(page))
            .collect();
        pages.sort_unstable();
        pages
    }

    fn remove(&mut self, range: std::ops::Range<u64>) -> Vec<Effect> {
        let pages = self.inside(range);
        let effects = pages
            .into_iter()
            .map(|page| self.apply(page, Step::Drop).unwrap());
        effects.filter(|effect| !effect.is_none()).collect()
    }

    fn remap(&mut self, from: u64, to: u64, len: u64) -> Vec<Effect> {
        let effects = self.remove(to..to + len);
        for page in self.inside(from..from + len) {
            let record = self.pages.remove(&page).unwrap();
            self.pages.insert(page - from + to, record);
            for listed in self.lists.values_mut().flatten() {
                if *listed == page {
                    *listed = page - from + to;
                }
            }
        }
        effects
    }
}

/// What a test does to both.
#[derive(Clone, Debug)]
enum Op {
    AddSpace,
    DropSpace,
    Step(u64, Step),
    /// Takes a page all the way out, or all the way in.
    Journey(u64, u32),
    Fill(u64, u64, Heat),
    Pick(usize),
    Remove(u64, u64),
    Remap(u64, u64, u64),
    Fork(u32),
    Want(u64),
}

/// Pages near zero, where leaves are dense, and a few in another directory.
fn page() -> impl Strategy<Value = u64> {
    prop_oneof![9 => 0u64..200, 1 => 0x10_0000u64..0x10_0050]
}

fn heat() -> impl Strategy<Value = Heat> {
    prop_oneof![Just(Heat::Hot), Just(Heat::Warm)]
}

pub(super) fn any_step() -> impl Strategy<Value = Step> {
    let entry = || (0u32..6).prop_map(EntryId);
    prop_oneof![
        heat().prop_map(Step::Adopt),
        Just(Step::Isolate),
        (0u32..6).prop_map(|slot| Step::Stage(SlotId(slot))),
        heat().prop_map(Step::Putback),
        Just(Step::Vanish),
        Just(Step::BeginStore),
        Just(Step::AbortStore),
        entry().prop_map(Step::CommitStore),
        Just(Step::BeginReturn),
        Just(Step::EndReturn(Heat::Hot)),
        Just(Step::AbortReturn),
        Just(Step::BeginLoad),
        (any::<bool>(), heat()).prop_map(|(keep, heat)| Step::EndLoad { keep, heat }),
        Just(Step::AbortLoad),
        Just(Step::Protect),
        entry().prop_map(Step::CommitDiscard),
        Just(Step::Discarded),
        entry().prop_map(Step::SetCopy),
        Just(Step::DropCopy),
        Just(Step::Drop),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        1 => Just(Op::AddSpace),
        1 => Just(Op::DropSpace),
        20 => (page(), any_step()).prop_map(|(page, taken)| Op::Step(page, taken)),
        20 => (page(), 0u32..1000).prop_map(|(page, entry)| Op::Journey(page, entry)),
        5 => (page(), 0u64..90, heat()).prop_map(|(page, len, heat)| Op::Fill(page, len, heat)),
        8 => (0usize..80).prop_map(Op::Pick),
        2 => (page(), 0u64..100).prop_map(|(page, len)| Op::Remove(page, len)),
        2 => (0u64..4, 0u64..6, 0u64..140).prop_map(|(from, to, len)| {
            Op::Remap(from * 32, 256 + to * 32, len)
        }),
        1 => (1u32..4).prop_map(Op::Fork),
        2 => page().prop_map(Op::Want),
    ]
}

/// The table and the model, side by side.
#[derive(Default)]
struct Both {
    core: Core,
    model: BTreeMap<SpaceId, ModelSpace>,
    /// Events of spaces that are gone.
    gone: Vec<Vmstat>,
}

impl Both {
    fn step(&mut self, space: SpaceId, page: u64, taken: Step) {
        let id = self.core.ensure(space, PageNr(page));
        let model = self.model.get_mut(&space).unwrap();
        assert_eq!(
            self.core.apply(id, taken),
            model.apply(page, taken),
            "{taken:?} of {page}"
        );
    }

    /// The steps that take a page on to the store, or back to memory.
    fn journey(&mut self, space: SpaceId, page: u64, entry: u32) {
        let keep = entry.is_multiple_of(2);
        let heat = if entry.is_multiple_of(3) {
            Heat::Warm
        } else {
            Heat::Hot
        };
        let out = [Step::BeginStore, Step::CommitStore(EntryId(entry))];
        let steps: Vec<Step> = match self.core.state_at(space, PageNr(page)) {
            State::Absent => vec![Step::Adopt(heat)],
            State::Resident { .. } => vec![Step::Isolate],
            State::Isolated { .. } => vec![Step::Stage(SlotId(entry)), out[0], out[1]],
            State::Staged { .. } if keep => vec![Step::BeginReturn, Step::EndReturn(Heat::Hot)],
            State::Staged { .. } => out.to_vec(),
            State::Storing { .. } => vec![out[1]],
            State::Returning { .. } => vec![Step::EndReturn(Heat::Hot)],
            State::Stored { .. } => vec![Step::BeginLoad, Step::EndLoad { keep, heat }],
            State::Loading { .. } => vec![Step::EndLoad { keep, heat }],
            State::Protected { .. } => {
                vec![Step::CommitDiscard(EntryId(entry)), Step::Discarded]
            }
            State::Discarding { .. } => vec![Step::Discarded],
        };
        for taken in steps {
            self.step(space, page, taken);
        }
    }

    fn fork(&mut self, parent: SpaceId, every: u32) {
        let child = self.core.add_space();
        let mut forked = ModelSpace::new();
        let model = &self.model[&parent];
        forked.age = model.age;
        let expected: Vec<u64> = model
            .inside(0..u64::MAX)
            .into_iter()
            .filter(|&page| !model.state(page).is_resident())
            .collect();
        let mut asked = Vec::new();
        self.core.fork(parent, child, |page, state| {
            assert_eq!(state, model.state(page.0));
            asked.push(page.0);
            let entry = EntryId(page.0 as u32);
            if !entry.0.is_multiple_of(every) {
                return None;
            }
            let parent = model.pages[&page.0];
            let evicted = matches!(state, State::Stored { .. } | State::Loading { .. });
            let stamp = if evicted { parent.stamp } else { model.age };
            let state = State::Stored { entry };
            forked.pages.insert(
                page.0,
                Page {
                    state,
                    stamp,
                    wanted: false,
                    ..parent
                },
            );
            Some(entry)
        });
        assert_eq!(asked, expected, "pages asked for");
        self.model.insert(child, forked);
    }

    fn remap(&mut self, space: SpaceId, from: u64, to: u64, len: u64) {
        let (to, len) = (to + from % 3, len.min(to - from));
        let (source, target) = (PageNr(from), PageNr(to));
        let first = self.core.find(space, source);
        let mut moved: HashMap<PageId, PageId> = HashMap::new();
        let effects = self
            .core
            .remap_with(space, source, target, Pages(len), |old, new, _| {
                moved.insert(old, new);
            });
        let model = self.model.get_mut(&space).unwrap();
        assert_eq!(effects, model.remap(from, to, len));
        if let Some(old) = first.filter(|_| len > 0) {
            let new = moved.get(&old).copied().unwrap_or(old);
            assert_eq!(self.core.locate(new), (space, target));
        }
    }

    fn run(&mut self, at: usize, op: &Op) {
        let known: Vec<SpaceId> = self.model.keys().copied().collect();
        let Some(&space) = known.get(at % known.len().max(1)) else {
            let id = self.core.add_space();
            self.model.insert(id, ModelSpace::new());
            return;
        };
        let model = self.model.get_mut(&space).unwrap();
        match *op {
            Op::AddSpace => {
                let id = self.core.add_space();
                assert!(self.model.insert(id, ModelSpace::new()).is_none());
            }
            Op::DropSpace => {
                let mut model = self.model.remove(&space).unwrap();
                assert_eq!(self.core.drop_space(space), model.remove(0..u64::MAX));
                self.gone.push(model.counted);
            }
            Op::Step(page, taken) => self.step(space, page, taken),
            Op::Journey(page, entry) => self.journey(space, page, entry),
            Op::Fill(page, len, heat) => {
                for page in page..page + len {
                    self.step(space, page, Step::Adopt(heat));
                }
            }
            Op::Pick(max) => {
                let mut out = Vec::new();
                self.core.pick(space, max, &mut out);
                let picked: Vec<u64> = out.iter().map(|&id| self.core.locate(id).1.0).collect();
                assert_eq!(picked, model.pick(max));
            }
            Op::Remove(page, len) => {
                let effects = self.core.remove_range(space, PageNr(page).span(Pages(len)));
                assert_eq!(effects, model.remove(page..page + len));
            }
            Op::Remap(from, to, len) => self.remap(space, from, to, len),
            Op::Fork(every) => self.fork(space, every),
            Op::Want(page) => {
                if let (Some(id), Some(record)) = (
                    self.core.find(space, PageNr(page)),
                    model.pages.get_mut(&page),
                ) {
                    assert_eq!(self.core.take_wanted(id), record.wanted);
                    self.core.want(id);
                    record.wanted = true;
                }
            }
        }
    }

    /// Compares everything that can be seen.
    fn compare(&self) {
        self.core.check();
        let mut total = 0;
        for (&space, model) in &self.model {
            let mut seen = Vec::new();
            self.core
                .for_range(space, PageNr(0)..PageNr(u64::MAX), |page, id, state| {
                    assert_eq!(self.core.locate(id), (space, page));
                    assert_eq!(state, model.state(page.0), "{page} of {space}");
                    seen.push(page.0);
                });
            assert_eq!(seen, model.inside(0..u64::MAX), "pages of {space}");
            assert_eq!(self.core.resident(space), Pages(model.resident()));
            total += model.resident();
        }
        assert_eq!(self.core.total_resident(), Pages(total));
        let mut counted = BTreeMap::new();
        for vmstat in self
            .model
            .values()
            .map(|model| &model.counted)
            .chain(&self.gone)
        {
            for (name, count) in vmstat.named() {
                *counted.entry(name).or_insert(0) += count;
            }
        }
        for (name, count) in self.core.vmstat().named() {
            assert_eq!(counted.get(name).copied().unwrap_or(0), count, "{name}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_table_does_what_the_naive_model_does(
        ops in prop::collection::vec((any::<usize>(), op()), 1..250),
    ) {
        let mut both = Both::default();
        for (at, op) in &ops {
            both.run(*at, op);
            both.core.check();
        }
        both.compare();
        // Whatever order the lists are in shows when they are emptied.
        for (&space, model) in &mut both.model {
            while model.resident() > 0 {
                let mut out = Vec::new();
                both.core.pick(space, 7, &mut out);
                let picked: Vec<u64> =
                    out.iter().map(|&id| both.core.locate(id).1.0).collect();
                prop_assert_eq!(picked, model.pick(7));
            }
        }
        both.compare();
    }
}
