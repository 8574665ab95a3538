//! What the test of the table against its model does to both.

use neap_units::{EntryId, SlotId};
use proptest::prelude::*;

use crate::page::{Heat, Step};

/// What a test does to both.
#[derive(Clone, Debug)]
pub(super) enum Op {
    AddSpace,
    DropSpace,
    Step(u64, Step),
    /// Takes a page all the way out, or all the way in.
    Journey(u64, u32),
    Fill(u64, u64, Heat),
    Pick(usize),
    Rescue(usize),
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
    prop_oneof![Just(Heat::Hot), Just(Heat::Warm), Just(Heat::Unevictable)]
}

fn any_step() -> impl Strategy<Value = Step> {
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

pub(super) fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        1 => Just(Op::AddSpace),
        1 => Just(Op::DropSpace),
        20 => (page(), any_step()).prop_map(|(page, taken)| Op::Step(page, taken)),
        20 => (page(), 0u32..1000).prop_map(|(page, entry)| Op::Journey(page, entry)),
        5 => (page(), 0u64..90, heat()).prop_map(|(page, len, heat)| Op::Fill(page, len, heat)),
        8 => (0usize..80).prop_map(Op::Pick),
        3 => (0usize..40).prop_map(Op::Rescue),
        2 => (page(), 0u64..100).prop_map(|(page, len)| Op::Remove(page, len)),
        2 => (0u64..4, 0u64..6, 0u64..140).prop_map(|(from, to, len)| {
            Op::Remap(from * 32, 256 + to * 32, len)
        }),
        1 => (1u32..4).prop_map(Op::Fork),
        2 => page().prop_map(Op::Want),
    ]
}
