//! Which charts there are, and what is in them.

use neap_control::{AGES, Column, Part, Sample, Series};
use neap_units::PAGE_SIZE;

use super::chart::{Chart, Line};
use super::scale::Unit;
use super::told::{all, rates, shares};

/// All charts of a run, and of the jobs in it if it is a service's.
pub fn charts(series: &Series, parts: &[Part]) -> Vec<Chart> {
    let samples = series.samples();
    let mut charts = vec![memory(samples)];
    if !parts.is_empty() {
        charts.push(jobs(samples, parts));
    }
    charts.extend([
        disk(samples),
        waiting(samples),
        moves(samples),
        ages(samples),
    ]);
    charts
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
    let mut areas = vec![
        now("resident", Column::Resident),
        now("pool", Column::Pool),
        now("neap itself", Column::Own),
    ];
    // A job in a service has none of its own.
    areas.retain(|area| area.name != "neap itself" || area.values.iter().any(|&own| own > 0.0));
    Chart {
        areas,
        lines: vec![
            now("limit", Column::Limit),
            now("highest use", Column::Most),
        ],
        ..empty(samples, Unit::Bytes, "Memory", about)
    }
}

/// The jobs of a service above each other, the largest first.
fn jobs(samples: &[Sample], parts: &[Part]) -> Chart {
    /// Jobs with an area of their own: with the rest, as many as there are colours.
    const SHOWN: usize = 7;
    let about = "What each of the largest jobs that still run uses. The rest is neap itself, other jobs, and those that have ended.";
    let most = |part: &Part| part.used.iter().map(|(_, used)| *used).max();
    let mut largest: Vec<&Part> = parts.iter().collect();
    largest.sort_by_key(|part| std::cmp::Reverse(most(part)));
    largest.truncate(SHOWN);
    let area = |part: &&Part| {
        let at = |sample: &Sample| part.at(sample.get(Column::Time)) as f64;
        line(&part.name, samples.iter().map(at).collect())
    };
    let mut areas: Vec<Line> = largest.iter().map(area).collect();
    let rest = samples.iter().enumerate().map(|(at, sample)| {
        let told: f64 = areas.iter().map(|area| area.values[at]).sum();
        (sample.get(Column::Current) as f64 - told).max(0.0)
    });
    let rest = line("the rest", rest.collect());
    areas.push(rest);
    Chart {
        areas,
        lines: vec![line("limit", all(samples, Column::Limit))],
        ..empty(samples, Unit::Bytes, "Memory of each job", about)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(of: &[(u64, u64)]) -> Vec<Sample> {
        let sample = |(time, used): &(u64, u64)| {
            let sample = Sample::default().with(Column::Time, *time);
            sample.with(Column::Current, *used)
        };
        of.iter().map(sample).collect()
    }

    #[test]
    fn jobs_lie_on_each_other_and_the_rest_is_what_is_left() {
        let part = |name: &str, used: &[(u64, u64)]| Part {
            name: name.to_owned(),
            used: used.to_vec(),
        };
        let parts = [
            part("small", &[(1000, 10)]),
            part("large", &[(0, 60), (2000, 90)]),
        ];
        let chart = jobs(&samples(&[(0, 70), (1000, 80), (2000, 95)]), &parts);
        let areas = chart
            .areas
            .iter()
            .map(|area| (&*area.name, area.values.clone()));
        let areas: Vec<_> = areas.collect();
        assert_eq!(areas[0], ("large", vec![60.0, 60.0, 90.0]));
        assert_eq!(areas[1], ("small", vec![0.0, 10.0, 10.0]));
        assert_eq!(areas[2], ("the rest", vec![10.0, 10.0, 0.0]));
        let many: Vec<_> = (0..40)
            .map(|at| part(&at.to_string(), &[(0, at)]))
            .collect();
        assert_eq!(jobs(&samples(&[(0, 70)]), &many).areas.len(), 8);
    }

    #[test]
    fn a_job_in_a_service_has_no_area_of_what_is_not_counted_for_it() {
        let areas = |own| {
            let sample = Sample::default().with(Column::Own, own);
            memory(&[sample]).areas.len()
        };
        assert_eq!((areas(0), areas(7)), (2, 3));
    }
}
