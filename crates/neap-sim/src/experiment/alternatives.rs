//! `memcg-lru-alternatives` and `memcg-walk-cost` (SPEC 8, 9.9): the memcg LRU, partial iteration, heat
//! levels and the full walk on fairness, accuracy and cost together.

use neap_policy::{Counter, Lru, MemcgWalk, ReclaimBatching, Switches};
use neap_units::{Bytes, Nanos};

use super::build::effect;
use super::cost::costs;
use super::fairness::{Fairness, swap};
use super::{ANY_SCALE, Experiment, ExperimentFault, Measure, Parameter, Run, Setup};
use crate::kernel::KernelConfig;
use crate::workload::Pattern;

/// Configuration names: the walk, the number of cgroups, and whether their sizes differ.
macro_rules! configs {
    ($($groups:literal)+) => {
        &[$(
            concat!("full-linear/", $groups),
            concat!("partial-cookie/", $groups),
            concat!("memcg-lru63/", $groups),
            concat!("memcg-lru67/", $groups),
            concat!("heat/", $groups),
        )+]
    };
}

/// A change of one metric by some walks against another, for each number of cgroups.
macro_rules! against {
    ($name:literal $metric:literal: $($walk:literal)+ against $base:literal for $groups:tt) => {
        &[$(against!(@ $name $metric $walk $base $groups)),+].as_flattened()
    };
    (@ $name:literal $metric:literal $walk:literal $base:literal [$($groups:literal)+]) => {
        [$(effect($name, $metric, concat!($walk, "/", $groups), concat!($base, "/", $groups))),+]
    };
}

/// What a configuration's name says: walk, cgroups, unequal.
fn meaning(config: &str) -> (MemcgWalk, u64, bool) {
    let (walk, rest) = config.split_once('/').unwrap_or((config, "64"));
    let (groups, unequal) = match rest.strip_suffix("-unequal") {
        Some(groups) => (groups, true),
        None => (rest, false),
    };
    let walk = walk.parse().unwrap_or(MemcgWalk::MemcgLru67);
    (walk, groups.parse().unwrap_or(64), unequal)
}

/// Pages of each cgroup: equal shares, or so that of any 16 in a row one has half and the others share
/// the rest, with the same total.
fn sizes(total: u64, groups: u64, unequal: bool) -> Vec<u64> {
    let each = total / groups;
    let size = |i: u64| match (unequal, i % 16) {
        (false, _) => each,
        (true, 0) => each * 8,
        (true, _) => each * 8 / 15,
    };
    (0..groups).map(|i| size(i).max(32)).collect()
}

fn test(setup: &Setup<'_>) -> Fairness {
    let (walk, groups, unequal) = meaning(setup.config);
    let mib = |key| Bytes((setup.number(key) * setup.scale * 1048576.0) as u64);
    let memory = mib("memory");
    let switches = Switches {
        lru: match setup.word("lru") {
            "classic" => Lru::Classic,
            "mglru614" => Lru::Mglru614,
            _ => Lru::Mglru63,
        },
        memcg_walk: walk,
        ..Switches::of_kernel((6, 12), true)
    };
    let sizes = sizes(memory.whole_pages().0, groups, unequal);
    // Many cgroups of the least size may be more than that: they must fit, too.
    let memory = memory.max(Bytes(sizes.iter().sum::<u64>() << 12));
    Fairness {
        kernel: KernelConfig {
            ram: memory * 3,
            switches,
            swap: swap(memory * 2),
            seed: setup.seed,
            costs: costs(setup),
            ..KernelConfig::default()
        },
        sizes,
        share: Some(setup.number("touched") / 100.0),
        pattern: Pattern::Random,
        rate: 0.0,
        period: Nanos::millis(50),
        warm_up: Nanos::millis(20_000),
        order: 0,
        request: mib("request"),
        before: 0,
        writes: setup.number("writes") as u64,
        pause: Nanos::millis(1000),
    }
}

fn alternatives(setup: &Setup<'_>) -> Result<Run, ExperimentFault> {
    Ok(test(setup).run().measures().into())
}

const LRU: Parameter = Parameter::word(
    "lru",
    "mglru63",
    "the LRU below all walks; with the classic lists the memcg LRUs are PartialCookie, as in kernels",
    &["classic", "mglru63", "mglru614"],
);
const TOUCHED: Parameter = Parameter::chosen(
    "touched",
    "33",
    "% of pages each second",
    "as in S2 and the 6.12 measurement, where a third is touched between two writes",
    &["10", "33", "66"],
);

/// Fairness, accuracy and cost of every walk.
pub(super) const ALTERNATIVES: Experiment = Experiment {
    name: "memcg-lru-alternatives",
    title: "memcg LRU, partial iteration, full walk and heat levels: fairness, accuracy and cost",
    source: "SPEC 8, 9.9",
    mails: &[],
    configs: configs!("8" "64" "512" "4096" "64-unequal" "512-unequal"),
    parameters: &[
        Parameter::chosen(
            "memory",
            "1024",
            "MiB",
            "of all cgroups together",
            &["512", "1024"],
        ),
        Parameter::chosen(
            "request",
            "8",
            "MiB",
            "as measured on Linux 6.12",
            &["2", "8", "32"],
        ),
        Parameter::chosen(
            "writes",
            "60",
            "writes",
            "as measured on Linux 6.12",
            &["30", "120"],
        ),
        TOUCHED,
        LRU,
    ],
    reported: &[],
    effects: against!(
        "stddev_change" "pgsteal_stddev_over_mean":
        "memcg-lru63" "memcg-lru67" "heat" against "partial-cookie"
        for ["8" "64" "512" "4096" "64-unequal" "512-unequal"]
    ),
    headline: &[
        "pgsteal_stddev_over_mean",
        "pgsteal_sum_over_requested",
        "visits_per_thousand_stolen",
        "system_per_stolen",
    ],
    scale: 1.0,
    scales: ANY_SCALE,
    seconds: 35,
    notes: &[
        "Reported for other loads on a machine of four nodes: the memcg LRU is less fair there than iteration, and here \
         fairer; docs/experiments/memcg-lru-alternatives.md has both.",
        "Unequal: one cgroup of sixteen has half of their memory; fairness is then of pgsteal over size.",
        "No cgroup has fewer than 32 pages: below scale 0.5 the 4,096 have more memory in all than the fewer ones.",
    ],
    run: alternatives,
};

/// The cost of one request, without the long run that fairness needs.
fn cost(setup: &Setup<'_>) -> Result<Run, ExperimentFault> {
    let mut test = test(setup);
    let groups = test.sizes.len() as u64;
    // Every cgroup has the same memory however many there are: the machine grows.
    let each = setup.number("each") as u64;
    test.sizes = vec![each; groups as usize];
    let memory = Bytes((groups * each) << 12);
    test.kernel.ram = memory * 3 + Bytes::mib(64);
    test.kernel.swap = swap(memory * 2);
    test.kernel.switches.reclaim_batching = match setup.word("batching") {
        "whole" => ReclaimBatching::Whole,
        "chunk32" => ReclaimBatching::Chunk32,
        _ => ReclaimBatching::Quarter,
    };
    test.order = setup.number("order") as u8;
    test.before = setup.number("before") as u64;
    test.share = None;
    test.warm_up = Nanos::millis(1000);
    let paid = test.run();
    let stolen = paid.total.pgsteal().max(1) as f64;
    let writes = setup.number("writes").max(1.0);
    Ok(vec![
        Measure {
            metric: "visits_per_request",
            unit: "cgroups",
            value: paid.total[Counter::MemcgVisited] as f64 / writes,
        },
        Measure {
            metric: "system_per_request",
            unit: "ms",
            value: paid.system.0 as f64 / 1e6 / writes,
        },
        Measure {
            metric: "system_per_stolen",
            unit: "us",
            value: paid.system.0 as f64 / 1e3 / stolen,
        },
        Measure {
            metric: "pgsteal_sum_over_requested",
            unit: "ratio",
            value: stolen / paid.requested.max(1) as f64,
        },
    ]
    .into())
}

/// What a request costs when there are many cgroups.
pub(super) const WALK_COST: Experiment = Experiment {
    name: "memcg-walk-cost",
    title: "cost of one root memory.reclaim from 128 to 16,384 cgroups, for every walk",
    source: "SPEC 9.9",
    mails: &[],
    configs: configs!("128" "1024" "4096" "16384"),
    parameters: &[
        Parameter::chosen(
            "each",
            "1024",
            "pages",
            "memory of each cgroup",
            &["256", "1024", "4608"],
        ),
        Parameter::chosen(
            "order",
            "0",
            "",
            "order of the folios that memory is in: 6 lets sixteen thousand large cgroups fit",
            &["0", "6"],
        ),
        Parameter::word(
            "batching",
            "quarter",
            "how a request is split: from 6.9 on into quarters of what is left, up to 6.7 not at all",
            &["quarter", "whole", "chunk32"],
        ),
        Parameter::chosen(
            "before",
            "0",
            "writes",
            "writes that do not count, before those that do: the first age every cgroup once",
            &["0", "4"],
        ),
        Parameter::chosen(
            "memory",
            "1024",
            "MiB",
            "not used here but for the machine's frame",
            &["512"],
        ),
        Parameter::chosen(
            "request",
            "4",
            "MiB",
            "a goal that a few dozen cgroups can meet",
            &["1", "4", "16"],
        ),
        Parameter::chosen(
            "writes",
            "8",
            "writes",
            "enough to see a rotation",
            &["4", "16"],
        ),
        TOUCHED,
        LRU,
    ],
    reported: &[],
    effects: against!(
        "system_change" "system_per_request":
        "partial-cookie" "memcg-lru63" "memcg-lru67" "heat" against "full-linear"
        for ["128" "1024" "4096" "16384"]
    ),
    headline: &["visits_per_request", "system_per_request"],
    scale: 1.0,
    scales: ANY_SCALE,
    seconds: 18,
    notes: &[
        "The pages are written once and not touched again: only the walk is measured.",
        "Scale changes the size of a request, nothing else: a small one takes no less time.",
    ],
    run: cost,
};

#[cfg(test)]
mod tests {
    use super::super::Values;
    use super::*;

    #[test]
    fn names_say_what_runs() {
        assert_eq!(meaning("heat/512-unequal"), (MemcgWalk::Heat, 512, true));
        assert_eq!(meaning("full-linear/8"), (MemcgWalk::FullLinear, 8, false));
        for config in ALTERNATIVES.configs.iter().chain(WALK_COST.configs) {
            assert!(
                config
                    .split_once('/')
                    .unwrap()
                    .0
                    .parse::<MemcgWalk>()
                    .is_ok()
            );
        }
    }

    #[test]
    fn cgroups_of_the_least_size_fit_into_the_machine() {
        for set in ["memory=1", "memory=1024"] {
            let values = Values::new("x", ALTERNATIVES.parameters, &[set.to_owned()]).unwrap();
            for &config in ALTERNATIVES.configs {
                let test = test(&Setup {
                    config,
                    seed: 1,
                    scale: 1e-4,
                    values: &values,
                });
                let pages = test.sizes.iter().sum::<u64>();
                assert!(pages * 2 < test.kernel.ram.whole_pages().0, "{config}");
            }
        }
    }

    #[test]
    fn unequal_sizes_have_the_same_total() {
        let total = 1 << 18;
        let sum = |unequal| sizes(total, 64, unequal).iter().sum::<u64>();
        assert_eq!(sum(false), total);
        assert!(sum(true).abs_diff(total) < 64);
    }
}
