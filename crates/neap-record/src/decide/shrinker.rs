//! The shrinker: calls, their scans, and walks over the entries of a list.

use neap_policy::{
    LruState, ShrinkCall, ShrinkerRules, ShrinkerScheme, Shrunk, Verdict, Walk, WalkStep,
    Writeback, WritebackLists,
};
use neap_units::Bytes;

use super::noted::Pen;
use super::{Decider, numbers};
use crate::Recorder;

/// No list is so long.
const MANY: u64 = 1 << 40;

/// What writes entries back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ShrinkerOf {
    /// One walk of so many entries.
    Walk {
        /// At most.
        budget: u64,
    },
    /// A call of the shrinker proper, which walks scan by scan.
    Call {
        /// By the scheme of second chances.
        second_chance: bool,
    },
}

/// The state of one list of entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ListNow {
    /// [`LruState::protected_or_disk_swapins`].
    protected: u64,
    /// [`LruState::deferred`].
    deferred: u64,
    len: u64,
}

impl ListNow {
    fn of(state: &LruState, len: u64) -> ListNow {
        ListNow {
            protected: state.protected_or_disk_swapins,
            deferred: state.deferred,
            len,
        }
    }
}

/// What a walk finds at the head of its list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    is_there: bool,
    /// It has a second chance.
    spared: bool,
    /// It is the only one.
    alone: bool,
    /// The caller has room for it.
    room: bool,
}

/// What the shrinker is asked or told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AskShrinker {
    /// [`ShrinkerRules::count`] and [`ShrinkCall::begin`].
    Begin {
        /// The list.
        list: ListNow,
        /// Compressed bytes of its owner.
        bytes: Bytes,
        /// Entries of its owner in the pool.
        stored: u64,
        /// Reclaim's priority.
        priority: u8,
    },
    /// [`ShrinkCall::next_scan`].
    Scan {
        /// The list.
        list: ListNow,
        /// The shrinker is on.
        allowed: bool,
    },
    /// [`Walk::step`].
    Step {
        /// What it found.
        head: Head,
    },
    /// [`Walk::report`].
    Report {
        /// All were written; else the device takes nothing.
        written: bool,
        /// Of so many entries.
        tickets: u64,
    },
    /// [`ShrinkCall::end`].
    End {
        /// The list.
        list: ListNow,
    },
}

/// What the shrinker answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ShrinkerSays {
    /// Nothing, or there is nothing to do: the call or the walk is over or rests.
    Nothing,
    /// There is something to do.
    GoesOn,
    /// The head loses its second chance.
    Spared,
    /// The head is written back.
    Ticket,
    /// What the call came to, and what it leaves to later calls.
    Ended {
        /// Entries looked at.
        scanned: u64,
        /// Entries written back.
        freed: u64,
        /// Entries that are owed.
        deferred: u64,
    },
}

numbers! { enum ShrinkerOf { 0 = Walk { budget }, 1 = Call { second_chance } } }
numbers! { struct ListNow { protected, deferred, len } }
numbers! { struct Head { is_there, spared, alone, room } }
numbers! { enum AskShrinker {
    0 = Begin { list, bytes, stored, priority },
    1 = Scan { list, allowed },
    2 = Step { head },
    3 = Report { written, tickets },
    4 = End { list },
} }
numbers! { enum ShrinkerSays {
    0 = Nothing, 1 = GoesOn, 2 = Spared, 3 = Ticket, 4 = Ended { scanned, freed, deferred },
} }

fn goes_on(flag: bool) -> ShrinkerSays {
    match flag {
        true => ShrinkerSays::GoesOn,
        false => ShrinkerSays::Nothing,
    }
}

fn step<T>(step: &WalkStep<T>) -> ShrinkerSays {
    match step {
        WalkStep::Spared => ShrinkerSays::Spared,
        WalkStep::Ticket(_) => ShrinkerSays::Ticket,
        WalkStep::Pause => ShrinkerSays::Nothing,
    }
}

fn outcome(written: bool) -> Writeback {
    match written {
        true => Writeback::Written,
        false => Writeback::Refused,
    }
}

/// A walk, or a call of the shrinker and the walk of its scan.
pub enum Shrinking<L> {
    /// A walk that a limit drives.
    Walk(Walk<L>),
    /// A call, once it has begun.
    Call(ShrinkerRules, Option<ShrinkCall<L>>),
}

impl<L: Copy> Shrinking<L> {
    fn of(list: L, of: ShrinkerOf) -> Shrinking<L> {
        match of {
            ShrinkerOf::Walk { budget } => Shrinking::Walk(Walk::of_limit(list, budget)),
            ShrinkerOf::Call { second_chance } => {
                let scheme = match second_chance {
                    true => ShrinkerScheme::SecondChance,
                    false => ShrinkerScheme::Old,
                };
                Shrinking::Call(ShrinkerRules::of_scheme(scheme), None)
            }
        }
    }

    fn begin(&mut self, list: L, state: &mut LruState, offer: Offer) -> bool {
        let Shrinking::Call(rules, call) = self else {
            return false;
        };
        let freeable = rules.count(state, offer.len, offer.bytes, offer.stored);
        *call = ShrinkCall::begin(list, state, *rules, freeable, offer.priority);
        call.is_some()
    }

    fn call(&mut self) -> Option<&mut ShrinkCall<L>> {
        match self {
            Shrinking::Walk(_) => None,
            Shrinking::Call(_, call) => call.as_mut(),
        }
    }

    fn walk(&mut self) -> Option<&mut Walk<L>> {
        match self {
            Shrinking::Walk(walk) => Some(walk),
            Shrinking::Call(_, call) => call.as_mut()?.walk(),
        }
    }

    fn end(&mut self, state: &mut LruState) -> Shrunk {
        match self {
            Shrinking::Walk(_) => Shrunk::default(),
            Shrinking::Call(_, call) => call.take().map(|call| call.end(state)).unwrap_or_default(),
        }
    }
}

/// What a call begins with.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    /// Entries of the list.
    pub len: u64,
    /// Compressed bytes of its owner.
    pub bytes: Bytes,
    /// Entries of its owner in the pool.
    pub stored: u64,
    /// Reclaim's priority.
    pub priority: u8,
}

/// Lists of which the head is known.
impl WritebackLists for Head {
    type List = ();
    type Entry = ();
    type Ticket = ();

    fn len(&self, (): ()) -> u64 {
        if self.alone { 1 } else { 2 }
    }

    fn head(&self, (): ()) -> Option<()> {
        self.is_there.then_some(())
    }

    fn verdict(&self, (): (), (): ()) -> Verdict {
        match self.spared {
            true => Verdict::Rotate,
            false => Verdict::WriteBack,
        }
    }

    fn spare(&mut self, (): (), (): ()) {}

    fn take(&mut self, (): (), (): ()) -> Option<()> {
        self.room.then_some(())
    }
}

/// Looks at the head of a list as a walk will. Whether there is room is known when it is taken.
fn look_at<S: WritebackLists>(lists: &S, list: S::List) -> Head {
    let head = lists.head(list);
    Head {
        is_there: head.is_some(),
        spared: head.is_some_and(|head| lists.verdict(list, head) == Verdict::Rotate),
        alone: lists.len(list) == 1,
        room: false,
    }
}

/// The shrinker of a replay: the list is what the record tells of it.
pub struct ShrinkerAgain {
    shrinking: Shrinking<()>,
    state: LruState,
}

impl ShrinkerAgain {
    fn is(&mut self, list: ListNow) {
        self.state.protected_or_disk_swapins = list.protected;
        self.state.deferred = list.deferred;
    }
}

impl Decider for ShrinkerAgain {
    const NAME: &'static str = "shrinker";
    const PLACE: u8 = 8;
    type Made = ShrinkerOf;
    type Ask = AskShrinker;
    type Answer = ShrinkerSays;

    fn make(of: &ShrinkerOf) -> Self {
        ShrinkerAgain {
            shrinking: Shrinking::of((), *of),
            state: LruState::default(),
        }
    }

    fn may_ask(&self, ask: &AskShrinker) -> bool {
        match (ask, &self.shrinking) {
            (AskShrinker::Begin { .. }, Shrinking::Call(_, call)) => call.is_none(),
            (AskShrinker::Begin { .. }, Shrinking::Walk(_)) => false,
            (AskShrinker::Report { tickets, .. }, _) => *tickets < MANY,
            _ => true,
        }
    }

    fn decide(&mut self, ask: &AskShrinker) -> ShrinkerSays {
        match *ask {
            AskShrinker::Begin {
                list,
                bytes,
                stored,
                priority,
            } => {
                self.is(list);
                let offer = Offer {
                    len: list.len,
                    bytes,
                    stored,
                    priority,
                };
                goes_on(self.shrinking.begin((), &mut self.state, offer))
            }
            AskShrinker::Scan { list, allowed } => {
                self.is(list);
                let call = self.shrinking.call();
                let scan = call.and_then(|call| call.next_scan(&mut self.state, list.len, allowed));
                goes_on(scan.is_some())
            }
            AskShrinker::Step { mut head } => {
                let walk = self.shrinking.walk();
                walk.map_or(ShrinkerSays::Nothing, |walk| step(&walk.step(&mut head)))
            }
            AskShrinker::Report { written, tickets } => {
                if let Some(walk) = self.shrinking.walk() {
                    walk.report(outcome(written), tickets);
                }
                ShrinkerSays::Nothing
            }
            AskShrinker::End { list } => {
                self.is(list);
                let shrunk = self.shrinking.end(&mut self.state);
                ended(shrunk, &self.state)
            }
        }
    }
}

fn ended(shrunk: Shrunk, state: &LruState) -> ShrinkerSays {
    ShrinkerSays::Ended {
        scanned: shrunk.scanned,
        freed: shrunk.freed,
        deferred: state.deferred,
    }
}

/// A walk or a call of the shrinker for a list, recorded.
pub struct NotedShrinker<L: Copy> {
    list: L,
    shrinking: Shrinking<L>,
    pen: Pen<ShrinkerAgain>,
}

impl<L: Copy> NotedShrinker<L> {
    fn new(recorder: &Recorder, list: L, of: ShrinkerOf) -> Self {
        NotedShrinker {
            list,
            shrinking: Shrinking::of(list, of),
            pen: Pen::new(recorder, of),
        }
    }

    /// [`Walk::of_limit`].
    #[must_use]
    pub fn walk(recorder: &Recorder, list: L, budget: u64) -> Self {
        Self::new(recorder, list, ShrinkerOf::Walk { budget })
    }

    /// [`ShrinkerRules::count`] and [`ShrinkCall::begin`]. None: there is nothing to do.
    pub fn call(
        recorder: &Recorder,
        list: L,
        state: &mut LruState,
        scheme: ShrinkerScheme,
        offer: Offer,
    ) -> Option<Self> {
        let second_chance = scheme == ShrinkerScheme::SecondChance;
        let mut call = Self::new(recorder, list, ShrinkerOf::Call { second_chance });
        let ask = AskShrinker::Begin {
            list: ListNow::of(state, offer.len),
            bytes: offer.bytes,
            stored: offer.stored,
            priority: offer.priority,
        };
        let begun = call.shrinking.begin(list, state, offer);
        call.pen.note(&ask, &goes_on(begun));
        begun.then_some(call)
    }

    /// [`ShrinkCall::next_scan`]. Whether there is one.
    pub fn next_scan(&mut self, state: &mut LruState, len: u64, allowed: bool) -> bool {
        let list = ListNow::of(state, len);
        let call = self.shrinking.call();
        let scan = call.and_then(|call| call.next_scan(state, len, allowed));
        let scans = scan.is_some();
        let ask = AskShrinker::Scan { list, allowed };
        self.pen.note(&ask, &goes_on(scans));
        scans
    }

    /// [`Walk::step`].
    pub fn step<S: WritebackLists<List = L>>(&mut self, lists: &mut S) -> WalkStep<S::Ticket> {
        let Some(walk) = self.shrinking.walk() else {
            return WalkStep::Pause;
        };
        if !self.pen.is_on() {
            return walk.step(lists);
        }
        let mut head = look_at(lists, self.list);
        let taken = walk.step(lists);
        head.room = matches!(taken, WalkStep::Ticket(_));
        self.pen.note(&AskShrinker::Step { head }, &step(&taken));
        taken
    }

    /// [`Walk::is_over`].
    pub fn is_over(&mut self) -> bool {
        self.shrinking.walk().is_none_or(|walk| walk.is_over())
    }

    /// [`Walk::report`] of so many entries, that were written, or that the device refused.
    pub fn report(&mut self, written: bool, tickets: u64) {
        if let Some(walk) = self.shrinking.walk() {
            walk.report(outcome(written), tickets);
        }
        let ask = AskShrinker::Report { written, tickets };
        self.pen.note(&ask, &ShrinkerSays::Nothing);
    }

    /// The walk so far; an empty one where there is none.
    pub fn walked(&mut self) -> Walk<L> {
        let walk = self.shrinking.walk().copied();
        walk.unwrap_or_else(|| Walk::of_limit(self.list, 0))
    }

    /// [`ShrinkCall::end`].
    pub fn end(mut self, state: &mut LruState, len: u64) -> Shrunk {
        let list = ListNow::of(state, len);
        let shrunk = self.shrinking.end(state);
        self.pen
            .note(&AskShrinker::End { list }, &ended(shrunk, state));
        shrunk
    }
}
