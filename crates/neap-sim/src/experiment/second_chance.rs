//! `second-chance` and `cold-data` (S0, S3): how the zswap shrinker protects what is wanted.

use neap_policy::{ShrinkerScheme, SwapinCount, Switches};

use super::build::{
    CPUS, JOBS, LIMIT, REST, UNITS, USER, build, effect, joined, reported, scaled_bytes,
};
use super::mail::{DISK_SWAPINS, SECOND_CHANCE as S0, SECOND_CHANCE_V3};
use super::{ANY_SCALE, Experiment, ExperimentFault, Parameter, Run, Setup};

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

const MEMORY: Parameter = Parameter::chosen(
    "memory",
    "8.2",
    "times the recorded compiler",
    "not stated; a unit's private memory is 1 to so many times the recorded 16 MiB, all alike probable; of the values \
     tried that whose old-scheme swap-ins are nearest to the reported count, which is therefore no \
     prediction",
    &["8", "8.2", "8.4"],
);
const SERIAL: Parameter = Parameter::chosen(
    "serial",
    "70",
    "s",
    "CPU time of what no job overlaps. With 70 s the seed's own build in 3 GB comes out at its 197 s of real time: \
     69.8 s + (4,365 s user + 289 s sys - 69.8 s) / 36",
    &["0", "70"],
);
const COMPRESSOR: Parameter = Parameter::word(
    "compressor",
    "lz4",
    "not stated. fixed: each page to a quarter, in 5 us; otherwise sizes and times are those of the pages of a \
     real cc1, and lz4 is the nearest of them to lzo, the kernel's default",
    &["fixed", "lz4", "zstd:1", "deflate:1"],
);
const DEVICE: Parameter = Parameter::word(
    "device",
    "ssd",
    "not stated; how many requests it works on, and how many may wait. idle: any number of both, so that only \
     swap_latency counts",
    &["ssd", "nvme", "disk", "idle"],
);
const IOPS: Parameter = Parameter::chosen(
    "swap_iops",
    "50000",
    "pages/s",
    "not stated; random pages, reads and writes together, that the device takes for long. Of the values tried that \
     with which the old scheme's real time is nearest to the reported one, which is therefore no \
     prediction",
    &["25000", "50000", "100000"],
);
/// The whole machine on which S0 was run, as far as it is known.
pub(super) const PARAMETERS: &[Parameter] = &joined::<20>(&[
    &[LIMIT, CPUS, USER, JOBS, UNITS],
    &[MEMORY, SERIAL, COMPRESSOR, DEVICE, IOPS],
    REST,
]);

const BOTH: &str = "second-chance+disk-swapins";

fn second_chance(setup: &Setup<'_>) -> Result<Run, ExperimentFault> {
    build(setup, patched(setup.config), 0)
}

/// The dynamic shrinker's protection schemes in a kernel build under 2 GB.
pub(super) const SECOND_CHANCE: Experiment = Experiment {
    name: "second-chance",
    title: "zswap shrinker: old protection, second chance, disk swap-ins counted; a build in 2 GB",
    source: "S0/S3",
    mails: &[&S0, &DISK_SWAPINS, &SECOND_CHANCE_V3],
    configs: &["old", "second-chance", BOTH, "old+disk-swapins"],
    parameters: PARAMETERS,
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
        effect("second_patch_change", "swapins", BOTH, "second-chance"),
        effect("real_change", "real_seconds", "second-chance", "old"),
        effect("real_change", "real_seconds", BOTH, "old"),
        effect("sys_change", "sys_seconds", "second-chance", "old"),
        effect("sys_change", "sys_seconds", BOTH, "old"),
        effect(
            "after_bursts_change",
            "zswpwb_after_bursts",
            "second-chance",
            "old",
        ),
        effect("after_bursts_change", "zswpwb_after_bursts", BOTH, "old"),
    ],
    headline: &[
        "swapins",
        "real_seconds",
        "sys_seconds",
        "zswpwb_after_bursts",
    ],
    scale: 1.0,
    scales: ANY_SCALE,
    seconds: 152,
    notes: &[
        "Scale divides CPUs, jobs, units and memory; pages and CPU times shown are divided by it.",
        "A smaller machine is another one: the kernel's batches (32 and 128 pages) and priorities do not scale, and few jobs \
         need memory at the same time more often than many.",
    ],
    run: second_chance,
};

fn cold_data(setup: &Setup<'_>) -> Result<Run, ExperimentFault> {
    let cold = scaled_bytes(setup, "cold").whole_pages().0;
    build(setup, patched(setup.config), cold)
}

const COLD_PARAMETERS: &[Parameter] = &joined::<21>(&[
    &[
        Parameter::posted(
            "limit",
            "3072",
            "MiB",
            &DISK_SWAPINS,
            "memory.max set to 3 GB",
        ),
        Parameter::posted(
            "cold",
            "512",
            "MiB",
            &DISK_SWAPINS,
            "0.5 GB worth of cold data allocated before each build (in a shmem file)",
        ),
        CPUS,
        Parameter::posted("user", "4365", "s", &DISK_SWAPINS, "user: 4365.08s"),
        JOBS,
        UNITS,
    ],
    // The machine of second-chance, whose authors ran both on one.
    &[MEMORY, SERIAL, COMPRESSOR, DEVICE, IOPS],
    REST,
]);

/// The same with cold data that should go to disk.
pub(super) const COLD_DATA: Experiment = Experiment {
    name: "cold-data",
    title: "the same build in 3 GB with 0.5 GB of cold data: what should be written back is",
    source: "S0/S3",
    mails: &[&S0, &DISK_SWAPINS, &SECOND_CHANCE_V3],
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
    scale: 1.0,
    scales: ANY_SCALE,
    seconds: 100,
    notes: &[
        "Scale divides CPUs, jobs, units and memory; pages and CPU times shown are divided by it.",
        "The rows without a reported number are those the seed documents left out.",
        "The machine is that of second-chance. A build of two jobs with other memory presses harder: the experiment's \
         page has both.",
    ],
    run: cold_data,
};
