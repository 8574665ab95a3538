//! The life of a page: one enum, and one function that moves it on.
//!
//! A page travels out through `Resident -> Isolated -> Staged -> Storing -> Stored`
//! (its frame is moved to a staging slot and compressed from there), and in through
//! `Stored -> Loading -> Resident`. A touch on the way out turns it round through `Returning`.
//!
//! A `copy` is a compressed copy kept beside a resident page, as long as it is known
//! to be equal; it saves compressing the page again.

use neap_units::{EntryId, SlotId};
use thiserror::Error;

/// Where a page is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum State {
    /// Nothing is known: never touched, unmapped, or discarded by the program.
    Absent,
    /// In the program's memory, on exactly one list.
    Resident {
        /// Compressed copy known to be equal.
        copy: Option<EntryId>,
    },
    /// Taken off its list by reclaim; still mapped.
    Isolated {
        /// Compressed copy known to be equal.
        copy: Option<EntryId>,
    },
    /// Its frame sits in a staging slot, unmapped from the program.
    Staged {
        /// The slot.
        slot: SlotId,
        /// Compressed copy known to be equal.
        copy: Option<EntryId>,
    },
    /// As `Staged`, and being compressed.
    Storing {
        /// The slot.
        slot: SlotId,
        /// Compressed copy known to be equal.
        copy: Option<EntryId>,
    },
    /// The program touched it while staged: its frame is on the way back.
    Returning {
        /// The slot.
        slot: SlotId,
        /// Compressed copy known to be equal.
        copy: Option<EntryId>,
    },
    /// Only in the store.
    Stored {
        /// The entry that holds the bytes.
        entry: EntryId,
    },
    /// Being filled from the store.
    Loading {
        /// The entry that holds the bytes.
        entry: EntryId,
    },
}

/// How warm a page is when it becomes resident.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Heat {
    /// Demanded by a fault: youngest generation.
    Hot,
    /// Brought by readahead or found by a scan: second youngest generation at most.
    Warm,
}

/// What happens to a page.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Step {
    /// `Absent -> Resident`: found present by a scan, or zero-filled.
    Adopt(Heat),
    /// `Resident -> Isolated`.
    Isolate,
    /// `Isolated -> Staged`.
    Stage(SlotId),
    /// `Isolated -> Resident`: it could not be moved now (warm; on probation it
    /// stays so), or the program touched it, or it must not come up again soon (hot).
    Putback(Heat),
    /// `Isolated | Resident -> Absent`: there was no page after all.
    Vanish,
    /// `Staged -> Storing`.
    BeginStore,
    /// `Storing -> Staged`.
    AbortStore,
    /// `Storing -> Stored`; an older copy is freed unless it is this entry.
    CommitStore(EntryId),
    /// `Staged | Storing -> Returning`.
    BeginReturn,
    /// `Returning -> Resident`: it was touched, and is passed over once (hot), or was near one that was, or no store
    /// would take it (warm).
    EndReturn(Heat),
    /// `Returning -> Staged`.
    AbortReturn,
    /// `Stored -> Loading`.
    BeginLoad,
    /// `Loading -> Resident`.
    EndLoad {
        /// Whether the entry stays as the page's copy; else it is freed.
        keep: bool,
        /// Whether a fault waits for it.
        heat: Heat,
    },
    /// `Loading -> Stored`.
    AbortLoad,
    /// `Resident | Staged | Storing | Returning`: remember a copy; an older one is
    /// freed.
    SetCopy(EntryId),
    /// The states with a copy: forget it, if there is one.
    DropCopy,
    /// Any state `-> Absent`: the program removed or unmapped the range.
    Drop,
}

/// What the caller must now release.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Effect {
    /// Entry that the page no longer refers to.
    pub freed_entry: Option<EntryId>,
    /// Staging slot that the page no longer occupies.
    pub freed_slot: Option<SlotId>,
}

impl Effect {
    /// Nothing to release.
    pub const NONE: Effect = Effect {
        freed_entry: None,
        freed_slot: None,
    };

    /// Whether there is nothing to release.
    #[inline]
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.freed_entry.is_none() && self.freed_slot.is_none()
    }

    #[inline]
    const fn entry(entry: Option<EntryId>) -> Effect {
        Effect {
            freed_entry: entry,
            freed_slot: None,
        }
    }
}

/// A step that the state does not allow. The page is unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("a page that is {state:?} does not take {step:?}")]
pub struct Illegal {
    /// State of the page.
    pub state: State,
    /// Step that was tried.
    pub step: Step,
}

impl State {
    /// Whether the page is on a generation list.
    #[inline]
    #[must_use]
    pub const fn is_resident(self) -> bool {
        matches!(self, State::Resident { .. })
    }

    /// The staging slot the page occupies.
    #[inline]
    #[must_use]
    pub const fn slot(self) -> Option<SlotId> {
        match self {
            State::Staged { slot, .. }
            | State::Storing { slot, .. }
            | State::Returning { slot, .. } => Some(slot),
            _ => None,
        }
    }

    /// The store entry the page refers to: its bytes, or its kept copy.
    #[inline]
    #[must_use]
    pub const fn entry(self) -> Option<EntryId> {
        match self {
            State::Absent => None,
            State::Stored { entry } | State::Loading { entry } => Some(entry),
            State::Resident { copy }
            | State::Isolated { copy }
            | State::Staged { copy, .. }
            | State::Storing { copy, .. }
            | State::Returning { copy, .. } => copy,
        }
    }
}

/// The copy to free when `entry` takes its place.
#[inline]
fn replaced(copy: Option<EntryId>, entry: EntryId) -> Option<EntryId> {
    copy.filter(|&old| old != entry)
}

/// The state with another copy, and the one it replaces; `None` for the states without.
#[inline]
fn recopy(state: State, copy: Option<EntryId>) -> Option<(State, Effect)> {
    let next = match state {
        State::Resident { .. } => State::Resident { copy },
        State::Isolated { .. } => State::Isolated { copy },
        State::Staged { slot, .. } => State::Staged { slot, copy },
        State::Storing { slot, .. } => State::Storing { slot, copy },
        State::Returning { slot, .. } => State::Returning { slot, copy },
        _ => return None,
    };
    let freed = state.entry().filter(|&old| Some(old) != copy);
    Some((next, Effect::entry(freed)))
}

/// The one transition function.
///
/// # Errors
/// [`Illegal`] when the state does not allow the step.
#[inline]
pub fn step(state: State, step: Step) -> Result<(State, Effect), Illegal> {
    use State::*;
    let illegal = Illegal { state, step };
    let quiet = |next| Ok((next, Effect::NONE));
    match (step, state) {
        (Step::Adopt(_), Absent) => quiet(Resident { copy: None }),
        (Step::Isolate, Resident { copy }) => quiet(Isolated { copy }),
        (Step::Stage(slot), Isolated { copy }) => quiet(Staged { slot, copy }),
        (Step::Putback(_), Isolated { copy }) => quiet(Resident { copy }),
        (Step::Vanish, Isolated { copy } | Resident { copy }) => Ok((Absent, Effect::entry(copy))),
        (Step::BeginStore, Staged { slot, copy }) => quiet(Storing { slot, copy }),
        (Step::AbortStore, Storing { slot, copy }) => quiet(Staged { slot, copy }),
        (Step::CommitStore(entry), Storing { slot, copy }) => {
            let effect = Effect {
                freed_entry: replaced(copy, entry),
                freed_slot: Some(slot),
            };
            Ok((Stored { entry }, effect))
        }
        (Step::BeginReturn, Staged { slot, copy } | Storing { slot, copy }) => {
            quiet(Returning { slot, copy })
        }
        (Step::EndReturn(_), Returning { slot, copy }) => Ok((
            Resident { copy },
            Effect {
                freed_entry: None,
                freed_slot: Some(slot),
            },
        )),
        (Step::AbortReturn, Returning { slot, copy }) => quiet(Staged { slot, copy }),
        (Step::BeginLoad, Stored { entry }) => quiet(Loading { entry }),
        (Step::EndLoad { keep, .. }, Loading { entry }) => {
            let (copy, freed) = if keep {
                (Some(entry), None)
            } else {
                (None, Some(entry))
            };
            Ok((Resident { copy }, Effect::entry(freed)))
        }
        (Step::AbortLoad, Loading { entry }) => quiet(Stored { entry }),
        (Step::SetCopy(_), Isolated { .. }) => Err(illegal),
        (Step::SetCopy(entry), _) => recopy(state, Some(entry)).ok_or(illegal),
        (Step::DropCopy, _) => recopy(state, None).ok_or(illegal),
        (Step::Drop, _) => Ok((
            Absent,
            Effect {
                freed_entry: state.entry(),
                freed_slot: state.slot(),
            },
        )),
        _ => Err(illegal),
    }
}
