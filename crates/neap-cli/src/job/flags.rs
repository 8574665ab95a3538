//! Flags of the commands that look at a running job or steer it.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

/// The job that a command is about.
#[derive(Clone, Debug, Args)]
pub struct Whom {
    /// The job: its name, the beginning of it, the number of one of its processes, or the path of its socket [default: the
    /// only one there is]
    #[arg(value_name = "JOB")]
    pub job: Option<String>,
}

/// Flags of `neap ps`.
#[derive(Debug, Args)]
pub struct PsArgs {
    /// Print one JSON object with all figures of each job
    #[arg(long)]
    pub json: bool,
}

/// Flags of `neap stat`.
#[derive(Debug, Args)]
pub struct StatArgs {
    /// Whom to ask.
    #[command(flatten)]
    pub whom: Whom,
    /// Print all figures as one JSON object, with the names that --stats of neap run has
    #[arg(long)]
    pub json: bool,
    /// Print the counters as /proc/vmstat has them
    #[arg(long, conflicts_with = "json")]
    pub vmstat: bool,
}

/// Flags of `neap set`.
#[derive(Debug, Args)]
pub struct SetArgs {
    /// The job: its name, the beginning of it, the number of one of its processes, or the path of its socket
    #[arg(value_name = "JOB")]
    pub job: String,
    /// What to set: memory.max=3G (or 50% of RAM, or max), memory.high=2G, swap.max=2G, zswap.max=512M (or max), zswap.max_pool_percent=25,
    /// zswap.writeback=0, idle=10m, memory.pressure=20; of a job in a service memory.low=1G, memory.min=1G
    #[arg(value_name = "KEY=VALUE", required = true)]
    pub changes: Vec<String>,
}

/// Flags of `neap reclaim`.
#[derive(Debug, Args)]
#[command(allow_missing_positional = true)]
pub struct ReclaimArgs {
    /// Whom to ask.
    #[command(flatten)]
    pub whom: Whom,
    /// How much less memory the job is to take: 512M, 1.5G (powers of 1024)
    #[arg(value_name = "SIZE")]
    pub size: String,
}

/// Flags of `neap freeze`.
#[derive(Debug, Args)]
pub struct FreezeArgs {
    /// The job: its name, the beginning of it, the number of one of its processes, or the path of its socket
    #[arg(value_name = "JOB")]
    pub job: String,
    /// Write all that is compressed to the swap file, too
    #[arg(long)]
    pub to_disk: bool,
}

/// Flags of `neap thaw`.
#[derive(Debug, Args)]
pub struct ThawArgs {
    /// The job: its name, the beginning of it, the number of one of its processes, or the path of its socket
    #[arg(value_name = "JOB")]
    pub job: String,
    /// Bring back what it used last before it is touched, as far as the limit has room
    #[arg(long)]
    pub prefetch: bool,
}

/// Flags of `neap events`.
#[derive(Debug, Args)]
pub struct EventsArgs {
    /// Whom to ask.
    #[command(flatten)]
    pub whom: Whom,
    /// Print each event as one JSON object on a line
    #[arg(long)]
    pub json: bool,
}

/// Flags of `neap metrics`.
#[derive(Debug, Args)]
pub struct MetricsArgs {
    /// Answer HTTP at /metrics there, such as 127.0.0.1:9464; loopback addresses only
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with_all = ["socket", "textfile"])]
    pub listen: Option<SocketAddr>,
    /// Answer HTTP at /metrics on this socket, which only this user reaches
    #[arg(long, value_name = "PATH", conflicts_with = "textfile")]
    pub socket: Option<PathBuf>,
    /// Write them into this file once, for the textfile collector of node_exporter
    #[arg(long, value_name = "FILE")]
    pub textfile: Option<PathBuf>,
}

/// Flags of `neap report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// The page to write, such as run.html; - is standard output
    #[arg(value_name = "FILE.html")]
    pub file: PathBuf,
    /// The job, up to now: its name, the beginning of it, the number of one of its processes, or the path of its socket
    /// [default: the only one there is]
    #[arg(value_name = "JOB", conflicts_with = "stats")]
    pub job: Option<String>,
    /// A run that has ended, by the file that neap run --stats wrote; - is standard input
    #[arg(long, value_name = "FILE")]
    pub stats: Option<PathBuf>,
}

/// Flags of `neap top`.
#[derive(Debug, Args)]
pub struct TopArgs {
    /// Print the jobs once, and end: as neap ps
    #[arg(long)]
    pub once: bool,
    /// Print one JSON object with all figures of each job
    #[arg(long, requires = "once")]
    pub json: bool,
}

#[cfg(test)]
mod tests {
    use clap::{Command, FromArgMatches};

    use super::*;

    #[test]
    fn memory_is_asked_of_the_only_job_if_none_is_named() {
        for (words, job) in [(&["", "8M"][..], None), (&["", "web", "8M"], Some("web"))] {
            let command = ReclaimArgs::augment_args(Command::new("reclaim"));
            let matches = command.try_get_matches_from(words).expect("they are right");
            let args = ReclaimArgs::from_arg_matches(&matches).expect("all is there");
            assert_eq!((args.whom.job.as_deref(), &*args.size), (job, "8M"));
        }
    }
}
