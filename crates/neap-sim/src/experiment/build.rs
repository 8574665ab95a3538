//! Kernel builds in a memory cgroup: `second-chance`, `cold-data` (S0, S3) and `writeback-rotation` (S4).
//!
//! The compiler's page-level behaviour is a recorded gcc (see `workload::compile`). Everything that
//! grows with the machine is divided by the scale before it is shown, so that numbers of any scale
//! stand beside the reported ones.

use std::sync::Arc;

use neap_policy::{Counter, Rotate, ShrinkerScheme, SwapinCount, Switches};
use neap_units::{Bytes, Nanos, Pages};

use super::{Effect, Experiment, ExperimentFault, Measure, Parameter, Reported, Setup};
use crate::clock::{Clockwork, Machine};
use crate::kernel::{Area, KernelConfig, Limits, MemcgId, SwapConfig, ZswapConfig};
use crate::trace::Trace;
use crate::workload::{Build, BuildShape, Compiler, Load, Pattern, Walker};

/// The recorded compiler: gcc 12.2 -O2 on one C file of 11,000 preprocessed lines.
const CC1: &[u8] = include_bytes!("../../data/cc1.neaptrc");

/// Simulated hours after which a build is given up.
const PATIENCE: u64 = 6;

fn compiler() -> Arc<Trace> {
    // The file is part of the program; a test decodes it.
    Arc::new(Trace::decode(CC1).unwrap_or_default())
}

fn scaled_bytes(setup: &Setup<'_>, key: &str) -> Bytes {
    Bytes((setup.number(key) * setup.scale * 1048576.0) as u64)
}

fn kernel(setup: &Setup<'_>, switches: Switches) -> KernelConfig {
    KernelConfig {
        ram: scaled_bytes(setup, "ram"),
        cpus: setup.scaled("cpus", 1) as u32,
        switches,
        page_cluster: setup.number("page_cluster") as u32,
        swap: Some(SwapConfig {
            size: scaled_bytes(setup, "swap"),
            latency: Nanos::micros(setup.number("swap_latency") as u64),
            synchronous: false,
        }),
        zswap: Some(ZswapConfig {
            max_pool_percent: 20,
            accept_threshold_percent: 90,
            shrinker: true,
        }),
        seed: setup.seed,
        ..KernelConfig::default()
    }
}

/// One build; with `cold` pages of shared memory written before it.
fn build(
    setup: &Setup<'_>,
    switches: Switches,
    cold: u64,
) -> Result<Vec<Measure>, ExperimentFault> {
    let mut machine = Machine::new(&kernel(setup, switches), Clockwork::default());
    let trace = compiler();
    let kernel = machine.kernel();
    let memcg = kernel.create_memcg(MemcgId::ROOT, "build");
    let limits = Limits {
        max: Some(scaled_bytes(setup, "limit").whole_pages()),
        ..Limits::default()
    };
    kernel.set_limits(memcg, limits);
    let units = setup.scaled("units", 1);
    let work =
        setup.number("user") * 1e9 / setup.number("units") / trace.duration().0.max(1) as f64;
    let shape = BuildShape {
        units,
        work: (work * 0.5, work * 1.5),
        memory: (1, setup.number("memory") as u32),
        source: setup.number("source") as u64,
        object: setup.number("object") as u64,
        tmpfs: setup.word("files") == "tmpfs",
        spawn: Nanos::millis(1),
    };
    let compiler = Compiler::new(trace, kernel);
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
    let queue = machine.shared().make(units);
    let build = Build::new(shape, memcg, compiler, queue, machine.kernel());
    for _ in 0..setup.scaled("jobs", 1) {
        machine.spawn(build.job(), start, true);
    }
    if !machine.finish(Nanos(PATIENCE * 3_600_000_000_000)) {
        return Err(ExperimentFault::Endless {
            config: setup.config,
            seed: setup.seed,
            hours: PATIENCE,
            advice: "give it a larger limit, or fewer jobs",
        });
    }
    Ok(measures(setup, &mut machine, memcg, start))
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
    ("swap_ra", Counter::SwapRa),
    ("swap_ra_hit", Counter::SwapRaHit),
];

fn measures(
    setup: &Setup<'_>,
    machine: &mut Machine,
    memcg: MemcgId,
    start: Nanos,
) -> Vec<Measure> {
    let whole = |value: u64| value as f64 / setup.scale;
    let seconds = |span: Nanos| span.0 as f64 / 1e9;
    let total = machine.total();
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
        time("user_seconds", seconds(total.user) / setup.scale),
        time("sys_seconds", seconds(total.system) / setup.scale),
        time("stall_seconds", seconds(total.stalled) / setup.scale),
        pages("pgscan", counters.pgscan()),
    ];
    measures.extend(
        COUNTERS
            .iter()
            .map(|&(name, counter)| pages(name, counters[counter])),
    );
    measures.push(Measure {
        metric: "oom_kills",
        unit: "tasks",
        value: whole(kills),
    });
    measures
}

/// The kernel of S0 with one configuration's patches.
fn patched(config: &str) -> Switches {
    let (scheme, count) = match config {
        "old" => (ShrinkerScheme::Old, SwapinCount::V69Literal),
        "old+disk-swapins" => (ShrinkerScheme::Old, SwapinCount::DiskReads),
        "second-chance" => (ShrinkerScheme::SecondChance, SwapinCount::V69Literal),
        _ => (ShrinkerScheme::SecondChance, SwapinCount::DiskReads),
    };
    Switches {
        shrinker_scheme: scheme,
        swapin_count: count,
        ..Switches::of_kernel((6, 11), false)
    }
}

const UNITS: Parameter = Parameter::chosen(
    "units",
    "2900",
    "compile units",
    "not stated; about what a default x86 configuration has",
    &["1450", "2900", "5800"],
);
const MEMORY: Parameter = Parameter::chosen(
    "memory",
    "3",
    "times the recorded compiler",
    "not stated; private memory of a unit is 1 to so many times the recorded one, all alike probable",
    &["2", "3", "4"],
);
const SOURCE: Parameter = Parameter::chosen(
    "source",
    "24",
    "pages",
    "not stated; sources only one unit reads, about 100 KB",
    &["8", "24", "96"],
);
const OBJECT: Parameter = Parameter::chosen(
    "object",
    "32",
    "pages",
    "not stated; an object file of about 130 KB",
    &["8", "32", "128"],
);
const RAM: Parameter = Parameter::chosen(
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
const CLUSTER: Parameter = Parameter::chosen(
    "page_cluster",
    "3",
    "",
    "not stated; the kernel's default",
    &["0", "3"],
);
const FILES: &[&str] = &["disk", "tmpfs"];

const S0_PARAMETERS: &[Parameter] = &[
    Parameter::seed("limit", "2048", "MiB", "S0: memory.max"),
    Parameter::seed("cpus", "36", "CPUs", "S0"),
    Parameter::seed("user", "4318", "s", "S0: user time of the build"),
    Parameter::chosen(
        "jobs",
        "36",
        "jobs",
        "not stated; one for each CPU",
        &["18", "36", "72"],
    ),
    UNITS,
    MEMORY,
    SOURCE,
    OBJECT,
    Parameter::word("files", "disk", "not stated", FILES),
    RAM,
    Parameter::chosen("swap", "51200", "MiB", "not stated; never full", &[]),
    LATENCY,
    CLUSTER,
];

const fn reported(metric: &'static str, config: &'static str, value: f64) -> Reported {
    Reported {
        metric,
        config,
        value,
    }
}

const fn effect(
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

const BOTH: &str = "second-chance+disk-swapins";

fn second_chance(setup: &Setup<'_>) -> Result<Vec<Measure>, ExperimentFault> {
    build(setup, patched(setup.config), 0)
}

/// The dynamic shrinker's protection schemes in a kernel build under 2 GB.
pub(super) const SECOND_CHANCE: Experiment = Experiment {
    name: "second-chance",
    title: "zswap shrinker: old protection, second chance, disk swap-ins counted; a build in 2 GB",
    source: "S0/S3",
    configs: &["old", "second-chance", BOTH, "old+disk-swapins"],
    parameters: S0_PARAMETERS,
    reported: &[
        reported("swapins", "old", 227_300.5),
        reported("swapins", "second-chance", 94_663.0),
        reported("swapins", BOTH, 81_552.0),
        reported("real_seconds", "old", 263.89),
        reported("real_seconds", "second-chance", 244.85),
        reported("real_seconds", BOTH, 236.66),
        reported("user_seconds", "old", 4318.11),
        reported("user_seconds", "second-chance", 4327.22),
        reported("user_seconds", BOTH, 4286.06),
        reported("sys_seconds", "old", 673.29),
        reported("sys_seconds", "second-chance", 664.39),
        reported("sys_seconds", BOTH, 652.86),
    ],
    effects: &[
        effect("swapins_change", "swapins", "second-chance", "old"),
        effect("swapins_change", "swapins", BOTH, "old"),
        effect("swapins_change", "swapins", "old+disk-swapins", "old"),
        effect("real_change", "real_seconds", "second-chance", "old"),
        effect("real_change", "real_seconds", BOTH, "old"),
        effect("sys_change", "sys_seconds", "second-chance", "old"),
        effect("sys_change", "sys_seconds", BOTH, "old"),
    ],
    headline: &["swapins", "real_seconds", "sys_seconds"],
    scale: 0.25,
    notes: &[
        "Scale divides CPUs, jobs, units and memory; pages and CPU times shown are divided by it.",
        "No link step and no serial part of make: real time is that of the compile jobs alone.",
    ],
    run: second_chance,
};

fn cold_data(setup: &Setup<'_>) -> Result<Vec<Measure>, ExperimentFault> {
    let cold = scaled_bytes(setup, "cold").whole_pages().0;
    build(setup, patched(setup.config), cold)
}

const COLD_PARAMETERS: &[Parameter] = &[
    Parameter::seed("limit", "3072", "MiB", "S0: memory.max"),
    Parameter::seed(
        "cold",
        "512",
        "MiB",
        "S0: in a shmem file before each build",
    ),
    Parameter::seed("cpus", "36", "CPUs", "S0"),
    Parameter::seed("user", "4365", "s", "S0: user time of the build"),
    Parameter::chosen(
        "jobs",
        "36",
        "jobs",
        "not stated; one for each CPU",
        &["18", "36", "72"],
    ),
    UNITS,
    MEMORY,
    SOURCE,
    OBJECT,
    Parameter::word("files", "disk", "not stated", FILES),
    RAM,
    Parameter::chosen("swap", "51200", "MiB", "not stated; never full", &[]),
    LATENCY,
    CLUSTER,
];

/// The same with cold data that should go to disk.
pub(super) const COLD_DATA: Experiment = Experiment {
    name: "cold-data",
    title: "the same build in 3 GB with 0.5 GB of cold data: what should be written back is",
    source: "S0/S3",
    configs: &["old", "second-chance", BOTH, "old+disk-swapins"],
    parameters: COLD_PARAMETERS,
    reported: &[
        reported("zswpwb", "old", 72_115.2),
        reported("zswpwb", BOTH, 87_277.8),
        reported("real_seconds", "old", 197.18),
        reported("real_seconds", BOTH, 195.80),
        reported("user_seconds", "old", 4365.08),
        reported("user_seconds", BOTH, 4362.25),
        reported("sys_seconds", "old", 289.02),
        reported("sys_seconds", BOTH, 290.14),
    ],
    effects: &[
        effect("zswpwb_change", "zswpwb", BOTH, "old"),
        effect("zswpwb_change", "zswpwb", "second-chance", "old"),
        effect("zswpwb_change", "zswpwb", "old+disk-swapins", "old"),
        effect("real_change", "real_seconds", BOTH, "old"),
    ],
    headline: &["zswpwb", "real_seconds"],
    scale: 0.25,
    notes: &[
        "Scale divides CPUs, jobs, units and memory; pages and CPU times shown are divided by it.",
        "The rows without a reported number are those the seed documents left out.",
    ],
    run: cold_data,
};

fn rotation(setup: &Setup<'_>) -> Result<Vec<Measure>, ExperimentFault> {
    let base = Switches::of_kernel((6, 12), false);
    let switches = match setup.config {
        "rfc004" => Switches {
            rotate: Rotate::Rfc004,
            ..base
        },
        "add-tail" => Switches {
            rotate: Rotate::AddTail,
            ..base
        },
        "no-refault" => Switches {
            writeback_refault: false,
            ..base
        },
        "rfc004+no-refault" => Switches {
            rotate: Rotate::Rfc004,
            writeback_refault: false,
            ..base
        },
        _ => base,
    };
    build(setup, switches, 0)
}

const S4_PARAMETERS: &[Parameter] = &[
    Parameter::seed("limit", "2048", "MiB", "S4: memory.max"),
    Parameter::seed("user", "1063", "s", "S4: user time of the build"),
    Parameter::seed("swap", "51200", "MiB", "S4: one swap file"),
    Parameter::chosen(
        "cpus",
        "32",
        "CPUs",
        "not stated; 21 were busy on average",
        &["24", "32", "64"],
    ),
    Parameter::chosen(
        "jobs",
        "32",
        "jobs",
        "not stated; one for each CPU",
        &["24", "32", "64"],
    ),
    UNITS,
    MEMORY,
    SOURCE,
    OBJECT,
    Parameter::word("files", "tmpfs", "S4: kernel build in tmpfs", FILES),
    RAM,
    LATENCY,
    CLUSTER,
];

/// Where a folio lands when zswap's write of it ends.
pub(super) const ROTATION: Experiment = Experiment {
    name: "writeback-rotation",
    title: "rotation of zswap write-back folios: mainline, RFC, add-tail, no refault evaluation",
    source: "S4",
    configs: &[
        "mainline",
        "rfc004",
        "add-tail",
        "no-refault",
        "rfc004+no-refault",
    ],
    parameters: S4_PARAMETERS,
    reported: &[
        reported("workingset_refault_anon", "mainline", 2_103_297.0),
        reported("workingset_refault_anon", "rfc004", 1_788_155.8),
        reported("workingset_refault_file", "mainline", 28_638.2),
        reported("workingset_refault_file", "rfc004", 39_249.4),
        reported("workingset_activate_anon", "mainline", 746_134.0),
        reported("workingset_activate_anon", "rfc004", 695_435.4),
        reported("workingset_activate_file", "mainline", 4_344.6),
        reported("workingset_activate_file", "rfc004", 4_255.8),
        reported("workingset_restore_anon", "mainline", 653_163.8),
        reported("workingset_restore_anon", "rfc004", 605_315.6),
        reported("workingset_restore_file", "mainline", 1_079.0),
        reported("workingset_restore_file", "rfc004", 883.0),
        reported("pgscan", "mainline", 12_971_305.6),
        reported("pgscan", "rfc004", 12_730_331.2),
        reported("real_seconds", "mainline", 63.34),
        reported("real_seconds", "rfc004", 62.72),
        reported("user_seconds", "mainline", 1063.2),
        reported("user_seconds", "rfc004", 1060.3),
        reported("sys_seconds", "mainline", 272.04),
        reported("sys_seconds", "rfc004", 256.14),
    ],
    effects: &[
        effect(
            "refault_anon_change",
            "workingset_refault_anon",
            "rfc004",
            "mainline",
        ),
        effect(
            "refault_anon_change",
            "workingset_refault_anon",
            "add-tail",
            "mainline",
        ),
        effect(
            "refault_anon_change",
            "workingset_refault_anon",
            "no-refault",
            "mainline",
        ),
        effect(
            "refault_file_change",
            "workingset_refault_file",
            "rfc004",
            "mainline",
        ),
        effect("sys_change", "sys_seconds", "rfc004", "mainline"),
        effect("sys_change", "sys_seconds", "add-tail", "mainline"),
        effect("sys_change", "sys_seconds", "no-refault", "mainline"),
        effect("pgscan_change", "pgscan", "rfc004", "mainline"),
        effect("pgscan_change", "pgscan", "no-refault", "mainline"),
    ],
    headline: &["workingset_refault_anon", "sys_seconds", "pgscan"],
    scale: 0.25,
    notes: &[
        "Scale divides CPUs, jobs, units and memory; pages and CPU times shown are divided by it.",
        "The reported counters are of the whole build with its link step, which is not simulated.",
    ],
    run: rotation,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recorded_compiler_can_be_read() {
        let trace = Trace::decode(CC1).unwrap();
        assert!(trace.pages() > 5_000 && trace.duration() > Nanos::millis(50));
    }
}
