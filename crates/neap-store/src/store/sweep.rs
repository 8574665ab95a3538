//! Making room in a full swap file: the records of sparse extents move together.
//!
//! Nothing lists the records of an extent, so they are looked for among all entries. That is slow
//! and rare: only when no extent is free, and never on the way of a fault.

use std::ops::Range;

use neap_tuning::TUNING;

use super::Store;
use super::inner::Inner;
use crate::compress::Codec;
use crate::entry::{Flag, Place};
use crate::swapfile::{BLOCK, Location, Record, blocks_of, next_record, record_room};

/// A record that moves.
struct Move {
    record: Record,
    checksum: u32,
    from: Location,
    /// Where it lies among the records to be written.
    at: usize,
}

/// What became of an extent that was to be emptied.
enum Emptied {
    Yes,
    /// A record of it cannot be read, or is not what was written.
    Damaged,
    /// There is nowhere to write to, or it could not be written.
    NoRoom,
}

impl Store {
    /// Gives the disk space of dead extents back, and empties sparse ones when none is free.
    pub(super) fn tidy_swap(&self, codec: &mut Codec) {
        self.punch_dead();
        for _ in 0..TUNING.swap.emptied {
            let sparse = {
                let inner = self.lock();
                if !inner.writeback() || inner.extents.free_extents() > inner.spare_extents() {
                    return;
                }
                inner.extents.sparsest()
            };
            let Some(range) = sparse else {
                return;
            };
            match self.empty_extent(&range, codec) {
                Emptied::Yes => {}
                Emptied::Damaged => self.lock().extents.leave(&range),
                Emptied::NoRoom => return,
            }
        }
    }

    /// Gives the disk space of dead extents back, but for a few.
    fn punch_dead(&self) {
        loop {
            let Some(range) = self.lock().extents.take_to_punch() else {
                return;
            };
            // A file system that cannot keeps the space; the extent is used again all the same.
            let _ = self.file.punch(range.clone());
            self.lock().extents.punched(range);
        }
    }

    /// Moves all records out of an extent.
    fn empty_extent(&self, extent: &Range<u64>, codec: &mut Codec) -> Emptied {
        let mut moves = self.hold_records(extent);
        let Some(span) = span_of(&moves) else {
            return Emptied::NoRoom;
        };
        let mut blocks = std::mem::take(&mut codec.blocks);
        blocks.resize((span.end - span.start) as usize, 0);
        let done = match self.file.read_many(&mut [(span.start, &mut blocks)]) {
            Ok(()) => self.rewrite(&mut moves, span.start, &mut blocks),
            Err(_) => {
                self.lock().stats.swap_read_fail += 1;
                Emptied::Damaged
            }
        };
        if !matches!(done, Emptied::Yes) {
            self.let_go(&moves, None);
        }
        codec.blocks = blocks;
        done
    }

    /// Holds every entry whose record lies in the extent.
    fn hold_records(&self, extent: &Range<u64>) -> Vec<Move> {
        let mut moves = Vec::new();
        let mut next = 0;
        loop {
            let mut inner = self.lock();
            if next >= inner.entries.numbers() {
                break;
            }
            inner.hold_some(
                next..next.saturating_add(TUNING.swap.looked_at),
                extent,
                &mut moves,
            );
            next = next.saturating_add(TUNING.swap.looked_at);
        }
        moves.sort_by_key(|m| m.from);
        moves
    }

    /// Writes the records, read into `blocks` from byte `start`, somewhere else. A record that is
    /// damaged stops it: its page is lost, but that is for the one who needs it to find out.
    fn rewrite(&self, moves: &mut [Move], start: u64, blocks: &mut [u8]) -> Emptied {
        let intact = moves.iter().all(|m| {
            let at = (m.from.byte() - start) as usize;
            m.record.open(m.checksum, &blocks[at..]).is_some()
        });
        let len = moves.iter().fold(0, |at, m| {
            next_record(at, m.record.len) + record_room(m.record.len)
        });
        if !intact {
            return Emptied::Damaged;
        }
        let region = self.lock().extents.reserve(len.next_multiple_of(BLOCK));
        let Some(region) = region else {
            return Emptied::NoRoom;
        };
        let mut to = 0;
        for m in moves.iter_mut() {
            // Records come in order and move towards the front, so none is overwritten unread.
            let from = (m.from.byte() - start) as usize;
            to = next_record(to, m.record.len);
            blocks.copy_within(from..from + m.record.len, to);
            m.record.generation = region.generation;
            m.checksum = m.record.seal(&blocks[to..]);
            m.at = to;
            to += record_room(m.record.len);
        }
        let bytes = &blocks[..len.next_multiple_of(BLOCK)];
        let written = self.file.write_many(&[(region.start, bytes)]).is_ok();
        if written {
            self.let_go(moves, Some(region.start));
        }
        let mut inner = self.lock();
        inner.stats.swap_write_fail += u64::from(!written);
        inner.extents.finish(region);
        match written {
            true => Emptied::Yes,
            false => Emptied::NoRoom,
        }
    }

    /// Lets go of entries whose records now start at byte `to`, or stay where they were.
    fn let_go(&self, moves: &[Move], to: Option<u64>) {
        for few in moves.chunks(TUNING.pool.entries_held) {
            let mut inner = self.lock();
            for m in few {
                let id = m.record.entry;
                inner.entries.get_mut(id).set(Flag::Writing, false);
                if let Some(to) = to {
                    inner.move_record(m, Location::at(to + m.at as u64));
                }
                inner.put(id);
            }
        }
    }
}

impl Inner {
    fn hold_some(&mut self, numbers: Range<u32>, extent: &Range<u64>, moves: &mut Vec<Move>) {
        let first = moves.len();
        for (id, entry) in self.entries.placed(numbers) {
            let Place::Disk(from, checksum) = entry.place() else {
                continue;
            };
            if extent.contains(&from.byte()) && !entry.is(Flag::Writing) {
                let record = Record {
                    entry: id,
                    generation: self.extents.generation(from),
                    len: entry.len(),
                    dict: entry.dict(),
                };
                moves.push(Move {
                    record,
                    checksum,
                    from,
                    at: 0,
                });
            }
        }
        for m in &moves[first..] {
            let entry = self.entries.get_mut(m.record.entry);
            entry.get();
            entry.set(Flag::Writing, true);
        }
    }

    fn move_record(&mut self, moved: &Move, to: Location) {
        let room = record_room(moved.record.len);
        self.extents.add(to, room);
        self.extents.release(moved.from, room);
        let entry = self.entries.get_mut(moved.record.entry);
        entry.set_place(Place::Disk(to, moved.checksum));
        self.stats.swap_moved_pages += 1;
    }
}

/// The blocks from the first record to the last.
fn span_of(moves: &[Move]) -> Option<Range<u64>> {
    let (first, last) = (moves.first()?, moves.last()?);
    let end = blocks_of(last.from.byte(), last.record.len).end;
    Some(blocks_of(first.from.byte(), first.record.len).start..end)
}
