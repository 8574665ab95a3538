//! `neap sim experiment NAME --against FILE`: what `make lab` measured on real kernels, beside the simulator.

use std::path::Path;

use neap_sim::{Align, Comparison, LabResult, Options, Table, number, run_experiment};
use serde_json::Value;

use super::experiment::progress;
use super::failure::Failure;
use super::flags::ExperimentArgs;
use super::output::{Output, is_stdout};
use super::print;
use super::verify::{asked_for, objects};

/// Simulates each machine of the file that belongs to the experiment, or all of them.
pub fn run(args: &ExperimentArgs, path: &Path) -> Result<(), Failure> {
    let measured = read(args, path)?;
    let json = Output::if_any(args.json.as_deref())?;
    let quiet = args.json.as_deref().is_some_and(is_stdout);
    let options = Options {
        seeds: args.seeds(),
        seed: args.seed.unwrap_or(1),
        scale: None,
        sets: args.set.clone(),
        threads: args.threads(),
        kept: None,
    };
    let mut compared = Vec::new();
    let (mut near, mut counts) = (0, 0);
    for one in &measured {
        let name = one.experiment.name;
        let outcome = run_experiment(one.experiment, &one.options(&options), &progress(name))?;
        let rows = one.compare(&outcome);
        let of_counts = || rows.iter().filter(|row| row.is_count());
        near += of_counts().filter(|row| row.is_near()).count();
        counts += of_counts().count();
        if !quiet {
            print(format!("{}\n{}\n", title(one), table(&rows).text()))?;
        }
        compared.push(one.json(&outcome));
    }
    if !quiet {
        print(format!(
            "{near} of {counts} counts are within 20 % of what was measured; times are not compared\n"
        ))?;
    }
    match json {
        Some(output) => output.write(format!("{}\n", Value::from(compared)).as_bytes()),
        None => Ok(()),
    }
}

/// Which machine the table is of.
fn title(one: &LabResult) -> String {
    format!(
        "{} on Linux {}, runs of each: {}\n{}\n",
        one.experiment.name,
        one.kernel,
        one.runs,
        one.sets.join(" ")
    )
}

/// The measured machines that are asked for.
fn read(args: &ExperimentArgs, path: &Path) -> Result<Vec<LabResult>, Failure> {
    let read = |object: Value| {
        LabResult::read(&object).map_err(|source| Failure::Lab {
            path: path.to_owned(),
            source,
        })
    };
    let all = objects(path)?.into_iter().map(read);
    let measured = all.collect::<Result<_, _>>()?;
    asked_for(args, path, "--against", measured, |one: &LabResult| {
        one.experiment.name
    })
}

/// `median (low .. high)`, or the number alone when there is no spread.
fn cell(numbers: [f64; 3]) -> String {
    let [median, low, high] = numbers;
    match low == high {
        true => number(median),
        false => format!("{} ({} .. {})", number(median), number(low), number(high)),
    }
}

/// Measured, simulated and their ratio, side by side.
fn table(rows: &[Comparison]) -> Table {
    let mut table = Table::new(&[
        ("metric", Align::Left),
        ("config", Align::Left),
        ("unit", Align::Left),
        ("measured", Align::Right),
        ("simulated", Align::Right),
        ("ratio", Align::Right),
        ("within 20 %", Align::Left),
    ]);
    for row in rows {
        let near = match (row.is_count(), row.is_near()) {
            (false, _) => "not compared",
            (true, true) => "yes",
            (true, false) => "no",
        };
        table.row(vec![
            row.metric.clone(),
            row.config.clone(),
            row.unit.clone(),
            cell(row.measured),
            row.simulated.map_or_else(|| "-".to_owned(), cell),
            row.ratio.map_or_else(|| "-".to_owned(), number),
            near.to_owned(),
        ]);
    }
    table
}
