//! What all threads of the engine share.

use std::ffi::OsString;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{
    AtomicBool, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Arc, OnceLock};

use neap_control::Name;
use neap_policy::{Effect, Illegal};
use neap_record::{Recorded, Recorder};
use neap_store::Store;
use neap_sys::{
    Clock, Features, Keeper, Lock, Locked, MachineClock, Process, Root, SysError, Wake, Waker,
};
use neap_tuning::{Share, TUNING};
use neap_units::{Bytes, PAGE_SIZE, PageNr, SpaceId};

use crate::attend::Attendance;
use crate::bell::{Bell, Flags};
use crate::control::{Kind, Log};
use crate::fault::{Watch, start_fault_thread};
use crate::group::{Group, Groups};
use crate::history::History;
use crate::idle::Idle;
use crate::load::{Desks, Errands};
use crate::meter::Meter;
use crate::options::{Options, Swap};
use crate::report::{ProcessReport, Roll, SamplerReport};
use crate::room::Room;
use crate::roster::{Rosters, Spaces};
use crate::space::{Children, Space};
use crate::spares::Spares;
use crate::talk::Talks;
use crate::unannounced::Departed;
use crate::warnings::Warnings;
use crate::writeback::RELIEF;

const SIGKILL: i32 = 9;

/// How somebody is found who serves a space.
pub(crate) type Serve = fn(&Arc<Job>, &Arc<Space>) -> io::Result<()>;

/// One job: one limit, one pool, any number of address spaces.
pub(crate) struct Job {
    pub options: Options,
    /// Time, by which the flow of pages waits and judges.
    pub clock: Box<dyn Clock>,
    /// Has somebody serve a space's faults and events from now on.
    pub serve: Serve,
    pub features: Features,
    core: Lock<Recorded, 5>,
    /// What records whoever decides beside the core.
    pub recorder: Recorder,
    pub store: Store,
    pub spaces: Rosters,
    /// Numbers of spaces that have ended, and that no other has yet.
    pub retired: Lock<Vec<SpaceId>, 7>,
    /// What children of forks are to have that the kernel does not announce.
    pub unborn: Children,
    pub departed: Departed,
    /// That of the top group: what the limit is for.
    pub meter: Arc<Meter>,
    pub groups: Groups,
    /// Who waits until the meter allows more.
    pub room: Room,
    /// Keeps woken threads on the cpu of whoever wakes them.
    pub keeper: Keeper,
    /// There are two cpus, and the one that no fault is served on works for reclaim: a thread that is woken finds
    /// none that is idle, and stays where it is.
    pub crowded: AtomicBool,
    pub flags: Flags,
    /// Looks after fault threads that run behind the program's.
    pub watch: Watch,
    /// Wakes reclaim.
    pub reclaim: Bell,
    /// Wakes one of those who compress.
    pub compress: Bell,
    /// Wakes the shrinker.
    pub shrink: Bell,
    /// Lowest reclaim priority since the shrinker last looked (the kernel's 12 to 0).
    pub priority: AtomicU64,
    /// The shrinker is at work.
    pub writing: AtomicBool,
    /// Wakes the sampler, and who stands in for it.
    pub sampler: Bell,
    pub deputy: Bell,
    /// Wakes the listening thread.
    pub bell: Waker,
    pub spares: Spares,
    pub attendance: Attendance,
    pub talks: Talks,
    pub stopping: AtomicBool,
    /// A process has spoken to the engine.
    pub met: AtomicBool,
    /// Processes whose connection is open and not yet an agent's.
    pub conversations: AtomicUsize,
    pub desks: Desks,
    /// What takes long of what programs say of their memory.
    pub errands: Errands,
    /// How punctual the sampler is, as it noted last.
    pub sampling: Lock<SamplerReport, 7>,
    /// Longest that the first look for a program's memory took, in microseconds.
    pub longest_look: AtomicU64,
    /// Nobody else knows it.
    key: RandomState,
    pub warnings: Arc<Warnings>,
    /// Where programs call the engine.
    pub doors: OnceLock<Doors>,
    /// What the job is called, once it has a place among others.
    pub called: OnceLock<Name>,
    /// What happens, for those who follow it.
    pub log: Log,
    /// The run over time.
    pub history: History,
    /// Memory leaves processes that do nothing, or does not.
    pub idle: Idle,
    /// Most of the limit that the pool may take, in percent.
    pub pool_percent: AtomicU64,
    /// When the engine started, in nanoseconds.
    pub started: u64,
    pub processes: Lock<Roll, 4>,
    /// Processes that were killed for a lost page, which nobody was told of yet.
    obituaries: AtomicUsize,
}

/// The paths by which programs call the engine, the second of which says that a program which cannot be managed is not to begin;
/// and what they are handed there to make a userfaultfd with, if that may be opened.
#[derive(Debug)]
pub(crate) struct Doors {
    pub usual: PathBuf,
    pub required: PathBuf,
    pub device: Option<OwnedFd>,
}

impl Job {
    pub fn new(
        options: Options,
        features: Features,
        store: Store,
        bell: Waker,
        spares: Spares,
        attendance: Attendance,
    ) -> Self {
        let meter = Arc::new(Meter::of(&options));
        let (core, root) = (Recorded::new(), (!options.serves).then(Root::own));
        Self {
            groups: Groups::new(Group::top(root, options.require, meter.clone())),
            meter,
            keeper: Keeper::new(),
            crowded: AtomicBool::new(false),
            flags: Flags::default(),
            watch: Watch::default(),
            pool_percent: AtomicU64::new(options.pool_percent.into()),
            options,
            clock: Box::new(MachineClock),
            serve: start_fault_thread,
            features,
            room: Room::default(),
            store: store.recorded(core.recorder()),
            recorder: core.recorder().clone(),
            core: Lock::new(core),
            spaces: Rosters::default(),
            unborn: Children::default(),
            departed: Departed::default(),
            retired: Lock::default(),
            reclaim: Bell::default(),
            compress: Bell::default(),
            shrink: Bell::default(),
            priority: AtomicU64::new(u64::MAX),
            writing: AtomicBool::new(false),
            sampler: Bell::default(),
            deputy: Bell::default(),
            bell,
            spares,
            attendance,
            talks: Talks::default(),
            stopping: AtomicBool::new(false),
            met: AtomicBool::new(false),
            conversations: AtomicUsize::new(0),
            sampling: Lock::default(),
            longest_look: AtomicU64::new(0),
            desks: Desks::default(),
            errands: Errands::default(),
            key: RandomState::new(),
            warnings: Arc::default(),
            doors: OnceLock::new(),
            called: OnceLock::new(),
            log: Log::default(),
            history: History::default(),
            idle: Idle::default(),
            started: neap_sys::monotonic_nanos(),
            processes: Lock::default(),
            obituaries: AtomicUsize::new(0),
        }
    }

    /// The policy core, with its recorder. Held for table work only, never across a system call.
    pub fn core(&self) -> Locked<'_, Recorded, 5> {
        self.core.lock()
    }

    /// All spaces, as they are now.
    pub fn spaces(&self) -> Spaces {
        self.spaces.all()
    }

    /// The spaces of a group and of those below it, as they are now.
    pub fn spaces_of(&self, group: &Group) -> Spaces {
        self.spaces.of(group)
    }

    pub fn space_by_cookie(&self, cookie: u64) -> Option<Arc<Space>> {
        self.spaces.find(|space| space.cookie == cookie)
    }

    /// What the engine proves itself with to whoever names a space by its number: nobody else can tell.
    pub fn proof(&self, number: u64) -> u64 {
        self.key.hash_one(number)
    }

    /// Where programs call, of a job that may or may not run unmanaged.
    pub fn door(&self, required: bool) -> Option<&Path> {
        let doors = self.doors.get()?;
        Some(if required {
            &doors.required
        } else {
            &doors.usual
        })
    }

    /// What programs make userfaultfds with, if not by system call.
    pub fn device(&self) -> Option<&OwnedFd> {
        self.doors.get()?.device.as_ref()
    }

    /// What programs need in their environment: where they call, and who is there.
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        let door = self.door(self.options.require);
        let name = door.and(self.called.get()).map(|name| name.as_str());
        let door = door.map(|door| (neap_wire::SOCKET_ENV.into(), door.into()));
        let name = name.map(|name| (neap_wire::JOB_ENV.into(), name.into()));
        door.into_iter().chain(name).collect()
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Relaxed)
    }

    /// Gives back what a transition freed.
    pub fn release(&self, space: &Space, effect: Effect) {
        if let Some(entry) = effect.freed_entry {
            self.store.put(entry);
        }
        if let (Some(slot), Some(body)) = (effect.freed_slot, space.body.get()) {
            body.stage.release(slot);
        }
    }

    /// Whether loaded pages leave their compressed copy in the pool.
    pub fn keeps_copies(&self, below: Share) -> bool {
        below.is_more_than(self.store.pool_bytes().0, self.meter.limit().0)
    }

    /// A transition that the engine knows to be legal. An illegal one is a bug that could cost
    /// bytes, so the engine stops; the agents then end the programs rather than let them go on.
    #[track_caller]
    pub fn must(&self, result: Result<Effect, Illegal>) -> Effect {
        match result {
            Ok(effect) => effect,
            Err(illegal) => panic!("page state: {illegal}"),
        }
    }

    /// A page cannot be brought back: the program dies and is told why. It never reads other bytes. False: its address space
    /// is changing, and it must be asked for again.
    pub fn lose(&self, space: &Space, page: PageNr, why: &str) -> bool {
        let Some(body) = space.body.get() else {
            return self.lose_of_nameless(space, page, why);
        };
        let address = page.addr();
        let range = address..address + PAGE_SIZE as u64;
        // The end of the job waits until it is told.
        self.obituaries.fetch_add(1, Release);
        // Whoever touches the page gets no other bytes, whatever process that is (Linux 6.6).
        let _ = space.uffd.poison(range.clone(), Wake::Later);
        // Who runs another program by now has not lost anything.
        if body.token.is_in(&body.process) != Some(false) {
            let _ = body.process.signal(SIGKILL);
        }
        let _ = space.uffd.wake(range);
        if !body.lost.swap(true, Relaxed) {
            self.warn(format!(
                "process {}: the page at {address:#x} is lost ({why}); the process is killed rather than let it read wrong bytes",
                body.pid
            ));
        }
        self.obituaries.fetch_sub(1, Release);
        true
    }

    /// Ends a process that nothing can be brought back to. `line`: what is said of it, if it was ended or if it was not.
    pub fn end_copy(&self, process: &Process, line: impl FnOnce(bool) -> String) {
        self.obituaries.fetch_add(1, Release); // as above
        let ended = process.signal(SIGKILL).is_ok();
        self.warn(line(ended));
        self.obituaries.fetch_sub(1, Release);
    }

    /// The same of a forked child that gave no name: whoever touches the page gets SIGBUS, or an error of its call. Where the
    /// kernel cannot do that (before Linux 6.6) everything in the job goes with it.
    fn lose_of_nameless(&self, space: &Space, page: PageNr, why: &str) -> bool {
        let range = page.addr()..page.addr() + PAGE_SIZE as u64;
        match space.uffd.poison(range.clone(), Wake::Now) {
            Ok(()) => self.warn(format!(
                "a forked process lost memory ({why}); it gets SIGBUS where it touches that, rather than wrong bytes"
            )),
            Err(error) if error.passes() => return false,
            Err(error) if error.is_unknown_flag() => self.lose_all(why),
            // Its memory is gone, or the page there is not ours any more: the thread finds out itself.
            Err(_) => _ = space.uffd.wake(range),
        }
        true
    }

    /// Waits, but not for ever, until it was told why processes were killed: their end may be that of the job.
    pub fn tell_of_the_dead(&self) {
        let until = neap_sys::monotonic_nanos() + TUNING.report.obituary.0;
        while self.obituaries.load(Acquire) > 0 && neap_sys::monotonic_nanos() < until {
            std::thread::sleep(TUNING.talk.pause.duration());
        }
    }

    /// Memory is lost of a process that has no name here: the whole job is killed.
    pub fn lose_all(&self, why: &str) {
        self.warn(format!(
            "a process lost memory ({why}); the job is killed rather than let it read wrong bytes"
        ));
        for space in self.spaces().iter() {
            if let Some(body) = space.body.get() {
                let _ = body.process.signal(SIGKILL);
            }
        }
        // Forked children without a name are in no list but their parent's: end the job here, and
        // whoever waits for a page of ours keeps waiting until neap, as its subreaper, is gone.
        self.groups.kill(self.groups.top());
    }

    /// Memory may have become free: calls those who wait for it.
    pub fn offer_room(&self) {
        let room = self.meter.room();
        if room >= TUNING.loads.window_usual.bytes().0 {
            let shares = room / TUNING.loads.window_usual.bytes().0;
            self.room
                .call(usize::try_from(shares).unwrap_or(usize::MAX));
        }
    }

    /// Wants write-back at this priority or a more urgent one (12 is gentle, 0 desperate). What a pool beside the limit
    /// holds frees nothing when it is written, until the pool is full.
    pub fn ask_shrinker(&self, priority: u64) {
        let beside = self.options.pool_beside && !self.groups.top().freeze.writes();
        // A job that is being frozen keeps its pool, but for what does not compress.
        let kept = self.groups.empties() && priority <= u64::from(neap_policy::DEF_PRIORITY);
        let relief = priority == RELIEF;
        if (beside || kept) && !relief && !self.store.waits_for_disk() {
            return;
        }
        self.priority.fetch_min(priority, Relaxed);
        self.shrink.ring();
    }

    /// Whether pages of a group may leave its programs now: its account in the store has room, or is given some soon.
    pub fn lets_out(&self, group: &Group) -> bool {
        let account = &group.account;
        if account.excess() > Bytes(0) && account.writes() && self.store.can_write() {
            self.ask_shrinker(RELIEF);
        }
        self.store.lets_in(account)
    }

    /// Whether pages may be on their way to the swap file.
    pub fn is_writing(&self) -> bool {
        // In this order: the writer says that it is at work before it takes the wish.
        let wanted = self.priority.load(Acquire) != u64::MAX || self.writing.load(Relaxed);
        wanted && !matches!(self.options.swap, Swap::Off) && self.store.writeback()
    }

    /// A process was met.
    pub fn note_process(&self, group: &Group, process: ProcessReport) {
        group.attached.fetch_add(1, Relaxed);
        self.processes.lock().add(process);
    }

    /// Says why a process is not managed, and which limit to raise if that is why.
    pub fn stays_unmanaged(&self, error: &SysError) {
        self.tell_of(Kind::Unmanaged, Self::unmanaged(error));
    }

    /// Says why a process is not managed. It is in no figure either.
    pub fn keeps_out(&self, why: &str) {
        self.tell_of(Kind::Unmanaged, Self::kept_out(why));
    }

    /// Why a process is not managed, and which limit to raise if that is why.
    pub fn unmanaged(error: &SysError) -> String {
        let advice = error.shortage().map(|advice| format!("; {advice}"));
        Self::kept_out(&format!("{error}{}", advice.unwrap_or_default()))
    }

    /// Why a process is not managed.
    pub fn kept_out(why: &str) -> String {
        format!(
            "a process stays unmanaged: {why}; it runs without a limit, and what it takes is not counted"
        )
    }

    /// One line on stderr, once for each text, and kept for the report. Nobody waits until it is written.
    pub fn warn(&self, text: String) {
        self.tell_of(Kind::Warning, text);
    }

    /// The same of a kind of its own.
    pub fn tell_of(&self, kind: Kind, text: String) {
        self.tell_group(self.groups.top(), kind, text);
    }

    /// The same about a group.
    pub fn tell_group(&self, group: &Group, kind: Kind, mut text: String) {
        if text.len() > TUNING.report.letters {
            text = text.chars().take(TUNING.report.letters).collect();
        }
        // The client of a job of a service is told whatever the service has said before.
        let is_new = self.warnings.add(text.clone(), TUNING.report.warnings);
        if is_new || group.parent.is_some() {
            self.log.note_of(self, group, kind, text);
        }
    }

    /// The sampler has looked at a group; `full`: faults have to wait now.
    pub fn look_at_limit(self: &Arc<Self>, group: &Arc<Group>, full: bool) {
        self.look_at_excess(group);
        self.log.look(self, group, full);
    }

    /// Waits, but not for ever, until all warnings are written.
    pub fn tell_all(&self) {
        self.warnings.flush(TUNING.report.obituary.duration());
    }
}
