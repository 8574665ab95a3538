//! What an experiment gave: rows of reported beside simulated, as table, JSON and page.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{Experiment, Origin, Parameter, Series, Values};
use crate::report::{Align, Bars, Curve, Group, Part, Plot, Table, number, page};

/// One number: what was reported and what came out over the seeds.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    /// The metric.
    pub metric: String,
    /// The configuration.
    pub config: String,
    /// Its unit.
    pub unit: String,
    /// What was reported, if anything.
    pub reported: Option<f64>,
    /// Median over seeds.
    pub simulated: f64,
    /// 10th percentile.
    pub low: f64,
    /// 90th percentile.
    pub high: f64,
    /// Of a change: how probable one so large is by chance, by a sign-flip test over the pairs of runs with one seed.
    pub p: Option<f64>,
}

/// Rows of a table of a series, about: the plot and the JSON object have every point.
const ROWS: usize = 20;

/// A change that is more probable by chance is not told from it.
const CHANCE: f64 = 0.05;

impl Row {
    /// Whether it is a change that these seeds do not tell from chance.
    #[must_use]
    pub fn may_be_chance(&self) -> bool {
        self.p.is_some_and(|p| p >= CHANCE)
    }
}

/// What an experiment gave.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Which experiment.
    pub experiment: &'static Experiment,
    /// Over how many seeds.
    pub seeds: u64,
    /// The first of them.
    pub seed: u64,
    /// At which scale.
    pub scale: f64,
    /// With which parameters.
    pub values: Values,
    /// The rows.
    pub rows: Vec<Row>,
    /// Numbers over time, of the first seed.
    pub series: Vec<Series>,
}

impl std::fmt::Debug for Experiment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// Where a parameter comes from, for people.
fn origin(origin: &Origin) -> String {
    match origin {
        Origin::Posted(mail, words) => format!("<{}>: \"{words}\"", mail.id),
        other => other.text().to_owned(),
    }
}

/// Whether two values are one: as they are written, or as numbers.
fn same(one: &str, other: &str) -> bool {
    let numbers = one.parse::<f64>().ok().zip(other.parse::<f64>().ok());
    one == other || numbers.is_some_and(|(one, other)| one == other)
}

/// `low .. high`, or nothing when there is no spread.
pub(super) fn spread(row: &Row) -> String {
    if row.low == row.high {
        return String::new();
    }
    format!("{} .. {}", number(row.low), number(row.high))
}

/// How probable a change is by chance, or that it is not told from it.
pub(super) fn chance(row: &Row) -> String {
    match row.p {
        None => String::new(),
        Some(p) if row.may_be_chance() => format!("not told ({p:.2})"),
        Some(p) if p < 1e-4 => "< 0.0001".to_owned(),
        Some(p) => format!("{p:.4}"),
    }
}

impl Outcome {
    /// One JSON object (`neap.experiment/1`) without a newline.
    #[must_use]
    pub fn json(&self) -> Value {
        let mut parameters = Map::new();
        for (parameter, value) in self.values.iter() {
            let value = match value.parse::<f64>() {
                Ok(number) if parameter.words.is_empty() => json!(number),
                _ => json!(value),
            };
            let origin = parameter.origin;
            let entry = json!({
                "value": value,
                "unit": parameter.unit,
                "origin": origin.kind(),
                "source": origin.text(),
                "message_id": origin.mail().map(|mail| mail.id),
            });
            parameters.insert(parameter.key.to_owned(), entry);
        }
        json!({
            "schema": "neap.experiment/1",
            "name": self.experiment.name,
            "title": self.experiment.title,
            "source": self.experiment.source,
            "version": env!("CARGO_PKG_VERSION"),
            "seeds": self.seeds,
            "seed": self.seed,
            "scale": self.scale,
            "parameters": parameters,
            "rows": self.rows,
            "mails": self.experiment.mails.iter().map(|mail| mail.id).collect::<Vec<_>>(),
            "series": self.series,
            "notes": self.notes(),
        })
    }

    /// The row of a metric in a configuration.
    #[must_use]
    pub fn row(&self, metric: &str, config: &str) -> Option<&Row> {
        let is = |row: &&Row| row.metric == metric && row.config == config;
        self.rows.iter().find(is)
    }

    /// What a reader must know to judge these numbers: of the experiment, and of how it was run.
    fn notes(&self) -> Vec<String> {
        let notes = self.experiment.notes.iter();
        let notes = notes.map(|&note| note.to_owned());
        notes.chain(self.chance()).chain(self.caveats()).collect()
    }

    /// What the last column of rows means, if there are changes.
    fn chance(&self) -> Option<String> {
        let changes = self.rows.iter().any(|row| row.p.is_some());
        changes.then(|| {
            format!(
                "By chance: how probable a change so far on one side is if the configurations do not differ, by a \
                 two-sided sign-flip test over the {} pairs of runs with the same seed; from {CHANCE} on it is not \
                 told from chance, with fewer than 6 pairs never less. Changes that are the same with every seed have no \
                 such number: nothing in them is random.",
                self.seeds
            )
        })
    }

    /// What makes this run another than the one reported.
    #[must_use]
    pub fn caveats(&self) -> Vec<String> {
        let changed = |&(parameter, value): &(&Parameter, &str)| {
            let theirs = matches!(parameter.origin, Origin::Posted(..) | Origin::Derived(_));
            theirs && !same(parameter.default, value)
        };
        let reported = self.rows.iter().any(|row| row.reported.is_some());
        let changed: Vec<String> = self
            .values
            .iter()
            .filter(changed)
            .map(|(parameter, value)| {
                format!("{}={}, not {value}", parameter.key, parameter.default)
            })
            .collect();
        let others = (reported && !changed.is_empty())
            .then(|| format!("Reported numbers are for {}.", changed.join("; ")));
        others.into_iter().chain(self.too_small()).collect()
    }

    /// That a build was scaled until nothing runs beside anything else.
    fn too_small(&self) -> Option<String> {
        let is_build = self
            .values
            .iter()
            .any(|(parameter, _)| parameter.key == "units");
        // Only builds scale how many there are.
        let scaled = self
            .values
            .iter()
            .filter(|(parameter, _)| is_build && ["jobs", "cpus"].contains(&parameter.key));
        let left = scaled.filter_map(|(parameter, value)| {
            let of: f64 = value.parse().ok()?;
            let left = (of * self.scale).round().max(1.0);
            (of >= 2.0 && left < 2.0).then(|| format!("one of {of} {}", parameter.key))
        });
        let left: Vec<String> = left.collect();
        let scale = self.scale;
        let note = || {
            format!(
                "Scale {scale} leaves {}: what comes of tasks that run at once is lost; give a larger --scale.",
                left.join(" and ")
            )
        };
        (!left.is_empty()).then(note)
    }

    fn rows_table(&self) -> Table {
        let mut table = Table::new(&[
            ("metric", Align::Left),
            ("config", Align::Left),
            ("unit", Align::Left),
            ("reported", Align::Right),
            ("simulated", Align::Right),
            ("p10 .. p90", Align::Right),
            ("by chance", Align::Right),
        ]);
        for row in &self.rows {
            table.row(vec![
                row.metric.clone(),
                row.config.clone(),
                row.unit.clone(),
                row.reported.map_or_else(|| "-".to_owned(), number),
                number(row.simulated),
                spread(row),
                chance(row),
            ]);
        }
        table
    }

    fn parameters_table(&self) -> Table {
        let mut table = Table::new(&[
            ("parameter", Align::Left),
            ("value", Align::Right),
            ("unit", Align::Left),
            ("from", Align::Left),
            ("in which words, how, or why", Align::Left),
        ]);
        for (parameter, value) in self.values.iter() {
            let (kind, text) = (parameter.origin.kind(), origin(&parameter.origin));
            let cells = [parameter.key, value, parameter.unit, kind, &text];
            table.row(cells.map(str::to_owned).to_vec());
        }
        table
    }

    fn heading(&self) -> String {
        let e = self.experiment;
        let (seeds, last) = (self.seeds, self.seed + self.seeds.saturating_sub(1));
        format!(
            "{} ({}): {}\nscale {}, {seeds} seeds ({} to {last}), neap {}",
            e.name,
            e.source,
            e.title,
            self.scale,
            self.seed,
            env!("CARGO_PKG_VERSION")
        )
    }

    /// The report for people.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("{}\n\n{}\n", self.heading(), self.parameters_table().text());
        text.push_str(&self.rows_table().text());
        let notes = self.notes();
        for note in &notes {
            text.push_str(&format!("\nnote: {note}"));
        }
        if !notes.is_empty() {
            text.push('\n');
        }
        text
    }

    /// Parts of a page: this outcome under a heading.
    #[must_use]
    pub fn parts(&self) -> Vec<Part> {
        let mut parts = vec![
            Part::Heading(self.experiment.name.to_owned()),
            Part::Text(self.heading()),
            Part::Table(self.rows_table()),
        ];
        parts.extend(
            self.experiment
                .headline
                .iter()
                .map(|metric| Part::Svg(self.bars(metric))),
        );
        parts.extend(self.over_time());
        parts.push(Part::Table(self.parameters_table()));
        parts.extend(self.notes().into_iter().map(Part::Text));
        parts
    }

    /// A plot and a table for each number over time.
    fn over_time(&self) -> Vec<Part> {
        let mut metrics: Vec<&str> = self.series.iter().map(|series| series.metric).collect();
        metrics.sort_unstable();
        metrics.dedup();
        metrics
            .into_iter()
            .flat_map(|metric| self.one_over_time(metric))
            .collect()
    }

    fn one_over_time(&self, metric: &str) -> [Part; 2] {
        let all: Vec<&Series> = self
            .series
            .iter()
            .filter(|series| series.metric == metric)
            .collect();
        let curve = |series: &&Series| Curve {
            name: series.config.to_owned(),
            points: series.points.clone(),
        };
        let unit = all.first().map_or("", |series| series.unit);
        let plot = Plot {
            title: format!("{metric} ({unit}), seed {}", self.seed),
            x_name: "seconds".to_owned(),
            log_x: false,
            curves: all.iter().map(curve).collect(),
        };
        let mut columns = vec![("seconds", Align::Right)];
        columns.extend(all.iter().map(|series| (series.config, Align::Right)));
        let mut table = Table::new(&columns);
        let longest = all.iter().map(|series| series.points.len()).max();
        let longest = longest.unwrap_or(0);
        for at in (0..longest).step_by((longest / ROWS).max(1)) {
            let of = |series: &&Series| series.points.get(at).copied();
            let time = all.iter().find_map(of).map_or(0.0, |(time, _)| time);
            let cell = |series| of(series).map_or_else(String::new, |(_, value)| number(value));
            let cells = all.iter().map(cell);
            table.row([number(time)].into_iter().chain(cells).collect());
        }
        [Part::Svg(plot.svg()), Part::Table(table)]
    }

    fn bars(&self, metric: &str) -> String {
        let rows: Vec<&Row> = self
            .rows
            .iter()
            .filter(|row| row.metric == metric)
            .collect();
        let group = |row: &&Row| Group {
            name: row.config.clone(),
            values: vec![
                row.reported.map(|value| (value, value, value)),
                Some((row.simulated, row.low, row.high)),
            ],
        };
        let unit = rows.first().map_or("", |row| row.unit.as_str());
        let bars = Bars {
            title: format!("{metric} ({unit})"),
            series: vec!["reported".to_owned(), "simulated".to_owned()],
            groups: rows.iter().map(group).collect(),
        };
        bars.svg()
    }

    /// One page with tables and plots.
    #[must_use]
    pub fn html(&self) -> String {
        page(
            &format!("neap sim experiment {}", self.experiment.name),
            &self.parts(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{EXPERIMENTS, find};

    fn outcome(name: &str, scale: Option<f64>, sets: &[&str]) -> Outcome {
        let experiment = find(name).unwrap();
        let sets: Vec<String> = sets.iter().map(|&set| set.to_owned()).collect();
        let row = Row {
            metric: "m".to_owned(),
            config: "c".to_owned(),
            unit: "u".to_owned(),
            reported: experiment.reported.first().map(|reported| reported.value),
            simulated: 1.0,
            low: 1.0,
            high: 1.0,
            p: None,
        };
        Outcome {
            experiment,
            seeds: 1,
            seed: 1,
            scale: scale.unwrap_or(experiment.scale),
            values: Values::new(experiment.name, experiment.parameters, &sets).unwrap(),
            rows: vec![row],
            series: Vec::new(),
        }
    }

    #[test]
    fn an_experiment_as_it_is_has_no_caveat() {
        for experiment in EXPERIMENTS {
            let none = outcome(experiment.name, None, &[]).caveats();
            assert!(none.is_empty(), "{none:?}");
        }
        let same = ["processes=70.0", "zstd_compress=15"];
        assert!(outcome("mthp-store", None, &same).caveats().is_empty());
    }

    #[test]
    fn what_was_reported_for_other_parameters_is_named() {
        let set = outcome("mthp-store", None, &["processes=35", "high=100"]);
        let told = "Reported numbers are for processes=70, not 35; high=40960, not 100.";
        assert_eq!(set.caveats(), [told]);
        assert!(set.text().contains(&format!("\nnote: {told}")));
        assert!(set.json()["notes"].to_string().contains(told));
    }

    #[test]
    fn another_word_than_the_reported_one_is_named() {
        let disk = outcome("writeback-rotation", None, &["files=disk"]).caveats();
        assert_eq!(disk, ["Reported numbers are for files=tmpfs, not disk."]);
    }

    #[test]
    fn a_build_of_one_job_is_said_to_be_one() {
        let small = outcome("second-chance", Some(0.02), &[]).caveats();
        assert_eq!(small.len(), 1, "{small:?}");
        assert!(
            small[0].starts_with("Scale 0.02 leaves one of "),
            "{small:?}"
        );
        assert!(small[0].contains(" jobs and one of ") || small[0].contains(" cpus and one of "));
        assert!(outcome("recency", Some(0.001), &[]).caveats().is_empty());
    }
}
