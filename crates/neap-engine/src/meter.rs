//! How much memory the job uses, between two looks at the kernel's accounting.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use neap_store::Holding;
use neap_sys::Lock;
use neap_tuning::TUNING;
use neap_units::{AtomicLimit, Bytes, Limit, PAGE_SIZE, Pages};

use crate::options::{Exhausted, Options};

/// The estimate: what the kernel said last, corrected by what neap has done since.
#[derive(Debug)]
pub(crate) struct Meter {
    limit: AtomicU64,
    /// `memory.high`: above it memory is reclaimed, and who takes more waits.
    high: AtomicLimit,
    /// The limit leaves the pool out.
    pool_beside: bool,
    estimate: AtomicU64,
    hold_above: AtomicU64,
    /// What reclaim leaves to the programs in any case, in bytes.
    floor: AtomicU64,
    /// There is such a thing: the job may go over its limit for it.
    has_floor: bool,
    /// What is used beside the pages that reclaim may take, as looked at last.
    beside: AtomicU64,
    /// Reclaim until usage is at most this.
    reclaim_to: AtomicLimit,
    /// The same as somebody asked for it.
    asked_to: AtomicLimit,
    /// The limit was made smaller, and usage was not within it since.
    settles: AtomicBool,
    /// As looked at last: the programs' memory, and neap's own without the pool.
    resident: AtomicU64,
    own: AtomicU64,
    /// Furthest that usage was above a limit that stood, and which that was.
    excess: AtomicU64,
    exceeded: AtomicU64,
    peak: AtomicU64,
    /// Pages came back for a fork, and usage was not within the limit since.
    thawed: AtomicBool,
    /// It was so when usage was furthest above the limit.
    peaked_thawed: AtomicBool,
    /// What neap itself took then, without the pool.
    peaked_own: AtomicU64,
    peak_resident: AtomicU64,
    peak_pool: Lock<Holding, 7>,
    overhead: AtomicU64,
    /// Fills need not wait: nothing can be had by waiting.
    open: AtomicBool,
    /// The pool as it is in the estimate.
    pool: AtomicU64,
}

/// One look at the kernel's accounting.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sample {
    /// Anonymous memory of the programs, with what the kernel takes for their mappings.
    pub resident: u64,
    /// Anonymous memory of neap, with the pool.
    pub own: u64,
    /// The pool, which is a part of `own`.
    pub pool: Holding,
    /// Pages come back for a fork, or must stay for it.
    pub thaws: bool,
}

impl Meter {
    /// `has_floor`: whether the job may go over its limit for [`Meter::floor`].
    pub fn new(limit: Bytes, has_floor: bool) -> Self {
        let zero = || AtomicU64::new(0);
        let meter = Self {
            limit: AtomicU64::new(0),
            high: AtomicLimit::new(Limit::Max),
            pool_beside: false,
            floor: zero(),
            has_floor,
            estimate: zero(),
            hold_above: AtomicU64::new(limit.0.min(TUNING.limit.most.0)),
            asked_to: AtomicLimit::new(Limit::Max),
            settles: AtomicBool::new(false),
            resident: zero(),
            own: zero(),
            excess: zero(),
            exceeded: zero(),
            beside: zero(),
            reclaim_to: AtomicLimit::new(Limit::Max),
            peak: zero(),
            thawed: AtomicBool::new(false),
            peaked_thawed: AtomicBool::new(false),
            peaked_own: zero(),
            peak_resident: zero(),
            peak_pool: Lock::default(),
            overhead: zero(),
            open: AtomicBool::new(false),
            pool: zero(),
        };
        meter.set_limit(limit);
        meter.settles.store(false, Relaxed);
        meter
    }

    /// That of all.
    pub fn of(options: &Options) -> Self {
        let has_floor = options.on_exhausted == Exhausted::Open;
        let meter = Self::new(options.limit, has_floor).with_pool_beside(options.pool_beside);
        meter.set_high(options.high.into());
        meter
    }

    /// Moves the limit. The next look at usage plans by it.
    pub fn set_limit(&self, limit: Bytes) {
        let limit = limit.min(TUNING.limit.most);
        let floor = TUNING.limit.floor.of(limit.0);
        let floor = floor.max(TUNING.limit.floor_least.0);
        let floor = if self.has_floor { floor } else { 0 };
        self.floor.store(floor, Relaxed);
        self.limit.store(limit.0, Relaxed);
        self.settles.store(true, Relaxed);
    }

    /// Moves `memory.high`.
    pub fn set_high(&self, limit: Limit) {
        self.high.store(limit);
    }

    /// `memory.high`.
    pub fn high(&self) -> Limit {
        self.high.load()
    }

    /// How much usage is above that.
    pub fn over_high(&self) -> u64 {
        self.high().excess(Bytes(self.usage())).0
    }

    /// Whether the limit was made smaller, and usage was not within it since.
    pub fn settles(&self) -> bool {
        self.settles.load(Relaxed)
    }

    /// Has reclaim go on until usage is at most this, whatever the limit; [`Limit::Max`]: no more than the limit wants.
    pub fn ask_for(&self, usage: Limit) {
        self.asked_to.store(usage);
    }

    /// Bytes of the programs, and of neap without the pool, as looked at last.
    pub fn now(&self) -> (u64, u64) {
        (self.resident.load(Relaxed), self.own.load(Relaxed))
    }

    /// Furthest that the job was above a limit that stood, in bytes, and which that was.
    pub fn furthest(&self) -> (u64, Bytes) {
        let limit = Bytes(self.exceeded.load(Relaxed));
        (self.excess.load(Relaxed), limit)
    }

    /// The limit leaves the pool out, or does not.
    pub fn with_pool_beside(mut self, beside: bool) -> Self {
        self.pool_beside = beside;
        self
    }

    pub fn limit(&self) -> Bytes {
        Bytes(self.limit.load(Relaxed))
    }

    /// Whether there is a limit: of a group there need be none but those of the groups above it.
    pub fn is_limited(&self) -> bool {
        self.limit() < TUNING.limit.most
    }

    /// Whether there is a limit, or a `memory.high` below it.
    pub fn is_bounded(&self) -> bool {
        self.is_limited() || self.high() < Limit::Bytes(self.limit())
    }

    /// What the pool holds of it, in bytes.
    pub fn pool(&self) -> u64 {
        self.pool.load(Relaxed)
    }

    /// Corrects the estimate by what the kernel says; returns the growth that neap's own fills do
    /// not explain.
    pub fn sample(&self, sample: Sample) -> u64 {
        let usage = self.usage_of(&sample);
        self.pool.store(sample.pool.backed, Relaxed);
        let before = self.estimate.swap(usage, Relaxed);
        let limit = self.limit();
        if usage <= limit.0 && !sample.thaws {
            self.thawed.store(false, Relaxed);
        }
        if usage <= limit.0 {
            self.settles.store(false, Relaxed);
        }
        let own = sample.own.saturating_sub(sample.pool.bytes);
        self.resident.store(sample.resident, Relaxed);
        self.own.store(own, Relaxed);
        self.peak.fetch_max(usage, Relaxed);
        if usage > self.far() && !self.settles() {
            let excess = usage - limit.0;
            if excess > self.excess.fetch_max(excess, Relaxed) {
                self.exceeded.store(limit.0, Relaxed);
                let thawed = self.thawed.load(Relaxed);
                self.peaked_thawed.store(thawed, Relaxed);
                self.peaked_own.store(own, Relaxed);
            }
        }
        self.peak_resident.fetch_max(sample.resident, Relaxed);
        {
            let mut peak = self.peak_pool.lock();
            if sample.pool.bytes > peak.bytes {
                *peak = sample.pool;
            }
        }
        self.overhead.fetch_max(own, Relaxed);
        usage.saturating_sub(before)
    }

    /// What of it the limit holds.
    pub fn usage_of(&self, sample: &Sample) -> u64 {
        let beside = if self.pool_beside {
            sample.pool.backed
        } else {
            0
        };
        sample.resident + sample.own.saturating_sub(beside)
    }

    pub fn set_plan(&self, hold_above: Bytes, reclaim_to: Option<Bytes>) {
        self.hold_above.store(hold_above.0, Relaxed);
        self.reclaim_to.store(reclaim_to.into());
    }

    /// Reclaim may take so many pages of what is used, resident or staged, and `pool` bytes of the pool may still
    /// be written back. As much of the pool as the floor has belongs to what the floor is for.
    pub fn note_reclaimable(&self, pages: Pages, pool: u64) {
        let pool = if self.pool_beside { 0 } else { pool };
        let managed = pages.0 * PAGE_SIZE as u64 + pool.saturating_sub(self.floor.load(Relaxed));
        self.beside
            .store(self.usage().saturating_sub(managed), Relaxed);
    }

    /// What reclaim leaves to the programs in any case, and faults may fill in any case: where memory that
    /// cannot be reclaimed takes the limit for itself, a program would otherwise wait for each page, and get it
    /// for a moment.
    pub fn floor(&self) -> Pages {
        Bytes(self.floor.load(Relaxed)).whole_pages()
    }

    /// What reclaim leaves to the programs just now: who asks for memory may have all of it.
    pub fn kept(&self) -> Pages {
        let of_high = |high: Bytes| {
            let share = TUNING.limit.floor.of(high.0);
            Bytes(share.max(TUNING.limit.floor_least.0)).whole_pages()
        };
        match (self.asked_to.load(), self.high()) {
            (Limit::Bytes(_), _) => Pages(0),
            (Limit::Max, Limit::Bytes(high)) => self.floor().min(of_high(high)),
            (Limit::Max, Limit::Max) => self.floor(),
        }
    }

    /// The pool takes this many bytes now.
    pub fn note_pool(&self, bytes: u64) {
        if self.pool_beside {
            return;
        }
        let before = self.pool.swap(bytes, Relaxed);
        if bytes >= before {
            self.estimate.fetch_add(bytes - before, Relaxed);
        } else {
            self.uncharge(before - bytes);
        }
    }

    /// Pages appeared in a program.
    pub fn charge(&self, bytes: u64) {
        self.estimate.fetch_add(bytes, Relaxed);
    }

    /// Pages left a program for good.
    pub fn uncharge(&self, bytes: u64) {
        let less = |usage: u64| Some(usage.saturating_sub(bytes));
        let _ = self.estimate.fetch_update(Relaxed, Relaxed, less);
    }

    pub fn usage(&self) -> u64 {
        self.estimate.load(Relaxed)
    }

    /// Whether a fill of this size must wait for reclaim.
    pub fn must_hold(&self, bytes: u64) -> bool {
        self.usage() + bytes > self.threshold() && !self.is_open()
    }

    pub fn is_over(&self) -> bool {
        self.usage() > self.limit().0
    }

    /// Whether a page more must wait for reclaim, or is let through since that is in vain.
    pub fn is_full(&self) -> bool {
        self.usage() + PAGE_SIZE as u64 > self.hold_above.load(Relaxed)
    }

    /// Above this, fills wait.
    fn threshold(&self) -> u64 {
        let least = self.beside.load(Relaxed) + self.floor.load(Relaxed);
        self.hold_above.load(Relaxed).max(least)
    }

    /// How much may be filled before faults must wait, in bytes.
    pub fn room(&self) -> u64 {
        if self.is_open() {
            return u64::MAX;
        }
        self.threshold().saturating_sub(self.usage())
    }

    /// How many bytes reclaim still has to free; 0: none.
    pub fn excess(&self) -> u64 {
        self.pressed().max(self.over_high())
    }

    /// The same for the limit, or for somebody who has asked for it.
    fn pressed(&self) -> u64 {
        let to = self.reclaim_to.load().min(self.asked_to.load());
        to.excess(Bytes(self.usage())).0
    }

    /// Whether that is so: else `memory.high` alone wants memory, for which nothing goes over the limit.
    pub fn is_pressed(&self) -> bool {
        self.pressed() > 0
    }

    /// Whether reclaim does not keep up: of what lies between its mark and where faults must wait, seven eighths
    /// are used.
    pub fn lags(&self) -> bool {
        let to = self.reclaim_to.load();
        let above = to.excess(Bytes(self.threshold())) / 8 * 7;
        to.excess(Bytes(self.usage())) > above
    }

    /// Whether the job takes more than its limit and what is allowed to a burst: 2 % and 4 MiB.
    pub fn is_far_over(&self) -> bool {
        self.usage() > self.far()
    }

    /// Whether it ever did, of a limit that stood.
    pub fn was_far_over(&self) -> bool {
        self.excess.load(Relaxed) > 0
    }

    /// Pages come back for a fork, over the limit if need be.
    pub fn note_thaw(&self) {
        self.thawed.store(true, Relaxed);
    }

    /// Whether such a fork is why usage was furthest above the limit.
    pub fn peaked_thawed(&self) -> bool {
        self.peaked_thawed.load(Relaxed)
    }

    /// What neap itself took when usage was furthest above the limit, without the pool.
    pub fn peaked_own(&self) -> u64 {
        self.peaked_own.load(Relaxed)
    }

    fn far(&self) -> u64 {
        TUNING.limit.allowed(self.limit()).0
    }

    /// Whether fills may take the job over its limit from now on: better than stuck.
    pub fn set_open(&self, open: bool) {
        self.open.store(open, Relaxed);
    }

    fn is_open(&self) -> bool {
        self.open.load(Relaxed)
    }

    pub fn peaks(&self) -> (u64, Sample) {
        let sample = Sample {
            resident: self.peak_resident.load(Relaxed),
            own: self.overhead.load(Relaxed),
            pool: *self.peak_pool.lock(),
            thaws: false,
        };
        (self.peak.load(Relaxed), sample)
    }
}

#[cfg(test)]
mod tests;
