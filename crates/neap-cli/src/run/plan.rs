//! What one run will do: flags and variables, read and decided, before anything starts.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use neap_control::Name;
use neap_engine::Swap;
use neap_store::{CompressorKind, ShrinkerKind};
use neap_tuning::TUNING;
use neap_units::{Bytes, Nanos};

use crate::choice::{IdleTime, OnExhausted, PoolMax};
use crate::env::{self, Lookup};
use crate::failure::Failure;
use crate::flags::{EngineArgs, RunArgs};
use crate::machine::{self, Root};
use crate::run::limit::{Limit, limit};
use crate::run::member::Wanted;
use crate::run::settings::Settings;
use crate::run::swap::{self, Inspect, Wish};

/// The decisions of one run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The service that has the engine; then most of what follows is that one's to know.
    pub service: Option<Wanted>,
    /// What the job may have there, and keeps.
    pub settings: Settings,
    /// The limit.
    pub limit: Limit,
    /// The swap file.
    pub swap: Swap,
    /// Pages may be written to it.
    pub writeback: bool,
    /// The pool's share of the limit; of the machine's memory, as in the kernel, where the limit leaves the pool out.
    pub pool_max: PoolMax,
    /// The same in bytes.
    pub pool_most: Bytes,
    /// The limit leaves the pool out.
    pub pool_beside: bool,
    /// What compresses.
    pub compressor: CompressorKind,
    /// How the pool gives way.
    pub shrinker: ShrinkerKind,
    /// What happens when nothing can be reclaimed.
    pub on_exhausted: OnExhausted,
    /// Memory leaves processes that have done nothing for so long; 0: it stays. `None`: as a service has it, or it stays.
    pub idle: Option<Nanos>,
    /// Nothing runs unmanaged.
    pub require: bool,
    /// Say on stderr what happens.
    pub verbose: bool,
    /// What is wrong with the userfaultfd device that a variable names.
    pub device_fault: Option<String>,
    /// Lines the user should read before the command runs.
    pub warnings: Vec<String>,
}

/// Where a plan's facts come from.
#[derive(Clone, Copy)]
pub struct Sources<'a> {
    /// The machine's files.
    pub root: &'a Root,
    /// The variables.
    pub env: Lookup<'a>,
    /// How a directory's file system is found.
    pub inspect: Inspect<'a>,
}

/// Said of a run that was started by a run.
pub const NESTED: &str =
    "this runs under another neap run, whose limit does not count what it starts: its own does";

impl Plan {
    /// Decides.
    ///
    /// # Errors
    /// When a flag or variable cannot be read, or no limit is to be had.
    pub fn make(args: &EngineArgs, sources: Sources<'_>) -> Result<Self, Failure> {
        let Sources { root, env, inspect } = sources;
        let memory = text(args.memory.as_deref(), "--memory", env::MEMORY, env)?;
        let limit = limit(root, memory.flag, memory.value.as_deref())?;
        let size = text(
            args.swap_size.as_deref(),
            "--swap-size",
            env::SWAP_SIZE,
            env,
        )?;
        let dir = swap::named(args.swap_dir.as_deref(), env);
        let wish = Wish {
            off: args.no_swap,
            dir: dir.as_ref(),
            size: size.value.as_deref().map(|text| (size.flag, text)),
        };
        let tmpdir = env("TMPDIR").map(PathBuf::from);
        let swap = swap::choose(wish, &swap::usual_dirs(tmpdir), inspect)?;
        let nested = env(neap_wire::SOCKET_ENV).map(|_| NESTED.to_owned());
        let pool_max: PoolMax = choice(args.pool_max, env::POOL_MAX, env)?;
        let whole = match args.pool_beside {
            true => machine::ram(root).unwrap_or(limit.bytes),
            false => limit.bytes,
        };
        Ok(Self {
            warnings: limit
                .warning
                .clone()
                .into_iter()
                .chain(swap.warning)
                .chain(nested)
                .collect(),
            service: None,
            settings: Settings::default(),
            limit,
            swap: swap.swap,
            writeback: !args.no_writeback,
            pool_most: pool_max.of(whole),
            pool_max,
            pool_beside: args.pool_beside,
            compressor: choice(args.compressor, env::COMPRESSOR, env)?,
            shrinker: choice(args.shrinker, env::SHRINKER, env)?,
            on_exhausted: choice(args.on_exhausted, env::ON_EXHAUSTED, env)?,
            idle: args.idle.map(|IdleTime(time)| time),
            require: false,
            verbose: args.verbose,
            device_fault: missing_device(env),
        })
    }

    /// Decides for a run: that has an engine of its own, or joins a service.
    ///
    /// # Errors
    /// As [`make`](Self::make).
    pub fn of_run(args: &RunArgs, sources: Sources<'_>) -> Result<Self, Failure> {
        let settings = Settings::read(&args.settings, sources.root)?;
        let plan = match service(args, sources.env)? {
            Some(service) => Self::in_service(&args.engine, service, sources)?,
            None if settings.low.max(settings.min) > Bytes::ZERO => {
                let why = "--low and --min protect a job from others, and there are none: join a service with --in NAME or --budget NAME:SIZE";
                return Err(Failure::Service(why.to_owned()));
            }
            None => Self::make(&args.engine, sources)?,
        };
        Ok(Self {
            settings,
            require: args.require,
            ..plan
        })
    }

    /// Decides for a run that was to join the job around it, and could not.
    ///
    /// # Errors
    /// As [`make`](Self::make).
    pub fn alone(args: &RunArgs, sources: Sources<'_>) -> Result<Self, Failure> {
        let plan = Self::make(&args.engine, sources)?;
        Ok(Self {
            settings: Settings::read(&args.settings, sources.root)?,
            require: args.require,
            ..plan
        })
    }

    /// A job in a service has a limit of its own only if one is given.
    fn in_service(
        args: &EngineArgs,
        service: Wanted,
        sources: Sources<'_>,
    ) -> Result<Self, Failure> {
        let Sources { root, env, .. } = sources;
        let memory = text(args.memory.as_deref(), "--memory", env::MEMORY, env)?;
        let limit = match memory.value.as_deref() {
            Some(value) => limit(root, memory.flag, Some(value))?,
            None => Limit {
                bytes: TUNING.limit.most,
                source: format!("that of service {}", service.name),
                is_cgroups: false,
                warning: None,
            },
        };
        Ok(Self {
            warnings: limit.warning.clone().into_iter().collect(),
            service: Some(service),
            settings: Settings::default(),
            limit,
            swap: Swap::Off,
            writeback: !args.no_writeback,
            pool_most: Bytes::ZERO,
            pool_max: PoolMax::default(),
            pool_beside: false,
            compressor: CompressorKind::default(),
            shrinker: ShrinkerKind::default(),
            on_exhausted: OnExhausted::default(),
            idle: args.idle.map(|IdleTime(time)| time),
            require: false,
            verbose: args.verbose,
            device_fault: None,
        })
    }

    /// The limit of the job's own, if it has one beside that of its service.
    #[must_use]
    pub fn own_limit(&self) -> Option<Bytes> {
        Some(self.limit.bytes).filter(|bytes| *bytes < TUNING.limit.most)
    }

    /// The decisions as data, for a report that says how it came about.
    #[must_use]
    pub fn config(&self) -> serde_json::Value {
        if let Some(service) = &self.service {
            return serde_json::json!({
                "limit_source": self.limit.source,
                "service": service.name.as_str(),
            });
        }
        let (swap_dir, swap_size) = match &self.swap {
            Swap::Off => (None, 0),
            Swap::Dir { dir, size } => (Some(dir.to_string_lossy()), size.0),
        };
        serde_json::json!({
            "limit_source": self.limit.source,
            "swap_dir": swap_dir,
            "swap_size_bytes": swap_size,
            "writeback": self.writeback,
            "pool_max_percent": self.pool_max.0,
            "pool_max_bytes": self.pool_most.0,
            "pool_beside": self.pool_beside,
            "compressor": self.compressor.to_string(),
            "shrinker": self.shrinker.to_string(),
            "on_exhausted": self.on_exhausted.to_string(),
            "idle_seconds": self.idle.filter(|time| time.0 > 0).map(|time| time.duration().as_secs_f64()),
        })
    }

    /// The lines of `-v`: every decision with its value in bytes.
    #[must_use]
    pub fn describe(&self) -> Vec<String> {
        if let Some(service) = &self.service {
            let own = self
                .own_limit()
                .map(|bytes| format!("limit {} bytes ({}), ", bytes.0, self.limit.source));
            return vec![format!(
                "{}in service {}",
                own.unwrap_or_default(),
                service.name
            )];
        }
        let swap = match &self.swap {
            Swap::Off => "swap off".to_owned(),
            Swap::Dir { dir, size } => {
                let written = if self.writeback {
                    ""
                } else {
                    ", not written to"
                };
                format!(
                    "swap in {}, at most {} bytes{written}",
                    dir.display(),
                    size.0
                )
            }
        };
        let whole = match self.pool_beside {
            true => "machine, beside the limit",
            false => "limit",
        };
        let idle = match self.idle {
            None | Some(Nanos(0)) => String::new(),
            Some(time) => format!(", idle after {:?}", time.duration()),
        };
        vec![
            format!("limit {} bytes ({})", self.limit.bytes.0, self.limit.source),
            swap,
            format!(
                "pool at most {} bytes ({} % of the {whole}), {}, shrinker {}, when exhausted {}{idle}",
                self.pool_most.0,
                self.pool_max.0,
                self.compressor,
                self.shrinker,
                self.on_exhausted
            ),
        ]
    }
}

/// The service that the flags of a run name.
fn service(args: &RunArgs, env: Lookup<'_>) -> Result<Option<Wanted>, Failure> {
    let named = |name: &Name| Wanted {
        name: name.clone(),
        budget: None,
        is_around: false,
    };
    match (&args.budget, &args.service) {
        (Some(word), _) => Wanted::parse(word).map(Some),
        (None, Some(name)) => Ok(Some(named(name))),
        (None, None) if args.record.is_some() || args.engine.says_how() => Ok(None),
        (None, None) => Ok(Wanted::around(env)),
    }
}

/// What is wrong when the userfaultfd device that a variable names is not there.
fn missing_device(env: Lookup<'_>) -> Option<String> {
    let path = PathBuf::from(env(env::UFFD_DEVICE)?);
    let error = std::fs::metadata(&path).err()?;
    Some(format!("{} {}: {error}", env::UFFD_DEVICE, path.display()))
}

/// A value and the flag or variable that gave it.
struct Given {
    flag: &'static str,
    value: Option<String>,
}

fn text(
    flag_value: Option<&str>,
    flag: &'static str,
    variable: &'static str,
    env: Lookup<'_>,
) -> Result<Given, Failure> {
    if let Some(value) = flag_value {
        let value = Some(value.to_owned());
        return Ok(Given { flag, value });
    }
    let value = env(variable)
        .map(OsString::into_string)
        .transpose()
        .map_err(|_| Failure::NotText(variable))?;
    let flag = if value.is_some() { variable } else { flag };
    Ok(Given { flag, value })
}

fn choice<T: FromStr<Err: std::fmt::Display> + Default>(
    flag_value: Option<T>,
    variable: &'static str,
    env: Lookup<'_>,
) -> Result<T, Failure> {
    if let Some(value) = flag_value {
        return Ok(value);
    }
    let given = text(None, variable, variable, env)?;
    given.value.map_or_else(
        || Ok(T::default()),
        |value| {
            value.parse().map_err(|fault: T::Err| Failure::Choice {
                name: variable,
                fault: fault.to_string(),
            })
        },
    )
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::Parser;

    use super::*;
    use crate::flags::{Cli, Command};
    use crate::machine::{Filesystem, Kind, fake::machine};

    fn plan(args: &[&str], variables: &[(&str, &str)]) -> Result<Plan, Failure> {
        let line = ["neap", "run"].iter().chain(args).chain(&["true"]);
        let Command::Run(args) = Cli::try_parse_from(line).unwrap().command else {
            panic!("not a run");
        };
        let (_dir, root) = machine(&[("/proc/meminfo", "MemTotal:  4194304 kB\n")]);
        let env = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        };
        let inspect = |_: &Path| {
            Ok(Filesystem {
                kind: Kind::Disk,
                name: "ext4".to_owned(),
                free: Bytes::gib(8),
            })
        };
        let sources = Sources {
            root: &root,
            env: &env,
            inspect: &inspect,
        };
        Plan::make(&args.engine, sources)
    }

    #[test]
    fn a_flag_beats_its_variable_and_a_variable_the_built_in_value() {
        let variables = [("NEAP_MEMORY", "1G"), ("NEAP_COMPRESSOR", "zstd:5")];
        let from_env = plan(&[], &variables).unwrap();
        assert_eq!(from_env.limit.bytes, Bytes::gib(1));
        assert_eq!(from_env.compressor, CompressorKind::Zstd(5));
        assert_eq!(from_env.shrinker, ShrinkerKind::SecondChance);
        let both = plan(&["-m", "2G", "--compressor", "lz4"], &variables).unwrap();
        assert_eq!(both.limit.bytes, Bytes::gib(2));
        assert_eq!(both.compressor, CompressorKind::Lz4);
    }

    #[test]
    fn faults_name_the_flag_or_the_variable() {
        let flag = plan(&["-m", "1X"], &[]).unwrap_err().to_string();
        assert!(flag.starts_with("--memory: "), "{flag}");
        let variable = plan(&[], &[("NEAP_MEMORY", "1X")]).unwrap_err().to_string();
        assert!(variable.starts_with("NEAP_MEMORY: "), "{variable}");
        let choice = plan(&["-m", "1G"], &[("NEAP_POOL_MAX", "x")]).unwrap_err();
        assert!(choice.to_string().starts_with("NEAP_POOL_MAX: "));
    }

    #[test]
    fn a_bad_swap_directory_is_blamed_on_what_named_it() {
        let variables = [("NEAP_SWAP_DIR", "/no/such")];
        let variable = plan(&["-m", "1G"], &variables).unwrap_err().to_string();
        assert!(
            variable.starts_with("NEAP_SWAP_DIR /no/such: "),
            "{variable}"
        );
        let flag = plan(&["-m", "1G", "--swap-dir", "/no/such"], &variables).unwrap_err();
        assert!(flag.to_string().starts_with("--swap-dir /no/such: "));
    }

    #[test]
    fn no_swap_beats_the_variable() {
        let plan = plan(&["-m", "1G", "--no-swap"], &[("NEAP_SWAP_DIR", "/")]).unwrap();
        assert_eq!(plan.swap, Swap::Off);
    }

    #[test]
    fn the_pools_share_is_of_the_limit_or_beside_it_of_the_machine() {
        let inside = plan(&["-m", "1G", "--pool-max", "25"], &[]).unwrap();
        assert_eq!(inside.pool_most, Bytes::mib(256));
        let beside = ["-m", "1G", "--pool-max", "25", "--pool-beside"];
        assert_eq!(plan(&beside, &[]).unwrap().pool_most, Bytes::gib(1));
    }

    #[test]
    fn verbose_lines_echo_bytes() {
        let lines = plan(&["-m", "50%"], &[]).unwrap().describe();
        assert_eq!(lines[0], "limit 2147483648 bytes (--memory 50%)");
        assert_eq!(lines[1], "swap in /var/tmp, at most 4294967296 bytes");
    }

    #[test]
    fn a_device_that_is_not_there_is_known() {
        let plan = plan(&["-m", "1G"], &[("NEAP_UFFD_DEVICE", "/no/such")]).unwrap();
        let fault = plan.device_fault.unwrap();
        assert!(fault.starts_with("NEAP_UFFD_DEVICE /no/such: "), "{fault}");
    }
}
