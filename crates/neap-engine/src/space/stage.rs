//! The staging area: the inactive list made of memory.
//!
//! A page that was chosen is moved here whole. It waits in a block of 64 slots; blocks are taken in
//! order, so the oldest full block holds the pages that nobody has touched for longest. A slot is
//! *live* while its page may still come back from it. A block whose slots are all dead and that
//! nobody reads (no pins) is recycled by the agent and used again, never before.
//!
//! `mlockall(MCL_CURRENT)` fills each mapping from its beginning, and goes on with the next where it cannot. The stage is one
//! mapping that begins with a page in use; but while a block is emptied it is three. So each block begins with a guard page
//! that is poisoned: else mlockall would fill the whole stage.

use std::collections::VecDeque;
use std::ops::Range;

use neap_sys::{Lock, Locked};
use neap_units::{PAGE_SIZE, PageId, SlotId};
use neap_wire::BLOCK_PAGES;

const SLOTS: u32 = BLOCK_PAGES as u32;
/// Bytes of addresses that a block has: its guard page, then its slots.
pub(crate) const BLOCK_BYTES: u64 = (1 + BLOCK_PAGES) * PAGE_SIZE as u64;

/// Number of a block in its stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BlockId(pub u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Free,
    /// Being filled; at most one.
    Open,
    /// Filled, or taken for storing before it was.
    Closed,
    /// With the agent.
    Recycling,
    /// The agent could not empty it: never used again.
    Broken,
}

struct Block {
    phase: Phase,
    used: u32,
    live: u64,
    pins: u32,
    /// Slots with a frame, live or not.
    frames: u32,
    /// When it began to wait, in nanoseconds.
    waits_since: u64,
    pages: [u32; SLOTS as usize],
}

impl Block {
    const NEW: Self = Self {
        phase: Phase::Free,
        used: 0,
        live: 0,
        pins: 0,
        frames: 0,
        waits_since: 0,
        pages: [0; SLOTS as usize],
    };
}

struct Blocks {
    blocks: Vec<Block>,
    free: Vec<u32>,
    /// Blocks whose guard page is poisoned, or could not be: so many, from the first.
    guarded: u32,
    open: Option<u32>,
    /// Closed and not yet taken for storing, oldest first.
    waiting: VecDeque<u32>,
    /// Dead, to be recycled.
    dead: Vec<u32>,
}

/// Consecutive slots handed out for one move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reserved {
    pub first: SlotId,
    pub count: u32,
}

pub(crate) struct Stage {
    base: u64,
    capacity: u32,
    inner: Lock<Blocks, 6>,
}

impl Stage {
    pub fn new(base: u64, bytes: u64) -> Self {
        Self {
            base,
            capacity: u32::try_from(bytes / BLOCK_BYTES).unwrap_or(u32::MAX),
            inner: Lock::new(Blocks {
                blocks: Vec::new(),
                free: Vec::new(),
                guarded: 0,
                open: None,
                waiting: VecDeque::new(),
                dead: Vec::new(),
            }),
        }
    }

    fn lock(&self) -> Locked<'_, Blocks, 6> {
        self.inner.lock()
    }

    /// Address of a slot, in the program.
    pub fn address(&self, slot: SlotId) -> u64 {
        let block = self.span(BlockId(slot.0 / SLOTS));
        block.start + (1 + u64::from(slot.0 % SLOTS)) * PAGE_SIZE as u64
    }

    /// Addresses of a block, in the program: of its guard page and its slots.
    pub fn span(&self, block: BlockId) -> Range<u64> {
        let start = self.base + u64::from(block.0) * BLOCK_BYTES;
        start..start + BLOCK_BYTES
    }

    /// The guard page that is to be poisoned next: each block that was ever opened has one, and so has the block behind them.
    pub fn unguarded(&self) -> Option<Range<u64>> {
        let inner = self.lock();
        let wanted = (inner.blocks.len() as u32 + 1).min(self.capacity);
        let next = (inner.guarded < wanted).then_some(BlockId(inner.guarded))?;
        let start = self.span(next).start;
        Some(start..start + PAGE_SIZE as u64)
    }

    /// That page is poisoned, or cannot be.
    pub fn note_guarded(&self) {
        self.lock().guarded += 1;
    }

    /// Up to `want` consecutive free slots; `None` when every block is in use. The block is pinned
    /// until [`unpin`](Self::unpin) of the first slot, so that it is not recycled between the move
    /// into it and [`fill`](Self::fill).
    pub fn reserve(&self, want: u32) -> Option<Reserved> {
        let mut inner = self.lock();
        let number = match inner.open {
            Some(open) => open,
            None => inner.open_block(self.capacity)?,
        };
        let block = &mut inner.blocks[number as usize];
        let first = SlotId(number * SLOTS + block.used);
        let count = want.min(SLOTS - block.used);
        block.used += count;
        block.pins += 1;
        if block.used == SLOTS {
            inner.close_open();
        }
        Some(Reserved { first, count })
    }

    /// A reserved slot now holds the frame of `page`.
    pub fn fill(&self, slot: SlotId, page: PageId) {
        let mut inner = self.lock();
        let (block, at) = inner.slot(slot);
        block.live |= 1 << at;
        block.pages[at] = page.0;
        block.frames += 1;
    }

    /// The page of a live slot changed its record.
    pub fn rename(&self, slot: SlotId, page: PageId) {
        let mut inner = self.lock();
        let (block, at) = inner.slot(slot);
        block.pages[at] = page.0;
    }

    /// The page that a slot holds, if it is live.
    pub fn page_in(&self, slot: SlotId) -> Option<PageId> {
        let mut inner = self.lock();
        let (block, at) = inner.slot(slot);
        (block.live & (1 << at) != 0).then(|| PageId(block.pages[at]))
    }

    /// The slot's frame went home. True when a block became ready to be recycled.
    pub fn vacate(&self, slot: SlotId) -> bool {
        self.lock().slot(slot).0.frames -= 1;
        self.release(slot)
    }

    /// The slot's page is elsewhere now; its frame stays until the block is recycled. True when a block became ready to be recycled.
    pub fn release(&self, slot: SlotId) -> bool {
        let mut inner = self.lock();
        let (block, at) = inner.slot(slot);
        debug_assert!(block.live & (1 << at) != 0, "{slot} released twice");
        block.live &= !(1 << at);
        inner.settle(slot.0 / SLOTS)
    }

    /// Holds the slot's block back from recycling while somebody uses the frame.
    pub fn pin(&self, slot: SlotId) {
        self.lock().slot(slot).0.pins += 1;
    }

    /// Ends a [`pin`](Self::pin). True when a block became ready to be recycled.
    pub fn unpin(&self, slot: SlotId) -> bool {
        let mut inner = self.lock();
        inner.slot(slot).0.pins -= 1;
        inner.settle(slot.0 / SLOTS)
    }

    /// Takes the oldest waiting block for storing, pinned, with its live slots: the open one when no other waits. End with
    /// [`unpin_block`](Self::unpin_block).
    pub fn take_oldest(&self) -> Option<(BlockId, Vec<SlotId>)> {
        let mut inner = self.lock();
        if inner.waiting.is_empty() {
            inner.close_open();
        }
        let number = inner.waiting.pop_front()?;
        let block = &mut inner.blocks[number as usize];
        block.pins += 1;
        let live = block.live;
        let slots = (0..SLOTS).filter(|at| live & (1 << at) != 0);
        Some((
            BlockId(number),
            slots.map(|at| SlotId(number * SLOTS + at)).collect(),
        ))
    }

    /// Ends [`take_oldest`](Self::take_oldest). Live slots left (refused ones) make the block wait
    /// again. True when it became ready to be recycled.
    pub fn unpin_block(&self, block: BlockId) -> bool {
        let mut inner = self.lock();
        inner.blocks[block.0 as usize].pins -= 1;
        inner.settle(block.0)
    }

    /// Blocks for the agent to empty, at most `max`.
    pub fn take_dead(&self, max: usize) -> Vec<BlockId> {
        let mut inner = self.lock();
        let keep = inner.dead.len().saturating_sub(max);
        let taken = inner.dead.split_off(keep);
        for &number in &taken {
            inner.blocks[number as usize].phase = Phase::Recycling;
        }
        taken.into_iter().map(BlockId).collect()
    }

    /// The agent emptied the block (or could not). Returns how many frames that freed.
    pub fn recycled(&self, block: BlockId, emptied: bool) -> u32 {
        let mut inner = self.lock();
        let at = block.0 as usize;
        let frames = if emptied { inner.blocks[at].frames } else { 0 };
        inner.blocks[at] = Block::NEW;
        if emptied {
            inner.free.push(block.0);
        } else {
            inner.blocks[at].phase = Phase::Broken;
        }
        frames
    }

    /// Pages of the program that are here, wanted or not.
    pub fn frames(&self) -> u64 {
        let inner = self.lock();
        inner
            .blocks
            .iter()
            .map(|block| u64::from(block.frames))
            .sum()
    }

    /// Blocks that have not been taken for storing: those that are filled, and whether one is being filled.
    pub fn waiting(&self) -> (usize, bool) {
        let inner = self.lock();
        (inner.waiting.len(), inner.open.is_some())
    }

    /// Blocks that have not been taken for storing, in all.
    pub fn blocks(&self) -> usize {
        let (filled, fills) = self.waiting();
        filled + usize::from(fills)
    }

    /// When the block began to wait, or to be filled, that has waited longest, in nanoseconds.
    pub fn oldest(&self) -> Option<u64> {
        let inner = self.lock();
        let number = inner.waiting.front().copied().or(inner.open)?;
        Some(inner.blocks[number as usize].waits_since)
    }

    /// Whether no block is in use, nor with the agent.
    pub fn is_idle(&self) -> bool {
        let inner = self.lock();
        let idle = |block: &Block| matches!(block.phase, Phase::Free | Phase::Broken);
        inner.blocks.iter().all(idle)
    }

    /// The agent could not be asked: the blocks are dead still.
    pub fn take_back(&self, blocks: &[BlockId]) {
        let mut inner = self.lock();
        for block in blocks {
            inner.blocks[block.0 as usize].phase = Phase::Closed;
            inner.dead.push(block.0);
        }
    }

    /// Panics on a broken invariant.
    pub fn check(&self) {
        let inner = self.lock();
        for (number, block) in inner.blocks.iter().enumerate() {
            let number = u32::try_from(number).expect("block number");
            match block.phase {
                Phase::Free => {
                    assert!(block.live == 0 && block.pins == 0 && inner.free.contains(&number));
                }
                Phase::Open => assert_eq!(inner.open, Some(number)),
                Phase::Closed => assert!(
                    block.pins != 0
                        || inner.dead.contains(&number)
                        || inner.waiting.contains(&number),
                    "block {number} is forgotten"
                ),
                Phase::Recycling | Phase::Broken => assert!(block.live == 0 && block.pins == 0),
            }
        }
    }
}

impl Blocks {
    fn slot(&mut self, slot: SlotId) -> (&mut Block, usize) {
        let at = (slot.0 % SLOTS) as usize;
        (&mut self.blocks[(slot.0 / SLOTS) as usize], at)
    }

    fn open_block(&mut self, capacity: u32) -> Option<u32> {
        let number = match self.free.pop() {
            Some(number) => number,
            None => {
                let number = u32::try_from(self.blocks.len()).ok()?;
                if number >= capacity {
                    return None;
                }
                self.blocks.push(Block::NEW);
                number
            }
        };
        self.blocks[number as usize].phase = Phase::Open;
        self.blocks[number as usize].waits_since = neap_sys::monotonic_nanos();
        self.open = Some(number);
        Some(number)
    }

    /// Nothing more goes into the open block. Slots reserved but not filled stay dead.
    fn close_open(&mut self) {
        if let Some(number) = self.open.take() {
            self.blocks[number as usize].phase = Phase::Closed;
            self.settle(number);
        }
    }

    /// A closed block that nobody uses waits to be stored, or to be recycled if no page is left in it: true.
    fn settle(&mut self, number: u32) -> bool {
        let block = &self.blocks[number as usize];
        if block.phase != Phase::Closed || block.pins > 0 {
            return false;
        }
        let dead = block.live == 0;
        if dead {
            self.waiting.retain(|&waiting| waiting != number);
        }
        let queued = self.waiting.contains(&number) || self.dead.contains(&number);
        match dead {
            _ if queued => {}
            true => self.dead.push(number),
            false => {
                self.waiting.push_back(number);
                self.blocks[number as usize].waits_since = neap_sys::monotonic_nanos();
            }
        }
        dead
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(blocks: u64) -> Stage {
        Stage::new(1 << 30, blocks * BLOCK_BYTES)
    }

    fn fill_block(stage: &Stage) -> Reserved {
        let reserved = stage.reserve(64).expect("room");
        for at in 0..reserved.count {
            stage.fill(SlotId(reserved.first.0 + at), PageId(at));
        }
        stage.unpin(reserved.first);
        reserved
    }

    #[test]
    fn a_block_is_recycled_only_when_every_slot_is_dead_and_no_one_reads_it() {
        let stage = stage(2);
        let reserved = fill_block(&stage);
        let (block, slots) = stage.take_oldest().expect("block");
        assert_eq!(slots.len(), 64);
        for slot in &slots {
            stage.release(*slot);
        }
        assert!(stage.take_dead(9).is_empty(), "still pinned");
        assert!(stage.unpin_block(block));
        assert_eq!(stage.take_dead(9), vec![block]);
        stage.recycled(block, true);
        stage.check();
        assert_eq!(fill_block(&stage).first, reserved.first);
    }

    #[test]
    fn each_block_that_was_opened_and_the_next_begin_with_a_guard_page_that_holds_nothing() {
        let stage = stage(2);
        let page = PAGE_SIZE as u64;
        assert_eq!(stage.unguarded(), Some(1 << 30..(1 << 30) + page));
        stage.note_guarded();
        assert_eq!(stage.unguarded(), None);
        let slots = fill_block(&stage);
        let next = (1 << 30) + BLOCK_BYTES;
        assert_eq!(stage.unguarded(), Some(next..next + page));
        stage.note_guarded();
        assert_eq!(stage.unguarded(), None);
        let last = SlotId(slots.first.0 + slots.count - 1);
        let held = stage.address(slots.first)..stage.address(last) + page;
        let block = stage.span(BlockId(0));
        assert_eq!(held, block.start + page..block.end);
        fill_block(&stage);
        assert_eq!(stage.unguarded(), None, "no block is behind the last");
    }

    #[test]
    fn a_block_being_moved_into_survives_the_death_of_its_first_pages() {
        let stage = stage(1);
        let reserved = stage.reserve(64).expect("room");
        stage.fill(reserved.first, PageId(1));
        stage.release(reserved.first);
        assert!(
            stage.take_dead(9).is_empty(),
            "63 moves may still land here"
        );
        stage.fill(SlotId(reserved.first.0 + 1), PageId(2));
        assert!(!stage.unpin(reserved.first));
        assert!(stage.release(SlotId(reserved.first.0 + 1)));
    }

    #[test]
    fn a_block_that_was_looked_at_before_its_pages_came_is_not_forgotten() {
        let stage = stage(1);
        let reserved = stage.reserve(64).expect("room");
        if let Some((block, _)) = stage.take_oldest() {
            stage.unpin_block(block);
        }
        stage.fill(reserved.first, PageId(1));
        stage.unpin(reserved.first);
        stage.check();
        let taken = stage.take_oldest().map(|(_, slots)| slots);
        assert_eq!(taken, Some(vec![reserved.first]));
    }

    #[test]
    fn the_oldest_block_has_waited_longest() {
        let (one, other) = (stage(2), stage(1));
        assert_eq!(one.oldest(), None);
        fill_block(&one);
        fill_block(&other);
        fill_block(&one);
        assert!(one.oldest() < other.oldest());
        let (block, _) = one.take_oldest().expect("block");
        assert!(one.oldest() > other.oldest());
        one.unpin_block(block); // refused, all of it
        assert_eq!(one.waiting(), (2, false));
        assert!(one.oldest() > other.oldest(), "it waits anew");
    }

    #[test]
    fn a_full_stage_says_so() {
        let stage = stage(1);
        fill_block(&stage);
        assert_eq!(stage.reserve(1), None);
    }

    #[test]
    fn refused_pages_make_their_block_wait_again() {
        let stage = stage(1);
        fill_block(&stage);
        let (block, slots) = stage.take_oldest().expect("block");
        for slot in &slots[1..] {
            stage.release(*slot);
        }
        assert!(!stage.unpin_block(block));
        assert_eq!(
            stage.take_oldest().map(|(_, left)| left),
            Some(vec![slots[0]])
        );
        assert_eq!(stage.page_in(slots[0]), Some(PageId(0)));
    }
}
