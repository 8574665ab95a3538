//! The end of a build that no job overlaps: the objects are linked into one file, which is looked over
//! in memory (objtool, modpost) and linked again to number its symbols.
//!
//! In a machine made smaller by a scale this part touches fewer pages but takes no less time. Its work is
//! given whole and spread over its pages; what it waits for at one page, it would wait for at each of those
//! that the page stands for, so it sleeps as much longer ([`LinkShape::stretch`]). The kernel's own CPU time
//! is counted once for each page, as everywhere.

use neap_units::{Nanos, PageNr, Pages};

use super::put_run;
use crate::clock::{Context, Program, Step};
use crate::kernel::{Area, FileId, Kernel, MemcgId};

/// Times that the program which looks over the linked file goes through what it keeps of it: decoding,
/// destinations of jumps and of calls, hints, branches, tables.
const PASSES: u64 = 6;
/// Links after that: two to number the symbols, and the last.
const LINKS: u64 = 3;
/// How often it is asked whether the jobs are over.
const POLL: Nanos = Nanos::millis(10);
/// Pages between two stretches of work.
const CHUNK: u64 = 16;

/// How the serial part of a build is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LinkShape {
    /// Work before the first unit: configuring, tools and headers.
    pub prepare: Nanos,
    /// Work after the last.
    pub work: Nanos,
    /// Private pages of the program that looks over the linked file.
    pub memory: u64,
    /// Share of its touches, after the first pass, that follow no order.
    pub scatter: f64,
    /// For how many pages each stands.
    pub stretch: f64,
}

/// One thing done to a run of pages.
#[derive(Clone, Copy, Debug)]
enum Part {
    /// A program begins, with so much private memory.
    Begin(u64),
    Read(FileId, u64),
    Write(FileId, u64),
    /// Private memory, from its start on.
    Touch(u64, bool),
    End,
}

impl Part {
    fn pages(self) -> u64 {
        match self {
            Part::Read(_, pages) | Part::Write(_, pages) | Part::Touch(pages, _) => pages,
            Part::Begin(_) | Part::End => 0,
        }
    }
}

/// The task that does it.
pub(super) struct Linking {
    memcg: MemcgId,
    shape: LinkShape,
    /// Shared number: jobs not yet over.
    jobs: usize,
    parts: Vec<Part>,
    /// Part, and page of it.
    at: (usize, u64),
    start: PageNr,
    /// Work for each page.
    each: f64,
    prepared: bool,
    /// When the touches or the file's page were asked for, while they are not paid for.
    asked: Option<Nanos>,
    /// Pages done since the last work.
    done: u64,
}

impl Linking {
    /// After this many jobs. Objects and what they are linked to have as many pages, and so has a linker's
    /// private memory.
    pub(super) fn new(
        shape: LinkShape,
        memcg: MemcgId,
        (objects, size): (FileId, u64),
        jobs: usize,
        kernel: &mut Kernel,
    ) -> Linking {
        let [linked, image] = [(); 2].map(|()| kernel.create_file(Pages(size)));
        let link = |from, to| {
            [
                Part::Begin(size),
                Part::Read(from, size),
                Part::Touch(size, true),
                Part::Write(to, size),
                Part::End,
            ]
        };
        let mut parts = link(objects, linked).to_vec();
        parts.extend([Part::Begin(shape.memory), Part::Read(linked, size)]);
        parts.extend((0..PASSES).map(|pass| Part::Touch(shape.memory, pass == 0)));
        parts.extend([Part::Write(linked, size), Part::End]);
        for _ in 0..LINKS {
            parts.extend(link(linked, image));
        }
        let pages: u64 = parts.iter().map(|part| part.pages()).sum();
        Linking {
            memcg,
            shape,
            jobs,
            parts,
            at: (0, 0),
            start: PageNr(0),
            each: shape.work.0 as f64 / pages.max(1) as f64,
            prepared: false,
            asked: None,
            done: 0,
        }
    }

    /// Sleeps for the waits of the pages that those just touched stand for.
    fn owed(&mut self, now: Nanos) -> Option<Step> {
        let asked = self.asked.take()?;
        let waited = now.saturating_sub(asked).0 as f64 * (self.shape.stretch - 1.0);
        (waited >= 1.0).then(|| Step::SleepUntil(now.saturating_add(Nanos(waited as u64))))
    }

    /// The next pages of a part.
    fn go_on(&mut self, part: Part, cx: &mut Context<'_>) -> Step {
        let from = self.at.1;
        let file = |file, write| Step::FileIo {
            file,
            page: PageNr(from),
            write,
            no_reuse: false,
        };
        let (count, step) = match part {
            Part::Read(from, _) => (1, file(from, false)),
            Part::Write(to, _) => (1, file(to, true)),
            _ => {
                let count = CHUNK.min(part.pages() - from);
                let write = matches!(part, Part::Touch(_, true));
                if write || cx.rng.unit() >= self.shape.scatter {
                    put_run(cx.touches, PageNr(self.start.0 + from), count, write);
                } else {
                    for _ in 0..count {
                        let page = cx.rng.between(0, part.pages() - 1);
                        put_run(cx.touches, PageNr(self.start.0 + page), 1, false);
                    }
                }
                (count, Step::Touches)
            }
        };
        self.at.1 += count;
        self.done += count;
        self.asked = Some(cx.now);
        step
    }
}

impl Program for Linking {
    fn step(&mut self, cx: &mut Context<'_>) -> Step {
        if !self.prepared {
            self.prepared = true;
            return Step::Compute(self.shape.prepare);
        }
        if self.at == (0, 0) && cx.shared.get(self.jobs) > 0 {
            return Step::SleepUntil(cx.now.saturating_add(POLL));
        }
        if let Some(step) = self.owed(cx.now) {
            return step;
        }
        if self.done >= CHUNK {
            let work = Nanos((self.each * self.done as f64) as u64);
            self.done = 0;
            return Step::Compute(work);
        }
        while let Some(&part) = self.parts.get(self.at.0) {
            if self.at.1 < part.pages() {
                return self.go_on(part, cx);
            }
            self.at = (self.at.0 + 1, 0);
            match part {
                Part::Begin(memory) => {
                    let space = cx.kernel.create_space(self.memcg);
                    self.start = cx.kernel.map(space, Area::anon(Pages(memory.max(1))));
                    *cx.space = Some(space);
                }
                Part::End => {
                    if let Some(space) = cx.space.take() {
                        cx.kernel.exit_space(space);
                    }
                }
                _ => {}
            }
        }
        Step::Exit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Clockwork, Machine};
    use crate::kernel::{KernelConfig, Limits, SwapConfig};
    use crate::workload::{Build, BuildShape, Compiler};

    /// How long a build takes that is all link, in a machine smaller by `scale`.
    fn seconds(scale: u64, limit: u64) -> f64 {
        let config = KernelConfig {
            swap: Some(SwapConfig {
                size: neap_units::Bytes(1 << 30),
                latency: Nanos::micros(100),
                synchronous: false,
            }),
            ..KernelConfig::default()
        };
        let mut machine = Machine::new(&config, Clockwork::default());
        let kernel = machine.kernel();
        let memcg = kernel.create_memcg(MemcgId::ROOT, "build");
        let limits = Limits {
            max: Some(Pages(limit / scale)),
            ..Limits::default()
        };
        kernel.set_limits(memcg, limits);
        let shape = BuildShape {
            units: 1,
            work: (0.1, 0.1),
            memory: 1.0,
            source: 0,
            headers: 0,
            object: 1024 / scale,
            tmpfs: false,
            spawn: Nanos::ZERO,
            link: Some(LinkShape {
                prepare: Nanos::millis(500),
                work: Nanos::millis(1_500),
                memory: 32_768 / scale,
                scatter: 0.0,
                stretch: scale as f64,
            }),
        };
        let compiler = Compiler::new(Compiler::recorded_trace(), 1.0, kernel);
        let queue = machine.shared().make(0);
        let running = machine.shared().make(0);
        let mut build = Build::new(shape, memcg, compiler, queue, machine.kernel());
        let link = build.link(running, machine.kernel()).unwrap();
        machine.spawn(link, Nanos::ZERO, true);
        assert!(machine.finish(Nanos(600_000_000_000)));
        machine.now().0 as f64 / 1e9
    }

    #[test]
    fn a_smaller_machine_waits_as_long_in_all() {
        let (whole, quarter) = (seconds(1, 24_000), seconds(4, 24_000));
        assert!(whole > seconds(1, 200_000) + 1.0, "{whole} has no waits");
        assert!((whole / quarter - 1.0).abs() < 0.1, "{whole} and {quarter}");
    }

    #[test]
    fn with_room_it_takes_its_work() {
        let time = seconds(4, 200_000);
        assert!((2.0..2.3).contains(&time), "{time}");
    }
}
