//! A job on an imagined machine, with one program.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use neap_imagined::{Act, Machine, Odds, Prot, Ran, SpaceNr, ThreadNr};
use neap_store::{BlockFile, CompressorKind, Config, HashKey, MemFile, NoFile, Store, VecArena};
use neap_sys::{Features, Mode, Pidfd, Process, Waker};
use neap_tuning::TUNING;
use neap_units::{Bytes, PAGE_SIZE, Pages};

use super::{PlayJob, Time};
use crate::agent::Agent;
use crate::attend::Attendance;
use crate::job::Job;
use crate::options::Options;
use crate::proof::Token;
use crate::space::{Advance, Body, Ranges, Space, Stage};
use crate::spares::Spares;
use crate::warnings::Warnings;

/// Where the program has its memory, its staging area, and the page below its agent's stack.
pub(super) const BASE: u64 = 0x10_0000_0000;
const STAGE: u64 = 0x7000_0000_0000;
const GUARD: u64 = 0x7100_0000_0000;
/// The program has one thread.
pub(super) const THREAD: ThreadNr = ThreadNr(0);
const PAGE: u64 = PAGE_SIZE as u64;
/// Room of the pool's memory beyond what it may hold: it is handed out in whole runs of pages.
const SPARE: Pages = Pages(512);

fn store(setup: &PlayJob, pages: Pages) -> Store {
    let pool = setup.pool_max().whole_pages();
    let file: Box<dyn BlockFile> = match setup.swap {
        Bytes(0) => Box::new(NoFile),
        _ => Box::new(MemFile::new()),
    };
    let config = Config {
        compressor: CompressorKind::Lz4,
        pool_max: pool,
        pool_room: pool,
        accept_threshold_percent: TUNING.pool.accept.as_percent() as u8,
        swap_size: setup.swap,
        ..Config::default()
    };
    // There is never more in it than all pages as they are.
    let most = pool.min(pages).bytes().0;
    let room = most + TUNING.pool.fragments.of(most) + SPARE.bytes().0;
    let arena = VecArena::new((room as usize).min(neap_store::ADDRESSABLE));
    let store = Store::new(
        config,
        Box::new(arena),
        file,
        HashKey::new(&[7; HashKey::BYTES]),
    );
    store.set_writeback(true);
    store
}

/// The job, which `neap run -m` would have for a program of so many pages.
pub(super) fn job(setup: &PlayJob, pages: Pages, time: &Time) -> io::Result<Arc<Job>> {
    let options = Options::imagined(setup.limit, setup.swap, setup.pool_max());
    let features = Features::LAYOUT.with(Features::WP).with(Features::MOVE);
    let features = features.with(Features::FORK);
    let (bell, spares, attendance) = (Waker::new(), Spares::new(), Attendance::new());
    let bell = bell.map_err(io::Error::other)?;
    let spares = spares.map_err(io::Error::other)?;
    let attendance = attendance.map_err(io::Error::other)?;
    let store = store(setup, pages);
    let mut job = Job::new(options, features, store, bell, spares, attendance);
    job.clock = Box::new(time.clone());
    job.serve = |_, _| Ok(()); // it never forks
    job.warnings = Arc::new(Warnings::unwritten());
    Ok(Arc::new(job))
}

/// The machine, with memory mapped for these pages of the program.
pub(super) fn machine(pages: &[std::ops::Range<u32>]) -> (Machine, SpaceNr) {
    let machine = Machine::new(1, Odds::default());
    let program = machine.start(1);
    for range in pages.iter().filter(|range| !range.is_empty()) {
        let place = address(range.start)..address(range.end);
        map(&machine, program, Act::Map(place, Prot::RW));
    }
    (machine, program)
}

/// Where a page of the program is.
pub(super) fn address(page: u32) -> u64 {
    BASE + u64::from(page) * PAGE
}

fn map(machine: &Machine, program: SpaceNr, act: Act) {
    machine.begin(program, THREAD, act);
    let ran = machine.run(program, THREAD);
    debug_assert_eq!(ran, Ran::Idle, "nothing is registered there");
}

/// The program as the engine has it, served and not looked at yet.
pub(super) fn space(job: &Arc<Job>, machine: &Machine, program: SpaceNr) -> io::Result<Arc<Space>> {
    let group = job.groups.top().clone();
    let uffd = Box::new(machine.uffd(program));
    let space = job.add_space(group, uffd, Ranges::default(), None);
    let stage = STAGE..STAGE + TUNING.agents.stage.0;
    map(machine, program, Act::Map(stage.clone(), Prot::RW));
    map(machine, program, Act::Map(GUARD..GUARD + PAGE, Prot::NONE));
    space
        .uffd
        .register(stage.clone(), Mode::Wp)
        .map_err(io::Error::other)?;
    let own = std::process::id().cast_signed();
    let body = Body {
        program: None,
        pid: 0,
        process: Arc::new(Process::of_nobody()?),
        same_pids: true,
        pidfd: Pidfd::open(own).map_err(io::Error::other)?,
        view: Box::new(machine.view(program)),
        token: Token::of_nobody(),
        stage: Stage::new(stage.start, stage.end - stage.start),
        agent: Agent::new(Box::new(machine.agent(program)), None, None),
        agent_guard: GUARD,
        notes: 0,
        imprint: 0,
        own: vec![stage, GUARD..GUARD + PAGE],
        left: AtomicBool::new(false),
        doubted: AtomicBool::new(false),
        lost: AtomicBool::new(false),
    };
    let _ = space.pid.compare_exchange(0, body.pid, Relaxed, Relaxed);
    assert!(space.body.set(body).is_ok(), "it is new");
    space.standing.step(Advance::Serve);
    Ok(space)
}
