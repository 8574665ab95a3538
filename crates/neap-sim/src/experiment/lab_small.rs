//! The other machines of `make lab`: `lab-zswap` and `lab-hints`.

use neap_policy::{Counter, Switches};
use neap_units::{Bytes, Nanos, Pages};

use super::build::effect;
use super::cost::costs;
use super::fairness::{slower, swap};
use super::lab::{CLOCK, KERNEL, SET_UP, version};
use super::{Experiment, ExperimentFault, Measure, Parameter, Run, Setup};
use crate::clock::{Clockwork, Machine};
use crate::compress::PageModel;
use crate::kernel::{Advice, Area, KernelConfig, Limits, MemcgId, ZswapConfig};
use crate::swap::DeviceConfig;
use crate::workload::{Burst, Load, Pattern, Walker};

/// Simulated time after which the tasks are given up.
const PATIENCE: Nanos = Nanos(3_600_000_000_000);
/// Bytes that lzo makes of one that does not compress, with zeros behind: on Linux 6.12 an entry was 1,110 bytes of 1,024
/// such, and 2,223 of 2,048.
const LZO: f64 = 1.085;

fn bytes(setup: &Setup<'_>, key: &str) -> Bytes {
    Bytes((setup.number(key) * 1048576.0) as u64)
}

/// A machine with its limited cgroup.
fn machine(setup: &Setup<'_>, config: &KernelConfig) -> (Machine, MemcgId) {
    let mut machine = Machine::new(config, Clockwork::default());
    let memcg = machine.kernel().create_memcg(MemcgId::ROOT, "job");
    let limits = Limits {
        max: Some(bytes(setup, "limit").whole_pages()),
        ..Limits::default()
    };
    machine.kernel().set_limits(memcg, limits);
    (machine, memcg)
}

fn finish(setup: &Setup<'_>, machine: &mut Machine) -> Result<(), ExperimentFault> {
    match machine.finish(PATIENCE) {
        true => Ok(()),
        false => Err(ExperimentFault::Endless {
            config: setup.config,
            seed: setup.seed,
            hours: 1,
            advice: "give it fewer touches",
        }),
    }
}

fn pages(metric: &'static str, value: u64) -> Measure {
    Measure {
        metric,
        unit: "pages",
        value: value as f64,
    }
}

fn zswap(setup: &Setup<'_>) -> Result<Run, ExperimentFault> {
    let size = (setup.number("random") * LZO).min(4096.0) as u16;
    let config = KernelConfig {
        ram: bytes(setup, "ram"),
        cpus: setup.number("cpus") as u32,
        switches: Switches::of_kernel(version(setup), setup.config != "classic"),
        swap: swap(bytes(setup, "swap")),
        swap_device: Some(DeviceConfig::ram()),
        zswap: Some(ZswapConfig {
            max_pool_percent: setup.number("pool") as u8,
            accept_threshold_percent: 90,
            shrinker: true,
        }),
        page_cluster: setup.number("page_cluster") as u32,
        contents: vec![PageModel::fixed(size, Nanos(20_000), Nanos(5_000))],
        costs: slower(costs(setup), setup.number("slow")),
        seed: setup.seed,
        ..KernelConfig::default()
    };
    let (mut machine, memcg) = machine(setup, &config);
    let memory = bytes(setup, "memory").whole_pages();
    for content in 1..=setup.number("jobs") as u32 {
        let area = Area {
            content,
            folio_order: if setup.config == "mglru-64k" { 4 } else { 0 },
            ..Area::anon(memory)
        };
        let pattern = Pattern::Zipf(setup.number("exponent"));
        let load = Load {
            populate: true,
            touches: (setup.number("touches") * 1000.0) as u64,
            hold: Nanos(1_000_000_000),
            ..Load::new(memcg, area, Walker::new(pattern, memory.0))
        };
        machine.spawn(load.program(), Nanos::ZERO, true);
    }
    finish(setup, &mut machine)?;
    Ok(stored(&mut machine, memcg).into())
}

fn stored(machine: &mut Machine, memcg: MemcgId) -> Vec<Measure> {
    let large = machine.kernel().order_stats(4).unwrap_or_default();
    let counters = machine.kernel().vmstat(memcg).clone();
    let past = counters[Counter::Pswpout].saturating_sub(counters[Counter::Zswpwb]);
    let folios = |metric, value: u64| Measure {
        metric,
        unit: "folios",
        value: value as f64,
    };
    vec![
        pages("swapins", counters[Counter::Pswpin]),
        pages("zswpwb", counters[Counter::Zswpwb]),
        pages("past_the_pool", past),
        pages("zswpin", counters[Counter::Zswpin]),
        pages("zswpout", counters[Counter::Zswpout]),
        pages("pgscan", counters.pgscan()),
        pages("pgsteal", counters.pgsteal()),
        pages(
            "workingset_refault_anon",
            counters[Counter::WorkingsetRefaultAnon],
        ),
        folios("large_zswpout", large.zswpout),
        folios("large_swpout", large.swpout),
    ]
}

/// The shrinker of zswap, and folios of 64 KiB.
pub(super) const ZSWAP: Experiment = Experiment {
    name: "lab-zswap",
    title: "zswap with its shrinker and folios of 64 KiB, on the machine of make lab: compare with --against lab.json",
    source: "a real kernel",
    mails: &[],
    configs: &["classic", "mglru", "mglru-64k"],
    parameters: &[
        KERNEL,
        Parameter::measured("jobs", "2", "tasks", SET_UP),
        Parameter::measured("memory", "96", "MiB", SET_UP),
        Parameter::measured("limit", "96", "MiB", SET_UP),
        Parameter::measured("random", "1024", "bytes", SET_UP),
        Parameter::measured("exponent", "0.8", "", SET_UP),
        Parameter::measured("touches", "200", "thousand touches", SET_UP),
        Parameter::measured("pool", "50", "% of memory", SET_UP),
        Parameter::measured("ram", "768", "MiB", SET_UP),
        Parameter::measured("swap", "512", "MiB", SET_UP),
        Parameter::measured("page_cluster", "0", "", SET_UP),
        Parameter::measured("cpus", "2", "CPUs", SET_UP),
        CLOCK,
    ],
    reported: &[],
    effects: &[effect("zswpwb_change", "zswpwb", "mglru", "classic")],
    headline: &["swapins", "zswpwb", "zswpout", "zswpin"],
    scale: 1.0,
    scales: (1.0, 1.0),
    seconds: 2,
    notes: &["Measured numbers come from make lab: --against FILE shows them beside these."],
    run: zswap,
};

/// What a configuration's name says: whether there are generations, and the hint.
fn meaning(config: &str) -> (bool, Advice) {
    let (lru, hint) = config.split_once('+').unwrap_or((config, ""));
    let advice = match hint {
        "random" => Advice::Random,
        "noreuse" => Advice::NoReuse,
        _ => Advice::Normal,
    };
    (lru == "mglru", advice)
}

fn hints(setup: &Setup<'_>) -> Result<Run, ExperimentFault> {
    let (generations, advice) = meaning(setup.config);
    let config = KernelConfig {
        ram: bytes(setup, "ram"),
        cpus: setup.number("cpus") as u32,
        switches: Switches::of_kernel(version(setup), generations),
        disk: DeviceConfig::ram(),
        costs: slower(costs(setup), setup.number("slow")),
        seed: setup.seed,
        ..KernelConfig::default()
    };
    let (mut machine, memcg) = machine(setup, &config);
    let len = bytes(setup, "file").whole_pages();
    let period = Nanos::millis(setup.number("burst") as u64);
    let burst = setup.number("rate") * period.0 as f64 / 1e9;
    let unevenly = Pattern::Zipf(setup.number("exponent"));
    let mut files = Vec::new();
    for (advice, pattern) in [(advice, Pattern::Random), (Advice::Normal, unevenly)] {
        let file = machine.kernel().create_file(len);
        files.push(file);
        let area = Area {
            advice,
            ..Area::file(file, len)
        };
        let load = Load {
            writes: 0.0,
            burst: Some(Burst {
                touches: burst as u64,
                period,
            }),
            until: Nanos((setup.number("seconds") * 1e9) as u64),
            ..Load::new(memcg, area, Walker::new(pattern, len.0))
        };
        machine.spawn(load.program(), Nanos::ZERO, true);
    }
    finish(setup, &mut machine)?;
    let kernel = machine.kernel();
    let counters = kernel.vmstat(memcg).clone();
    // Nobody maps a file any more: what its removal gives back is what was in memory of it.
    let mut resident = |file| {
        let before = kernel.usage(memcg);
        kernel.remove_file(file);
        kernel.drain();
        Pages(before.0 - kernel.usage(memcg).0)
    };
    let (hinted, other) = (resident(files[0]), resident(files[1]));
    let of = |metric, counter| pages(metric, counters[counter]);
    Ok(Run::from(vec![
        of("workingset_refault_file", Counter::WorkingsetRefaultFile),
        pages("pgsteal", counters.pgsteal()),
        pages("pgscan", counters.pgscan()),
        of("pgactivate", Counter::Pgactivate),
        pages("resident_hinted", hinted.0),
        pages("resident_other", other.0),
    ]))
}

/// Mapped files with hints.
pub(super) const HINTS: Experiment = Experiment {
    name: "lab-hints",
    title: "two mapped files, one with a hint, on the machine of make lab: compare with --against lab.json",
    source: "a real kernel",
    mails: &[],
    configs: &[
        "classic",
        "classic+random",
        "classic+noreuse",
        "mglru",
        "mglru+random",
        "mglru+noreuse",
    ],
    parameters: &[
        KERNEL,
        Parameter::measured("file", "64", "MiB", SET_UP),
        Parameter::measured("limit", "64", "MiB", SET_UP),
        Parameter {
            sweep: &[],
            ..Parameter::derived_word(
                "translations",
                "forgotten",
                "whether the real CPU forgets them after each burst, so that each touch leaves a trace in the page table; a \
                 simulated one keeps none",
                &["forgotten", "kept"],
            )
        },
        Parameter::measured("rate", "40000", "touches/s", SET_UP),
        Parameter::measured("burst", "10", "ms", SET_UP),
        Parameter::measured("seconds", "10", "s", SET_UP),
        Parameter::measured("exponent", "0.8", "", SET_UP),
        Parameter::measured("ram", "768", "MiB", SET_UP),
        Parameter::measured("cpus", "2", "CPUs", SET_UP),
        CLOCK,
    ],
    reported: &[],
    effects: &[
        effect(
            "resident_change",
            "resident_other",
            "classic+random",
            "classic",
        ),
        effect("resident_change", "resident_other", "mglru+random", "mglru"),
        effect(
            "refault_change",
            "workingset_refault_file",
            "classic+noreuse",
            "classic",
        ),
        effect(
            "refault_change",
            "workingset_refault_file",
            "mglru+noreuse",
            "mglru",
        ),
    ],
    headline: &[
        "workingset_refault_file",
        "resident_hinted",
        "resident_other",
    ],
    scale: 1.0,
    scales: (1.0, 1.0),
    seconds: 2,
    notes: &[
        "Measured numbers come from make lab: --against FILE shows them beside these.",
        "The first file is touched at random and has the hint; the second is touched unevenly and has none.",
    ],
    run: hints,
};
