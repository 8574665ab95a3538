//! mremap(2). Memory that was mapped anew in the middle of a mapping joins it, and so does what was protected for a
//! while; but not in the kernel's eyes while the engine has registered one of the two and not yet the other. What is
//! one mapping to the program is then moved piece by piece, or stays where it is.

mod mappings;

use core::ffi::{c_int, c_void};

use neap_wire::library;

use super::{as_libc_long, turn};
use crate::{agent, boot, sys};
use mappings::{Mappings, Shape};

const MAYMOVE: usize = 1;
const FIXED: usize = 2;
const DONTUNMAP: usize = 4;
const PAGE: usize = 4096;

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
    for _ in 0..library::MAPPING_LOOKS {
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
        let (from, to) = (self.from, self.to);
        let rest = self.old.saturating_sub(self.new);
        self.old -= rest;
        let end = from + self.old;
        let result = match self.by_pieces() {
            Ok(result) => result,
            Err(Shape::Neither) => -sys::EFAULT,
            Err(Shape::Unasked) if !self.is_whole() => -sys::EFAULT,
            Err(_) => self.move_whole(flags),
        };
        if result < 0 {
            return result;
        }
        if rest > 0 {
            sys::munmap(end, rest);
        }
        to as i64
    }

    /// Moves what was one mapping a moment ago. The engine may have registered a part of it since, if it was looking at
    /// what lay there before, and so have split it until it has registered the rest.
    fn move_whole(&mut self, flags: usize) -> i64 {
        let (from, to) = (self.from, self.to);
        let mut result = sys::mremap(from, self.old, self.new, flags, to);
        for _ in 0..library::MAPPING_LOOKS {
            // What stays behind says nothing of what has moved.
            if result != -sys::EFAULT || self.stays {
                break;
            }
            self.leave_out_what_moved();
            result = match self.by_pieces() {
                Ok(result) => result,
                Err(Shape::Whole) => sys::mremap(self.from, self.old, self.new, flags, self.to),
                Err(_) => break,
            };
        }
        if result < 0 && self.from > from {
            match Mappings::open() {
                Some(mappings) => put_back(&mappings, to, self.to, from),
                None => end_half_way(),
            }
        }
        result
    }

    /// Since Linux 6.17 a move to a fixed place that is refused for one of several mappings has moved those before it.
    fn leave_out_what_moved(&mut self) {
        let next = Mappings::open().and_then(|mappings| mappings.next(self.from));
        let gone = next.map_or(0, |next| next.saturating_sub(self.from));
        if self.old == self.new && gone < self.old {
            self.from += gone;
            self.to += gone;
            self.old -= gone;
            self.new -= gone;
        }
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

    /// The result of the kernel's kind; or what the memory is if it is not several mappings that could be one.
    fn by_pieces(&self) -> Result<i64, Shape> {
        let mappings = Mappings::open().ok_or(Shape::Unasked)?;
        let (from, old, new) = (self.from, self.old, self.new);
        let Some(more) = new.checked_sub(old) else {
            return Err(Shape::Neither); // to cut a rest off takes no move
        };
        // Linux 6.17 moves any neighbours to a fixed place.
        let shape = mappings.shape(from, from + old, self.fixed && more == 0);
        let Shape::Pieces { last } = shape else {
            return Err(shape);
        };
        let end = from + old;
        if self.fixed {
            return Ok(self.move_pieces(&mappings, last, end, more, self.to));
        }
        if more > 0 {
            let result = sys::mremap(last, end - last, end - last + more, 0, 0);
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
        Ok(self.move_pieces(&mappings, last, end, more, to))
    }

    /// Moves mappings to their places from `to` on, the last of them, which grows by `more`, last of all. Their old
    /// places stay mapped meanwhile, so that they can go back to them.
    fn move_pieces(
        &self,
        mappings: &Mappings,
        last: usize,
        end: usize,
        more: usize,
        to: usize,
    ) -> i64 {
        let there = |at: usize| to + (at - self.from);
        let (mut at, mut result) = (self.from, 0);
        // A handler would find the memory half here and half there.
        let signals = sys::set_signal_mask(u64::MAX);
        while at < last {
            let Some(bytes) = mappings.reach(at) else {
                result = -sys::EFAULT; // unmapped meanwhile
                break;
            };
            let bytes = bytes.min(last - at);
            let flags = MAYMOVE | FIXED | DONTUNMAP;
            result = sys::mremap(at, bytes, bytes, flags, there(at));
            if result < 0 {
                break;
            }
            at += bytes;
        }
        if result >= 0 {
            let stays = if self.stays { DONTUNMAP } else { 0 };
            let flags = MAYMOVE | FIXED | stays;
            result = sys::mremap(last, end - last, end - last + more, flags, there(last));
        }
        if result < 0 {
            if !self.fixed {
                sys::munmap(there(at), self.new - (at - self.from)); // ours, and empty
            }
            put_back(mappings, to, there(at), self.from);
        } else if !self.stays && last > self.from {
            sys::munmap(self.from, last - self.from);
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
            end_half_way();
        }
        end = at;
    }
}

fn end_half_way() {
    sys::write(
        sys::STDERR,
        b"neap: an mremap failed half way, and what had moved could not be moved back; \
          the program is killed rather than let it read wrong bytes\n",
    );
    sys::kill_self();
}
