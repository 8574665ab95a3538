//! Memory that is filled before it is touched (MAP_POPULATE, MADV_POPULATE_WRITE).
//!
//! The kernel keeps the lock of the mappings for all of it, so that nothing can be registered meanwhile, and counts it when it
//! is there. In steps it can be registered in between, and is then filled as any other memory. Of much of it the engine is
//! told before, and also of memory that is mapped by and by once the program is at its limit: until it is registered nothing
//! of it waits.

use core::ffi::c_int;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use neap_wire::{library, purpose};

use crate::{agent, boot, sys};

const MAP_TYPE: c_int = 0xf;
const MAP_PRIVATE: c_int = 2;
const MAP_ANONYMOUS: c_int = 0x20;
const MAP_LOCKED: c_int = 0x2000;
const MAP_POPULATE: c_int = 0x8000;
const MAP_NONBLOCK: c_int = 0x1_0000;
const MAP_HUGETLB: c_int = 0x4_0000;
const PROT_WRITE: c_int = 2;
const PAGE: usize = 4096;
/// What one call of read(2) brings at most.
const AT_ONCE: usize = 0x7fff_f000;

/// Bytes mapped and not unmapped since the engine was told of some.
#[unsafe(link_section = ".data")]
static MAPPED: AtomicUsize = AtomicUsize::new(0);
/// Where much was read to last.
#[unsafe(link_section = ".data")]
static READ_INTO: AtomicUsize = AtomicUsize::new(0);

/// Whether a mapping is memory that the program may write to, and no other's.
fn is_memory(protection: c_int, flags: c_int) -> bool {
    flags & MAP_TYPE == MAP_PRIVATE && flags & MAP_ANONYMOUS != 0 && protection & PROT_WRITE != 0
}

/// Notes a new mapping of a program whose memory is registered.
pub fn note_mapped(protection: c_int, flags: c_int, len: usize) {
    if is_memory(protection, flags) {
        note_grown(len);
    }
}

/// Notes that the program has so much more memory, by a new mapping or the end of its heap.
pub fn note_grown(len: usize) {
    if len == 0 || !agent::is_armed() {
        return;
    }
    let mapped = MAPPED.fetch_add(len, Relaxed).saturating_add(len);
    if mapped >= library::FORESEE_FROM {
        MAPPED.store(0, Relaxed);
        boot::ring();
    }
}

/// Notes what is unmapped: who maps and unmaps in turn does not grow.
pub fn note_unmapped(len: usize) {
    if MAPPED.load(Relaxed) > 0 {
        let _ = MAPPED.fetch_update(Relaxed, Relaxed, |mapped| Some(mapped.saturating_sub(len)));
    }
}

/// Takes the wish to have a new mapping filled out of its flags, and says whether it was there. It stays where the kernel
/// does something else for it: memory that is shared, locked, of a file, or read-only.
pub fn take_wish(protection: c_int, flags: &mut c_int) -> bool {
    let others = *flags & (MAP_LOCKED | MAP_NONBLOCK | MAP_HUGETLB) != 0;
    let wished = *flags & MAP_POPULATE != 0 && is_memory(protection, *flags);
    let taken = wished && !others && !boot::engine_name().is_empty();
    if taken {
        *flags &= !MAP_POPULATE;
    }
    taken
}

/// Fills memory that a file is about to be read into, as far as one call of read(2) comes. Before memory is registered that
/// happens here, in steps, so that others have the cpu in between; from then on the read waits as any fault does.
pub fn before_read(fd: c_int, into: usize, len: usize, place: Option<i64>) {
    if len < library::READ_FROM || boot::engine_name().is_empty() {
        return;
    }
    // By no call that a filter could forbid.
    if agent::is_armed() {
        boot::ring();
        return;
    }
    // Who reads into the same memory again most likely has it.
    if READ_INTO.swap(into, Relaxed) == into {
        return;
    }
    let len = len.min(AT_ONCE).min(sys::bytes_behind(sys::Fd(fd), place));
    let end = into.saturating_add(len) & !(PAGE - 1);
    let mut from = into.saturating_add(PAGE - 1) & !(PAGE - 1);
    // What cannot be filled the read itself says.
    while from < end && !agent::is_armed() {
        let step = library::POPULATE_STEP.min(end - from);
        if sys::madvise(from, step, sys::MADV_POPULATE_WRITE) < 0 {
            return;
        }
        from += step;
    }
    // The agent knows before all is registered: the rest waits for that.
    if from < end {
        boot::ring();
    }
}

/// Fills memory step by step. The kernel's answer: 0, or the first error, before which all was filled.
pub fn in_steps(start: usize, len: usize) -> i64 {
    let fill = |from, len| sys::madvise(from, len, sys::MADV_POPULATE_WRITE);
    let end = start.checked_add(len);
    let Some(end) = end.filter(|_| start.is_multiple_of(PAGE) && len > library::POPULATE_STEP)
    else {
        return fill(start, len);
    };
    match agent::is_armed() {
        _ if len < library::FORESEE_FROM => {}
        true => boot::ring(),
        false => boot::mention(purpose::FORESEE, len as u64),
    }
    let mut from = start;
    while from < end {
        let result = fill(from, library::POPULATE_STEP.min(end - from));
        if result < 0 {
            return result;
        }
        from += library::POPULATE_STEP;
    }
    0
}
