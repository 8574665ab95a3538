//! What takes the calls and decisions down.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};

use neap_tuning::TUNING;

use crate::call::{Answer, Call};
use crate::code::Coder;

/// Where blocks of a record go. Called under locks: it must not wait.
pub trait Sink: Send {
    /// A clock in nanoseconds that never goes back.
    fn now(&self) -> u64;

    /// Takes a block to make a [`block`](crate::block) of. False: recording ends here.
    fn take(&mut self, payload: Vec<u8>) -> bool;
}

/// The record of one job, which all that decides for it shares. Copies are the same one.
#[derive(Clone, Default)]
pub struct Recorder(Arc<Shared>);

#[derive(Default)]
struct Shared {
    on: AtomicBool,
    /// The last lock that a thread takes: nothing is taken under it.
    tape: Mutex<Option<Tape>>,
}

/// A record under way.
pub(crate) struct Tape {
    coder: Coder,
    payload: Vec<u8>,
    sink: Box<dyn Sink>,
    /// When time was recorded last.
    now: u64,
    /// Deciders that it names.
    deciders: u64,
}

impl Tape {
    pub fn write(&mut self, call: &Call, answer: &Answer) {
        self.coder.write(&mut self.payload, call, answer);
    }

    /// The number of one more decider.
    pub fn next_decider(&mut self) -> u64 {
        self.deciders += 1;
        self.deciders
    }

    fn tick(&mut self) {
        let now = self.sink.now();
        let passed = now.saturating_sub(self.now);
        if passed >= TUNING.report.record_tick.0 {
            self.now = now;
            self.write(&Call::Time(passed), &Answer::Nothing);
        }
    }

    fn flush(&mut self) -> bool {
        self.coder = Coder::default();
        let empty = Vec::with_capacity(
            TUNING.report.record_block.as_usize() + TUNING.report.record_block.as_usize() / 8,
        );
        let payload = std::mem::replace(&mut self.payload, empty);
        payload.is_empty() || self.sink.take(payload)
    }
}

impl Recorder {
    /// Whether anything is recorded.
    #[inline]
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.0.on.load(Relaxed)
    }

    /// Begins to record. Nothing has been decided yet: a replay starts with what is new.
    pub(crate) fn start(&self, sink: Box<dyn Sink>) {
        *self.tape() = Some(Tape {
            coder: Coder::default(),
            payload: Vec::with_capacity(TUNING.report.record_block.as_usize()),
            now: sink.now(),
            sink,
            deciders: 0,
        });
        self.0.on.store(true, Relaxed);
    }

    /// Takes something down, if the record has not ended.
    pub(crate) fn write(&self, note: impl FnOnce(&mut Tape)) {
        let mut held = self.tape();
        let Some(tape) = held.as_mut() else { return };
        tape.tick();
        note(tape);
        if tape.payload.len() >= TUNING.report.record_block.as_usize() && !tape.flush() {
            self.end(&mut held);
        }
    }

    /// Hands on what is recorded so far, so that little is lost if all ends suddenly.
    pub fn flush(&self) {
        let mut held = self.tape();
        if held.as_mut().is_some_and(|tape| !tape.flush()) {
            self.end(&mut held);
        }
    }

    /// Ends the record. False: it had ended before, or there was none.
    pub(crate) fn finish(&self) -> bool {
        let mut held = self.tape();
        let goes_on = held.as_mut().is_some_and(Tape::flush);
        self.end(&mut held);
        goes_on
    }

    fn end(&self, tape: &mut Option<Tape>) {
        *tape = None;
        self.0.on.store(false, Relaxed);
    }

    fn tape(&self) -> MutexGuard<'_, Option<Tape>> {
        self.0.tape.lock().expect("no thread panics under a lock")
    }
}
