//! The simulator against the kernel it runs on: the same accesses in a memory cgroup with
//! zswap, natively and imagined, and the counters of both.
//!
//! Root only. It makes a swap file, a memory cgroup (version 1) and switches zswap on, and
//! puts everything back. On cgroup v1 compressed bytes are charged to nobody and the
//! shrinker sees none, so write-back starts when the pool is full.
//!
//!     cargo run --release -p neap-sim --example native-check -- [PATTERN...] [KEY=VALUE...]
//!
//! Keys: mib (memory of the program), limit (of its cgroup), pool (percent of RAM), bytes
//! (of a page that do not compress), accesses, seed, swap (MiB), dir (of the swap file),
//! only (native or simulated).
#![forbid(unsafe_code)]

mod native;
mod pattern;
mod simulated;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use pattern::Pattern;

/// Counters that are compared.
pub const COUNTERS: [&str; 6] = [
    "zswpin",
    "zswpout",
    "zswpwb",
    "pswpin",
    "pswpout",
    "workingset_refault_anon",
];

/// A value of each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts(pub [u64; COUNTERS.len()]);

impl Counts {
    /// What was added since.
    pub fn since(&self, earlier: &Counts) -> Counts {
        Counts(std::array::from_fn(|i| {
            self.0[i].saturating_sub(earlier.0[i])
        }))
    }
}

impl Counts {
    /// The median of each.
    fn median(of: &[Counts]) -> Counts {
        Counts(std::array::from_fn(|i| {
            let mut values: Vec<u64> = of.iter().map(|counts| counts.0[i]).collect();
            values.sort_unstable();
            values[values.len() / 2]
        }))
    }
}

/// The program, its cgroup and the machine.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Memory of the program.
    pub mib: u64,
    /// Limit of its cgroup.
    pub limit_mib: u64,
    /// Most of RAM the pool takes.
    pub pool_percent: u8,
    /// Bytes of a page that do not compress.
    pub bytes: u16,
    /// Bytes a page is stored in. lzo looks for matches ever more seldom within data that
    /// has none, and so misses the first zeros behind: 3200 of 2990, going by the pool's
    /// pages in /proc/meminfo.
    pub compressed: u16,
    /// Accesses after the filling.
    pub accesses: u64,
    /// Seed of the pattern.
    pub seed: u64,
    /// Size of the swap file.
    pub swap_mib: u64,
    /// RAM of the machine.
    pub ram_mib: u64,
    /// Whether swap fills up what it has begun.
    pub prefer_nonfull: bool,
}

/// What was asked for.
struct Asked {
    setting: Setting,
    patterns: Vec<&'static str>,
    dir: PathBuf,
    native: bool,
    simulated: bool,
    runs: usize,
}

fn parse(args: &[String]) -> Result<Asked, String> {
    let mut asked = Asked {
        setting: Setting {
            mib: 480,
            limit_mib: 96,
            pool_percent: 1,
            bytes: 2990,
            compressed: 3200,
            accesses: 400_000,
            seed: 1,
            swap_mib: 768,
            ram_mib: native::ram_mib().unwrap_or(16 << 10),
            prefer_nonfull: true,
        },
        patterns: Vec::new(),
        dir: PathBuf::from("/var/tmp"),
        native: true,
        simulated: true,
        runs: 3,
    };
    for arg in args {
        let Some((key, value)) = arg.split_once('=') else {
            let named = Pattern::ALL.iter().find(|(_, name)| name == arg);
            let (_, name) = named.ok_or_else(|| format!("no pattern is called {arg:?}"))?;
            asked.patterns.push(name);
            continue;
        };
        let number = || value.parse::<u64>().map_err(|e| format!("{arg}: {e}"));
        let setting = &mut asked.setting;
        match key {
            "mib" => setting.mib = number()?,
            "limit" => setting.limit_mib = number()?,
            "pool" => setting.pool_percent = number()? as u8,
            "bytes" => setting.bytes = number()? as u16,
            "compressed" => setting.compressed = number()? as u16,
            "accesses" => setting.accesses = number()?,
            "seed" => setting.seed = number()?,
            "nonfull" => setting.prefer_nonfull = number()? != 0,
            "swap" => setting.swap_mib = number()?,
            "runs" => asked.runs = number()?.max(1) as usize,
            "dir" => asked.dir = PathBuf::from(value),
            "only" => {
                asked.native = value == "native";
                asked.simulated = value == "simulated";
            }
            _ => return Err(format!("no key is called {key:?}")),
        }
    }
    if asked.patterns.is_empty() {
        asked.patterns = Pattern::ALL.iter().map(|(_, name)| *name).collect();
    }
    Ok(asked)
}

/// One row for each counter of one part of a run.
fn table(part: &str, native: &Counts, simulated: &Counts) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for (at, name) in COUNTERS.iter().enumerate() {
        let (real, simulated) = (native.0[at], simulated.0[at]);
        let difference = match (real, simulated) {
            (0, 0) => "0.0 %".to_owned(),
            (0, _) => "-".to_owned(),
            _ => format!("{:+.1} %", (simulated as f64 / real as f64 - 1.0) * 100.0),
        };
        writeln!(
            out,
            "| {part} | {name} | {real} | {simulated} | {difference} |"
        )?;
    }
    Ok(())
}

fn check(asked: &Asked) -> io::Result<()> {
    let setting = &asked.setting;
    let head = "| pattern | counter | native | simulated | difference |\n|---|---|---|---|---|";
    writeln!(io::stdout(), "{head}")?;
    for name in &asked.patterns {
        let pattern = Pattern::named(name).unwrap_or(Pattern::Random);
        let (mut real, mut imagined) = Default::default();
        if asked.native {
            let runs: io::Result<Vec<_>> = (0..asked.runs)
                .map(|_| native::run(setting, name, &asked.dir))
                .collect();
            let (fills, rest): (Vec<_>, Vec<_>) = runs?.into_iter().unzip();
            real = (Counts::median(&fills), Counts::median(&rest));
        }
        if asked.simulated {
            imagined = simulated::run(setting, pattern)?;
        }
        table(&format!("{name}, fill"), &real.0, &imagined.0)?;
        table(name, &real.1, &imagined.1)?;
    }
    Ok(())
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = match args.first().map(String::as_str) {
        Some("child") => native::child(&args[1..]),
        _ => parse(&args)
            .map_err(io::Error::other)
            .and_then(|asked| check(&asked)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "native-check: {error}");
            ExitCode::FAILURE
        }
    }
}
