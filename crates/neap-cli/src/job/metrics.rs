//! `neap metrics`: the figures of all jobs for Prometheus, from the engine's one table of them.

use std::fmt::Write as _;

use neap_engine::{Metric, metrics};
use serde_json::Value;

/// Most jobs that are told of: each adds a line to each family.
const MOST_JOBS: usize = 256;

/// How samples are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// The text format of Prometheus, 0.0.4, which everything that scrapes reads.
    Text,
    /// OpenMetrics 1.0.0.
    Open,
}

/// A family of samples.
struct Family {
    name: String,
    kind: &'static str,
    unit: &'static str,
    help: String,
    /// Labels and value of each.
    samples: Vec<(String, f64)>,
}

impl Family {
    fn new(name: &str, kind: &'static str, unit: &'static str, help: &str) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            unit,
            help: help.to_owned(),
            samples: Vec::new(),
        }
    }

    fn of(metric: &Metric) -> Self {
        let ending = format!("_{}", metric.unit);
        let ending = if metric.name.ends_with(&ending) || [metric.name, ""].contains(&metric.unit) {
            ""
        } else {
            &ending
        };
        let prefix = if metric.part == "neap" {
            ""
        } else {
            metric.part
        };
        let joint = if prefix.is_empty() { "" } else { "_" };
        let name = format!("neap_{prefix}{joint}{}{ending}", metric.name);
        let kind = if metric.grows { "counter" } else { "gauge" };
        Self::new(&name, kind, metric.unit, metric.help)
    }

    fn add(&mut self, labels: &[(&str, &str)], value: f64) {
        let label = |(name, value): &(&str, &str)| format!("{name}=\"{}\"", escaped(value));
        let labels: Vec<String> = labels.iter().map(label).collect();
        self.samples.push((labels.join(","), value));
    }

    fn write(&self, text: &mut String, format: Format) {
        if self.samples.is_empty() {
            return;
        }
        let ending = match self.kind {
            "counter" => "_total",
            "info" => "_info",
            _ => "",
        };
        let sample = format!("{}{ending}", self.name);
        let (name, kind, help) = match format {
            Format::Text if self.kind == "info" => (&sample, "gauge", lines_escaped(&self.help)),
            Format::Text => (&sample, self.kind, lines_escaped(&self.help)),
            Format::Open => (&self.name, self.kind, escaped(&self.help)),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# TYPE {name} {kind}");
        if format == Format::Open && !self.unit.is_empty() {
            let _ = writeln!(text, "# UNIT {name} {}", self.unit);
        }
        let _ = writeln!(text, "# HELP {name} {help}");
        for (labels, value) in &self.samples {
            let _ = match labels.is_empty() {
                true => writeln!(text, "{sample} {value}"),
                false => writeln!(text, "{sample}{{{labels}}} {value}"),
            };
        }
    }
}

/// As labels are written, and help in OpenMetrics.
fn escaped(text: &str) -> String {
    lines_escaped(text).replace('"', "\\\"")
}

/// As help is written in the text format.
fn lines_escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n")
}

/// The whole exposition, of what each job answered to `stat`.
#[must_use]
pub fn exposition(stats: &[Value], format: Format) -> String {
    let stats = &stats[..stats.len().min(MOST_JOBS)];
    let mut families = vec![build(), jobs(stats), uptime(stats)];
    families.extend(metrics().iter().map(|metric| {
        let mut family = Family::of(metric);
        for (job, stat) in named(stats) {
            if let Some(value) = stat[metric.part][metric.name].as_f64() {
                family.add(&[("job", job)], value);
            }
        }
        family
    }));
    families.push(events(stats));
    families.extend(pressure(stats));
    let mut text = String::new();
    for family in &families {
        family.write(&mut text, format);
    }
    if format == Format::Open {
        text.push_str("# EOF\n");
    }
    text
}

fn named(stats: &[Value]) -> impl Iterator<Item = (&str, &Value)> {
    stats
        .iter()
        .filter_map(|stat| Some((stat["name"].as_str()?, stat)))
}

fn build() -> Family {
    let mut family = Family::new(
        "neap_build",
        "info",
        "",
        "The version of neap that tells this",
    );
    family.add(&[("version", env!("CARGO_PKG_VERSION"))], 1.0);
    family
}

fn jobs(stats: &[Value]) -> Family {
    let mut family = Family::new(
        "neap_jobs",
        "gauge",
        "",
        "Jobs of this user that run and answer",
    );
    family.add(&[], stats.len() as f64);
    family
}

fn uptime(stats: &[Value]) -> Family {
    let help = "Time since the job began";
    let mut family = Family::new("neap_uptime_seconds", "gauge", "seconds", help);
    for (job, stat) in named(stats) {
        family.add(
            &[("job", job)],
            stat["uptime_seconds"].as_f64().unwrap_or(0.0),
        );
    }
    family
}

fn events(stats: &[Value]) -> Family {
    let help = "Events of the job, by kind, as neap events has them";
    let mut family = Family::new("neap_events", "counter", "", help);
    for (job, stat) in named(stats) {
        for (event, count) in stat["events"].as_object().into_iter().flatten() {
            family.add(
                &[("job", job), ("event", event)],
                count.as_f64().unwrap_or(0.0),
            );
        }
    }
    family
}

/// memory.pressure: the time of it, and the averages.
fn pressure(stats: &[Value]) -> [Family; 2] {
    let mut waited = Family::new(
        "neap_memory_pressure_waiting_seconds",
        "counter",
        "seconds",
        "Time in which some thread waited for memory, or some did and no other ran (full)",
    );
    let mut averages = Family::new(
        "neap_memory_pressure_ratio",
        "gauge",
        "ratio",
        "The same as a share of the last 10, 60 and 300 seconds",
    );
    for (job, stat) in named(stats) {
        for kind in ["some", "full"] {
            let of = &stat["pressure"][kind];
            if let Some(total) = of["total_us"].as_f64() {
                waited.add(&[("job", job), ("kind", kind)], total / 1e6);
            }
            for window in ["avg10", "avg60", "avg300"] {
                if let Some(percent) = of[window].as_f64() {
                    let labels = [("job", job), ("kind", kind), ("window", window)];
                    averages.add(&labels, percent / 100.0);
                }
            }
        }
    }
    [waited, averages]
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use serde_json::json;

    use super::*;

    fn stat(name: &str) -> Value {
        let mut stat = json!({
            "name": name, "uptime_seconds": 1.5, "events": {"limit": 2, "end": 0},
            "pressure": {"some": {"avg10": 12.5, "avg60": 1.0, "avg300": 0.0, "total_us": 2500000},
                         "full": {"avg10": 0.0, "avg60": 0.0, "avg300": 0.0, "total_us": 0}},
        });
        for metric in metrics() {
            stat[metric.part][metric.name] = json!(7);
        }
        stat
    }

    fn is_name(word: &str) -> bool {
        let letters = |c: char| c.is_ascii_alphanumeric() || c == '_';
        word.starts_with(|c: char| c.is_ascii_lowercase()) && word.chars().all(letters)
    }

    /// The labels of a sample, which end at the brace that no quotes surround; and what follows.
    fn labels(text: &str) -> (BTreeMap<String, String>, &str) {
        let mut labels = BTreeMap::new();
        let mut rest = text;
        loop {
            let (name, after) = rest.split_once("=\"").expect("a label");
            assert!(is_name(name), "{name}");
            let mut value = String::new();
            let mut letters = after.char_indices();
            let end = loop {
                match letters.next().expect("the value ends") {
                    (_, '\\') => value.push(letters.next().expect("an escape").1),
                    (at, '"') => break at,
                    (_, letter) => value.push(letter),
                }
            };
            assert!(
                labels.insert(name.to_owned(), value).is_none(),
                "{name} twice"
            );
            rest = &after[end + 1..];
            match rest.strip_prefix(',') {
                Some(more) => rest = more,
                None => return (labels, rest.strip_prefix("} ").expect("the end of labels")),
            }
        }
    }

    /// A strict reader of the format: families in one piece, each with type, unit and help once and in this order, and names
    /// that end as the type and the unit want. Returns the samples.
    fn read(text: &str) -> BTreeMap<(String, BTreeMap<String, String>), f64> {
        let body = text.strip_suffix("# EOF\n").expect("the end");
        assert!(!body.contains("# EOF"));
        let (mut seen, mut samples) = (BTreeSet::new(), BTreeMap::new());
        let (mut family, mut kind, mut told) = (String::new(), String::new(), 0);
        for line in body.lines() {
            if let Some(rest) = line.strip_prefix("# ") {
                let mut words = rest.splitn(3, ' ');
                let mut word = || words.next().expect("a word");
                let (what, name, value) = (word(), word(), word());
                match what {
                    "TYPE" => {
                        assert!(
                            is_name(name) && seen.insert(name.to_owned()),
                            "{name} twice"
                        );
                        assert!(["counter", "gauge", "info"].contains(&value), "{line}");
                        (family, kind, told) = (name.to_owned(), value.to_owned(), 1);
                    }
                    "UNIT" => {
                        assert!(name == family && told == 1, "{line}");
                        assert!(name.ends_with(&format!("_{value}")), "{line}");
                        told = 2;
                    }
                    "HELP" => {
                        assert!(name == family && (1..3).contains(&told), "{line}");
                        told = 3;
                    }
                    _ => panic!("{line}"),
                }
                continue;
            }
            assert_eq!(told, 3, "{line}");
            let ending = match &*kind {
                "counter" => "_total",
                "info" => "_info",
                _ => "",
            };
            let name = format!("{family}{ending}");
            let rest = line.strip_prefix(&name).expect("a sample of its family");
            let (labels, value) = match rest.strip_prefix('{') {
                Some(rest) => labels(rest),
                None => (BTreeMap::new(), rest.strip_prefix(' ').expect("a space")),
            };
            let value: f64 = value.parse().expect("a number");
            assert!(value.is_finite() && (kind != "counter" || value >= 0.0));
            let old = samples.insert((name, labels), value);
            assert!(old.is_none(), "{line} twice");
        }
        samples
    }

    #[test]
    fn the_exposition_is_strict_openmetrics_with_bounded_labels() {
        let samples = read(&exposition(&[stat("a"), stat("b\"\\x")], Format::Open));
        let of = |name: &str, labels: &[(&str, &str)]| {
            let owned = labels
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            samples[&(name.to_owned(), owned.collect())]
        };
        assert_eq!(of("neap_vmstat_zswpout_pages_total", &[("job", "a")]), 7.0);
        assert_eq!(of("neap_memory_limit_bytes", &[("job", "b\"\\x")]), 7.0);
        let some = [("job", "a"), ("kind", "some")];
        assert_eq!(of("neap_memory_pressure_waiting_seconds_total", &some), 2.5);
        let names: BTreeSet<&str> = samples
            .keys()
            .flat_map(|(_, labels)| labels.keys().map(|name| &**name))
            .collect();
        assert_eq!(
            names,
            BTreeSet::from(["event", "job", "kind", "version", "window"])
        );
        assert_eq!(read(&exposition(&[], Format::Open)).len(), 2, "no job");
        let many: Vec<Value> = (0..300).map(|n| stat(&n.to_string())).collect();
        assert_eq!(
            read(&exposition(&many, Format::Open)).len(),
            1 + 1 + MOST_JOBS * (samples.len() - 2) / 2
        );
    }

    #[test]
    fn the_text_format_has_the_same_samples_with_types_and_help_of_their_names() {
        let stats = [stat("a"), stat("all/b\"\\x")];
        let [text, open] = [Format::Text, Format::Open].map(|format| exposition(&stats, format));
        let samples = |text: &str| -> Vec<String> {
            let lines = text.lines().filter(|line| !line.starts_with('#'));
            lines.map(str::to_owned).collect()
        };
        assert_eq!(samples(&text), samples(&open));
        assert!(!text.contains("# UNIT") && !text.contains("# EOF"));
        let mut family = "";
        for line in text.lines() {
            let words: Vec<_> = line.splitn(4, ' ').collect();
            match words[..] {
                ["#", "TYPE", name, kind] => {
                    assert!(["counter", "gauge"].contains(&kind), "{line}");
                    assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
                    family = name;
                }
                ["#", "HELP", name, help] => assert!(name == family && !help.contains("\\\"")),
                _ => assert_eq!(line.split(['{', ' ']).next(), Some(family), "{line}"),
            }
        }
    }

    #[test]
    fn the_dashboard_asks_for_what_there_is() {
        let text = include_str!("../../../../docs/guide/grafana-neap.json");
        let board: Value = serde_json::from_str(text).expect("JSON");
        let samples = read(&exposition(&[stat("a")], Format::Open));
        let names: BTreeSet<&str> = samples.keys().map(|(name, _)| &**name).collect();
        let mut asked = 0;
        for target in board["panels"]
            .as_array()
            .expect("panels")
            .iter()
            .flat_map(|panel| panel["targets"].as_array().into_iter().flatten())
        {
            let expr = target["expr"].as_str().expect("a query");
            let words = expr.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            for word in words.filter(|word| word.starts_with("neap_")) {
                assert!(names.contains(word), "{word}");
                asked += 1;
            }
        }
        assert!(asked > 10, "{asked}");
    }
}
