//! What an experiment gave: rows of reported beside simulated, as table, JSON and page.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{Experiment, Origin, Values};
use crate::report::{Align, Bars, Group, Part, Table, number, page};

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
}

impl std::fmt::Debug for Experiment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

fn origin(origin: Origin) -> (&'static str, &'static str) {
    match origin {
        Origin::Seed(which) => ("seed", which),
        Origin::Chosen(why) => ("chosen", why),
    }
}

/// `low .. high`, or nothing when there is no spread.
fn spread(row: &Row) -> String {
    if row.low == row.high {
        return String::new();
    }
    format!("{} .. {}", number(row.low), number(row.high))
}

impl Outcome {
    /// One JSON object (`neap.experiment/1`) without a newline.
    #[must_use]
    pub fn json(&self) -> Value {
        let mut parameters = Map::new();
        for (parameter, value) in self.values.iter() {
            let (kind, text) = origin(parameter.origin);
            let value = match value.parse::<f64>() {
                Ok(number) if parameter.words.is_empty() => json!(number),
                _ => json!(value),
            };
            let entry =
                json!({"value": value, "unit": parameter.unit, "origin": kind, "source": text});
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
            "notes": self.experiment.notes,
        })
    }

    /// The row of a metric in a configuration.
    #[must_use]
    pub fn row(&self, metric: &str, config: &str) -> Option<&Row> {
        let is = |row: &&Row| row.metric == metric && row.config == config;
        self.rows.iter().find(is)
    }

    fn rows_table(&self) -> Table {
        let mut table = Table::new(&[
            ("metric", Align::Left),
            ("config", Align::Left),
            ("unit", Align::Left),
            ("reported", Align::Right),
            ("simulated", Align::Right),
            ("p10 .. p90", Align::Right),
        ]);
        for row in &self.rows {
            table.row(vec![
                row.metric.clone(),
                row.config.clone(),
                row.unit.clone(),
                row.reported.map_or_else(|| "-".to_owned(), number),
                number(row.simulated),
                spread(row),
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
            ("which, or why", Align::Left),
        ]);
        for (parameter, value) in self.values.iter() {
            let (kind, text) = origin(parameter.origin);
            let cells = [parameter.key, value, parameter.unit, kind, text];
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
        for note in self.experiment.notes {
            text.push_str(&format!("\nnote: {note}"));
        }
        if !self.experiment.notes.is_empty() {
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
        parts.push(Part::Table(self.parameters_table()));
        parts.extend(
            self.experiment
                .notes
                .iter()
                .map(|&note| Part::Text(note.to_owned())),
        );
        parts
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
