//! The open problems of the review thread (SPEC 9.1 to 9.3), each with a remedy as one more switch, on
//! the whole machine of `second-chance`: `concurrent-shrinkers`, `useful-readahead`, `penalty-on-scan`.

use neap_policy::{PenaltySpend, ShrinkerLimit, SwapinCount, Switches};

use super::build::{build, effect};
use super::mail::{DISK_SWAPINS, SECOND_CHANCE};
use super::second_chance::PARAMETERS;
use super::{ANY_SCALE, Experiment, ExperimentFault, Run, Setup};

/// What a configuration changes of Linux 6.12.
fn remedied(config: &str) -> Switches {
    let base = Switches::of_kernel((6, 12), false);
    match config {
        "tokens" => Switches {
            shrinker_limit: ShrinkerLimit::Tokens,
            ..base
        },
        "in-flight" => Switches {
            shrinker_limit: ShrinkerLimit::InFlight,
            ..base
        },
        "useful-reads" => Switches {
            swapin_count: SwapinCount::UsefulReads,
            ..base
        },
        "at-scan" => Switches {
            penalty_spend: PenaltySpend::AtScan,
            ..base
        },
        _ => base,
    }
}

fn run(setup: &Setup<'_>) -> Result<Run, ExperimentFault> {
    build(setup, remedied(setup.config), 0)
}

const NOTE: &str =
    "The seed documents give no number for this: the question is the review's, the remedy ours.";

/// Many shrinkers of one list at once, or as many as there is work for.
pub(super) const CONCURRENT: Experiment = Experiment {
    name: "concurrent-shrinkers",
    title: "shrinkers of one cgroup: as many as come, one for each batch of entries, or none for work in flight",
    mails: &[&SECOND_CHANCE, &DISK_SWAPINS],
    source: "S0 review, SPEC 9.1",
    configs: &["unbounded", "tokens", "in-flight"],
    parameters: PARAMETERS,
    reported: &[],
    effects: &[
        effect("swapins_change", "swapins", "tokens", "unbounded"),
        effect("zswpwb_change", "zswpwb", "tokens", "unbounded"),
        effect(
            "slabs_scanned_change",
            "slabs_scanned",
            "tokens",
            "unbounded",
        ),
        effect("real_change", "real_seconds", "tokens", "unbounded"),
        effect("swapins_change", "swapins", "in-flight", "unbounded"),
        effect("zswpwb_change", "zswpwb", "in-flight", "unbounded"),
        effect(
            "slabs_scanned_change",
            "slabs_scanned",
            "in-flight",
            "unbounded",
        ),
        effect("real_change", "real_seconds", "in-flight", "unbounded"),
    ],
    headline: &[
        "swapins",
        "zswpwb",
        "slabs_scanned",
        "shrinkers",
        "shrinkers_max",
        "nr_deferred",
        "feedback_seconds",
        "pool_pages",
    ],
    scale: 1.0,
    scales: ANY_SCALE,
    seconds: 114,
    notes: &[NOTE],
    run,
};

/// All pages read ahead hold the shrinker back, or those that are used.
pub(super) const USEFUL: Experiment = Experiment {
    name: "useful-readahead",
    title: "pages read ahead hold the shrinker back when they are read, or when they are used",
    mails: &[&SECOND_CHANCE, &DISK_SWAPINS],
    source: "S0 review, SPEC 9.3",
    configs: &["disk-reads", "useful-reads"],
    parameters: PARAMETERS,
    reported: &[],
    effects: &[
        effect("swapins_change", "swapins", "useful-reads", "disk-reads"),
        effect("zswpwb_change", "zswpwb", "useful-reads", "disk-reads"),
        effect("real_change", "real_seconds", "useful-reads", "disk-reads"),
    ],
    headline: &[
        "swapins",
        "zswpwb",
        "nr_deferred",
        "feedback_seconds",
        "pool_pages",
    ],
    scale: 1.0,
    scales: ANY_SCALE,
    seconds: 76,
    notes: &[NOTE],
    run,
};

/// Swap-ins are spent when the shrinker counts, or when it scans.
pub(super) const PENALTY: Experiment = Experiment {
    name: "penalty-on-scan",
    title: "disk swap-ins are spent when the shrinker counts, or when it scans",
    mails: &[&SECOND_CHANCE, &DISK_SWAPINS],
    source: "S0 review, SPEC 9.2",
    configs: &["at-count", "at-scan"],
    parameters: PARAMETERS,
    reported: &[],
    effects: &[
        effect("swapins_change", "swapins", "at-scan", "at-count"),
        effect("zswpwb_change", "zswpwb", "at-scan", "at-count"),
        effect("real_change", "real_seconds", "at-scan", "at-count"),
    ],
    headline: &[
        "swapins",
        "zswpwb",
        "nr_deferred",
        "feedback_seconds",
        "pool_pages",
    ],
    scale: 1.0,
    scales: ANY_SCALE,
    seconds: 76,
    notes: &[NOTE],
    run,
};
