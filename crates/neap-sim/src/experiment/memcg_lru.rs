//! `memcg-lru` (S2) and `memcg-lru-6.12`, the same question measured on a real kernel.

use neap_policy::{Lru, MemcgWalk, ReclaimBatching, Switches};
use neap_units::{Bytes, Nanos};

use super::build::effect;
use super::cost::costs;
use super::fairness::{Fairness, seconds, slower, swap, whole};
use super::hints::{ORDER, order};
use super::mail::MEMCG_LRU as MAIL;
use super::{ANY_SCALE, Effect, Experiment, ExperimentFault, Parameter, Reported, Run, Setup};
use crate::kernel::KernelConfig;
use crate::swap::DeviceConfig;

/// Where memory lies: the mail does not say on how many nodes, so that each number of them is a row of its own.
macro_rules! on_nodes {
    ($($nodes:literal)+) => {
        (
            &[$(concat!("mglru-off/", $nodes), concat!("memcg-lru/", $nodes)),+],
            &[$(
                posted("pgsteal_stddev_over_mean", concat!("mglru-off/", $nodes), 0.75),
                posted("pgsteal_stddev_over_mean", concat!("memcg-lru/", $nodes), 0.20),
                posted("pgsteal_sum_over_requested", concat!("mglru-off/", $nodes), 4.25),
                posted("pgsteal_sum_over_requested", concat!("memcg-lru/", $nodes), 0.95),
            )+],
            &[$(
                effect(
                    "stddev_change",
                    "pgsteal_stddev_over_mean",
                    concat!("memcg-lru/", $nodes),
                    concat!("mglru-off/", $nodes),
                ),
                effect(
                    "sum_change",
                    "pgsteal_sum_over_requested",
                    concat!("memcg-lru/", $nodes),
                    concat!("mglru-off/", $nodes),
                ),
            )+],
        )
    };
}

const fn posted(metric: &'static str, config: &'static str, value: f64) -> Reported {
    Reported {
        metric,
        config,
        value,
    }
}

const ON_NODES: (&[&str], &[Reported], &[Effect]) = on_nodes!("1-node" "2-nodes" "4-nodes");

/// What a configuration's name says: whether there are generations, and on how many nodes.
fn meaning(config: &str) -> (bool, u32) {
    let (lru, nodes) = config.split_once('/').unwrap_or((config, "1"));
    let digits = nodes.trim_end_matches(|c: char| !c.is_ascii_digit());
    (lru == "memcg-lru", digits.parse().unwrap_or(1))
}

fn memcg_lru(setup: &Setup<'_>) -> Result<Run, ExperimentFault> {
    let (generations, nodes) = meaning(setup.config);
    let switches = Switches {
        lru: if generations {
            Lru::Mglru63
        } else {
            Lru::Classic
        },
        memcg_walk: match generations {
            true => MemcgWalk::MemcgLru63,
            false => MemcgWalk::FullLinear,
        },
        reclaim_batching: ReclaimBatching::Whole,
        ..Switches::of_kernel((6, 3), generations)
    };
    let mib = |key| Bytes((setup.number(key) * setup.scale * 1048576.0) as u64);
    let pages = mib("memory").whole_pages().0.max(256);
    let groups = whole(setup.number("cgroups"));
    let device = DeviceConfig::named(setup.word("device"));
    let test = Fairness {
        kernel: KernelConfig {
            ram: mib("ram"),
            nodes,
            cpus: whole(setup.number("cpus")) as u32,
            switches,
            swap: swap(mib("ram")),
            swap_device: device.map(|device| device.slower(1.0 / setup.scale)),
            costs: slower(costs(setup), 1.0 / setup.scale),
            seed: setup.seed,
            ..KernelConfig::default()
        },
        sizes: vec![pages; groups as usize],
        share: None,
        pattern: order(setup),
        rate: (setup.number("read_rate") + setup.number("write_rate")) * 256.0 * setup.scale,
        period: Nanos::millis(whole(setup.number("burst"))),
        warm_up: seconds(setup.number("warm_up")),
        order: 0,
        request: mib("request"),
        before: 0,
        writes: whole(setup.number("writes")),
        pause: seconds(setup.number("pause")),
    };
    Ok(test.run().measures().into())
}

/// The fairness test of the memcg LRU's cover letter.
pub(super) const MEMCG_LRU: Experiment = Experiment {
    name: "memcg-lru",
    title: "who pays for root memory.reclaim: 128 cgroups touched at random",
    source: "S2",
    mails: &[&MAIL],
    configs: ON_NODES.0,
    parameters: &[
        Parameter::posted("cgroups", "128", "cgroups", &MAIL, "MEMCGS=128"),
        Parameter::posted("memory", "1920", "MiB", &MAIL, "--size=1920M"),
        Parameter::posted("read_rate", "64", "MiB/s", &MAIL, "--rate=64m,64m"),
        Parameter::posted("write_rate", "64", "MiB/s", &MAIL, "--rate=64m,64m"),
        Parameter::posted(
            "writes",
            "600",
            "writes",
            &MAIL,
            "for ((i = 0; i < 600; i++))",
        ),
        Parameter::posted(
            "request",
            "256",
            "MiB",
            &MAIL,
            "echo 256m >/sys/fs/cgroup/memory.reclaim",
        ),
        Parameter::posted("pause", "6", "s", &MAIL, "sleep 6"),
        Parameter::posted("warm_up", "600", "s", &MAIL, "sleep 600"),
        Parameter::posted("ram", "524288", "MiB", &MAIL, "512GB DRAM"),
        ORDER,
        Parameter::derived(
            "cpus",
            "128",
            "CPUs",
            "the mail has an EPYC 7B13: 64 cores of two threads",
        ),
        Parameter::word(
            "device",
            "ram",
            "not stated; in memory, as the RAM disks of the series' other tests; all three were tried",
            &["ram", "nvme", "ssd"],
        ),
        Parameter::chosen(
            "burst",
            "50",
            "ms",
            "how evenly fio spreads its rate",
            &["10", "50", "200"],
        ),
    ],
    reported: ON_NODES.1,
    effects: ON_NODES.2,
    headline: &["pgsteal_stddev_over_mean", "pgsteal_sum_over_requested"],
    scale: 1.0 / 64.0,
    scales: ANY_SCALE,
    seconds: 273,
    notes: &[
        "Scale divides memory, rates, requests, and the speed of the device and of the kernel alike: the \
         share of pages touched between two writes stays, and while a pass lasts, and how long a job \
         waits for a page; batches of the kernel (32, 64 pages) do not scale.",
        "The mail does not say over how many nodes memory was spread. With several, a cgroup's memory lies where its job \
         ran, each node is asked on its own, and the writer goes on on the node with most idle CPUs.",
    ],
    run: memcg_lru,
};

fn memcg_lru_6_12(setup: &Setup<'_>) -> Result<Run, ExperimentFault> {
    Ok(Fairness::of(setup, (6, 12)).run().measures().into())
}

const MEASURED: &str = "set up on the Linux 6.12 that was measured";

/// Mean of the two runs measured for each LRU.
const fn measured(metric: &'static str, config: &'static str, value: f64) -> Reported {
    Reported {
        metric,
        config,
        value,
    }
}

/// The fairness test measured on a real 6.12 kernel.
pub(super) const MEMCG_LRU_6_12: Experiment = Experiment {
    name: "memcg-lru-6.12",
    title: "the same question measured on Linux 6.12: 64 cgroups, a RAM disk as swap",
    source: "a real kernel",
    mails: &[],
    configs: &["classic", "memcg-lru"],
    parameters: &[
        Parameter::measured("cgroups", "64", "cgroups", MEASURED),
        Parameter::measured("memory", "16", "MiB", MEASURED),
        Parameter::measured("rate", "1360", "touches/s", MEASURED),
        Parameter::measured("burst", "50", "ms", MEASURED),
        Parameter::measured("warm_up", "20", "s", MEASURED),
        Parameter::measured("writes", "60", "writes", MEASURED),
        Parameter::measured("request", "8", "MiB", MEASURED),
        Parameter::measured("pause", "1", "s", MEASURED),
        Parameter::measured("ram", "2600", "MiB", MEASURED),
        Parameter::measured("swap", "683", "MiB", MEASURED),
        Parameter::measured("page_cluster", "3", "", MEASURED),
        Parameter::measured("cpus", "2", "CPUs", MEASURED),
        Parameter::chosen(
            "slow",
            "10",
            "times",
            "the measured machine was emulated; how much slower than a server its kernel is",
            &["1", "10", "20"],
        ),
    ],
    reported: &[
        measured("pgsteal_stddev_over_mean", "classic", 0.878),
        measured("pgsteal_stddev_over_mean", "memcg-lru", 0.288),
        measured("pgsteal_sum_over_requested", "classic", 1.006),
        measured("pgsteal_sum_over_requested", "memcg-lru", 1.010),
        measured("pgscan_over_pgsteal", "classic", 17.285),
        measured("pgscan_over_pgsteal", "memcg-lru", 3.40),
        measured("workingset_refault_anon", "classic", 122_100.0),
        measured("workingset_refault_anon", "memcg-lru", 123_467.0),
        measured("eagain", "classic", 0.0),
        measured("eagain", "memcg-lru", 0.0),
    ],
    effects: &[effect(
        "stddev_change",
        "pgsteal_stddev_over_mean",
        "memcg-lru",
        "classic",
    )],
    headline: &[
        "pgsteal_stddev_over_mean",
        "pgsteal_sum_over_requested",
        "pgscan_over_pgsteal",
        "workingset_refault_anon",
    ],
    scale: 1.0,
    scales: ANY_SCALE,
    seconds: 1,
    notes: &["Scale changes the number of cgroups and the size of a request, nothing else."],
    run: memcg_lru_6_12,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_which_lru_and_how_many_nodes() {
        let all: Vec<_> = MEMCG_LRU.configs.iter().map(|name| meaning(name)).collect();
        let both = |nodes| [(false, nodes), (true, nodes)];
        assert_eq!(all, [both(1), both(2), both(4)].concat());
        assert_eq!(MEMCG_LRU.reported.len(), 4 * 3);
    }
}
