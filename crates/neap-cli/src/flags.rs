//! The flags: one table, read by clap, from which help comes.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use neap_control::Name;
use neap_store::{CompressorKind, ShrinkerKind};

use crate::choice::{Contender, IdleTime, OnExhausted, PoolMax, WalkChoice};
use crate::job::flags::{
    EventsArgs, FreezeArgs, MetricsArgs, PsArgs, ReclaimArgs, ReportArgs, SetArgs, StatArgs,
    ThawArgs, TopArgs,
};
use crate::run::settings::SettingArgs;
use crate::sim::SimArgs;
use crate::{env, exit};

/// Runs a program in less memory than it wants.
#[derive(Debug, Parser)]
#[command(
    name = "neap",
    version,
    about = "Runs a program in less memory than it wants: cold pages are compressed, and swapped when that is not enough.",
    arg_required_else_help = true,
    subcommand_required = true
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a command, and all it starts, within a memory limit
    #[command(after_help = run_tables())]
    Run(Box<RunArgs>),
    /// Keep many jobs within one limit: neap run --in NAME joins
    Serve(Box<ServeArgs>),
    /// List the jobs of this user that run
    Ps(PsArgs),
    /// Show all jobs on the terminal, sort and filter them, set their limits
    Top(TopArgs),
    /// Show the figures of a job while it runs
    Stat(StatArgs),
    /// Change the limit of a job, or the share of its pool, while it runs
    Set(SetArgs),
    /// Take memory away from a job now
    Reclaim(ReclaimArgs),
    /// Stop all processes of a job, and take out of memory all that can leave
    Freeze(FreezeArgs),
    /// Let a frozen job go on
    Thaw(ThawArgs),
    /// Follow what happens to a job
    Events(EventsArgs),
    /// Tell the figures of all jobs as OpenMetrics: on standard output, or where it is said
    Metrics(MetricsArgs),
    /// Write one page with a job's run over time, to be opened in a browser
    Report(ReportArgs),
    /// Say what this machine allows and how to get what it does not
    Doctor(DoctorArgs),
    /// Run a command by turns plainly, under neap and under what the kernel has, and compare
    #[command(after_help = bench_table())]
    Bench(BenchArgs),
    /// Simulate Linux reclaim: published experiments, traces, workloads of your own
    Sim(Box<SimArgs>),
    /// Make kernels for Jupyter that run within a memory limit
    #[command(arg_required_else_help = true)]
    Jupyter {
        /// What to do.
        #[command(subcommand)]
        what: JupyterCommand,
    },
    /// Put a copy of this neap into a folder, from an image that has nothing else
    Copy(CopyArgs),
    /// Print what a shell needs to complete neap's words
    Completions(CompletionsArgs),
    /// Write the manual pages, as they are installed
    #[command(hide = true)]
    Man(ManArgs),
}

/// The subcommands of `neap jupyter`.
#[derive(Debug, Subcommand)]
pub enum JupyterCommand {
    /// Write a kernel spec for a python that has ipykernel
    Install(KernelArgs),
}

/// Flags of `neap jupyter install`.
#[derive(Debug, Args)]
pub struct KernelArgs {
    /// Memory limit of the kernel and all it starts: 512M, 1.5G (powers of 1024) or 50% of RAM
    #[arg(short = 'm', long, value_name = "SIZE|PERCENT")]
    pub memory: String,
    /// What Jupyter calls the kernel
    #[arg(long, default_value = "neap")]
    pub name: String,
    /// The python, as a path or as found on PATH
    #[arg(long, value_name = "FILE", default_value = "python3")]
    pub python: OsString,
    /// Below DIR/share/jupyter, such as a virtual environment [default: this user's own folder]
    #[arg(long, value_name = "DIR")]
    pub prefix: Option<PathBuf>,
    /// Let the kernel fail to start rather than run without a limit
    #[arg(long)]
    pub require: bool,
}

/// Flags of `neap copy`.
#[derive(Debug, Args)]
pub struct CopyArgs {
    /// An existing folder
    pub dir: PathBuf,
}

/// Flags of `neap completions`.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell
    pub shell: clap_complete::Shell,
}

/// Flags of `neap man`.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// An existing folder for them
    pub dir: PathBuf,
}

/// Flags that say what an engine does: those of `neap run` and of `neap serve`.
#[derive(Clone, Debug, Args)]
pub struct EngineArgs {
    /// Memory limit: 512M, 1.5G (powers of 1024) or 50% of RAM [default: the memory cgroup's limit,
    /// less a headroom]
    #[arg(
        short = 'm',
        long,
        value_name = "SIZE|PERCENT",
        allow_hyphen_values = true
    )]
    pub memory: Option<String>,

    /// Directory for the swap file, which has no name there [default: TMPDIR, /var/tmp or /tmp,
    /// whichever is first on a disk and lets a file be made]
    #[arg(long, value_name = "DIR")]
    pub swap_dir: Option<PathBuf>,

    /// Use no swap file
    #[arg(long, conflicts_with_all = ["swap_dir", "swap_size"])]
    pub no_swap: bool,

    /// Most the swap file may hold [default: half of what is free in its directory]
    #[arg(long, value_name = "SIZE")]
    pub swap_size: Option<String>,

    /// Write no page to the swap file until neap set JOB zswap.writeback=1 (memory.zswap.writeback=0 of a cgroup): what
    /// does not compress stays in memory; with --in no page of this job
    #[arg(long)]
    pub no_writeback: bool,

    /// Most of the limit (with --pool-beside: of the machine's memory) that the compressed pool may take [default: 50]
    #[arg(long, value_name = "PERCENT")]
    pub pool_max: Option<PoolMax>,

    /// Let the limit leave the pool out, as cgroup v1 leaves out zswap's, and write nothing of it back before it is full: for comparisons
    #[arg(long)]
    pub pool_beside: bool,

    /// How pages are compressed
    // Not a comment that documents: brackets are links there.
    #[arg(
        long,
        value_name = "NAME[:LEVEL]",
        help = "lz4, zstd[:LEVEL] or deflate[:LEVEL] [default: zstd:-1]"
    )]
    pub compressor: Option<CompressorKind>,

    /// How the pool gives way to the swap file: second-chance, referenced, protection or off
    /// [default: second-chance]
    #[arg(long, value_name = "NAME")]
    pub shrinker: Option<ShrinkerKind>,

    /// What to do when nothing can be reclaimed any more: open lets the command go over the limit,
    /// kill ends it [default: open]
    #[arg(long, value_name = "open|kill")]
    pub on_exhausted: Option<OnExhausted>,

    /// Take memory out of processes that have done nothing for so long, before any limit is met: 90s, 10m, 2h or off
    /// [default: off; for neap serve 10m; for a job of a service as that has it]
    #[arg(long, value_name = "TIME")]
    pub idle: Option<IdleTime>,

    /// Say on stderr what neap does
    #[arg(short, long)]
    pub verbose: bool,
}

impl EngineArgs {
    /// Whether they say how an engine works, which only one of the run's own can follow.
    #[must_use]
    pub fn says_how(&self) -> bool {
        let Self {
            memory: _,
            verbose: _,
            swap_dir,
            no_swap,
            swap_size,
            no_writeback: _,
            pool_max,
            pool_beside,
            compressor,
            shrinker,
            on_exhausted,
            idle: _,
        } = self;
        let where_to = swap_dir.is_some() || swap_size.is_some() || *no_swap;
        let pool = pool_max.is_some() || *pool_beside || compressor.is_some() || shrinker.is_some();
        where_to || pool || on_exhausted.is_some()
    }
}

/// What a job in a service leaves to that.
const OF_THE_SERVICE: [&str; 9] = [
    "swap_dir",
    "no_swap",
    "swap_size",
    "pool_max",
    "pool_beside",
    "compressor",
    "shrinker",
    "on_exhausted",
    "record",
];

/// Flags of `neap run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// What the engine does.
    #[command(flatten)]
    pub engine: EngineArgs,

    /// Join the service of this name (neap serve): its limit is for all its jobs together, -m for this one
    #[arg(long = "in", value_name = "NAME", group = "of_service", conflicts_with_all = OF_THE_SERVICE)]
    pub service: Option<Name>,

    /// The same, and start the service if there is none; it ends with its last job
    #[arg(long, value_name = "NAME[:SIZE]", group = "of_service", conflicts_with = "service", conflicts_with_all = OF_THE_SERVICE)]
    pub budget: Option<String>,

    /// What a job of a service may have, and keeps.
    #[command(flatten)]
    pub settings: SettingArgs,

    /// What others call the job, in neap ps and the like [default: the command and neap's process]
    #[arg(long, value_name = "NAME")]
    pub name: Option<Name>,

    /// Write what the engine saw and decided, for neap sim replay
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,

    /// Fail with 125 rather than run the command unmanaged
    #[arg(long)]
    pub require: bool,

    /// Pass on a second SIGINT within two seconds as SIGTERM, a third as SIGKILL
    #[arg(long)]
    pub escalate: bool,

    /// Show one line on the terminal while the command runs; nothing where standard error is none
    #[arg(long)]
    pub watch: bool,

    /// Print a summary to stderr at the end
    #[arg(long)]
    pub summary: bool,

    /// Write statistics as one JSON object at the end
    #[arg(long, value_name = "FILE")]
    pub stats: Option<PathBuf>,

    /// Write how the command ended: `exited N`, `signaled N NAME`, or `failed N` when neap did not start it
    #[arg(long, value_name = "FILE")]
    pub exit_file: Option<PathBuf>,

    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// Flags of `neap serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// What jobs join it by
    #[arg(value_name = "NAME", default_value = "default")]
    pub name: Name,
    /// What the engine does.
    #[command(flatten)]
    pub engine: EngineArgs,
    /// Whom reclaim visits next: memcg-lru, or for comparison full or cookie, which walk through all jobs
    #[arg(long, value_name = "NAME", default_value = "memcg-lru")]
    pub walk: WalkChoice,
    /// Go into the background once jobs can join
    #[arg(long)]
    pub detach: bool,
    /// End with the last job that has joined
    #[arg(long)]
    pub until_idle: bool,
    /// Say when jobs can join: for --detach
    #[arg(long, hide = true)]
    pub tell_ready: bool,
    /// The process for which it is started: where that ends before a job has joined, it ends too
    #[arg(long, hide = true, value_name = "PID", requires = "until_idle")]
    pub starter: Option<i32>,
}

/// Flags of `neap doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// Directory that would hold the swap file
    #[arg(long, value_name = "DIR")]
    pub swap_dir: Option<PathBuf>,
    /// Print what neap chose instead: its sizes, shares, times and counts, with --json also the reasons
    #[arg(long, conflicts_with = "swap_dir")]
    pub tuning: bool,
}

/// Flags of `neap bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// Memory limit of all but the plain runs: 512M, 1.5G (powers of 1024) or 50% of RAM
    #[arg(
        short = 'm',
        long,
        value_name = "SIZE|PERCENT",
        allow_hyphen_values = true
    )]
    pub memory: String,

    /// How often the command runs under each, after a first run that is not counted
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: u32,

    /// End a run that takes longer, and count it as failed [default: none is ended]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub patience: Option<u64>,

    /// What to compare with plain: neap, zswap, swap, zram
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "neap,zswap,swap,zram"
    )]
    pub against: Vec<Contender>,

    /// Write everything, each single run included, as one JSON object; - is standard output, which
    /// then has no table
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Directory for the swap files, neap's and the kernel's [default: TMPDIR, /var/tmp or /tmp,
    /// whichever is first on a disk and lets a file be made]
    #[arg(long, value_name = "DIR")]
    pub swap_dir: Option<PathBuf>,

    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// The exit codes of `neap bench`, as `--help` shows them.
fn bench_table() -> String {
    let mut text = String::from("Exit status:\n");
    for (code, meaning) in exit::BENCH_TABLE {
        text.push_str(&format!("  {code:<18} {meaning}\n"));
    }
    text
}

/// The tables of exit codes and variables, as `--help` shows them.
fn run_tables() -> String {
    let mut text = String::from("Exit status: the command's own, and\n");
    for (code, meaning) in exit::TABLE.iter().filter(|(code, _)| *code >= exit::FAILED) {
        text.push_str(&format!("  {code:<18} {meaning}\n"));
    }
    text.push_str("\nEnvironment:\n");
    for variable in env::TABLE {
        text.push_str(&format!("  {:<18} {}\n", variable.name, variable.meaning));
    }
    text
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn run(args: &[&str]) -> Result<RunArgs, clap::Error> {
        let all = ["neap", "run"].iter().chain(args);
        match Cli::try_parse_from(all)?.command {
            Command::Run(args) => Ok(*args),
            _ => panic!("not a run"),
        }
    }

    #[test]
    fn the_table_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn all_after_the_first_word_belongs_to_the_command() {
        let args = run(&["-m", "1G", "ls", "-m", "x", "--help", "--", "-v"]).unwrap();
        assert_eq!(args.engine.memory.as_deref(), Some("1G"));
        assert_eq!(args.command, ["ls", "-m", "x", "--help", "--", "-v"]);
        assert!(!args.engine.verbose);
    }

    #[test]
    fn all_after_two_dashes_belongs_to_the_command() {
        let args = run(&["-v", "--", "-odd-name", "--summary"]).unwrap();
        assert!(args.engine.verbose && !args.summary);
        assert_eq!(args.command, ["-odd-name", "--summary"]);
    }

    #[test]
    fn an_unknown_flag_is_not_taken_for_the_command() {
        assert!(run(&["--bogus", "ls"]).is_err());
        assert!(run(&[]).is_err());
        assert!(run(&["--no-swap", "--swap-dir", "/x", "ls"]).is_err());
        assert!(run(&["--in", "a", "-m", "1G", "--no-writeback", "ls"]).is_ok());
        for of_the_service in [
            ["--in", "a", "--no-swap"],
            ["--budget", "a", "--pool-beside"],
        ] {
            assert!(run(&[&of_the_service[..], &["ls"]].concat()).is_err());
        }
        assert!(run(&["--in", "a", "--budget", "b", "ls"]).is_err());
    }

    #[test]
    fn a_bench_takes_a_list_and_a_count() {
        let bench = |args: &[&str]| {
            let all = ["neap", "bench", "-m", "1G"].iter().chain(args);
            match Cli::try_parse_from(all)?.command {
                Command::Bench(args) => Ok(args),
                _ => panic!("not a bench"),
            }
        };
        let args = bench(&["--against", "zram,neap", "--runs", "3", "--", "ls", "-m"]);
        let args: BenchArgs = args.unwrap();
        assert_eq!(args.against, [Contender::Zram, Contender::Neap]);
        assert_eq!((args.runs, args.command.len()), (3, 2));
        assert_eq!(args.patience, None);
        let patient = bench(&["--patience", "9", "ls"]).unwrap();
        assert_eq!(patient.patience, Some(9));
        assert_eq!(bench(&["ls"]).unwrap().against.len(), 4);
        for bad in [
            ["--runs", "0"],
            ["--patience", "0"],
            ["--against", "zwap"],
            ["--against", ""],
        ] {
            let error: clap::Error = bench(&[bad[0], bad[1], "ls"]).unwrap_err();
            assert!(error.use_stderr(), "{bad:?}");
        }
    }

    #[test]
    fn help_shows_every_variable_and_code() {
        let mut command = Cli::command();
        let run = command.find_subcommand_mut("run").unwrap();
        let help = run.render_long_help().to_string();
        for variable in env::TABLE {
            assert!(help.contains(variable.name), "{}", variable.name);
        }
        for code in ["125", "126", "127", "128"] {
            assert!(help.contains(code));
        }
    }
}
