//! The machines that `make lab` boots real kernels on: `lab-fairness`.
//!
//! Their parameters are what tools/lab sets up, so that `--against` needs no other: its file says which values it used.

use super::build::effect;
use super::fairness::Fairness;
use super::{ANY_SCALE, Experiment, ExperimentFault, Parameter, Run, Setup};

/// Why a parameter is as it is.
pub(super) const SET_UP: &str = "set up by make lab on the real kernel's machine";

/// Kernels that the lab boots and whose rules are known.
pub(super) const KERNEL: Parameter = Parameter {
    sweep: &[],
    ..Parameter::derived_word(
        "kernel",
        "6.12",
        "the kernel that make lab boots; of one that is not known, the newest before it",
        &["6.12", "7.2"],
    )
};
pub(super) const CLOCK: Parameter = Parameter::chosen(
    "slow",
    "2",
    "times",
    "how much slower than a server's the emulated kernel is, which does one instruction a nanosecond: system time of the \
     writer for each page it took, measured over simulated, is 1.8 with classic lists and 2.2 with generations",
    &["1", "2", "3"],
);

/// The kernel's version, as the parameter says it.
pub(super) fn version(setup: &Setup<'_>) -> (u32, u32) {
    let (major, minor) = setup.word("kernel").split_once('.').unwrap_or(("6", "12"));
    (major.parse().unwrap_or(6), minor.parse().unwrap_or(12))
}

fn fairness(setup: &Setup<'_>) -> Result<Run, ExperimentFault> {
    Ok(Fairness::of(setup, version(setup)).run().measures().into())
}

/// Who pays for root `memory.reclaim`, at sizes that an emulated machine holds.
pub(super) const FAIRNESS: Experiment = Experiment {
    name: "lab-fairness",
    title: "who pays for root memory.reclaim, on the machine of make lab: compare with --against lab.json",
    source: "a real kernel",
    mails: &[],
    configs: &["classic", "memcg-lru"],
    parameters: &[
        KERNEL,
        Parameter::measured("cgroups", "64", "cgroups", SET_UP),
        Parameter::measured("memory", "16", "MiB", SET_UP),
        Parameter::measured("rate", "1360", "touches/s", SET_UP),
        Parameter::measured("burst", "50", "ms", SET_UP),
        Parameter::measured("warm_up", "10", "s", SET_UP),
        Parameter::measured("writes", "30", "writes", SET_UP),
        Parameter::measured("request", "8", "MiB", SET_UP),
        Parameter::measured("pause", "1", "s", SET_UP),
        Parameter::measured("ram", "2600", "MiB", SET_UP),
        Parameter::measured("swap", "683", "MiB", SET_UP),
        Parameter::measured("page_cluster", "3", "", SET_UP),
        Parameter::measured("cpus", "2", "CPUs", SET_UP),
        CLOCK,
    ],
    reported: &[],
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
    notes: &[
        "Measured numbers come from make lab: --against FILE shows them beside these.",
        "Scale changes the number of cgroups and the size of a request, nothing else.",
    ],
    run: fairness,
};
