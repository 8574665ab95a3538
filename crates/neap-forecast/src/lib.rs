//! What a limit of `neap run` would do to a recorded program, and how much of that is known.
//!
//! Each limit is played three times: with what is likely, and with the kindest and the harshest of what
//! a trace leaves open. What a trace cannot tell is not guessed: such a bound is absent.
//!
//! What is played is the engine itself, on an imagined kernel and in imagined time (`neap-engine/src/play`).
#![forbid(unsafe_code)]

mod costs;
mod job;

#[cfg(test)]
mod tests;

use std::io;

use neap_sim::{Event, Packing, Ratio, Trace};
use neap_tuning::TUNING;
use neap_units::{Bytes, Nanos};
use serde::{Serialize, Serializer};

pub use job::NeapJob;
use job::{Assumed, Played, play};
pub use neap_engine::{PlayCosts as NeapCosts, PlayCounts as NeapCounts};

/// What a forecast is asked.
#[derive(Clone, PartialEq, Debug)]
pub struct NeapForecast {
    /// The job; its limit is replaced by each that is tried.
    pub job: NeapJob,
    /// What neap takes for its work, likely, with lz4.
    pub costs: NeapCosts,
    /// What the compressor makes of pages.
    pub packing: Packing,
    /// How long the program takes without a limit, if that is known.
    pub time: Option<Nanos>,
}

/// What one limit would do.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct NeapPoint {
    /// The limit.
    #[serde(serialize_with = "as_bytes")]
    pub limit: Bytes,
    /// Likely time over the time without a limit; at least and at most. No most: none is known.
    pub slowdown: f64,
    /// At least.
    pub slowdown_low: f64,
    /// At most; `None`: not known.
    pub slowdown_high: Option<f64>,
    /// Likely time.
    pub seconds: f64,
    /// Likely counts.
    #[serde(flatten)]
    pub counts: NeapCounts,
    /// Faults that waited for a compressed page, at least.
    pub pgmajfault_low: u64,
    /// At most; `None`: not known.
    pub pgmajfault_high: Option<u64>,
}

/// The likely run, the kindest and the harshest.
struct Three {
    likely: Played,
    low: Played,
    high: Played,
}

impl NeapForecast {
    /// What is assumed: likely, kindest, harshest.
    fn assumed(&self) -> [Assumed; 3] {
        let costs = costs::with(&self.costs, &self.packing);
        let (alone, dictionary) = (&self.packing.alone, &self.packing.dictionary);
        let of = |percent, which: fn(&Ratio) -> f64, ahead_used, unwatched_hot| Assumed {
            costs: costs.percent(percent),
            ratio: (which(alone), which(dictionary)),
            ahead_used,
            unwatched_hot,
        };
        [
            of(100, |ratio| ratio.likely, true, false),
            of(
                TUNING.forecast.costs_least,
                |ratio| ratio.most,
                false,
                false,
            ),
            of(TUNING.forecast.costs_most, |ratio| ratio.least, true, true),
        ]
    }

    fn three(&self, trace: &Trace, limit: Bytes, pace: f64) -> io::Result<Three> {
        let job = NeapJob { limit, ..self.job };
        let [likely, low, high] = self.assumed();
        Ok(Three {
            likely: play(trace, job, likely, pace)?,
            low: play(trace, job, low, pace)?,
            high: play(trace, job, high, pace)?,
        })
    }

    /// What was assumed, and what cannot be known of the trace at these limits: a line for each.
    #[must_use]
    pub fn notes(&self, trace: &Trace, limits: &[Bytes]) -> Vec<String> {
        let mut notes = vec![
            "of neap run, which limits private memory only, as one space used by one thread at a time"
                .to_owned(),
        ];
        let packing = &self.packing;
        let Ratio {
            likely,
            least,
            most,
        } = packing.dictionary;
        if least < most {
            notes.push(format!(
                "no trace says what its pages compress to: {likely:.1} times smaller with {} is assumed, {least:.1} to {most:.1} for the range, as pages of {} (--ratio, --content)",
                packing.compressor,
                packing.contents.join(", ")
            ));
        }
        let Some(seen) = trace.limit() else {
            if self.time.is_none() {
                notes.push(
                    "time is counted in accesses or instructions: say how long the program takes (--time)"
                        .to_owned(),
                );
            }
            return notes;
        };
        let processes = trace.areas().len();
        if processes > 1 {
            notes.push(format!(
                "recorded of {processes} processes, which are played as one: their pages on one list, one touch after the other"
            ));
        }
        if self.time.is_none() {
            notes.push(
                "a record does not tell the program's own time from what it waited: say how long it takes without a limit (--time)"
                    .to_owned(),
            );
        }
        let watched = |event| matches!(event, Event::Watch { on: true, .. });
        if !trace.events().any(watched) {
            notes.push(format!(
                "recorded at {seen}, where no page left memory, so the record has no accesses: record under the least limit that is of interest, or import a trace of valgrind"
            ));
        } else if limits.iter().any(|limit| *limit < seen) {
            notes.push(format!(
                "recorded at {seen}: touches of pages that were in memory there are not in it, so below that only the least is known"
            ));
        }
        notes
    }

    /// What each limit would do.
    ///
    /// # Errors
    /// If descriptors are short.
    pub fn run(&self, trace: &Trace, limits: &[Bytes]) -> io::Result<Vec<NeapPoint>> {
        match trace.limit() {
            None => self.of_accesses(trace, limits),
            Some(seen) => self.of_record(trace, seen, limits),
        }
    }

    /// Every access is known: the time without a limit, and what is waited beside it.
    fn of_accesses(&self, trace: &Trace, limits: &[Bytes]) -> io::Result<Vec<NeapPoint>> {
        let took = trace.duration().0.max(1) as f64;
        let own = self.time.map_or(took, |time| time.0.max(1) as f64);
        let point = |&limit: &Bytes| {
            let three = self.three(trace, limit, own / took)?;
            let wall = |played: &Played| (own + played.stall.0 as f64) / own;
            let high = Some(wall(&three.high)).filter(|_| !three.high.endless);
            let (likely, low) = (wall(&three.likely), wall(&three.low));
            Ok(point(limit, own, likely, low, high, &three))
        };
        limits.iter().map(point).collect()
    }

    /// Neap saw it under a limit. The time there is known, and with the program's own time also what neap
    /// took: other limits are told from there. More memory takes no longer, less no shorter; and below, no
    /// most is known.
    fn of_record(
        &self,
        trace: &Trace,
        seen: Bytes,
        limits: &[Bytes],
    ) -> io::Result<Vec<NeapPoint>> {
        let took = trace.duration().0.max(1) as f64;
        let there = self.three(trace, seen, 1.0)?;
        let known = self.time.map(|time| (time.0.max(1) as f64).min(took));
        // The program's own time, how many times what is modelled neap took, and the time there without
        // the recorder.
        let bases = [
            (&there.likely, TUNING.forecast.recorded.as_f64()),
            (&there.low, TUNING.forecast.recorded_least.as_f64()),
            (&there.high, 1.0),
        ]
        .map(|(there, share)| {
            let stall = there.stall.0.max(1) as f64;
            let own =
                known.unwrap_or((took - stall).max(took * TUNING.forecast.least_own.as_f64()));
            let waited = (took - own) * share;
            (own, waited / stall, own + waited)
        });
        let point = |&limit: &Bytes| {
            let three = self.three(trace, limit, 1.0)?;
            let slowdown = |(own, times, there): (f64, f64, f64), here: &Played| {
                let wall = own + times * here.stall.0 as f64;
                let wall = match limit >= seen {
                    true => wall.min(there),
                    false => wall.max(there),
                };
                wall / own
            };
            let likely = slowdown(bases[0], &three.likely);
            let others = [
                slowdown(bases[1], &three.low),
                slowdown(bases[2], &three.high),
            ];
            let low = others.into_iter().fold(likely, f64::min);
            let high = others.into_iter().fold(likely, f64::max);
            let high = Some(high).filter(|_| limit >= seen);
            Ok(point(limit, bases[0].0, likely, low, high, &three))
        };
        limits.iter().map(point).collect()
    }
}

/// A size as the number of its bytes.
fn as_bytes<S: Serializer>(limit: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(limit.0)
}

fn point(
    limit: Bytes,
    own: f64,
    likely: f64,
    low: f64,
    high: Option<f64>,
    three: &Three,
) -> NeapPoint {
    let counts = three.likely.counts;
    let low = low.min(likely);
    NeapPoint {
        limit,
        slowdown: likely,
        slowdown_low: low,
        slowdown_high: high.map(|high| high.max(likely)),
        seconds: own * likely / 1e9,
        counts,
        pgmajfault_low: three.low.counts.pgmajfault.min(counts.pgmajfault),
        pgmajfault_high: high.map(|_| three.high.counts.pgmajfault.max(counts.pgmajfault)),
    }
}
