//! Questions about zswap that the reports left open (SPEC 9.4 to 9.6): `full-pool` and `ratio-scope`. Nobody reported a
//! number for them, and the machines are ours.

use neap_policy::{Counter, FullPool, PoolWorkerVersion, RatioScope, Switches};
use neap_units::{Bytes, Nanos, Pages};

use super::build::{effect, pages_of};
use super::cost::costs;
use super::mail::{DISK_SWAPINS, SECOND_CHANCE};
use super::{ANY_SCALE, Effect, Experiment, ExperimentFault, Measure, Parameter, Run, Setup};
use crate::clock::{Clockwork, Machine};
use crate::compress::PageModel;
use crate::kernel::{Area, KernelConfig, Limits, MemcgId, SwapConfig, ZswapConfig};
use crate::workload::{Load, Pattern, Walker};

/// Simulated time after which the tasks are given up.
const PATIENCE: Nanos = Nanos(6 * 3_600_000_000_000);

fn bytes(setup: &Setup<'_>, key: &str) -> Bytes {
    Bytes((setup.number(key) * setup.scale * 1048576.0) as u64)
}

/// Runs tasks that touch memory of one cgroup, one for each content, until all are over.
fn run(setup: &Setup<'_>, config: &KernelConfig, contents: &[u32]) -> Result<Run, ExperimentFault> {
    let mut machine = Machine::new(config, Clockwork::default());
    let memcg = machine.kernel().create_memcg(MemcgId::ROOT, "job");
    if setup.values.has("limit") {
        let max = Some(bytes(setup, "limit").whole_pages());
        let limits = Limits {
            max,
            ..Limits::default()
        };
        machine.kernel().set_limits(memcg, limits);
    }
    let pages = bytes(setup, "memory").whole_pages().0.max(64);
    for &content in contents {
        let area = Area {
            content,
            ..Area::anon(Pages(pages))
        };
        let load = Load {
            populate: true,
            touches: (setup.number("touches") * setup.scale * 1000.0) as u64,
            ..Load::new(
                memcg,
                area,
                Walker::new(Pattern::Zipf(setup.number("exponent")), pages),
            )
        };
        machine.spawn(load.program(), Nanos::ZERO, true);
    }
    if !machine.finish(PATIENCE) {
        return Err(ExperimentFault::Endless {
            config: setup.config,
            seed: setup.seed,
            hours: 6,
            advice: "give it fewer touches",
        });
    }
    Ok(measures(setup, &mut machine, memcg).into())
}

fn measures(setup: &Setup<'_>, machine: &mut Machine, memcg: MemcgId) -> Vec<Measure> {
    let seconds = machine.now().0 as f64 / 1e9;
    let counters = machine.kernel().vmstat(memcg).clone();
    let pool = machine.kernel().gauges().pool;
    let pages = |metric, value: f64| Measure {
        metric,
        unit: "pages",
        value: value / setup.scale,
    };
    let count = |counter| counters[counter] as f64;
    let past = counters[Counter::Pswpout].saturating_sub(counters[Counter::Zswpwb]);
    vec![
        pages("swapins", count(Counter::Pswpin)),
        pages("zswpwb", count(Counter::Zswpwb)),
        pages("past_the_pool", past as f64),
        pages("zswpin", count(Counter::Zswpin)),
        pages("zswpout", count(Counter::Zswpout)),
        pages("pool_pages", pool),
        Measure {
            metric: "real_seconds",
            unit: "s",
            value: seconds,
        },
    ]
}

fn swap(setup: &Setup<'_>) -> Option<SwapConfig> {
    Some(SwapConfig {
        size: bytes(setup, "memory") * 16,
        latency: Nanos::micros(setup.number("swap_latency") as u64),
        synchronous: false,
    })
}

/// What a configuration of `full-pool` changes of Linux 6.12.
fn worker(config: &str) -> Switches {
    let (pool_worker, full_pool) = match config {
        "w-latest" => (PoolWorkerVersion::WLatest, FullPool::Refuse),
        "age-free" => (PoolWorkerVersion::AgeFree, FullPool::Refuse),
        "trade" => (PoolWorkerVersion::W612, FullPool::Trade),
        "age-free+trade" => (PoolWorkerVersion::AgeFree, FullPool::Trade),
        _ => (PoolWorkerVersion::W612, FullPool::Refuse),
    };
    Switches {
        pool_worker,
        full_pool,
        ..Switches::of_kernel((6, 12), false)
    }
}

fn full_pool(setup: &Setup<'_>) -> Result<Run, ExperimentFault> {
    let config = KernelConfig {
        ram: bytes(setup, "ram"),
        cpus: setup.number("jobs") as u32,
        switches: worker(setup.config),
        swap: swap(setup),
        zswap: Some(ZswapConfig {
            max_pool_percent: setup.number("pool") as u8,
            accept_threshold_percent: 90,
            shrinker: setup.word("shrinker") == "on",
        }),
        contents: vec![pages_of(setup.word("compressor"))],
        costs: costs(setup),
        seed: setup.seed,
        ..KernelConfig::default()
    };
    let contents: Vec<u32> = (1..=setup.number("jobs") as u32).collect();
    run(setup, &config, &contents)
}

const EXPONENT: Parameter = Parameter::chosen(
    "exponent",
    "0.8",
    "",
    "how unevenly memory is used",
    &["0.5", "0.8", "1.0"],
);
const TOUCHES: Parameter = Parameter::chosen(
    "touches",
    "4000",
    "thousand touches",
    "of each task, after it has written all its memory once",
    &["2000", "8000"],
);
const LATENCY: Parameter = Parameter::chosen(
    "swap_latency",
    "100",
    "us",
    "an SSD's random read",
    &["20", "100", "500"],
);
const MEMORY: Parameter = Parameter::chosen(
    "memory",
    "512",
    "MiB",
    "of each task",
    &["384", "512", "768"],
);

const fn changes<const N: usize>(
    configs: [&'static str; N],
    base: &'static str,
) -> [[Effect; 3]; N] {
    let mut all = [[effect("", "", "", ""); 3]; N];
    let mut at = 0;
    while at < N {
        let of = configs[at];
        all[at] = [
            effect("swapins_change", "swapins", of, base),
            effect("zswpwb_change", "zswpwb", of, base),
            effect("real_change", "real_seconds", of, base),
        ];
        at += 1;
    }
    all
}

/// A pool that is full: who makes room, and where the newest page goes.
pub(super) const FULL_POOL: Experiment = Experiment {
    name: "full-pool",
    title: "a full pool: second chances end the worker or not, and the newest page is refused or traded for the oldest",
    source: "SPEC 9.4, 9.5",
    mails: &[&SECOND_CHANCE],
    configs: &["w612", "w-latest", "age-free", "trade", "age-free+trade"],
    parameters: &[
        Parameter::chosen(
            "ram",
            "1024",
            "MiB",
            "half of what the tasks have, so that the pool is what decides",
            &["768", "1024", "1536"],
        ),
        MEMORY,
        Parameter::chosen("jobs", "4", "tasks", "one for each CPU", &["2", "4", "8"]),
        Parameter::chosen(
            "pool",
            "10",
            "% of memory",
            "max_pool_percent; half of the kernel's default, so that it is met",
            &["5", "10", "20"],
        ),
        Parameter::word(
            "shrinker",
            "off",
            "the kernel's default, with which only the worker writes back",
            &["off", "on"],
        ),
        Parameter::word(
            "compressor",
            "lz4",
            "fixed: each page to a quarter; otherwise as the pages of a real cc1",
            &["fixed", "lz4", "zstd:1", "deflate:1"],
        ),
        EXPONENT,
        TOUCHES,
        LATENCY,
    ],
    reported: &[],
    effects: changes(["w-latest", "age-free", "trade", "age-free+trade"], "w612").as_flattened(),
    headline: &["swapins", "past_the_pool", "real_seconds"],
    scale: 1.0 / 16.0,
    scales: ANY_SCALE,
    seconds: 3,
    notes: &[
        "Nobody reported a number for this: the question is of the description's open ones, the remedy and the machine are ours.",
        "past_the_pool: pages that the full pool refused, which went to the device while older ones stayed.",
    ],
    run: full_pool,
};

/// Bytes of a page of each of the two tasks.
const SIZES: [u16; 2] = [820, 2730];

fn ratio_scope(setup: &Setup<'_>) -> Result<Run, ExperimentFault> {
    let ratio_scope = match setup.config {
        "node" => RatioScope::Node,
        _ => RatioScope::Cgroup,
    };
    let page = |size| PageModel::fixed(size, Nanos(5_000), Nanos(2_000));
    let config = KernelConfig {
        ram: bytes(setup, "ram"),
        nodes: 2,
        cpus: 2,
        switches: Switches {
            ratio_scope,
            ..Switches::of_kernel((6, 12), false)
        },
        swap: swap(setup),
        zswap: Some(ZswapConfig {
            max_pool_percent: 50,
            accept_threshold_percent: 90,
            shrinker: true,
        }),
        contents: SIZES.map(page).to_vec(),
        costs: costs(setup),
        seed: setup.seed,
        ..KernelConfig::default()
    };
    // The high eight bits choose what pages hold.
    run(setup, &config, &[1, 1 << 24])
}

/// Two nodes whose pages compress otherwise, in one cgroup.
pub(super) const RATIO_SCOPE: Experiment = Experiment {
    name: "ratio-scope",
    title: "the shrinker's ratio of compression is the cgroup's, or that of the node whose list it shrinks",
    source: "SPEC 9.6",
    mails: &[&DISK_SWAPINS],
    configs: &["cgroup", "node"],
    parameters: &[
        Parameter::chosen(
            "ram",
            "4096",
            "MiB",
            "far more than the limit",
            &["2048", "4096"],
        ),
        Parameter::chosen(
            "limit",
            "640",
            "MiB",
            "less than the tasks have, and more than their hot pages",
            &["512", "640", "768"],
        ),
        MEMORY,
        EXPONENT,
        TOUCHES,
        LATENCY,
    ],
    reported: &[],
    effects: changes(["node"], "cgroup").as_flattened(),
    headline: &["swapins", "zswpwb", "pool_pages", "real_seconds"],
    scale: 1.0 / 16.0,
    scales: ANY_SCALE,
    seconds: 1,
    notes: &[
        "Nobody reported a number for this: the question is of the description's open ones, the remedy and the machine are ours.",
        "Two tasks on two CPUs of two nodes: the pages of one compress to 820 bytes, those of the other to 2,730.",
    ],
    run: ratio_scope,
};

#[cfg(test)]
mod tests {
    use super::super::{Options, run as run_experiment};
    use super::*;

    fn medians(experiment: &'static Experiment, metric: &str) -> Vec<f64> {
        let options = Options {
            seeds: 1,
            scale: Some(1.0 / 64.0),
            threads: 1,
            ..Options::default()
        };
        let outcome = run_experiment(experiment, &options, &|_, _| {}).unwrap();
        let row = |config: &&str| outcome.row(metric, config).unwrap().simulated;
        experiment.configs.iter().map(row).collect()
    }

    /// Each switch acts on its experiment's machine, or the experiment would show nothing.
    #[test]
    fn a_trade_lets_nothing_past_a_full_pool() {
        let found = medians(&FULL_POOL, "past_the_pool");
        let [refused, _, _, traded, both] = found[..] else {
            panic!("{found:?}");
        };
        assert!(
            refused > 0.0 && traded < refused / 4.0 && both < refused / 4.0,
            "{found:?}"
        );
    }

    #[test]
    fn each_rule_of_an_open_question_makes_a_difference() {
        for experiment in [&FULL_POOL, &RATIO_SCOPE] {
            let mut found = medians(experiment, "zswpwb");
            assert!(found.iter().all(|written| *written > 0.0), "{found:?}");
            found.dedup();
            assert_eq!(found.len(), experiment.configs.len(), "{}", experiment.name);
        }
    }
}
