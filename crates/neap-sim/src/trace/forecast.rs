//! What a limit would do to a recorded program.

use std::sync::Arc;

use neap_policy::{Counter, Switches};
use neap_units::{Bytes, Nanos};
use serde::{Serialize, Serializer};

use super::Trace;
use crate::compress::PageModel;
use crate::kernel::{KernelConfig, MemcgId, SwapConfig, ZswapConfig};
use crate::workload::Workload;

/// The machine a forecast is for.
#[derive(Clone, PartialEq, Debug)]
pub struct ForecastMachine {
    /// Linux version whose rules hold.
    pub version: (u32, u32),
    /// Generations instead of active and inactive lists.
    pub mglru: bool,
    /// Size of swap.
    pub swap_size: Bytes,
    /// Time of a swap read.
    pub swap_latency: Nanos,
    /// Whether pages are compressed first.
    pub zswap: bool,
    /// What a compressor makes of pages; `None`: a quarter, as in any kernel that is told nothing.
    pub pages: Option<PageModel>,
    /// Seed.
    pub seed: u64,
}

/// What one limit would do.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct ForecastPoint {
    /// The limit.
    #[serde(serialize_with = "as_bytes")]
    pub limit: Bytes,
    /// Time over the time without a limit.
    pub slowdown: f64,
    /// Time.
    pub seconds: f64,
    /// Major faults.
    pub pgmajfault: u64,
    /// Pages decompressed.
    pub zswpin: u64,
    /// Pages read from swap.
    pub pswpin: u64,
    /// Pages written to swap.
    pub pswpout: u64,
    /// Pages of files read again.
    pub refault_file: u64,
    /// Whether the program was killed for want of memory.
    pub killed: bool,
}

/// A size as the number of its bytes.
fn as_bytes<S: Serializer>(limit: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(limit.0)
}

impl ForecastPoint {
    /// Pages brought back, from anywhere.
    #[must_use]
    pub fn page_ins(&self) -> u64 {
        self.zswpin + self.pswpin + self.refault_file
    }
}

impl ForecastMachine {
    /// A run of a trace under a limit.
    #[must_use]
    pub fn workload(&self, trace: &Arc<Trace>, limit: Option<Bytes>) -> Workload {
        let needs = Bytes(u64::from(trace.pages()) << 12);
        let base = KernelConfig::default();
        let kernel = KernelConfig {
            // Room for the program, its compressed pages and the kernel: only the limit counts.
            ram: (needs * 3).saturating_add(Bytes::gib(1)),
            switches: Switches::of_kernel(self.version, self.mglru),
            swap: Some(SwapConfig {
                size: self.swap_size,
                latency: self.swap_latency,
                synchronous: false,
            }),
            zswap: self.zswap.then_some(ZswapConfig {
                max_pool_percent: 20,
                accept_threshold_percent: 90,
                shrinker: true,
            }),
            contents: self
                .pages
                .clone()
                .map_or(base.contents, |model| vec![model]),
            seed: self.seed,
            ..base
        };
        Workload::of_trace(Arc::clone(trace), kernel, limit)
    }

    fn point(&self, trace: &Arc<Trace>, limit: Option<Bytes>) -> ForecastPoint {
        let mut run = self.workload(trace, limit).run();
        let seconds = run.machine.now().0 as f64 / 1e9;
        let killed = run.machine.kills() > 0;
        let counters = run.machine.kernel().vmstat(MemcgId::ROOT);
        ForecastPoint {
            limit: limit.unwrap_or(Bytes(u64::MAX)),
            slowdown: 1.0,
            seconds,
            pgmajfault: counters[Counter::Pgmajfault],
            zswpin: counters[Counter::Zswpin],
            pswpin: counters[Counter::Pswpin],
            pswpout: counters[Counter::Pswpout],
            refault_file: counters[Counter::WorkingsetRefaultFile],
            killed,
        }
    }
}

/// What each limit would do to a trace, against no limit.
#[must_use]
pub fn forecast(
    machine: &ForecastMachine,
    trace: &Arc<Trace>,
    limits: &[Bytes],
) -> Vec<ForecastPoint> {
    let free = machine.point(trace, None);
    let point = |&limit: &Bytes| {
        let limit = Some(limit).filter(|limit| *limit < Bytes(u64::MAX));
        let point = machine.point(trace, limit);
        let slowdown = if free.seconds > 0.0 {
            point.seconds / free.seconds
        } else {
            1.0
        };
        ForecastPoint { slowdown, ..point }
    };
    limits.iter().map(point).collect()
}
