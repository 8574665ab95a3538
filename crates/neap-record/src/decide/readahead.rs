//! Readahead: windows, strides, and runs of fresh pages.

use std::cell::Cell;
use std::ops::Range;

use neap_policy::{FreshRuns, Stride, WalkReadahead};
use neap_tuning::TUNING;
use neap_units::{PageNr, Pages};

use super::{Decider, Noted, numbers};

/// What a decider was told when it asked back while it decided, in the order of asking.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Told {
    count: u32,
    /// The first is the lowest.
    bits: u64,
}

impl Told {
    fn push(&mut self, yes: bool) {
        self.bits |= u64::from(yes) << self.count;
        self.count += 1;
    }

    /// Takes the first. No, where there is none: the record is of another decider.
    fn pull(&mut self) -> bool {
        let yes = self.bits & 1 == 1;
        self.bits >>= 1;
        yes
    }
}

/// A fault asks each walk once at most.
const _: () = assert!(TUNING.loads.walks <= u64::BITS as usize);

/// What the readahead of a space is asked or told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AskReadahead {
    /// [`WalkReadahead::fault`].
    Fault {
        /// The page.
        page: PageNr,
        /// Pages of the block around it.
        around: Pages,
        /// Whether the pages that it asked for were there.
        there: Told,
    },
    /// [`WalkReadahead::ends_at`].
    EndsAt {
        /// The page behind the last.
        end: PageNr,
    },
}

numbers! { struct Told { count, bits } }
numbers! { enum AskReadahead { 0 = Fault { page, around, there }, 1 = EndsAt { end } } }

impl Decider for WalkReadahead {
    const NAME: &'static str = "readahead";
    const PLACE: u8 = 0;
    type Made = ();
    type Ask = AskReadahead;
    type Answer = Option<Range<PageNr>>;

    fn make((): &()) -> Self {
        Self::default()
    }

    fn may_ask(&self, ask: &AskReadahead) -> bool {
        match ask {
            AskReadahead::Fault { around, .. } => {
                around.0.is_power_of_two() && *around <= TUNING.loads.window
            }
            AskReadahead::EndsAt { end } => *end > PageNr(0),
        }
    }

    fn decide(&mut self, ask: &AskReadahead) -> Option<Range<PageNr>> {
        match ask {
            AskReadahead::Fault {
                page,
                around,
                there,
            } => {
                let there = Cell::new(*there);
                let is_there = |_| {
                    let mut told = there.get();
                    let yes = told.pull();
                    there.set(told);
                    yes
                };
                Some(self.fault(*page, *around, is_there))
            }
            AskReadahead::EndsAt { end } => {
                self.ends_at(*end);
                None
            }
        }
    }
}

impl Noted<WalkReadahead> {
    /// [`WalkReadahead::fault`].
    pub fn fault(
        &mut self,
        page: PageNr,
        around: Pages,
        are_there: impl Fn(Range<PageNr>) -> bool,
    ) -> Range<PageNr> {
        if !self.pen.is_on() {
            return self.decider.fault(page, around, are_there);
        }
        let there = Cell::new(Told::default());
        let window = self.decider.fault(page, around, |range| {
            let mut told = there.get();
            let yes = are_there(range);
            told.push(yes);
            there.set(told);
            yes
        });
        let there = there.get();
        let ask = AskReadahead::Fault {
            page,
            around,
            there,
        };
        self.pen.note(&ask, &Some(window.clone()));
        window
    }

    /// [`WalkReadahead::ends_at`].
    pub fn ends_at(&mut self, end: PageNr) {
        self.decide(AskReadahead::EndsAt { end });
    }
}

/// A fault, and how many pages after it are wanted at most.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AskStride {
    page: PageNr,
    most: u32,
}

numbers! { struct AskStride { page, most } }

impl Decider for Stride {
    const NAME: &'static str = "stride";
    const PLACE: u8 = 1;
    type Made = ();
    type Ask = AskStride;
    type Answer = Vec<PageNr>;

    fn make((): &()) -> Self {
        Self::default()
    }

    fn may_ask(&self, ask: &AskStride) -> bool {
        (1..=TUNING.loads.window.0).contains(&ask.most.into())
    }

    fn decide(&mut self, ask: &AskStride) -> Vec<PageNr> {
        self.fault(ask.page, ask.most).collect()
    }
}

impl Noted<Stride> {
    /// [`Stride::fault`].
    pub fn fault(&mut self, page: PageNr, most: u32) -> impl Iterator<Item = PageNr> + use<> {
        let pages = self.decider.fault(page, most);
        if self.pen.is_on() {
            self.pen
                .note(&AskStride { page, most }, &pages.clone().collect());
        }
        pages
    }
}

/// What the runs of fresh pages are asked or told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AskFresh {
    /// [`FreshRuns::wanted`].
    Wanted {
        /// Where.
        page: PageNr,
        /// At most so many.
        most: Pages,
    },
    /// [`FreshRuns::note`].
    Note {
        /// From here on.
        page: PageNr,
        /// So many were filled.
        filled: Pages,
    },
}

numbers! { enum AskFresh { 0 = Wanted { page, most }, 1 = Note { page, filled } } }

impl Decider for FreshRuns {
    const NAME: &'static str = "fresh";
    const PLACE: u8 = 2;
    type Made = ();
    type Ask = AskFresh;
    type Answer = Option<Pages>;

    fn make((): &()) -> Self {
        Self::default()
    }

    fn may_ask(&self, ask: &AskFresh) -> bool {
        !matches!(ask, AskFresh::Wanted { most, .. } if *most == Pages::ZERO)
    }

    fn decide(&mut self, ask: &AskFresh) -> Option<Pages> {
        match *ask {
            AskFresh::Wanted { page, most } => Some(self.wanted(page, most)),
            AskFresh::Note { page, filled } => {
                self.note(page, filled);
                None
            }
        }
    }
}

impl Noted<FreshRuns> {
    /// [`FreshRuns::wanted`].
    #[must_use]
    pub fn wanted(&self, page: PageNr, most: Pages) -> Pages {
        let wanted = self.decider.wanted(page, most);
        self.pen
            .note(&AskFresh::Wanted { page, most }, &Some(wanted));
        wanted
    }

    /// [`FreshRuns::note`].
    pub fn filled(&mut self, page: PageNr, filled: Pages) {
        self.decide(AskFresh::Note { page, filled });
    }
}
