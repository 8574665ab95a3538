//! Workloads as users write them: a TOML file with a machine, cgroups and tasks.
//!
//! The tables are read key by key ([`node::Node`]), so that every fault is one line that names the key
//! and says what to write instead; a key that nobody asked for is a fault, too.

mod duration;
mod machine;
mod node;
mod tasks;

use std::path::Path;
use std::sync::Arc;

use neap_units::{Bytes, Nanos};
use thiserror::Error;

use crate::clock::{Clockwork, Machine, TaskTimes};
use crate::kernel::{KernelConfig, Limits, MemcgId, TaskId};
use crate::trace::Trace;
use node::Node;

pub use duration::parse_duration;
pub use machine::{MAX_SWAP_LATENCY, MGLRU_SINCE, parse_version};
pub use tasks::{Kind, TaskSpec};

/// The JSON Schema of workload files.
pub const WORKLOAD_SCHEMA: &str = include_str!("schema.json");

/// Why a workload file cannot be used, in one line.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{0}")]
pub struct WorkloadFault(pub(super) String);

/// A cgroup of a workload.
#[derive(Clone, Debug)]
pub struct GroupSpec {
    /// Its name.
    pub name: String,
    /// Its parent's name; the root if none.
    pub parent: Option<String>,
    /// Its limits.
    pub limits: Limits,
}

/// A workload file that was understood.
#[derive(Clone, Debug)]
pub struct Workload {
    /// The machine and its kernel.
    pub kernel: KernelConfig,
    /// The cgroups, parents first.
    pub groups: Vec<GroupSpec>,
    /// The tasks.
    pub tasks: Vec<TaskSpec>,
    /// Ends the run at the latest.
    pub duration: Nanos,
}

/// What a run of a workload gave.
pub struct WorkloadRun {
    /// The machine after it.
    pub machine: Machine,
    /// Cgroups with their ids.
    pub groups: Vec<(String, MemcgId)>,
    /// Tasks with their names.
    pub tasks: Vec<(String, TaskId)>,
    /// Whether all tasks that end did so before the time was over.
    pub finished: bool,
}

impl WorkloadRun {
    /// Names and times of all tasks.
    #[must_use]
    pub fn times(&self) -> Vec<(&str, TaskTimes)> {
        let time = |(name, id): &(String, TaskId)| (name.clone(), self.machine.times(*id));
        let all = self.tasks.iter();
        all.map(|task| (task.0.as_str(), time(task).1)).collect()
    }
}

impl Workload {
    /// Reads a file's text. Traces it names are read with `open`, from their path as written.
    ///
    /// # Errors
    ///
    /// One line that names the key and what to write.
    pub fn parse(
        text: &str,
        mut open: impl FnMut(&Path) -> Result<Trace, String>,
    ) -> Result<Workload, WorkloadFault> {
        let table = text
            .parse::<toml::Table>()
            .map_err(|error| syntax(text, &error))?;
        let root = Node::new("", &table);
        let schema = root.text("schema")?;
        if schema.as_deref() != Some("neap.workload/1") {
            let fault = "schema: write schema = \"neap.workload/1\" as the first line";
            return Err(WorkloadFault(fault.to_owned()));
        }
        let kernel = match root.table("machine")? {
            Some(node) => machine::kernel(&node, root.whole("seed", 1)?)?,
            None => KernelConfig {
                seed: root.whole("seed", 1)?,
                ..KernelConfig::default()
            },
        };
        let mut groups: Vec<GroupSpec> = Vec::new();
        for node in root.tables("group")? {
            groups.push(machine::group(&node, &groups)?);
        }
        let mut tasks = Vec::new();
        for node in root.tables("task")? {
            tasks.push(tasks::task(&node, &groups, &mut open)?);
        }
        let duration = root.duration("duration", Nanos(3_600_000_000_000))?;
        if duration == Nanos::ZERO {
            return Err(root.fault("duration", "write a time of more than 0"));
        }
        // Before it is said that there is no task: it may be a [[tasks]].
        root.finish()?;
        if tasks.is_empty() {
            let fault = "task: there is none: add a [[task]] with kind, size and group";
            return Err(WorkloadFault(fault.to_owned()));
        }
        let needs = tasks.iter().map(TaskSpec::needs);
        if needs.fold(Bytes::ZERO, Bytes::saturating_add) > machine::MOST {
            let fault = "task: all together have more than 1 TiB: write smaller sizes or counts";
            return Err(WorkloadFault(fault.to_owned()));
        }
        if tasks.iter().all(TaskSpec::endless) && !table.contains_key("duration") {
            let fault = "duration: no task ends by itself: write duration = \"60s\", or give a task touches";
            return Err(WorkloadFault(fault.to_owned()));
        }
        Ok(Workload {
            kernel,
            groups,
            tasks,
            duration,
        })
    }

    /// Runs it.
    #[must_use]
    pub fn run(&self) -> WorkloadRun {
        let mut machine = Machine::new(&self.kernel, Clockwork::default());
        let mut groups: Vec<(String, MemcgId)> = Vec::new();
        let id_of = |groups: &[(String, MemcgId)], name: Option<&String>| {
            let known = groups.iter().find(|(known, _)| Some(known) == name);
            known.map_or(MemcgId::ROOT, |(_, id)| *id)
        };
        for group in &self.groups {
            let parent = id_of(&groups, group.parent.as_ref());
            let id = machine.kernel().create_memcg(parent, &group.name);
            machine.kernel().set_limits(id, group.limits);
            groups.push((group.name.clone(), id));
        }
        let mut tasks = Vec::new();
        for spec in &self.tasks {
            let memcg = id_of(&groups, spec.group.as_ref());
            let run = (&mut tasks, &mut groups);
            spec.spawn(&mut machine, memcg, self.duration, run);
        }
        let finished = if self.tasks.iter().all(|task| task.endless()) {
            machine.run_until(self.duration);
            true
        } else {
            machine.finish(self.duration)
        };
        WorkloadRun {
            machine,
            groups,
            tasks,
            finished,
        }
    }

    /// A workload of one trace in one cgroup: what replay and forecast run.
    #[must_use]
    pub fn of_trace(trace: Arc<Trace>, kernel: KernelConfig, limit: Option<Bytes>) -> Workload {
        let limits = Limits {
            max: limit.map(Bytes::whole_pages),
            ..Limits::default()
        };
        let group = GroupSpec {
            name: "job".to_owned(),
            parent: None,
            limits,
        };
        Workload {
            kernel,
            tasks: vec![TaskSpec::of_trace(trace, &group.name)],
            groups: vec![group],
            duration: Nanos(u64::MAX),
        }
    }
}

/// A fault of TOML itself, with its line.
fn syntax(text: &str, error: &toml::de::Error) -> WorkloadFault {
    let at = error.span().map_or(0, |span| span.start.min(text.len()));
    let line = text.as_bytes()[..at]
        .iter()
        .filter(|&&b| b == b'\n')
        .count()
        + 1;
    let written = text.lines().nth(line - 1).unwrap_or_default();
    let message = match number_of(written) {
        Some(key) => format!("{key}: write a whole number from 0 to {}", i64::MAX),
        None => error.message().replace('\n', ", "),
    };
    WorkloadFault(format!("line {line}: {message}"))
}

/// The key of a line that has a whole number larger than TOML knows.
fn number_of(line: &str) -> Option<&str> {
    let (key, value) = line.split_once('=')?;
    let value = value.split('#').next()?.trim().replace('_', "");
    let digits = value.trim_start_matches(['-', '+']);
    let whole = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    (whole && value.parse::<i64>().is_err()).then_some(key.trim())
}

#[cfg(test)]
mod tests;
