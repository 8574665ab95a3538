//! Who pays for root `memory.reclaim` when many cgroups are touched alike: `memcg-lru` (S2) and
//! `memcg-lru-6.12`, the same question measured on a real kernel.

use neap_policy::{Counter, Counters, Lru, MemcgWalk, ReclaimBatching, Switches};
use neap_units::{Bytes, Nanos, Pages};

use super::cost::costs;
use super::{ANY_SCALE, Experiment, ExperimentFault, Measure, Parameter, Reported, Setup};
use crate::clock::{Clockwork, Machine};
use crate::kernel::{Area, Costs, KernelConfig, MemcgId, SwapConfig, TaskId};
use crate::swap::DeviceConfig;
use crate::workload::{Burst, Load, Pattern, Reclaimer, Walker};

/// A fairness test.
pub(super) struct Fairness {
    /// The machine.
    pub(super) kernel: KernelConfig,
    /// Pages of each cgroup's memory, one entry for each.
    pub(super) sizes: Vec<u64>,
    /// Touches a second of each cgroup; 0 leaves them alone once written.
    pub(super) rate: f64,
    /// Touches a second as a share of a cgroup's pages, instead of the same for all.
    pub(super) share: Option<f64>,
    /// In what order pages are touched.
    pub(super) pattern: Pattern,
    /// Length of a burst.
    pub(super) period: Nanos,
    /// Time between the first touch and the first write.
    pub(super) warm_up: Nanos,
    /// Order of the folios that memory is in.
    pub(super) order: u8,
    /// Size of a write to `memory.reclaim`.
    pub(super) request: Bytes,
    /// How many that do not count, before the others.
    pub(super) before: u64,
    /// How many.
    pub(super) writes: u64,
    /// Pause after each.
    pub(super) pause: Nanos,
}

/// What a fairness test gave.
pub(super) struct Paid {
    /// Pages taken from each cgroup.
    pub(super) steal: Vec<u64>,
    /// Pages each has.
    pub(super) sizes: Vec<u64>,
    /// Pages asked for in all.
    pub(super) requested: u64,
    /// Counters of the machine.
    pub(super) total: neap_policy::Counters,
    /// Writes that gave up.
    pub(super) again: u64,
    /// System time of the writer.
    pub(super) system: Nanos,
}

impl Fairness {
    /// Bursts that make a rate; longer apart where a period has less than one touch.
    fn burst(&self, rate: f64) -> Option<Burst> {
        if rate <= 0.0 {
            return None;
        }
        let touches = rate * self.period.0 as f64 / 1e9;
        let periods = (1.0 / touches).ceil().max(1.0);
        Some(Burst {
            touches: (touches * periods).round().max(1.0) as u64,
            period: Nanos((self.period.0 as f64 * periods) as u64),
        })
    }

    /// Writes to `memory.reclaim` until all is done.
    fn write(&self, machine: &mut Machine, writes: u64, at: Nanos, again: usize) -> TaskId {
        let reclaimer = Reclaimer::new(MemcgId::ROOT, self.request, writes, self.pause, again);
        let writer = machine.spawn(Box::new(reclaimer), at, true);
        machine.finish(Nanos(u64::MAX));
        writer
    }

    /// Runs it.
    pub(super) fn run(&self) -> Paid {
        let mut machine = Machine::new(&self.kernel, Clockwork::default());
        let mut groups = Vec::new();
        for (i, &pages) in self.sizes.iter().enumerate() {
            let kernel = machine.kernel();
            let memcg = kernel.create_memcg(MemcgId::ROOT, &format!("job{i}"));
            let shmem = kernel.create_shmem(Pages(pages));
            let area = Area {
                content: i as u32 + 1,
                folio_order: self.order,
                ..Area::shmem(shmem, Pages(pages))
            };
            let rate = self.share.map_or(self.rate, |share| share * pages as f64);
            let burst = self.burst(rate);
            let load = Load {
                populate: true,
                burst,
                touches: if burst.is_some() { u64::MAX } else { 0 },
                hold: Nanos(u64::MAX / 2),
                ..Load::new(memcg, area, Walker::new(self.pattern, pages))
            };
            // Jobs do not start in the same instant, or their bursts would collide for ever.
            let start = Nanos(self.period.0 * i as u64 / self.sizes.len() as u64);
            machine.spawn(load.program(), start, false);
            groups.push(memcg);
        }
        let again = machine.shared().make(0);
        let stolen = |machine: &mut Machine| -> Vec<u64> {
            let of = |&memcg: &MemcgId| machine.kernel().vmstat(memcg).pgsteal();
            groups.iter().map(of).collect()
        };
        let (mut begin, mut earlier, mut not_ours) =
            (self.warm_up, Counters::default(), Vec::new());
        if self.before > 0 {
            self.write(&mut machine, self.before, begin, again);
            begin = machine.now();
            earlier = machine.kernel().vmstat(MemcgId::ROOT).clone();
            not_ours = stolen(&mut machine);
        }
        let writer = self.write(&mut machine, self.writes, begin, again);
        let mut steal = stolen(&mut machine);
        for (all, before) in steal.iter_mut().zip(not_ours) {
            *all -= before;
        }
        let mut total = machine.kernel().vmstat(MemcgId::ROOT).clone();
        for (counter, before) in earlier.iter() {
            total[counter] -= before;
        }
        Paid {
            sizes: self.sizes.clone(),
            steal,
            requested: self.request.whole_pages().0 * self.writes,
            total,
            again: machine.shared().get(again),
            system: machine.times(writer).times.system,
        }
    }
}

impl Paid {
    /// Standard deviation over mean, of the share that was taken from each. With equal sizes that is
    /// the same as of the pages taken.
    pub(super) fn unfairness(&self) -> f64 {
        let n = self.steal.len().max(1) as f64;
        let share = |(&steal, &size): (&u64, &u64)| steal as f64 / size.max(1) as f64;
        let shares: Vec<f64> = self.steal.iter().zip(&self.sizes).map(share).collect();
        let mean = shares.iter().sum::<f64>() / n;
        let variance = shares
            .iter()
            .map(|share| (share - mean).powi(2))
            .sum::<f64>()
            / n;
        if mean > 0.0 {
            variance.sqrt() / mean
        } else {
            0.0
        }
    }

    /// The rows every fairness test has.
    pub(super) fn measures(&self) -> Vec<Measure> {
        let stolen = self.total.pgsteal().max(1) as f64;
        let ratio = |metric, value| Measure {
            metric,
            unit: "ratio",
            value,
        };
        let pages = |metric, value: u64| Measure {
            metric,
            unit: "pages",
            value: value as f64,
        };
        vec![
            ratio("pgsteal_stddev_over_mean", self.unfairness()),
            ratio(
                "pgsteal_sum_over_requested",
                stolen / self.requested.max(1) as f64,
            ),
            ratio("pgscan_over_pgsteal", self.total.pgscan() as f64 / stolen),
            pages(
                "workingset_refault_anon",
                self.total[Counter::WorkingsetRefaultAnon],
            ),
            pages("pgactivate", self.total[Counter::Pgactivate]),
            pages("pgrefill", self.total[Counter::Pgrefill]),
            Measure {
                metric: "mglru_aged",
                unit: "generations",
                value: self.total[Counter::MglruAged] as f64,
            },
            Measure {
                metric: "visits_per_thousand_stolen",
                unit: "cgroups",
                value: self.total[Counter::MemcgVisited] as f64 * 1e3 / stolen,
            },
            Measure {
                metric: "system_per_stolen",
                unit: "us",
                value: self.system.0 as f64 / 1e3 / stolen,
            },
            Measure {
                metric: "eagain",
                unit: "writes",
                value: self.again as f64,
            },
        ]
    }
}

/// Rounds to a whole number of the unit, at least one.
fn whole(value: f64) -> u64 {
    (value.round() as u64).max(1)
}

fn seconds(value: f64) -> Nanos {
    Nanos((value * 1e9) as u64)
}

pub(super) fn swap(size: Bytes) -> Option<SwapConfig> {
    Some(SwapConfig {
        size,
        latency: Nanos::micros(2),
        synchronous: true,
    })
}

/// A kernel so many times slower. A scaled machine has fewer pages but no fewer seconds: reclaim of a
/// page must take longer by as much, for what is touched while a pass lasts decides who pays.
fn slower(mut costs: Costs, factor: f64) -> Costs {
    for cost in [
        &mut costs.scan,
        &mut costs.unmap,
        &mut costs.visit,
        &mut costs.io,
        &mut costs.walk_word,
        &mut costs.promote,
        &mut costs.fault,
        &mut costs.clear,
    ] {
        *cost = Nanos((cost.0 as f64 * factor) as u64);
    }
    costs
}

/// The swap device. A scaled machine asks for fewer pages a second, so its device is slower by as much:
/// how long a job waits for a page, against how long it takes until it wants the next, stays.
fn device(setup: &Setup<'_>) -> Option<DeviceConfig> {
    let device = DeviceConfig::named(setup.word("device"))?;
    let slower = |span: Nanos| Nanos((span.0 as f64 / setup.scale) as u64);
    Some(DeviceConfig {
        read_latency: slower(device.read_latency),
        write_latency: slower(device.write_latency),
        bandwidth: Bytes(((device.bandwidth.0 as f64 * setup.scale) as u64).max(4096)),
        ..device
    })
}

fn memcg_lru(setup: &Setup<'_>) -> Result<Vec<Measure>, ExperimentFault> {
    let generations = setup.config == "memcg-lru";
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
    let test = Fairness {
        kernel: KernelConfig {
            ram: mib("ram"),
            nodes: whole(setup.number("nodes")) as u32,
            cpus: whole(setup.number("cpus")) as u32,
            switches,
            swap: swap(mib("ram")),
            swap_device: device(setup),
            costs: slower(costs(setup), 1.0 / setup.scale),
            seed: setup.seed,
            ..KernelConfig::default()
        },
        sizes: vec![pages; groups as usize],
        share: None,
        pattern: match setup.word("order") {
            "shuffled" => Pattern::Shuffled,
            _ => Pattern::Random,
        },
        rate: (setup.number("read_rate") + setup.number("write_rate")) * 256.0 * setup.scale,
        period: Nanos::millis(whole(setup.number("burst"))),
        warm_up: seconds(setup.number("warm_up")),
        order: 0,
        request: mib("request"),
        before: 0,
        writes: whole(setup.number("writes")),
        pause: seconds(setup.number("pause")),
    };
    Ok(test.run().measures())
}

/// The fairness test of the memcg LRU's cover letter.
pub(super) const MEMCG_LRU: Experiment = Experiment {
    name: "memcg-lru",
    title: "who pays for root memory.reclaim: 128 cgroups touched at random",
    source: "S2",
    configs: &["mglru-off", "memcg-lru"],
    parameters: &[
        Parameter::seed("cgroups", "128", "cgroups", "S2"),
        Parameter::seed("memory", "1920", "MiB", "S2: of each cgroup"),
        Parameter::seed("read_rate", "64", "MiB/s", "S2: of each cgroup"),
        Parameter::seed("write_rate", "64", "MiB/s", "S2: of each cgroup"),
        Parameter::seed("writes", "600", "writes", "S2"),
        Parameter::seed("request", "256", "MiB", "S2"),
        Parameter::seed("pause", "6", "s", "S2"),
        Parameter::seed("ram", "524288", "MiB", "S2: no global pressure"),
        Parameter::chosen(
            "warm_up",
            "60",
            "s",
            "S2 waits 600 s; every page is touched four times within 60 s, and nothing changes after",
            &["30", "60", "120"],
        ),
        Parameter::chosen(
            "cpus",
            "16",
            "CPUs",
            "not stated; the jobs use a few CPUs in all",
            &["4", "16", "64"],
        ),
        Parameter::word(
            "device",
            "zram",
            "not stated; in memory, as the RAM disks of the seed's other tests; all three were tried",
            &["zram", "nvme", "ssd"],
        ),
        Parameter::chosen(
            "burst",
            "50",
            "ms",
            "how evenly fio spreads its rate",
            &["10", "50", "200"],
        ),
        Parameter::word(
            "order",
            "independent",
            "not stated; shuffled: each page once before any comes again, which is what fio does unless it is told norandommap",
            &["independent", "shuffled"],
        ),
        Parameter::chosen(
            "nodes",
            "1",
            "NUMA nodes",
            "not stated; with several, one cgroup's memory lies where its job ran, each node is asked on its own, and the \
             writer goes on on the node with most idle CPUs",
            &["1", "2", "4"],
        ),
    ],
    reported: &[
        Reported {
            metric: "pgsteal_stddev_over_mean",
            config: "mglru-off",
            value: 0.75,
        },
        Reported {
            metric: "pgsteal_stddev_over_mean",
            config: "memcg-lru",
            value: 0.20,
        },
        Reported {
            metric: "pgsteal_sum_over_requested",
            config: "mglru-off",
            value: 4.25,
        },
        Reported {
            metric: "pgsteal_sum_over_requested",
            config: "memcg-lru",
            value: 0.95,
        },
    ],
    effects: &[],
    headline: &["pgsteal_stddev_over_mean", "pgsteal_sum_over_requested"],
    scale: 1.0 / 64.0,
    scales: ANY_SCALE,
    seconds: 91,
    notes: &[
        "Scale divides memory, rates, requests, and the speed of the device and of the kernel alike: the \
         share of pages touched between two writes stays, and while a pass lasts, and how long a job \
         waits for a page; batches of the kernel (32, 64 pages) do not scale.",
    ],
    run: memcg_lru,
};

fn memcg_lru_6_12(setup: &Setup<'_>) -> Result<Vec<Measure>, ExperimentFault> {
    let generations = setup.config == "memcg-lru";
    let mib = |key| Bytes((setup.number(key) * 1048576.0) as u64);
    let groups = (setup.number("cgroups") * setup.scale).round().max(1.0) as usize;
    let test = Fairness {
        kernel: KernelConfig {
            ram: mib("ram"),
            cpus: whole(setup.number("cpus")) as u32,
            switches: Switches::of_kernel((6, 12), generations),
            swap: swap(mib("swap")),
            page_cluster: whole(setup.number("page_cluster")) as u32,
            costs: slower(costs(setup), setup.number("slow")),
            seed: setup.seed,
            ..KernelConfig::default()
        },
        sizes: vec![mib("memory").whole_pages().0; groups],
        share: None,
        pattern: Pattern::Random,
        rate: setup.number("rate"),
        period: Nanos::millis(whole(setup.number("burst"))),
        warm_up: seconds(setup.number("warm_up")),
        order: 0,
        request: Bytes((setup.number("request") * setup.scale * 1048576.0) as u64),
        before: 0,
        writes: whole(setup.number("writes")),
        pause: seconds(setup.number("pause")),
    };
    Ok(test.run().measures())
}

const MEASURED: &str = "measured on Linux 6.12";

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
    configs: &["classic", "memcg-lru"],
    parameters: &[
        Parameter::seed("cgroups", "64", "cgroups", MEASURED),
        Parameter::seed(
            "memory",
            "16",
            "MiB",
            "measured on Linux 6.12: of each cgroup",
        ),
        Parameter::seed("rate", "1360", "touches/s", MEASURED),
        Parameter::seed("burst", "50", "ms", MEASURED),
        Parameter::seed("warm_up", "20", "s", MEASURED),
        Parameter::seed("writes", "60", "writes", MEASURED),
        Parameter::seed("request", "8", "MiB", MEASURED),
        Parameter::seed("pause", "1", "s", MEASURED),
        Parameter::seed("ram", "2600", "MiB", MEASURED),
        Parameter::seed("swap", "683", "MiB", MEASURED),
        Parameter::seed("page_cluster", "3", "", MEASURED),
        Parameter::seed("cpus", "2", "CPUs", MEASURED),
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
    effects: &[],
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
