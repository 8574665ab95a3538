//! The state function, case by case over all states and steps.

use neap_units::{EntryId, SlotId};

use super::state::*;

const SLOT: SlotId = SlotId(7);
const NEW_SLOT: SlotId = SlotId(8);
const OLD: EntryId = EntryId(1);
const NEW: EntryId = EntryId(2);

fn states() -> Vec<State> {
    let mut all = vec![
        State::Absent,
        State::Stored { entry: OLD },
        State::Loading { entry: OLD },
    ];
    for copy in [None, Some(OLD)] {
        all.extend([
            State::Resident { copy },
            State::Isolated { copy },
            State::Staged { slot: SLOT, copy },
            State::Storing { slot: SLOT, copy },
            State::Returning { slot: SLOT, copy },
        ]);
    }
    all
}

fn steps() -> Vec<Step> {
    let mut all = vec![
        Step::Isolate,
        Step::Stage(NEW_SLOT),
        Step::Vanish,
        Step::BeginStore,
        Step::AbortStore,
        Step::BeginReturn,
        Step::EndReturn(Heat::Hot),
        Step::AbortReturn,
        Step::BeginLoad,
        Step::AbortLoad,
        Step::DropCopy,
        Step::Drop,
    ];
    for heat in [Heat::Hot, Heat::Warm] {
        all.extend([Step::Adopt(heat), Step::Putback(heat)]);
        all.extend([true, false].map(|keep| Step::EndLoad { keep, heat }));
    }
    for entry in [OLD, NEW] {
        all.extend([Step::CommitStore(entry), Step::SetCopy(entry)]);
    }
    all
}

/// First word of the debug form: the kind of a state or step.
fn kind(of: impl std::fmt::Debug) -> String {
    format!("{of:?}")
        .split(|c: char| !c.is_alphabetic())
        .next()
        .unwrap_or_default()
        .to_owned()
}

/// The diagram: step, states it leaves, state it enters ("=" for the same).
const DIAGRAM: [(&str, &str, &str); 17] = [
    ("Adopt", "Absent", "Resident"),
    ("Isolate", "Resident", "Isolated"),
    ("Stage", "Isolated", "Staged"),
    ("Putback", "Isolated", "Resident"),
    ("Vanish", "Isolated Resident", "Absent"),
    ("BeginStore", "Staged", "Storing"),
    ("AbortStore", "Storing", "Staged"),
    ("CommitStore", "Storing", "Stored"),
    ("BeginReturn", "Staged Storing", "Returning"),
    ("EndReturn", "Returning", "Resident"),
    ("AbortReturn", "Returning", "Staged"),
    ("BeginLoad", "Stored", "Loading"),
    ("EndLoad", "Loading", "Resident"),
    ("AbortLoad", "Loading", "Stored"),
    ("SetCopy", "Resident Staged Storing Returning", "="),
    (
        "DropCopy",
        "Resident Isolated Staged Storing Returning",
        "=",
    ),
    ("Drop", "*", "Absent"),
];

#[test]
fn a_step_is_legal_exactly_where_the_diagram_has_it() {
    for taken in steps() {
        let (_, from, to) = DIAGRAM
            .iter()
            .find(|(name, ..)| *name == kind(taken))
            .expect("every step is drawn");
        for before in states() {
            let legal = *from == "*" || from.split(' ').any(|name| name == kind(before));
            match step(before, taken) {
                Err(refused) => {
                    assert!(!legal, "{refused}");
                    assert_eq!(
                        refused,
                        Illegal {
                            state: before,
                            step: taken
                        }
                    );
                }
                Ok((after, _)) => {
                    assert!(legal, "{before:?} takes {taken:?}");
                    let expected = if *to == "=" {
                        kind(before)
                    } else {
                        (*to).to_owned()
                    };
                    assert_eq!(kind(after), expected, "{before:?} after {taken:?}");
                }
            }
        }
    }
}

/// Nothing leaks and nothing is freed twice: what the page held and what the step
/// brought is afterwards either held or named in the effect, never both.
#[test]
fn entries_and_slots_are_conserved() {
    for (before, taken) in states()
        .into_iter()
        .flat_map(|before| steps().into_iter().map(move |s| (before, s)))
    {
        let Ok((after, effect)) = step(before, taken) else {
            continue;
        };
        let brought_entry = match taken {
            Step::CommitStore(entry) | Step::SetCopy(entry) => Some(entry),
            _ => None,
        };
        let brought_slot = match taken {
            Step::Stage(slot) => Some(slot),
            _ => None,
        };
        let set = |a: Option<u32>, b: Option<u32>| {
            let mut both: Vec<u32> = a.into_iter().chain(b).collect();
            both.sort_unstable();
            both
        };
        let entry = |id: Option<EntryId>| id.map(|id| id.0);
        let slot = |id: Option<SlotId>| id.map(|id| id.0);
        let mut entries = set(entry(before.entry()), entry(brought_entry));
        entries.dedup();
        let what = format!("{before:?} after {taken:?}");
        assert_eq!(
            set(entry(after.entry()), entry(effect.freed_entry)),
            entries,
            "{what}"
        );
        let slots = set(slot(before.slot()), slot(brought_slot));
        assert_eq!(
            set(slot(after.slot()), slot(effect.freed_slot)),
            slots,
            "{what}"
        );
    }
}

#[test]
fn a_refusal_names_the_state_and_the_step() {
    let refused = step(State::Absent, Step::BeginLoad).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "a page that is Absent does not take BeginLoad"
    );
}
