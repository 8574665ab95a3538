//! Carries the decisions of the policy core out on live processes.
//!
//! | folder | what happens to a page there |
//! |---|---|
//! | `space` | one address space: what is registered, what the kernel says of it |
//! | `reclaim` | the way out: pick, stage, compress, throw the frame away |
//! | `fault` | the way in begins: a thread waits for the page |
//! | `load` | the way in ends: find the bytes, fill, wake |
//!
//! Beside them: `numbers` has spaces come and go. `listen` finds out who calls, in a directory of its own (`shelter`). `talk` has threads that speak with the
//! callers. `attendant` takes processes over, once what they offer is proven to be theirs (`proof`). `attend` waits for
//! their ends. `sampler` keeps the limit, and `writeback` moves compressed pages to the swap file. `thaw` lets go of memory
//! again. `control` has others look at the job and steer it. `freeze` stops all processes and continues them, and `prefetch` brings their memory back. `idle` has memory leave processes that do nothing. `record` writes down what the policy core is asked. `history` keeps the run over time. `strays` names processes that are not met, and `unannounced` ends children that nobody announced. `warnings`
//! says what the user is to know.
#![forbid(unsafe_code)]

mod agent;
mod attend;
mod attendant;
#[cfg(test)]
mod bare;
mod bell;
mod control;
/// It has threads take turns, which locks know of in builds with debug assertions.
#[cfg(all(test, debug_assertions))]
mod dst;
mod engine;
mod excess;
mod fault;
mod forking;
mod freeze;
mod group;
mod history;
mod idle;
mod job;
mod listen;
mod load;
mod meter;
mod metrics;
mod numbers;
mod options;
mod play;
mod prefetch;
mod probe;
mod proof;
mod quiet;
mod reclaim;
mod record;
mod report;
mod room;
mod roster;
mod sampler;
mod shelter;
mod space;
mod spares;
mod spawn;
mod stalls;
mod strays;
mod talk;
mod thaw;
mod unannounced;
mod warnings;
mod writeback;

pub use control::Stat;
pub use engine::{Engine, StartError};
pub use history::{GenerationReport, GenerationsReport};
pub use metrics::{Metric, metrics};
pub use options::{Control, Exhausted, Follow, Options, Swap, Walk};
pub use play::{Play, PlayCosts, PlayCounts, PlayJob};
pub use probe::{Check, Probe, Refusal, probe};
pub use report::{MemoryReport, ProcessReport, Report};
pub use shelter::Shelter;
pub use stalls::{PressureReport, Waiting};
