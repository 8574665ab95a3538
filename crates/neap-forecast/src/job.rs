//! A program of a trace under `neap run`: the engine is played over what the trace says.

use std::io;
use std::ops::Range;

use neap_engine::{Play, PlayCosts, PlayCounts, PlayJob};
use neap_sim::{Backing, Event, Trace};
use neap_units::{Bytes, Nanos, Pages};

/// The job that a trace runs in.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NeapJob {
    /// `-m`.
    pub limit: Bytes,
    /// `--pool-max`.
    pub pool_max_percent: u8,
    /// Whether there is a swap file.
    pub swap: bool,
    /// Cpus of the machine.
    pub cpus: u32,
}

/// What a trace does not say.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Assumed {
    pub costs: PlayCosts,
    /// How many times smaller pages get, alone and with a dictionary.
    pub ratio: (f64, f64),
    /// Pages brought ahead were used at once.
    pub ahead_used: bool,
    /// Pages that neap did not watch were touched all the time.
    pub unwatched_hot: bool,
}

/// What a run came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Played {
    /// Time the program waited.
    pub stall: Nanos,
    pub counts: PlayCounts,
    /// No bound is known: it might have wanted all that is taken from it at once.
    pub endless: bool,
}

impl NeapJob {
    fn of(&self, trace: &Trace, assumed: &Assumed) -> PlayJob {
        // Room for all pages twice: what is written again lies in two places for a while.
        let swap = Pages(u64::from(trace.pages()) * 2).bytes().0 + Bytes::mib(64).0;
        PlayJob {
            limit: self.limit,
            pool_max_percent: self.pool_max_percent,
            swap: Bytes(if self.swap { swap } else { 0 }),
            cpus: self.cpus,
            costs: assumed.costs,
            ratio: assumed.ratio,
            unwatched_hot: assumed.unwatched_hot,
        }
    }
}

/// Plays a trace. Time that passes in it is scaled by `pace`.
pub(crate) fn play(trace: &Trace, job: NeapJob, assumed: Assumed, pace: f64) -> io::Result<Played> {
    let private = private(trace);
    let mut play = Play::new(job.of(trace, &assumed), trace.pages(), &private)?;
    let mut worked = Nanos::ZERO;
    let each = |first: u32, count: u32| {
        let cut = move |range: &Range<u32>| first.max(range.start)..(first + count).min(range.end);
        private.iter().map(cut).filter(|range| !range.is_empty())
    };
    for event in trace.events() {
        match event {
            Event::Time(span) => {
                let span = Nanos((span.0 as f64 * pace) as u64);
                worked += span;
                play.pass(span);
            }
            Event::Touch {
                first,
                count,
                write,
            } => {
                let seen = trace.limit().is_some();
                for page in each(first, count).flatten() {
                    play.touch(page, write);
                    play.watch(page, !seen);
                }
            }
            Event::Watch { first, count, on } => {
                for page in each(first, count).flatten() {
                    if !on && assumed.ahead_used {
                        play.touch(page, false);
                    }
                    play.watch(page, on);
                }
            }
            Event::Free { first, count } => {
                for range in each(first, count) {
                    play.free(range.start, range.len() as u32);
                }
            }
        }
        if play.is_endless() {
            break;
        }
    }
    Ok(Played {
        stall: play.now().saturating_sub(worked),
        counts: play.counts(),
        endless: play.is_endless(),
    })
}

/// Ranges of pages that neap manages.
fn private(trace: &Trace) -> Vec<Range<u32>> {
    let mut first = 0;
    let mut ranges = Vec::new();
    for area in trace.areas() {
        if area.backing == Backing::Anon {
            ranges.push(first..first + area.pages);
        }
        first += area.pages;
    }
    ranges
}
