//! `neap bench`: one command by turns plainly, under neap, and under what the kernel has.
//!
//! In order: clean what a killed bench left and see what the machine allows ([`lab`]), run the command
//! once under each to learn its memory and its pools, decide who gets which limit ([`plan`]), run all by
//! turns ([`measure`]), compare ([`figures`]) and tell ([`table`], [`report`]). Whatever is changed on the
//! machine is written down first ([`journal`]) and undone after each run.

pub mod date;
mod figures;
mod group;
mod interrupt;
mod journal;
mod kernel;
mod lab;
mod left;
mod measure;
mod missing;
mod need;
mod plan;
mod report;
mod result;
mod sample;
mod site;
mod stream;
mod table;
mod tell;

pub use journal::left_behind;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use neap_units::Bytes;

use crate::choice::Contender;
use crate::exit::{self, Ending};
use crate::failure::Failure;
use crate::flags::BenchArgs;
use crate::machine::Root;
use crate::run::launch::Target;
use crate::run::{command, limit, swap, wait};
use crate::{env, talk};
use figures::Raw;
use interrupt::{Interrupt, Stop};
use lab::{Backing, Lab};
use measure::{Runner, Turn};
use missing::Missing;
use need::Need;
use plan::{Absent, Bound, First};
use result::ResultFile;
use site::Site;

/// Runs the bench.
pub fn run(args: &BenchArgs) -> ExitCode {
    let prepared = Bench::prepare(args);
    match prepared.and_then(Bench::run) {
        Ok(code) => ExitCode::from(code),
        Err(Stop::Signal(signal)) => {
            talk::note(&format!("ended by {}", exit::name(signal)));
            Ending::Signaled(signal).imitate()
        }
        Err(Stop::Failed(failure)) => {
            talk::say(&failure.lines());
            ExitCode::from(failure.exit())
        }
    }
}

/// A bench at work.
struct Bench<'a> {
    args: &'a BenchArgs,
    size: Bytes,
    json: Option<ResultFile>,
    date: String,
    runner: Runner,
    site: Site,
    lab: Result<Lab, Missing>,
    raw: Vec<Raw>,
    absent: Vec<Absent>,
    warnings: Vec<String>,
}

impl<'a> Bench<'a> {
    fn prepare(args: &'a BenchArgs) -> Result<Self, Stop> {
        let root = Root::real();
        let machine = |what| move |source| Failure::Machine { what, source };
        let size = limit::limit(&root, "--memory", Some(&args.memory))?.bytes;
        let path = std::env::var_os("PATH");
        let target = Target {
            file: command::find(&args.command[0], path.as_deref())?,
            argv: args.command.clone(),
        };
        let json = args.json.as_deref();
        let json = json
            .filter(|path| !is_stdout(path))
            .map(ResultFile::check)
            .transpose()?;
        let swap_dir = swap_dir(args)?;
        let interrupt = Interrupt::install(&root).map_err(machine("signal handlers"))?;
        wait::keep_statuses(&root).map_err(machine("SIGCHLD"))?;
        wait::become_subreaper().map_err(machine("PR_SET_CHILD_SUBREAPER"))?;
        let input = stream::Input::own(&interrupt)?;
        let neap = std::env::current_exe().map_err(machine("/proc/self/exe"))?;
        lab::clean_in_panic(&root);
        // First, for what a killed bench left is no part of the machine.
        let lab = Lab::open(&root, swap_dir.clone());
        let site = Site::look(&root, swap_dir.as_deref());
        let version = lab.as_ref().ok().map(Lab::cgroup_version);
        Ok(Self {
            args,
            size,
            json,
            date: date::rfc3339(now()),
            site: site.cgroup(version),
            runner: Runner {
                root,
                target,
                neap,
                swap_dir,
                input,
                patience: args.patience,
                interrupt,
            },
            lab,
            raw: Vec::new(),
            absent: Vec::new(),
            warnings: Vec::new(),
        })
    }

    /// Whatever comes of it, the machine is left as it was found.
    fn run(mut self) -> Result<u8, Stop> {
        let firsts = self.first_runs();
        let entrants = firsts.map(|firsts| {
            let (mut entrants, absent) = plan::entrants(self.size, &firsts);
            self.absent.extend(absent);
            if let (Some(plain), Some(run)) = (entrants.first_mut(), self.raw.first()) {
                plain.given_up = run.given_up_after_seconds;
            }
            entrants
        });
        let done = entrants.and_then(|mut entrants| {
            self.turns(&mut entrants)?;
            Ok(entrants)
        });
        let closed = match std::mem::replace(&mut self.lab, Err(Missing::new("closed"))) {
            Ok(lab) => lab.close(),
            Err(_) => Vec::new(),
        };
        for fault in &closed {
            talk::warn(&format!(
                "not undone: {fault}; the next neap bench tries again"
            ));
        }
        if closed.is_empty() && matches!(done, Err(Stop::Signal(_))) {
            talk::note("everything is as it was");
        }
        self.tell(&done?)
    }

    /// Everything once, to learn what the command needs and to have its files in the page cache.
    fn first_runs(&mut self) -> Result<Vec<First>, Stop> {
        let wanted = self.wanted();
        self.progress(0, Contender::Plain);
        let plain = self.one(0, Contender::Plain, Bound::default())?;
        let plain = match plain {
            Ok(raw) => raw,
            // Only a group can be missing, and plain needs none.
            Err(missing) => {
                self.lab = Err(missing);
                let again = self.one(0, Contender::Plain, Bound::default())?;
                again.map_err(|missing| no_run(&missing))?
            }
        };
        if !plain.is_sound() {
            let how = table::complaint(&plain);
            self.warn(format!("the command fails even plainly: {how}"));
        }
        if plain.given_up_after_seconds.is_some() {
            // There is nothing to compare the others with.
            self.raw.push(plain);
            return Ok(Vec::new());
        }
        let need = Need::of(&plain);
        if let Some(line) = need.warning(self.size) {
            self.warn(line);
        }
        self.raw.push(plain);
        self.make_swap(need, &wanted);
        let mut firsts = Vec::new();
        for contender in wanted {
            self.progress(0, contender);
            match self.one(0, contender, self.size.into())? {
                Ok(raw) => firsts.extend(self.admit(raw)),
                Err(missing) => self.refuse(contender, missing),
            }
        }
        Ok(firsts)
    }

    /// The contenders asked for, each once, plain aside.
    fn wanted(&self) -> Vec<Contender> {
        let mut wanted = Vec::new();
        for contender in &self.args.against {
            if *contender != Contender::Plain && !wanted.contains(contender) {
                wanted.push(*contender);
            }
        }
        wanted
    }

    fn make_swap(&mut self, need: Need, wanted: &[Contender]) {
        if wanted.iter().all(|contender| *contender == Contender::Neap) {
            return;
        }
        if let Ok(lab) = &mut self.lab {
            lab.make_swap(need.swap_sizes());
        }
    }

    /// Takes a first run as the measure of a pool, unless it failed.
    fn admit(&mut self, raw: Raw) -> Option<First> {
        let contender = raw.contender;
        let late = raw.given_up_after_seconds;
        let good = late.is_some() || self.raw.first().is_none_or(|plain| raw.is_like(plain));
        // neap tells at its end, which a run that was given up may not have reached.
        let managed = contender != Contender::Neap || late.is_some() || raw.neap["managed"] == true;
        let first = First {
            contender,
            pool: plan::pool_used(Bytes(raw.peak_pool_bytes)),
            charged: match (&self.lab, contender) {
                (_, Contender::Neap) => true,
                (Ok(lab), _) => lab.charges_pool(contender),
                (Err(_), _) => false,
            },
            late,
            left_running: raw.left_running,
        };
        if !managed {
            let said = table::complaint(&raw);
            let missing = Missing::new(format!("the command would run unmanaged; {said}"));
            let missing = match table::advice(&raw.stderr) {
                Some(remedy) => missing.remedy(remedy),
                // In one line with its cause.
                None if missing.reason.contains("; try: ") => missing,
                None => missing.remedy("neap doctor"),
            };
            self.refuse(contender, missing);
            return None;
        }
        if !good {
            let said = table::complaint(&raw);
            self.refuse(
                contender,
                Missing::new(format!("its first run failed: {said}")).remedy("a larger -m"),
            );
        }
        self.raw.push(raw);
        good.then_some(first)
    }

    fn refuse(&mut self, contender: Contender, missing: Missing) {
        self.absent.push(Absent {
            contender,
            accounting: None,
            missing,
        });
    }

    /// All entrants by turns, so that a machine that warms up or gets busy is the same to all.
    /// Who is given up in its first one is not run again.
    fn turns(&mut self, entrants: &mut [plan::Entrant]) -> Result<(), Stop> {
        for turn in 1..=self.args.runs {
            for entrant in entrants.iter_mut().filter(|e| e.given_up.is_none()) {
                self.progress(turn, entrant.contender);
                match self.one(turn, entrant.contender, entrant.bound)? {
                    Ok(raw) => {
                        entrant.given_up = raw.given_up_after_seconds.filter(|_| turn == 1);
                        self.raw.push(raw);
                    }
                    Err(missing) => {
                        self.warn(format!("{} in turn {turn}: {missing}", entrant.contender));
                    }
                }
            }
        }
        Ok(())
    }

    /// One run in a prepared machine, which is tidied whatever comes of it.
    fn one(
        &mut self,
        turn: u32,
        contender: Contender,
        bound: Bound,
    ) -> Result<Result<Raw, Missing>, Stop> {
        self.runner.interrupt.check()?;
        let lab = match (&mut self.lab, contender) {
            (Ok(lab), _) => lab,
            (Err(_), Contender::Plain | Contender::Neap) => {
                let backing = Backing::default();
                return self
                    .runner
                    .run(Turn {
                        number: turn,
                        contender,
                        bound,
                        group: None,
                        backing: &backing,
                    })
                    .map(Ok);
            }
            (Err(missing), _) => return Ok(Err(missing.clone())),
        };
        let done = run_in(lab, &self.runner, (turn, contender, bound));
        let faults = lab.tidy();
        if let Ok(Ok((_, Some(disturbed)))) = &done {
            let line = format!("{contender} in turn {turn}: {disturbed}");
            self.warn(line);
        }
        for fault in faults {
            self.warn(format!(
                "after {contender} in turn {turn}, not undone: {fault}"
            ));
        }
        Ok(done?.map(|(raw, _)| raw))
    }

    fn warn(&mut self, line: String) {
        if !self.warnings.contains(&line) {
            self.warnings.push(line);
        }
    }

    fn progress(&self, turn: u32, contender: Contender) {
        if std::io::stderr().is_terminal() {
            let which = match turn {
                0 => "first run".to_owned(),
                turn => format!("turn {turn} of {}", self.args.runs),
            };
            talk::note(&format!("{which}: {contender}"));
        }
    }
}

/// For the report alone.
#[expect(clippy::disallowed_methods, reason = "here it is asked for")]
fn now() -> SystemTime {
    SystemTime::now()
}

/// Whether the report is for standard output, which then holds nothing else.
fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// A run, and what disturbed it.
type Done = (Raw, Option<String>);

fn run_in(
    lab: &mut Lab,
    runner: &Runner,
    (turn, contender, bound): (u32, Contender, Bound),
) -> Result<Result<Done, Missing>, Stop> {
    let backing = match lab.prepare(contender) {
        Ok(backing) => backing,
        Err(missing) => return Ok(Err(missing)),
    };
    // neap keeps its limit itself.
    let charged = match contender {
        Contender::Plain | Contender::Neap => None,
        _ => bound.limit,
    };
    let group = match lab.group(charged) {
        Ok(group) => group,
        Err(missing) => return Ok(Err(missing)),
    };
    let raw = runner.run(Turn {
        number: turn,
        contender,
        bound,
        group: Some(&group),
        backing: &backing,
    })?;
    Ok(Ok((raw, lab.disturbed(&backing))))
}

fn no_run(missing: &Missing) -> Failure {
    Failure::Machine {
        what: "a plain run",
        source: std::io::Error::other(missing.to_string()),
    }
}

/// Where swap files go: as `neap run` decides, so that both use the same disk.
fn swap_dir(args: &BenchArgs) -> Result<Option<PathBuf>, Failure> {
    let named = swap::named(args.swap_dir.as_deref(), &env::own);
    let wish = swap::Wish {
        off: false,
        dir: named.as_ref(),
        size: None,
    };
    let tmpdir = env::own("TMPDIR").map(PathBuf::from);
    let choice = swap::choose(wish, &swap::usual_dirs(tmpdir), &swap::inspect_really)?;
    if let Some(warning) = choice.warning {
        talk::warn(&warning);
    }
    Ok(match choice.swap {
        neap_engine::Swap::Dir { dir, .. } => Some(std::path::absolute(&dir).unwrap_or(dir)),
        neap_engine::Swap::Off => None,
    })
}
