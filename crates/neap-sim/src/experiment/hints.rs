//! What access hints gain: `recency` and `noreuse` (S2).

use neap_policy::{Counter, Recency, Switches};
use neap_units::{Bytes, Nanos, Pages};

use super::{Effect, Experiment, ExperimentFault, Measure, Parameter, Reported, Setup};
use crate::clock::{Clockwork, Machine};
use crate::kernel::{Advice, Area, KernelConfig, MemcgId, SwapConfig};
use crate::workload::{Load, Pattern, Stream, Walker};

fn bytes(setup: &Setup<'_>, key: &str) -> Bytes {
    Bytes((setup.number(key) * setup.scale * 1048576.0) as u64)
}

fn counted(machine: &mut Machine) -> Vec<Measure> {
    let counters = machine.kernel().vmstat(MemcgId::ROOT);
    let pages = |metric, value: u64| Measure {
        metric,
        unit: "pages",
        value: value as f64,
    };
    vec![
        pages("pgscan", counters.pgscan()),
        pages("pgsteal", counters.pgsteal()),
        pages("pgactivate", counters[Counter::Pgactivate]),
        pages("pgdeactivate", counters[Counter::Pgdeactivate]),
        pages(
            "workingset_refault_file",
            counters[Counter::WorkingsetRefaultFile],
        ),
        pages(
            "workingset_refault_anon",
            counters[Counter::WorkingsetRefaultAnon],
        ),
    ]
}

fn recency(setup: &Setup<'_>) -> Result<Vec<Measure>, ExperimentFault> {
    let recency = match setup.config {
        "before" => Recency::SequentialOnly,
        _ => Recency::Hints,
    };
    let config = KernelConfig {
        ram: bytes(setup, "ram"),
        cpus: setup.number("cpus") as u32,
        switches: Switches {
            recency,
            ..Switches::of_kernel((6, 3), false)
        },
        seed: setup.seed,
        ..KernelConfig::default()
    };
    let mut machine = Machine::new(&config, Clockwork::default());
    let pages = bytes(setup, "file").whole_pages();
    let done = machine.shared().make(0);
    let memcg = machine.kernel().create_memcg(MemcgId::ROOT, "fio");
    for _ in 0..setup.number("jobs") as u64 {
        let file = machine.kernel().create_file(pages);
        let area = Area {
            advice: Advice::Random,
            ..Area::file(file, pages)
        };
        let load = Load {
            writes: setup.number("writes") / 100.0,
            pace: Nanos(setup.number("pace") as u64),
            done: Some(done),
            ..Load::new(memcg, area, Walker::new(Pattern::Random, pages.0))
        };
        machine.spawn(load.program(), Nanos::ZERO, false);
    }
    // The cache fills first; what is measured is under pressure.
    let fill = Nanos((setup.number("seconds") * 0.25e9) as u64);
    machine.run_until(fill);
    let before = machine.shared().get(done);
    let end = Nanos((setup.number("seconds") * 1.25e9) as u64);
    machine.run_until(end);
    let touches = machine.shared().get(done) - before;
    let mut measures = vec![Measure {
        metric: "iops",
        unit: "1/s",
        value: touches as f64 / (end - fill).0 as f64 * 1e9,
    }];
    measures.extend(counted(&mut machine));
    Ok(measures)
}

/// Random mapped reads under pressure, with the hint and without.
pub(super) const RECENCY: Experiment = Experiment {
    name: "recency",
    title: "random mapped file access under pressure: accesses that a hint calls random do not count",
    source: "S2",
    configs: &["before", "hints"],
    parameters: &[
        Parameter::seed("jobs", "8", "jobs", "S2"),
        Parameter::seed("file", "8192", "MiB", "S2: of each job"),
        Parameter::seed(
            "ram",
            "8192",
            "MiB",
            "S2: what the RAM disk leaves of memory",
        ),
        Parameter::chosen(
            "cpus",
            "8",
            "CPUs",
            "not stated; one for each job",
            &["4", "8"],
        ),
        Parameter::chosen(
            "seconds",
            "10",
            "s",
            "S2 runs 600 s; the rate is steady after a few",
            &["5", "10", "20"],
        ),
        Parameter::chosen(
            "writes",
            "0",
            "% of touches",
            "not stated; fio's default for a random read job",
            &["0", "50"],
        ),
        Parameter::chosen(
            "pace",
            "1000",
            "ns",
            "not stated; fio's own work for each 4 KiB",
            &["300", "1000", "3000"],
        ),
    ],
    reported: &[Reported {
        metric: "iops_change",
        config: "hints",
        value: 7.0,
    }],
    effects: &[Effect {
        name: "iops_change",
        metric: "iops",
        config: "hints",
        base: "before",
    }],
    headline: &["iops"],
    scale: 1.0 / 64.0,
    notes: &[
        "Reported: 6 to 8 %; the middle is shown.",
        "Reads cost what the kernel model charges for a page from a RAM disk; scale divides memory.",
    ],
    run: recency,
};

/// The encoder's workers keep the machine's memory in use; their pages are reused all the time.
fn encoder(setup: &Setup<'_>, machine: &mut Machine) -> MemcgId {
    let memcg = machine.kernel().create_memcg(MemcgId::ROOT, "encoder");
    let workers = setup.number("cpus") as u64;
    let pages = bytes(setup, "hot").whole_pages().0 / workers.max(1);
    for _ in 0..workers {
        let pattern = Pattern::Zipf(setup.number("exponent"));
        let load = Load {
            populate: true,
            pace: Nanos(setup.number("pace") as u64),
            ..Load::new(memcg, Area::anon(Pages(pages)), Walker::new(pattern, pages))
        };
        machine.spawn(load.program(), Nanos::ZERO, false);
    }
    memcg
}

fn noreuse(setup: &Setup<'_>) -> Result<Vec<Measure>, ExperimentFault> {
    let (generations, advice) = match setup.config {
        "mglru" => (true, Advice::Normal),
        "mglru+noreuse" => (true, Advice::NoReuse),
        "classic+noreuse" => (false, Advice::NoReuse),
        _ => (false, Advice::Normal),
    };
    let config = KernelConfig {
        ram: bytes(setup, "ram"),
        cpus: setup.number("cpus") as u32,
        switches: Switches::of_kernel((6, 3), generations),
        swap: Some(SwapConfig {
            size: bytes(setup, "swap"),
            latency: Nanos::micros(setup.number("swap_latency") as u64),
            synchronous: false,
        }),
        seed: setup.seed,
        ..KernelConfig::default()
    };
    let mut machine = Machine::new(&config, Clockwork::default());
    let memcg = encoder(setup, &mut machine);
    let frame = setup.scaled("frame", 16);
    let count = setup.number("frames") as u64;
    let frames = machine.shared().make(0);
    let pages = Pages(frame * count);
    let file = machine.kernel().create_file(pages);
    let stream = Stream {
        memcg,
        area: Area {
            advice,
            ..Area::file(file, pages)
        },
        frame,
        passes: setup.number("passes") as u64,
        work: Nanos((setup.number("work") * 1e6) as u64),
        frames,
    };
    let start = Nanos(1_000_000_000);
    let reader = machine.spawn(stream.program(), start, true);
    machine.finish(Nanos(3_600_000_000_000));
    let end = machine.times(reader).ended.unwrap_or(machine.now());
    let mut measures = vec![Measure {
        metric: "fps",
        unit: "1/s",
        value: machine.shared().get(frames) as f64 / end.saturating_sub(start).0.max(1) as f64
            * 1e9,
    }];
    measures.extend(counted(&mut machine));
    Ok(measures)
}

/// A video that is read once beside an encoder's memory that is not.
pub(super) const NOREUSE: Experiment = Experiment {
    name: "noreuse",
    title: "a video read once beside an encoder's memory: what one call of fadvise gains",
    source: "S2",
    configs: &["mglru", "mglru+noreuse", "classic", "classic+noreuse"],
    parameters: &[
        Parameter::seed("frame", "3037", "pages", "S2: 3840x2160, 8 bits, 4:2:0"),
        Parameter::seed("swap", "8192", "MiB", "S2"),
        Parameter::seed(
            "ram",
            "8192",
            "MiB",
            "S2: what the RAM disk leaves of memory",
        ),
        Parameter::chosen("cpus", "8", "CPUs", "not stated", &["4", "8", "16"]),
        Parameter::chosen(
            "hot",
            "7372",
            "MiB",
            "not stated; the encoder uses most of what there is",
            &["6144", "7372", "7782"],
        ),
        Parameter::chosen(
            "exponent",
            "0.8",
            "",
            "not stated; how unevenly its memory is used",
            &["0.5", "0.8", "1.0"],
        ),
        Parameter::chosen(
            "pace",
            "500",
            "ns",
            "not stated; its work between two pages",
            &["200", "500", "2000"],
        ),
        Parameter::chosen(
            "passes",
            "2",
            "passes",
            "a frame is read for analysis and for prediction",
            &["1", "2", "4"],
        ),
        Parameter::chosen(
            "work",
            "20",
            "ms",
            "preset 12 encodes about 50 frames a second",
            &["10", "20", "40"],
        ),
        Parameter::chosen(
            "frames",
            "400",
            "frames",
            "not stated",
            &["200", "400", "800"],
        ),
        Parameter::chosen(
            "swap_latency",
            "100",
            "us",
            "not stated; a file on an SSD",
            &["20", "100", "500"],
        ),
    ],
    reported: &[Reported {
        metric: "fps_change",
        config: "mglru+noreuse",
        value: 10.0,
    }],
    effects: &[
        Effect {
            name: "fps_change",
            metric: "fps",
            config: "mglru+noreuse",
            base: "mglru",
        },
        Effect {
            name: "fps_change",
            metric: "fps",
            config: "classic+noreuse",
            base: "classic",
        },
    ],
    headline: &["fps"],
    scale: 1.0 / 32.0,
    notes: &[
        "Reported: 9 to 11 % with MGLRU; the middle is shown. Scale divides memory and frames' size.",
    ],
    run: noreuse,
};
