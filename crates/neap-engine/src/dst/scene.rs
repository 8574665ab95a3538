//! The machine, the job, its programs, and the parts of the engine that take turns.

use std::cell::{Cell, RefCell};
use std::io;
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};

use neap_imagined::{
    Act, Call, Chance, ImaginedAgent, ImaginedUffd, Machine, PAGE, Prot, SpaceNr, ThreadNr,
};
use neap_store::{BlockFile, Codec, CompressorKind, Config, HashKey, NoFile, Store, VecArena};
use neap_sys::{Features, Mode, Pidfd, Process, Waker};
use neap_units::{Bytes, Pages};

use super::disk::Disk;
use super::hands::{self, Hands, Luck, Slot};
use super::passing::Passing;
use super::plan::Plan;
use super::turns::Turns;
use crate::agent::Agent;
use crate::attend::Attendance;
use crate::fault::FaultThread;
use crate::job::Job;
use crate::options::Options;
use crate::proof::Token;
use crate::reclaim::{Reclaimer, Work, Worker};
use crate::space::{Advance, BLOCK_BYTES, Body, Ranges, Space, Stage};
use crate::spares::Spares;
use crate::warnings::Warnings;

/// Where the staging area of each program is, and the page below the agent's stack.
const STAGE: u64 = 0x7000_0000_0000;
const STAGE_BYTES: u64 = 8 * BLOCK_BYTES;
const GUARD: u64 = 0x7100_0000_0000;

thread_local! {
    static SCENE: RefCell<Option<Rc<Scene>>> = const { RefCell::new(None) };
    /// Spaces that somebody is to serve.
    static BORN: RefCell<Born> = RefCell::default();
}

type Born = Arc<Mutex<Vec<Arc<Space>>>>;

/// A program, and what the engine has of it.
pub(super) struct Program {
    pub nr: SpaceNr,
    pub space: RefCell<Option<Arc<Space>>>,
    /// Taken by the thread in which it acts.
    pub faults: Slot<FaultThread>,
    pub agent: RefCell<Option<ImaginedAgent>>,
    /// The page that was read last.
    pub walk: Cell<u64>,
    /// Its one thread is in its library, which speaks to the engine.
    pub speaks: Cell<bool>,
    pub turns: RefCell<Turns>,
    /// Its fork that is under way.
    pub passing: RefCell<Option<Passing>>,
}

pub(super) struct Scene {
    pub machine: Machine,
    pub job: Arc<Job>,
    pub reclaimer: Slot<Reclaimer>,
    /// What stores beside reclaim.
    pub storer: Slot<Worker>,
    pub codec: Slot<Codec>,
    pub programs: RefCell<Vec<Rc<Program>>>,
    pub plan: Plan,
    luck: Luck,
    pub hands: Hands,
    /// What went wrong in a thread of the engine.
    pub failed: RefCell<Option<String>>,
    pub disk_erred: Arc<AtomicBool>,
    /// Calls within calls.
    depth: Cell<u32>,
    /// Turns of fault threads so far.
    turns: Cell<u32>,
    /// No program gets on within calls any more.
    pub quiet: Cell<bool>,
    /// What is done, in words, if somebody wants to know.
    pub words: RefCell<Option<Vec<String>>>,
}

/// Within a transfer of the swap file.
pub(super) fn at_io() {
    hook(Call::Sleep);
}

fn hook(_call: Call) {
    if hands::at_call() {
        return;
    }
    let scene = SCENE.with_borrow(Clone::clone);
    if let Some(scene) = scene {
        scene.within_a_call();
    }
}

/// Has this scene's programs get on within calls, from here on.
pub(super) fn set(scene: Option<Rc<Scene>>) {
    BORN.set(Born::default());
    neap_sys::turns::set_hook(scene.is_some().then_some(at_lock));
    SCENE.set(scene);
}

/// Where the one that drives a run would sleep, the threads get on.
fn at_lock(is_held: bool) {
    let scene = SCENE.with_borrow(Clone::clone).filter(|_| is_held);
    if let Some(scene) = scene {
        assert!(scene.go_on(), "a lock is held by nobody");
    }
}

fn serve(_job: &Arc<Job>, space: &Arc<Space>) -> io::Result<()> {
    let born = BORN.with_borrow(Clone::clone);
    born.lock().expect("those born").push(space.clone());
    Ok(())
}

/// A process that has ended and that nobody has waited for: of it nothing is known, and no signal reaches anybody.
fn nobody() -> (i32, Arc<Process>) {
    static NOBODY: OnceLock<(i32, Arc<Process>)> = OnceLock::new();
    let (pid, process) = NOBODY.get_or_init(|| {
        #[expect(clippy::zombie_processes, reason = "its number stays its own")]
        let mut child = Command::new("cat")
            .stdin(Stdio::piped())
            .spawn()
            .expect("cat");
        let pid = child.id().cast_signed();
        let pidfd = Pidfd::open(pid).expect("its descriptor");
        let process = Process::open(pid, &pidfd).expect("its folder");
        drop(child.stdin.take());
        neap_sys::wait_readable(&[std::os::fd::AsFd::as_fd(&pidfd)], None);
        (pid, Arc::new(process))
    });
    (*pid, process.clone())
}

fn store(plan: &Plan, disk_erred: &Arc<AtomicBool>) -> Store {
    let file: Box<dyn BlockFile> = match plan.swap {
        0 => Box::new(NoFile),
        _ => Box::new(Disk::new(plan.disk_errs, disk_erred.clone())),
    };
    let config = Config {
        compressor: CompressorKind::Lz4,
        pool_max: Pages(plan.pool),
        swap_size: Bytes(plan.swap),
        ..Config::default()
    };
    let arena = VecArena::new((plan.pool + 512) as usize * PAGE as usize);
    static KEY: OnceLock<Box<[u8; HashKey::BYTES]>> = OnceLock::new();
    let random = KEY.get_or_init(|| {
        let mut bytes = Box::new([0; HashKey::BYTES]);
        let mut chance = Chance::new(7);
        bytes.fill_with(|| chance.draw() as u8);
        bytes
    });
    Store::new(config, Box::new(arena), file, HashKey::new(random))
}

fn job(plan: &Plan, machine: &Machine, store: Store) -> Job {
    let (limit, pool_max) = (Pages(1 << 18).bytes(), Pages(plan.pool).bytes());
    let options = Options::imagined(limit, Bytes(plan.swap), pool_max);
    let features = Features::LAYOUT.with(Features::WP).with(Features::MOVE);
    let bell = Waker::new().expect("a bell");
    let spares = Spares::new().expect("descriptors");
    let attendance = Attendance::new().expect("an epoll");
    let features = features.with(Features::FORK);
    let mut job = Job::new(options, features, store, bell, spares, attendance);
    job.clock = Box::new(machine.clone());
    job.serve = serve;
    job.warnings = Arc::new(Warnings::unwritten());
    job
}

impl Scene {
    /// A job with one program, which is managed.
    pub fn new(plan: &Plan) -> Rc<Self> {
        let machine = Machine::new(1, neap_imagined::Odds::default());
        machine.set_hook(hook);
        let disk_erred = Arc::default();
        let job = Arc::new(job(plan, &machine, store(plan, &disk_erred)));
        let work = Arc::new(Work::new(job.clone()));
        let luck = Luck {
            chance: Arc::new(Mutex::new(Chance::new(0))),
            stops: Arc::new(AtomicU32::new(plan.within)),
        };
        let scene = Rc::new(Self {
            reclaimer: Slot::new(Some(Reclaimer::new(work.clone()))),
            storer: Slot::new(Some(Worker::new(work))),
            codec: Slot::new(Some(job.store.codec())),
            programs: RefCell::default(),
            plan: plan.clone(),
            hands: Hands::new(plan.hands, &luck),
            luck,
            failed: RefCell::default(),
            disk_erred,
            depth: Cell::new(0),
            turns: Cell::new(0),
            quiet: Cell::new(false),
            words: RefCell::default(),
            machine,
            job,
        });
        scene.start();
        scene
    }

    fn start(&self) {
        let nr = self.machine.start(self.plan.threads);
        let uffd = self.machine.uffd(nr);
        let job = &self.job;
        let space = job.add_space(
            job.groups.top().clone(),
            Box::new(uffd),
            Ranges::default(),
            None,
        );
        let program = self.meet(nr);
        *program.space.borrow_mut() = Some(space.clone());
        self.embody(&program, &space);
        program
            .faults
            .put(FaultThread::new(job.clone(), space.clone()));
        space.standing.step(Advance::Serve);
        space.standing.step(Advance::BeginLook);
        space.make_first_look(job);
        space.traits.forget(); // nothing is declared free yet
        space.catch_up(job, true);
    }

    /// The program of an address space.
    pub fn meet(&self, nr: SpaceNr) -> Rc<Program> {
        if let Some(known) = self.program(nr) {
            return known;
        }
        let program = Rc::new(Program {
            nr,
            space: RefCell::default(),
            faults: Slot::new(None),
            agent: RefCell::default(),
            walk: Cell::default(),
            speaks: Cell::default(),
            turns: RefCell::default(),
            passing: RefCell::default(),
        });
        self.programs.borrow_mut().push(program.clone());
        program
    }

    /// The program hands over what it has: its library has mapped a staging area and made an agent.
    fn embody(&self, program: &Program, space: &Arc<Space>) {
        let stage = STAGE..STAGE + STAGE_BYTES;
        for (range, prot) in [(stage.clone(), Prot::RW), (GUARD..GUARD + PAGE, Prot::NONE)] {
            self.machine
                .begin(program.nr, ThreadNr(0), Act::Map(range, prot));
            while self.machine.run(program.nr, ThreadNr(0)) != neap_imagined::Ran::Idle {
                self.serve(program);
            }
        }
        let agent = self.machine.agent(program.nr);
        *program.agent.borrow_mut() = Some(agent.clone());
        space
            .uffd
            .register(stage.clone(), Mode::Wp)
            .expect("a stage");
        let (pid, process) = nobody();
        space.pid.store(pid, Relaxed);
        let body = Body {
            program: None,
            pid,
            process,
            same_pids: true,
            pidfd: Pidfd::open(pid).expect("its descriptor"),
            view: Box::new(self.machine.view(program.nr)),
            token: Token::of_nobody(),
            stage: Stage::new(stage.start, stage.end - stage.start),
            agent: Agent::new(Box::new(agent), None, None),
            agent_guard: GUARD,
            notes: 0,
            imprint: 0,
            own: vec![stage, GUARD..GUARD + PAGE],
            left: AtomicBool::new(false),
            doubted: AtomicBool::new(false),
            lost: AtomicBool::new(false),
        };
        assert!(space.body.set(body).is_ok());
    }

    /// A forked child's library speaks to the engine.
    pub fn adopt(&self, program: &Program) {
        let space = program.space.borrow().clone();
        let first = ThreadNr(0);
        let runs = self.machine.threads(program.nr) > 0 && !self.forks(program, first);
        let idle = runs && self.machine.is_idle(program.nr, first) && !program.speaks.get();
        if let Some(space) =
            space.filter(|space| idle && space.body.get().is_none() && !space.is_dead())
        {
            program.speaks.set(true);
            if self.plan.attributes {
                space.forget_at_birth(&self.job, &self.machine.view(program.nr));
            }
            self.embody(program, &space);
            space.told.store(true, Relaxed);
            space.arm_agent(&self.job);
            program.speaks.set(false);
        }
    }

    /// Finds somebody who serves forked children.
    pub fn take_born(&self) {
        let born = BORN.with_borrow(Clone::clone);
        let born = std::mem::take(&mut *born.lock().expect("those born"));
        for space in born {
            let uffd: &dyn std::any::Any = &*space.uffd;
            let uffd = uffd
                .downcast_ref::<ImaginedUffd>()
                .expect("an imagined one");
            let program = self.meet(uffd.space());
            program
                .faults
                .put(FaultThread::new(self.job.clone(), space.clone()));
            *program.space.borrow_mut() = Some(space);
        }
    }

    fn program(&self, nr: SpaceNr) -> Option<Rc<Program>> {
        let programs = self.programs.borrow();
        programs.iter().find(|program| program.nr == nr).cloned()
    }

    /// One turn of the thread that serves a program, if it is not just at one.
    pub fn serve(&self, program: &Program) {
        let Some(mut thread) = program.faults.take() else {
            self.go_on(); // it may be in a turn
            return;
        };
        let space = program.space.borrow().clone();
        let slot = program.faults.share();
        let has_message = self.machine.has_message(program.nr);
        let holds_copies = self.holds_copies();
        self.has_done(move || {
            if space.as_ref().is_some_and(|space| space.is_dead()) {
                thread.end();
            } else {
                if let Some(space) = space.filter(|_| holds_copies) {
                    space.cow.want();
                }
                thread.hold_copies();
                thread.turn(has_message);
                slot.put(thread);
            }
        });
        self.take_born();
    }

    /// Whether what a fork shared is to be write-protected now: it is now and then.
    fn holds_copies(&self) -> bool {
        let turns = self.turns.replace(self.turns.get() + 1);
        !self.quiet.get() && turns.is_multiple_of(8)
    }

    /// A part of the engine does its work: here, or in a thread, as far as that gets.
    pub fn has_done(&self, work: impl FnOnce() + Send + 'static) {
        if self.quiet.get() || !self.hands.are_there() {
            return work();
        }
        while !self.hands.has_idle() {
            self.go_on();
        }
        let born = BORN.with_borrow(Clone::clone);
        let work = move || {
            BORN.set(born);
            work();
        };
        self.has_run(self.hands.begin(Box::new(work)));
    }

    /// Lets a thread of the engine go on. False: none is at work.
    pub fn go_on(&self) -> bool {
        match self.hands.go_on() {
            Some(done) => self.has_run(done),
            None => return false,
        }
        true
    }

    fn has_run(&self, done: Result<(), String>) {
        if let Err(failure) = done {
            self.failed.borrow_mut().get_or_insert(failure);
        }
    }

    /// Chance begins anew, from this seed.
    pub fn draw_from(&self, seed: u64) {
        self.machine.reseed(seed);
        *self.luck.chance.lock().expect("chance") = Chance::new(seed);
    }

    /// All threads of the engine get done, and from here on nobody gets on within a call.
    pub fn hush(&self) -> Result<(), String> {
        self.quiet.set(true);
        self.luck.stops.store(0, Relaxed);
        self.hands.finish()
    }

    /// The engine waits for the kernel's answer, or for the disk: others get on.
    fn within_a_call(&self) {
        if self.quiet.get() || self.depth.get() >= 2 {
            return;
        }
        // Where there are threads, the one that drives them is no part of the engine.
        let draw = |chance: &mut Chance| chance.happens(self.plan.within).then(|| chance.draw());
        let number = match self.hands.are_there() {
            true => None,
            false => draw(&mut self.luck.chance.lock().expect("chance")),
        };
        let Some(number) = number else { return };
        self.depth.set(self.depth.get() + 1);
        if neap_sys::holds_none() && number.is_multiple_of(4) {
            self.any_step(number >> 8);
        } else {
            self.program_step(number >> 8);
        }
        self.depth.set(self.depth.get() - 1);
    }

    pub fn note(&self, what: impl FnOnce() -> String) {
        if let Some(words) = &mut *self.words.borrow_mut() {
            words.push(format!(
                "{:indent$}{}",
                "",
                what(),
                indent = 2 * self.depth.get() as usize
            ));
        }
    }
}
