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
    made: D::Made,
    pub(super) recorder: Recorder,
    /// Its number in the record; 0: it is not there yet.
    number: AtomicU64,
}

impl<D: Decider> Noted<D> {
    /// A new decider.
    #[must_use]
    pub fn new(recorder: &Recorder, made: D::Made) -> Noted<D> {
        Noted {
            decider: D::make(&made),
            made,
            recorder: recorder.clone(),
            number: AtomicU64::new(0),
        }
    }

    /// Records from now on. It has decided nothing yet: a replay starts with a new one.
    pub fn record(&mut self, recorder: &Recorder) {
        self.recorder = recorder.clone();
    }

    /// Decides, and records that.
    #[inline]
    pub fn decide(&mut self, ask: D::Ask) -> D::Answer {
        let answer = self.decider.decide(&ask);
        self.note(&ask, &answer);
        answer
    }

    #[inline]
    pub(super) fn note(&self, ask: &D::Ask, answer: &D::Answer) {
        if self.recorder.is_on() {
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

impl<D: Decider> Drop for Noted<D> {
    fn drop(&mut self) {
        if self.number.load(Relaxed) > 0 && self.recorder.is_on() {
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
        let number = self.number.load(Relaxed);
        write!(f, "{} {number} of {:?}", D::NAME, self.made)
    }
}
