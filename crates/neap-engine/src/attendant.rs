//! Meeting processes: the listening thread, the handshake, and one thread for each agent's replies.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use bytemuck::{Zeroable, bytes_of, bytes_of_mut};
use neap_sys::{
    Features, Listener, Maps, Message, Pagemap, Peer, Pidfd, Remote, Statm, Uffd, shortage,
};
use neap_units::PAGE_SIZE;
use neap_wire as wire;
use neap_wire::{lack, purpose};

use crate::agent::{Agent, PATIENCE_MILLIS};
use crate::fault::FaultThread;
use crate::job::Job;
use crate::report::ProcessReport;
use crate::space::{Body, Ranges, Space, Stage};
use crate::spawn::{PAUSE, no_thread, spawn, try_spawn};
use crate::strays::{self, Strays};

/// A program that takes longer to say who it is is not waited for at the end, in milliseconds; nor by the listening
/// thread. Its own thread waits until it hangs up: it may be stopped.
const HANDSHAKE_MILLIS: u32 = 2000;
const FEW_DESCRIPTORS: &str =
    "not all of its descriptors came; raise `ulimit -n`, or mount /proc for it";
/// Staging area of each process, in bytes of address space: 64 MiB.
const STAGE_BYTES: u64 = 64 << 20;
/// Its first page holds nothing: see [`register_stage`].
const STAGE_GUARD: u64 = PAGE_SIZE as u64;

/// Accepts connections until the engine stops.
pub(crate) fn listen(job: &Arc<Job>, listener: &Listener, device: Option<OwnedFd>) {
    neap_sys::block_signals();
    // Those that it starts, too: a thread begins by changing the mappings of this process, and while one that does
    // so waits for a cpu, the sampler waits for it.
    neap_sys::raise_to_realtime();
    let device = Arc::new(device);
    let strays = Strays::new();
    while !job.is_stopping() {
        let callers = [listener.as_fd(), job.bell.as_fd()];
        let ready = neap_sys::wait_readable(&callers, Some(strays::EVERY));
        if job.is_stopping() || ready.is_err() {
            break;
        }
        strays.look(job);
        if ready.is_ok_and(|ready| ready == 0) {
            continue;
        }
        job.spares.keep();
        let mut accepted = listener.accept();
        job.met.store(true, Relaxed);
        if let Err(error) = &accepted {
            // No descriptor left, most likely: who is not answered waits for ever.
            job.warn(format!(
                "a process cannot be managed: {error}; raise `ulimit -n`"
            ));
            let accept = || listener.accept();
            accepted = job.spares.for_caller(accept).unwrap_or_else(|| {
                thread::sleep(PAUSE);
                accept()
            });
        }
        let Ok(peer) = accepted else {
            continue;
        };
        // A conversation waits for the program, which may be stopped; others do not wait for it.
        let waiting = Arc::new(Mutex::new(Some(peer)));
        let (shared, device, its) = (job.clone(), device.clone(), waiting.clone());
        let talk = Conversation::begin(job);
        let started = spawn("neap-greet", move || {
            let _until_the_end = talk;
            let peer = its.lock().expect("peer lock").take();
            if let Some(peer) = peer {
                greet(&shared, peer, device.as_ref().as_ref(), &Ok(()));
            }
        });
        // But who is not answered at all would go on as if it had been.
        let peer = waiting
            .lock()
            .expect("peer lock")
            .take_if(|_| started.is_err());
        if let Some(peer) = peer {
            greet(job, peer, None, &started);
        }
    }
}

/// Counts among those that [`Job::hear_out`] waits for.
struct Conversation(Arc<Job>);

impl Conversation {
    fn begin(job: &Arc<Job>) -> Self {
        job.conversations.fetch_add(1, Relaxed);
        Self(job.clone())
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        self.0.conversations.fetch_sub(1, Release);
    }
}

/// `thread`: whether there was a thread for it. Without, no process can be served that is not yet.
fn greet(job: &Arc<Job>, peer: Peer, device: Option<&OwnedFd>, thread: &io::Result<()>) {
    neap_sys::block_signals();
    let mut hello = wire::Hello::zeroed();
    let listens = thread.is_err();
    let patient = !listens || peer.set_timeout(HANDSHAKE_MILLIS).is_ok();
    if !patient || receive(&peer, &mut hello).is_none() {
        if let Err(error) = thread {
            job.keeps_out(&no_thread(error));
        }
        return; // else it has ended
    }
    if hello.magic != wire::MAGIC {
        return; // none of ours
    }
    if hello.version != wire::VERSION {
        job.keeps_out("its libneap_preload.so is of another version");
        return;
    }
    if !listens && !matches!(hello.purpose, purpose::ATTACH | purpose::ADOPT) {
        neap_sys::lower_to_ordinary(); // many pages may have to come back
    }
    match (hello.purpose, thread) {
        (purpose::ATTACH | purpose::ADOPT, Err(error)) => {
            job.warn(format!("a process cannot be managed: {}", no_thread(error)));
            let mut refusal = words(job);
            refusal.refused = 1;
            let _ = peer.send(bytes_of(&refusal), &[]);
        }
        (purpose::ATTACH, _) => attach(job, peer, device, &hello),
        (purpose::ADOPT, _) => adopt(job, peer, hello.arg),
        (purpose::RELEASE, _) => crate::thaw::release(job, &peer, hello.arg..hello.arg2),
        (purpose::WIPE, _) => crate::thaw::wipe(job, &peer, hello.arg..hello.arg2),
        (purpose::THAW, _) => crate::thaw::thaw(job, &peer),
        (purpose::RESUME, _) => crate::thaw::resume(job, &peer),
        (purpose::LEAVE, _) => crate::thaw::leave(job, &peer),
        (purpose::FORKED, _) => crate::thaw::forked(job, &peer),
        _ => {}
    }
}

/// Whether the process at the other end has not ended: who ends in the middle of a conversation needs no advice.
fn lives(peer: &Peer) -> bool {
    let pid = peer.pid().ok();
    pid.and_then(neap_sys::anon_resident)
        .is_some_and(|bytes| bytes > 0)
}

/// Receives one message of exactly the size of `into`.
fn receive<T: bytemuck::Pod>(peer: &Peer, into: &mut T) -> Option<Message> {
    let message = peer.receive(bytes_of_mut(into)).ok()?;
    (message.len == size_of::<T>()).then_some(message)
}

/// Tells the program that what it asked for is done.
pub(crate) fn acknowledge(peer: &Peer) {
    let mut welcome = wire::Welcome::zeroed();
    welcome.magic = wire::MAGIC;
    let _ = peer.send(bytes_of(&welcome), &[]);
}

/// What every process is told first.
fn words(job: &Job) -> wire::Welcome {
    let mut welcome = wire::Welcome::zeroed();
    welcome.magic = wire::MAGIC;
    welcome.stage_bytes = STAGE_BYTES;
    if !job.features.has(Features::FORK) {
        welcome.flags |= wire::WELCOME_THAW_AROUND_FORK;
    }
    welcome
}

/// What a process offers in return; of one that ends instead nothing is said.
fn welcome(job: &Job, peer: &Peer, device: Option<&OwnedFd>) -> Option<(wire::Attach, Message)> {
    let fds: Vec<_> = device.iter().map(AsFd::as_fd).collect();
    if let Err(error) = peer.send(bytes_of(&words(job)), &fds) {
        if lives(peer) {
            job.stays_unmanaged(&error);
        }
        return None;
    }
    let mut offer = wire::Attach::zeroed();
    let message = receive(peer, &mut offer)?;
    if offer.magic != wire::MAGIC {
        return None;
    }
    if let Some(why) = lack(&offer) {
        if !is_guest(job, peer, &offer) {
            job.keeps_out(&why);
        }
        return None;
    }
    Some((offer, message))
}

/// Why a process gives up, if it does.
fn lack(offer: &wire::Attach) -> Option<String> {
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
fn is_guest(job: &Job, peer: &Peer, offer: &wire::Attach) -> bool {
    let error = io::Error::from_raw_os_error(offer.errno).kind();
    let is_unknown = offer.lacks == lack::USERFAULTFD && error == io::ErrorKind::Unsupported;
    let attends = |pid| {
        job.spaces()
            .iter()
            .any(|space| space.pid.load(Relaxed) == pid)
    };
    is_unknown && peer.pid().is_ok_and(attends)
}

/// A process offers its address space.
fn attach(job: &Arc<Job>, peer: Peer, device: Option<&OwnedFd>, hello: &wire::Hello) {
    let (parent, family) = (hello.arg, hello.arg2);
    let Some((offer, message)) = welcome(job, &peer, device) else {
        return;
    };
    let mut fds = message.fds.into_iter();
    // Its userfaultfd, and three files of its own.
    if fds.len() < 4 {
        job.keeps_out(FEW_DESCRIPTORS);
        return;
    }
    let Some(uffd) = fds.next().map(Uffd::adopt) else {
        return;
    };
    if let Err(error) = uffd.handshake(job.features) {
        job.stays_unmanaged(&error);
        return;
    }
    let family = (family != 0).then_some(family);
    let space = job.add_space(uffd, Ranges::default(), family);
    if let Some(parent) = job.space_by_cookie(parent) {
        space.kin.inherit_from(&parent);
        space.kin.end_inherits(); // it was not registered, so all of its mappings will be found
    }
    let wipes = hello.flags & wire::HELLO_WIPES != 0;
    space.wipes.store(wipes, Relaxed);
    if take_over(job, &space, peer, &offer, fds.collect(), false).is_none() {
        job.end_space(&space);
    }
}

/// A forked child, whose userfaultfd the kernel gave us, offers the rest.
fn adopt(job: &Arc<Job>, peer: Peer, cookie: u64) {
    let Some(space) = job.space_by_cookie(cookie) else {
        return; // it has ended, or is none of ours
    };
    let Some((offer, message)) = welcome(job, &peer, None) else {
        return;
    };
    // If this fails the child is still served, like one that never asked.
    if take_over(job, &space, peer, &offer, message.fds, true).is_none() {
        space.pid.store(0, Relaxed);
    }
}

fn take_over(
    job: &Arc<Job>,
    space: &Arc<Space>,
    peer: Peer,
    offer: &wire::Attach,
    fds: Vec<OwnedFd>,
    give_uffd: bool,
) -> Option<()> {
    let pid = peer
        .pid()
        .map_err(|error| job.stays_unmanaged(&error))
        .ok()?;
    let files = <[OwnedFd; 3]>::try_from(fds);
    let [mem, pagemap, maps] = files.map_err(|_| job.keeps_out(FEW_DESCRIPTORS)).ok()?;
    let statm = Statm::open(pid).map_err(|error| {
        if shortage(&error).is_some() {
            job.keeps_out(FEW_DESCRIPTORS); // else it has ended
        }
    });
    let statm = statm.ok()?;
    space.kin.begin(statm.anon_resident());
    let stage = offer.stage..offer.stage.checked_add(STAGE_BYTES)?;
    register_stage(job, space, &peer, &stage)?;
    let begin = prepare_to_attend(job, space)?;
    if job.options.require && !give_uffd {
        job.serve_early(space)?;
    }
    // Before the process may go on, and perhaps end, or ask for something, at once.
    space.pid.store(pid, Relaxed);
    let_begin(space, &peer, give_uffd)?;
    if await_agent(job, &peer).is_none() && !give_uffd {
        return None;
    }
    // A forked child without an agent is looked after all the same: nothing of it leaves.
    job.note_process(ProcessReport::new(pid));
    let own = vec![
        stage,
        offer.agent..offer.agent.checked_add(offer.agent_bytes)?,
        offer.cookie..offer.cookie.checked_add(PAGE_SIZE as u64)?,
    ];
    let same_pids = offer.pid == pid.cast_unsigned();
    let body = Body {
        pid,
        same_pids,
        pidfd: Pidfd::open(pid).ok(),
        statm,
        remote: Remote::new(pid, File::from(mem)),
        pagemap: Pagemap::adopt(File::from(pagemap)),
        maps: Maps::adopt(File::from(maps)),
        stage: Stage::new(offer.stage + STAGE_GUARD, STAGE_BYTES - STAGE_GUARD),
        agent: Agent::new(peer, same_pids.then_some(job.keeper)),
        agent_guard: offer.agent,
        own,
    };
    space.cookie_page.store(offer.cookie, Relaxed);
    // A forked child depends on the engine from the start, and its agent was told so.
    space.told.store(give_uffd, Relaxed);
    space.body.set(body).ok()?;
    begin.send(()).ok()
}

/// Lets the process go on. From here on it grows, and the sampler sees nothing of that until the calling thread is done:
/// where the process enters a call in which the kernel gives its cpu to nobody, that was 24 ms later for an ordinary thread.
fn let_begin(space: &Space, peer: &Peer, give_uffd: bool) -> Option<()> {
    let mut ready = wire::Ready::zeroed();
    ready.magic = wire::MAGIC;
    ready.number = space.cookie;
    ready.family = space.kin.family();
    let uffd = give_uffd.then(|| space.uffd.as_fd());
    let answered = peer
        .set_timeout(PATIENCE_MILLIS)
        .and_then(|()| peer.send(bytes_of(&ready), uffd.as_slice()));
    answered.ok()
}

fn register_stage(job: &Job, space: &Space, peer: &Peer, stage: &Range<u64>) -> Option<()> {
    let registered = space.uffd.register(stage.clone(), neap_sys::Mode::Wp);
    if let Err(error) = &registered
        && lives(peer)
    {
        job.stays_unmanaged(error);
    }
    registered.ok()?;
    // mlockall(MCL_CURRENT) fills each mapping from its beginning, and goes on with the next where it cannot: without
    // this it would fill the whole stage. Kernels before 6.6 know no poison, and do.
    let _ = space.uffd.poison(stage.start..stage.start + STAGE_GUARD);
    Some(())
}

/// Waits for the word that the process has an agent; it may be stopped before it says so.
fn await_agent(job: &Job, peer: &Peer) -> Option<()> {
    neap_sys::wait_readable(&[peer.as_fd()], None).ok()?;
    let mut reply = wire::Reply::zeroed();
    if receive(peer, &mut reply).is_none() || reply.magic != wire::MAGIC {
        if lives(peer) {
            job.warn("a process keeps its pages, and may go over the limit: its agent could not start; raise its `ulimit -n`".into());
        }
        return None;
    }
    if reply.errno != 0 {
        let error = io::Error::from_raw_os_error(reply.errno);
        job.keeps_out(&no_thread(&error));
        return None;
    }
    Some(())
}

/// Starts the thread that will attend the space, once it is sent a word: without, no process is taken over.
fn prepare_to_attend(job: &Arc<Job>, space: &Arc<Space>) -> Option<mpsc::Sender<()>> {
    let (begin, begun) = mpsc::channel();
    let attended = (job.clone(), space.clone());
    let waits = spawn("neap-agents", move || {
        if begun.recv().is_ok() {
            attend(&attended.0, &attended.1);
        }
    });
    let unmanaged = |error| job.keeps_out(&no_thread(&error));
    waits.map_err(unmanaged).ok().map(|()| begin)
}

/// Waits until the agent of one space is gone. It ends when the process exits or execs, and nearly
/// always the address space with it.
fn attend(job: &Arc<Job>, space: &Arc<Space>) {
    neap_sys::block_signals();
    if let Some(body) = space.body.get() {
        neap_sys::wait_hangup(body.agent.as_fd());
        body.agent.set_gone();
    }
    space.ring(); // its fault thread asks the kernel
    if !space.armed.load(Relaxed) {
        job.drop_space(space); // no fault thread does it
    }
}

impl Job {
    /// Waits until the conversations are over that were begun: with programs that have ended, at once.
    pub fn hear_out(&self) {
        const LOOK: Duration = Duration::from_micros(100);
        let end = neap_sys::monotonic_nanos() + u64::from(HANDSHAKE_MILLIS) * 1_000_000;
        while self.conversations.load(Acquire) > 0 && neap_sys::monotonic_nanos() < end {
            thread::sleep(LOOK);
        }
    }

    /// Starts the thread that serves a space's faults and events. Once for each space.
    pub fn start_serving(self: &Arc<Self>, space: &Arc<Space>) {
        space.armed.store(true, Relaxed);
        space.first_look.set_made(); // all of it is registered already
        let (job, space) = (self.clone(), space.clone());
        let started = spawn("neap-fault", move || FaultThread::new(job, space).run());
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
        let serve = (self.clone(), space.clone());
        let work = move || FaultThread::new(serve.0, serve.1).run();
        self.is_served(space, spawn("neap-fault", work))
            .then_some(())
    }

    fn is_served(&self, space: &Space, started: io::Result<()>) -> bool {
        if let Err(error) = &started {
            self.keeps_out(&no_thread(error));
        } else {
            space.armed.store(true, Relaxed);
        }
        started.is_ok()
    }
}
