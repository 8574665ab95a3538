//! Which charts there are, and what is in them.

use neap_control::{AGES, Column, Sample};
use neap_units::PAGE_SIZE;

use super::chart::{Chart, Line};
use super::scale::Unit;
use super::told::{all, rates, shares};

/// All charts of these samples.
pub fn charts(samples: &[Sample]) -> Vec<Chart> {
    vec![
        memory(samples),
        disk(samples),
        waiting(samples),
        moves(samples),
        ages(samples),
    ]
}

fn line(name: &str, values: Vec<f64>) -> Line {
    let name = name.to_owned();
    Line { name, values }
}

/// One without figures yet.
fn empty(samples: &[Sample], unit: Unit, title: &'static str, about: &'static str) -> Chart {
    let times = all(samples, Column::Time);
    Chart {
        title,
        about,
        unit,
        times: times.iter().map(|millis| millis / 1000.0).collect(),
        areas: Vec::new(),
        lines: Vec::new(),
        steps: unit == Unit::Rate,
    }
}

fn memory(samples: &[Sample]) -> Chart {
    let about =
        "What counts against the limit. The highest use between two samples is a line of its own.";
    let now = |name, column| line(name, all(samples, column));
    Chart {
        areas: vec![
            now("resident", Column::Resident),
            now("pool", Column::Pool),
            now("neap itself", Column::Own),
        ],
        lines: vec![
            now("limit", Column::Limit),
            now("highest use", Column::Most),
        ],
        ..empty(samples, Unit::Bytes, "Memory", about)
    }
}

fn disk(samples: &[Sample]) -> Chart {
    let about = "What the swap file holds, compressed as it is.";
    Chart {
        areas: vec![line("swap file", all(samples, Column::Swap))],
        ..empty(samples, Unit::Bytes, "On disk", about)
    }
}

fn waiting(samples: &[Sample]) -> Chart {
    let about = "Share of the last 2 s. Some: a thread waited for a page or for room. Full: none of the job ran meanwhile.";
    let [some, full] = shares(samples);
    Chart {
        lines: vec![line("some", some), line("full", full)],
        ..empty(samples, Unit::Percent, "Waiting for memory", about)
    }
}

fn moves(samples: &[Sample]) -> Chart {
    let about = "Pages of each second, since the sample before. Faults are those that had to load.";
    let rate = |name, column| line(name, rates(samples, column));
    Chart {
        lines: vec![
            rate("compressed", Column::Stored),
            rate("decompressed", Column::Loaded),
            rate("written to disk", Column::Written),
            rate("read from disk", Column::Read),
            rate("faults", Column::Major),
        ],
        ..empty(samples, Unit::Rate, "Pages that move", about)
    }
}

fn ages(samples: &[Sample]) -> Chart {
    let about = "Resident pages by the age of their generation: neap saw them in use that long ago at most. \
                 Pages on probation came back too late to count as young.";
    let names = ["1 s", "10 s", "1 min", "10 min", "1 h", "older"];
    let columns = AGES.iter().map(|(column, _)| *column);
    let classes = columns.zip(names);
    let all = classes.chain([(Column::Probation, "on probation")]);
    let bytes = |(column, name)| {
        let pages = self::all(samples, column);
        let bytes = pages.iter().map(|pages| pages * PAGE_SIZE as f64);
        line(name, bytes.collect())
    };
    Chart {
        areas: all.map(bytes).collect(),
        ..empty(samples, Unit::Bytes, "Resident pages by age", about)
    }
}
