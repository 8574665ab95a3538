//! A run over time: samples of a job's figures at growing distances, and the object of JSON that they are told in.
//!
//! The number of samples is bounded. Once there are as many as may be, every second one goes and the distance doubles. So a
//! run of any length has a series of the same size, which covers it from its beginning. Counters are kept as sums, and the
//! highest usage of what goes is kept: neither a rate nor a peak is lost.

use serde_json::{Map, Value, json};
use thiserror::Error;

/// The name of the format. Within it columns are only added.
pub const SERIES: &str = "neap.series/1";

/// Most samples that are read.
pub(crate) const MOST_READ: usize = 1 << 16;

macro_rules! columns {
    ($($(#[doc = $help:literal])+ $column:ident: $name:literal, $unit:literal, $grows:literal;)+) => {
        /// One figure of each sample.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Column {
            $($(#[doc = $help])+ $column,)+
        }

        impl Column {
            /// All of them, in the order in which a sample has them.
            pub const ALL: &'static [Self] = &[$(Self::$column,)+];

            /// Its name in JSON.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$column => $name,)+
                }
            }

            /// What it counts.
            #[must_use]
            pub fn unit(self) -> &'static str {
                match self {
                    $(Self::$column => $unit,)+
                }
            }

            /// Whether it is a sum that only grows.
            #[must_use]
            pub fn grows(self) -> bool {
                match self {
                    $(Self::$column => $grows,)+
                }
            }
        }
    };
}

columns! {
    /// Since the job began.
    Time: "time_ms", "milliseconds", true;
    /// The limit.
    Limit: "limit_bytes", "bytes", false;
    /// What counts against it.
    Current: "current_bytes", "bytes", false;
    /// The most that counted against it since the sample before.
    Most: "most_bytes", "bytes", false;
    /// Anonymous memory of the programs.
    Resident: "resident_bytes", "bytes", false;
    /// The pool of compressed pages.
    Pool: "pool_bytes", "bytes", false;
    /// Neap's own memory beside the pool.
    Own: "own_bytes", "bytes", false;
    /// What the swap file holds.
    Swap: "swap_used_bytes", "bytes", false;
    /// Time in which some thread waited for memory.
    Some: "some_us", "microseconds", true;
    /// The part of it in which no other ran.
    Full: "full_us", "microseconds", true;
    /// Pages compressed.
    Stored: "zswpout", "pages", true;
    /// Pages decompressed.
    Loaded: "zswpin", "pages", true;
    /// Pages written to the swap file.
    Written: "zswpwb", "pages", true;
    /// Pages read from the swap file.
    Read: "pswpin", "pages", true;
    /// Faults that needed one of the two.
    Major: "pgmajfault", "faults", true;
    /// Pages that came back.
    Refaults: "workingset_refault_anon", "pages", true;
    /// Pages on probation.
    Probation: "probation_pages", "pages", false;
    /// Pages of generations that are at most 1 s old.
    Age1s: "age_1s_pages", "pages", false;
    /// At most 10 s.
    Age10s: "age_10s_pages", "pages", false;
    /// At most 1 min.
    Age1min: "age_1min_pages", "pages", false;
    /// At most 10 min.
    Age10min: "age_10min_pages", "pages", false;
    /// At most 1 h.
    Age1h: "age_1h_pages", "pages", false;
    /// Older.
    AgeMore: "age_more_pages", "pages", false;
}

/// Classes of age, each with the oldest that is in it, in milliseconds.
pub const AGES: [(Column, u64); 6] = [
    (Column::Age1s, 1_000),
    (Column::Age10s, 10_000),
    (Column::Age1min, 60_000),
    (Column::Age10min, 600_000),
    (Column::Age1h, 3_600_000),
    (Column::AgeMore, u64::MAX),
];

const COLUMNS: usize = Column::AgeMore as usize + 1;

/// All figures at one time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample([u64; COLUMNS]);

impl Default for Sample {
    fn default() -> Self {
        Self([0; COLUMNS])
    }
}

impl Sample {
    /// One figure.
    #[must_use]
    pub fn get(&self, column: Column) -> u64 {
        self.0[column as usize]
    }

    /// Sets one figure.
    pub fn set(&mut self, column: Column, value: u64) {
        self.0[column as usize] = value;
    }

    /// The same with this figure.
    #[must_use]
    pub fn with(mut self, column: Column, value: u64) -> Self {
        self.set(column, value);
        self
    }

    /// It stands for the one before it, too.
    fn take_in(&mut self, earlier: &Self) {
        let most = self.get(Column::Most).max(earlier.get(Column::Most));
        self.set(Column::Most, most);
    }
}

/// Samples in the order of time.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Series {
    samples: Vec<Sample>,
    most: usize,
    period: u64,
}

/// Why something is no series. The text is for people.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum NoSeries {
    /// Nothing of the kind.
    #[error("it has no series of samples")]
    None,
    /// Another format.
    #[error("its series is no {SERIES}")]
    Format,
    /// A column that is missing or holds something else.
    #[error("its series has no column {0} of whole numbers")]
    Column(&'static str),
    /// Columns of different length, or of too many.
    #[error("the columns of its series differ in length, or have more than {MOST_READ} samples")]
    Length,
    /// A later sample is of an earlier time.
    #[error("the times of its series go back")]
    Order,
}

impl Series {
    /// An empty one of at most so many samples, at first so many milliseconds apart.
    ///
    /// # Panics
    /// If that is fewer than three.
    #[must_use]
    pub fn new(most: usize, period: u64) -> Self {
        assert!(most > 2, "a first, a last, and one between");
        Self {
            samples: Vec::new(),
            most,
            period,
        }
    }

    /// All samples.
    #[must_use]
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// Whether it is time for another one.
    #[must_use]
    pub fn is_due(&self, time: u64) -> bool {
        let last = self.samples.last();
        last.is_none_or(|last| time >= last.get(Column::Time).saturating_add(self.period))
    }

    /// One more, whether or not it is time. It is no earlier than the last.
    pub fn push(&mut self, sample: Sample) {
        if self.samples.capacity() == 0 {
            self.samples.reserve_exact(self.most);
        }
        if self.samples.len() >= self.most {
            self.halve();
        }
        self.samples.push(sample);
    }

    /// One more, if it is later than all others.
    pub fn push_if_later(&mut self, sample: Sample) {
        let time = |sample: &Sample| sample.get(Column::Time);
        let last = self.samples.last();
        if last.is_none_or(|last| time(last) < time(&sample)) {
            self.push(sample);
        }
    }

    /// Every second one goes, but not the first. The one behind it stands for both.
    fn halve(&mut self) {
        let mut kept = 1;
        let mut at = 1;
        while at < self.samples.len() {
            let last = (at + 1).min(self.samples.len() - 1);
            let earlier = self.samples[at];
            self.samples[kept] = self.samples[last];
            self.samples[kept].take_in(&earlier);
            kept += 1;
            at += 2;
        }
        self.samples.truncate(kept);
        self.period = self.period.saturating_mul(2);
    }

    /// The object of JSON.
    #[must_use]
    pub fn object(&self) -> Value {
        let column = |&column: &Column| {
            let values = self.samples.iter().map(|sample| sample.get(column));
            (column.name().to_owned(), values.collect())
        };
        let columns: Map<String, Value> = Column::ALL.iter().map(column).collect();
        json!({"schema": SERIES, "period_ms": self.period, "columns": columns})
    }

    /// Reads it. What a later version has added is passed over.
    ///
    /// # Errors
    /// It is none.
    pub fn read(object: &Value) -> Result<Self, NoSeries> {
        let Value::Object(object) = object else {
            return Err(NoSeries::None);
        };
        if object.get("schema").and_then(Value::as_str) != Some(SERIES) {
            return Err(NoSeries::Format);
        }
        let period = object.get("period_ms").and_then(Value::as_u64);
        let period = period.ok_or(NoSeries::Column("period_ms"))?;
        let columns = object.get("columns").and_then(Value::as_object);
        let mut samples: Vec<Sample> = Vec::new();
        for (at, &column) in Column::ALL.iter().enumerate() {
            let fault = NoSeries::Column(column.name());
            let values = columns.and_then(|columns| columns.get(column.name())?.as_array());
            let values = values.ok_or_else(|| fault.clone())?;
            if at == 0 && values.len() <= MOST_READ {
                samples.resize(values.len(), Sample::default());
            }
            if values.len() != samples.len() {
                return Err(NoSeries::Length);
            }
            for (sample, value) in samples.iter_mut().zip(values) {
                sample.set(column, value.as_u64().ok_or_else(|| fault.clone())?);
            }
        }
        let times = samples.iter().map(|sample| sample.get(Column::Time));
        if !times.is_sorted() {
            return Err(NoSeries::Order);
        }
        let most = samples.len().max(3);
        Ok(Self {
            samples,
            most,
            period,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time: u64) -> Sample {
        let counted = Sample::default().with(Column::Time, time);
        counted.with(Column::Stored, time * 3)
    }

    /// What is pushed whenever it is due, of a run of so many steps.
    fn run(most: usize, steps: u64) -> Series {
        let mut series = Series::new(most, 10);
        let mut peak = 0;
        for time in 0..steps {
            let usage = (time * 7919) % 1000;
            peak = peak.max(usage);
            if series.is_due(time) {
                series.push(at(time).with(Column::Most, peak));
                peak = 0;
            }
        }
        series
    }

    #[test]
    fn a_series_is_bounded_whole_and_ever_coarser() {
        for (most, steps) in [(3, 1), (3, 500), (4, 5000), (16, 150), (16, 100_000)] {
            let series = run(most, steps);
            let samples = series.samples();
            assert!(samples.len() <= most && samples.len() > (most / 2).min(samples.len() - 1));
            let time = |sample: &Sample| sample.get(Column::Time);
            assert_eq!(time(&samples[0]), 0);
            assert!(!series.is_due(time(&samples[samples.len() - 1])));
            for pair in samples.windows(2) {
                let apart = time(&pair[1]) - time(&pair[0]);
                assert!(
                    apart > 0 && apart <= series.period,
                    "{apart} {}",
                    series.period
                );
                assert_eq!(pair[1].get(Column::Stored), time(&pair[1]) * 3);
            }
        }
    }

    #[test]
    fn the_highest_usage_is_in_it_however_coarse_it_is() {
        for (most, steps) in [(3, 900), (5, 7001), (16, 100_001)] {
            let series = run(most, steps);
            let seen = series.samples().iter().map(|s| s.get(Column::Most)).max();
            let last = series.samples().last().expect("a sample").get(Column::Time);
            let real = (0..=last).map(|time| (time * 7919) % 1000).max();
            assert_eq!(seen, real, "{most} {steps}");
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        for series in [run(16, 0), run(16, 40), run(8, 3000)] {
            let read = Series::read(&series.object()).expect("it is one");
            assert_eq!(read.samples(), series.samples());
            assert_eq!(read.object(), series.object());
        }
    }

    #[test]
    fn the_schema_has_every_column() {
        let schema = include_str!("../../../docs/guide/series.schema.json");
        let schema: Value = serde_json::from_str(schema).expect("JSON");
        let columns = &schema["properties"]["columns"];
        let required = columns["required"].as_array().expect("a list");
        let names: Vec<_> = Column::ALL.iter().map(|column| column.name()).collect();
        assert_eq!(*required, names);
        for column in Column::ALL {
            let kind = if column.grows() { "sums" } else { "values" };
            let told = &columns["properties"][column.name()]["$ref"];
            assert_eq!(*told, format!("#/$defs/{kind}"), "{column:?}");
        }
        assert_eq!(schema["$id"], SERIES);
    }

    #[test]
    fn each_column_has_one_name() {
        let mut names: Vec<_> = Column::ALL.iter().map(|column| column.name()).collect();
        assert_eq!((names.len(), names[0]), (COLUMNS, "time_ms"));
        assert!(
            Column::ALL
                .iter()
                .enumerate()
                .all(|(at, c)| *c as usize == at)
        );
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), COLUMNS);
    }

    #[test]
    fn what_is_damaged_is_refused_for_what_is_wrong_with_it() {
        let good = run(16, 40).object();
        let with = |path: &str, value: Value| {
            let mut bad = good.clone();
            *bad.pointer_mut(path).expect("it is there") = value;
            Series::read(&bad)
        };
        assert_eq!(Series::read(&json!(null)), Err(NoSeries::None));
        assert_eq!(Series::read(&json!({})), Err(NoSeries::Format));
        assert_eq!(
            with("/schema", json!("neap.series/2")),
            Err(NoSeries::Format)
        );
        let column = Err(NoSeries::Column("pool_bytes"));
        assert_eq!(with("/columns/pool_bytes", json!(null)), column);
        assert_eq!(with("/columns/pool_bytes/1", json!(-1)), column);
        assert_eq!(with("/columns/pool_bytes/1", json!(1.5)), column);
        assert_eq!(
            with("/columns/pool_bytes", json!([1])),
            Err(NoSeries::Length)
        );
        let many = vec![0; MOST_READ + 1];
        assert_eq!(with("/columns/time_ms", json!(many)), Err(NoSeries::Length));
        assert_eq!(with("/columns/time_ms/0", json!(11)), Err(NoSeries::Order));
        assert_eq!(
            with("/columns", json!([])),
            Err(NoSeries::Column("time_ms"))
        );
    }
}
