//! What a page is made of: the figures of a job, and its run over time.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use neap_control::{Column, Part, Request, Sample, Series};
use serde_json::Value;

use super::super::failure::Failure;
use super::super::find::Job;

/// Largest statistics file that is read. With all processes and warnings that neap lists it is far smaller.
const LARGEST: u64 = 64 << 20;
/// Samples that are drawn at most.
const DRAWN: usize = 512;

/// What is known of a job.
pub struct Told {
    /// Its figures, as `neap stat --json` or `--stats` have them.
    pub figures: Value,
    /// The run.
    pub series: Series,
    /// Of a service: what its jobs used.
    pub parts: Vec<Part>,
}

impl Told {
    /// A job that runs, up to now.
    ///
    /// # Errors
    /// There is none, or it does not answer.
    pub fn by_job(word: Option<&str>) -> Result<Self, Failure> {
        let job = Job::find(word)?;
        let series = job.ask(Request::Series)?;
        let figures = job.stat()?;
        Self::of(figures, &series, &job.name)
    }

    /// One that has ended, by the file that `neap run --stats` wrote; `-` is standard input.
    ///
    /// # Errors
    /// It cannot be read, or is no such file.
    pub fn by_file(path: &Path) -> Result<Self, Failure> {
        let name = path.display().to_string();
        let fail = |why: String| Failure::Stats {
            path: name.clone(),
            why,
        };
        let text = read(path).map_err(|error| fail(error.to_string()))?;
        let mut figures: Value = serde_json::from_slice(&text)
            .map_err(|error| fail(format!("it is damaged, or no statistics file: {error}")))?;
        if figures["schema"] != crate::run::report::SCHEMA {
            return Err(fail("it is no statistics file of neap run".to_owned()));
        }
        let series = figures["series"].take();
        Self::of(figures, &series, &name)
    }

    fn of(figures: Value, series: &Value, name: &str) -> Result<Self, Failure> {
        let parts = Part::read_all(series);
        let series = Series::read(series).map_err(|error| Failure::Stats {
            path: name.to_owned(),
            why: match figures["managed"].as_bool() {
                Some(false) => {
                    "the command ran without a limit, so there is nothing to show".to_owned()
                }
                _ => error.to_string(),
            },
        })?;
        Ok(Self {
            figures,
            series: few(&series),
            parts,
        })
    }

    /// A number of the figures, by its path.
    #[must_use]
    pub fn number(&self, path: &str) -> u64 {
        let number = self.figures.pointer(path);
        number.and_then(Value::as_u64).unwrap_or(0)
    }

    /// Text of the figures, by its path.
    #[must_use]
    pub fn text(&self, path: &str) -> Option<&str> {
        self.figures.pointer(path).and_then(Value::as_str)
    }

    /// The command line, as far as a page has room for it.
    #[must_use]
    pub fn command(&self) -> String {
        const LETTERS: usize = 2000;
        let words = self.figures["command"].as_array().into_iter().flatten();
        let words: Vec<&str> = words.filter_map(Value::as_str).collect();
        let line = words.join(" ");
        match line.char_indices().nth(LETTERS) {
            Some((at, _)) => format!("{} ...", &line[..at]),
            None => line,
        }
    }

    /// What it is called: its name, or else its program's.
    #[must_use]
    pub fn name(&self) -> String {
        let name = self.text("/name").filter(|name| !name.is_empty());
        let program = || {
            let path = self.text("/command/0")?;
            path.rsplit('/').find(|part| !part.is_empty())
        };
        name.or_else(program).unwrap_or("a job").to_owned()
    }
}

/// No more samples than are drawn.
fn few(series: &Series) -> Series {
    let mut few = Series::new(DRAWN, 0);
    series.samples().iter().for_each(|sample| few.push(*sample));
    few
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let mut take = |file: &mut dyn Read| file.take(LARGEST + 1).read_to_end(&mut text);
    match path == Path::new("-") {
        true => take(&mut io::stdin().lock())?,
        false => take(&mut File::open(path)?)?,
    };
    match text.len() as u64 > LARGEST {
        true => Err(io::Error::other("it is too large for a statistics file")),
        false => Ok(text),
    }
}

/// A figure of all samples.
pub fn all(samples: &[Sample], column: Column) -> Vec<f64> {
    let values = samples.iter().map(|sample| sample.get(column) as f64);
    values.collect()
}

/// How much a sum grew each second, since the sample before.
pub fn rates(samples: &[Sample], column: Column) -> Vec<f64> {
    let rate = |pair: &[Sample]| {
        let more = |column| pair[1].get(column).saturating_sub(pair[0].get(column));
        match more(Column::Time) {
            0 => 0.0,
            millis => more(column) as f64 * 1000.0 / millis as f64,
        }
    };
    let mut rates: Vec<f64> = samples.windows(2).map(rate).collect();
    // Nothing is before the first.
    rates.insert(0, rates.first().copied().unwrap_or(0.0));
    rates.truncate(samples.len());
    rates
}

/// The time over which shares are taken, in milliseconds: the engine moves the sum of `full` on that often (PSI_PERIOD).
const WINDOW: u64 = 2000;

/// Share of the last 2 s in which some thread waited, and in which no other ran, in percent.
pub fn shares(samples: &[Sample]) -> [Vec<f64>; 2] {
    let times: Vec<u64> = samples
        .iter()
        .map(|sample| sample.get(Column::Time))
        .collect();
    let some = grown(&times, &all(samples, Column::Some));
    let sums = all(samples, Column::Full);
    let mut full = grown(&times, &evened(&times, &sums));
    // What has come since it moved last is not known yet: as before, for as long as that may be so.
    let moved = (1..sums.len()).rev().find(|&at| sums[at] > sums[at - 1]);
    for at in moved.map_or(0..0, |moved| moved + 1..sums.len()) {
        if times[at] - times[at - 1] < WINDOW && times[at] - times[moved.unwrap_or(0)] <= WINDOW {
            full[at] = full[at - 1];
        }
    }
    let full = full.iter().zip(&some).map(|(full, some)| full.min(*some));
    [some.clone(), full.collect()]
}

/// A sum that moves once in a while, moved on evenly: what is new has come in the time since it moved last, or in the last 2 s.
fn evened(times: &[u64], sums: &[f64]) -> Vec<f64> {
    let mut even = sums.to_vec();
    let mut moved = 0;
    for at in 1..sums.len() {
        if sums[at] <= sums[at - 1] {
            continue;
        }
        let begin = times[moved].max(times[at].saturating_sub(WINDOW));
        let whole = (times[at] - begin).max(1) as f64;
        for between in moved + 1..at {
            let part = times[between].saturating_sub(begin) as f64 / whole;
            even[between] += (sums[at] - sums[at - 1]) * part;
        }
        moved = at;
    }
    even
}

/// How much a sum of microseconds grew in the last 2 s, or since the sample before if that is longer ago, in percent.
fn grown(times: &[u64], sums: &[f64]) -> Vec<f64> {
    let mut from = 0;
    let share = |at: usize| {
        while from + 1 < at && times[at] - times[from + 1] >= WINDOW {
            from += 1;
        }
        match times[at] - times[from] {
            0 => 0.0,
            millis => ((sums[at] - sums[from]) / millis as f64 / 10.0).clamp(0.0, 100.0),
        }
    };
    (0..sums.len()).map(share).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn samples(of: &[(u64, u64)]) -> Vec<Sample> {
        let sample = |(time, sum): &(u64, u64)| {
            let sample = Sample::default().with(Column::Time, *time);
            sample.with(Column::Stored, *sum).with(Column::Some, *sum)
        };
        of.iter().map(sample).collect()
    }

    #[test]
    fn a_rate_is_what_came_since_the_sample_before() {
        let rates = |of| rates(&samples(of), Column::Stored);
        assert!(rates(&[]).is_empty());
        assert_eq!(rates(&[(0, 5)]), [0.0]);
        assert_eq!(
            rates(&[(0, 0), (500, 10), (500, 20), (1500, 5)]),
            [20.0, 20.0, 0.0, 0.0]
        );
    }

    #[test]
    fn a_share_is_of_the_last_two_seconds_and_never_more_than_all() {
        let some = |of| shares(&samples(of))[0].clone();
        assert!(some(&[]).is_empty());
        assert_eq!(some(&[(0, 0), (1000, 500_000)]), [0.0, 50.0]);
        let seconds = [
            (0, 0),
            (1000, 1_000_000),
            (2000, 2_000_000),
            (3000, 2_000_000),
            (4000, 2_000_000),
            (9000, 4_500_000),
        ];
        assert_eq!(some(&seconds), [0.0, 100.0, 100.0, 50.0, 0.0, 50.0]);
        assert_eq!(some(&[(0, 0), (10, u64::MAX)]), [0.0, 100.0]);
    }

    /// The engine moves it every 2 s, also where samples come ten times a second.
    #[test]
    fn what_moves_in_steps_is_shown_as_it_came() {
        let sample = |at: u64| {
            let sample = Sample::default().with(Column::Time, at * 100);
            let sample = sample.with(Column::Some, at * 60_000);
            sample.with(Column::Full, (at + 3) / 20 * 1_000_000)
        };
        let samples: Vec<Sample> = (0..200).map(sample).collect();
        let [some, full] = shares(&samples);
        assert!(some[1..].iter().all(|share| (share - 60.0).abs() < 0.01));
        assert!(
            full[40..].iter().all(|share| (share - 50.0).abs() < 0.01),
            "{full:?}"
        );
        assert!(full.iter().zip(&some).all(|(full, some)| full <= some));
    }

    #[test]
    fn nobody_waited_before_the_last_two_seconds_of_a_long_time_in_which_nothing_moved() {
        let even = evened(
            &[0, 1000, 9000, 10_000, 11_000],
            &[0.0, 0.0, 0.0, 0.0, 80.0],
        );
        assert_eq!(even, [0.0, 0.0, 0.0, 40.0, 80.0]);
    }

    fn fault(text: &str) -> String {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), text).expect("room");
        let failure = Told::by_file(file.path()).err().expect("it is damaged");
        assert_eq!(
            (failure.code(), failure.to_string().lines().count()),
            ("E0308", 1)
        );
        failure.to_string()
    }

    #[test]
    fn a_file_that_is_damaged_or_another_is_told_of_in_one_line() {
        assert!(fault("").contains("it is damaged"));
        assert!(fault("{\"schema\":\"neap.run/1\",").contains("it is damaged"));
        assert!(fault("[1,2]").contains("no statistics file of neap run"));
        assert!(fault("{\"schema\":\"neap.bench/1\"}").contains("no statistics file of neap run"));
        assert!(fault("{\"schema\":\"neap.run/1\"}").contains("no series"));
        let unmanaged = json!({"schema": "neap.run/1", "managed": false});
        assert!(fault(&unmanaged.to_string()).contains("without a limit"));
        let strange = json!({"schema": "neap.run/1", "series": {"schema": "neap.series/9"}});
        assert!(fault(&strange.to_string()).contains("no neap.series/1"));
    }
}
