//! How long the threads of a group wait for a page or for room: `memory.pressure`, which the kernel's own figure leaves out, since to it
//! a thread that waits for a userfaultfd merely sleeps.
//!
//! Each fault thread says when its space begins to wait and when it ends: two additions. *Some* waited while any space did.
//! *Full* is the part of that in which no thread ran, as far as the processor time tells: the group's threads are taken to
//! run one at a time, so that it is a lower bound where several ran at once.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};

use neap_policy::{PSI_PERIOD, Pressure};
use neap_sys::Lock;
use neap_tuning::TUNING;
use neap_units::Nanos;
use serde::Serialize;

use crate::space::Space;

/// `memory.pressure`.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct PressureReport {
    /// Some thread waited.
    pub some: Waiting,
    /// Some waited, and no other ran.
    pub full: Waiting,
}

/// One line of it.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Waiting {
    /// Share of the last 10 s, in percent.
    pub avg10: f64,
    /// Of the last 60 s.
    pub avg60: f64,
    /// Of the last 300 s.
    pub avg300: f64,
    /// Microseconds so far.
    pub total_us: u64,
}

impl Waiting {
    fn of(pressure: &Pressure, more: Nanos) -> Self {
        let [avg10, avg60, avg300] = pressure.averages();
        let total_us = (pressure.total() + more).0 / 1000;
        Self {
            avg10,
            avg60,
            avg300,
            total_us,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Stalls {
    /// Spaces with a thread that waits.
    waiting: AtomicU64,
    /// The times at which the first began, taken away, and those at which the last ended, added: the time so far, once the
    /// present is added while some wait. Sums do not depend on the order.
    edges: AtomicU64,
    /// When the averages are to move on.
    next: AtomicU64,
    averages: Lock<Averages, 7>,
    /// The share of the last 10 s, in percent, above which an event is told; 0: none is.
    threshold: AtomicU8,
    /// It was above when it was looked at last.
    above: AtomicBool,
}

impl Default for Stalls {
    fn default() -> Self {
        Self {
            waiting: AtomicU64::new(0),
            edges: AtomicU64::new(0),
            next: AtomicU64::new(0),
            averages: Lock::default(),
            threshold: AtomicU8::new(TUNING.control.pressure),
            above: AtomicBool::new(false),
        }
    }
}

#[derive(Debug, Default)]
struct Averages {
    some: Pressure,
    full: Pressure,
    /// When it moved on last, and the time of waiting by then.
    last: u64,
    waited: u64,
    /// Processor time of each process by then.
    ran: HashMap<u64, u64>,
}

impl Stalls {
    /// A space begins to wait, or ends.
    pub fn turn(&self, waits: bool, now: u64) {
        if waits && self.waiting.fetch_add(1, Relaxed) == 0 {
            self.edges.fetch_sub(now, Relaxed);
        } else if !waits && self.waiting.fetch_sub(1, Relaxed) == 1 {
            self.edges.fetch_add(now, Relaxed);
        }
    }

    /// The time of waiting so far. A look between the two steps of a turn is far off, and is not taken.
    fn waited(&self, now: u64, averages: &Averages) -> u64 {
        const LOOKS: u32 = 16;
        for _ in 0..LOOKS {
            let waits = self.waiting.load(Relaxed) > 0;
            let edges = self.edges.load(Relaxed);
            let waited = edges.wrapping_add(if waits { now } else { 0 });
            // A thread may have looked at the clock a little after us, and then it has waited for less than nothing.
            let most = averages.waited + now.saturating_sub(averages.last);
            let slack = PSI_PERIOD.0;
            let late = waited.wrapping_add(slack).wrapping_sub(averages.waited);
            if late <= most - averages.waited + 2 * slack {
                let since = late.saturating_sub(slack);
                return (averages.waited + since).min(most);
            }
        }
        averages.waited
    }

    /// The share of the last 10 s, in percent, above which an event is told; 0: none is.
    pub fn threshold(&self) -> u8 {
        self.threshold.load(Relaxed)
    }

    /// Moves it. Pressure above it now is told at the next look.
    pub fn set_threshold(&self, percent: u8) {
        self.threshold.store(percent, Relaxed);
        self.above.store(false, Relaxed);
    }

    /// Moves the averages on when it is time. The share of the last 10 s in which some thread waited, in percent, once it has
    /// come to be above the threshold. It is told again only after it was below.
    pub fn look(&self, spaces: &[Arc<Space>], now: u64) -> Option<f64> {
        self.advance(spaces, now);
        let threshold = self.threshold();
        let share = self.averages.lock().some.averages()[0];
        let above = threshold > 0 && share > threshold.into();
        let was_above = self.above.swap(above, Relaxed);
        (above && !was_above).then_some(share)
    }

    /// Once a period: processor times are read.
    fn advance(&self, spaces: &[Arc<Space>], now: u64) {
        let next = self.next.load(Relaxed);
        if now < next {
            return;
        }
        let missed = if next == 0 {
            0
        } else {
            (now - next) / PSI_PERIOD.0
        };
        self.next.store(now + PSI_PERIOD.0, Relaxed);
        let mut averages = self.averages.lock();
        if next == 0 {
            averages.last = now;
            return;
        }
        let waited = self.waited(now, &averages);
        let some = waited - averages.waited;
        let period = now - averages.last - missed * PSI_PERIOD.0;
        let ran = match waited {
            0 => 0, // nobody ever waited
            _ => averages.note_ran(spaces),
        };
        let full = some.min((now - averages.last).saturating_sub(ran));
        let averages = &mut *averages;
        averages.some.update(Nanos(some), Nanos(period), missed);
        averages.full.update(Nanos(full), Nanos(period), missed);
        (averages.last, averages.waited) = (now, waited);
    }

    pub fn report(&self) -> PressureReport {
        let now = neap_sys::monotonic_nanos();
        let averages = self.averages.lock();
        let more = match averages.last {
            0 => 0, // nothing is registered yet
            _ => self.waited(now, &averages) - averages.waited,
        };
        PressureReport {
            some: Waiting::of(&averages.some, Nanos(more)),
            full: Waiting::of(&averages.full, Nanos::ZERO),
        }
    }
}

impl Averages {
    /// Processor time that the processes had since the last call.
    fn note_ran(&mut self, spaces: &[Arc<Space>]) -> u64 {
        let time = |space: &Arc<Space>| {
            let body = space.body.get().filter(|body| !body.is_left())?;
            Some((space.cookie, body.process.cpu_nanos()?))
        };
        let now: HashMap<u64, u64> = spaces.iter().filter_map(time).collect();
        let since = |(cookie, ran): (&u64, &u64)| {
            let before = self.ran.get(cookie).copied();
            before.map_or(0, |before| ran.saturating_sub(before))
        };
        let sum = now.iter().map(since).sum();
        self.ran = now;
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn waiting_of_several_at_once_counts_once() {
        let stalls = Stalls::default();
        let start = 100 * SECOND;
        stalls.look(&[], start);
        for (waits, at) in [
            (true, 0),
            (true, 200),
            (false, 300),
            (false, 500),
            (true, 900),
            (false, 1000),
        ] {
            stalls.turn(waits, start + at * SECOND / 1000);
        }
        stalls.look(&[], start + 2 * SECOND);
        let report = stalls.averages.lock().some;
        assert_eq!(report.total(), Nanos(600_000_000));
        assert!(report.averages()[0] > 5.0);
    }

    #[test]
    fn who_still_waits_counts_until_now() {
        let stalls = Stalls::default();
        let start = 100 * SECOND;
        stalls.look(&[], start);
        stalls.turn(true, start + SECOND);
        stalls.look(&[], start + 2 * SECOND);
        assert_eq!(stalls.averages.lock().some.total(), Nanos(SECOND));
        stalls.look(&[], start + 4 * SECOND);
        assert_eq!(
            stalls.averages.lock().full.total(),
            Nanos(3 * SECOND),
            "nobody ran"
        );
        stalls.turn(false, start + 4 * SECOND);
        stalls.look(&[], start + 6 * SECOND);
        assert_eq!(stalls.averages.lock().some.total(), Nanos(3 * SECOND));
    }

    #[test]
    fn pressure_above_the_threshold_is_told_once_until_it_was_below() {
        let stalls = Stalls::default();
        stalls.set_threshold(30);
        let mut told = Vec::new();
        let waits = |at: u64| (20..40).contains(&at) || (60..80).contains(&at);
        for at in (0..100).step_by(2) {
            let now = (100 + at) * SECOND;
            if waits(at) != waits(at.saturating_sub(2)) {
                stalls.turn(waits(at), now);
            }
            told.extend(stalls.look(&[], now).map(|share| (at, share)));
        }
        let times: Vec<u64> = told.iter().map(|(at, _)| *at).collect();
        assert_eq!(times, [24, 64], "{told:?}");
        assert!(told.iter().all(|(_, share)| *share > 30.0), "{told:?}");
        stalls.set_threshold(0);
        stalls.turn(true, 200 * SECOND);
        let silent = (200..220).step_by(2);
        assert!(
            silent
                .into_iter()
                .all(|at| stalls.look(&[], at * SECOND).is_none())
        );
    }

    /// The clock of the thread that waits was read after that of who looks.
    #[test]
    fn who_begins_to_wait_just_after_a_look_has_not_waited() {
        let stalls = Stalls::default();
        let start = 100 * SECOND;
        stalls.look(&[], start);
        stalls.turn(true, start + 2 * SECOND + 5);
        stalls.look(&[], start + 2 * SECOND);
        assert_eq!(stalls.averages.lock().some.total(), Nanos(0));
        stalls.look(&[], start + 4 * SECOND);
        let total = stalls.averages.lock().some.total();
        assert_eq!(total, Nanos(2 * SECOND - 5));
    }

    #[test]
    fn a_look_in_the_middle_of_a_turn_counts_nothing_twice() {
        let stalls = Stalls::default();
        let start = 100 * SECOND;
        stalls.look(&[], start);
        stalls.waiting.fetch_add(1, Relaxed); // the other step is to come
        stalls.look(&[], start + 2 * SECOND);
        assert_eq!(stalls.averages.lock().some.total(), Nanos(0));
        stalls.edges.fetch_sub(start + SECOND, Relaxed);
        stalls.look(&[], start + 4 * SECOND);
        let total = stalls.averages.lock().some.total();
        assert!(
            total > Nanos(SECOND) && total <= Nanos(3 * SECOND),
            "{total}"
        );
    }
}
