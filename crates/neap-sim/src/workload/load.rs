//! A task that touches an area in a pattern: the usemem, random, zipf, scan, hot-cold, phases and cold
//! workloads are all this with different numbers.

use neap_units::{Nanos, PageNr};

use super::pattern::Walker;
use super::{BATCH, put_run};
use crate::clock::{Context, Program, Step, Touch};
use crate::kernel::{Area, MemcgId};

/// Touches in bursts instead of one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Burst {
    /// Touches in a burst.
    pub touches: u64,
    /// From the start of one burst to the start of the next.
    pub period: Nanos,
}

/// What a load does; see the fields.
#[derive(Clone, Debug)]
pub struct Load {
    /// Whose memory.
    pub memcg: MemcgId,
    /// What it maps.
    pub area: Area,
    /// Write every page once, in order, before anything else.
    pub populate: bool,
    /// Which page comes next.
    pub walker: Walker,
    /// Share of touches that are stores, 0..=1.
    pub writes: f64,
    /// Work between touches.
    pub pace: Nanos,
    /// Bursts, if not as fast as it goes.
    pub burst: Option<Burst>,
    /// How many touches after populating.
    pub touches: u64,
    /// Stops at this time at the latest.
    pub until: Nanos,
    /// Keeps its memory so long after the last touch.
    pub hold: Nanos,
    /// Shared number that counts its touches, from [`crate::Shared::make`].
    pub done: Option<usize>,
}

impl Load {
    /// Touches the area with this pattern, endlessly and as fast as it goes, without populating.
    #[must_use]
    pub fn new(memcg: MemcgId, area: Area, walker: Walker) -> Load {
        Load {
            memcg,
            area,
            populate: false,
            walker,
            writes: 0.5,
            pace: Nanos(100),
            burst: None,
            touches: u64::MAX,
            until: Nanos(u64::MAX),
            hold: Nanos::ZERO,
            done: None,
        }
    }

    /// The task.
    #[must_use]
    pub fn program(self) -> Box<dyn Program> {
        Box::new(Running {
            left: self.touches,
            load: self,
            start: None,
            populated: 0,
            burst: (Nanos::ZERO, 0),
            holding: false,
        })
    }
}

struct Running {
    load: Load,
    start: Option<PageNr>,
    populated: u64,
    left: u64,
    /// When the burst began, and what is left of it.
    burst: (Nanos, u64),
    holding: bool,
}

impl Running {
    fn end(&mut self, cx: &mut Context<'_>) -> Step {
        if !self.holding && self.load.hold > Nanos::ZERO {
            self.holding = true;
            return Step::SleepUntil(cx.now.saturating_add(self.load.hold));
        }
        if let Some(space) = cx.space.take() {
            cx.kernel.exit_space(space);
        }
        Step::Exit
    }

    /// Touches allowed now, or when to come back.
    fn allowance(&mut self, now: Nanos) -> Result<u64, Nanos> {
        let Some(burst) = self.load.burst else {
            return Ok(BATCH);
        };
        if self.burst.1 == 0 {
            let next = self.burst.0.saturating_add(burst.period);
            if self.burst.0 > Nanos::ZERO && now < next {
                return Err(next);
            }
            // One that came late does not hurry after what it missed.
            let late = now.saturating_sub(next) >= burst.period;
            let start = if self.burst.0 == Nanos::ZERO || late {
                now
            } else {
                next
            };
            self.burst = (start.max(Nanos(1)), burst.touches.max(1));
        }
        Ok(self.burst.1.min(BATCH))
    }
}

impl Program for Running {
    fn step(&mut self, cx: &mut Context<'_>) -> Step {
        let load = &self.load;
        let start = *self.start.get_or_insert_with(|| {
            let space = cx.kernel.create_space(load.memcg);
            *cx.space = Some(space);
            *cx.pace = load.pace;
            cx.kernel.map(space, load.area)
        });
        let pages = self.load.area.len.0;
        if self.load.populate && self.populated < pages {
            let count = BATCH.min(pages - self.populated);
            put_run(cx.touches, PageNr(start.0 + self.populated), count, true);
            self.populated += count;
            return Step::Touches;
        }
        if self.left == 0 || cx.now >= self.load.until || self.holding {
            return self.end(cx);
        }
        let count = match self.allowance(cx.now) {
            Ok(count) => count.min(self.left),
            Err(when) => return Step::SleepUntil(when.min(self.load.until)),
        };
        self.left -= count;
        self.burst.1 = self.burst.1.saturating_sub(count);
        for _ in 0..count {
            let page = start.0 + self.load.walker.next(cx.rng);
            let write = match self.load.writes {
                share if share >= 1.0 => true,
                share if share <= 0.0 => false,
                share => cx.rng.chance(share),
            };
            cx.touches.push(Touch::new(PageNr(page), write));
        }
        if let Some(done) = self.load.done {
            cx.shared.add(done, count);
        }
        Step::Touches
    }
}
