//! What one job of a service used over time, as the series of the service tells it.

use serde_json::{Value, json};

use crate::series::{Column, MOST_READ, Series};

/// What one job of a service used over time.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Part {
    /// What it is called.
    pub name: String,
    /// Times since the service began, in milliseconds, in order, and what the job used then, in bytes.
    pub used: Vec<(u64, u64)>,
}

impl Part {
    /// Of the run of a job that joined at this time.
    #[must_use]
    pub fn of(name: &str, began: u64, series: &Series) -> Self {
        let used = series.samples().iter().map(|sample| {
            let time = began.saturating_add(sample.get(Column::Time));
            (time, sample.get(Column::Current))
        });
        Self {
            name: name.to_owned(),
            used: used.collect(),
        }
    }

    /// The object of JSON.
    #[must_use]
    pub fn object(&self) -> Value {
        let (times, used): (Vec<u64>, Vec<u64>) = self.used.iter().copied().unzip();
        json!({"name": self.name, "time_ms": times, "current_bytes": used})
    }

    /// Reads those that the series of a service has. One that makes no sense is left out.
    #[must_use]
    pub fn read_all(series: &Value) -> Vec<Self> {
        const MOST: usize = 1024;
        let all = series.get("jobs").and_then(Value::as_array);
        let all = all.into_iter().flatten().take(MOST);
        all.filter_map(Self::read).collect()
    }

    fn read(object: &Value) -> Option<Self> {
        let name = object.get("name")?.as_str()?.to_owned();
        let column = |name: &str| -> Option<Vec<u64>> {
            let values = object.get(name)?.as_array()?;
            let few = values.iter().take(MOST_READ);
            few.map(Value::as_u64).collect()
        };
        let used: Vec<_> = column("time_ms")?
            .into_iter()
            .zip(column("current_bytes")?)
            .collect();
        used.is_sorted_by_key(|(time, _)| *time)
            .then_some(Self { name, used })
    }

    /// What it used at a time: as last looked at, and nothing before it joined.
    #[must_use]
    pub fn at(&self, time: u64) -> u64 {
        let later = self.used.partition_point(|(at, _)| *at <= time);
        let last = later.checked_sub(1).map(|at| self.used[at].1);
        last.unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series::Sample;

    #[test]
    fn the_jobs_of_a_service_are_told_with_it() {
        let mut series = Series::new(8, 10);
        series.push(Sample::default().with(Column::Current, 5));
        series.push(
            Sample::default()
                .with(Column::Time, 100)
                .with(Column::Current, 7),
        );
        let part = Part::of("a<b", 50, &series);
        let [before, first, second] = [49, 149, 150].map(|time| part.at(time));
        assert_eq!((before, first, second), (0, 5, 7));
        let bad = json!({"name": "c", "time_ms": [2, 1], "current_bytes": [1, 1]});
        let object = json!({"jobs": [part.object(), bad, 7, {"name": "d"}]});
        assert_eq!(Part::read_all(&object), [part]);
        assert!(Part::read_all(&json!({"jobs": 7})).is_empty());
        assert_eq!(Part::default().at(9), 0);
    }
}
