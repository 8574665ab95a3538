//! Compressing what nobody touched while it was staged.

use std::sync::Arc;

use neap_policy::{Core, State, Step};
use neap_store::Refused;
use neap_sys::Piece;
use neap_tuning::TUNING;
use neap_units::{Bytes, EntryId, PAGE_SIZE, PageId, SlotId};

use super::workers::Work;
use crate::load::{Filler, return_staged};
use crate::space::{Body, Space, offer};
use crate::writeback::{RELIEF, write_poor};

/// What became of one staged page.
enum Outcome {
    Stored,
    /// It was touched or dropped meanwhile.
    Gone,
    /// It stays with the program. `for_good`: it does not compress, or there is nothing that could make room.
    Refused {
        for_good: bool,
    },
}

/// What became of a block of staged pages.
#[derive(Default)]
pub(super) struct Taken {
    pub stored: u64,
    /// Refused for good.
    pub refused: u64,
}

/// Stores staged blocks. Each thread that does has its own.
pub(super) struct Storer {
    work: Arc<Work>,
    codec: neap_store::Codec,
    buffer: Vec<u8>,
}

impl Storer {
    pub fn new(work: Arc<Work>) -> Self {
        Self {
            codec: work.job.store.codec(),
            buffer: vec![0; TUNING.reclaim.read.as_usize() * PAGE_SIZE],
            work,
        }
    }

    /// Stores the live pages of the block that has been staged longest.
    pub fn store_block(&mut self, space: &Arc<Space>, body: &Body) -> Taken {
        let mut taken = Taken::default();
        let Some((block, slots)) = body.stage.take_oldest() else {
            return taken;
        };
        let slots = self.begin(space, body, slots);
        let mut refused = Vec::new();
        for slots in slots.chunks(TUNING.reclaim.read.as_usize()) {
            self.store_slots(space, body, slots, &mut taken, &mut refused);
        }
        for slot in refused {
            self.send_home(space, body, slot);
        }
        body.stage.unpin_block(block);
        write_poor(&self.work.job);
        taken
    }

    fn store_slots(
        &mut self,
        space: &Arc<Space>,
        body: &Body,
        slots: &[SlotId],
        taken: &mut Taken,
        refused: &mut Vec<SlotId>,
    ) {
        let job = &self.work.job;
        let read = read_slots(body, slots, &mut self.buffer);
        for (&slot, bytes) in slots.iter().zip(self.buffer.chunks_exact(PAGE_SIZE)) {
            let bytes: &[u8; PAGE_SIZE] = bytes.try_into().expect("one page");
            let outcome = if read {
                store_page(job, space, body, slot, bytes, &mut self.codec)
            } else {
                abort(job, space, body, slot, false)
            };
            match outcome {
                Outcome::Stored => {
                    taken.stored += 1;
                    self.work.sample(space, body, bytes, &mut self.codec);
                }
                Outcome::Refused { for_good } => {
                    taken.refused += u64::from(for_good);
                    refused.push(slot);
                }
                Outcome::Gone => {}
            }
        }
    }

    /// Marks the pages as being stored; returns the slots that still hold one.
    fn begin(&self, space: &Space, body: &Body, mut slots: Vec<SlotId>) -> Vec<SlotId> {
        let job = &self.work.job;
        let mut core = job.core();
        slots.retain(|&slot| {
            let Some(id) = page_in(&core, space, body, slot) else {
                return false;
            };
            let staged = matches!(core.state(id), State::Staged { slot: at, .. } if at == slot);
            if staged {
                job.must(core.apply(id, Step::BeginStore));
            }
            staged
        });
        slots
    }

    /// A page that no store would take lives in the program.
    fn send_home(&self, space: &Space, body: &Body, slot: SlotId) {
        let job = &self.work.job;
        let _gate = space.gate.read();
        if space.expects() {
            return; // it stays where it is for now
        }
        let core = job.core();
        // An event may have dropped the page since.
        let id = page_in(&core, space, body, slot);
        let staged =
            |&id: &PageId| matches!(core.state(id), State::Staged { slot: at, .. } if at == slot);
        let Some(id) = id.filter(staged) else {
            return;
        };
        let page = core.locate(id).1;
        drop(core);
        return_staged(
            job,
            space,
            &mut Filler::at_once(),
            page,
            &(page..page),
            true,
        );
    }
}

/// The page that a slot holds, if it is still this space's. Under the core's lock a record belongs to who has it,
/// but a slot may tell of one that was given up (unmapped, or its space has ended) until whoever did that has come
/// to release it; the record may be another space's by then, and staged there in a slot of the same number.
fn page_in(core: &Core, space: &Space, body: &Body, slot: SlotId) -> Option<PageId> {
    let is_ours = |&id: &PageId| {
        core.try_locate(id)
            .is_some_and(|(owner, _)| owner == space.id)
    };
    body.stage
        .page_in(slot)
        .filter(is_ours)
        .filter(|_| !space.is_dead())
}

/// Reads the slots into the buffer, one page each. The block is pinned: the frames stay, or have
/// gone home, in which case what is read here is thrown away.
fn read_slots(body: &Body, slots: &[SlotId], buffer: &mut [u8]) -> bool {
    let mut pieces: Vec<Piece<'_>> = Vec::new();
    let mut rest = &mut buffer[..slots.len() * PAGE_SIZE];
    let mut at = 0;
    while at < slots.len() {
        let follows = |(i, slot): &(usize, &SlotId)| slot.0 == slots[at].0 + *i as u32;
        let run = slots[at..].iter().enumerate().take_while(follows).count();
        let (to, left) = rest.split_at_mut(run * PAGE_SIZE);
        pieces.push(Piece {
            from: body.stage.address(slots[at]),
            to,
        });
        rest = left;
        at += run;
    }
    body.view.read(&mut pieces).is_ok()
}

/// The copy if it holds what the page does. Else it is given up, before the page asks for room: where pool and disk are
/// full of copies that no page has any more, nothing else would make some.
fn unchanged(
    job: &crate::job::Job,
    space: &Space,
    (body, slot): (&Body, SlotId),
    copy: EntryId,
    bytes: &[u8; PAGE_SIZE],
    codec: &mut neap_store::Codec,
) -> Option<EntryId> {
    let same = job.store.matches(copy, bytes, codec);
    space.copies.note(same);
    if same {
        return Some(copy);
    }
    let mut core = job.core();
    let has = page_in(&core, space, body, slot).filter(|&id| {
        matches!(core.state(id), State::Storing { slot: at, copy: Some(of) } if at == slot && of == copy)
    });
    let effect = has.map(|id| job.must(core.apply(id, Step::DropCopy)));
    drop(core);
    if let Some(effect) = effect {
        job.release(space, effect);
    }
    job.store.put(copy); // the reference that held it for the comparison
    None
}

/// Whether a page that the store has refused may be taken later: something is written to the swap file for it.
fn waits_for_room(job: &crate::job::Job, space: &Space, refused: Refused) -> bool {
    match refused {
        Refused::PoolFull => {
            job.ask_shrinker(0);
            job.store.can_write_back()
        }
        Refused::ZswapMax => {
            job.ask_shrinker(RELIEF);
            space.group.account.writes() && job.store.can_write_back()
        }
        _ => false,
    }
}

fn store_page(
    job: &crate::job::Job,
    space: &Space,
    body: &Body,
    slot: SlotId,
    bytes: &[u8; PAGE_SIZE],
    codec: &mut neap_store::Codec,
) -> Outcome {
    let Some(copy) = storing(job, space, body, slot) else {
        return Outcome::Gone;
    };
    let unchanged = copy.and_then(|copy| unchanged(job, space, (body, slot), copy, bytes, codec));
    let entry = match unchanged {
        Some(copy) => copy,
        None => match job.store.store(space.id, bytes, codec) {
            Ok(entry) => entry,
            Err(refused) => {
                let waits = waits_for_room(job, space, refused);
                return abort(job, space, body, slot, !waits);
            }
        },
    };
    if space.group.account.excess() > Bytes(0) && job.store.can_write() {
        job.ask_shrinker(RELIEF);
    }
    let relatives = space.kin.relatives(job, space.id);
    let mut core = job.core();
    let page = page_in(&core, space, body, slot);
    let storing = page.and_then(|id| match core.state(id) {
        State::Storing { slot: at, copy } if at == slot => Some((id, copy)),
        _ => None,
    });
    let Some((id, copy)) = storing else {
        drop(core);
        job.store.put(entry);
        return Outcome::Gone;
    };
    let reused = copy == Some(entry);
    let effect = job.must(core.apply(id, Step::CommitStore(entry)));
    let page = core.locate(id).1;
    if !relatives.is_empty() && space.kin.take_parted(page) {
        offer(job, &mut core, &relatives, page, entry);
    }
    drop(core);
    job.release(space, effect);
    if unchanged.is_some() {
        space.group.count(|events| &events.clean, 1);
        if reused {
            job.store.put(entry); // the reference that held it for the comparison
        }
    }
    Outcome::Stored
}

/// The copy of a page that is still being stored from this slot. The copy is held (one reference),
/// since an event may free it while it is compared.
#[expect(
    clippy::option_option,
    reason = "gone, or being stored without or with a copy"
)]
fn storing(
    job: &crate::job::Job,
    space: &Space,
    body: &Body,
    slot: SlotId,
) -> Option<Option<EntryId>> {
    let core = job.core();
    let id = page_in(&core, space, body, slot)?;
    match core.state(id) {
        State::Storing { slot: at, copy } if at == slot => {
            if let Some(copy) = copy {
                job.store.get(copy);
            }
            Some(copy)
        }
        _ => None,
    }
}

fn abort(
    job: &crate::job::Job,
    space: &Space,
    body: &Body,
    slot: SlotId,
    for_good: bool,
) -> Outcome {
    let mut core = job.core();
    let Some(id) = page_in(&core, space, body, slot) else {
        return Outcome::Gone;
    };
    match core.state(id) {
        State::Storing { slot: at, .. } if at == slot => {
            job.must(core.apply(id, Step::AbortStore));
            Outcome::Refused { for_good }
        }
        _ => Outcome::Gone,
    }
}
