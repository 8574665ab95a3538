//! Kernel builds in a memory cgroup: `second-chance`, `cold-data` (S0, S3) and `writeback-rotation` (S4).
//!
//! The compiler's page-level behaviour is a recorded gcc (see `workload::compile`). Everything that
//! grows with the machine is divided by the scale before it is shown, so that numbers of any scale
//! stand beside the reported ones.

use neap_policy::{Counter, Switches};
use neap_units::{Bytes, Nanos, PAGE_SIZE, Pages};

use super::cost::costs;
use super::mail::SECOND_CHANCE as S0;
use super::series;
use super::{Effect, ExperimentFault, Measure, Parameter, Reported, Run, Setup};
use crate::clock::{Clockwork, Machine};
use crate::compress::{Models, PageModel};
use crate::kernel::{
    Area, Completion, GaugeMeans, KernelConfig, Limits, MemcgId, SwapConfig, ZswapConfig,
};
use crate::swap::DeviceConfig;
use crate::trace::Trace;
use crate::workload::{Build, BuildShape, Compiler, LinkShape, Load, Pattern, Walker};

/// Simulated hours after which a build is given up.
const PATIENCE: u64 = 6;

pub(super) fn scaled_bytes(setup: &Setup<'_>, key: &str) -> Bytes {
    Bytes((setup.number(key) * setup.scale * 1048576.0) as u64)
}

/// What the memory of a compiler compresses to: as fitted from a real cc1, or all alike.
pub(super) fn pages_of(compressor: &str) -> PageModel {
    let fitted = Models::built_in().page_model("cc1", compressor);
    fitted.unwrap_or_else(|_| PageModel::fixed(1024, Nanos(5_000), Nanos(2_000)))
}

/// The device behind swap, of experiments that name one; what it takes at once, and in a second, is scaled as
/// what is asked of it. Without one, or if it is idle, swap has a latency only.
fn device(setup: &Setup<'_>) -> Option<DeviceConfig> {
    if !setup.values.has("device") {
        return None;
    }
    let class = DeviceConfig::named(setup.word("device"))?;
    let latency = Nanos::micros(setup.number("swap_latency") as u64);
    let part = |whole: u32| ((f64::from(whole) * setup.scale) as u32).max(1);
    Some(DeviceConfig {
        read_latency: latency,
        write_latency: latency,
        bandwidth: Bytes((setup.number("swap_iops") * PAGE_SIZE as f64 * setup.scale) as u64),
        depth: part(class.depth),
        requests: part(class.requests),
        ..class
    })
}

fn completion(setup: &Setup<'_>) -> Completion {
    let elsewhere = setup.values.has("completion") && setup.word("completion") == "elsewhere";
    match elsewhere {
        true => Completion::Elsewhere,
        false => Completion::Submitter,
    }
}

fn kernel(setup: &Setup<'_>, switches: Switches) -> KernelConfig {
    KernelConfig {
        contents: vec![pages_of(setup.word("compressor"))],
        ram: scaled_bytes(setup, "ram"),
        cpus: setup.scaled("cpus", 1) as u32,
        switches,
        page_cluster: setup.number("page_cluster") as u32,
        swap: Some(SwapConfig {
            size: scaled_bytes(setup, "swap"),
            latency: Nanos::micros(setup.number("swap_latency") as u64),
            synchronous: false,
        }),
        swap_device: device(setup),
        completion: completion(setup),
        costs: costs(setup),
        zswap: Some(ZswapConfig {
            max_pool_percent: 20,
            accept_threshold_percent: 90,
            shrinker: true,
        }),
        seed: setup.seed,
        ..KernelConfig::default()
    }
}

/// The serial part of a build, of experiments that have it.
fn serial(setup: &Setup<'_>) -> Option<LinkShape> {
    if !setup.values.has("serial") {
        return None;
    }
    let time = |key| Nanos((setup.number(key) * 1e9) as u64);
    let serial = time("serial");
    let prepare = time("prepare").min(serial);
    (serial > Nanos::ZERO).then(|| LinkShape {
        prepare,
        work: serial - prepare,
        memory: scaled_bytes(setup, "link_memory").whole_pages().0,
        scatter: setup.number("scatter"),
        stretch: 1.0 / setup.scale,
    })
}

/// Pages that all units read, of experiments that have them; scaled as the memory of the whole.
fn headers(setup: &Setup<'_>) -> u64 {
    let shared = setup.values.has("headers");
    if shared {
        setup.scaled("headers", 0)
    } else {
        0
    }
}

/// Units of which all together take the user time that the serial part leaves.
fn shape(setup: &Setup<'_>, trace: &Trace, link: Option<LinkShape>) -> BuildShape {
    let serial = link.map_or(Nanos::ZERO, |link| link.prepare.saturating_add(link.work));
    let work = (setup.number("user") * 1e9 - serial.0 as f64).max(0.0)
        / setup.number("units")
        / trace.duration().0.max(1) as f64;
    BuildShape {
        units: setup.scaled("units", 1),
        work: (work * 0.5, work * 1.5),
        memory: setup.number("memory"),
        source: setup.number("source") as u64,
        headers: headers(setup),
        object: setup.number("object") as u64,
        tmpfs: setup.word("files") == "tmpfs",
        spawn: Nanos::millis(1),
        link,
    }
}

/// One build; with `cold` pages of shared memory written before it.
pub(super) fn build(
    setup: &Setup<'_>,
    switches: Switches,
    cold: u64,
) -> Result<Run, ExperimentFault> {
    let mut machine = Machine::new(&kernel(setup, switches), Clockwork::default());
    let link = serial(setup);
    let trace = Compiler::recorded_trace();
    let kernel = machine.kernel();
    let memcg = kernel.create_memcg(MemcgId::ROOT, "build");
    let limits = Limits {
        max: Some(scaled_bytes(setup, "limit").whole_pages()),
        ..Limits::default()
    };
    kernel.set_limits(memcg, limits);
    let shape = shape(setup, &trace, link);
    let prepare = link.map_or(Nanos::ZERO, |link| link.prepare);
    let compiler = Compiler::new(trace, setup.scale, kernel);
    let mut start = Nanos::ZERO;
    if cold > 0 {
        let area = Area::shmem(kernel.create_shmem(Pages(cold)), Pages(cold));
        let load = Load {
            populate: true,
            touches: 0,
            hold: Nanos(u64::MAX / 2),
            ..Load::new(memcg, area, Walker::new(Pattern::Sequential, cold))
        };
        machine.spawn(load.program(), Nanos::ZERO, false);
        start = Nanos(cold * 10_000);
    }
    let queue = machine.shared().make(shape.units);
    let mut build = Build::new(shape, memcg, compiler, queue, machine.kernel());
    let jobs = setup.scaled("jobs", 1);
    let running = machine.shared().make(jobs);
    let link = build.link(running, machine.kernel());
    let link = link.map(|program| machine.spawn(program, start, true));
    for _ in 0..jobs {
        machine.spawn(build.job(), start.saturating_add(prepare), true);
    }
    let patience = Nanos(PATIENCE * 3_600_000_000_000);
    let Some(samples) = series::watch(&mut machine, memcg, patience) else {
        return Err(ExperimentFault::Endless {
            config: setup.config,
            seed: setup.seed,
            hours: PATIENCE,
            advice: "give it a larger limit, or fewer jobs",
        });
    };
    let serial = link.map_or(Nanos::ZERO, |link| machine.times(link).times.user);
    let mut measures = measures(setup, &mut machine, memcg, start, serial);
    measures.push(series::measure(&samples));
    Ok(Run {
        measures,
        series: series::series(&samples, setup.config, setup.scale),
    })
}

/// Counters that every build shows.
const COUNTERS: &[(&str, Counter)] = &[
    ("zswpwb", Counter::Zswpwb),
    ("zswpin", Counter::Zswpin),
    ("zswpout", Counter::Zswpout),
    ("pswpout", Counter::Pswpout),
    ("workingset_refault_anon", Counter::WorkingsetRefaultAnon),
    ("workingset_refault_file", Counter::WorkingsetRefaultFile),
    ("workingset_activate_anon", Counter::WorkingsetActivateAnon),
    ("workingset_activate_file", Counter::WorkingsetActivateFile),
    ("workingset_restore_anon", Counter::WorkingsetRestoreAnon),
    ("workingset_restore_file", Counter::WorkingsetRestoreFile),
    ("pgrotated", Counter::Pgrotated),
    ("slabs_scanned", Counter::SlabsScanned),
    ("swap_ra", Counter::SwapRa),
    ("swap_ra_hit", Counter::SwapRaHit),
];

fn measures(
    setup: &Setup<'_>,
    machine: &mut Machine,
    memcg: MemcgId,
    start: Nanos,
    serial: Nanos,
) -> Vec<Measure> {
    let whole = |value: u64| value as f64 / setup.scale;
    let seconds = |span: Nanos| span.0 as f64 / 1e9;
    let total = machine.total();
    // The serial part has its own time whole.
    let user = seconds(total.user.saturating_sub(serial)) / setup.scale + seconds(serial);
    let real = machine.now().saturating_sub(start);
    let kills = machine.kills();
    let counters = machine.kernel().vmstat(memcg).clone();
    let pages = |metric, value| Measure {
        metric,
        unit: "pages",
        value: whole(value),
    };
    let time = |metric, value| Measure {
        metric,
        unit: "s",
        value,
    };
    let mut measures = vec![
        pages("swapins", counters[Counter::Pswpin]),
        time("real_seconds", seconds(real)),
        time("user_seconds", user),
        time("sys_seconds", seconds(total.system) / setup.scale),
        time("stall_seconds", seconds(total.stalled) / setup.scale),
        pages("pgscan", counters.pgscan()),
    ];
    measures.extend(
        COUNTERS
            .iter()
            .map(|&(name, counter)| pages(name, counters[counter])),
    );
    measures.extend(over_time(&machine.kernel().gauges(), setup.scale));
    measures.push(Measure {
        metric: "oom_kills",
        unit: "tasks",
        value: whole(kills),
    });
    measures
}

/// What was gauged over the time of a run.
fn over_time(gauges: &GaugeMeans, scale: f64) -> [Measure; 7] {
    let of = |metric, unit, value| Measure {
        metric,
        unit,
        value,
    };
    [
        of("pool_pages", "pages", gauges.pool / scale),
        of("nr_deferred", "objects", gauges.deferred / scale),
        of(
            "nr_deferred_max",
            "objects",
            gauges.most_deferred as f64 / scale,
        ),
        of("shrinkers", "at once", gauges.shrinkers),
        of("shrinkers_max", "at once", gauges.most_shrinkers as f64),
        of("feedback_seconds", "s", gauges.feedback),
        of("swapins_counted", "pages/s", gauges.counted / scale),
    ]
}

/// All the parameters of several lists; `N` is how many.
pub(super) const fn joined<const N: usize>(lists: &[&[Parameter]]) -> [Parameter; N] {
    let mut all = [CPUS; N];
    let (mut list, mut count) = (0, 0);
    while list < lists.len() {
        let mut at = 0;
        while at < lists[list].len() {
            all[count] = lists[list][at];
            (at, count) = (at + 1, count + 1);
        }
        list += 1;
    }
    assert!(count == N);
    all
}

pub(super) const LIMIT: Parameter =
    Parameter::posted("limit", "2048", "MiB", &S0, "memory.max set to 2G");
pub(super) const USER: Parameter = Parameter::posted("user", "4318", "s", &S0, "user: 4318.11s");
pub(super) const CPUS: Parameter =
    Parameter::posted("cpus", "36", "CPUs", &S0, "on a host with 36 cores");
pub(super) const JOBS: Parameter = Parameter::chosen(
    "jobs",
    "36",
    "jobs",
    "not stated; one for each CPU",
    &["18", "36", "72"],
);
const SWAP: Parameter = Parameter::chosen(
    "swap",
    "51200",
    "MiB",
    "not stated; never full",
    &["25600", "102400"],
);
pub(super) const UNITS: Parameter = Parameter::chosen(
    "units",
    "2900",
    "compile units",
    "not stated; about what a default x86 configuration has",
    &["1450", "2900", "5800"],
);
const PREPARE: Parameter = Parameter::chosen(
    "prepare",
    "10",
    "s",
    "not stated; of the serial part, what comes before the first unit",
    &["0", "30"],
);
const LINK_MEMORY: Parameter = Parameter::chosen(
    "link_memory",
    "1536",
    "MiB",
    "not stated; private memory of objtool over vmlinux.o. Half a MiB for each unit: 18 to 25 GB at the peak were \
     reported for about 30,000 units (allyesconfig), 6 GB less since Linux 6.3",
    &["512", "3072"],
);
const SCATTER: Parameter = Parameter::chosen(
    "scatter",
    "0.5",
    "",
    "not stated; share of objtool's touches that follow no order: it goes through instructions in order, and looks \
     up symbols, relocations and targets of jumps in hash tables",
    &["0", "1"],
);
pub(super) const SOURCE: Parameter = Parameter::chosen(
    "source",
    "24",
    "pages",
    "not stated; sources only one unit reads, about 100 KB",
    &["8", "24", "96"],
);
pub(super) const OBJECT: Parameter = Parameter::chosen(
    "object",
    "32",
    "pages",
    "not stated; an object file of about 130 KB",
    &["8", "32", "128"],
);
pub(super) const RAM: Parameter = Parameter::chosen(
    "ram",
    "65536",
    "MiB",
    "not stated; far more than the limit, so that zswap's pool limit is never met",
    &["16384", "65536"],
);
const LATENCY: Parameter = Parameter::chosen(
    "swap_latency",
    "100",
    "us",
    "not stated; an SSD's random read",
    &["20", "100", "500"],
);
pub(super) const CLUSTER: Parameter = Parameter::chosen(
    "page_cluster",
    "3",
    "",
    "not stated; the kernel's default",
    &["0", "3"],
);
pub(super) const COMPRESSOR: Parameter = Parameter::word(
    "compressor",
    "fixed",
    "not stated. fixed: each page to a quarter, in 5 us; otherwise sizes and times are those of the pages of a \
     real cc1, and lz4 is the nearest of them to lzo, the kernel's default",
    &["fixed", "lz4", "zstd:1", "deflate:1"],
);
pub(super) const FILES: &[&str] = &["disk", "tmpfs"];
/// What every build of S0's machine has behind those that differ.
pub(super) const REST: &[Parameter] = &[
    SOURCE,
    OBJECT,
    PREPARE,
    LINK_MEMORY,
    SCATTER,
    Parameter::word("files", "disk", "not stated", FILES),
    RAM,
    SWAP,
    LATENCY,
    CLUSTER,
];

pub(super) const fn reported(metric: &'static str, config: &'static str, value: f64) -> Reported {
    Reported {
        metric,
        config,
        value,
    }
}

pub(super) const fn effect(
    name: &'static str,
    metric: &'static str,
    config: &'static str,
    base: &'static str,
) -> Effect {
    Effect {
        name,
        metric,
        config,
        base,
    }
}
