//! The table against a naive model.

use std::collections::{BTreeMap, HashMap};

use neap_units::{EntryId, PageId, PageNr, Pages, SlotId, SpaceId};
use proptest::prelude::*;

use super::model_space::{ModelSpace, Page};
use super::*;
use crate::recency::Advice;

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
    Hint(u64, u64, Hint),
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
        heat().prop_map(Step::EndReturn),
        Just(Step::AbortReturn),
        Just(Step::BeginLoad),
        (any::<bool>(), heat()).prop_map(|(keep, heat)| Step::EndLoad { keep, heat }),
        Just(Step::AbortLoad),
        entry().prop_map(Step::SetCopy),
        Just(Step::DropCopy),
        Just(Step::Drop),
    ]
}

fn hint() -> impl Strategy<Value = Hint> {
    prop_oneof![
        2 => Just(Hint::Use(Advice::Sequential)),
        1 => Just(Hint::Use(Advice::Random)),
        1 => Just(Hint::Use(Advice::Normal)),
        2 => Just(Hint::Cold),
        2 => Just(Hint::Soon),
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
        3 => (page(), 0u64..90, hint()).prop_map(|(page, len, hint)| Op::Hint(page, len, hint)),
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
            State::Staged { .. } if keep => vec![Step::BeginReturn, Step::EndReturn(heat)],
            State::Staged { .. } => out.to_vec(),
            State::Storing { .. } => vec![out[1]],
            State::Returning { .. } => vec![Step::EndReturn(heat)],
            State::Stored { .. } => vec![Step::BeginLoad, Step::EndLoad { keep, heat }],
            State::Loading { .. } => vec![Step::EndLoad { keep, heat }],
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
        forked.unhurried = model.unhurried.clone();
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
            Op::Hint(page, len, hint) => {
                let range = PageNr(page).span(Pages(len));
                assert_eq!(
                    self.core.hint(space, range, hint).0,
                    model.hint(page..page + len, hint)
                );
            }
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
