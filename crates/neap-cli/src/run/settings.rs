//! The settings of one job of a service, by the names of a memory cgroup's files.

use clap::Args;
use neap_units::Bytes;

use crate::failure::Failure;
use crate::machine::Root;
use crate::run::limit;

/// Flags of `neap run` that set them.
#[derive(Clone, Debug, Default, Args)]
pub struct SettingArgs {
    /// Above this, memory is reclaimed and threads that take more wait, and nothing else happens (memory.high)
    #[arg(long, value_name = "SIZE")]
    pub high: Option<String>,

    /// In a service, or within another run: what reclaim for others does not take from this job while others have any (memory.low)
    #[arg(long, value_name = "SIZE")]
    pub low: Option<String>,

    /// In a service, or within another run: what is never taken from this job for others (memory.min)
    #[arg(long, value_name = "SIZE")]
    pub min: Option<String>,

    /// In a service: the most of this job's pages that may be out, compressed or on disk (memory.swap.max)
    #[arg(long, value_name = "SIZE", requires = "of_service")]
    pub swap_max: Option<String>,

    /// In a service: the most that this job's compressed pages may take in memory (memory.zswap.max); 0: they go to disk at once
    #[arg(long, value_name = "SIZE", requires = "of_service")]
    pub zswap_max: Option<String>,
}

/// The settings. `None`: no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// `memory.high`.
    pub high: Option<Bytes>,
    /// What protects the job from others, by `memory.low` and `memory.min`.
    pub low: Bytes,
    pub min: Bytes,
    /// `memory.swap.max` and `memory.zswap.max`.
    pub swap_max: Option<Bytes>,
    pub zswap_max: Option<Bytes>,
}

impl Settings {
    /// Reads the flags.
    ///
    /// # Errors
    /// One holds no size.
    pub fn read(args: &SettingArgs, root: &Root) -> Result<Self, Failure> {
        let size = |flag, text: &Option<String>| {
            let text = text.as_deref();
            text.map(|text| limit::size(root, flag, text)).transpose()
        };
        Ok(Self {
            high: size("--high", &args.high)?,
            low: size("--low", &args.low)?.unwrap_or(Bytes::ZERO),
            min: size("--min", &args.min)?.unwrap_or(Bytes::ZERO),
            swap_max: size("--swap-max", &args.swap_max)?,
            zswap_max: size("--zswap-max", &args.zswap_max)?,
        })
    }
}
