//! The machine: CPUs, tasks and the kernel under one clock.

use std::collections::VecDeque;

use neap_units::Nanos;

use super::heap::{Due, Heap};
use super::nodes::{Cpu, Nodes};
use super::program::{Context, Program, Shared, Step};
use super::task::{Left, State, Task, TaskTimes, Times};
use crate::kernel::{CpuId, Kernel, KernelConfig, Op, Reply, TaskId};
use crate::workload::Rng;

/// How the clock turns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Clockwork {
    /// How long a task keeps its CPU while others wait (the kernel's base slice: 3 ms).
    pub slice: Nanos,
    /// How far a CPU may run past the next event while it touches pages. Smaller is slower and, below what a
    /// fault costs, changes nothing.
    pub grain: Nanos,
}

impl Default for Clockwork {
    fn default() -> Clockwork {
        Clockwork {
            slice: Nanos::millis(3),
            grain: Nanos::micros(5),
        }
    }
}

/// CPUs, tasks and a kernel under one clock.
pub struct Machine {
    kernel: Kernel,
    shared: Shared,
    clockwork: Clockwork,
    seed: u64,
    now: Nanos,
    heap: Heap,
    cpus: Vec<Cpu>,
    nodes: Nodes,
    tasks: Vec<Task>,
    queue: VecDeque<u32>,
    /// Tasks that are awaited and not over.
    awaited: usize,
    /// CPU time of a touch that hits.
    hit: Nanos,
}

/// How a stretch of running ended for a CPU.
enum Ran {
    /// Its task goes on at this time.
    On(Nanos),
    /// The same, of a task that computes and has got far ahead of the others.
    Ahead(Nanos),
    /// Its task gave the CPU up at this time.
    Off(Nanos),
}

impl Machine {
    /// A machine with no tasks. Their random numbers come from the kernel configuration's seed.
    #[must_use]
    pub fn new(config: &KernelConfig, clockwork: Clockwork) -> Machine {
        Machine {
            kernel: Kernel::new(config),
            shared: Shared::default(),
            clockwork,
            seed: config.seed,
            now: Nanos::ZERO,
            heap: Heap::default(),
            cpus: vec![Cpu::default(); config.cpus.max(1) as usize],
            nodes: Nodes::new(config.nodes, config.cpus),
            tasks: Vec::new(),
            queue: VecDeque::new(),
            awaited: 0,
            hit: config.costs.hit,
        }
    }

    /// The kernel, to set up cgroups and files and to read counters.
    pub fn kernel(&mut self) -> &mut Kernel {
        &mut self.kernel
    }

    /// The numbers tasks share.
    pub fn shared(&mut self) -> &mut Shared {
        &mut self.shared
    }

    /// Time.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Adds a task that starts at `start`. [`Machine::finish`] waits for awaited ones.
    pub fn spawn(&mut self, program: Box<dyn Program>, start: Nanos, awaited: bool) -> TaskId {
        let id = self.tasks.len() as u32;
        let start = start.max(self.now);
        let rng = Rng::new(self.seed, 1 + u64::from(id));
        self.tasks.push(Task::new(program, rng, start, awaited));
        self.awaited += usize::from(awaited);
        self.heap.push(start, Due::Wake(id));
        TaskId(id)
    }

    /// Times of a task.
    #[must_use]
    pub fn times(&self, task: TaskId) -> TaskTimes {
        self.tasks[task.index()].times
    }

    /// Sums over all tasks.
    #[must_use]
    pub fn total(&self) -> Times {
        let mut sum = Times::default();
        for task in &self.tasks {
            sum.add(task.times.times);
        }
        sum
    }

    /// Times tasks were killed for want of memory.
    #[must_use]
    pub fn kills(&self) -> u64 {
        self.tasks.iter().map(|task| task.times.kills).sum()
    }

    /// Runs until all awaited tasks are over, or until `limit`. True if they are.
    pub fn finish(&mut self, limit: Nanos) -> bool {
        while self.awaited > 0 && self.turn(limit) {}
        self.awaited == 0
    }

    /// Runs until `time`.
    pub fn run_until(&mut self, time: Nanos) {
        while self.turn(time) {}
        self.now = self.now.max(time);
    }

    /// Handles the next event if it is due by `limit`.
    fn turn(&mut self, limit: Nanos) -> bool {
        let kernel = self.kernel.next_event();
        let own = self.heap.next();
        if let Some(at) = kernel.filter(|&at| own.is_none_or(|own| at <= own)) {
            if at > limit {
                return false;
            }
            self.now = self.now.max(at);
            self.kernel.fire(self.now);
            return true;
        }
        if own.is_none_or(|at| at > limit) {
            return false;
        }
        let Some((at, due)) = self.heap.pop() else {
            return false;
        };
        self.now = self.now.max(at);
        match due {
            Due::Wake(task) => self.wake(task),
            Due::Cpu(cpu) => self.run_cpu(cpu, limit),
        }
        true
    }

    fn wake(&mut self, id: u32) {
        let now = self.now;
        let task = &mut self.tasks[id as usize];
        if let State::Stalled(since) = task.state {
            task.times.times.stalled += now.saturating_sub(since);
        }
        task.state = State::Ready;
        match self.idle_cpu(id) {
            Some(cpu) => self.start(cpu, id, now),
            None => self.queue.push_back(id),
        }
    }

    /// An idle CPU for a task that wakes: of the node it last ran on, as wake-ups look among CPUs that
    /// share a cache, or else anywhere. What has no node yet goes to the one with most idle CPUs.
    fn idle_cpu(&mut self, id: u32) -> Option<u32> {
        let task = &mut self.tasks[id as usize];
        let node = match task.node {
            Some(node) => Some(node),
            None => self.nodes.idlest(&self.cpus, &mut task.rng),
        };
        let idle = |cpu: &u32| self.cpus[*cpu as usize].task.is_none();
        let near = node.and_then(|node| self.nodes.cpus_of(node).find(idle));
        near.or_else(|| (0..self.cpus.len() as u32).find(idle))
    }

    fn start(&mut self, cpu: u32, task: u32, at: Nanos) {
        self.tasks[task as usize].node = Some(self.nodes.of(cpu));
        self.cpus[cpu as usize] = Cpu {
            task: Some(task),
            slice_end: at + self.clockwork.slice.max(Nanos(1)),
        };
        self.heap.push(at, Due::Cpu(cpu));
    }

    fn run_cpu(&mut self, cpu: u32, limit: Nanos) {
        let Some(id) = self.cpus[cpu as usize].task else {
            return;
        };
        let slice_end = self.cpus[cpu as usize].slice_end;
        let ran = match self.now >= slice_end {
            true => Ran::On(self.now), // it has computed up to here
            false => self.run_task(cpu, id),
        };
        match ran {
            Ran::On(at) if at >= slice_end => {
                let at = self.skip(id, at, limit);
                self.queue.push_back(id);
                self.next_task(cpu, at);
            }
            Ran::On(at) | Ran::Ahead(at) => self.heap.push(at, Due::Cpu(cpu)),
            Ran::Off(at) => self.next_task(cpu, at),
        }
    }

    /// Where a task that computes alone has got to once the slices are over that nothing can end early:
    /// nobody waits, and nothing else happens meanwhile. They are passed at once, for a day has
    /// 28 million of them, and all is as if they had been run.
    fn skip(&mut self, id: u32, at: Nanos, limit: Nanos) -> Nanos {
        let task = &mut self.tasks[id as usize];
        let Left::Compute(span) = task.left else {
            return at;
        };
        if !self.queue.is_empty() {
            return at;
        }
        let slice = self.clockwork.slice.0.max(1);
        let others = [self.heap.next(), self.kernel.next_event()];
        let end = others.into_iter().flatten().fold(limit, Nanos::min);
        let room = end.saturating_sub(at).min(span);
        // The last one is run, for it may end between.
        let passed = Nanos((room.0 / slice).saturating_sub(1) * slice);
        task.times.times.user += passed;
        task.left = Left::Compute(span - passed);
        at + passed
    }

    fn next_task(&mut self, cpu: u32, at: Nanos) {
        self.cpus[cpu as usize].task = None;
        // One of this node before one that would move.
        let here = self.nodes.of(cpu);
        let stays = |id: &u32| {
            self.tasks[*id as usize]
                .node
                .is_none_or(|node| node == here)
        };
        let first = self.queue.iter().position(stays).unwrap_or(0);
        if let Some(next) = self.queue.remove(first) {
            self.start(cpu, next, at);
        }
    }

    /// How far a CPU may run from `now` on.
    fn horizon(&self, cpu: u32) -> Nanos {
        let next = [self.heap.next(), self.kernel.next_event()];
        let next = next.into_iter().flatten().min();
        let next = next.map_or(Nanos(u64::MAX), |at| {
            at.saturating_add(self.clockwork.grain)
        });
        next.min(self.cpus[cpu as usize].slice_end.max(self.now))
    }

    fn run_task(&mut self, cpu: u32, id: u32) -> Ran {
        let mut at = self.now;
        let mut horizon = self.horizon(cpu);
        loop {
            let task = &mut self.tasks[id as usize];
            match task.left {
                Left::Nothing => {
                    if let Some(ran) = self.ask(cpu, id, &mut at) {
                        return ran;
                    }
                }
                // Meets nobody, so it need not keep step: nothing but the end of its slice can come between.
                Left::Compute(span) => {
                    let end = self.cpus[cpu as usize].slice_end;
                    let room = Nanos(end.saturating_sub(at).0.max(1));
                    let part = span.min(room);
                    at += part;
                    task.times.times.user += part;
                    task.left = match span.saturating_sub(part) {
                        Nanos::ZERO => Left::Nothing,
                        rest => Left::Compute(rest),
                    };
                    if at >= horizon {
                        return Ran::Ahead(at);
                    }
                }
                Left::Touches(from) => {
                    if let Some(ran) = self.touch(cpu, id, from, &mut at, horizon) {
                        return ran;
                    }
                }
                Left::Kernel => {
                    let reply = self.kernel.resume(at, CpuId(cpu), TaskId(id));
                    if let Some(ran) = self.replied(id, reply, &mut at) {
                        return ran;
                    }
                }
            }
            if at >= horizon {
                return Ran::On(at);
            }
            // The kernel may have planned something sooner meanwhile.
            if let Some(next) = self.kernel.next_event() {
                horizon = horizon.min(next.saturating_add(self.clockwork.grain));
            }
        }
    }

    /// Touches until a miss, the horizon or the end. A hit costs its pace and the kernel's hit cost.
    fn touch(&mut self, cpu: u32, id: u32, from: usize, at: &mut Nanos, end: Nanos) -> Option<Ran> {
        let task = &mut self.tasks[id as usize];
        let each = task.pace + self.hit;
        let space = task.space.expect("touches come with a space");
        let mut now = *at;
        let mut i = from;
        let mut miss = None;
        while let Some(&touch) = task.touches.get(i) {
            if !self.kernel.hit(space, touch.page(), touch.write()) {
                miss = Some(touch);
                break;
            }
            now += each;
            i += 1;
            if now >= end {
                break;
            }
        }
        task.times.times.user += now - *at;
        *at = now;
        task.left = if i < task.touches.len() {
            Left::Touches(i)
        } else {
            Left::Nothing
        };
        let touch = miss?;
        task.at = i;
        let (page, write) = (touch.page(), touch.write());
        let op = Op::Touch { space, page, write };
        let reply = self.kernel.enter(now, CpuId(cpu), TaskId(id), op);
        self.replied(id, reply, at)
    }

    /// What a reply means for the task.
    fn replied(&mut self, id: u32, reply: Reply, at: &mut Nanos) -> Option<Ran> {
        let task = &mut self.tasks[id as usize];
        let (Reply::Done { cpu }
        | Reply::Again { cpu }
        | Reply::Continue { cpu }
        | Reply::Wait { cpu, .. }
        | Reply::Killed { cpu }) = reply;
        *at += cpu;
        task.times.times.system += cpu;
        match reply {
            Reply::Done { .. } | Reply::Again { .. } => {
                task.again = matches!(reply, Reply::Again { .. });
                // The access itself is done again, and hits: a page may be gone meanwhile.
                task.left = if task.at < task.touches.len() {
                    Left::Touches(task.at)
                } else {
                    Left::Nothing
                };
                None
            }
            Reply::Continue { .. } => {
                task.left = Left::Kernel;
                None
            }
            Reply::Wait { until, .. } => {
                task.left = Left::Kernel;
                task.state = State::Stalled(*at);
                self.heap.push(until.max(*at), Due::Wake(id));
                Some(Ran::Off(*at))
            }
            Reply::Killed { .. } => self.kill(id, *at),
        }
    }

    fn kill(&mut self, id: u32, at: Nanos) -> Option<Ran> {
        let task = &mut self.tasks[id as usize];
        task.times.kills += 1;
        task.touches.clear();
        (task.at, task.left) = (0, Left::Nothing);
        if let Some(space) = task.space.take() {
            self.kernel.exit_space(space);
        }
        let on = self.with_program(id, at, |program, cx| program.killed(cx));
        if on {
            return None;
        }
        self.end(id, at);
        Some(Ran::Off(at))
    }

    fn end(&mut self, id: u32, at: Nanos) {
        let task = &mut self.tasks[id as usize];
        task.state = State::Ended;
        task.times.ended = Some(at);
        task.program = None;
        self.awaited -= usize::from(task.awaited);
    }

    fn with_program<T>(
        &mut self,
        id: u32,
        now: Nanos,
        call: impl FnOnce(&mut dyn Program, &mut Context<'_>) -> T,
    ) -> T {
        let task = &mut self.tasks[id as usize];
        let mut program = task.program.take().expect("a task that runs has a program");
        let mut system = Nanos::ZERO;
        let mut cx = Context {
            now,
            kernel: &mut self.kernel,
            rng: &mut task.rng,
            shared: &mut self.shared,
            touches: &mut task.touches,
            space: &mut task.space,
            pace: &mut task.pace,
            system: &mut system,
            again: task.again,
        };
        let result = call(program.as_mut(), &mut cx);
        task.times.times.system += system;
        task.program = Some(program);
        result
    }

    /// Asks the program for its next step and begins it.
    fn ask(&mut self, cpu: u32, id: u32, at: &mut Nanos) -> Option<Ran> {
        let task = &mut self.tasks[id as usize];
        task.touches.clear();
        task.at = 0;
        let before = task.times.times.system;
        let step = self.with_program(id, *at, |program, cx| program.step(cx));
        let task = &mut self.tasks[id as usize];
        *at += task.times.times.system - before;
        let op = match step {
            // A program that never does anything still gets older.
            Step::Touches if task.touches.is_empty() => {
                *at += Nanos(1);
                return None;
            }
            Step::Touches => {
                task.left = Left::Touches(0);
                return None;
            }
            Step::Compute(span) => {
                task.left = Left::Compute(span);
                return None;
            }
            Step::SleepUntil(time) | Step::RunUntil(time) => {
                task.state = State::Asleep;
                task.node = task.node.filter(|_| matches!(step, Step::SleepUntil(_)));
                self.heap.push(time.max(*at), Due::Wake(id));
                return Some(Ran::Off(*at));
            }
            Step::Exit => {
                self.end(id, *at);
                return Some(Ran::Off(*at));
            }
            Step::Reclaim { memcg, bytes } => Op::Reclaim {
                memcg,
                bytes,
                swappiness: None,
            },
            Step::FileIo {
                file,
                page,
                write,
                no_reuse,
            } => Op::FileIo {
                space: task.space.expect("file reads come with a space"),
                file,
                page,
                write,
                no_reuse,
            },
        };
        let reply = self.kernel.enter(*at, CpuId(cpu), TaskId(id), op);
        self.replied(id, reply, at)
    }
}
