//! Deciders beside the core: each is told apart by a number, asked in numbers, and answers in numbers.
//!
//! A decider of its own is an implementation of [`Decider`], a line of [`ALL`], and methods of [`Noted`] for what the
//! engine calls.

mod gate;
mod noted;
mod numbers;
mod pace;
mod readahead;
mod shrinker;
mod supply;
mod worker;

use std::any::Any;
use std::fmt::{self, Debug, Display, Formatter};

use neap_policy::{
    FreshRuns, Outlook, Pacer, PoolGate, PoolWorker, Stride, WalkReadahead, WritePressure,
};

pub use gate::GateLimit;
pub use noted::Noted;
pub(crate) use numbers::{Numbers, PAGES, Taken, numbers};
pub use pace::PacerOf;
use shrinker::ShrinkerAgain;
pub use shrinker::{NotedShrinker, Offer};

/// A part of the policy that decides by what it is asked, one question after another, and by nothing else.
pub trait Decider: Sized + 'static {
    /// Its name in a line of text.
    const NAME: &'static str;
    /// Its place in the list of all.
    const PLACE: u8;
    /// What it is made from.
    type Made: Numbers + Clone + Debug;
    /// What it is asked or told.
    type Ask: Numbers + Debug;
    /// What it answers.
    type Answer: Numbers + Debug;

    /// A new one.
    fn make(made: &Self::Made) -> Self;

    /// Whether the engine would ask this. A replay of a damaged record does not.
    fn may_ask(&self, _: &Self::Ask) -> bool {
        true
    }

    /// Decides.
    fn decide(&mut self, ask: &Self::Ask) -> Self::Answer;
}

/// All kinds of deciders. A record names them by their place here: new ones come last.
const ALL: &[Kind] = &[
    Kind::of::<WalkReadahead>(),
    Kind::of::<Stride>(),
    Kind::of::<FreshRuns>(),
    Kind::of::<PoolGate>(),
    Kind::of::<Pacer>(),
    Kind::of::<Outlook>(),
    Kind::of::<WritePressure>(),
    Kind::of::<PoolWorker>(),
    Kind::of::<ShrinkerAgain>(),
];

/// One kind of decider, behind numbers.
struct Kind {
    name: &'static str,
    make: fn(&[u64]) -> Option<Again>,
    ask: fn(&[u64], &mut Formatter<'_>) -> fmt::Result,
    answer: fn(&[u64], &mut Formatter<'_>) -> fmt::Result,
}

impl Kind {
    const fn of<D: Decider>() -> Kind {
        Kind {
            name: D::NAME,
            make: |made| {
                let decider: Box<dyn Any> = Box::new(D::make(&Numbers::of_numbers(made)?));
                let ask = again::<D>;
                Some(Again { decider, ask })
            },
            ask: say::<D::Ask>,
            answer: say::<D::Answer>,
        }
    }
}

fn say<T: Numbers + Debug>(numbers: &[u64], f: &mut Formatter<'_>) -> fmt::Result {
    match T::of_numbers(numbers) {
        Some(value) => write!(f, "{value:?}"),
        None => write!(f, "{numbers:?}"),
    }
}

fn again<D: Decider>(decider: &mut dyn Any, ask: &[u64]) -> Option<Vec<u64>> {
    let decider: &mut D = decider.downcast_mut()?;
    let ask = Numbers::of_numbers(ask)?;
    let may = decider.may_ask(&ask);
    may.then(|| decider.decide(&ask).numbers())
}

/// A decider that is asked again what another was asked.
pub(crate) struct Again {
    decider: Box<dyn Any>,
    ask: fn(&mut dyn Any, &[u64]) -> Option<Vec<u64>>,
}

impl Again {
    /// Its answer. None: it cannot be asked that.
    pub fn ask(&mut self, ask: &[u64]) -> Option<Vec<u64>> {
        (self.ask)(self.decider.as_mut(), ask)
    }
}

/// One decider of a record.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Who {
    /// Its kind, by the place in the list of all.
    pub kind: u8,
    /// Its number, which no other of the record has.
    pub number: u64,
}

impl Who {
    fn kind(self) -> Option<&'static Kind> {
        ALL.get(usize::from(self.kind))
    }

    /// The name of its kind; nothing if there is no such kind.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.kind().map_or("", |kind| kind.name)
    }

    pub(crate) fn make(self, made: &[u64]) -> Option<Again> {
        (self.kind()?.make)(made)
    }
}

impl Display for Who {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.kind() {
            Some(kind) => write!(f, "{} {}", kind.name, self.number),
            None => write!(f, "decider {} of kind {}", self.number, self.kind),
        }
    }
}

/// A question as it prints.
pub(crate) struct Asked<'a>(pub Who, pub &'a [u64]);

impl Display for Asked<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0.kind() {
            Some(kind) => (kind.ask)(self.1, f),
            None => write!(f, "{:?}", self.1),
        }
    }
}

/// An answer as it prints.
pub(crate) struct Answered<'a>(pub Who, pub &'a [u64]);

impl Display for Answered<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0.kind() {
            Some(kind) => (kind.answer)(self.1, f),
            None => write!(f, "{:?}", self.1),
        }
    }
}

#[cfg(test)]
mod tests;
