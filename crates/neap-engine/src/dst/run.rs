//! Runs steps, and finds out which of them a failure needs.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;

use neap_imagined::{Act, Chance, Odds, Outcome, PAGE, Ran, ThreadNr};
use neap_tuning::TUNING;
use neap_units::PageNr;

use super::plan::Plan;
use super::scene::{self, Program, Scene};
use crate::reclaim::Part;
use crate::space::Space;

pub(super) type Failure = String;

/// Runs in which shorter ones are looked for.
const TRIES: usize = 3000;
/// Rounds in which whoever waits must get what it waits for.
const ROUNDS: usize = 300;

/// Runs steps, and looks what came of them.
pub(super) fn run(plan: &Plan, steps: &[u64]) -> Result<(), Failure> {
    run_with(plan, steps, None)
}

/// What a run does, in words.
pub(super) fn told(plan: &Plan, steps: &[u64]) -> String {
    let mut words = Vec::new();
    let _ = run_with(plan, steps, Some(&mut words));
    format!("{plan:?}\n{}", words.join("\n"))
}

fn run_with(plan: &Plan, steps: &[u64], words: Option<&mut Vec<String>>) -> Result<(), Failure> {
    let scene = Scene::new(plan);
    if words.is_some() {
        *scene.words.borrow_mut() = Some(Vec::new());
    }
    scene::set(Some(scene.clone()));
    let played = catch_unwind(AssertUnwindSafe(|| play(&scene, steps)));
    if !matches!(played, Ok(Ok(()))) {
        let _ = scene.hush(); // threads that are at work need the scene
    }
    scene::set(None);
    if let (Some(words), Some(said)) = (words, scene.words.take()) {
        *words = said;
    }
    match played {
        Ok(done) => done,
        Err(panic) => {
            // Locks that it held cannot be taken any more, and its threads have not ended.
            std::mem::forget(scene);
            Err(words_of(&*panic))
        }
    }
}

/// What a thread said that panicked.
pub(super) fn words_of(panic: &(dyn Any + Send)) -> Failure {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
    format!("panicked: {}", text.unwrap_or_default())
}

fn play(scene: &Rc<Scene>, steps: &[u64]) -> Result<(), Failure> {
    scene.machine.set_odds(scene.plan.odds);
    for (count, &step) in steps.iter().enumerate() {
        scene.draw_from(step);
        scene.any_step(step);
        scene.look()?;
        if count % 64 == 63 {
            scene.job.core().check();
        }
    }
    scene.note(|| "all get what they wait for".into());
    scene.hush()?;
    scene.look()?;
    scene.machine.set_odds(Odds::default());
    scene.come_to_rest()?;
    scene.read_all()?;
    scene.end_all()
}

impl Scene {
    /// One step of a program or of the engine.
    pub(super) fn any_step(&self, number: u64) {
        let mut chance = Chance::new(number);
        if self.hands.are_there() && chance.happens(400) && self.go_on() {
            self.note(|| "a thread of the engine goes on".into());
            self.take_born();
            return;
        }
        match chance.below(100) {
            0..45 => self.program_step(chance.draw()),
            45..65 => {
                if let Some(program) = self.some_program(&mut chance) {
                    self.note(|| format!("faults of {:?} are served", program.nr));
                    self.serve(&program);
                }
            }
            65..90 => self.reclaim_step(&mut chance),
            90..94 => self.write_back(&mut chance),
            94..97 => self.space_step(&mut chance),
            _ => self.rare_step(&mut chance),
        }
        self.take_born();
    }

    fn some_program(&self, chance: &mut Chance) -> Option<Rc<Program>> {
        let programs = self.programs.borrow();
        let alive: Vec<_> = programs
            .iter()
            .filter(|program| self.machine.is_running(program.nr))
            .collect();
        let count = alive.len() as u64;
        (count > 0).then(|| alive[chance.below(count) as usize].clone())
    }

    pub(super) fn some_space(&self, chance: &mut Chance) -> Option<std::sync::Arc<Space>> {
        let program = self.some_program(chance)?;
        let space = program.space.borrow().clone();
        space.filter(|space| !space.is_dead())
    }

    /// A thread begins something, or gets on with it.
    pub(super) fn program_step(&self, number: u64) {
        let mut chance = Chance::new(number);
        let Some(program) = self.some_program(&mut chance) else {
            return;
        };
        let nr = program.nr;
        if program.speaks.get() || self.machine.threads(nr) == 0 {
            return; // killed, and its agent has not ended
        }
        if self.plan.attributes && program.agent.borrow().is_none() {
            // Where memory is kept from children, a child's library speaks before it goes on.
            if neap_sys::holds_none() {
                self.adopt(&program);
            }
            return;
        }
        let thread = ThreadNr(chance.below(self.machine.threads(nr) as u64) as usize);
        if self.forks(&program, thread) {
            self.pass_on(&program, &mut chance);
            return;
        }
        if self.machine.is_idle(nr, thread) {
            self.has_ended_act(&program, thread);
            let settled = program
                .space
                .borrow()
                .as_ref()
                .is_some_and(|space| !space.expects());
            if settled {
                program.turns.borrow_mut().settle();
            }
            let Some(act) = self.next_act(&program, thread, &mut chance) else {
                return;
            };
            self.note(|| format!("{nr:?} {thread:?} begins {act:x?}"));
            program
                .turns
                .borrow_mut()
                .begin(thread, &act, self.plan.races);
            self.machine.begin(nr, thread, act);
        }
        for _ in 0..1 + chance.below(5) {
            let ran = self.machine.step(nr, thread);
            self.note(|| format!("{nr:?} {thread:?} {ran:?}"));
            if ran != Ran::On {
                break;
            }
        }
        if self.machine.is_idle(nr, thread) {
            self.has_ended_act(&program, thread);
        }
    }

    /// A thread has done what it began.
    fn has_ended_act(&self, program: &Program, thread: ThreadNr) {
        program.turns.borrow_mut().end(thread);
        match self.machine.outcome(program.nr, thread) {
            Some(Outcome::Bus) if !self.may_lose() => panic!("{:?} got SIGBUS", program.nr),
            // It runs before anybody serves it.
            Some(Outcome::Child(child)) => _ = self.meet(child),
            _ => {}
        }
    }

    pub(super) fn may_lose(&self) -> bool {
        let lost = self.plan.untold && self.plan.threads > 1;
        self.disk_erred.load(Relaxed) || self.plan.kills || lost
    }

    fn reclaim_step(&self, chance: &mut Chance) {
        let Some(space) = self.some_space(chance) else {
            return;
        };
        let most = 1 + chance.below(64) as usize;
        let part = match chance.below(12) {
            0..4 if most.is_multiple_of(4) => Part::StageOwn(most),
            0..4 => Part::Stage(most),
            4..6 => {
                if most.is_multiple_of(2) {
                    self.job.clock.sleep(TUNING.looks.childhood.0); // children grow up
                }
                Part::Unshare(most)
            }
            6..10 => Part::Store,
            10 if self.plan.hints => return self.hint(chance),
            10 => Part::Recycle,
            _ => Part::CatchUp,
        };
        // A worker stores beside reclaim, where there are threads.
        if self.hands.are_there() && matches!(part, Part::Store) && chance.happens(500) {
            let slot = self.storer.share();
            if let Some(mut storer) = slot.take() {
                self.note(|| format!("a worker stores a block of space {:?}", space.id));
                self.has_done(move || {
                    storer.store(&space);
                    slot.put(storer);
                });
            }
            return;
        }
        let slot = self.reclaimer.share();
        if let Some(mut reclaimer) = slot.take() {
            self.note(|| format!("reclaim of space {:?}: {part:?}", space.id));
            self.has_done(move || {
                reclaimer.part_of_pass(part, &space);
                slot.put(reclaimer);
            });
        }
    }

    fn write_back(&self, chance: &mut Chance) {
        let slot = self.codec.share();
        if let Some(mut codec) = slot.take() {
            self.note(|| "write-back".into());
            let (which, job) = (chance.below(3), self.job.clone());
            self.has_done(move || {
                match which {
                    0 => _ = job.store.shrink_poor(1, &mut codec),
                    1 => _ = job.store.shrink_worker(&mut codec),
                    _ => _ = job.store.shrink(0, &mut codec),
                }
                slot.put(codec);
            });
        }
    }

    /// What the sampler does now and then.
    fn space_step(&self, chance: &mut Chance) {
        let Some(program) = self.some_program(chance) else {
            return;
        };
        let space = program.space.borrow().clone();
        let Some(space) = space.filter(|space| space.is_managed()) else {
            return;
        };
        self.note(|| format!("a look at {:?}", program.nr));
        if chance.happens(700) {
            let job = self.job.clone();
            self.has_done(move || space.discover(&job));
        } else if !program.turns.borrow().is_advising() {
            use neap_sys::Clock;
            self.machine.sleep(neap_tuning::TUNING.changes.madvise.0);
            if !program.turns.borrow().is_advising() {
                let now = self.machine.now();
                space.end_quarantine(&self.job, now);
            }
        }
    }

    fn rare_step(&self, chance: &mut Chance) {
        let Some(program) = self.some_program(chance) else {
            return;
        };
        match chance.below(12) {
            0..3 => self.machine.drop_free_pages(program.nr),
            3..5 if self.machine.threads(program.nr) > 0 => {
                let threads = self.machine.threads(program.nr) as u64;
                let thread = ThreadNr(chance.below(threads) as usize);
                self.machine.interrupt(program.nr, thread);
            }
            5..9 => {
                self.note(|| format!("the library of {:?} speaks", program.nr));
                self.adopt(&program);
            }
            9 if self.plan.kills => {
                if let Some(agent) = &*program.agent.borrow() {
                    self.note(|| format!("the agent of {:?} is killed", program.nr));
                    agent.kill();
                }
            }
            10 if self.programs.borrow().len() > 1 => self.end(&program),
            _ => {
                let agent = program.agent.borrow().clone();
                if let Some(agent) = agent {
                    agent.step();
                }
            }
        }
    }

    /// A program ends. Its forks have been applied: its libc's fork waits for that.
    fn end(&self, program: &Program) {
        let space = program.space.borrow().clone();
        let Some(space) = space.filter(|space| !space.expects()) else {
            return;
        };
        program.turns.borrow_mut().settle();
        let forks = program.passing.borrow().is_some();
        let busy = forks || program.turns.borrow().is_changing() || program.speaks.get();
        if busy || program.faults.is_empty() {
            return;
        }
        self.note(|| format!("{:?} ends", program.nr));
        self.machine.end(program.nr);
        if let Some(agent) = program.agent.borrow_mut().take() {
            agent.kill();
        }
        if let Some(body) = space.body.get() {
            body.agent.set_gone();
        }
        space.look_for_life();
        self.serve(program);
    }

    /// Whether anything is wrong by now.
    fn look(&self) -> Result<(), Failure> {
        if let Some(failure) = &*self.failed.borrow() {
            return Err(failure.clone());
        }
        if let Some(wrong) = self.machine.wrong() {
            return Err(wrong);
        }
        for space in self.job.spaces().iter() {
            let lost = space.body.get().is_some_and(|body| body.lost.load(Relaxed));
            if lost && !self.may_lose() {
                return Err(format!("lost: {:?}", self.job.warnings.all()));
            }
        }
        Ok(())
    }

    /// Everybody gets on until nobody has anything to do.
    pub(super) fn come_to_rest(&self) -> Result<(), Failure> {
        for _ in 0..ROUNDS {
            let programs = self.programs.borrow().clone();
            let mut busy = false;
            for program in programs {
                self.has_faults_served(&program);
                if !self.machine.is_running(program.nr) {
                    continue;
                }
                busy |= self.pass_on(&program, &mut Chance::new(0));
                for thread in 0..self.machine.threads(program.nr) {
                    let thread = ThreadNr(thread);
                    busy |= self.machine.run(program.nr, thread) != Ran::Idle;
                }
                let space = program.space.borrow().clone();
                busy |= self.machine.has_message(program.nr);
                busy |= space.is_some_and(|space| space.expects());
                if let Some(agent) = program.agent.borrow().clone() {
                    while agent.step() {}
                }
            }
            if let Some(mut reclaimer) = self.reclaimer.take() {
                if let Some(space) = self.job.spaces().first() {
                    reclaimer.part_of_pass(Part::CatchUp, space);
                }
                self.reclaimer.put(reclaimer);
            }
            self.look()?;
            if !busy {
                return Ok(());
            }
        }
        match self.may_lose() {
            true => Ok(()),
            false => Err(format!("somebody waits for ever: {}", self.who_waits())),
        }
    }

    fn has_faults_served(&self, program: &Program) {
        self.serve(program);
        self.take_born();
    }

    fn who_waits(&self) -> String {
        let mut words = Vec::new();
        for program in &*self.programs.borrow() {
            for thread in 0..self.machine.threads(program.nr) {
                let what = self.machine.describe(program.nr, ThreadNr(thread));
                words.push(format!("{:?}: {what}", program.nr));
            }
            if let Some(space) = &*program.space.borrow() {
                words.push(format!(
                    "expects {}, changes {}, late {}",
                    space.expects(),
                    self.machine.is_changing(program.nr),
                    space.is_late()
                ));
            }
        }
        words.join("; ")
    }

    /// Each page of each program is read, and is as it was written.
    pub(super) fn read_all(&self) -> Result<(), Failure> {
        let programs = self.programs.borrow().clone();
        for program in programs {
            if !self.machine.is_running(program.nr) {
                continue;
            }
            for page in self.machine.written(program.nr) {
                let at = PageNr(page).0 * PAGE;
                self.note(|| format!("{:?} reads {at:x}", program.nr));
                let thread = ThreadNr(0);
                let killed = self.machine.threads(program.nr) == 0;
                if killed || !self.machine.is_idle(program.nr, thread) {
                    break; // it waits for ever, which may be here
                }
                self.machine.begin(program.nr, thread, Act::Read(at));
                for _ in 0..ROUNDS {
                    if self.machine.run(program.nr, thread) == Ran::Idle {
                        break;
                    }
                    self.has_faults_served(&program);
                }
                self.look()?;
                if !self.machine.is_idle(program.nr, thread) && !self.may_lose() {
                    return Err(format!("a read waits for ever: {}", self.who_waits()));
                }
                self.has_ended_act(&program, thread);
            }
        }
        Ok(())
    }

    /// All programs end: nothing of theirs is kept.
    fn end_all(&self) -> Result<(), Failure> {
        self.job.core().check();
        let programs = self.programs.borrow().clone();
        for program in &programs {
            program.turns.take();
            self.end(program);
        }
        self.take_born();
        for program in &programs {
            self.serve(program);
        }
        let (left, kept) = (self.job.spaces().len(), self.job.store.entries());
        if left == 0 && kept > 0 {
            return Err(format!("{kept} pages are kept of programs that have ended"));
        }
        Ok(())
    }
}

/// Leaves out steps, as many as possible, so that the run still fails.
pub(super) fn shrink(plan: &Plan, steps: &[u64]) -> Vec<u64> {
    let mut steps = steps.to_vec();
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let mut size = steps.len() / 2;
    let mut tries = 0;
    while size > 0 && tries < TRIES {
        let mut at = 0;
        while at < steps.len() {
            let mut fewer = steps.clone();
            fewer.drain(at..(at + size).min(fewer.len()));
            tries += 1;
            if run(plan, &fewer).is_err() {
                steps = fewer;
            } else {
                at += size;
            }
        }
        size /= 2;
    }
    std::panic::set_hook(hook);
    steps
}
