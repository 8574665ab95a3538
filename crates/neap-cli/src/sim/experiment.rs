//! `neap sim experiment`.

use std::io::{IsTerminal, stderr};
use std::sync::Arc;

use neap_sim::{
    Align, EXPERIMENTS, Experiment, Kept, Options, Outcome, Overview, Part, Table, find_experiment,
    number, overview, page, run_experiment, sweep_experiment,
};

use serde_json::Value;

use super::failure::Failure;
use super::flags::ExperimentArgs;
use super::output::{Output, distinct, is_stdout};
use super::{against, print, resume, verify};
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
    if let Some(path) = &args.verify {
        return verify::run(args, path);
    }
    if let Some(path) = &args.against {
        return against::run(args, path);
    }
    match args.name.as_str() {
        "list" if of_a_run(args) => Err(Failure::Flag {
            flag: "--json, --html, --resume, --scale, --seed, --seeds, --set, --sweep and --threads",
            fault: "a list runs nothing and writes nothing: name an experiment".to_owned(),
        }),
        "list" => print(list()),
        "all" if args.sweep.is_some() || !args.set.is_empty() => Err(Failure::Flag {
            flag: "--set and --sweep",
            fault: "they belong to one experiment: name it instead of all".to_owned(),
        }),
        "all" => all(args),
        name => {
            let experiment = find_experiment(name)?;
            match &args.sweep {
                Some(key) => swept(args, experiment, key),
                None => several(args, &[experiment]),
            }
        }
    }
}

/// Whether a flag was given that says something of a run.
fn of_a_run(args: &ExperimentArgs) -> bool {
    let written = args.json.is_some() || args.html.is_some() || args.resume.is_some();
    let seeds = args.seed.is_some() || args.seeds.is_some() || args.threads.is_some();
    written || seeds || args.scale.is_some() || !args.set.is_empty() || args.sweep.is_some()
}

fn list() -> String {
    let columns = [
        ("name", Align::Left),
        ("seed", Align::Left),
        ("cpu time", Align::Right),
        ("what it shows", Align::Left),
    ];
    let mut table = Table::new(&columns);
    for experiment in EXPERIMENTS {
        table.row(vec![
            experiment.name.to_owned(),
            experiment.source.to_owned(),
            about(experiment.seconds_of(1, None)),
            experiment.title.to_owned(),
        ]);
    }
    let mut mails = Table::new(&[("name", Align::Left), ("posted in", Align::Left)]);
    for experiment in EXPERIMENTS {
        for mail in experiment.mails {
            mails.row(vec![experiment.name.to_owned(), mail.link()]);
        }
    }
    format!(
        "{}\ncpu time: about, of one run with one seed at the scale it has by default; --seeds is 20 by default\n\n{}\n\
         docs/seeds.md says of each rule of these mails where it runs, where it is tested and what came out.\n",
        table.text(),
        mails.text()
    )
}

/// A time of which only the order of magnitude is known.
fn about(seconds: f64) -> String {
    match seconds {
        s if s < 90.0 => format!("{} s", s.ceil()),
        s if s < 5400.0 => format!("{} min", (s / 60.0).round()),
        s => format!("{:.1} h", s / 3600.0),
    }
}

/// Says what is about to run and what it costs, for it may be long until the first table: always when all
/// are run, and on a terminal.
fn announce(args: &ExperimentArgs, experiment: &Experiment, number: usize, of: usize) {
    if of == 1 && !stderr().is_terminal() {
        return;
    }
    let seeds = args.seeds();
    let cost = about(experiment.seconds_of(seeds, args.scale));
    let Options { threads, scale, .. } = options(args, experiment, None);
    let which = if of == 1 {
        String::new()
    } else {
        format!("{number} of {of}: ")
    };
    let other = match scale.filter(|_| scale != args.scale) {
        Some(scale) => format!(" at scale {scale}, the nearest it has"),
        None => String::new(),
    };
    talk::note(&format!(
        "{which}{} with --seeds {seeds}{other}: about {cost} of cpu time, over {threads} threads",
        experiment.name
    ));
}

/// With `all`, an experiment that does not have the scale runs at the nearest it has.
fn options(args: &ExperimentArgs, experiment: &Experiment, kept: Option<&Arc<Kept>>) -> Options {
    let nearest = |scale| experiment.nearest_scale(Some(scale));
    Options {
        seeds: args.seeds(),
        seed: args.seed.unwrap_or(1),
        scale: match args.name.as_str() {
            "all" => args.scale.map(nearest),
            _ => args.scale,
        },
        sets: args.set.clone(),
        threads: args.threads(),
        kept: kept.cloned(),
    }
}

/// Says on a terminal how far it is, on one line that is wiped at the end.
pub(super) fn progress(name: &'static str) -> impl Fn(usize, usize) + Sync {
    let shown = stderr().is_terminal();
    move |over, of| {
        if shown {
            let end = if over == of { "\r\x1b[K" } else { "" };
            talk::raw(&format!("\r\x1b[K{name}: {over} of {of} runs{end}"));
        }
    }
}

/// When all are run and there is no terminal, a line each time another tenth of the runs is over.
fn tenths(name: &'static str, alone: bool) -> impl Fn(usize, usize) + Sync {
    let line = progress(name);
    let said = !alone && !stderr().is_terminal();
    move |over, of| {
        if said && over * 10 / of > (over - 1) * 10 / of {
            talk::note(&format!("{name}: {over} of {of} runs"));
        }
        line(over, of);
    }
}

/// Where the results go beside standard output.
struct Outputs {
    kept: Option<Arc<Kept>>,
    json: Option<Output>,
    html: Option<Output>,
    /// Standard output has one of them, and no table.
    quiet: bool,
}

impl Outputs {
    fn open(args: &ExperimentArgs) -> Result<Self, Failure> {
        let (json, html) = (args.json.as_deref(), args.html.as_deref());
        let on_stdout = [json, html].into_iter().flatten().filter(|p| is_stdout(p));
        let on_stdout = on_stdout.count();
        if on_stdout > 1 {
            return Err(Failure::Flag {
                flag: "--json and --html",
                fault: "only one of them can be standard output".to_owned(),
            });
        }
        let resume = args.resume.as_deref();
        let all = [("--json", json), ("--html", html), ("--resume", resume)];
        distinct(&[], &all)?;
        Ok(Outputs {
            kept: resume::open(resume)?,
            json: Output::if_any(json)?,
            html: Output::if_any(html)?,
            quiet: on_stdout > 0,
        })
    }

    fn write(self, json: impl Fn() -> Value, title: &str, parts: &[Part]) -> Result<(), Failure> {
        if let Some(output) = self.json {
            output.write(format!("{}\n", json()).as_bytes())?;
        }
        match self.html {
            Some(output) => output.write(page(title, parts).as_bytes()),
            None => Ok(()),
        }
    }
}

fn several(args: &ExperimentArgs, experiments: &[&'static Experiment]) -> Result<(), Failure> {
    let outputs = Outputs::open(args)?;
    let mut outcomes: Vec<Outcome> = Vec::new();
    for (at, experiment) in experiments.iter().enumerate() {
        announce(args, experiment, at + 1, experiments.len());
        let outcome = run_experiment(
            experiment,
            &options(args, experiment, outputs.kept.as_ref()),
            &tenths(experiment.name, experiments.len() == 1),
        )?;
        if !outputs.quiet {
            let gap = if outcomes.is_empty() { "" } else { "\n" };
            print(format!("{gap}{}", outcome.text()))?;
        }
        outcomes.push(outcome);
    }
    let json = || match &outcomes[..] {
        [one] if args.name != "all" => one.json(),
        all => all.iter().map(Outcome::json).collect(),
    };
    let overview = overview(&outcomes).filter(|_| args.name == "all");
    if let Some(overview) = overview.as_ref().filter(|_| !outputs.quiet) {
        print(format!("\n{}", overview.text()))?;
    }
    let lead = overview.iter().flat_map(Overview::parts);
    let parts: Vec<Part> = lead
        .chain(outcomes.iter().flat_map(Outcome::parts))
        .collect();
    outputs.write(json, &format!("neap sim experiment {}", args.name), &parts)
}

/// Runs every experiment, after saying how long that takes.
fn all(args: &ExperimentArgs) -> Result<(), Failure> {
    let cost = |experiment: &&Experiment| experiment.seconds_of(args.seeds(), args.scale);
    let total = about(EXPERIMENTS.iter().map(cost).sum());
    talk::note(&format!(
        "{} experiments, about {total} of cpu time; --seeds and --scale make it less",
        EXPERIMENTS.len()
    ));
    several(args, EXPERIMENTS)
}

fn nothing_to_try(experiment: &Experiment, key: &str) -> Failure {
    let tried = experiment.parameters.iter();
    let tried = tried.filter(|parameter| !parameter.sweep.is_empty());
    let keys: Vec<&str> = tried.map(|parameter| parameter.key).collect();
    Failure::Flag {
        flag: "--sweep",
        fault: format!(
            "there is nothing to try of {key}: name one of {}",
            keys.join(", ")
        ),
    }
}

/// What is to be known of any of a sweep's runs, each said once.
fn caveats(outcomes: &[(String, Outcome)]) -> Vec<String> {
    let mut notes = Vec::new();
    for note in outcomes.iter().flat_map(|(_, outcome)| outcome.caveats()) {
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    notes
}

/// Refuses to sweep what is set, too: the value that is set would have no row.
fn unset(args: &ExperimentArgs, key: &str) -> Result<(), Failure> {
    let set = |set: &&String| set.split('=').next().is_some_and(|set| set.trim() == key);
    match args.set.iter().find(set) {
        None => Ok(()),
        Some(set) => Err(Failure::Flag {
            flag: "--sweep",
            fault: format!(
                "it tries other values of {key} than --set {set}: leave one of them out"
            ),
        }),
    }
}

/// One line for each setting and row of the headline metrics.
fn sweep_table(experiment: &Experiment, outcomes: &[(String, Outcome)]) -> Table {
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
    for (setting, outcome) in outcomes {
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
    table
}

/// Runs an experiment for each value to try.
fn swept(args: &ExperimentArgs, experiment: &'static Experiment, key: &str) -> Result<(), Failure> {
    unset(args, key)?;
    let outputs = Outputs::open(args)?;
    let only = (key != "all").then_some(key);
    let outcomes = sweep_experiment(
        experiment,
        only,
        &options(args, experiment, outputs.kept.as_ref()),
        &progress(experiment.name),
    )?;
    if outcomes.is_empty() {
        return Err(nothing_to_try(experiment, key));
    }
    let table = sweep_table(experiment, &outcomes);
    let notes = caveats(&outcomes);
    if !outputs.quiet {
        print(table.text())?;
        for note in &notes {
            print(format!("\nnote: {note}\n"))?;
        }
    }
    let json = || {
        outcomes
            .iter()
            .map(|(setting, outcome)| {
                let mut value = outcome.json();
                value["setting"] = setting.as_str().into();
                value
            })
            .collect()
    };
    let title = format!("Sweep of {}", experiment.name);
    let mut parts = vec![Part::Table(table)];
    parts.extend(notes.into_iter().map(Part::Text));
    outputs.write(json, &title, &parts)
}
