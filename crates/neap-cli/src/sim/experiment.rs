//! `neap sim experiment`.

use std::io::{IsTerminal, stderr};

use neap_sim::{
    Align, EXPERIMENTS, Experiment, ExperimentFault, Options, Outcome, Part, Table,
    find_experiment, number, page, run_experiment, sweep_experiment,
};

use super::failure::Failure;
use super::flags::ExperimentArgs;
use super::{print, write};
use crate::talk;

/// Lists, runs one, or runs all.
pub fn run(args: &ExperimentArgs) -> Result<(), Failure> {
    if args
        .scale
        .is_some_and(|scale| !(1e-4..=16.0).contains(&scale))
    {
        let fault = "write a number from 0.0001 to 16".to_owned();
        return Err(Failure::Flag {
            flag: "--scale",
            fault,
        });
    }
    match args.name.as_str() {
        "list" => print(&list()),
        "all" if args.sweep.is_some() || !args.set.is_empty() => Err(Failure::Flag {
            flag: "--set and --sweep",
            fault: "they belong to one experiment: name it instead of all".to_owned(),
        }),
        "all" => several(args, EXPERIMENTS),
        name => {
            let experiment = find_experiment(name)?;
            match &args.sweep {
                Some(key) => swept(args, experiment, key),
                None => several(args, &[experiment]),
            }
        }
    }
}

fn list() -> String {
    let columns = [
        ("name", Align::Left),
        ("seed", Align::Left),
        ("what it shows", Align::Left),
    ];
    let mut table = Table::new(&columns);
    for experiment in EXPERIMENTS {
        let cells = [experiment.name, experiment.source, experiment.title];
        table.row(cells.map(str::to_owned).to_vec());
    }
    table.text()
}

fn options(args: &ExperimentArgs) -> Options {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    Options {
        seeds: args.seeds,
        seed: args.seed,
        scale: args.scale,
        sets: args.set.clone(),
        threads: args.threads.map_or(cpus, usize::from).max(1),
    }
}

/// Says on a terminal how far it is, on one line that is wiped at the end.
fn progress(name: &'static str) -> impl Fn(usize, usize) + Sync {
    let shown = stderr().is_terminal();
    move |over, of| {
        if shown {
            let end = if over == of { "\r\x1b[K" } else { "" };
            talk::raw(&format!("\r\x1b[K{name}: {over} of {of} runs{end}"));
        }
    }
}

fn several(args: &ExperimentArgs, experiments: &[&'static Experiment]) -> Result<(), Failure> {
    let mut outcomes: Vec<Outcome> = Vec::new();
    let quiet = args
        .json
        .as_deref()
        .is_some_and(|path| path.as_os_str() == "-");
    for experiment in experiments {
        let outcome = run_experiment(experiment, &options(args), &progress(experiment.name))?;
        if !quiet {
            let gap = if outcomes.is_empty() { "" } else { "\n" };
            print(&format!("{gap}{}", outcome.text()))?;
        }
        outcomes.push(outcome);
    }
    if let Some(path) = &args.json {
        let values: Vec<_> = outcomes.iter().map(Outcome::json).collect();
        let text = match &values[..] {
            [one] if args.name != "all" => one.to_string(),
            all => serde_json::Value::from(all.to_vec()).to_string(),
        };
        write(path, &format!("{text}\n"))?;
    }
    if let Some(path) = &args.html {
        let parts: Vec<Part> = outcomes.iter().flat_map(Outcome::parts).collect();
        write(
            path,
            &page(&format!("neap sim experiment {}", args.name), &parts),
        )?;
    }
    Ok(())
}

/// One line for each setting and row of the headline metrics.
fn swept(args: &ExperimentArgs, experiment: &'static Experiment, key: &str) -> Result<(), Failure> {
    let only = (key != "all").then_some(key);
    let outcomes = sweep_experiment(experiment, only, &options(args), &progress(experiment.name))?;
    if outcomes.is_empty() {
        return Err(Failure::Experiment(ExperimentFault::Setting(format!(
            "--sweep {key}: nothing to try, so it"
        ))));
    }
    let mut table = Table::new(&[
        ("setting", Align::Left),
        ("metric", Align::Left),
        ("config", Align::Left),
        ("unit", Align::Left),
        ("reported", Align::Right),
        ("simulated", Align::Right),
        ("p10", Align::Right),
        ("p90", Align::Right),
    ]);
    for (setting, outcome) in &outcomes {
        let lead = |metric: &str| {
            let effect =
                |e: &neap_sim::Effect| e.name == metric && experiment.headline.contains(&e.metric);
            experiment.headline.contains(&metric) || experiment.effects.iter().any(effect)
        };
        for row in outcome.rows.iter().filter(|row| lead(&row.metric)) {
            table.row(vec![
                setting.clone(),
                row.metric.clone(),
                row.config.clone(),
                row.unit.clone(),
                row.reported.map_or_else(|| "-".to_owned(), number),
                number(row.simulated),
                number(row.low),
                number(row.high),
            ]);
        }
    }
    print(&table.text())?;
    if let Some(path) = &args.json {
        let entry = |(setting, outcome): &(String, Outcome)| {
            let mut value = outcome.json();
            if let Some(object) = value.as_object_mut() {
                object.insert("setting".to_owned(), setting.as_str().into());
            }
            value
        };
        let all: Vec<_> = outcomes.iter().map(entry).collect();
        write(path, &format!("{}\n", serde_json::Value::from(all)))?;
    }
    if let Some(path) = &args.html {
        let parts = vec![Part::Table(table)];
        write(
            path,
            &page(&format!("Sweep of {}", experiment.name), &parts),
        )?;
    }
    Ok(())
}
