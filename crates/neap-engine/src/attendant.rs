//! Meeting processes: the handshake.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Relaxed},
};
use std::thread;

use bytemuck::{Zeroable, bytes_of};
use neap_sys::{Features, Message, Process, Uffd, Wake, shortage};
use neap_tuning::TUNING;
use neap_units::PAGE_SIZE;
use neap_wire as wire;
use neap_wire::{Offer, Request, lack};

use crate::agent::Agent;
use crate::attend::{Task, hear_of_agent};
use crate::fault::FaultThread;
use crate::job::Job;
use crate::listen::Caller;
use crate::proof::{Proven, prove};
use crate::report::ProcessReport;
use crate::space::{Advance, Body, Ranges, Space, Stage, Trait, Unborn};
use crate::spawn::{no_thread, try_spawn};

const FEW_DESCRIPTORS: &str =
    "not all of its descriptors came; raise `ulimit -n`, or mount /proc for it";
const UNTRUE: &str = "what it handed over is not of one address space, its own";
/// The first page of the stage holds what proves it (see [`prove`]).
const STAGE_GUARD: u64 = PAGE_SIZE as u64;

/// A process that asks to be managed.
pub(crate) enum Plea {
    /// It offers its address space.
    Attach {
        parent: u64,
        family: u64,
        wipes: bool,
    },
    /// A forked child, whose userfaultfd the kernel gave us, offers the rest. `keeps`: its parent may have memory that it has
    /// not.
    Adopt { space: Arc<Space>, keeps: bool },
    /// The same where the kernel announced nothing: it makes a userfaultfd of its own.
    Inherit,
}

impl Plea {
    /// `None`: it is not heard. A space is adopted once, by who knows its number.
    pub fn of(job: &Job, caller: &Caller, request: Request) -> Option<Self> {
        let spaces = job.spaces();
        match request {
            Request::Attach {
                parent,
                family,
                wipes,
            } => {
                let its = |space: &&Arc<Space>| space.pid.load(Relaxed) == caller.pid;
                let plea = Self::Attach {
                    parent,
                    family,
                    wipes,
                };
                (spaces.iter().filter(its).count() < TUNING.agents.spaces).then_some(plea)
            }
            Request::Adopt { keeps } => {
                let space = caller.space_within(job, caller.number)?;
                let first = !space.is_dead() && !space.claimed.swap(true, Relaxed);
                first.then_some(Self::Adopt { space, keeps })
            }
            Request::Inherit => caller.is_expected(job).then_some(Self::Inherit),
            _ => None,
        }
    }

    /// Whether the process makes a userfaultfd of its own.
    pub fn needs_device(&self) -> bool {
        !matches!(self, Self::Adopt { .. })
    }
}

/// How a forked child came by its space.
enum Adopted {
    /// The kernel gave it to us. `keeps`: its parent may have memory that it has not.
    Announced { keeps: bool },
    /// It was expected.
    Expected(Arc<Unborn>),
}

/// A process that was taken over, but for its agent.
pub(crate) struct Met {
    space: Arc<Space>,
    process: Arc<Process>,
    /// As many descriptors as it takes to know the agent: where they are wanting, this is said before the program runs.
    room: Vec<OwnedFd>,
    proven: Proven,
    offer: Offer,
    /// It is a forked child.
    adopted: bool,
}

/// What every process is told first.
pub(crate) fn words(job: &Job, number: u64) -> wire::Welcome {
    let mut welcome = wire::Welcome::zeroed();
    welcome.magic = wire::MAGIC;
    welcome.stage_bytes = TUNING.agents.stage.0;
    welcome.proof = job.proof(number);
    if !job.features.has(Features::FORK) {
        welcome.flags |= wire::WELCOME_THAW_AROUND_FORK | wire::WELCOME_FORK;
    }
    welcome
}

/// Tells the program that what it asked for is done.
pub(crate) fn acknowledge(job: &Job, caller: &Caller) {
    acknowledge_with(job, caller, 0);
}

/// The same, with `WELCOME_*` bits.
pub(crate) fn acknowledge_with(job: &Job, caller: &Caller, flags: u32) {
    let mut welcome = wire::Welcome::zeroed();
    (welcome.magic, welcome.flags) = (wire::MAGIC, flags);
    welcome.proof = job.proof(caller.number);
    let _ = caller.peer.send(bytes_of(&welcome), &[]);
}

/// What a process offers; of one that ends instead nothing is said.
fn offer(job: &Job, caller: &Caller) -> Option<(Offer, Message)> {
    let mut bytes = [0; size_of::<wire::Attach>()];
    let message = caller.peer.try_receive(&mut bytes).ok()?;
    let offer = wire::offer(&bytes[..message.len], TUNING.agents.stage.0).ok()?;
    if let Some(why) = lack(&offer) {
        if !is_guest(job, caller, &offer) {
            job.keeps_out(&why);
        }
        return None;
    }
    Some((offer, message))
}

/// Why a process gives up, if it does.
fn lack(offer: &Offer) -> Option<String> {
    match offer.lacks {
        lack::NOTHING => None,
        lack::ROOM => {
            Some("it has no room for its agent and its staging; raise its own `ulimit -v` or `ulimit -d`".into())
        }
        lack::PASSAGE => Some(
            "its descriptors could not be sent, too many are on their way; raise its own `ulimit -n`".into(),
        ),
        _ => {
            let error = io::Error::from_raw_os_error(offer.errno);
            let advice = shortage(&error).map(|advice| format!("; {advice}"));
            let advice = advice.unwrap_or_default();
            Some(format!("it could make no userfaultfd ({error}){advice}"))
        }
    }
}

/// Whether it speaks from within an emulator (qemu-user) that knows no userfaultfd(2), and that is managed itself.
fn is_guest(job: &Job, caller: &Caller, offer: &Offer) -> bool {
    let error = io::Error::from_raw_os_error(offer.errno).kind();
    let is_unknown = offer.lacks == lack::USERFAULTFD && error == io::ErrorKind::Unsupported;
    let attends = |space: &Arc<Space>| space.pid.load(Relaxed) == caller.pid;
    is_unknown && job.spaces().iter().any(attends)
}

/// Takes over what a process offers, and lets it go on.
pub(crate) fn take_over(job: &Arc<Job>, caller: &Caller, plea: Plea) -> Option<Met> {
    let (offer, message) = offer(job, caller)?;
    match plea {
        Plea::Attach {
            parent,
            family,
            wipes,
        } => {
            let space = attach(job, caller, message, family)?;
            if wipes {
                space.0.traits.note(Trait::Wipes);
            }
            if let Some(parent) = caller.space_within(job, parent) {
                space.0.kin.inherit_from(&parent);
                space.0.kin.end_inherits(); // it was not registered, so all of its mappings will be found
            }
            let met = admit(job, &space.0, caller, offer, space.1, None);
            if met.is_none() {
                job.end_space(&space.0);
            }
            met
        }
        // If this fails the child is still served, like one that never asked.
        Plea::Adopt { space, keeps } => {
            let adopted = Adopted::Announced { keeps };
            admit(job, &space, caller, offer, message, Some(adopted))
        }
        Plea::Inherit => inherit(job, caller, offer, message),
    }
}

/// A space for a process that hands over its userfaultfd, and what else it sent.
fn attach(
    job: &Arc<Job>,
    caller: &Caller,
    mut message: Message,
    family: u64,
) -> Option<(Arc<Space>, Message)> {
    // Its userfaultfd, and three files of its own.
    let uffd = take_uffd(job, &mut message)?;
    let space = job.add_space(
        caller.group.clone(),
        Box::new(uffd),
        Ranges::default(),
        (family != 0).then_some(family),
    );
    space.claimed.store(true, Relaxed);
    Some((space, message))
}

/// The userfaultfd that comes first of what a process hands over.
fn take_uffd(job: &Job, message: &mut Message) -> Option<Uffd> {
    if message.fds.len() < 4 {
        job.keeps_out(FEW_DESCRIPTORS);
        return None;
    }
    let uffd = message.fds.remove(0);
    if !neap_sys::is_userfaultfd(&uffd) {
        job.keeps_out(UNTRUE);
        return None;
    }
    let uffd = Uffd::adopt(uffd);
    if let Err(error) = uffd.handshake(job.features) {
        job.stays_unmanaged(&error);
        return None;
    }
    Some(uffd)
}

/// Takes over a forked child that was expected. If that fails it ends itself: what is out would read as zeros.
fn inherit(job: &Arc<Job>, caller: &Caller, offer: Offer, mut message: Message) -> Option<Met> {
    let unborn = job.unborn.take(caller.number)?;
    unborn.close(job);
    unborn.await_word(job);
    let Some(uffd) = take_uffd(job, &mut message) else {
        job.free_number(unborn.id);
        return None;
    };
    let (parent, name) = (&unborn.parent, (unborn.id, unborn.number));
    let family = Some(parent.kin.family());
    let space = job.add_named(
        name,
        parent.group.clone(),
        Box::new(uffd),
        Ranges::default(),
        family,
    );
    space.claimed.store(true, Relaxed);
    space.inherit_from(parent);
    let adopted = Adopted::Expected(unborn.clone());
    let met = admit(job, &space, caller, offer, message, Some(adopted));
    if met.is_none() {
        job.end_space(&space);
    }
    met
}

fn admit(
    job: &Arc<Job>,
    space: &Arc<Space>,
    caller: &Caller,
    offer: Offer,
    message: Message,
    adopted: Option<Adopted>,
) -> Option<Met> {
    let files = message
        .fds
        .try_into()
        .map_err(|_| job.keeps_out(FEW_DESCRIPTORS));
    let short = |error: io::Error| {
        if shortage(&error).is_some() {
            job.keeps_out(FEW_DESCRIPTORS); // else it has ended
        }
    };
    let process = Process::open(caller.pid, &caller.pidfd)
        .map_err(short)
        .ok()?;
    space
        .kin
        .begin(process.statm().map_err(short).ok()?.anon_resident());
    let copy = || caller.peer.as_fd().try_clone_to_owned();
    let copies = std::iter::repeat_with(copy).take(TUNING.agents.descriptors);
    let room = copies.collect::<io::Result<_>>().map_err(short).ok()?;
    caller.peer.note_senders(true).ok()?;
    let stage = offer.stage..offer.stage + TUNING.agents.stage.0;
    register_stage(job, space, caller, &stage)?;
    let page = stage.start..stage.start + PAGE_SIZE as u64;
    let Some(proven) = prove(&*space.uffd, &process, files.ok()?, &page) else {
        if caller.lives() {
            job.keeps_out(UNTRUE);
        }
        return None;
    };
    make_ready(job, space, &proven, adopted.as_ref())?;
    // Before the process may go on, and perhaps end, or ask for something, at once.
    space.pid.store(caller.pid, Relaxed);
    job.end_former(space);
    let announced = matches!(adopted, Some(Adopted::Announced { .. }));
    let_begin(job, space, caller, announced).or_else(|| {
        space.pid.store(0, Relaxed);
        None
    })?;
    Some(Met {
        space: space.clone(),
        process: Arc::new(process),
        room,
        proven,
        offer,
        adopted: adopted.is_some(),
    })
}

/// Prepares a space before its process goes on.
fn make_ready(
    job: &Arc<Job>,
    space: &Arc<Space>,
    proven: &Proven,
    adopted: Option<&Adopted>,
) -> Option<()> {
    match adopted {
        None if space.group.require => job.serve_early(space)?,
        Some(Adopted::Announced { keeps: true }) => space.forget_at_birth(job, &proven.files),
        Some(Adopted::Expected(unborn)) => {
            space.be_born(job, &proven.files, unborn)?;
            job.start_serving(space);
        }
        _ => {}
    }
    Some(())
}

/// Waits for the agent's first word, which comes at once unless somebody has stopped it. The process may have ended before,
/// and what it left behind is not waited for for ever.
fn await_word(caller: &Caller) {
    let either = [caller.peer.as_fd(), caller.pidfd.as_fd()];
    while neap_sys::wait_readable(&either, None) == 0 {}
    neap_sys::wait_readable(&either[..1], Some(TUNING.agents.handshake.0));
}

/// Hears how it is with the agent of a process that was met, which is attended from then on.
pub(crate) fn settle(job: &Arc<Job>, caller: Caller, mut met: Met) {
    let (space, adopted) = (met.space.clone(), met.adopted);
    await_word(&caller);
    met.room.clear();
    let task = hear_of_agent(job, &caller, &met.proven.token);
    // A forked child without an agent is looked after all the same: nothing of it leaves.
    if (task.is_some() || adopted) && embody(job, caller, met, task).is_some() {
        job.attendance.begin(&space);
    } else if adopted {
        space.pid.store(0, Relaxed);
    } else {
        job.end_space(&space);
    }
}

fn embody(job: &Job, caller: Caller, met: Met, task: Option<Task>) -> Option<()> {
    let Met {
        space,
        process,
        offer,
        proven,
        ..
    } = met;
    job.note_process(
        &space.group,
        ProcessReport::new(process.pid(), space.group.number),
    );
    let own = vec![
        offer.stage..offer.stage + TUNING.agents.stage.0,
        offer.agent.clone(),
        offer.cookie..offer.cookie + PAGE_SIZE as u64,
    ];
    let same_pids = process.shares_pids();
    let body = Body {
        program: process.program(),
        pid: process.pid(),
        same_pids,
        pidfd: caller.pidfd,
        view: Box::new(proven.files),
        token: proven.token,
        stage: Stage::new(
            offer.stage + STAGE_GUARD,
            TUNING.agents.stage.0 - STAGE_GUARD,
        ),
        agent: Agent::new(Box::new(caller.peer), same_pids.then_some(job.keeper), task),
        process,
        agent_guard: offer.agent.start,
        notes: offer.notes,
        imprint: offer.imprint,
        own,
        left: AtomicBool::new(false),
        doubted: AtomicBool::new(false),
        lost: AtomicBool::new(false),
    };
    space.cookie_page.store(offer.cookie, Relaxed);
    // A forked child depends on the engine from the start, and its agent was told so.
    space.told.store(met.adopted, Relaxed);
    space.body.set(body).ok()?;
    if met.adopted {
        space.arm_agent(job); // for its last words
        space.ring(); // copies may have to be held up, of which nothing was seen until now
    }
    let below = space
        .group
        .chain()
        .take_while(|group| group.number != crate::group::Group::TOP);
    if below
        .map(|group| &group.meter)
        .any(|meter| meter.is_bounded())
    {
        job.sampler.ring(); // the next look may be far off, and knew nothing of these bounds
    }
    Some(())
}

/// Lets the process go on. From here on it grows, and the sampler sees nothing of that until the calling thread is done:
/// where the process enters a call in which the kernel gives its cpu to nobody, that was 24 ms later for an ordinary thread.
fn let_begin(job: &Job, space: &Space, caller: &Caller, give_uffd: bool) -> Option<()> {
    let peer = &caller.peer;
    let mut ready = wire::Ready::zeroed();
    ready.magic = wire::MAGIC;
    ready.number = space.cookie;
    ready.proof = job.proof(space.cookie);
    ready.family = space.kin.family();
    let uffd = give_uffd.then(|| space.uffd.as_fd());
    let answered = peer
        .set_timeout(TUNING.agents.reply.as_millis())
        .and_then(|()| peer.send(bytes_of(&ready), uffd.as_slice()));
    answered.ok()
}

fn register_stage(job: &Job, space: &Space, caller: &Caller, stage: &Range<u64>) -> Option<()> {
    let registered = space.uffd.register(stage.clone(), neap_sys::Mode::Wp);
    if let Err(error) = &registered
        && caller.lives()
    {
        job.stays_unmanaged(error);
    }
    registered.ok()?;
    let first = stage.start + STAGE_GUARD;
    let _ = space
        .uffd
        .poison(first..first + PAGE_SIZE as u64, Wake::Now); // see `Stage`, which tries it again
    Some(())
}

impl Job {
    /// Waits until the conversations are over that were begun: with programs that have ended, at once.
    pub fn hear_out(&self) {
        let end = neap_sys::monotonic_nanos() + TUNING.agents.handshake.0;
        while self.conversations.load(Acquire) > 0 && neap_sys::monotonic_nanos() < end {
            thread::sleep(TUNING.agents.handshake_look.duration());
        }
    }

    /// Starts the thread that serves a space's faults and events. Once for each space.
    pub fn start_serving(self: &Arc<Self>, space: &Arc<Space>) {
        space.standing.step(Advance::Inherit);
        let started = (self.serve)(self, space);
        if let Err(error) = started {
            self.lose_all(&no_thread(&error));
        }
    }

    /// The same where no page is registered yet: without a thread it stays so.
    pub fn try_serving(self: &Arc<Self>, space: &Arc<Space>) -> bool {
        let serve = (self.clone(), space.clone());
        let work = move || FaultThread::new(serve.0, serve.1).run();
        self.is_served(space, try_spawn("neap-fault", work).map(drop))
    }

    /// The same of a process that must not begin without.
    fn serve_early(self: &Arc<Self>, space: &Arc<Space>) -> Option<()> {
        self.is_served(space, (self.serve)(self, space))
            .then_some(())
    }

    fn is_served(&self, space: &Space, started: io::Result<()>) -> bool {
        if let Err(error) = &started {
            self.keeps_out(&no_thread(error));
        } else {
            space.standing.step(Advance::Serve);
        }
        started.is_ok()
    }
}
