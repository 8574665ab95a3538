//! Which acts of one program may be under way at the same time.

use std::ops::Range;

use neap_imagined::{Act, ThreadNr};

/// Changes beside a fork until all is settled: some longer stories look the same from outside.
const MOST_BESIDE_A_FORK: usize = 2;

/// What is under way in a program, for which other acts wait.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// A change of mappings: those of one program take turns, as they do by libc's symbols.
    change: Option<(ThreadNr, Act)>,
    /// It was a fork, which is done: libc's goes on once it has been applied.
    waits: bool,
    /// A fork that took no turn.
    fork: Option<ThreadNr>,
    advice: Vec<(ThreadNr, Act)>,
    /// Changes since the engine had applied all, and whether there was a fork that took no turn.
    unsettled: usize,
    forked: bool,
}

impl Turns {
    /// Whether an act must wait for what is under way. `races`: forks take no turns with changes.
    pub fn keep(&self, act: &Act, races: bool) -> bool {
        let advice = self.advice.iter().any(|(_, advice)| meets(act, advice));
        let change = self.change.as_ref();
        if advice || change.is_some_and(|(_, change)| meets(change, act)) {
            return true;
        }
        match act {
            Act::Fork if races => {
                let stays = change.is_some_and(|(_, change)| stays(change));
                self.forked || stays || self.unsettled >= MOST_BESIDE_A_FORK
            }
            act if is_change(act) => {
                let beside = self.unsettled >= MOST_BESIDE_A_FORK || stays(act);
                change.is_some() || self.forked && beside
            }
            act => is_advice(act) && self.fork.is_some(),
        }
    }

    pub fn begin(&mut self, thread: ThreadNr, act: &Act, races: bool) {
        if races && *act == Act::Fork {
            self.fork = Some(thread);
            self.forked = true;
        } else if is_change(act) {
            self.change = Some((thread, act.clone()));
            self.unsettled += 1;
        } else if is_advice(act) {
            self.advice.push((thread, act.clone()));
        }
    }

    /// A thread has done what it began.
    pub fn end(&mut self, thread: ThreadNr) {
        match &self.change {
            Some((other, Act::Fork)) if *other == thread => self.waits = true,
            Some((other, _)) if *other == thread => self.change = None,
            _ => {}
        }
        self.fork.take_if(|other| *other == thread);
        self.advice.retain(|(other, _)| *other != thread);
    }

    /// The engine has applied all that it read.
    pub fn settle(&mut self) {
        if std::mem::take(&mut self.waits) {
            self.change = None;
        }
        if !self.is_changing() {
            (self.unsettled, self.forked) = (0, false);
        }
    }

    pub fn is_changing(&self) -> bool {
        self.change.is_some() || self.fork.is_some()
    }

    pub fn is_advising(&self) -> bool {
        !self.advice.is_empty()
    }
}

fn is_change(act: &Act) -> bool {
    matches!(
        act,
        Act::Map(..) | Act::Unmap(..) | Act::Move { .. } | Act::Resize { .. } | Act::Fork
    )
}

/// Whether something registered is left behind. Where other such memory was at the new place, what is registered
/// does not tell whether it has moved.
fn stays(act: &Act) -> bool {
    matches!(act, Act::Move { stays: true, .. })
}

/// Whether it throws memory away, or declares it free.
fn is_advice(act: &Act) -> bool {
    matches!(act, Act::Discard(..) | Act::Free(..))
}

/// Whether an act is about memory that a change, which is under way, comes to or leaves; a forked child comes to all. Nobody can
/// tell which of the two comes first, so both outcomes are right, and nothing is learnt from such a discard.
fn meets(change: &Act, act: &Act) -> bool {
    let (Act::Discard(place) | Act::Free(place)) = act else {
        return false;
    };
    let touches = |range: &Range<u64>| range.start < place.end && place.start < range.end;
    match change {
        Act::Map(range, _) | Act::Unmap(range) => touches(range),
        Act::Resize { from, len } => touches(from) || touches(&(from.start..from.start + len)),
        Act::Move { from, to, len, .. } => touches(from) || touches(&(*to..to + len)),
        Act::Fork => true,
        _ => false,
    }
}
