//! `neap-suite`: runs the suite, and reports on what was run.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use neap_suite::drive::{self, Plan};
use neap_suite::report;
use neap_suite::rows::ROWS;

/// Runs fixed workloads under `neap bench`, and reports on them.
#[derive(Parser)]
#[command(name = "neap-suite")]
struct Cli {
    #[command(subcommand)]
    command: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run rows and write raw results into a new directory
    Run(RunArgs),
    /// Turn raw results into tables, on standard output
    Report {
        /// A directory that `run` made
        dir: PathBuf,
    },
    /// Name every row
    List,
}

#[derive(Args)]
struct RunArgs {
    /// Rows to run, separated by spaces or commas [default: all]
    #[arg(long, default_value = "")]
    rows: String,
    /// Limits, in percent of the plain peak
    #[arg(long, value_delimiter = ',', default_value = "75,50,33")]
    at: Vec<u64>,
    /// Counted runs of each contender
    #[arg(long, default_value_t = 5)]
    runs: u32,
    /// Size of everything, in percent
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    scale: u32,
    /// Contenders of `neap bench`
    #[arg(long, default_value = "neap,zswap,swap,zram")]
    against: String,
    /// Seconds after which a row is given up
    #[arg(long, default_value_t = 3600)]
    patience: u64,
    /// Seconds after which neap bench ends a single run; 0 ends none
    #[arg(long, default_value_t = 60)]
    run_patience: u64,
    /// Where the directory of the results is made
    #[arg(long, default_value = "benches/runs")]
    out: PathBuf,
    /// The neap to measure [default: beside this program]
    #[arg(long)]
    neap: Option<PathBuf>,
    /// For swap files and for files that rows need
    #[arg(long, default_value = "/var/tmp")]
    dir: PathBuf,
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Task::Run(args) => plan(args).and_then(|plan| drive::run(&plan)),
        Task::Report { dir } => report::of(&dir).map(|text| print!("{text}")),
        Task::List => {
            ROWS.iter().for_each(|row| println!("{}", row.name));
            Ok(())
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("neap-suite: {fault}");
            ExitCode::FAILURE
        }
    }
}

fn plan(args: RunArgs) -> Result<Plan, String> {
    let own = std::env::current_exe().map_err(|e| format!("/proc/self/exe: {e}"))?;
    let names = args.rows.split([' ', ',']).filter(|name| !name.is_empty());
    let mut rows = Vec::new();
    for name in names {
        let row = ROWS.iter().find(|row| row.name == name);
        rows.push(*row.ok_or_else(|| unknown(name))?);
    }
    if rows.is_empty() {
        rows = ROWS.to_vec();
    }
    if let Some(odd) = args.at.iter().find(|at| !(1..=100).contains(*at)) {
        return Err(format!("--at takes percentages from 1 to 100, not {odd}"));
    }
    Ok(Plan {
        rows,
        percents: args.at,
        runs: args.runs,
        scale: args.scale as usize,
        against: args.against,
        patience: args.patience,
        run_patience: Some(args.run_patience).filter(|seconds| *seconds > 0),
        out: args.out,
        neap: args.neap.unwrap_or_else(|| own.with_file_name("neap")),
        work: own.with_file_name("neap-work"),
        dir: args.dir,
    })
}

fn unknown(name: &str) -> String {
    let known = ROWS.map(|row| row.name).join(", ");
    format!("no row is called {name:?}: use {known}")
}
