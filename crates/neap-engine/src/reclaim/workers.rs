//! Compressing beside reclaim: while it has the agent move pages, what was staged before is compressed on
//! the cpus that nobody else wants.
//!
//! Reclaim alone picks, stages and recycles. A worker does one thing: it stores the block that has waited longest, of
//! any space, while all together stage more than their share. It does so only while reclaim alone does not keep up:
//! then the programs will have to wait, and their cpus are better used so. Where workers do not keep up either reclaim
//! goes on storing: one that gets no cpu holds up one block.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use neap_policy::staged_blocks;
use neap_store::{Codec, CompressorKind, Trained};
use neap_sys::{Lock, Thread};
use neap_tuning::TUNING;
use neap_units::PAGE_SIZE;

use super::samples::{Samples, Verdict};
use super::store::{Storer, Taken};
use crate::group::Group;
use crate::job::Job;
use crate::space::{Body, Space, Stage};
use crate::spawn::try_spawn;

/// What reclaim and its workers share.
pub(crate) struct Work {
    pub(super) job: Arc<Job>,
    /// Threads beside reclaim that run.
    workers: AtomicUsize,
    /// Those that have a block.
    busy: AtomicUsize,
    /// Pages that workers stored, or that were refused, since reclaim last looked.
    stored: AtomicU64,
    refused: AtomicU64,
    /// Pages are compressed with dictionaries, once there are some.
    dictionaries: bool,
    samples: Lock<Samples, 7>,
    /// The spaces when processes that were gone were last forgotten.
    known: Lock<Weak<[Arc<Space>]>, 7>,
    /// Spaces that may stage pages: no other has a block to be stored or emptied. Reclaim alone changes it.
    staging: Lock<Vec<Arc<Space>>, 7>,
}

impl Work {
    pub fn new(job: Arc<Job>) -> Self {
        let zstd = matches!(job.options.compressor, CompressorKind::Zstd(_));
        Self {
            workers: AtomicUsize::new(0),
            busy: AtomicUsize::new(0),
            stored: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            dictionaries: zstd && job.options.limit >= TUNING.dictionaries.least_limit,
            samples: Lock::new(Samples::default()),
            known: Lock::new(Weak::<[Arc<Space>; 0]>::new()),
            staging: Lock::default(),
            job,
        }
    }

    /// Blocks that all spaces of a group may stage together before the oldest are stored.
    pub(super) fn stage_target(&self, group: &Group) -> usize {
        let limit = group.meter.limit().min(self.job.meter.limit());
        staged_blocks(limit, TUNING.agents.block.bytes()) as usize
    }

    /// Spaces that may stage pages, in the order in which they began to.
    pub(super) fn staging(&self) -> Vec<Arc<Space>> {
        self.staging.lock().clone()
    }

    /// Pages of the space are about to be staged.
    pub(super) fn note_staging(&self, space: &Arc<Space>) {
        let mut staging = self.staging.lock();
        if !staging.iter().any(|other| other.cookie == space.cookie) {
            staging.push(space.clone());
        }
    }

    /// Forgets spaces that stage nothing any more.
    pub(super) fn forget_empty_stages(&self) {
        let mut staging = self.staging();
        staging.retain(|space| stage(space).is_some_and(|stage| !stage.is_idle()));
        *self.staging.lock() = staging;
    }

    /// Starts the threads, as far as there may be more: without, reclaim compresses all by itself.
    pub fn start(self: &Arc<Self>) -> Vec<Thread> {
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        // One cpu is for who waits for memory, or for reclaim.
        let wanted = (cpus - 1).min(TUNING.reclaim.workers);
        let start = |_| {
            let storer = Storer::new(self.clone());
            let work = self.clone();
            try_spawn("neap-store", move || Worker { work, storer }.run()).ok()
        };
        let threads: Vec<_> = (0..wanted).map_while(start).collect();
        self.workers.store(threads.len(), Relaxed);
        threads
    }

    /// Blocks that these spaces of a group together stage beyond its target.
    pub(super) fn overdue(&self, group: &Group, spaces: &[Arc<Space>]) -> usize {
        let (mut waiting, mut open) = (0, 0usize);
        for (blocks, fills) in spaces
            .iter()
            .filter_map(|space| Some(stage(space)?.waiting()))
        {
            waiting += blocks;
            open += usize::from(fills);
        }
        // The one that is being filled just now is let be. Others were left half empty by visits to many.
        (waiting + open.saturating_sub(1)).saturating_sub(self.stage_target(group))
    }

    /// Blocks that reclaim may leave to workers in one pass: each may have one more before it.
    pub(super) fn allowance(&self) -> usize {
        let workers = self.workers.load(Relaxed);
        if workers > 0 && self.helps() {
            workers
        } else {
            0
        }
    }

    /// Whether reclaim alone does not keep up, and compressing is what keeps it: where the pool is nearly full
    /// it waits for the disk, and what is taken out more quickly is only sent home.
    fn helps(&self) -> bool {
        (self.job.meter.lags() || self.job.groups.empties())
            && self.job.store.pool_bytes().0 * 4 < self.job.store.pool_max().bytes().0 * 3
    }

    /// Whether some worker has a block.
    pub(super) fn is_busy(&self) -> bool {
        self.busy.load(Relaxed) > 0
    }

    /// What workers have done since the last call.
    pub(super) fn take_done(&self) -> Taken {
        Taken {
            stored: self.stored.swap(0, Relaxed),
            refused: self.refused.swap(0, Relaxed),
        }
    }

    /// A page was stored: it may serve for a dictionary, or to try one.
    pub(super) fn sample(
        &self,
        space: &Space,
        body: &Body,
        page: &[u8; PAGE_SIZE],
        codec: &mut Codec,
    ) {
        if !self.dictionaries {
            return;
        }
        let tried = self.samples.lock().note(space.cookie, body.program, page);
        let Some(tried) = tried else {
            return;
        };
        let bytes = self.job.store.compare(&tried, page, codec);
        let verdict = self.samples.lock().judge(space.cookie, bytes);
        if let Some(verdict) = verdict {
            self.give(space, (verdict == Verdict::Begin).then_some(&*tried));
        }
    }

    /// Has the pages of a space compressed with a dictionary from now on. While its gate is held a space that is not dead has its number.
    fn give(&self, space: &Space, dictionary: Option<&Trained>) {
        let _gate = space.gate.read();
        if !space.is_dead() {
            self.job.store.compress_with(space.id, dictionary);
        }
    }

    /// Makes a dictionary if there are samples enough for one, and forgets spaces that are gone.
    pub(super) fn make_dictionaries(&self) {
        if !self.dictionaries {
            return;
        }
        let whole = self.samples.lock().take_whole();
        if let Some(whole) = whole {
            // A refusal means that the pages do without.
            let trained = self.job.store.train(&whole.pages).ok();
            let user = self.samples.lock().settle(&whole, trained);
            if let Some((cookie, dictionary)) = user
                && let Some(space) = self.job.space_by_cookie(cookie)
            {
                self.give(&space, Some(&dictionary));
            }
        }
        let spaces = self.job.spaces();
        // There is another list after each change.
        let known = Arc::downgrade(&spaces);
        if !known.ptr_eq(&*self.known.lock()) {
            *self.known.lock() = known;
            let living = spaces.iter().map(|space| space.cookie).collect();
            let gone = self.samples.lock().forget_gone(&living);
            for dictionary in gone {
                self.job.store.withdraw(dictionary);
            }
        }
    }
}

/// The space that has the block which has waited longest of all: it is the next to be stored.
pub(super) fn next(spaces: &[Arc<Space>]) -> Option<&Arc<Space>> {
    let oldest = spaces
        .iter()
        .filter_map(|space| Some((stage(space)?.oldest()?, space)))
        .min_by_key(|(since, _)| *since);
    oldest.map(|(_, space)| space)
}

/// The stage of a space whose blocks can be stored.
fn stage(space: &Space) -> Option<&Stage> {
    let body = space.body.get().filter(|_| !space.is_dead());
    body.map(|body| &body.stage)
}

/// One thread that stores what is overdue.
pub(crate) struct Worker {
    work: Arc<Work>,
    storer: Storer,
}

impl Worker {
    #[cfg(test)]
    pub fn new(work: Arc<Work>) -> Self {
        let storer = Storer::new(work.clone());
        Self { work, storer }
    }

    /// Stores the oldest block of a space, whether or not reclaim keeps up.
    #[cfg(test)]
    pub fn store(&mut self, space: &Arc<Space>) {
        if let Some(body) = space.body.get() {
            self.storer.store_block(space, body);
        }
    }

    fn run(mut self) {
        neap_sys::block_signals();
        while !self.work.job.is_stopping() {
            self.work.job.compress.wait(TUNING.reclaim.sleep.duration());
            while self.step() {}
        }
        self.work.job.compress.ring(); // the next one is to end, too
    }

    /// Stores one block. False if reclaim keeps up, none is overdue, or none of it could be stored: it would be
    /// tried for ever.
    fn step(&mut self) -> bool {
        let job = &self.work.job;
        if job.is_stopping() || !self.work.helps() {
            return false;
        }
        let spaces = self.work.staging();
        let overdue = self.work.overdue(job.groups.top(), &spaces);
        let next = next(&spaces).filter(|_| overdue > 0);
        let Some((space, body)) = next.and_then(|space| Some((space, space.body.get()?))) else {
            return false;
        };
        if overdue > 1 {
            job.compress.ring(); // there is work for another
        }
        self.work.busy.fetch_add(1, Relaxed);
        // As reclaim does.
        let ahead = job.meter.is_over() && neap_sys::raise_above_ordinary();
        let taken = self.storer.store_block(space, body);
        if ahead {
            neap_sys::lower_to_ordinary();
        }
        self.work.stored.fetch_add(taken.stored, Relaxed);
        self.work.refused.fetch_add(taken.refused, Relaxed);
        self.work.busy.fetch_sub(1, Relaxed);
        self.work.job.reclaim.ring(); // the block may be recycled
        taken.stored > 0
    }
}
