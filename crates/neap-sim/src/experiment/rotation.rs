//! `writeback-rotation` (S4): where a folio lands when zswap's write of it ends.

use neap_policy::{Rotate, Switches};

use super::build::{
    CLUSTER, COMPRESSOR, FILES, MEMORY, OBJECT, RAM, SOURCE, UNITS, build, effect, reported,
};
use super::{ANY_SCALE, Experiment, ExperimentFault, Measure, Parameter, Setup};

fn rotation(setup: &Setup<'_>) -> Result<Vec<Measure>, ExperimentFault> {
    let base = Switches::of_kernel((6, 12), false);
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
    Parameter::seed("limit", "2048", "MiB", "S4: memory.max"),
    Parameter::seed("user", "1063", "s", "S4: user time of the build"),
    Parameter::seed("swap", "51200", "MiB", "S4: one swap file"),
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
    MEMORY,
    SOURCE,
    OBJECT,
    Parameter::seed_word("files", "tmpfs", "S4: kernel build in tmpfs", FILES),
    RAM,
    Parameter::chosen(
        "swap_latency",
        "10",
        "us",
        "not stated; a write into an NVMe drive's cache: what the RFC mends needs writes that end before \
         their folio leaves the batch of those to be added, and with 100 us there is nothing to mend",
        &["10", "20", "100"],
    ),
    CLUSTER,
    COMPRESSOR,
];

/// Where a folio lands when zswap's write of it ends.
pub(super) const ROTATION: Experiment = Experiment {
    name: "writeback-rotation",
    title: "rotation of zswap write-back folios: mainline, RFC, add-tail, no refault evaluation",
    source: "S4",
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
    ],
    headline: &["workingset_refault_anon", "sys_seconds", "pgscan"],
    scale: 1.0 / 18.0,
    scales: ANY_SCALE,
    seconds: 6,
    notes: &[
        "Scale divides CPUs, jobs, units and memory; pages and CPU times shown are divided by it.",
        "The reported counters are of the whole build with its link step, which is not simulated.",
    ],
    run: rotation,
};
