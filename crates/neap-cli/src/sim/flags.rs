//! Flags of `neap sim`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand};
use neap_store::CompressorKind;

/// Flags of `neap sim`.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub struct SimArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: SimCommand,
}

/// The subcommands of `neap sim`.
#[derive(Debug, Subcommand)]
pub enum SimCommand {
    /// Run a published experiment and show its numbers beside the reported ones
    Experiment(ExperimentArgs),
    /// Run a workload described in a TOML file
    Run(RunFileArgs),
    /// Make a trace of what another tool recorded
    Import(ImportArgs),
    /// Run a trace on an imagined machine
    Replay(ReplayArgs),
    /// Say what different limits would do to a recorded program
    Forecast(ForecastArgs),
    /// Fit a model of compressed sizes and costs from real pages
    Fit(FitArgs),
    /// Print the JSON Schema of workload files
    Schema,
}

/// Flags of `neap sim experiment`.
#[derive(Debug, Args)]
pub struct ExperimentArgs {
    /// An experiment's name; `list` shows them, `all` runs them
    #[arg(value_name = "NAME|list|all")]
    pub name: String,
    /// Write the result as JSON; - is standard output (one object; with `all` or --sweep, an
    /// array, of --sweep with the key `setting` in each)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write one page with tables and plots that needs nothing else; - is standard output
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Keep each run in FILE as it ends, and do not run again what FILE has: the same command goes on where it was
    /// interrupted
    #[arg(long, value_name = "FILE")]
    pub resume: Option<PathBuf>,
    /// Size of machine and work, as a share of what was reported, 0.0001 to 16 (mthp-store: from 0.002 on)
    /// [default: the experiment's own]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    pub scale: Option<f64>,
    /// The first seed [default: 1]
    #[arg(long, value_name = "N", allow_negative_numbers = true,
        value_parser = clap::value_parser!(u64).range(..=1 << 63))]
    pub seed: Option<u64>,
    /// How many seeds [default: 20]
    #[arg(long, value_name = "N", allow_negative_numbers = true,
        value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub seeds: Option<u64>,
    /// Set a parameter; may be given again
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Try each value of a chosen parameter, or of all of them with no KEY
    #[arg(long, value_name = "KEY", num_args = 0..=1, default_missing_value = "all")]
    pub sweep: Option<String>,
    /// Run again what --json stored in FILE, with its seeds and parameters, and compare every number
    #[arg(long, value_name = "FILE",
        conflicts_with_all = ["json", "html", "resume", "scale", "seed", "seeds", "set", "sweep"])]
    pub verify: Option<PathBuf>,
    /// Show what make lab measured on real kernels, as FILE stores it, beside the simulator's numbers for the same machines
    #[arg(long, value_name = "FILE", conflicts_with_all = ["html", "resume", "scale", "sweep", "verify"])]
    pub against: Option<PathBuf>,
    /// How many threads; changes no result [default: one for each CPU]
    #[arg(long, value_name = "N", allow_negative_numbers = true,
        value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub threads: Option<u16>,
}

impl ExperimentArgs {
    /// How many threads.
    pub fn threads(&self) -> usize {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        self.threads.map_or(cpus, usize::from).max(1)
    }

    /// How many seeds.
    pub fn seeds(&self) -> u64 {
        self.seeds.unwrap_or(20)
    }
}

/// Flags of `neap sim run`.
#[derive(Debug, Args)]
pub struct RunFileArgs {
    /// The workload
    #[arg(value_name = "FILE.toml")]
    pub file: PathBuf,
    /// Seed, over the file's
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Flags of `neap sim import`.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// lackey (of valgrind --tool=lackey --trace-mem=yes), oracle-general (of libCacheSim) or record (of
    /// neap run --record)
    #[arg(long, value_name = "FORMAT")]
    pub from: Format,
    /// The recording; - is standard input
    #[arg(value_name = "FILE")]
    pub input: PathBuf,
    /// The trace to write; - is standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// lackey: length of a window within which only the first touch of a page counts [default: 2ms]
    #[arg(long, value_name = "TIME")]
    pub window: Option<String>,
    /// lackey: a window ends earlier when it has so many pages [default: 256]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub window_pages: Option<u32>,
    /// lackey: time of a thousand instructions [default: 400ns]
    #[arg(long, value_name = "TIME")]
    pub thousand_instructions: Option<String>,
}

/// Formats of recordings.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Format {
    /// valgrind's lackey.
    Lackey,
    /// libCacheSim's oracleGeneral.
    OracleGeneral,
    /// neap run --record.
    Record,
}

/// The imagined machine that a trace runs on.
#[derive(Debug, Args)]
pub struct MachineArgs {
    /// Linux version whose rules hold [default: 6.12; of forecast: none, but neap run]
    #[arg(long, value_name = "VERSION")]
    pub kernel: Option<String>,
    /// Use the multi-generational LRU
    #[arg(long)]
    pub mglru: bool,
    /// Swap size [default: 64G]
    #[arg(long, value_name = "SIZE")]
    pub swap_size: Option<String>,
    /// Time of a swap read [default: 100us]
    #[arg(long, value_name = "TIME")]
    pub swap_latency: Option<String>,
    /// Compress pages before they go to swap, and let the shrinker write cold ones back
    #[arg(long)]
    pub zswap: bool,
    /// Seed of everything random [default: 1]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

impl MachineArgs {
    /// The Linux version.
    pub fn version(&self) -> &str {
        self.kernel.as_deref().unwrap_or("6.12")
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.seed.unwrap_or(1)
    }

    /// Whether anything of it was given.
    pub fn any(&self) -> bool {
        let swap = self.swap_size.is_some() || self.swap_latency.is_some();
        self.kernel.is_some() || self.mglru || self.zswap || self.seed.is_some() || swap
    }
}

/// Flags of `neap sim replay`.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// A trace; or a record of neap run, whose decisions are made again and compared
    #[arg(value_name = "FILE")]
    pub trace: PathBuf,
    /// Record: write every decision made now as a line of text; - is standard output, without the table
    #[arg(long, value_name = "FILE", conflicts_with = "memory")]
    pub decisions: Option<PathBuf>,
    /// Record: write every recorded decision as a line of text; - as above
    #[arg(long, value_name = "FILE", conflicts_with = "memory")]
    pub recorded: Option<PathBuf>,
    /// Memory limit of the program [default: none]; makes a trace of a record
    #[arg(short = 'm', long, value_name = "SIZE", allow_hyphen_values = true)]
    pub memory: Option<String>,
    /// Compressor of zswap [default: none; each page gets four times smaller]
    #[arg(long, value_name = "NAME", requires = "zswap")]
    pub compressor: Option<CompressorKind>,
    /// Pages of which model are alike the program's [default: the mean of all]
    #[arg(long, value_name = "NAME", requires = "compressor")]
    pub content: Option<String>,
    /// Models of neap sim fit [default: those built in]
    #[arg(long, value_name = "FILE", requires = "compressor")]
    pub models: Option<PathBuf>,
    /// The machine.
    #[command(flatten)]
    pub machine: MachineArgs,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Flags of `neap sim forecast`.
#[derive(Debug, Args)]
pub struct ForecastArgs {
    /// The trace, or a record of neap run
    #[arg(value_name = "TRACE")]
    pub trace: PathBuf,
    /// Limits to try: sizes, or shares of what the program needs [default:
    /// 100%,90%,80%,70%,60%,50%,40%,30%]
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        allow_hyphen_values = true
    )]
    pub limits: Vec<String>,
    /// Compressor of neap run [default: zstd:-1]
    #[arg(long, value_name = "NAME")]
    pub compressor: Option<CompressorKind>,
    /// Pages of which model are alike the program's [default: those of all, and their range]
    #[arg(long, value_name = "NAME")]
    pub content: Option<String>,
    /// Models of neap sim fit [default: those built in]
    #[arg(long, value_name = "FILE")]
    pub models: Option<PathBuf>,
    /// How many times smaller pages get compressed [default: as the models say]
    #[arg(long, value_name = "X", allow_hyphen_values = true)]
    pub ratio: Option<f64>,
    /// How long the program takes without a limit [default: as the trace says]
    #[arg(long, value_name = "TIME")]
    pub time: Option<String>,
    /// Largest share of the limit that the pool may take, in percent [default: 50]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(1..=100))]
    pub pool_max: Option<u8>,
    /// Without a swap file
    #[arg(long)]
    pub no_swap: bool,
    /// Cpus of the machine: with one, reclaim takes the program's time [default: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub cpus: Option<u32>,
    /// The machine.
    #[command(flatten)]
    pub machine: MachineArgs,
    /// Write the result as JSON; - is standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write a plot; - is standard output
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

/// Flags of `neap sim fit`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("source").required(true).args(["pid", "file"])))]
pub struct FitArgs {
    /// What to call the content
    #[arg(long, value_name = "NAME")]
    pub name: String,
    /// Take the anonymous pages of this process
    #[arg(long, value_name = "PID")]
    pub pid: Option<u32>,
    /// Take the pages of a file
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Compressors to try
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "lz4,zstd:-1,zstd:1,deflate:1"
    )]
    pub compressors: Vec<CompressorKind>,
    /// Most pages to take, spread evenly over what there is
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub pages: u64,
    /// Models to add the result to; - is standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub output: PathBuf,
}
