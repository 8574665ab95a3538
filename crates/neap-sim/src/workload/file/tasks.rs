//! The `[[task]]` tables.

use std::path::Path;
use std::sync::Arc;

use neap_units::{Bytes, Nanos};

use super::machine::{MOST, PAGE, one_of};
use super::node::Node;
use super::{GroupSpec, WorkloadFault};
use crate::clock::{Machine, Program};
use crate::kernel::{Advice, Area, MemcgId, TaskId};
use crate::trace::Trace;
use crate::workload::{
    Build, BuildShape, Burst, Compiler, LinkShape, Load, Pattern, Reclaimer, Replay, Stream, Walker,
};

/// Things of a run with their names.
type Named<T> = Vec<(String, T)>;

/// Where a task's memory is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Memory {
    /// Private.
    Anon,
    /// Shared memory of its own.
    Shmem,
    /// A mapped file of its own.
    File,
}

/// What a task does.
#[derive(Clone, Debug)]
pub enum Kind {
    /// Writes all its memory so many times, and ends.
    Usemem {
        /// Times.
        passes: u64,
    },
    /// Touches its memory in a pattern.
    Touch(Pattern),
    /// Writes all its memory once and keeps it.
    Cold,
    /// Reads a file once, frame after frame.
    Stream {
        /// Pages of a frame.
        frame: u64,
        /// Work for each frame.
        work: Nanos,
    },
    /// Does what a trace says.
    Replay(Arc<Trace>),
    /// Takes units of a build, with as many others as there are tasks alike.
    Compile(BuildShape),
    /// Writes its size to `memory.reclaim` of its group.
    Reclaim {
        /// Times.
        requests: u64,
        /// After each.
        pause: Nanos,
    },
}

/// A task, or several alike.
#[derive(Clone, Debug)]
pub struct TaskSpec {
    /// Its name.
    pub name: String,
    /// Its cgroup; the root if none.
    pub group: Option<String>,
    /// What it does.
    pub kind: Kind,
    size: Bytes,
    memory: Memory,
    advice: Advice,
    folio_order: u8,
    populate: bool,
    writes: f64,
    pace: Nanos,
    burst: Option<Burst>,
    touches: u64,
    until: Nanos,
    hold: Nanos,
    start: Nanos,
    count: u64,
    own_groups: bool,
}

const KINDS: &[&str] = &[
    "usemem", "random", "shuffled", "zipf", "scan", "hot-cold", "phases", "cold", "stream",
    "replay", "compile", "reclaim",
];

/// Reads a task.
pub(super) fn task(
    node: &Node<'_>,
    groups: &[GroupSpec],
    open: &mut impl FnMut(&Path) -> Result<Trace, String>,
) -> Result<TaskSpec, WorkloadFault> {
    let word = node.word("kind", KINDS.iter().map(|&word| (word, word)))?;
    let word = word.ok_or_else(|| {
        node.fault(
            "kind",
            &format!("is missing: write one of {}", KINDS.join(", ")),
        )
    })?;
    let kind = kind(node, word, open)?;
    let size = match &kind {
        Kind::Replay(_) | Kind::Compile(_) => Bytes::ZERO,
        _ => {
            let size = node.size_within("size", PAGE, MOST)?;
            size.ok_or_else(|| node.fault("size", "is missing: write size = \"1G\""))?
        }
    };
    let memory = node.word("memory", MEMORY)?.unwrap_or(match kind {
        Kind::Cold => Memory::Shmem,
        Kind::Stream { .. } => Memory::File,
        _ => Memory::Anon,
    });
    let burst = match node.whole("burst", 0)? {
        0 => None,
        touches => Some(Burst {
            touches,
            period: node.duration("period", Nanos::millis(50))?,
        }),
    };
    let spec = TaskSpec {
        name: node.text("name")?.unwrap_or_else(|| word.to_owned()),
        group: one_of(
            node,
            "group",
            groups.iter().map(|group| group.name.as_str()),
        )?,
        kind,
        size,
        memory,
        advice: node.word("hint", HINTS)?.unwrap_or(Advice::Normal),
        folio_order: node.within("folio_order", 0, 0, 9)? as u8,
        populate: node.flag("populate", false)?,
        writes: node.number("writes", 0.5, 0.0, 1.0)?,
        pace: node.duration("pace", Nanos(100))?,
        burst,
        touches: node.whole("touches", u64::MAX)?,
        until: node.duration("until", Nanos(u64::MAX))?,
        hold: node.duration("hold", Nanos::ZERO)?,
        start: node.duration("start", Nanos::ZERO)?,
        count: node.within("count", 1, 1, 1_000_000)?,
        own_groups: node.flag("own_groups", false)?,
    };
    node.finish()?;
    agree(node, &spec)?;
    Ok(spec)
}

/// Refuses keys that are each sound, but of which one does nothing beside the other.
fn agree(node: &Node<'_>, spec: &TaskSpec) -> Result<(), WorkloadFault> {
    if spec.own_groups && !spec.has_memory() {
        return Err(node.fault("own_groups", "is of tasks with memory of their own"));
    }
    match spec.does_something() {
        true => Ok(()),
        false => Err(node.fault("until", "write a time after start")),
    }
}

impl TaskSpec {
    /// Whether each of those alike maps memory that is its own.
    fn has_memory(&self) -> bool {
        !matches!(self.kind, Kind::Compile(_) | Kind::Reclaim { .. })
    }

    /// Who is to end before the start still populates, and holds what was populated.
    fn does_something(&self) -> bool {
        self.until > self.start || self.populate
    }
}

const MEMORY: [(&str, Memory); 3] = [
    ("anon", Memory::Anon),
    ("shmem", Memory::Shmem),
    ("file", Memory::File),
];

const HINTS: [(&str, Advice); 4] = [
    ("none", Advice::Normal),
    ("sequential", Advice::Sequential),
    ("random", Advice::Random),
    ("noreuse", Advice::NoReuse),
];

/// The keys whose values are words, and the words.
#[cfg(test)]
pub(super) fn task_words() -> [(&'static str, Vec<&'static str>); 3] {
    [
        ("kind", KINDS.to_vec()),
        ("memory", MEMORY.map(|(word, _)| word).to_vec()),
        ("hint", HINTS.map(|(word, _)| word).to_vec()),
    ]
}

fn kind(
    node: &Node<'_>,
    word: &str,
    open: &mut impl FnMut(&Path) -> Result<Trace, String>,
) -> Result<Kind, WorkloadFault> {
    Ok(match word {
        "usemem" => Kind::Usemem {
            passes: node.within("passes", 1, 1, u64::MAX)?,
        },
        "random" => Kind::Touch(Pattern::Random),
        "shuffled" => Kind::Touch(Pattern::Shuffled),
        "scan" => Kind::Touch(Pattern::Sequential),
        "zipf" => Kind::Touch(Pattern::Zipf(node.number("exponent", 1.0, 0.0, 10.0)?)),
        "hot-cold" => Kind::Touch(Pattern::HotCold {
            pages: node.number("hot_pages", 0.1, 0.0, 1.0)?,
            touches: node.number("hot_touches", 0.9, 0.0, 1.0)?,
        }),
        "phases" => Kind::Touch(Pattern::Phases {
            pages: node.number("phase_pages", 0.1, 0.0, 1.0)?,
            touches: node.within("phase_touches", 100_000, 1, u64::MAX)?,
        }),
        "cold" => Kind::Cold,
        "reclaim" => Kind::Reclaim {
            requests: node.within("requests", 1, 1, 1_000_000)?,
            pause: node.duration("pause", Nanos::millis(1000))?,
        },
        "compile" => Kind::Compile(build(node)?),
        "stream" => Kind::Stream {
            frame: node.within("frame", 256, 1, 1 << 30)?,
            work: node.duration("work", Nanos::millis(1))?,
        },
        _ => {
            let path = node.text("trace")?;
            let path = path.ok_or_else(|| {
                node.fault("trace", "is missing: write the path of a trace in quotes")
            })?;
            let trace = open(Path::new(&path));
            Kind::Replay(Arc::new(
                trace.map_err(|fault| node.fault("trace", &format!("{path}: {fault}")))?,
            ))
        }
    })
}

/// A build's shape.
fn build(node: &Node<'_>) -> Result<BuildShape, WorkloadFault> {
    let work = node.number("unit_work", 1.0, 0.0, 1000.0)?;
    Ok(BuildShape {
        units: node.within("units", 100, 1, 1_000_000)?,
        work: (work * 0.5, work * 1.5),
        memory: node.within("unit_memory", 3, 1, 64)? as f64,
        source: node.within("source", 24, 0, 1 << 20)?,
        headers: 0,
        object: node.within("object", 32, 0, 1 << 20)?,
        tmpfs: node.flag("tmpfs", false)?,
        spawn: Nanos::millis(1),
        link: link(node)?,
    })
}

/// A build's serial part.
fn link(node: &Node<'_>) -> Result<Option<LinkShape>, WorkloadFault> {
    let shape = LinkShape {
        prepare: node.duration("prepare", Nanos::ZERO)?,
        work: node.duration("link_work", Nanos::ZERO)?,
        memory: node
            .size_within("link_memory", PAGE, MOST)?
            .unwrap_or(PAGE)
            .whole_pages()
            .0,
        scatter: node.number("link_scatter", 0.5, 0.0, 1.0)?,
        stretch: 1.0,
    };
    let any = shape.prepare > Nanos::ZERO || shape.work > Nanos::ZERO;
    Ok(any.then_some(shape))
}

impl TaskSpec {
    /// A task that replays a trace once.
    pub(super) fn of_trace(trace: Arc<Trace>, group: &str) -> TaskSpec {
        TaskSpec {
            name: "replay".to_owned(),
            group: Some(group.to_owned()),
            kind: Kind::Replay(trace),
            size: Bytes::ZERO,
            memory: Memory::Anon,
            advice: Advice::Normal,
            folio_order: 0,
            populate: false,
            writes: 0.0,
            pace: Nanos::ZERO,
            burst: None,
            touches: 0,
            until: Nanos(u64::MAX),
            hold: Nanos::ZERO,
            start: Nanos::ZERO,
            count: 1,
            own_groups: false,
        }
    }

    /// The memory of all that are alike, with what a build reads and leaves.
    pub(super) fn needs(&self) -> Bytes {
        let each = match &self.kind {
            Kind::Compile(shape) => {
                let pages = shape.source.saturating_add(shape.object);
                return Bytes(pages.saturating_mul(shape.units).saturating_mul(4096));
            }
            Kind::Reclaim { .. } => Bytes::ZERO,
            _ => self.size,
        };
        Bytes(each.0.saturating_mul(self.count))
    }

    /// Whether the task goes on until it is stopped.
    pub(super) fn endless(&self) -> bool {
        let bounded = self.touches < u64::MAX || self.until < Nanos(u64::MAX);
        match self.kind {
            Kind::Touch(_) => !bounded,
            Kind::Cold => true,
            _ => false,
        }
    }

    fn area(&self, machine: &mut Machine, number: u64) -> Area {
        let pages = self.size.whole_pages();
        let kernel = machine.kernel();
        let area = match self.memory {
            Memory::Anon => Area::anon(pages),
            Memory::Shmem => Area::shmem(kernel.create_shmem(pages), pages),
            Memory::File => Area::file(kernel.create_file(pages), pages),
        };
        Area {
            advice: self.advice,
            folio_order: self.folio_order,
            content: number as u32 + 1,
            ..area
        }
    }

    /// Starts the task, or all of them, and adds their names and ids, and their cgroups where each has its own.
    pub(super) fn spawn(
        &self,
        machine: &mut Machine,
        parent: MemcgId,
        end: Nanos,
        run: (&mut Named<TaskId>, &mut Named<MemcgId>),
    ) {
        let (tasks, groups) = run;
        let build = match &self.kind {
            Kind::Compile(shape) => {
                let queue = machine.shared().make(shape.units);
                let kernel = machine.kernel();
                let compiler = Compiler::new(Compiler::recorded_trace(), 1.0, kernel);
                let mut build = Build::new(*shape, parent, compiler, queue, kernel);
                let running = machine.shared().make(self.count);
                if let Some(link) = build.link(running, machine.kernel()) {
                    let id = machine.spawn(link, self.start, true);
                    tasks.push((format!("{}-link", self.name), id));
                }
                Some(build)
            }
            _ => None,
        };
        let link = build.as_ref().and_then(Build::serial);
        let prepare = link.map_or(Nanos::ZERO, |link| link.prepare);
        let start = self.start.saturating_add(prepare);
        for i in 0..self.count {
            let name = match self.count {
                1 => self.name.clone(),
                _ => format!("{}-{}", self.name, i + 1),
            };
            let mut memcg = parent;
            if self.own_groups {
                memcg = machine.kernel().create_memcg(parent, &name);
                groups.push((name.clone(), memcg));
            }
            let program = match &build {
                Some(build) => build.job(),
                None => self.program(machine, memcg, tasks.len() as u64, end),
            };
            let id = machine.spawn(program, start, !self.endless());
            tasks.push((name, id));
        }
    }

    fn program(
        &self,
        machine: &mut Machine,
        memcg: MemcgId,
        number: u64,
        end: Nanos,
    ) -> Box<dyn Program> {
        let pages = self.size.whole_pages().0;
        let load = |area, pattern| Load {
            populate: self.populate,
            writes: self.writes,
            pace: self.pace,
            burst: self.burst,
            touches: self.touches,
            until: self.until,
            hold: self.hold,
            ..Load::new(memcg, area, Walker::new(pattern, pages))
        };
        match &self.kind {
            Kind::Replay(trace) => Box::new(Replay::new(memcg, Arc::clone(trace))),
            Kind::Reclaim { requests, pause } => {
                let again = machine.shared().make(0);
                let (requests, pause) = (*requests, *pause);
                Box::new(Reclaimer::new(memcg, self.size, requests, pause, again))
            }
            Kind::Stream { frame, work } => {
                let (next, frames) = (machine.shared().make(0), machine.shared().make(0));
                let stream = Stream {
                    memcg,
                    area: self.area(machine, number),
                    frame: *frame,
                    passes: 1,
                    work: *work,
                    arena: None,
                    next,
                    frames,
                };
                stream.program()
            }
            Kind::Touch(pattern) => load(self.area(machine, number), *pattern).program(),
            Kind::Usemem { passes } => {
                let load = Load {
                    writes: 1.0,
                    touches: pages.saturating_mul(*passes),
                    ..load(self.area(machine, number), Pattern::Sequential)
                };
                load.program()
            }
            // A job of a build is made with the others, in `spawn`; alone it only keeps memory.
            Kind::Cold | Kind::Compile(_) => {
                let load = Load {
                    populate: true,
                    touches: 0,
                    hold: end,
                    ..load(self.area(machine, number), Pattern::Sequential)
                };
                load.program()
            }
        }
    }
}
