//! Generation numbers, aging and refault distance.

use neap_units::{PageId, Pages};

use super::List;
use crate::page::{Heat, Table};

/// Fewest generations a space has (kernel: MIN_NR_GENS). The two youngest are never
/// evicted from: they are what the kernel counts as active.
const MIN_NR_GENS: u64 = 2;

/// Most generations a space has (kernel: MAX_NR_GENS); two bits of a record name one.
const MAX_NR_GENS: u64 = 4;

/// What a load of a page that was evicted before amounts to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refault {
    /// It came back while it still belonged to the working set.
    Recent,
    /// It was away for long.
    Distant,
}

/// The generations of one space.
pub(crate) struct Lru {
    /// Indexed by sequence number mod 4.
    lists: [List; MAX_NR_GENS as usize],
    max_seq: u64,
    min_seq: u64,
    /// Non-resident age: evictions and activations so far. Stamps are its low 32
    /// bits, so a page away for 2^32 evictions (16 TiB) can look recent once.
    age: u32,
    resident: u64,
}

#[inline]
fn generation_of(seq: u64) -> usize {
    (seq % MAX_NR_GENS) as usize
}

impl Lru {
    /// Four empty generations (SPEC 3.3). `age` is where stamps start: zero, or the
    /// parent's after a fork, whose stamps the child keeps.
    pub(crate) fn new(age: u32) -> Lru {
        let lists = [List::default(); MAX_NR_GENS as usize];
        Lru {
            lists,
            max_seq: MAX_NR_GENS - 1,
            min_seq: 0,
            age,
            resident: 0,
        }
    }

    #[inline]
    pub(crate) fn resident(&self) -> u64 {
        self.resident
    }

    #[inline]
    pub(crate) fn age_stamp(&self) -> u32 {
        self.age
    }

    pub(crate) fn set_age_stamp(&mut self, age: u32) {
        self.age = age;
    }

    /// Puts a resident page on the list its heat asks for.
    #[inline]
    pub(crate) fn insert(&mut self, table: &mut Table, id: PageId, heat: Heat) {
        let seq = match heat {
            Heat::Hot => self.max_seq,
            Heat::Warm => self.max_seq - 1,
        };
        let generation = generation_of(seq);
        let (leaf, at) = table.at_mut(id);
        leaf.set_generation(at, generation);
        self.lists[generation].push(table, id);
        self.resident += 1;
    }

    /// Takes a page off its list.
    #[inline]
    pub(crate) fn remove(&mut self, table: &mut Table, id: PageId) {
        let (leaf, at) = table.at(id);
        self.lists[leaf.generation(at)].unlink(table, id);
        self.resident -= 1;
    }

    /// A resident page has moved to another place in the table.
    pub(crate) fn rename(&mut self, table: &mut Table, id: PageId) {
        let (leaf, at) = table.at(id);
        self.lists[leaf.generation(at)].rename(table, id);
    }

    /// Pages of the two youngest generations (kernel: active).
    #[inline]
    pub(crate) fn active(&self) -> u64 {
        self.list(self.max_seq).len() + self.list(self.max_seq - 1).len()
    }

    /// Sequence number of the youngest generation that is not one of the two youngest.
    #[inline]
    pub(crate) fn youngest_inactive(&self) -> u64 {
        self.max_seq - MIN_NR_GENS
    }

    #[inline]
    fn list(&self, seq: u64) -> &List {
        &self.lists[generation_of(seq)]
    }

    /// A page left: the stamp it keeps.
    #[inline]
    pub(crate) fn evicted(&mut self) -> u32 {
        let stamp = self.age;
        self.age = self.age.wrapping_add(1);
        stamp
    }

    /// Judges a load by the stamp of its eviction (SPEC 3.2: recent iff the distance
    /// is at most the size of the lists that could have made room).
    #[inline]
    pub(crate) fn refault(&self, stamp: u32) -> Refault {
        let distance = u64::from(self.age.wrapping_sub(stamp));
        if distance <= self.active() {
            Refault::Recent
        } else {
            Refault::Distant
        }
    }

    /// A refault put a page among the youngest: the age advances (SPEC 3.2).
    #[inline]
    pub(crate) fn activated(&mut self) {
        self.age = self.age.wrapping_add(1);
    }

    /// Generations in use.
    fn generations(&self) -> u64 {
        self.max_seq - self.min_seq + 1
    }

    /// Leaves empty old generations behind, keeping two (SPEC 3.7 step 4).
    fn advance_min_seq(&mut self) {
        while self.generations() > MIN_NR_GENS && self.list(self.min_seq).len() == 0 {
            self.min_seq += 1;
        }
    }

    /// Opens a new youngest generation. Returns the pages that thereby left the two
    /// youngest (what the kernel would have to look at: pgrefill).
    fn open_generation(&mut self) -> Pages {
        debug_assert!(self.generations() < MAX_NR_GENS);
        self.max_seq += 1;
        Pages(self.list(self.max_seq - 2).len())
    }

    /// Makes pages evictable: ages while `min_seq + 2 >= max_seq` (the `Mglru614`
    /// trigger, SPEC 3.6). Returns the generations opened and the pages they demoted.
    /// Afterwards, unless nothing is resident, the oldest generation has pages and is
    /// not one of the two youngest.
    pub(crate) fn age(&mut self) -> (u64, Pages) {
        let (mut opened, mut demoted) = (0, Pages::ZERO);
        if self.resident == 0 {
            return (opened, demoted);
        }
        self.advance_min_seq();
        while self.min_seq + MIN_NR_GENS >= self.max_seq {
            demoted += self.open_generation();
            opened += 1;
            self.advance_min_seq();
        }
        (opened, demoted)
    }

    /// The page to evict next: oldest first, never from the two youngest
    /// generations. With it, the sequence number of its generation.
    #[inline]
    pub(crate) fn oldest(&mut self) -> Option<(PageId, u64)> {
        self.advance_min_seq();
        if self.min_seq + MIN_NR_GENS > self.max_seq {
            return None;
        }
        self.list(self.min_seq)
            .oldest()
            .map(|id| (id, self.min_seq))
    }

    /// Sequence number of a generation in the window.
    #[inline]
    pub(crate) fn seq_of(&self, generation: usize) -> u64 {
        self.min_seq + (generation as u64).wrapping_sub(self.min_seq) % MAX_NR_GENS
    }

    /// Panics unless the window and the lists agree.
    pub(crate) fn check(&self, table: &Table, mut visit: impl FnMut(PageId)) {
        let generations = self.generations();
        assert!(
            (MIN_NR_GENS..=MAX_NR_GENS).contains(&generations),
            "{generations} generations"
        );
        let mut sum = 0;
        for (generation, list) in self.lists.iter().enumerate() {
            let inside = self.seq_of(generation) <= self.max_seq;
            assert!(
                inside || list.len() == 0,
                "pages in a generation that does not exist"
            );
            list.check(table, |id| {
                let (leaf, at) = table.at(id);
                assert_eq!(
                    leaf.generation(at),
                    generation,
                    "generation of {}",
                    leaf.page(at)
                );
                visit(id);
            });
            sum += list.len();
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
        let mut lru = Lru::new(0);
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
        let mut lru = Lru::new(0);
        assert_eq!(lru.age(), (0, Pages::ZERO));
        assert_eq!(lru.oldest(), None);
    }

    #[test]
    fn a_refault_is_recent_within_the_active_pages_also_across_the_wrap() {
        let mut table = Table::default();
        let leaf = table.claim(SpaceId(0), 0);
        let mut lru = Lru::new(u32::MAX - 1);
        for at in 0..3 {
            let id = resident(&mut table, leaf, at);
            lru.insert(&mut table, id, Heat::Hot);
        }
        let stamp = lru.evicted();
        assert_eq!(
            lru.refault(stamp),
            Refault::Recent,
            "distance 1 of 3 active"
        );
        lru.evicted();
        lru.activated();
        assert_eq!(
            lru.refault(stamp),
            Refault::Recent,
            "distance 3 of 3 active"
        );
        lru.evicted();
        assert_eq!(
            lru.refault(stamp),
            Refault::Distant,
            "distance 4 of 3 active"
        );
    }
}
