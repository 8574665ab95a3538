//! The open problems of the review thread (SPEC 9.1 to 9.3), each with a remedy as one more switch, in
//! a small build: `concurrent-shrinkers`, `useful-readahead`, `penalty-on-scan`.

use neap_policy::{PenaltySpend, ShrinkerLimit, SwapinCount, Switches};

use super::build::{
    COMPRESSOR, CPUS, JOBS, LIMIT, MEMORY, REST, SERIAL, UNITS, USER, build, effect, joined,
};
use super::{ANY_SCALE, Experiment, ExperimentFault, Measure, Parameter, Setup};

/// Of a build of two jobs and a device that is never busy.
const PARAMETERS: &[Parameter] = &joined::<18>(&[
    &[LIMIT, CPUS, USER, JOBS, UNITS, MEMORY, SERIAL, COMPRESSOR],
    REST,
]);

/// What a configuration changes of Linux 6.12.
fn remedied(config: &str) -> Switches {
    let base = Switches::of_kernel((6, 12), false);
    match config {
        "tokens" => Switches {
            shrinker_limit: ShrinkerLimit::Tokens,
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

fn run(setup: &Setup<'_>) -> Result<Vec<Measure>, ExperimentFault> {
    build(setup, remedied(setup.config), 0)
}

const NOTE: &str =
    "The seed documents give no number for this: the question is the review's, the remedy ours.";

/// Many shrinkers of one list at once, or as many as there is work for.
pub(super) const CONCURRENT: Experiment = Experiment {
    name: "concurrent-shrinkers",
    title: "shrinkers of one cgroup: as many as come, or one for each batch of entries",
    source: "S0 review, SPEC 9.1",
    configs: &["unbounded", "tokens"],
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
    ],
    headline: &["swapins", "zswpwb", "slabs_scanned"],
    scale: 1.0 / 18.0,
    scales: ANY_SCALE,
    seconds: 4,
    notes: &[NOTE],
    run,
};

/// All pages read ahead hold the shrinker back, or those that are used.
pub(super) const USEFUL: Experiment = Experiment {
    name: "useful-readahead",
    title: "pages read ahead hold the shrinker back when they are read, or when they are used",
    source: "S0 review, SPEC 9.3",
    configs: &["disk-reads", "useful-reads"],
    parameters: PARAMETERS,
    reported: &[],
    effects: &[
        effect("swapins_change", "swapins", "useful-reads", "disk-reads"),
        effect("zswpwb_change", "zswpwb", "useful-reads", "disk-reads"),
        effect("real_change", "real_seconds", "useful-reads", "disk-reads"),
    ],
    headline: &["swapins", "zswpwb"],
    scale: 1.0 / 18.0,
    scales: ANY_SCALE,
    seconds: 4,
    notes: &[NOTE],
    run,
};

/// Swap-ins are spent when the shrinker counts, or when it scans.
pub(super) const PENALTY: Experiment = Experiment {
    name: "penalty-on-scan",
    title: "disk swap-ins are spent when the shrinker counts, or when it scans",
    source: "S0 review, SPEC 9.2",
    configs: &["at-count", "at-scan"],
    parameters: PARAMETERS,
    reported: &[],
    effects: &[
        effect("swapins_change", "swapins", "at-scan", "at-count"),
        effect("zswpwb_change", "zswpwb", "at-scan", "at-count"),
        effect("real_change", "real_seconds", "at-scan", "at-count"),
    ],
    headline: &["swapins", "zswpwb"],
    scale: 1.0 / 18.0,
    scales: ANY_SCALE,
    seconds: 4,
    notes: &[NOTE],
    run,
};
