//! What the tasks of the imagined machine do.
//!
//! | module | holds |
//! |---|---|
//! | `pattern` | which page comes next: sequential, random, zipf, hot-cold, phases |
//! | `load` | a task that touches an area in a pattern, at a pace or in bursts |
//! | `stream` | a reader that goes through a file once |
//! | `replay` | a task that does what a trace says |
//! | `compile` | jobs of a parallel build |
//! | `link` | the serial part of a build |
//! | `file` | machines, cgroups and tasks as users write them, in TOML |
//! | `reclaimer` | a task that writes to `memory.reclaim` |

mod compile;
mod file;
mod link;
mod load;
mod pattern;
mod reclaimer;
mod replay;
mod rng;
mod stream;

pub use compile::{Build, BuildShape, Compiler};
pub use file::{
    GroupSpec, Kind, MAX_SWAP_LATENCY, MGLRU_SINCE, TaskSpec, WORKLOAD_SCHEMA, Workload,
    WorkloadFault, WorkloadRun, parse_duration, parse_version,
};
pub use link::LinkShape;
pub use load::{Burst, Load};
pub use pattern::{Pattern, Walker};
pub use reclaimer::Reclaimer;
pub use replay::Replay;
pub use rng::{Rng, Zipf};
pub use stream::{Arena, Stream};

use neap_units::PageNr;

use crate::clock::Touch;

/// Most touches a program puts down for one step: enough that asking it costs nothing, few enough to
/// stay in the first cache.
pub(crate) const BATCH: u64 = 256;

/// Puts down `count` touches from `first` on.
pub(crate) fn put_run(touches: &mut Vec<Touch>, first: PageNr, count: u64, write: bool) {
    touches.extend((first.0..first.0 + count).map(|page| Touch::new(PageNr(page), write)));
}
