//! Jobs of a parallel build: fork, exec, a compiler's page-level behaviour, output, exit, and again.
//!
//! What a compiler touches when comes from a recorded gcc ([`Compiler`]). What a trace of one compiler
//! cannot give is stated in [`BuildShape`]: how units differ, what they read and write besides, and how
//! much work lies between the windows of the trace.

use std::sync::Arc;

use neap_units::{Nanos, PageNr, Pages};

use super::link::{LinkShape, Linking};
use super::put_run;
use super::replay::{Player, objects};
use crate::clock::{Context, Program, Step};
use crate::kernel::{Area, AreaKind, FileId, Kernel, MemcgId, ShmemId};
use crate::trace::Trace;

/// The recorded compiler: cc1 of gcc 12.2 with -O2 on one C file of 11,117 preprocessed lines
/// (`zstd_ldm.c`), by valgrind's lackey, in windows of 2 ms. It ran 1.2 billion instructions and touched
/// 3,839 pages that it only read and 4,125 that it wrote.
const CC1: &[u8] = include_bytes!("../../data/cc1.neaptrc");

/// A recorded compiler and the files behind it, which all its runs share.
#[derive(Clone, Debug)]
pub struct Compiler {
    trace: Arc<Trace>,
    kinds: Vec<AreaKind>,
    text: f64,
}

impl Compiler {
    /// The trace of the gcc that comes with the simulator.
    #[must_use]
    pub fn recorded_trace() -> Arc<Trace> {
        // The file is part of the program; a test decodes it.
        Arc::new(Trace::decode(CC1).unwrap_or_default())
    }

    /// Makes the files of a recorded compiler, whose program text is so many times (at most 1) what was recorded: on a
    /// machine that is scaled, text is scaled with the rest.
    #[must_use]
    pub fn new(trace: Arc<Trace>, text: f64, kernel: &mut Kernel) -> Compiler {
        let kinds = objects(&trace, text, kernel);
        Compiler { trace, kinds, text }
    }
}

/// How the units of a build are.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BuildShape {
    /// Compile units.
    pub units: u64,
    /// Work of a unit is the trace's by a factor uniform between these.
    pub work: (f64, f64),
    /// Private memory of a unit is the trace's by a whole factor, all from 1 up to this alike probable;
    /// with 10.5, 11 half as probable as the others.
    pub memory: f64,
    /// Pages of source that only this unit reads.
    pub source: u64,
    /// Pages of source that all units read.
    pub headers: u64,
    /// Pages of output a unit leaves.
    pub object: u64,
    /// Whether sources and output lie in memory (tmpfs), not on a disk.
    pub tmpfs: bool,
    /// System time of fork, exec and exit.
    pub spawn: Nanos,
    /// What no job overlaps.
    pub link: Option<LinkShape>,
}

/// What all jobs of a build share.
#[derive(Clone, Debug)]
pub struct Build {
    shape: BuildShape,
    memcg: MemcgId,
    compiler: Compiler,
    /// Sources and objects of all units, one after the other.
    sources: Store,
    objects: Store,
    headers: Store,
    /// Shared number: units not yet begun.
    queue: usize,
    /// Shared number: jobs not yet over, if somebody waits for them.
    running: Option<usize>,
}

/// Where a build's files lie.
#[derive(Clone, Copy, Debug)]
enum Store {
    File(FileId),
    Memory(ShmemId),
}

impl Build {
    /// Prepares a build in a cgroup. `queue` is a shared number that holds the units to be done, from
    /// [`crate::Shared::make`].
    #[must_use]
    pub fn new(
        shape: BuildShape,
        memcg: MemcgId,
        compiler: Compiler,
        queue: usize,
        kernel: &mut Kernel,
    ) -> Build {
        let mut store = |pages: u64| {
            let pages = Pages(pages.max(1));
            if shape.tmpfs {
                Store::Memory(kernel.create_shmem(pages))
            } else {
                Store::File(kernel.create_file(pages))
            }
        };
        Build {
            sources: store(shape.source * shape.units),
            objects: store(shape.object * shape.units),
            headers: store(shape.headers),
            shape,
            memcg,
            compiler,
            queue,
            running: None,
        }
    }

    /// How the serial part is, if there is one.
    #[must_use]
    pub fn serial(&self) -> Option<LinkShape> {
        self.shape.link
    }

    /// The build's serial part, if it has one, as one more task: it waits for the jobs made after this.
    /// `running` is a shared number that holds how many they are.
    #[must_use]
    pub fn link(&mut self, running: usize, kernel: &mut Kernel) -> Option<Box<dyn Program>> {
        let link = self.shape.link?;
        let pages = (self.shape.units * self.shape.object).max(1);
        let objects = match self.objects {
            Store::File(file) => file,
            // As a linker reads them: an input that no job has left in memory.
            Store::Memory(_) => kernel.create_file(Pages(pages)),
        };
        self.running = Some(running);
        let linking = Linking::new(link, self.memcg, (objects, pages), running, kernel);
        Some(Box::new(linking))
    }

    /// One job: it takes units until there are none.
    #[must_use]
    pub fn job(&self) -> Box<dyn Program> {
        Box::new(Job {
            build: self.clone(),
            unit: 0,
            repeat: 1,
            stretch: 1.0,
            phase: Phase::Next,
        })
    }

    /// What a unit's part of a store looks like when mapped.
    fn part(&self, store: Store, unit: u64, each: u64) -> Area {
        let kind = match store {
            Store::File(file) => AreaKind::File(file),
            Store::Memory(shmem) => AreaKind::Shmem(shmem),
        };
        Area {
            kind,
            offset: Pages(unit * each),
            ..Area::anon(Pages(each))
        }
    }
}

enum Phase {
    /// Take a unit.
    Next,
    /// Read sources.
    Read,
    /// Do what the trace says.
    Play(Player),
    /// Pass the time of a window.
    Work(Player, Nanos),
    /// Write the object's page number so many.
    Emit(u64),
    /// Exit, and take the next.
    Leave,
}

struct Job {
    build: Build,
    unit: u64,
    repeat: u32,
    stretch: f64,
    phase: Phase,
}

impl Job {
    fn begin(&mut self, cx: &mut Context<'_>) -> Option<Step> {
        let shape = self.build.shape;
        let left = cx.shared.get(self.build.queue);
        if !cx.shared.take(self.build.queue) {
            if let Some(running) = self.build.running {
                cx.shared.take(running);
            }
            return Some(Step::Exit);
        }
        self.unit = shape.units.saturating_sub(left);
        self.repeat = 1 + (cx.rng.unit() * shape.memory) as u32;
        self.stretch = shape.work.0 + cx.rng.unit() * (shape.work.1 - shape.work.0);
        *cx.space = Some(cx.kernel.create_space(self.build.memcg));
        *cx.pace = Nanos::ZERO;
        *cx.system += shape.spawn;
        self.phase = Phase::Read;
        None
    }

    fn read(&mut self, cx: &mut Context<'_>) -> Option<Step> {
        let space = (*cx.space)?;
        let build = &self.build;
        let BuildShape {
            source, headers, ..
        } = build.shape;
        let parts = [
            (build.headers, 0, headers),
            (build.sources, self.unit, source),
        ];
        for (store, unit, pages) in parts.into_iter().filter(|part| part.2 > 0) {
            let start = cx.kernel.map(space, build.part(store, unit, pages));
            // Sources that lie in memory were unpacked there: a first read fills them.
            put_run(cx.touches, start, pages, build.shape.tmpfs);
        }
        let compiler = &build.compiler;
        let content = self.unit as u32 + 1;
        let (trace, kinds) = (&compiler.trace, &compiler.kinds);
        let pages = (self.repeat, compiler.text);
        let player = Player::new(trace, kinds, pages, content, cx.kernel, space);
        self.phase = Phase::Play(player);
        Some(Step::Touches)
    }

    fn emit(&mut self, cx: &mut Context<'_>, at: u64) -> Option<Step> {
        let build = &self.build;
        let (each, space) = (build.shape.object, (*cx.space)?);
        if at >= each {
            self.phase = Phase::Leave;
            return None;
        }
        match build.objects {
            Store::File(file) => {
                self.phase = Phase::Emit(at + 1);
                Some(Step::FileIo {
                    file,
                    page: PageNr(self.unit * each + at),
                    write: true,
                    no_reuse: false,
                })
            }
            Store::Memory(_) => {
                self.phase = Phase::Leave;
                let start = cx
                    .kernel
                    .map(space, build.part(build.objects, self.unit, each));
                put_run(cx.touches, start, each, true);
                Some(Step::Touches)
            }
        }
    }

    fn leave(&mut self, cx: &mut Context<'_>) {
        if let Some(space) = cx.space.take() {
            cx.kernel.exit_space(space);
        }
        self.phase = Phase::Next;
    }
}

impl Program for Job {
    fn step(&mut self, cx: &mut Context<'_>) -> Step {
        loop {
            let step = match std::mem::replace(&mut self.phase, Phase::Leave) {
                Phase::Next => self.begin(cx),
                Phase::Read => self.read(cx),
                Phase::Play(mut player) => {
                    self.phase = match player.next(cx) {
                        Some(work) => Phase::Work(player, work),
                        None => Phase::Emit(0),
                    };
                    (!cx.touches.is_empty()).then_some(Step::Touches)
                }
                Phase::Work(player, work) => {
                    self.phase = Phase::Play(player);
                    Some(Step::Compute(Nanos((work.0 as f64 * self.stretch) as u64)))
                }
                Phase::Emit(at) => self.emit(cx, at),
                Phase::Leave => {
                    self.leave(cx);
                    None
                }
            };
            if let Some(step) = step {
                return step;
            }
        }
    }

    /// A build is started anew by its maker; the unit that died is lost to it, and counted.
    fn killed(&mut self, _cx: &mut Context<'_>) -> bool {
        self.phase = Phase::Next;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Clockwork, Machine};
    use crate::kernel::KernelConfig;

    #[test]
    fn the_recorded_compiler_can_be_read() {
        let trace = Trace::decode(CC1).unwrap();
        assert!(trace.pages() > 5_000 && trace.duration() > Nanos::millis(50));
    }

    /// Pages that a build of two units leaves in memory.
    fn left(headers: u64) -> u64 {
        let mut machine = Machine::new(&KernelConfig::default(), Clockwork::default());
        let memcg = machine.kernel().create_memcg(MemcgId::ROOT, "build");
        let shape = BuildShape {
            units: 2,
            work: (0.01, 0.01),
            memory: 1.0,
            source: 3,
            headers,
            object: 0,
            tmpfs: true,
            spawn: Nanos::ZERO,
            link: None,
        };
        let compiler = Compiler::new(Compiler::recorded_trace(), 1.0, machine.kernel());
        let queue = machine.shared().make(shape.units);
        let build = Build::new(shape, memcg, compiler, queue, machine.kernel());
        machine.spawn(build.job(), Nanos::ZERO, true);
        assert!(machine.finish(Nanos(600_000_000_000)));
        machine.kernel().drain();
        machine.kernel().usage(memcg).0
    }

    #[test]
    fn units_share_headers_and_have_sources_of_their_own() {
        let without = left(0);
        assert_eq!(left(5), without + 5);
        assert_eq!(without, 3839 + 2 * 3, "text and sources");
    }

    /// On a machine that is scaled, text is scaled with the rest, and private memory is scaled by having fewer jobs.
    #[test]
    fn text_is_scaled_and_each_touch_stays_within_it() {
        let pages = |text: f64| {
            let mut kernel = Kernel::new(&KernelConfig::default());
            let memcg = kernel.create_memcg(MemcgId::ROOT, "unit");
            let compiler = Compiler::new(Compiler::recorded_trace(), text, &mut kernel);
            let space = kernel.create_space(memcg);
            let (trace, kinds) = (&compiler.trace, &compiler.kinds);
            Player::new(trace, kinds, (1, text), 1, &mut kernel, space).lengths()
        };
        let [whole, ninth] = [1.0, 1.0 / 9.0].map(pages);
        assert_eq!(whole, [3839, 4125]);
        assert_eq!(ninth, [3839_u64.div_ceil(9), 4125]);
    }
}
