//! A program of a trace under `neap run`, in the time that neap's own work takes.
//!
//! The pacer, the page table with its generations, and readahead are those of `neap run`. What is imagined
//! is the program, the time, and what pages compress to. Two clocks: the program's, which stands still
//! while it waits for a page or for room, and reclaim's, which works on another cpu.

use std::collections::VecDeque;
use std::ops::Range;

use neap_policy::{Core, Heat, Pacer, Plan, PoolGate, State, Step, WalkReadahead};
use neap_tuning::TUNING;
use neap_units::{Bytes, Nanos, PAGE_SIZE, PageId, PageNr, SlotId, SpaceId};
use serde::Serialize;

use super::NeapCosts;
use crate::trace::{Backing, Event, Trace};

pub(super) const WRITTEN: u8 = 1;
pub(super) const IN_POOL: u8 = 2;
pub(super) const ON_DISK: u8 = 4;
pub(super) const UNWATCHED: u8 = 8;
pub(super) const BY_DICTIONARY: u8 = 16;

/// The job that a trace runs in.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NeapJob {
    /// `-m`.
    pub limit: Bytes,
    /// `--pool-max`.
    pub pool_max_percent: u8,
    /// Whether there is a swap file.
    pub swap: bool,
    /// Cpus of the machine.
    pub cpus: u32,
}

/// What a trace does not say.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Assumed {
    pub costs: NeapCosts,
    /// How many times smaller pages get, alone and with a dictionary.
    pub ratio: (f64, f64),
    /// Pages brought ahead were used at once.
    pub ahead_used: bool,
    /// Pages that neap did not watch were touched all the time.
    pub unwatched_hot: bool,
}

/// What is counted in a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct NeapCounts {
    /// Faults that waited for a compressed page.
    pub pgmajfault: u64,
    /// Pages moved back before they were compressed.
    pub returned: u64,
    /// Pages decompressed.
    pub zswpin: u64,
    /// Pages compressed.
    pub zswpout: u64,
    /// Pages read from the swap file.
    pub pswpin: u64,
    /// Pages written to it.
    pub pswpout: u64,
    /// The limit would not be kept: pool and swap file take no more.
    pub over: bool,
}

/// What a run came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Played {
    /// Time the program waited.
    pub stall: Nanos,
    pub counts: NeapCounts,
    /// No bound is known: it might have wanted all that is taken from it at once.
    pub endless: bool,
}

pub(super) struct Player {
    pub(super) job: NeapJob,
    pub(super) assumed: Assumed,
    pub(super) core: Core,
    pub(super) space: SpaceId,
    pub(super) pacer: Pacer,
    pub(super) plan: Plan,
    pub(super) next_sample: Nanos,
    pub(super) gate: PoolGate,
    pub(super) readahead: WalkReadahead,
    pub(super) flags: Vec<u8>,
    /// Staged blocks, oldest first: pages and the slot each got.
    pub(super) blocks: VecDeque<Vec<(PageId, SlotId)>>,
    pub(super) slots: u32,
    pub(super) staged: u64,
    /// Compressed pages in the order of their stores, and how many are in the pool.
    pub(super) stored: VecDeque<u32>,
    pub(super) pool: u64,
    /// How many of these were compressed with a dictionary.
    pub(super) helped: u64,
    /// The program's clock, and reclaim's.
    pub(super) now: Nanos,
    pub(super) busy: Nanos,
    pub(super) reclaiming: bool,
    pub(super) bounced: u64,
    pub(super) out: Played,
}

/// Plays a trace. Time that passes in it is scaled by `pace`.
pub(super) fn play(trace: &Trace, job: NeapJob, assumed: Assumed, pace: f64) -> Played {
    let mut player = Player::new(trace, job, assumed);
    let private = private(trace);
    let mut worked = Nanos::ZERO;
    for event in trace.events() {
        match event {
            Event::Time(span) => {
                let span = Nanos((span.0 as f64 * pace) as u64);
                worked += span;
                player.now += span;
                player.reclaim();
            }
            Event::Touch {
                first,
                count,
                write,
            } => {
                let seen = trace.limit().is_some();
                player.each(&private, first, count, |player, page| {
                    player.touch(page, write);
                    player.mark(page, UNWATCHED, seen);
                });
            }
            Event::Watch { first, count, on } => {
                player.each(&private, first, count, |player, page| {
                    if !on && player.assumed.ahead_used {
                        player.touch(page, false);
                    }
                    player.mark(page, UNWATCHED, !on);
                });
            }
            Event::Free { first, count } => player.each(&private, first, count, Player::free),
        }
        if player.out.endless {
            break;
        }
    }
    player.out.stall = player.now.saturating_sub(worked);
    player.out
}

/// Ranges of pages that neap manages.
fn private(trace: &Trace) -> Vec<Range<u32>> {
    let mut first = 0;
    let mut ranges = Vec::new();
    for area in trace.areas() {
        if area.backing == Backing::Anon {
            ranges.push(first..first + area.pages);
        }
        first += area.pages;
    }
    ranges
}

impl Player {
    fn new(trace: &Trace, job: NeapJob, assumed: Assumed) -> Player {
        let mut core = Core::new();
        let space = core.add_space();
        let mut pacer = Pacer::new(job.limit, job.cpus);
        let plan = pacer.observe(Nanos::ZERO, Bytes::ZERO);
        let most = Bytes(job.limit.0 / 100 * u64::from(job.pool_max_percent));
        Player {
            job,
            assumed,
            core,
            space,
            pacer,
            plan,
            next_sample: Nanos::ZERO,
            gate: PoolGate::new(most.whole_pages(), TUNING.pool.accept.as_percent() as u8),
            readahead: WalkReadahead::default(),
            flags: vec![0; trace.pages() as usize],
            blocks: VecDeque::new(),
            slots: 0,
            staged: 0,
            stored: VecDeque::new(),
            pool: 0,
            helped: 0,
            now: Nanos::ZERO,
            busy: Nanos::ZERO,
            reclaiming: false,
            bounced: 0,
            out: Played::default(),
        }
    }

    fn each(
        &mut self,
        private: &[Range<u32>],
        first: u32,
        count: u32,
        mut act: impl FnMut(&mut Player, u32),
    ) {
        for range in private {
            let from = first.max(range.start);
            (from..(first + count).min(range.end)).for_each(|page| act(self, page));
        }
    }

    pub(super) fn mark(&mut self, page: u32, flag: u8, on: bool) {
        let flags = &mut self.flags[page as usize];
        *flags = if on { *flags | flag } else { *flags & !flag };
    }

    pub(super) fn has(&self, page: u32, flag: u8) -> bool {
        self.flags[page as usize] & flag != 0
    }

    pub(super) fn apply(&mut self, id: PageId, step: Step) {
        let done = self.core.apply(id, step);
        debug_assert!(done.is_ok(), "{done:?}");
    }

    pub(super) fn page_of(&self, id: PageId) -> u32 {
        self.core.locate(id).1.0 as u32
    }

    pub(super) fn pool_bytes(&self) -> u64 {
        let of = |pages: u64, ratio: f64| pages as f64 * PAGE_SIZE as f64 / ratio.max(1.0);
        let (alone, dictionary) = self.assumed.ratio;
        let bytes = of(self.pool - self.helped, alone) + of(self.helped, dictionary);
        let bytes = bytes as u64;
        bytes + TUNING.forecast.pool_overhead.of(bytes)
    }

    pub(super) fn usage(&self) -> Bytes {
        let pages = self.core.total_resident().0 + self.staged;
        let own = TUNING.forecast.own.0 + self.flags.len() as u64 * TUNING.forecast.own_per_page.0;
        Bytes(pages * PAGE_SIZE as u64 + self.pool_bytes() + own)
    }

    fn touch(&mut self, page: u32, write: bool) {
        match self.core.state_at(self.space, PageNr(page.into())) {
            State::Absent => self.fresh(page),
            State::Staged { .. } => self.bring_home(page),
            State::Stored { .. } => self.load(page),
            _ => {}
        }
        if write {
            self.mark(page, WRITTEN, true);
        }
    }

    fn fresh(&mut self, page: u32) {
        if self.plan.arm {
            self.now += self.assumed.costs.fresh;
            self.wait_for(1);
        }
        let id = self.core.ensure(self.space, PageNr(page.into()));
        let heat = if self.plan.arm { Heat::Hot } else { Heat::Warm };
        self.apply(id, Step::Adopt(heat));
        self.mark(page, WRITTEN, true);
        self.reclaim();
    }

    /// A fault, told to readahead as the engine tells it.
    fn window(&mut self, page: u32) -> Range<PageNr> {
        let there = |range| self.core.are_resident(self.space, range);
        self.readahead.fault(PageNr(page.into()), there)
    }

    fn bring_home(&mut self, page: u32) {
        let window = self.window(page);
        let (mut at, mut heat, mut count) = (u64::from(page), Heat::Hot, 0);
        loop {
            let id = self.core.find(self.space, PageNr(at));
            let staged = id.filter(|&id| matches!(self.core.state(id), State::Staged { .. }));
            let Some(id) = staged else { break };
            self.home(id, heat);
            (at, heat, count) = (at + 1, Heat::Warm, count + 1);
            if at >= window.end.0 {
                break;
            }
        }
        self.readahead.ends_at(PageNr(at));
        self.out.counts.returned += count;
        let costs = &self.assumed.costs;
        self.now += costs.fault + Nanos(costs.back.0 * count);
        self.reclaim();
    }

    pub(super) fn home(&mut self, id: PageId, heat: Heat) {
        self.apply(id, Step::BeginReturn);
        self.apply(id, Step::EndReturn(heat));
        self.staged -= 1;
    }

    fn load(&mut self, page: u32) {
        let window = self.window(page);
        let on_disk = self.has(page, ON_DISK);
        let mut inbound = Vec::new();
        let end = window.end.0.min(self.flags.len() as u64);
        for at in window.start.0..end.max(u64::from(page) + 1) {
            let Some(id) = self.core.find(self.space, PageNr(at)) else {
                continue;
            };
            let at = at as u32;
            let comes = at == page || on_disk || !self.has(at, ON_DISK);
            if comes && matches!(self.core.state(id), State::Stored { .. }) {
                self.apply(id, Step::BeginLoad);
                inbound.push((id, at));
            }
        }
        if let Some((_, last)) = inbound.last() {
            self.readahead.ends_at(PageNr(u64::from(*last) + 1));
        }
        let read = inbound.iter().filter(|(_, at)| self.has(*at, ON_DISK));
        let read = read.count() as u64;
        let costs = self.assumed.costs;
        self.now += costs.fault + Nanos(costs.fill.0 * inbound.len() as u64);
        if read > 0 {
            self.now += costs.disk_read;
        }
        self.out.counts.pgmajfault += 1;
        self.out.counts.pswpin += read;
        self.out.counts.zswpin += inbound.len() as u64 - read;
        self.wait_for(inbound.len() as u64);
        let keeps = TUNING
            .loads
            .keep_below
            .is_more_than(self.pool_bytes(), self.job.limit.0);
        let keep = keeps && inbound.len() >= TUNING.loads.keep_from;
        for (id, at) in inbound {
            let heat = if at == page { Heat::Hot } else { Heat::Warm };
            self.apply(id, Step::EndLoad { keep, heat });
            self.mark(at, WRITTEN, false);
            if !keep {
                self.forget(at);
            }
        }
        self.reclaim();
    }

    /// The page is compressed into the pool.
    pub(super) fn keep(&mut self, page: u32) {
        let dictionary = self.out.counts.zswpout > TUNING.dictionaries.stored_before().0
            && self.job.limit >= TUNING.dictionaries.least_limit;
        self.pool += 1;
        self.helped += u64::from(dictionary);
        self.mark(page, IN_POOL, true);
        self.mark(page, BY_DICTIONARY, dictionary);
        self.stored.push_back(page);
    }

    /// The compressed page is there no more.
    pub(super) fn forget(&mut self, page: u32) {
        self.pool -= u64::from(self.has(page, IN_POOL));
        self.helped -= u64::from(self.has(page, BY_DICTIONARY));
        self.mark(page, IN_POOL | ON_DISK | BY_DICTIONARY, false);
    }

    fn free(&mut self, page: u32) {
        let at = PageNr(page.into());
        if matches!(self.core.state_at(self.space, at), State::Staged { .. }) {
            self.staged -= 1;
        }
        self.core.remove_range(self.space, at..PageNr(at.0 + 1));
        self.forget(page);
        self.mark(page, UNWATCHED | WRITTEN, false);
    }
}
