//! Who pays for root `memory.reclaim` when many cgroups are touched alike: the test, whatever it is run with.

use neap_policy::{Counter, Counters, Switches};
use neap_units::{Bytes, Nanos, Pages};

use super::cost::costs;
use super::{Measure, Setup};
use crate::clock::{Clockwork, Machine};
use crate::kernel::{Area, Costs, KernelConfig, MemcgId, SwapConfig, TaskId};
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
    /// The machine and the test that an experiment's parameters describe: cgroups of one size that are touched alike, and
    /// writes of one size, on a kernel of this version. Of two configurations `memcg-lru` has generations.
    pub(super) fn of(setup: &Setup<'_>, version: (u32, u32)) -> Self {
        let mib = |key| Bytes((setup.number(key) * 1048576.0) as u64);
        let groups = (setup.number("cgroups") * setup.scale).round().max(1.0) as usize;
        Self {
            kernel: KernelConfig {
                ram: mib("ram"),
                cpus: whole(setup.number("cpus")) as u32,
                switches: Switches::of_kernel(version, setup.config == "memcg-lru"),
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
        }
    }

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
pub(super) fn whole(value: f64) -> u64 {
    (value.round() as u64).max(1)
}

pub(super) fn seconds(value: f64) -> Nanos {
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
pub(super) fn slower(mut costs: Costs, factor: f64) -> Costs {
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
