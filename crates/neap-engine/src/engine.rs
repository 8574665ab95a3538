//! Starting and ending the engine.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use neap_control::Name;
use neap_store::{Arena as StoreArena, BlockFile, Config, HashKey, NoFile, Store};
use neap_sys::{Features, Listener, Lock, SwapFile, SysError, Thread, Uffd, Waker};
use neap_tuning::TUNING;
use neap_units::{Bytes, Pages};

use crate::attend::Attendance;
use crate::control::{self, Desk, Kind, Stat};
use crate::job::{Doors, Job};
use crate::listen::listen;
use crate::options::{Options, Swap};
use crate::probe::{self, Refusal};
use crate::reclaim::{Reclaimer, Work};
use crate::record::Recording;
use crate::report::Report;
use crate::sampler::{self, Sampler};
use crate::shelter::Shelter;
use crate::spares::Spares;
use crate::spawn::try_spawn;
use crate::writeback;

/// Path of the device that hands out userfaultfds, unless NEAP_UFFD_DEVICE names another.
const DEVICE: &str = "/dev/userfaultfd";

/// Why the engine could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// userfaultfd is refused, or lacks what neap needs; the call says which.
    #[error(transparent)]
    Userfaultfd(SysError),
    /// neap may make one, and its programs may not.
    #[error("{}", .0.why)]
    Refused(Refusal),
    /// The kernel's userfaultfd lacks something.
    #[error("this kernel cannot move pages (UFFDIO_MOVE, Linux 6.8)")]
    TooOld,
    /// The swap file could not be made.
    #[error("swap file in {dir}: {source}")]
    SwapFile {
        /// Where.
        dir: PathBuf,
        /// Why not.
        source: SysError,
    },
    /// Something else the engine needs.
    #[error(transparent)]
    Sys(#[from] SysError),
    /// The machine gives no more threads.
    #[error("no thread for neap: {0}")]
    Threads(std::io::Error),
    /// No random numbers for the key of hashes.
    #[error("random numbers: {0}")]
    Random(std::io::Error),
    /// A job of that name runs.
    #[error("a job named {0} runs already")]
    Taken(Name),
    /// A service that nobody could join: why, and what to try.
    #[error("nobody could join: {0}")]
    Unreachable(&'static str, &'static str),
    /// No directory for the socket.
    #[error("a directory for neap's socket: {0}")]
    Shelter(std::io::Error),
}

/// A running engine: one job.
pub struct Engine {
    job: Arc<Job>,
    shelter: Shelter,
    threads: Vec<Thread>,
    recording: Option<Recording>,
    /// Who will answer by the control socket.
    desk: Option<Desk>,
}

struct PoolArena(neap_sys::Arena);

impl StoreArena for PoolArena {
    fn len(&self) -> usize {
        self.0.len()
    }
    fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        self.0.bytes_mut()
    }
    fn discard(&mut self, range: Range<usize>) {
        self.0.discard(range);
    }
    fn back(&mut self, range: Range<usize>) {
        self.0.back(range);
    }
}

struct DiskFile(SwapFile);

impl BlockFile for DiskFile {
    fn read_many(&self, requests: &mut [(u64, &mut [u8])]) -> std::io::Result<()> {
        self.0.read_many(requests)
    }
    fn write_many(&self, requests: &[(u64, &[u8])]) -> std::io::Result<()> {
        self.0.write_many(requests)
    }
    fn punch(&self, range: Range<u64>) -> std::io::Result<()> {
        self.0.punch(range)
    }
    fn set_len(&self, len: u64) -> std::io::Result<()> {
        self.0.set_len(len)
    }
}

/// Where the device is.
pub(crate) fn device_path() -> PathBuf {
    let named = std::env::var_os("NEAP_UFFD_DEVICE").filter(|path| !path.is_empty());
    named.unwrap_or_else(|| DEVICE.into()).into()
}

/// The device, if it may be opened; else the system call must do.
pub(crate) fn open_device() -> Result<OwnedFd, SysError> {
    Uffd::open_device(&device_path())
}

/// What neap asks of userfaultfd here. FORK needs a capability; without it forks are handled by
/// bringing everything back.
pub(crate) fn negotiate(device: Option<&OwnedFd>) -> Result<Features, StartError> {
    use std::os::fd::AsFd;
    let device = device.map(AsFd::as_fd);
    let offered = Uffd::offered(device).map_err(StartError::Userfaultfd)?;
    let needed = Features::LAYOUT.with(Features::WP).with(Features::MOVE);
    if !offered.has(needed) {
        return Err(StartError::TooOld);
    }
    let mut want = needed;
    for extra in [Features::THREAD_ID, Features::FORK] {
        if offered.has(extra) {
            want = want.with(extra);
        }
    }
    let try_with = |features| Uffd::create(device).and_then(|uffd| uffd.handshake(features));
    match try_with(want) {
        Ok(()) => Ok(want),
        Err(error) if error.is_refused() => {
            let want = want.without(Features::FORK);
            try_with(want).map_err(StartError::Userfaultfd)?;
            Ok(want)
        }
        Err(error) => Err(StartError::Userfaultfd(error)),
    }
}

/// Names what refuses a userfaultfd, where the kernel's word says little.
fn blame(error: StartError) -> StartError {
    match error {
        StartError::Userfaultfd(error) if error.is_refused() || error.is_unknown_call() => {
            let refusal = probe::refusal();
            refusal.map_or(StartError::Userfaultfd(error), StartError::Refused)
        }
        error => error,
    }
}

fn open_store(options: &Options) -> Result<Store, StartError> {
    let (file, swap_size): (Box<dyn BlockFile>, Bytes) = match &options.swap {
        Swap::Off => (Box::new(NoFile), Bytes(0)),
        Swap::Dir { dir, size } => {
            let file = SwapFile::create(dir).map_err(|source| StartError::SwapFile {
                dir: dir.clone(),
                source,
            })?;
            (Box::new(DiskFile(file)), *size)
        }
    };
    let pool_max = options.pool_max.whole_pages();
    let grown = Pages(pool_max.0 * TUNING.control.growth);
    // Where addresses are short there are none for a larger limit.
    let (arena, pool_room) = match make_arena(options, grown) {
        Ok(arena) => (arena, grown),
        Err(_) => (make_arena(options, pool_max)?, pool_max),
    };
    let config = Config {
        compressor: options.compressor,
        shrinker: options.shrinker,
        pool_max,
        pool_room,
        accept_threshold_percent: TUNING.pool.accept.as_percent() as u8,
        swap_size,
    };
    let mut random = Box::new([0; HashKey::BYTES]);
    neap_sys::random(&mut *random).map_err(StartError::Random)?;
    let store = Store::new(config, Box::new(arena), file, HashKey::new(&random));
    store.set_writeback(options.writeback);
    Ok(store)
}

/// Address space only; the cap decides what is backed. Room beyond it for fragments, and for what a forked child needs
/// whatever the cap says.
fn make_arena(options: &Options, pool_max: Pages) -> Result<PoolArena, SysError> {
    let pool = pool_max.bytes().0;
    let forks = options.limit.0 * TUNING.pool.fork_times;
    let forks = forks.max(TUNING.pool.fork_room.0);
    let room = (pool + TUNING.pool.fragments.of(pool) + forks) as usize;
    let room = room.min(neap_store::ADDRESSABLE);
    neap_sys::Arena::new(room).map(PoolArena)
}

/// The socket that programs of this job call: whoever finds it may (the path is the secret, and who calls is asked).
fn open_socket(
    shelter: &Shelter,
    device: Option<OwnedFd>,
) -> Result<(Doors, Listener), StartError> {
    const NAME: &str = "s";
    let listener = Listener::bind(shelter.path(), NAME)?;
    let usual = shelter.path().join(NAME);
    fs::set_permissions(&usual, Permissions::from_mode(0o666)).map_err(StartError::Shelter)?;
    let required = format!("{NAME}{}", neap_wire::REQUIRED_END);
    let required = shelter.path().join(required);
    symlink(NAME, &required).map_err(StartError::Shelter)?;
    let doors = Doors {
        usual,
        required,
        device,
    };
    Ok((doors, listener))
}

impl Engine {
    /// Starts the engine. Fails when the machine refuses userfaultfd; the message says what the
    /// kernel said, and [`probe`](crate::probe) the remedy.
    pub fn start(options: Options) -> Result<Self, StartError> {
        neap_sys::end_job_on_abort();
        let device = open_device().ok();
        let features = negotiate(device.as_ref()).map_err(blame)?;
        if device.is_none()
            && let Some(refusal) = probe::refusal()
        {
            return Err(StartError::Refused(refusal));
        }
        let store = open_store(&options)?;
        let shelter = Shelter::make().map_err(StartError::Shelter)?;
        let (doors, listener) = open_socket(&shelter, device)?;
        let job = Arc::new(Job::new(
            options,
            features,
            store,
            Waker::new()?,
            Spares::new()?,
            Attendance::new()?,
        ));
        let _ = job.doors.set(doors);
        let recording = Recording::start(&job);
        let desk = control::open(&job)?;
        let mut engine = Self {
            job,
            shelter,
            threads: Vec::new(),
            recording,
            desk,
        };
        let started = engine.start_threads(listener);
        if let Err(error) = started {
            engine.finish();
            return Err(StartError::Threads(error));
        }
        Ok(engine)
    }

    fn start_threads(&mut self, listener: Listener) -> std::io::Result<()> {
        let threads = &mut self.threads;
        let job = self.job.clone();
        threads.push(try_spawn("neap-listen", move || listen(&job, &listener))?);
        let job = self.job.clone();
        threads.push(try_spawn("neap-attend", move || job.attendance.run(&job))?);
        let sampler = Arc::new(Lock::new(Sampler::new(self.job.clone())?));
        let (job, shared) = (self.job.clone(), sampler.clone());
        threads.push(try_spawn("neap-sample", move || {
            sampler::sample(&job, &shared)
        })?);
        let job = self.job.clone();
        threads.push(try_spawn("neap-watch", move || {
            sampler::deputise(&job, &sampler); // until memory is registered
            job.watch.run(|| job.is_stopping())
        })?);
        let work = Arc::new(Work::new(self.job.clone()));
        let reclaimer = Reclaimer::new(work.clone());
        threads.push(try_spawn("neap-reclaim", move || reclaimer.run())?);
        let job = self.job.clone();
        threads.push(try_spawn("neap-shrink", move || writeback::run(&job))?);
        threads.extend(work.start()); // those that must run have theirs
        if let Some(period) = self.job.options.idle {
            self.job.set_idle(self.job.groups.top(), period);
        }
        let _ = try_spawn("neap-sweep", self.shelter.sweeper());
        Ok(())
    }

    /// Answers who looks at the job or steers it, if a thread can be had. To be called when all that must run does.
    pub fn open(&mut self) {
        if let Some(desk) = self.desk.take() {
            self.threads
                .extend(try_spawn("neap-control", move || desk.run()).ok());
        }
    }

    /// What the programs of the job need in their environment.
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        self.job.environment()
    }

    /// Processes that have attached so far. One that has ended may not have been taken note of yet.
    pub fn attached(&self) -> usize {
        self.job.hear_out();
        self.job.processes.lock().attached
    }

    /// Whether a process has spoken to the engine, attached or not.
    pub fn was_met(&self) -> bool {
        self.job.met.load(Relaxed)
    }

    /// Tells all figures of the job, from any thread.
    pub fn viewer(&self) -> impl Fn() -> Stat + Send + 'static {
        let job = self.job.clone();
        move || job.stat()
    }

    /// Asks all jobs of a service to end. No other joins: nobody would ask that one.
    pub fn ask_to_stop(&self) {
        self.job.groups.close();
        let line = "the service is to end, and its jobs with it".to_owned();
        self.job.log.note(&self.job, Kind::Stop, line);
    }

    /// Has nobody join a service any more, if it has no job. Whether it is so.
    pub fn close_if_idle(&self) -> bool {
        self.job.groups.close_if_empty()
    }

    /// Jobs that a service has.
    pub fn jobs(&self) -> usize {
        self.job.groups.below().len()
    }

    /// Lets the job go on if it is frozen, from any thread.
    pub fn thawer(&self) -> impl Fn() + Send + 'static {
        let job = self.job.clone();
        move || _ = job.unfreeze(job.groups.top())
    }

    /// Ends the engine. Every program of the job should have ended: one that still runs and depends
    /// on the engine is killed by its agent.
    pub fn finish(self) -> Report {
        self.job.tell_of_excess(self.job.groups.top());
        self.job.tell_of_the_dead();
        let report = self.job.last_report();
        self.job.end_groups();
        self.job.stopping.store(true, Relaxed);
        self.job.bell.wake();
        self.job.attendance.bell.wake();
        self.job.reclaim.ring();
        self.job.compress.ring();
        self.job.shrink.ring();
        self.job.sampler.ring();
        self.job.deputy.ring();
        self.job.watch.ring();
        self.job.idle.ring();
        self.job.log.ring();
        for space in self.job.spaces().iter() {
            space.set_dead();
        }
        for thread in self.threads {
            thread.join(); // one that panicked has ended the process already
        }
        if let Some(recording) = self.recording {
            recording.finish(&self.job);
        }
        if std::env::var_os("NEAP_CHECK").is_some() {
            self.job.store.check(); // nothing is being written any more
        }
        self.job.tell_all();
        report
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_userfaultfd_that_is_refused_is_named_once() {
        let null = File::open("/dev/null").unwrap();
        let refused = Uffd::create(Some(null.as_fd())).unwrap_err();
        let text = StartError::Userfaultfd(refused).to_string();
        assert_eq!(text.matches("userfaultfd").count(), 1, "{text}");
    }
}
