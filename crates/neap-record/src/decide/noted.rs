//! A decider with a recorder beside it.

use std::fmt::{self, Debug, Formatter};
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::{Decider, Numbers, Who};
use crate::call::{Answer, Call};
use crate::recorder::{Recorder, Tape};

/// A [`Decider`] whose decisions are recorded. Without a record it is the decider and one branch for each decision.
///
/// What only looks at it is called through [`Deref`].
pub struct Noted<D: Decider> {
    pub(super) decider: D,
    pub(super) pen: Pen<D>,
}

/// What writes the decisions of one decider down.
pub(super) struct Pen<D: Decider> {
    made: D::Made,
    recorder: Recorder,
    /// Its number in the record; 0: it is not there yet.
    number: AtomicU64,
}

impl<D: Decider> Noted<D> {
    /// A new decider.
    #[must_use]
    pub fn new(recorder: &Recorder, made: D::Made) -> Noted<D> {
        Noted {
            decider: D::make(&made),
            pen: Pen::new(recorder, made),
        }
    }

    /// Records from now on. It has decided nothing yet: a replay starts with a new one.
    pub fn record(&mut self, recorder: &Recorder) {
        self.pen.recorder = recorder.clone();
    }

    /// Decides, and records that.
    #[inline]
    pub fn decide(&mut self, ask: D::Ask) -> D::Answer {
        let answer = self.decider.decide(&ask);
        self.pen.note(&ask, &answer);
        answer
    }
}

impl<D: Decider> Pen<D> {
    pub fn new(recorder: &Recorder, made: D::Made) -> Pen<D> {
        Pen {
            made,
            recorder: recorder.clone(),
            number: AtomicU64::new(0),
        }
    }

    #[inline]
    pub fn is_on(&self) -> bool {
        self.recorder.is_on()
    }

    #[inline]
    pub fn note(&self, ask: &D::Ask, answer: &D::Answer) {
        if self.is_on() {
            self.recorder.write(|tape| self.write(tape, ask, answer));
        }
    }

    #[inline(never)]
    fn write(&self, tape: &mut Tape, ask: &D::Ask, answer: &D::Answer) {
        if self.number.load(Relaxed) == 0 {
            self.number.store(tape.next_decider(), Relaxed);
            let make = Call::Make(self.who(), self.made.numbers());
            tape.write(&make, &Answer::Nothing);
        }
        let call = Call::Decide(self.who(), ask.numbers());
        tape.write(&call, &Answer::Decided(self.who(), answer.numbers()));
    }

    fn who(&self) -> Who {
        Who {
            kind: D::PLACE,
            number: self.number.load(Relaxed),
        }
    }
}

impl<D: Decider> Drop for Pen<D> {
    fn drop(&mut self) {
        if self.number.load(Relaxed) > 0 && self.is_on() {
            let end = Call::Unmake(self.who());
            self.recorder
                .write(|tape| tape.write(&end, &Answer::Nothing));
        }
    }
}

impl<D: Decider> Deref for Noted<D> {
    type Target = D;

    fn deref(&self) -> &D {
        &self.decider
    }
}

impl<D: Decider> Debug for Noted<D> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let number = self.pen.number.load(Relaxed);
        write!(f, "{} {number} of {:?}", D::NAME, self.pen.made)
    }
}
