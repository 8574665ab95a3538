//! Compaction: moves the objects of the emptiest zspage of a class into the others.

use neap_tuning::TUNING;
use neap_units::EntryId;

use super::class::HEADER;
use super::zspage::{GROUPS, NO_PAGE, slot_at};
use super::{Handle, Page, Pool};

impl Pool {
    /// Empties zspages of `class` until its free slots are within the bound.
    pub(super) fn settle(&mut self, class: u8, mut relocate: impl FnMut(EntryId, Handle)) {
        while self.excess(class) && self.empty_one(class, &mut relocate) {}
    }

    /// Whether a class has more free slots than the bound.
    fn excess(&self, class: u8) -> bool {
        let slots = usize::from(self.classes.get(class).slots);
        let state = &self.states[usize::from(class)];
        state.zspages > 1
            && state.zspages * slots - state.used
                > slots + TUNING.pool.slack.of(state.used as u64) as usize
    }

    fn empty_one(&mut self, class: u8, relocate: &mut impl FnMut(EntryId, Handle)) -> bool {
        let partial = &self.states[usize::from(class)].partial;
        let Some(source) = (0..GROUPS)
            .map(|g| partial[g])
            .find(|&page| page != NO_PAGE)
        else {
            return false;
        };
        let source = source as usize;
        self.unlink(source);
        let cut = self.classes.get(class);
        let free = self.free_slots(source);
        for slot in (0..cut.slots).filter(|slot| free >> slot & 1 == 0) {
            let from = slot_at(source, cut, slot);
            let Some(to) = self.take_slot(class) else {
                unreachable!("a class with a zspage of free slots has no free slot");
            };
            let size = usize::from(cut.slot_size);
            self.arena
                .bytes_mut()
                .copy_within(from..from + size, to.byte());
            relocate(EntryId(self.read_u32(to.byte())), to);
            self.moved += 1;
        }
        self.states[usize::from(class)].used -= usize::from(self.head(source).used);
        self.compacted_pages += u64::from(cut.pages);
        self.drop_zspage(class, source);
        true
    }

    /// Panics unless every object, list and count is in order. `entry` says where an entry
    /// believes its object is, and how long.
    pub fn check(&self, mut entry: impl FnMut(EntryId) -> Option<(Handle, usize)>) {
        let mut used = vec![0; self.classes.count()];
        let mut zspages = vec![0; self.classes.count()];
        let mut pages = 0;
        for page in 0..self.words.len() {
            match self.words[page].unpack() {
                Page::Free => continue,
                Page::Body { back } => assert!(
                    matches!(self.words[page - usize::from(back)].unpack(), Page::Head(_)),
                    "pool page {page} has lost its head"
                ),
                Page::Huge { entry: id } => {
                    let (handle, len) = entry(id).expect("a huge page of no entry");
                    assert_eq!(handle.page(), page, "{id} is elsewhere");
                    assert!(self.classes.of_len(len).is_none(), "{id} is not huge");
                }
                Page::Head(head) => {
                    used[usize::from(head.class)] += usize::from(head.used);
                    zspages[usize::from(head.class)] += 1;
                    self.check_zspage(page, &mut entry);
                }
            }
            assert!(
                self.runs.is_used(page),
                "pool page {page} is in use but free"
            );
            pages += 1;
        }
        assert_eq!(pages, self.runs.used(), "pages in use");
        for (class, state) in self.states.iter().enumerate() {
            assert_eq!(
                (state.used, state.zspages),
                (used[class], zspages[class]),
                "class {class}"
            );
            self.check_groups(class);
        }
    }

    fn check_zspage(
        &self,
        page: usize,
        entry: &mut impl FnMut(EntryId) -> Option<(Handle, usize)>,
    ) {
        let head = self.head(page);
        let cut = self.classes.get(head.class);
        let free = self.free_slots(page);
        assert_eq!(
            free.count_ones() + u32::from(head.used),
            u32::from(cut.slots)
        );
        for slot in (0..cut.slots).filter(|slot| free >> slot & 1 == 0) {
            let at = slot_at(page, cut, slot);
            let id = EntryId(self.read_u32(at));
            let (handle, len) = entry(id).unwrap_or_else(|| panic!("a slot of no entry: {id}"));
            assert_eq!(handle.byte(), at, "{id} is elsewhere");
            assert_eq!(
                self.classes.of_len(len),
                Some(head.class),
                "{id} of {len} bytes"
            );
            assert!(len + HEADER <= usize::from(cut.slot_size));
        }
    }

    fn check_groups(&self, class: usize) {
        let slots = usize::from(self.classes.get(class as u8).slots);
        let mut listed = 0;
        for group in 0..GROUPS {
            for page in self.group(class, group) {
                let head = self.head(page);
                assert_eq!(usize::from(head.class), class);
                assert_eq!(
                    usize::from(head.used) * GROUPS / slots,
                    group,
                    "group of page {page}"
                );
                listed += slots - usize::from(head.used);
            }
        }
        let state = &self.states[class];
        assert_eq!(
            listed,
            state.zspages * slots - state.used,
            "free slots of class {class}"
        );
    }
}
