//! Slots of zspages: the free list inside each, and the lists of zspages by fullness.
//!
//! Layout of a free slot, in bytes: 0-1 next free slot plus one (0: the slot after this one, which
//! is what never written memory says); in the first free slot also 4-7 previous and 8-11 next
//! zspage of the same class and fullness group.

use neap_units::PAGE_SIZE;

use super::class::Class;
use super::{Handle, Head, Page, PageWord, Pool};

/// Fullness groups of zspages that are neither full nor empty.
pub(super) const GROUPS: usize = 8;

/// No zspage: the end of a list.
pub(super) const NO_PAGE: u32 = u32::MAX;

const PREV: usize = 4;
const NEXT: usize = 8;

impl Pool {
    /// Takes a slot from the fullest zspage that has one, or from a new zspage.
    pub(super) fn take_slot(&mut self, class: u8) -> Option<Handle> {
        let cut = self.classes.get(class);
        let fullest = self.states[usize::from(class)]
            .partial
            .iter()
            .rev()
            .copied()
            .find(|&page| page != NO_PAGE);
        let page = match fullest {
            Some(page) => {
                self.unlink(page as usize);
                page as usize
            }
            None => self.new_zspage(class, cut)?,
        };
        let mut head = self.head(page);
        let slot = head.free;
        let at = slot_at(page, cut, slot);
        head.free = self.next_free(at, slot);
        head.used += 1;
        self.words[page] = PageWord::pack(Page::Head(head));
        self.states[usize::from(class)].used += 1;
        self.link(page);
        Some(Handle::at(at))
    }

    /// Gives a slot back, and with the last one the zspage.
    pub(super) fn give_slot(&mut self, class: u8, handle: Handle) {
        let cut = self.classes.get(class);
        let page = self.head_of(handle.page());
        let mut head = self.head(page);
        let slot = slot_of(page, cut, handle);
        assert!(
            head.class == class && head.used > 0,
            "{handle:?} is not of class {class}"
        );
        self.unlink(page);
        self.write_u16(handle.byte(), head.free + 1);
        head.free = slot;
        head.used -= 1;
        self.states[usize::from(class)].used -= 1;
        self.words[page] = PageWord::pack(Page::Head(head));
        if head.used == 0 {
            self.drop_zspage(class, page);
        } else {
            self.link(page);
        }
    }

    /// Gives the pages of an empty, unlinked zspage back.
    pub(super) fn drop_zspage(&mut self, class: u8, page: usize) {
        self.states[usize::from(class)].zspages -= 1;
        self.give_run(page, usize::from(self.classes.get(class).pages));
    }

    fn new_zspage(&mut self, class: u8, cut: Class) -> Option<usize> {
        let (page, dirty) = self.take_run(usize::from(cut.pages))?;
        if dirty {
            for slot in 0..cut.slots {
                self.write_u16(slot_at(page, cut, slot), 0);
            }
        }
        let head = Head {
            class,
            used: 0,
            free: 0,
        };
        self.words[page] = PageWord::pack(Page::Head(head));
        for back in 1..cut.pages {
            let body = Page::Body { back: back as u8 };
            self.words[page + usize::from(back)] = PageWord::pack(body);
        }
        self.states[usize::from(class)].zspages += 1;
        Some(page)
    }

    /// State of the zspage that starts at `page`.
    pub(super) fn head(&self, page: usize) -> Head {
        match self.words[page].unpack() {
            Page::Head(head) => head,
            other => panic!("pool page {page} is {other:?}, not the head of a zspage"),
        }
    }

    /// First page of the zspage that `page` is part of.
    pub(super) fn head_of(&self, page: usize) -> usize {
        match self.words[page].unpack() {
            Page::Body { back } => page - usize::from(back),
            _ => page,
        }
    }

    /// The free slot after `slot`, which lies at byte `at`.
    pub(super) fn next_free(&self, at: usize, slot: u16) -> u16 {
        match self.read_u16(at) {
            0 => slot + 1,
            next => next - 1,
        }
    }

    /// Puts a zspage with a free slot on the list of its fullness group.
    pub(super) fn link(&mut self, page: usize) {
        let Some((class, group, at)) = self.place(page) else {
            return;
        };
        let first = self.states[class].partial[group];
        self.write_u32(at + PREV, NO_PAGE);
        self.write_u32(at + NEXT, first);
        if let Some((_, _, first_at)) = self.place_of(first) {
            self.write_u32(first_at + PREV, page as u32);
        }
        self.states[class].partial[group] = page as u32;
    }

    /// Takes a zspage off its list; nothing to do when it is full, or empty and new.
    pub(super) fn unlink(&mut self, page: usize) {
        let Some((class, group, at)) = self.place(page) else {
            return;
        };
        let (prev, next) = (self.read_u32(at + PREV), self.read_u32(at + NEXT));
        if let Some((_, _, next_at)) = self.place_of(next) {
            self.write_u32(next_at + PREV, prev);
        }
        match self.place_of(prev) {
            Some((_, _, prev_at)) => self.write_u32(prev_at + NEXT, next),
            None => self.states[class].partial[group] = next,
        }
    }

    fn place_of(&self, page: u32) -> Option<(usize, usize, usize)> {
        if page == NO_PAGE {
            None
        } else {
            self.place(page as usize)
        }
    }

    /// Class, fullness group and byte of the first free slot; `None` for a full zspage.
    fn place(&self, page: usize) -> Option<(usize, usize, usize)> {
        let head = self.head(page);
        let cut = self.classes.get(head.class);
        if head.used == cut.slots {
            return None;
        }
        let group = usize::from(head.used) * GROUPS / usize::from(cut.slots);
        Some((
            usize::from(head.class),
            group,
            slot_at(page, cut, head.free),
        ))
    }

    /// Which slots of a zspage are free.
    pub(super) fn free_slots(&self, page: usize) -> u128 {
        let head = self.head(page);
        let cut = self.classes.get(head.class);
        let mut slots = 0;
        let mut slot = head.free;
        while slot < cut.slots {
            assert!(
                slots >> slot & 1 == 0,
                "the free list of pool page {page} is a ring"
            );
            slots |= 1 << slot;
            slot = self.next_free(slot_at(page, cut, slot), slot);
        }
        slots
    }

    /// The list of zspages of one group, first to last.
    pub(super) fn group(&self, class: usize, group: usize) -> impl Iterator<Item = usize> + '_ {
        let mut page = self.states[class].partial[group];
        std::iter::from_fn(move || {
            let (_, _, at) = self.place_of(page)?;
            let this = page as usize;
            page = self.read_u32(at + NEXT);
            Some(this)
        })
    }
}

/// Byte of a slot of the zspage at `page`.
pub(super) fn slot_at(page: usize, cut: Class, slot: u16) -> usize {
    page * PAGE_SIZE + usize::from(slot) * usize::from(cut.slot_size)
}

fn slot_of(page: usize, cut: Class, handle: Handle) -> u16 {
    let offset = handle.byte() - page * PAGE_SIZE;
    let size = usize::from(cut.slot_size);
    assert!(
        offset.is_multiple_of(size),
        "{handle:?} is no slot of pool page {page}"
    );
    (offset / size) as u16
}
