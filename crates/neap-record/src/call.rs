//! What the core is asked, and what it answers.

use std::fmt::{self, Display, Formatter};
use std::ops::Range;

use neap_policy::{Core, Effect, Hint, Illegal, State, Step, Vmstat};
use neap_units::{EntryId, PageId, PageNr, Pages, SpaceId};

use crate::decide::{Answered, Asked, Who};

/// A call that may change the core, or something the engine saw between two of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Call {
    /// [`Core::add_space`].
    AddSpace,
    /// [`Core::drop_space`].
    DropSpace(SpaceId),
    /// [`Core::ensure`].
    Ensure(SpaceId, PageNr),
    /// [`Core::apply`].
    Apply(PageId, Step),
    /// [`Core::choose_space`], and the spaces that may give pages.
    Choose(Vec<SpaceId>),
    /// [`Core::pick`], and how many at most.
    Pick(SpaceId, u64),
    /// [`Core::remove_range`].
    Remove(SpaceId, Range<PageNr>),
    /// [`Core::remap_with`].
    Remap {
        /// The space.
        space: SpaceId,
        /// From here.
        from: PageNr,
        /// To there.
        to: PageNr,
        /// So many.
        len: Pages,
    },
    /// [`Core::fork`].
    Fork {
        /// Whose pages they are.
        parent: SpaceId,
        /// Who gets them.
        child: SpaceId,
        /// What the engine gave for each page it was asked for.
        given: Vec<Option<EntryId>>,
    },
    /// [`Core::hint`].
    Hint(SpaceId, Range<PageNr>, Hint),
    /// [`Core::want`].
    Want(PageId),
    /// [`Core::take_wanted`].
    TakeWanted(PageId),
    /// A decider beside the core is made from these numbers. No call.
    Make(Who, Vec<u64>),
    /// A decider is asked or told these numbers.
    Decide(Who, Vec<u64>),
    /// A decider is no more. No call.
    Unmake(Who),
    /// The counters, asked for by the recorder itself now and then.
    Count,
    /// So many nanoseconds passed. No call: the core has no clock.
    Time(u64),
    /// A fault came in. No call: it leads to some.
    Fault(SpaceId, PageNr),
}

/// A page that [`Core::remap_with`] gave a new record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moved {
    /// The record it had.
    pub old: PageId,
    /// The record it has.
    pub new: PageId,
    /// Its state.
    pub state: State,
}

/// Resident pages of the job, and every counter of [`Vmstat`] in its order, to which new ones are appended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Counts {
    /// Resident pages.
    pub resident: u64,
    /// The counters.
    pub vmstat: Vec<u64>,
}

impl Counts {
    /// What the core counts now.
    #[must_use]
    pub fn of(core: &Core) -> Counts {
        let named = core.vmstat().named();
        Counts {
            resident: core.total_resident().0,
            vmstat: named.into_iter().map(|(_, value)| value).collect(),
        }
    }
}

/// Names of the counters, in the order of [`Counts::vmstat`].
#[must_use]
pub fn counter_names() -> Vec<&'static str> {
    let named = Vmstat::default().named();
    named.into_iter().map(|(name, _)| name).collect()
}

/// What the core said: its decisions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Nothing to say.
    Nothing,
    /// The space made.
    Space(SpaceId),
    /// The record made or found.
    Page(PageId),
    /// What the caller must release.
    Effect(Effect),
    /// The step was refused: the page is in this state.
    Illegal(State),
    /// The space to take from.
    Chosen(Option<SpaceId>),
    /// The pages to take.
    Picked(Vec<PageId>),
    /// What the caller must release.
    Effects(Vec<Effect>),
    /// New records, and what the caller must release.
    Remapped(Vec<Moved>, Vec<Effect>),
    /// The pages that the engine was asked for.
    Asked(Vec<(PageNr, State)>),
    /// Whether.
    Flag(bool),
    /// How many pages changed their place.
    Changed(Pages),
    /// The numbers that a decider answered.
    Decided(Who, Vec<u64>),
    /// The counters.
    Counts(Counts),
}

impl Answer {
    /// Whether a record says the same. One that an earlier neap made lacks the counters that have come since, which are
    /// the last.
    #[must_use]
    pub fn agrees_with(&self, recorded: &Answer) -> bool {
        match (self, recorded) {
            (Answer::Counts(now), Answer::Counts(then)) => {
                now.resident == then.resident && now.vmstat.starts_with(&then.vmstat)
            }
            (now, then) => now == then,
        }
    }
}

impl From<Result<Effect, Illegal>> for Answer {
    fn from(result: Result<Effect, Illegal>) -> Answer {
        match result {
            Ok(effect) => Answer::Effect(effect),
            Err(illegal) => Answer::Illegal(illegal.state),
        }
    }
}

/// Where a record's page is, as it prints: nothing when it is nowhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place(pub Option<(SpaceId, PageNr)>);

impl Display for Place {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some((space, page)) => write!(f, " ({space}, {:#x})", page.addr()),
            None => Ok(()),
        }
    }
}

impl Call {
    /// Whether the core or a decider answers it.
    #[must_use]
    pub fn is_call(&self) -> bool {
        !matches!(
            self,
            Call::Time(_) | Call::Fault(..) | Call::Make(..) | Call::Unmake(_)
        )
    }

    /// The decider that is asked; `None`: it is the core.
    #[must_use]
    pub fn decider(&self) -> Option<Who> {
        match self {
            Call::Decide(who, _) => Some(*who),
            _ => None,
        }
    }

    /// The record it names.
    #[must_use]
    pub fn record(&self) -> Option<PageId> {
        match self {
            Call::Apply(id, _) | Call::Want(id) | Call::TakeWanted(id) => Some(*id),
            _ => None,
        }
    }
}

impl Display for Call {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Call::AddSpace => write!(f, "add a space"),
            Call::DropSpace(space) => write!(f, "drop {space}"),
            Call::Ensure(space, page) => write!(f, "enter {:#x} of {space}", page.addr()),
            Call::Apply(id, step) => write!(f, "{step:?} {id}"),
            Call::Choose(among) => write!(f, "choose a space among {}", Ids(among)),
            Call::Pick(space, max) => write!(f, "pick {max} of {space}"),
            Call::Remove(space, range) => {
                let (from, to) = (range.start.addr(), range.end.0.saturating_mul(4096));
                write!(f, "remove {from:#x}..{to:#x} of {space}")
            }
            Call::Remap {
                space,
                from,
                to,
                len,
            } => {
                let (from, to) = (from.addr(), to.addr());
                write!(f, "move {} pages of {space}, {from:#x} to {to:#x}", len.0)
            }
            Call::Fork { parent, child, .. } => write!(f, "fork {parent} to {child}"),
            Call::Hint(space, range, hint) => {
                let (from, to) = (range.start.addr(), range.end.0.saturating_mul(4096));
                write!(f, "hint {hint:?} for {from:#x}..{to:#x} of {space}")
            }
            Call::Want(id) => write!(f, "want {id}"),
            Call::TakeWanted(id) => write!(f, "was it wanted: {id}"),
            Call::Make(who, made) => write!(f, "make {who} of {made:?}"),
            Call::Decide(who, ask) => write!(f, "{who}, {}", Asked(*who, ask)),
            Call::Unmake(who) => write!(f, "end {who}"),
            Call::Count => write!(f, "count"),
            Call::Time(nanos) => write!(f, "{nanos} ns pass"),
            Call::Fault(space, page) => write!(f, "fault at {:#x} of {space}", page.addr()),
        }
    }
}

/// Items of a list, with spaces between them.
struct Ids<'a, T>(&'a [T]);

impl<T: fmt::Debug> Display for Ids<'_, T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return write!(f, "none");
        }
        for (at, item) in self.0.iter().enumerate() {
            let gap = if at == 0 { "" } else { ", " };
            write!(f, "{gap}{item:?}")?;
        }
        Ok(())
    }
}

fn effect(f: &mut Formatter<'_>, effect: Effect) -> fmt::Result {
    match (effect.freed_entry, effect.freed_slot) {
        (None, None) => write!(f, "done"),
        (Some(entry), None) => write!(f, "free {entry}"),
        (None, Some(slot)) => write!(f, "free {slot}"),
        (Some(entry), Some(slot)) => write!(f, "free {entry} and {slot}"),
    }
}

impl Display for Answer {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Answer::Nothing => write!(f, "done"),
            Answer::Space(space) => write!(f, "{space}"),
            Answer::Page(id) => write!(f, "{id}"),
            Answer::Effect(freed) => effect(f, *freed),
            Answer::Illegal(state) => write!(f, "refused, it is {state:?}"),
            Answer::Chosen(Some(space)) => write!(f, "{space}"),
            Answer::Chosen(None) => write!(f, "none"),
            Answer::Picked(ids) => write!(f, "{}: {}", ids.len(), Ids(ids)),
            Answer::Effects(effects) => write!(f, "free {}", Ids(effects)),
            Answer::Remapped(moved, effects) => {
                write!(f, "{}; free {}", Ids(moved), Ids(effects))
            }
            Answer::Asked(pages) => write!(f, "asks for {}", Ids(pages)),
            Answer::Flag(flag) => write!(f, "{}", if *flag { "yes" } else { "no" }),
            Answer::Changed(pages) => write!(f, "{} pages", pages.0),
            Answer::Decided(who, answer) => write!(f, "{}", Answered(*who, answer)),
            Answer::Counts(counts) => {
                write!(f, "resident {}", counts.resident)?;
                for (name, value) in counter_names().iter().zip(&counts.vmstat) {
                    write!(f, " {name} {value}")?;
                }
                Ok(())
            }
        }
    }
}
