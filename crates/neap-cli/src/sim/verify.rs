//! `neap sim experiment NAME --verify FILE`: stored results are run again and compared.

use std::fs;
use std::path::Path;

use neap_sim::{Align, Difference, Stored, Table, number, run_experiment};
use serde_json::Value;

use super::experiment::progress;
use super::failure::Failure;
use super::flags::ExperimentArgs;
use super::print;
use crate::talk;

/// Rows of a difference that are shown.
const SHOWN: usize = 20;

/// Runs again what the file stores of the experiment, or all of it.
pub fn run(args: &ExperimentArgs, path: &Path) -> Result<(), Failure> {
    let stored = read(args, path)?;
    let (mut rows, mut different) = (0, 0);
    for one in &stored {
        let name = one.experiment.name;
        let outcome = run_experiment(one.experiment, &one.options, &progress(name))?;
        let found = one.differences(&outcome);
        rows += one.rows();
        different += found.len();
        let said = format!(
            "{name}: {} of {} rows as stored by neap {}\n",
            one.rows() - found.iter().filter(|row| row.stored.is_some()).count(),
            one.rows(),
            one.version
        );
        print(said)?;
        if !found.is_empty() {
            print(table(&found).text())?;
        }
    }
    match different {
        0 => Ok(()),
        _ => Err(Failure::Unlike {
            path: path.to_owned(),
            different,
            rows,
        }),
    }
}

/// The objects of a file of results: one, or an array of several.
pub fn objects(path: &Path) -> Result<Vec<Value>, Failure> {
    let text = fs::read_to_string(path).map_err(|source| Failure::Read {
        path: path.to_owned(),
        source,
    })?;
    // A text that is no JSON has no schema either.
    Ok(match serde_json::from_str(&text).unwrap_or_default() {
        Value::Array(objects) => objects,
        one => vec![one],
    })
}

/// Of what a file has, what belongs to the experiment that is asked for; all, if all are.
pub fn asked_for<T>(
    args: &ExperimentArgs,
    path: &Path,
    flag: &'static str,
    mut found: Vec<T>,
    name: impl Fn(&T) -> &str,
) -> Result<Vec<T>, Failure> {
    if args.name == "all" {
        return Ok(found);
    }
    let mut known: Vec<String> = found.iter().map(|one| name(one).to_owned()).collect();
    known.dedup();
    found.retain(|one| name(one) == args.name);
    if found.is_empty() {
        let fault = format!(
            "{} has nothing of {}, but of {}",
            path.display(),
            args.name,
            known.join(", ")
        );
        return Err(Failure::Flag { flag, fault });
    }
    Ok(found)
}

/// The stored results that are asked for: those of one experiment, or all.
fn read(args: &ExperimentArgs, path: &Path) -> Result<Vec<Stored>, Failure> {
    let read = |object: Value| {
        Stored::read(&object, args.threads()).map_err(|source| Failure::Stored {
            path: path.to_owned(),
            source,
        })
    };
    let stored: Vec<Stored> = objects(path)?
        .into_iter()
        .map(read)
        .collect::<Result<_, _>>()?;
    let stored = asked_for(args, path, "--verify", stored, |one| one.experiment.name)?;
    let cost = |one: &Stored| {
        one.experiment
            .seconds_of(one.options.seeds, one.options.scale)
    };
    let cost: f64 = stored.iter().map(cost).sum();
    if cost > 60.0 {
        talk::note(&format!(
            "about {:.0} min of cpu time",
            (cost / 60.0).ceil()
        ));
    }
    Ok(stored)
}

/// Rows that differ, the first of them.
fn table(found: &[Difference]) -> Table {
    let right = Align::Right;
    let mut table = Table::new(&[
        ("metric", Align::Left),
        ("config", Align::Left),
        ("stored", right),
        ("p10 .. p90", right),
        ("now", right),
        ("p10 .. p90", right),
    ]);
    let cells = |numbers: Option<[f64; 3]>| match numbers {
        None => ["-".to_owned(), String::new()],
        Some([median, low, high]) => [
            number(median),
            format!("{} .. {}", number(low), number(high)),
        ],
    };
    for row in found.iter().take(SHOWN) {
        let [stored, spread] = cells(row.stored);
        let [now, spread_now] = cells(row.now);
        table.row(vec![
            row.metric.clone(),
            row.config.clone(),
            stored,
            spread,
            now,
            spread_now,
        ]);
    }
    table
}
