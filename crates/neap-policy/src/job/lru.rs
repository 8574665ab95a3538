//! The pages of one space in generations. The rules are those of `crate::generations`.

use neap_units::{PageId, Pages};

use crate::folio::{Kind, list_of};
use crate::generations::{
    Aging, Arrival, Insertion, MAX_NR_GENS, NonresidentAge, Refault, Trigger, Window, competing,
    index,
};
use crate::list::List;
use crate::page::{Heat, Table};

/// Whose rules: there is nothing to be seen of a page but its faults (`generations`).
const INSERTION: Insertion = Insertion::V67;
const TRIGGER: Trigger = Trigger::Edge;

/// Bits of a stamp: a page away for 2^32 evictions (16 TiB) can look recent once.
const STAMP_BITS: u32 = u32::BITS;

/// The generations of one space.
pub(super) struct Lru {
    window: Window<1>,
    /// By generation. A page is listed with its own: promotion moves it at once.
    lists: [List<PageId>; MAX_NR_GENS as usize],
    age: NonresidentAge,
    resident: u64,
}

/// How a page arrives: it was asked for, or it came with one that was. Either way it
/// would first have to be stored to leave.
#[inline]
fn arrival(heat: Heat) -> Arrival {
    Arrival {
        active: heat == Heat::Hot,
        workingset: false,
        tail: false,
        stays: true,
    }
}

impl Lru {
    /// Four empty generations. `age` is where stamps start: zero, or the parent's after a
    /// fork, whose stamps the child keeps.
    pub(super) fn new(age: NonresidentAge) -> Lru {
        Lru {
            window: Window::new(),
            lists: [List::default(); MAX_NR_GENS as usize],
            age,
            resident: 0,
        }
    }

    #[inline]
    pub(super) fn resident(&self) -> u64 {
        self.resident
    }

    /// Evictions and activations so far.
    pub(super) fn age_so_far(&self) -> NonresidentAge {
        self.age
    }

    pub(super) fn set_age(&mut self, age: NonresidentAge) {
        self.age = age;
    }

    /// The stamp of a page that leaves now.
    #[inline]
    pub(super) fn stamp(&self) -> u32 {
        self.age.stamp(STAMP_BITS) as u32
    }

    /// Puts a resident page on the list its heat asks for.
    #[inline]
    pub(super) fn insert(&mut self, table: &mut Table, id: PageId, heat: Heat) {
        let generation = index(self.window.place(Kind::Anon, INSERTION, arrival(heat)));
        let (leaf, at) = table.at_mut(id);
        leaf.set_generation(at, generation);
        self.lists[generation].push_head(table, id);
        self.resident += 1;
    }

    /// Takes a page off its list.
    #[inline]
    pub(super) fn remove(&mut self, table: &mut Table, id: PageId) {
        let (leaf, at) = table.at(id);
        self.lists[leaf.generation(at)].unlink(table, id);
        self.resident -= 1;
    }

    /// A resident page has moved to another place in the table.
    pub(super) fn rename(&mut self, table: &mut Table, id: PageId) {
        let (leaf, at) = table.at(id);
        self.lists[leaf.generation(at)].rename(table, id);
    }

    /// Pages of the two youngest generations (kernel: active).
    #[inline]
    pub(super) fn active(&self) -> u64 {
        let sizes = self.window.active().map(|seq| self.list(seq).len());
        u64::from(sizes[0]) + u64::from(sizes[1])
    }

    /// Sequence number of the youngest generation that is not one of the two youngest.
    #[inline]
    pub(super) fn youngest_inactive(&self) -> u64 {
        self.window.youngest_inactive()
    }

    #[inline]
    fn list(&self, seq: u64) -> &List<PageId> {
        &self.lists[index(seq)]
    }

    /// A page left: the stamp it keeps.
    #[inline]
    pub(super) fn evicted(&mut self) -> u32 {
        let stamp = self.stamp();
        self.age.advance(1);
        stamp
    }

    /// Judges a load of a page that left with a stamp and perhaps the mark of the working
    /// set. If the page is activated the age advances.
    #[inline]
    pub(super) fn refault(&mut self, stamp: u32, heat: Heat, workingset: bool) -> Refault {
        let mut sizes = [0; 4];
        sizes[list_of(Kind::Anon, true)] = self.active();
        let distance = self.age.distance(stamp.into(), STAMP_BITS);
        let recent = distance <= competing(Kind::Anon, &sizes, true);
        let refault = Refault::judge(recent, heat == Heat::Hot, workingset);
        if refault.activated {
            self.age.advance(1);
        }
        refault
    }

    /// Leaves empty old generations behind, keeping two.
    fn advance_min_seq(&mut self) {
        let lists = &self.lists;
        self.window.advance(|seq| lists[index(seq)].is_empty());
    }

    /// Makes pages evictable. Returns the generations opened and the pages they took out
    /// of the two youngest (what the kernel would have to look at: pgrefill). Afterwards,
    /// unless nothing is resident, there is a page to evict.
    pub(super) fn age(&mut self) -> (u64, Pages) {
        let (mut opened, mut demoted) = (0, Pages::ZERO);
        if self.resident == 0 {
            return (opened, demoted);
        }
        self.advance_min_seq();
        while self.window.aging(self.window.min_seq(Kind::Anon), &TRIGGER) != Aging::Not {
            let left = self.window.open();
            demoted += Pages(self.list(left).len().into());
            opened += 1;
            self.advance_min_seq();
        }
        (opened, demoted)
    }

    /// The page to evict next. With it, the sequence number of its generation.
    #[inline]
    pub(super) fn oldest(&mut self) -> Option<(PageId, u64)> {
        self.advance_min_seq();
        let seq = self.window.evictable(Kind::Anon)?;
        self.list(seq).tail().map(|id| (id, seq))
    }

    /// Sequence number of a generation in the window.
    #[inline]
    pub(super) fn seq_of(&self, generation: usize) -> u64 {
        self.window.seq_of(Kind::Anon, generation)
    }

    /// Panics unless the window and the lists agree.
    pub(super) fn check(&self, table: &Table, mut visit: impl FnMut(PageId)) {
        self.window.check();
        let mut sum = 0;
        for (generation, list) in self.lists.iter().enumerate() {
            let inside = self.seq_of(generation) <= self.window.max_seq();
            assert!(
                inside || list.is_empty(),
                "pages in a generation that does not exist"
            );
            list.check(table, |id| {
                let (leaf, at) = table.at(id);
                assert!(
                    leaf.is_resident(at),
                    "{} on a list is not resident",
                    leaf.page(at)
                );
                assert_eq!(
                    leaf.generation(at),
                    generation,
                    "generation of {}",
                    leaf.page(at)
                );
                visit(id);
            });
            sum += u64::from(list.len());
        }
        assert_eq!(sum, self.resident, "resident pages");
    }
}

#[cfg(test)]
mod tests {
    use neap_units::SpaceId;

    use super::*;
    use crate::page::{State, page_id};

    fn resident(table: &mut Table, leaf: u32, at: usize) -> PageId {
        let id = page_id(leaf, at);
        table
            .leaf_mut(leaf)
            .set_state(at, State::Resident { copy: None });
        id
    }

    #[test]
    fn pages_leave_in_the_order_of_their_generations() {
        let mut table = Table::default();
        let leaf = table.claim(SpaceId(0), 0);
        let mut lru = Lru::new(NonresidentAge::default());
        let hot = resident(&mut table, leaf, 0);
        lru.insert(&mut table, hot, Heat::Hot);
        let warm = resident(&mut table, leaf, 1);
        lru.insert(&mut table, warm, Heat::Warm);
        assert_eq!(
            lru.oldest(),
            None,
            "the two youngest generations are not evicted from"
        );
        assert_eq!(lru.active(), 2);
        lru.age();
        let (id, _) = lru.oldest().expect("aging makes pages evictable");
        assert_eq!(id, warm);
        lru.remove(&mut table, warm);
        lru.age();
        assert_eq!(lru.oldest().map(|(id, _)| id), Some(hot));
        lru.check(&table, |_| ());
    }

    #[test]
    fn aging_an_empty_space_does_nothing() {
        let mut lru = Lru::new(NonresidentAge::default());
        assert_eq!(lru.age(), (0, Pages::ZERO));
        assert_eq!(lru.oldest(), None);
    }

    #[test]
    fn a_refault_is_recent_within_the_active_pages_also_across_the_wrap() {
        let mut table = Table::default();
        let leaf = table.claim(SpaceId(0), 0);
        let mut age = NonresidentAge::default();
        age.advance(u64::from(u32::MAX) - 1);
        let mut lru = Lru::new(age);
        for at in 0..3 {
            let id = resident(&mut table, leaf, at);
            lru.insert(&mut table, id, Heat::Hot);
        }
        let recent = |lru: &mut Lru, stamp| lru.refault(stamp, Heat::Warm, true).restored;
        let stamp = lru.evicted();
        assert!(recent(&mut lru, stamp), "distance 1 of 3 active");
        lru.evicted();
        assert!(lru.refault(stamp, Heat::Hot, false).activated);
        assert!(recent(&mut lru, stamp), "distance 3 of 3 active");
        lru.evicted();
        assert!(!recent(&mut lru, stamp), "distance 4 of 3 active");
    }
}
