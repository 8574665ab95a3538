//! `writeback-rotation` (S4): where a folio lands when zswap's write of it ends.

use neap_policy::{Rotate, Switches};

use super::build::{
    CLUSTER, COMPRESSOR, FILES, OBJECT, RAM, SOURCE, UNITS, build, effect, reported,
};
use super::mail::ROTATION as MAIL;
use super::{ANY_SCALE, Experiment, ExperimentFault, Parameter, Run, Setup};

fn rotation(setup: &Setup<'_>) -> Result<Run, ExperimentFault> {
    // mm-unstable of February 2024, which became 6.9: protection in the shrinker, literal counting of swap-ins.
    let base = Switches::of_kernel((6, 9), setup.word("lru") == "generations");
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
    Parameter::posted("limit", "2048", "MiB", &MAIL, "memory.max = 2GB"),
    Parameter::posted("user", "1063", "s", &MAIL, "user 1063.20"),
    Parameter::posted("swap", "51200", "MiB", &MAIL, "one 50GB swapfile"),
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
    Parameter::chosen(
        "memory",
        "9",
        "times the recorded compiler",
        "not stated; a unit's private memory is 1 to so many times the recorded 16 MiB, all alike probable. Not fitted to \
         the reported refaults of anonymous pages, which therefore may be far off",
        &["8", "9", "10"],
    ),
    SOURCE,
    Parameter::chosen(
        "headers",
        "0",
        "pages",
        "not stated; sources that all units read. None is the build of the other experiments; a kernel's units share \
         headers of some MiB",
        &["1024", "4096"],
    ),
    OBJECT,
    Parameter::posted_word("files", "tmpfs", &MAIL, "kernel build in tmpfs", FILES),
    RAM,
    Parameter::chosen(
        "swap_latency",
        "10",
        "us",
        "not stated; a write into an NVMe drive's cache: what the RFC mends needs writes that end before \
         their folio leaves the batch of those to be added, and with 100 us there is nothing to mend",
        &["10", "20", "100"],
    ),
    Parameter::word(
        "completion",
        "elsewhere",
        "not stated; which CPU hears that a write has ended: any other than the one that submitted it, or that one. \
         The RFC hopes for the second",
        &["elsewhere", "submitter"],
    ),
    CLUSTER,
    COMPRESSOR,
    Parameter::word(
        "lru",
        "classic",
        "not stated; which lists the kernel had. Generations count a refault of a fault as restored, whatever it was",
        &["classic", "generations"],
    ),
];

/// Where a folio lands when zswap's write of it ends.
pub(super) const ROTATION: Experiment = Experiment {
    name: "writeback-rotation",
    title: "rotation of zswap write-back folios: mainline, RFC, add-tail, no refault evaluation",
    source: "S4",
    mails: &[&MAIL],
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
        effect("swapins_change", "swapins", "no-refault", "mainline"),
    ],
    headline: &["workingset_refault_anon", "sys_seconds", "pgscan"],
    scale: 1.0,
    scales: ANY_SCALE,
    seconds: 375,
    notes: &[
        "Scale divides CPUs, jobs, units and memory, program text too; pages and CPU times shown are divided by it.",
        "The kernel is that of February 2024, as far as its rules are known: Linux 6.9.",
        "The reported counters are of the whole build with its link step, which is not simulated.",
    ],
    run: rotation,
};
