//! One call and its answer as bytes.
//!
//! The first byte names the call; for [`Core::apply`](neap_policy::Core::apply), by far the most
//! frequent, it names the step too, and its two highest bits say whether an entry and a slot were
//! freed. Numbers are distances from the last of their kind, so that a walk over neighbours takes one
//! byte for each.

use neap_policy::{Advice, Effect, Heat, Hint, State, Step};
use neap_units::{EntryId, PageId, PageNr, Pages, SlotId, SpaceId};

use crate::call::{Answer, Call, Counts, Moved};
use crate::decide::{PAGES, Who};
use crate::varint::{Fault, byte, pull, pull_near, push, push_near};

type Result<T> = std::result::Result<T, Fault>;

const FREED_ENTRY: u8 = 0x40;
const FREED_SLOT: u8 = 0x80;

/// First byte of a step that was refused.
const ILLEGAL: u8 = 0x20;
const ADD_SPACE: u8 = 0x21;
const DROP_SPACE: u8 = 0x22;
const ENSURE: u8 = 0x23;
const CHOOSE: u8 = 0x24;
const PICK: u8 = 0x25;
const REMOVE: u8 = 0x26;
const REMAP: u8 = 0x27;
const FORK: u8 = 0x28;
const WANT: u8 = 0x29;
const TAKE_WANTED: u8 = 0x2a;
const COUNT: u8 = 0x2b;
const TIME: u8 = 0x2c;
const FAULT: u8 = 0x2d;
const HINT: u8 = 0x2e;
const MAKE: u8 = 0x2f;
const DECIDE: u8 = 0x30;
const UNMAKE: u8 = 0x31;

/// The numbers named last. Writer and reader begin each block with a fresh one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Coder {
    space: u64,
    page: u64,
    record: u64,
    entry: u64,
    slot: u64,
    decider: u64,
}

/// What a step's byte is, and whether an entry or a slot follows.
fn step_byte(step: Step) -> (u8, Option<EntryId>, Option<SlotId>) {
    let heated = |base: u8, heat: Heat| (base + u8::from(heat == Heat::Warm), None, None);
    match step {
        Step::Adopt(heat) => heated(0, heat),
        Step::Putback(heat) => heated(2, heat),
        Step::EndReturn(heat) => heated(4, heat),
        Step::EndLoad { keep, heat } => heated(6 + 2 * u8::from(keep), heat),
        Step::Isolate => (10, None, None),
        Step::Stage(slot) => (11, None, Some(slot)),
        Step::Vanish => (12, None, None),
        Step::BeginStore => (13, None, None),
        Step::AbortStore => (14, None, None),
        Step::CommitStore(entry) => (15, Some(entry), None),
        Step::BeginReturn => (16, None, None),
        Step::AbortReturn => (17, None, None),
        Step::BeginLoad => (18, None, None),
        Step::AbortLoad => (19, None, None),
        Step::SetCopy(entry) => (23, Some(entry), None),
        Step::DropCopy => (24, None, None),
        Step::Drop => (25, None, None),
    }
}

/// A reader's place in the bytes of a block.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: &'a mut usize,
}

impl Cursor<'_> {
    fn byte(&mut self) -> Result<u8> {
        byte(self.bytes, self.at)
    }

    fn number(&mut self) -> Result<u64> {
        pull(self.bytes, self.at)
    }

    fn near(&mut self, last: &mut u64) -> Result<u64> {
        pull_near(self.bytes, self.at, last)
    }

    fn near32(&mut self, last: &mut u64) -> Result<u32> {
        u32::try_from(self.near(last)?).map_err(|_| Fault::Malformed)
    }

    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let count = self.number()?;
        // Grows with what is really there, whatever the count claims.
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(item(self)?);
        }
        Ok(items)
    }
}

impl Coder {
    fn put_space(&mut self, out: &mut Vec<u8>, space: SpaceId) {
        push_near(out, &mut self.space, u64::from(space.0));
    }

    fn space(&mut self, from: &mut Cursor<'_>) -> Result<SpaceId> {
        let number = from.near(&mut self.space)?;
        let number = u16::try_from(number).map_err(|_| Fault::Malformed)?;
        Ok(SpaceId(number))
    }

    fn put_page(&mut self, out: &mut Vec<u8>, page: PageNr) {
        push_near(out, &mut self.page, page.0);
    }

    fn page(&mut self, from: &mut Cursor<'_>) -> Result<PageNr> {
        let page = from.near(&mut self.page)?;
        if page < PAGES {
            Ok(PageNr(page))
        } else {
            Err(Fault::Malformed)
        }
    }

    fn put_record(&mut self, out: &mut Vec<u8>, id: PageId) {
        push_near(out, &mut self.record, u64::from(id.0));
    }

    fn record(&mut self, from: &mut Cursor<'_>) -> Result<PageId> {
        from.near32(&mut self.record).map(PageId)
    }

    fn put_entry(&mut self, out: &mut Vec<u8>, entry: EntryId) {
        push_near(out, &mut self.entry, u64::from(entry.0));
    }

    fn entry(&mut self, from: &mut Cursor<'_>) -> Result<EntryId> {
        let entry = EntryId(from.near32(&mut self.entry)?);
        if entry <= EntryId::MAX {
            Ok(entry)
        } else {
            Err(Fault::Malformed)
        }
    }

    fn put_slot(&mut self, out: &mut Vec<u8>, slot: SlotId) {
        push_near(out, &mut self.slot, u64::from(slot.0));
    }

    fn slot(&mut self, from: &mut Cursor<'_>) -> Result<SlotId> {
        from.near32(&mut self.slot).map(SlotId)
    }

    fn put_who(&mut self, out: &mut Vec<u8>, who: Who) {
        out.push(who.kind);
        push_near(out, &mut self.decider, who.number);
    }

    fn who(&mut self, from: &mut Cursor<'_>) -> Result<Who> {
        let kind = from.byte()?;
        let number = from.near(&mut self.decider)?;
        Ok(Who { kind, number })
    }

    fn put_freed(&mut self, out: &mut Vec<u8>, effect: Effect) {
        if let Some(entry) = effect.freed_entry {
            self.put_entry(out, entry);
        }
        if let Some(slot) = effect.freed_slot {
            self.put_slot(out, slot);
        }
    }

    fn freed(&mut self, from: &mut Cursor<'_>, bits: u8) -> Result<Effect> {
        let entry = (bits & FREED_ENTRY != 0).then(|| self.entry(from));
        let freed_entry = entry.transpose()?;
        let slot = (bits & FREED_SLOT != 0).then(|| self.slot(from));
        let freed_slot = slot.transpose()?;
        Ok(Effect {
            freed_entry,
            freed_slot,
        })
    }

    fn put_effects(&mut self, out: &mut Vec<u8>, effects: &[Effect]) {
        push(out, effects.len() as u64);
        for &effect in effects {
            out.push(bits(effect));
            self.put_freed(out, effect);
        }
    }

    fn effects(&mut self, from: &mut Cursor<'_>) -> Result<Vec<Effect>> {
        from.list(|from| {
            let bits = from.byte()?;
            if bits & !(FREED_ENTRY | FREED_SLOT) != 0 {
                return Err(Fault::Malformed);
            }
            self.freed(from, bits)
        })
    }

    fn put_state(&mut self, out: &mut Vec<u8>, state: State) {
        let kind = match state {
            State::Absent => 0,
            State::Resident { .. } => 1,
            State::Isolated { .. } => 2,
            State::Staged { .. } => 3,
            State::Storing { .. } => 4,
            State::Returning { .. } => 5,
            State::Stored { .. } => 6,
            State::Loading { .. } => 7,
        };
        let holds = Effect {
            freed_entry: state.entry(),
            freed_slot: state.slot(),
        };
        out.push(kind | bits(holds));
        self.put_freed(out, holds);
    }

    fn state(&mut self, from: &mut Cursor<'_>) -> Result<State> {
        let kind = from.byte()?;
        let holds = self.freed(from, kind)?;
        let copy = holds.freed_entry;
        let slot = holds.freed_slot.ok_or(Fault::Malformed);
        let entry = copy.ok_or(Fault::Malformed);
        let state = match kind & 0x3f {
            0 => State::Absent,
            1 => State::Resident { copy },
            2 => State::Isolated { copy },
            3 => State::Staged { slot: slot?, copy },
            4 => State::Storing { slot: slot?, copy },
            5 => State::Returning { slot: slot?, copy },
            6 => State::Stored { entry: entry? },
            7 => State::Loading { entry: entry? },
            _ => return Err(Fault::Malformed),
        };
        if (state.entry(), state.slot()) == (holds.freed_entry, holds.freed_slot) {
            Ok(state)
        } else {
            Err(Fault::Malformed)
        }
    }

    /// The id and what the step carries.
    fn put_step(&mut self, out: &mut Vec<u8>, id: PageId, step: Step, bits: u8) {
        let (kind, entry, slot) = step_byte(step);
        out.push(kind | bits);
        self.put_record(out, id);
        if let Some(entry) = entry {
            self.put_entry(out, entry);
        }
        if let Some(slot) = slot {
            self.put_slot(out, slot);
        }
    }

    fn step(&mut self, from: &mut Cursor<'_>, kind: u8) -> Result<(PageId, Step)> {
        let id = self.record(from)?;
        let heat = match kind & 1 {
            0 => Heat::Hot,
            _ => Heat::Warm,
        };
        let step = match kind {
            0 | 1 => Step::Adopt(heat),
            2 | 3 => Step::Putback(heat),
            4 | 5 => Step::EndReturn(heat),
            6..=9 => Step::EndLoad {
                keep: kind >= 8,
                heat,
            },
            10 => Step::Isolate,
            11 => Step::Stage(self.slot(from)?),
            12 => Step::Vanish,
            13 => Step::BeginStore,
            14 => Step::AbortStore,
            15 => Step::CommitStore(self.entry(from)?),
            16 => Step::BeginReturn,
            17 => Step::AbortReturn,
            18 => Step::BeginLoad,
            19 => Step::AbortLoad,
            23 => Step::SetCopy(self.entry(from)?),
            24 => Step::DropCopy,
            25 => Step::Drop,
            _ => return Err(Fault::Malformed),
        };
        Ok((id, step))
    }
}

fn hint_byte(hint: Hint) -> u8 {
    match hint {
        Hint::Use(Advice::Normal) => 0,
        Hint::Use(Advice::Sequential) => 1,
        Hint::Use(Advice::Random) => 2,
        Hint::Use(Advice::NoReuse) => 3,
        Hint::Cold => 4,
        Hint::Soon => 5,
    }
}

fn hint_of(byte: u8) -> Result<Hint> {
    Ok(match byte {
        0 => Hint::Use(Advice::Normal),
        1 => Hint::Use(Advice::Sequential),
        2 => Hint::Use(Advice::Random),
        3 => Hint::Use(Advice::NoReuse),
        4 => Hint::Cold,
        5 => Hint::Soon,
        _ => return Err(Fault::Malformed),
    })
}

/// The bit, if it is so.
fn bit(so: bool, bit: u8) -> u8 {
    if so { bit } else { 0 }
}

fn put_numbers(out: &mut Vec<u8>, numbers: &[u64]) {
    push(out, numbers.len() as u64);
    numbers.iter().for_each(|&number| push(out, number));
}

fn bits(effect: Effect) -> u8 {
    let entry = bit(effect.freed_entry.is_some(), FREED_ENTRY);
    entry | bit(effect.freed_slot.is_some(), FREED_SLOT)
}

mod read;
mod write;
