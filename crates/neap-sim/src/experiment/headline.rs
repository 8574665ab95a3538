//! The effects that the mails lead with, each beside what came out: the overview of all experiments.

use super::outcome::{chance, spread};
use super::{Outcome, Row};
use crate::report::{Align, Part, Table, number};

/// An effect that a mail leads with. It may be posted as several numbers.
#[derive(Debug)]
pub struct Headline {
    /// What it is of, in words.
    pub title: &'static str,
    /// The experiment.
    pub experiment: &'static str,
    /// Names of its changes; each configuration that has them is a row.
    pub effects: &'static [&'static str],
    /// The configurations.
    pub configs: &'static [&'static str],
    /// What of the posted set-up is not kept, or is not posted; empty: it is kept.
    pub departs: &'static str,
}

const fn headline(
    title: &'static str,
    experiment: &'static str,
    effects: &'static [&'static str],
    configs: &'static [&'static str],
    departs: &'static str,
) -> Headline {
    Headline {
        title,
        experiment,
        effects,
        configs,
        departs,
    }
}

const BOTH: &[&str] = &["second-chance+disk-swapins"];
const STORED: &[&str] = &[
    "64K/after/zstd",
    "64K/after/iaa",
    "2M/after/zstd",
    "2M/after/iaa",
];
const NODES: &[&str] = &["memcg-lru/1-node", "memcg-lru/2-nodes", "memcg-lru/4-nodes"];
const RFC: &[&str] = &["rfc004"];

const BUILD: &str =
    "build, compressor and device are not posted; memory and swap_iops are fitted to the old row";
const COLD: &str = "as for second-chance, of which this is the machine";
const WHERE: &str = "nodes and device are not posted";
const STORES: &str = "times and ratios of compression are not posted";
const TMPFS: &str = "machine, size of the build and device are not posted; no link step";

/// The thirteen effects, in the order of the mails.
pub const HEADLINES: &[Headline] = &[
    headline(
        "S0 second chance",
        "second-chance",
        &["swapins_change"],
        &["second-chance"],
        BUILD,
    ),
    headline(
        "S0 both patches",
        "second-chance",
        &["swapins_change"],
        BOTH,
        BUILD,
    ),
    headline(
        "S0 disk swap-ins",
        "second-chance",
        &["second_patch_change"],
        BOTH,
        BUILD,
    ),
    headline("S0 cold data", "cold-data", &["zswpwb_change"], BOTH, COLD),
    headline(
        "S1 against splitting",
        "mthp-store",
        &["case1_throughput_change", "case1_sys_change"],
        STORED,
        STORES,
    ),
    headline(
        "S1 against zram",
        "mthp-store",
        &["case2_throughput_change", "case2_sys_change"],
        STORED,
        STORES,
    ),
    headline("S2 fairness", "memcg-lru", &["stddev_change"], NODES, WHERE),
    headline("S2 overshoot", "memcg-lru", &["sum_change"], NODES, WHERE),
    headline(
        "S2 recency",
        "recency",
        &["iops_change"],
        &["hints"],
        "CPUs and fio's own work are not posted",
    ),
    headline(
        "S2 noreuse",
        "noreuse",
        &["fps_change"],
        &["mglru+noreuse"],
        "threads and memory of the encoder are not posted",
    ),
    headline(
        "S4 refaults, anonymous",
        "writeback-rotation",
        &["refault_anon_change"],
        RFC,
        TMPFS,
    ),
    headline(
        "S4 refaults, files",
        "writeback-rotation",
        &["refault_file_change"],
        RFC,
        TMPFS,
    ),
    headline(
        "S4 system time",
        "writeback-rotation",
        &["sys_change"],
        RFC,
        TMPFS,
    ),
];

/// The share by which an effect may differ from the posted one and be called within a quarter.
const QUARTER: f64 = 0.25;

/// How large the simulated effect is as a multiple of the posted one.
fn ratio(row: &Row) -> Option<f64> {
    let posted = row.reported.filter(|posted| *posted != 0.0)?;
    Some(row.simulated / posted)
}

fn within(row: &Row) -> bool {
    ratio(row).is_some_and(|ratio| (ratio - 1.0).abs() <= QUARTER)
}

/// The headline effects of some outcomes.
#[derive(Debug)]
pub struct Overview {
    /// A row for each posted number.
    pub table: Table,
    /// How many headlines are shown.
    pub shown: usize,
    /// How many of them have a row, and none that is not told from chance, within a quarter of each posted number.
    pub met: usize,
}

/// What of the posted set-up a run does not keep.
fn departs(headline: &Headline, outcome: &Outcome) -> String {
    let scale = (outcome.scale != 1.0).then(|| format!("scale {}", number(outcome.scale)));
    let parts = [Some(headline.departs.to_owned()), scale];
    let parts = parts.into_iter().flatten().chain(outcome.caveats());
    let parts: Vec<String> = parts.filter(|part| !part.is_empty()).collect();
    match parts.is_empty() {
        true => "kept".to_owned(),
        false => parts.join("; "),
    }
}

fn cells(headline: &Headline, row: &Row, departs: &str) -> Vec<String> {
    let by_chance = match row.p {
        None => "nothing random".to_owned(),
        Some(_) => chance(row),
    };
    vec![
        headline.title.to_owned(),
        row.metric.clone(),
        row.config.clone(),
        row.reported.map_or_else(|| "-".to_owned(), number),
        number(row.simulated),
        spread(row),
        ratio(row).map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}")),
        by_chance,
        departs.to_owned(),
    ]
}

/// The overview of these outcomes; none when no headline is of any of them.
#[must_use]
pub fn overview(outcomes: &[Outcome]) -> Option<Overview> {
    let mut table = Table::new(&[
        ("effect", Align::Left),
        ("change", Align::Left),
        ("config", Align::Left),
        ("posted, %", Align::Right),
        ("simulated, %", Align::Right),
        ("p10 .. p90", Align::Right),
        ("ratio", Align::Right),
        ("by chance", Align::Right),
        ("of the posted set-up is not kept", Align::Left),
    ]);
    let (mut shown, mut met) = (0, 0);
    for headline in HEADLINES {
        let mut all = outcomes.iter();
        let Some(outcome) = all.find(|o| o.experiment.name == headline.experiment) else {
            continue;
        };
        let departs = departs(headline, outcome);
        let names = headline.effects.iter();
        let pairs =
            names.flat_map(|name| headline.configs.iter().map(move |config| (name, config)));
        let rows: Vec<&Row> = pairs
            .filter_map(|(name, config)| outcome.row(name, config))
            .collect();
        for row in &rows {
            table.row(cells(headline, row, &departs));
        }
        shown += usize::from(!rows.is_empty());
        let good = |row: &&Row| within(row) && !row.may_be_chance();
        met += usize::from(!rows.is_empty() && rows.iter().all(good));
    }
    (shown > 0).then_some(Overview { table, shown, met })
}

impl Overview {
    fn said(&self) -> String {
        format!(
            "{} of {} effects are within a quarter of the posted ones in every row, and told from chance. Ratio: the simulated \
             change over the posted one.",
            self.met, self.shown
        )
    }

    /// For people.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{}\n{}\n", self.table.text(), self.said())
    }

    /// Of a page, to lead it.
    #[must_use]
    pub fn parts(&self) -> Vec<Part> {
        vec![
            Part::Heading("What the mails lead with".to_owned()),
            Part::Table(self.table.clone()),
            Part::Text(self.said()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Options, find, run};

    /// A headline without a posted number would be a row that cannot miss.
    #[test]
    fn each_headline_is_posted_in_each_of_its_rows() {
        assert_eq!(HEADLINES.len(), 13);
        for headline in HEADLINES {
            let experiment = find(headline.experiment).unwrap();
            let known = |metric: &str, config: &str| {
                experiment
                    .reported
                    .iter()
                    .any(|r| r.metric == metric && r.config == config)
            };
            for name in headline.effects {
                for config in headline.configs {
                    let of =
                        |e: &&crate::experiment::Effect| e.name == *name && e.config == *config;
                    let effect = experiment.effects.iter().find(of);
                    let effect = effect.unwrap_or_else(|| panic!("no {name} of {config}"));
                    let both =
                        known(effect.metric, effect.config) && known(effect.metric, effect.base);
                    assert!(
                        both || known(name, config),
                        "{name} of {config} is not posted"
                    );
                }
            }
        }
    }

    fn outcome(values: &[(f64, f64, Option<f64>)]) -> Outcome {
        let options = Options {
            seeds: 1,
            scale: Some(0.002),
            ..Options::default()
        };
        let mut outcome = run(find("noreuse").unwrap(), &options, &|_, _| {}).unwrap();
        outcome.scale = 1.0;
        outcome
            .rows
            .retain(|row| row.metric == "fps_change" && row.config == "mglru+noreuse");
        assert_eq!((outcome.rows.len(), values.len()), (1, 1));
        for (row, &(posted, simulated, p)) in outcome.rows.iter_mut().zip(values) {
            (row.reported, row.simulated, row.p) = (Some(posted), simulated, p);
        }
        outcome
    }

    #[test]
    fn an_effect_is_met_within_a_quarter_on_its_own_side_and_beyond_chance() {
        let met = |posted, simulated, p| {
            let overview = overview(&[outcome(&[(posted, simulated, p)])]).unwrap();
            assert_eq!(overview.shown, 1);
            overview.met
        };
        let sure = Some(0.001);
        assert_eq!(met(10.0, 12.5, sure), 1);
        assert_eq!(met(10.0, 7.5, sure), 1);
        assert_eq!(met(-10.0, -9.0, None), 1, "what is not random is told");
        assert_eq!(met(10.0, 12.6, sure), 0);
        assert_eq!(met(10.0, 7.4, sure), 0);
        assert_eq!(met(10.0, -10.0, sure), 0);
        assert_eq!(met(10.0, 10.0, Some(0.05)), 0);
    }

    #[test]
    fn a_row_says_what_of_the_set_up_is_not_kept() {
        let mut one = outcome(&[(10.0, 2.5, Some(0.3))]);
        let line =
            |one: &Outcome| overview(std::slice::from_ref(one)).unwrap().table.rows()[0].clone();
        let cells = line(&one);
        assert_eq!(cells[3..7], ["10.00", "2.50", cells[5].as_str(), "0.25"]);
        assert_eq!(cells[7], "not told (0.30)");
        assert_eq!(cells[8], "threads and memory of the encoder are not posted");
        one.scale = 0.5;
        assert!(line(&one)[8].ends_with("; scale 0.5000"));
        assert!(overview(&[]).is_none());
    }
}
