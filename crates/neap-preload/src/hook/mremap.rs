//! mremap(2). Memory that was mapped anew in the middle of a mapping joins it, and so does what was protected for a
//! while; but not in the kernel's eyes while the engine has registered one of the two and not yet the other. What is
//! one mapping to the program is then moved piece by piece, or stays where it is.

mod mappings;

use core::ffi::{c_int, c_void};

use super::{as_libc_long, turn};
use crate::{agent, boot, sys};
use mappings::{Mappings, Shape};

const MAYMOVE: usize = 1;
const FIXED: usize = 2;
const DONTUNMAP: usize = 4;
const PAGE: usize = 4096;
/// What became one mapping between two looks is one at the third.
const TRIES: usize = 3;

/// The program's mremap.
///
/// # Safety
/// As mremap(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mremap(
    from: usize,
    old: usize,
    new: usize,
    flags: c_int,
    to: usize,
) -> *mut c_void {
    let _turn = turn::take();
    let flags = flags as usize;
    let plainly = || sys::mremap(from, old, new, flags, to);
    let managed = !boot::engine_name().is_empty();
    let sane = if managed {
        Move::new(from, old, new, flags, to)
    } else {
        None
    };
    let result = match sane {
        // Looked at before: the kernel makes room there, and since Linux 6.17 moves the first pieces, and only then
        // finds that it must not move the next. Without an armed agent next to nothing is registered.
        Some(wanted) if wanted.fixed && agent::is_armed() => wanted.go_to_its_place(flags),
        Some(wanted) => retried(&wanted, plainly),
        None => plainly(),
    };
    as_libc_long(result) as *mut c_void
}

fn retried(wanted: &Move, plainly: impl Fn() -> i64) -> i64 {
    let mut result = plainly();
    for _ in 0..TRIES {
        if result != -sys::EFAULT {
            break;
        }
        result = match wanted.by_pieces() {
            Ok(result) => return result,
            Err(Shape::Whole) => plainly(),
            Err(_) => break,
        };
    }
    result
}

/// A call that the kernel would not refuse for its numbers.
struct Move {
    from: usize,
    old: usize,
    new: usize,
    /// The program's place, or none.
    to: usize,
    fixed: bool,
    may_move: bool,
    /// The old place stays mapped.
    stays: bool,
}

impl Move {
    fn new(from: usize, old: usize, new: usize, flags: usize, to: usize) -> Option<Self> {
        let whole = |bytes: usize| Some(bytes.checked_add(PAGE - 1)? & !(PAGE - 1));
        let (old, new) = (whole(old)?, whole(new)?);
        let (fixed, may_move) = (flags & FIXED != 0, flags & MAYMOVE != 0);
        let stays = flags & DONTUNMAP != 0;
        let to = if fixed { to } else { 0 };
        let (end, there) = (from.checked_add(old)?, to.checked_add(new)?);
        let sane = flags & !(MAYMOVE | FIXED | DONTUNMAP) == 0
            && (may_move || !fixed && !stays)
            && (!stays || old == new)
            && (from | to).is_multiple_of(PAGE)
            && old > 0
            && new > 0
            && !(fixed && from < there && to < end);
        sane.then_some(Self {
            from,
            old,
            new,
            to,
            fixed,
            may_move,
            stays,
        })
    }

    /// Moves to the program's place; what is cut off goes last.
    fn go_to_its_place(mut self, flags: usize) -> i64 {
        let rest = self.old.saturating_sub(self.new);
        self.old -= rest;
        let result = match self.by_pieces() {
            Ok(result) => result,
            Err(Shape::Neither) => -sys::EFAULT,
            Err(Shape::Unasked) if !self.is_whole() => -sys::EFAULT,
            Err(_) => sys::mremap(self.from, self.old, self.new, flags, self.to),
        };
        if result >= 0 && rest > 0 {
            sys::munmap(self.from + self.old, rest);
        }
        result
    }

    /// Whether the memory is surely one mapping, where nobody can be asked: the kernel refuses to let several grow,
    /// and says so otherwise than where one has no room. That takes what is free behind it for a moment.
    fn is_whole(&self) -> bool {
        let Some(more) = self.old.checked_add(PAGE) else {
            return false;
        };
        let grown = sys::mremap(self.from, self.old, more, 0, 0);
        if grown >= 0 {
            sys::munmap(self.from + self.old, PAGE);
        }
        grown != -sys::EFAULT
    }

    /// The result of the kernel's kind; or what the memory is if the kernel had better be asked to move it.
    fn by_pieces(&self) -> Result<i64, Shape> {
        let mappings = Mappings::open().ok_or(Shape::Unasked)?;
        let (from, old, new) = (self.from, self.old, self.new);
        let Some(more) = new.checked_sub(old) else {
            return Err(Shape::Neither); // to cut a rest off takes no move
        };
        // Linux 6.17 moves any neighbours to a fixed place.
        let last = match mappings.shape(from, from + old, self.fixed && more == 0) {
            Shape::Pieces { last } => last,
            // Perhaps no longer when it is moved.
            Shape::Whole if self.fixed && mappings.is_memory(from) => {
                return match self.move_pieces(&mappings, more, self.to) {
                    // It takes its addresses twice.
                    result if result == -sys::ENOMEM => Err(Shape::Whole),
                    result => Ok(result),
                };
            }
            shape => return Err(shape),
        };
        if self.fixed {
            return Ok(self.move_pieces(&mappings, more, self.to));
        }
        if more > 0 {
            let bytes = from + old - last;
            let result = sys::mremap(last, bytes, bytes + more, 0, 0);
            if result >= 0 {
                return Ok(from as i64);
            }
            if !self.may_move {
                return Ok(result);
            }
        }
        let Ok(to) = usize::try_from(sys::reserve(new)) else {
            return Ok(-sys::ENOMEM);
        };
        Ok(self.move_pieces(&mappings, more, to))
    }

    /// Moves mappings to their places from `to` on, the last of which grows by `more`. Their old places stay mapped
    /// meanwhile, so that they can go back to them.
    ///
    /// The engine may register a part of one between the look at it and its move, and so split it. The kernel then
    /// refuses the move, and since Linux 6.17 has moved what lies before that part all the same: what can be read at
    /// its new place, which nobody can read before.
    fn move_pieces(&self, mappings: &Mappings, more: usize, to: usize) -> i64 {
        let (start, end) = (self.from, self.from + self.old);
        let there = |at: usize| to + (at - start);
        // A handler would find the memory half here and half there.
        let signals = sys::set_signal_mask(u64::MAX);
        let reserved = match self.fixed {
            true => sys::reserve_at(to, self.new),
            false => 0,
        };
        let (mut at, mut kept, mut tries, mut result) = (start, start, TRIES, reserved);
        while at < end && result >= 0 {
            let Some(bytes) = mappings.reach(at) else {
                result = -sys::EFAULT; // unmapped meanwhile
                break;
            };
            let bytes = bytes.min(end - at);
            // What grows can only be moved as one mapping, and leaves nothing.
            let grows = at + bytes == end && more > 0;
            let (new, stays) = if grows {
                (bytes + more, 0)
            } else {
                (bytes, DONTUNMAP)
            };
            result = sys::mremap(at, bytes, new, MAYMOVE | FIXED | stays, there(at));
            let moved = match result {
                0.. => bytes,
                _ if result == -sys::EFAULT && tries > 0 => {
                    (tries, result) = (tries - 1, 0);
                    mappings.readable(there(at)).min(bytes)
                }
                _ => break,
            };
            at += moved;
            kept = if grows { kept } else { at };
        }
        if result < 0 {
            if reserved >= 0 {
                sys::munmap(there(at), self.new - (at - start)); // ours, and empty
            }
            put_back(mappings, to, there(at), start);
        } else if !self.stays && kept > start {
            sys::munmap(start, kept - start);
        }
        sys::set_signal_mask(signals);
        if result < 0 { result } else { to as i64 }
    }
}

/// Moves what has moved back to its places from `home` on, the last first: what lets it pass where there are almost
/// too many mappings is that there is one less each time.
fn put_back(mappings: &Mappings, start: usize, end: usize, home: usize) {
    let mut end = end;
    while end > start {
        let at = mappings.begin(end - 1).unwrap_or(end).max(start);
        let (bytes, place) = (end - at, home + (at - start));
        let goes_back = || bytes > 0 && sys::mremap(at, bytes, bytes, MAYMOVE | FIXED, place) >= 0;
        // What stayed in its place is a mapping, too.
        let is_back = goes_back() || sys::munmap(place, bytes) == 0 && goes_back();
        if !is_back {
            sys::write(
                sys::STDERR,
                b"neap: an mremap failed half way, and what had moved could not be moved back; \
                  the program is killed rather than let it read wrong bytes\n",
            );
            sys::kill_self();
        }
        end = at;
    }
}
