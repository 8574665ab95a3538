//! A deterministic simulator of Linux reclaim: an imagined machine around the policy core.
//!
//! | module | holds |
//! |---|---|
//! | `kernel` | address spaces, page tables, faults, and who reclaims when |
//! | `swap` | slots and the device behind them |
//! | `compress` | what pages compress to and what that costs |
//! | `clock` | CPUs, tasks and the event heap: the machine |
//! | `workload` | what tasks do |
//! | `experiment` | the published experiments |
//! | `trace` | what recorded programs touched; import from other formats |
//! | `report` | tables, plots, and the spread over seeds |
#![forbid(unsafe_code)]

mod clock;
mod compress;
mod experiment;
mod kernel;
mod nearest;
mod report;
mod swap;
mod trace;
mod workload;

pub use clock::{Clockwork, Context, Machine, Program, Shared, Step, TaskTimes, Times, Touch};
pub use compress::{
    CompressorModel, ContentModel, Fitter, LZ4, Measured, Models, Packing, PageImage, PageModel,
    Ratio, UnknownModel, page_model, with_dictionary,
};
pub use experiment::{
    Comparison, Difference, EXPERIMENTS, Effect, Experiment, ExperimentFault, HEADLINES, Headline,
    Kept, KeptFault, LabResult, Mail, Measure, Options, Origin, Outcome, Overview, Parameter,
    Reported, Row, Run, Series, Setup, Stored, StoredFault, Values, find as find_experiment,
    overview, run as run_experiment, sweep as sweep_experiment,
};
pub use kernel::{
    Advice, Area, AreaKind, Completion, Costs, CpuId, FileId, GaugeMeans, Kernel, KernelConfig,
    Limits, MemcgId, NodeId, Op, Reply, ShmemId, SpaceId, SwapConfig, TaskId, ZswapConfig,
};
pub use neap_units::{Bytes, Nanos, Size, parse_size};
pub use report::{
    Align, Bars, Curve, Group, Part, Plot, Spread, Table, count, number, page, quantile,
};
pub use swap::{Device, DeviceConfig, Direction, InMemory, SlotConfig, SwapSlots, Turn, Worker};
pub use trace::{
    Backing, Event, Events, ForecastMachine, ForecastPoint, ImportFault, Lackey, Trace, TraceArea,
    TraceFault, Windows, forecast, from_lackey, from_oracle, from_record,
};
pub use workload::{
    Arena, Build, BuildShape, Burst, Compiler, GroupSpec, Kind, Load, MAX_SWAP_LATENCY,
    MGLRU_SINCE, Pattern, Reclaimer, Replay, Rng, Stream, TaskSpec, WORKLOAD_SCHEMA, Walker,
    Workload, WorkloadFault, WorkloadRun, Zipf, parse_duration, parse_version,
};
