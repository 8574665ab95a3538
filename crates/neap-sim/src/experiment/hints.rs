//! What access hints gain: `recency` and `noreuse` (S2).

use neap_policy::{Counter, Recency, Switches};
use neap_units::{Bytes, Nanos, Pages};

use super::cost::costs;
use super::mail::{NOREUSE as NOREUSE_MAIL, RECENCY as RECENCY_MAIL};
use super::{
    ANY_SCALE, Effect, Experiment, ExperimentFault, Measure, Parameter, Reported, Run, Setup,
};
use crate::clock::{Clockwork, Machine};
use crate::kernel::{Advice, Area, KernelConfig, MemcgId, SwapConfig};
use crate::swap::DeviceConfig;
use crate::workload::{Arena, Load, Pattern, Stream, Walker};

fn bytes(setup: &Setup<'_>, key: &str) -> Bytes {
    Bytes((setup.number(key) * setup.scale * 1048576.0) as u64)
}

/// In which order fio touches the blocks of a file.
pub(super) fn order(setup: &Setup<'_>) -> Pattern {
    match setup.word("order") {
        "independent" => Pattern::Random,
        _ => Pattern::Shuffled,
    }
}

/// The order of fio's random map.
pub(super) const ORDER: Parameter = Parameter::derived_word(
    "order",
    "shuffled",
    "fio touches each block once before any comes again (its random map) unless it is told norandommap, which the \
     posted script does not",
    &["shuffled", "independent"],
);

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

fn recency(setup: &Setup<'_>) -> Result<Run, ExperimentFault> {
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
        disk: DeviceConfig::ram(),
        seed: setup.seed,
        costs: costs(setup),
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
            ..Load::new(memcg, area, Walker::new(order(setup), pages.0))
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
    Ok(measures.into())
}

/// Random mapped reads under pressure, with the hint and without.
pub(super) const RECENCY: Experiment = Experiment {
    name: "recency",
    title: "random mapped file access under pressure: accesses that a hint calls random do not count",
    source: "S2",
    mails: &[&RECENCY_MAIL],
    configs: &["before", "hints"],
    parameters: &[
        Parameter::posted("jobs", "8", "jobs", &RECENCY_MAIL, "--numjobs=8"),
        Parameter::posted("file", "8192", "MiB", &RECENCY_MAIL, "--size=8G"),
        Parameter::posted(
            "ram",
            "8192",
            "MiB",
            &RECENCY_MAIL,
            "kb=$((kb - 8*1024*1024)) modprobe brd rd_nr=1 rd_size=$kb",
        ),
        ORDER,
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
            "how much of the posted --runtime=10m is simulated: the rate is steady after a few",
            &["5", "10", "20"],
        ),
        Parameter {
            sweep: &["0", "50"],
            ..Parameter::derived(
                "writes",
                "50",
                "% of touches",
                "the mail has --rw=randrw, of which fio makes half writes unless it is told rwmixread",
            )
        },
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
    scale: 1.0 / 128.0,
    scales: ANY_SCALE,
    seconds: 13,
    notes: &[
        "Reported: 6 to 8 %; the middle is shown.",
        "The files lie on a RAM disk, which copies a page within the call. Scale divides memory.",
    ],
    run: recency,
};

/// One of the encoder's workers: it takes the next frame, reads it, and works on memory of its own.
fn worker(setup: &Setup<'_>, memcg: MemcgId, area: Area, shared: (usize, usize)) -> Stream {
    let workers = setup.number("workers") as u64;
    let pages = bytes(setup, "hot").whole_pages().0 / workers.max(1);
    let pages = pages.max(1);
    let pattern = Pattern::Zipf(setup.number("exponent"));
    let arena = Arena {
        area: Area::anon(Pages(pages)),
        walker: Walker::new(pattern, pages),
        touches: setup.scaled("touches", 16),
    };
    Stream {
        memcg,
        area,
        frame: setup.scaled("frame", 16),
        passes: setup.number("passes") as u64,
        work: Nanos((setup.number("work") * 1e6) as u64),
        arena: Some(arena),
        next: shared.0,
        frames: shared.1,
    }
}

fn noreuse(setup: &Setup<'_>) -> Result<Run, ExperimentFault> {
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
        disk: DeviceConfig::ram(),
        swap: Some(SwapConfig {
            size: bytes(setup, "swap"),
            latency: Nanos::ZERO,
            synchronous: true,
        }),
        swap_device: DeviceConfig::named(setup.word("swap_device"))
            .map(|device| device.slower(1.0 / setup.scale)),
        seed: setup.seed,
        costs: costs(setup),
        ..KernelConfig::default()
    };
    let mut machine = Machine::new(&config, Clockwork::default());
    let memcg = machine.kernel().create_memcg(MemcgId::ROOT, "encoder");
    let pages = Pages(setup.scaled("frame", 16) * setup.number("frames") as u64);
    let file = machine.kernel().create_file(pages);
    let area = Area {
        advice,
        ..Area::file(file, pages)
    };
    let shared = (machine.shared().make(0), machine.shared().make(0));
    for _ in 0..setup.number("workers") as u64 {
        let worker = worker(setup, memcg, area, shared);
        machine.spawn(worker.program(), Nanos::ZERO, true);
    }
    machine.finish(Nanos(3_600_000_000_000));
    let frames = machine.shared().get(shared.1);
    let mut measures = vec![Measure {
        metric: "fps",
        unit: "1/s",
        value: frames as f64 / machine.now().0.max(1) as f64 * 1e9,
    }];
    measures.extend(counted(&mut machine));
    Ok(measures.into())
}

/// A video that is read once beside an encoder's memory that is not.
pub(super) const NOREUSE: Experiment = Experiment {
    name: "noreuse",
    title: "a video read once beside an encoder's memory: what one call of fadvise gains",
    source: "S2",
    mails: &[&NOREUSE_MAIL],
    configs: &["mglru", "mglru+noreuse", "classic", "classic+noreuse"],
    parameters: &[
        Parameter::derived(
            "frame",
            "3037",
            "pages",
            "3840 x 2160 x 1.5 bytes: the mail encodes Bosphorus_3840x2160_120fps_420_8bit_YUV",
        ),
        Parameter::posted(
            "swap",
            "8192",
            "MiB",
            &NOREUSE_MAIL,
            "fallocate -l 8G /mnt/swapfile",
        ),
        Parameter::posted_word(
            "swap_device",
            "ram",
            &NOREUSE_MAIL,
            "mount /dev/ram0 /mnt/ swapoff -a fallocate -l 8G /mnt/swapfile",
            &["ram", "nvme", "ssd"],
        ),
        Parameter::posted(
            "ram",
            "8192",
            "MiB",
            &NOREUSE_MAIL,
            "kb=$((kb - 8*1024*1024)) modprobe brd rd_nr=1 rd_size=$kb",
        ),
        Parameter::chosen("cpus", "8", "CPUs", "not stated", &["4", "8", "16"]),
        Parameter::chosen(
            "workers",
            "55",
            "threads",
            "not stated; threads that the encoder's source (EbEncHandle.c) starts on 8 CPUs",
            &["8", "16", "24", "32", "55", "110"],
        ),
        Parameter::chosen(
            "hot",
            "7372",
            "MiB",
            "not stated; the encoder uses most of what there is",
            &["2048", "4096", "6144", "7372", "7782"],
        ),
        Parameter::chosen(
            "exponent",
            "0.8",
            "",
            "not stated; how unevenly its memory is used",
            &["0.5", "0.8", "1.0"],
        ),
        Parameter::chosen(
            "touches",
            "40000",
            "touches",
            "not stated; pages of its own memory that a frame needs",
            &["10000", "40000", "160000"],
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
            "160",
            "ms",
            "preset 12 encodes about 50 frames a second on 8 CPUs",
            &["80", "160", "320"],
        ),
        Parameter {
            sweep: &["300", "600", "1200"],
            ..Parameter::derived(
                "frames",
                "600",
                "frames",
                "the video that the mail encodes has 600: five seconds at 120 a second",
            )
        },
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
    scale: 1.0 / 128.0,
    scales: ANY_SCALE,
    seconds: 1,
    notes: &[
        "Reported: 9 to 11 % with MGLRU; the middle is shown. Scale divides memory, the size of frames and \
         the touches for each, and makes the device slower by as much.",
    ],
    run: noreuse,
};
