//! Children that nobody announces: their program made them by an instruction of its own (Go, assembler), and the kernel
//! tells of forks only those who have CAP_SYS_PTRACE.
//!
//! Such a child has what its parent had in memory, and reads zeros for what was out. It is looked for now and then, and ended.
//! Time proves nothing: a child of the library's that is stopped at its birth may be silent for long. The proof is in the
//! child's own copy of what the library keeps ([`wire::Imprint`]), and in how its parent's pages were by then:
//!
//! * It names a space, with the proof that nobody guesses: the memory is that space's, or a copy. No program has it after an exec.
//! * The bytes that are in the space alone are not there ([`Token`](crate::proof::Token)): it is a copy, and no child of vfork.
//! * The library was making no child at that moment. A child of its own has another imprint before it says that it makes none.
//! * A page was out at that moment: after the command by which one left last, there was always one.

use std::collections::{HashSet, VecDeque};
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytemuck::{Zeroable, bytes_of_mut};
use neap_sys::{Features, Lock, Pidfd, Process, Program};
use neap_tuning::TUNING;
use neap_wire as wire;

use crate::job::Job;
use crate::proof::Token;
use crate::space::Space;
use crate::spawn::try_spawn;

const REMEDY: &str =
    "run neap as root or with CAP_SYS_PTRACE, so that the kernel announces such children";

pub(crate) struct Unannounced(Arc<Lock<Looks, 1>>);

/// A space that a process may have a copy of.
#[derive(Clone)]
pub(crate) struct Origin {
    cookie: u64,
    pid: i32,
    imprint: u64,
    program: Option<Program>,
    token: Token,
    away_since: u32,
}

impl Origin {
    /// `None`: no page of it was ever out, or it is among the departed by now.
    fn of_living(job: &Job, space: &Space) -> Option<Self> {
        // Its number in the table is another's once it has departed.
        let _gate = space.gate.read();
        let departed = space.away_since.load(Relaxed) == u32::MAX;
        (!departed).then(|| Self::of(job, space)).flatten()
    }

    /// The same of one that is in the table.
    fn of(job: &Job, space: &Space) -> Option<Self> {
        let body = space.body.get().filter(|body| body.imprint != 0)?;
        space.told.load(Relaxed).then(|| {
            space.note_if_home(&job.core());
            Self {
                cookie: space.cookie,
                pid: space.pid.load(Relaxed),
                imprint: body.imprint,
                program: body.program,
                token: body.token.clone(),
                away_since: space.away_since.load(Relaxed),
            }
        })
    }
}

/// Spaces that are gone, whose copies may not be.
#[derive(Default)]
pub(crate) struct Departed {
    last: Lock<VecDeque<Origin>, 7>,
    /// How many there were so far.
    count: AtomicU64,
}

impl Departed {
    /// Takes note of one whose pages are about to be forgotten. The caller holds its gate.
    pub fn note(&self, job: &Job, space: &Space) {
        if job.features.has(Features::FORK) {
            return;
        }
        if let Some(origin) = Origin::of(job, space) {
            let mut last = self.last.lock();
            last.truncate(TUNING.looks.departed - 1);
            last.push_front(origin);
            self.count.fetch_add(1, Relaxed);
        }
        space.away_since.store(u32::MAX, Relaxed);
    }

    fn all(&self) -> Vec<Origin> {
        self.last.lock().iter().cloned().collect()
    }
}

#[derive(Default)]
struct Looks {
    /// What the last look found. One that executes a program at once is left alone.
    suspects: HashSet<(i32, Found)>,
    told: HashSet<i32>,
    /// The newest process or thread when all were looked at, if that is known, and how many had departed. A process that was innocent
    /// then stays so, whatever its parent does. `None`: some were not looked at.
    seen: Option<(u32, u64)>,
    /// When all may be looked at again, in nanoseconds.
    all: u64,
    next: u64,
}

/// What may be wrong with a process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Found {
    /// It has a copy of the memory of this process, and lacks what was out.
    Copy(i32),
    /// It is a child of this process and runs the same program as far as can be seen, and we may not look at its memory.
    Hidden(i32),
}

impl Unannounced {
    pub fn new() -> Self {
        Self(Arc::default())
    }

    /// How long nobody needs to look.
    pub fn pause(job: &Job) -> u64 {
        match Self::may_be(job) {
            true => TUNING.looks.copies.0,
            false => u64::MAX,
        }
    }

    /// Whether there may be any.
    fn may_be(job: &Job) -> bool {
        let depends = |space: &Arc<Space>| space.told.load(Relaxed);
        let were = || job.departed.count.load(Relaxed) > 0;
        !job.features.has(Features::FORK) && (job.spaces().iter().any(depends) || were())
    }

    /// What changes once somebody may have come that was not looked at.
    fn newest(job: &Job) -> Option<(u32, u64)> {
        Some((neap_sys::newest_task()?, job.departed.count.load(Relaxed)))
    }

    /// Has them looked for, if it is time and there is something new, by a thread that nobody waits for.
    pub fn look(&self, job: &Arc<Job>) {
        if !Self::may_be(job) {
            return;
        }
        let Some(mut looks) = self.0.try_lock().filter(|looks| looks.is_due()) else {
            return;
        };
        let newest = Self::newest(job);
        let has_new = newest.is_none() || newest != looks.seen;
        let at_all = has_new && neap_sys::monotonic_nanos() >= looks.all;
        if at_all || !looks.suspects.is_empty() {
            drop(looks);
            let (looks, job) = (self.0.clone(), job.clone());
            let _ = try_spawn("neap-copies", move || {
                neap_sys::block_signals();
                neap_sys::lower_to_ordinary(); // out of what the listener is
                looks.lock().look(&job, at_all);
            });
        } else {
            looks.next = neap_sys::monotonic_nanos() + TUNING.looks.copies.0; // the listener wakes more often
        }
    }
}

impl Looks {
    fn is_due(&self) -> bool {
        neap_sys::monotonic_nanos() >= self.next
    }

    /// Looks at all, or at those that the last look suspected.
    fn look(&mut self, job: &Job, at_all: bool) {
        if !self.is_due() {
            return;
        }
        let before = neap_sys::thread_nanos();
        let spaces = job.spaces();
        let candidates = match at_all {
            true => {
                self.seen = Unannounced::newest(job); // first: who comes later is looked at later
                self.unmet(job, &spaces)
            }
            false => self.suspects.iter().map(|(pid, _)| *pid).collect(),
        };
        // As they are now: of whom was suspected before, each was made before.
        let origins = spaces
            .iter()
            .filter_map(|space| Origin::of_living(job, space));
        let origins: Vec<_> = origins.chain(job.departed.all()).collect();
        let mut found = HashSet::new();
        for pid in candidates {
            found.extend(self.look_at(job, &origins, pid));
        }
        self.suspects = found;
        let now = neap_sys::monotonic_nanos();
        if at_all {
            let took = neap_sys::thread_nanos() - before;
            self.all = now + took * TUNING.looks.copies_rest;
        }
        self.next = now + TUNING.looks.copies.0;
    }

    /// The processes of the job that have not been met, and that nothing was said of.
    fn unmet(&mut self, job: &Job, spaces: &[Arc<Space>]) -> Vec<i32> {
        let agents = spaces
            .iter()
            .filter_map(|space| space.body.get()?.agent.task());
        let met = spaces.iter().map(|space| space.pid.load(Relaxed));
        let met: HashSet<i32> = met.chain(agents.map(|task| task.process().pid())).collect();
        let mut others = job.groups.descendants();
        self.told.retain(|pid| others.contains(pid));
        others.retain(|pid| !met.contains(pid) && !self.told.contains(pid));
        others
    }

    /// What is suspected of a process. One of which that was found before as well is dealt with.
    fn look_at(&mut self, job: &Job, origins: &[Origin], pid: i32) -> Option<(i32, Found)> {
        let opened = Pidfd::open(pid).ok().and_then(|pidfd| {
            let process = Process::open(pid, &pidfd).ok()?;
            Some((pidfd, process))
        });
        let Some((pidfd, process)) = opened else {
            self.seen = None; // it has ended, or no descriptor is left
            return None;
        };
        job.groups.of(pid, &pidfd)?; // the number may have come to mean another since the list was made
        let found = (pid, judge(job, origins, &process)?);
        if self.suspects.contains(&found) {
            self.told.insert(pid);
            deal_with(job, &process, found.1);
            return None;
        }
        Some(found)
    }
}

fn judge(job: &Job, origins: &[Origin], process: &Process) -> Option<Found> {
    // By one file of one address space, whatever the process executes meanwhile.
    let memory = match process.memory() {
        Ok(memory) => memory,
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            return hidden(origins, process);
        }
        Err(_) => return None, // it has ended
    };
    // A copy runs the same program: whoever says where its imprint is cannot have another's bytes taken for one.
    let program = process.program();
    let mut copied = origins
        .iter()
        .filter(|origin| origin.program == program && origin.has_lost(job, &memory));
    copied.next().map(|origin| Found::Copy(origin.pid))
}

impl Origin {
    /// Whether this memory is a copy of the space's and lacks what was out.
    fn has_lost(&self, job: &Job, memory: &File) -> bool {
        let imprint = || {
            let mut imprint = wire::Imprint::zeroed();
            let read = memory.read_exact_at(bytes_of_mut(&mut imprint), self.imprint);
            read.is_ok().then_some(imprint)
        };
        // Twice: a child of the library's names its own space before it says that it makes no child.
        let (Some(first), Some(then)) = (imprint(), imprint()) else {
            return false;
        };
        let named = (then.space.number, then.space.proof);
        first.standing == wire::ARMED
            && named == (self.cookie, job.proof(self.cookie))
            && then.left >= self.away_since
            && !self.token.is_behind(memory)
    }
}

/// Whether a process whose memory we may not read may be a copy: its parent depends on neap, and it is called like that. A program that is
/// executed has a name of its own.
fn hidden(origins: &[Origin], process: &Process) -> Option<Found> {
    let parent = process.parent()?;
    origins.iter().find(|origin| origin.pid == parent)?;
    let name = neap_sys::comm(process.pid())?;
    (neap_sys::comm(parent)? == name).then_some(Found::Hidden(parent))
}

/// Ends it, if that is known to be right.
fn deal_with(job: &Job, process: &Process, found: Found) {
    let pid = process.pid();
    let name = neap_sys::comm(pid).unwrap_or_default();
    let name = name.replace(char::is_control, "?");
    match found {
        Found::Copy(parent) => job.end_copy(process, |ended| {
            let fate = match ended {
                true => "is killed rather than let it read zeros",
                false => "reads zeros there, and may not be killed",
            };
            format!(
                "process {pid} ({name}) was made by an instruction of its program's own and lacks what process {parent} had out then; it {fate}; {REMEDY}"
            )
        }),
        Found::Hidden(parent) => job.warn(format!(
            "process {pid} ({name}), a child of {parent}, cannot be looked at (another user's, or not dumpable); if it was made by an instruction of its own program, it may read zeros; {REMEDY}"
        )),
    }
}
