//! `neap run`: one command within a memory limit.
//!
//! In order: read the flags ([`plan`]), find the command ([`command`]) and look at it ([`elf`]), start
//! the engine, start the command ([`launch`]), pass signals on ([`signals`]), wait ([`wait`]), report,
//! and end as the command ended. Whatever stops neap from managing the command leaves it to the kernel
//! with one line of warning, unless `--require` says otherwise.

pub mod command;
pub mod elf;
pub mod engine;
pub mod launch;
pub mod library;
pub mod limit;
pub mod member;
pub mod plan;
pub mod report;
pub mod settings;
mod signals;
pub mod swap;
pub mod wait;

use std::fs::File;
use std::process::ExitCode;
use std::sync::Arc;

use neap_engine::{Control, Follow};
use rustix::process::Pid;

use crate::exit::Ending;
use crate::failure::Failure;
use crate::flags::RunArgs;
use crate::job::watch::Watch;
use crate::machine::{Root, kernel_release};
use crate::{env, talk};
use engine::Engine;
use launch::Target;
use library::Library;
use plan::{Plan, Sources};
use report::{Finished, Output};
use signals::Forwarder;
use wait::Stay;

/// Said where the library can be nowhere.
pub const NO_PLACE: &str = "no folder lets the dynamic linker load neap's library";

/// Runs the command and ends as it ended.
pub fn run(args: &RunArgs) -> ExitCode {
    match Job::prepare(args).and_then(Job::run) {
        Ok(ending) => ending.imitate(),
        Err(failure) => {
            talk::say(&failure.lines());
            if let Some(path) = &args.exit_file {
                let line = format!("failed {}\n", failure.exit());
                let _ = Output::create("--exit-file", path).map(|output| output.write(&line));
            }
            ExitCode::from(failure.exit())
        }
    }
}

fn sources(root: &Root) -> Sources<'_> {
    Sources {
        root,
        env: &env::own,
        inspect: &swap::inspect_really,
    }
}

/// Everything known before the command starts.
struct Job<'a> {
    args: &'a RunArgs,
    root: Root,
    plan: Plan,
    target: Target,
    stats: Option<Output>,
    record: Option<Output>,
    exit_file: Option<Output>,
}

/// The engine and what the command needs to reach it.
struct Service {
    engine: Engine,
    variables: Vec<(std::ffi::OsString, std::ffi::OsString)>,
    /// Stays in its place as long as there are processes.
    _library: Library,
}

impl<'a> Job<'a> {
    fn prepare(args: &'a RunArgs) -> Result<Self, Failure> {
        let root = Root::real();
        let plan = Plan::of_run(args, sources(&root))?;
        let path = std::env::var_os("PATH");
        let target = Target {
            file: command::find(&args.command[0], path.as_deref())?,
            argv: args.command.clone(),
        };
        let output = |flag, path: &Option<std::path::PathBuf>| {
            path.as_deref()
                .map(|path| Output::create(flag, path))
                .transpose()
        };
        let stats = output("--stats", &args.stats)?;
        let record = output("--record", &args.record)?;
        let exit_file = output("--exit-file", &args.exit_file)?;
        for (later, earlier) in [
            (&record, &stats),
            (&exit_file, &stats),
            (&exit_file, &record),
        ] {
            if let Some(later) = later {
                later.differs_from(earlier.as_ref())?;
            }
        }
        Ok(Self {
            stats,
            record,
            exit_file,
            args,
            root,
            plan,
            target,
        })
    }

    fn run(mut self) -> Result<Ending, Failure> {
        for warning in &self.plan.warnings {
            talk::warn(warning);
        }
        if self.plan.verbose {
            self.plan
                .describe()
                .iter()
                .for_each(|line| talk::note(line));
        }
        let record = self.record.take().map(Output::into_file);
        let service = match self.serve(record) {
            Ok(service) => {
                if let Some(fault) = &self.plan.device_fault {
                    let line = format!("{fault}; the system call is used instead");
                    talk::warn(&line);
                    self.plan.warnings.push(line);
                }
                if let (Engine::Joined(member), Some(door)) =
                    (&service.engine, env::own(neap_wire::SOCKET_ENV))
                    && !member.is_at(&door)
                {
                    talk::warn(plan::NESTED);
                    self.plan.warnings.push(plan::NESTED.to_owned());
                }
                Some(service)
            }
            Err(Failure::Unmanaged(why)) if !self.args.require => {
                let line = format!("{} runs without a limit: {why}", self.name());
                talk::warn(&line);
                self.plan.warnings.push(line);
                if !self.reports() {
                    return Err(self.target.replace());
                }
                None
            }
            Err(failure) => return Err(failure),
        };
        self.supervise(service)
    }

    /// Starts the engine if this command can be managed on this machine; otherwise says in one line
    /// why not, with the remedy.
    fn serve(&mut self, record: Option<File>) -> Result<Service, Failure> {
        elf::manageable(&self.target.file, elf::Caller::own())
            .map_err(|why| Failure::Unmanaged(why.to_string()))?;
        let library = Library::place(&library::usual_folders(&env::own)).map_err(|why| {
            let line = format!("{NO_PLACE}: {why}; try: TMPDIR on a file system without noexec");
            Failure::Unmanaged(line)
        })?;
        neap_sys::raise_descriptor_limit();
        neap_sys::keep_heap_small();
        // A device that is not there is all the more why there is no userfaultfd.
        let fault = self.plan.device_fault.clone();
        let engine = self
            .start(record)
            .map_err(|failure| match (failure, fault) {
                (Failure::Unmanaged(why), Some(fault)) => {
                    Failure::Unmanaged(format!("{fault}; {why}"))
                }
                (failure, _) => failure,
            })?;
        let mut variables = engine.environment();
        variables.push(library.variable(&env::own));
        Ok(Service {
            engine,
            variables,
            _library: library,
        })
    }

    /// Starts an engine, or joins one: that around this run if it may.
    fn start(&mut self, record: Option<File>) -> Result<Engine, Failure> {
        let is_around = |plan: &Plan| plan.service.as_ref().is_some_and(|wanted| wanted.is_around);
        match Engine::start(&self.plan, record, self.control()) {
            Err(Failure::Service(_) | Failure::NoService(_)) if is_around(&self.plan) => {
                self.plan = Plan::alone(self.args, sources(&self.root))?;
                for warning in &self.plan.warnings {
                    talk::warn(warning);
                }
                Engine::start(&self.plan, None, self.control())
            }
            started => started,
        }
    }

    /// What others see of the job. A limit that is the memory cgroup's follows that.
    fn control(&self) -> Control {
        let follow = || Arc::new(|| limit::of_cgroup(&Root::real())) as Follow;
        Control {
            name: self.args.name.clone(),
            command: self.words(),
            follow: self.plan.limit.is_cgroups.then(follow),
            idle: None,
        }
    }

    fn words(&self) -> Vec<String> {
        let words = self.args.command.iter();
        words
            .map(|word| word.to_string_lossy().into_owned())
            .collect()
    }

    fn supervise(mut self, mut service: Option<Service>) -> Result<Ending, Failure> {
        let machine = |what| move |source| Failure::Machine { what, source };
        wait::keep_statuses(&self.root).map_err(machine("SIGCHLD"))?;
        let clock = neap_sys::monotonic_nanos;
        let forwarder = Forwarder::install(&self.root, clock, self.args.escalate)
            .map_err(machine("signals"))?;
        let (stay, variables) = match &service {
            Some(service) => (Stay::ForAll, &service.variables[..]),
            None => (Stay::ForCommand, &[][..]),
        };
        if stay == Stay::ForAll {
            wait::become_subreaper().map_err(machine("PR_SET_CHILD_SUBREAPER"))?;
        }
        let started = clock();
        let child = self.target.spawn(variables)?;
        let pid = Pid::from_child(&child);
        let thaw = service.as_ref().map(|service| service.engine.thawer());
        let switch = forwarder.start(pid, move || _ = thaw.as_ref().map(|thaw| thaw()));
        if let Some(service) = &mut service {
            service.engine.open();
        }
        let watched = service.as_ref().filter(|_| self.args.watch);
        let watch = watched.and_then(|service| Watch::begin(service.engine.viewer()));
        let mut ended = started;
        let exit_file = self.exit_file.take();
        let ending = wait::wait_for(pid, stay, &self.root, |how| {
            ended = clock();
            switch.command_ended();
            // At once: what the command left behind may run on for long.
            write(exit_file, "how it ended is lost", &how.line());
        })
        .map_err(machine("wait"))?;
        drop(watch);
        self.report(service, ending, (ended - started) as f64 / 1e9);
        Ok(ending)
    }

    /// The command's fate is settled: what goes wrong now is said, and changes nothing.
    fn report(self, service: Option<Service>, ending: Ending, wall_seconds: f64) {
        let (name, command) = (self.name(), self.words());
        let config = self.plan.config();
        let mut warnings = self.plan.warnings;
        let own_engine = service.is_some();
        let limit = service.as_ref().and_then(|service| service.engine.limit());
        let limit = limit.map_or(self.plan.limit.bytes, |limit| {
            limit.min(self.plan.limit.bytes)
        });
        let end = service
            .map(|service| service.engine.finish())
            .unwrap_or_default();
        // One that spoke and is not managed has been told of.
        if own_engine && !end.met {
            let line = format!(
                "{name} ran without a limit: neap's library was not loaded in it; try: neap doctor"
            );
            talk::warn(&line);
            warnings.push(line);
        }
        let finished = Finished {
            command: &command,
            ending,
            wall_seconds,
            managed: end.attached,
            engine: end.report,
            warnings: &warnings,
            limit,
            config,
            kernel: kernel_release(&self.root),
        };
        if self.args.summary {
            talk::raw(&finished.summary());
        }
        write(self.stats, "the statistics are lost", &finished.json());
    }

    fn reports(&self) -> bool {
        self.args.summary || self.stats.is_some() || self.exit_file.is_some()
    }

    fn name(&self) -> String {
        self.args.command[0].to_string_lossy().into_owned()
    }
}

fn write(output: Option<Output>, lost: &str, text: &str) {
    let Some(output) = output else { return };
    let name = output.name();
    if let Err(error) = output.write(text) {
        talk::warn(&format!("{name}: {error}: {lost}"));
    }
}
