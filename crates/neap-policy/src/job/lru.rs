//! The pages of one space in generations. The rules are those of `crate::generations`.

use neap_tuning::TUNING;
use neap_units::{PageId, Pages};

use super::Listed;
use super::regret::Regret;
use crate::folio::{Kind, list_of};
use crate::generations::{
    Aging, Arrival, Generations, Insertion, MIN_LRU_BATCH, NonresidentAge, Refault, Trigger,
    competing, index,
};
use crate::list::List;
use crate::page::{Heat, PROBATION, Table};

/// Whose rules: there is nothing to be seen of a page but its faults (`generations`).
const INSERTION: Insertion = Insertion::V67;
const TRIGGER: Trigger = Trigger::Edge;

/// Bits of a stamp: a page away for 2^32 evictions (16 TiB) can look recent once.
const STAMP_BITS: u32 = u32::BITS;

/// The lists of one space.
pub(super) struct Lru {
    /// A page is listed with its own: promotion moves it at once.
    generations: Generations<PageId, 1>,
    probation: List<PageId>,
    age: NonresidentAge,
    resident: u64,
    /// Pages so far that came back too late to have been kept.
    late: u64,
    regret: Regret,
}

/// Where a page goes that becomes resident.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// To the generation that its heat asks for.
    Generation(Heat),
    /// To the reclaim end of the oldest generation: the program has said that it is cold.
    Oldest,
    /// To the youngest generation, and passed over once when its turn comes: it was touched so soon after it had
    /// been taken out that it should have stayed. It stands for the accessed bit, which the kernel would have found
    /// set by now.
    Referenced,
    /// It was away for so long that it could not have been kept, as most pages are of
    /// memory that is walked through again and again and does not fit. If it were taken
    /// for young, each would push out one that is needed before it. It takes its turn on a
    /// short list of its own instead: touched there while it is staged, or back soon after,
    /// it joins a generation. A page that came along with another goes there also if it was away for a short time only,
    /// while most of what leaves generations comes back: a walk finds them in the order in which they leave, so that it
    /// would push out what it comes to next.
    Probation,
}

/// The order in which lists are evicted from: probation (`None`), then generations by
/// sequence number.
pub(super) type Rank = Option<u64>;

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
            generations: Generations::new(),
            probation: List::default(),
            age,
            resident: 0,
            late: 0,
            regret: Regret::default(),
        }
    }

    #[inline]
    pub(super) fn resident(&self) -> u64 {
        self.resident
    }

    /// What is listed where.
    pub(super) fn listed(&self) -> Listed {
        let window = self.generations.window();
        let generation = |back| {
            let seq = window.max_seq() - back;
            let exists = seq >= window.min_seq(Kind::Anon);
            let list = self.generations.list(Kind::Anon, index(seq));
            (seq, Pages(if exists { list.len().into() } else { 0 }))
        };
        Listed {
            generations: [0, 1, 2, 3].map(generation),
            probation: Pages(self.on_probation()),
        }
    }

    /// Evictions so far.
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

    /// What has left, or was activated, since a page left with this stamp.
    pub(super) fn away(&self, stamp: u32) -> u64 {
        self.age.distance(stamp.into(), STAMP_BITS)
    }

    /// Puts a resident page on its list.
    #[inline]
    pub(super) fn insert(&mut self, table: &mut Table, id: PageId, place: Place) {
        let (leaf, at) = table.at_mut(id);
        match place {
            Place::Generation(_) | Place::Referenced => {
                let heat = match place {
                    Place::Generation(heat) => heat,
                    _ => Heat::Hot,
                };
                let window = self.generations.window();
                let generation = index(window.place(Kind::Anon, INSERTION, arrival(heat)));
                leaf.set_list(at, generation);
                if place == Place::Referenced {
                    leaf.set_referenced(at);
                }
                self.generations
                    .link(table, id, (Kind::Anon, generation), false);
            }
            Place::Oldest => {
                let oldest = index(self.generations.window().min_seq(Kind::Anon));
                leaf.set_list(at, oldest);
                self.generations.link(table, id, (Kind::Anon, oldest), true);
            }
            Place::Probation => {
                leaf.set_list(at, PROBATION);
                self.probation.push_head(table, id);
            }
        }
        self.resident += 1;
    }

    /// Takes a page off its list.
    #[inline]
    pub(super) fn remove(&mut self, table: &mut Table, id: PageId) {
        let (leaf, at) = table.at_mut(id);
        let list = leaf.list(at);
        leaf.set_tried(at, list == PROBATION);
        if list == PROBATION {
            self.probation.unlink(table, id);
        } else {
            self.generations.unlink(table, id, (Kind::Anon, list));
        }
        self.resident -= 1;
    }

    /// A resident page has moved to another place in the table.
    pub(super) fn rename(&mut self, table: &mut Table, id: PageId) {
        let (leaf, at) = table.at(id);
        match leaf.list(at) {
            PROBATION => self.probation.rename(table, id),
            generation => self.generations.rename(table, id, (Kind::Anon, generation)),
        }
    }

    /// Rank of the youngest generation that is not one of the two youngest.
    #[inline]
    pub(super) fn youngest_inactive(&self) -> Rank {
        Some(self.generations.window().youngest_inactive())
    }

    #[inline]
    fn on_probation(&self) -> u64 {
        self.probation.len().into()
    }

    /// A page left: the stamp it keeps. `tried`: from probation.
    #[inline]
    pub(super) fn evicted(&mut self, tried: bool) -> u32 {
        let stamp = self.stamp();
        self.age.advance(1);
        if !tried {
            self.regret.left();
        }
        stamp
    }

    /// Judges a load of a page that left with a stamp and perhaps the mark of the working
    /// set, and says where it goes. `tried`: it left from probation.
    ///
    /// Such a page was seen as long ago as it was away, nearly: what is in generations
    /// could have made room for it. One that left from a generation had been there for
    /// long, unseen; unless it came back very soon, nothing would have kept it.
    #[inline]
    pub(super) fn refault(
        &mut self,
        stamp: u32,
        tried: bool,
        heat: Heat,
        workingset: bool,
    ) -> (Refault, Place) {
        let mut sizes = [0; 4];
        sizes[list_of(Kind::Anon, true)] = self.resident - self.on_probation();
        let distance = self.age.distance(stamp.into(), STAMP_BITS);
        let competing = competing(Kind::Anon, &sizes, true);
        let recent = distance
            <= if tried {
                competing
            } else {
                TUNING.picking.soon.of(competing)
            };
        let refault = Refault::judge(recent, heat == Heat::Hot, workingset);
        if !tried && distance <= competing {
            self.regret.came_back();
        }
        (refault, self.place(recent, refault.activated, tried))
    }

    /// The same of a page without recency: it is a refault, and nothing is learnt from it.
    pub(super) fn refault_unhurried(&self, stamp: u32, workingset: bool) -> (Refault, Place) {
        let mut sizes = [0; 4];
        sizes[list_of(Kind::Anon, true)] = self.resident - self.on_probation();
        let distance = self.age.distance(stamp.into(), STAMP_BITS);
        let recent = distance <= competing(Kind::Anon, &sizes, true);
        let refault = Refault::judge(recent, false, workingset);
        (refault, Place::Probation)
    }

    fn place(&mut self, recent: bool, activated: bool, tried: bool) -> Place {
        match (activated, tried) {
            (true, true) => return Place::Generation(Heat::Hot),
            (true, false) => return Place::Referenced,
            (false, _) => (),
        }
        self.late += u64::from(!recent);
        let joins = if recent {
            !self.regret.keeps_out(self.resident - self.on_probation())
        } else {
            self.late.is_multiple_of(TUNING.picking.let_off_every)
        };
        if joins {
            Place::Generation(Heat::Warm)
        } else {
            Place::Probation
        }
    }

    /// Makes pages evictable. Returns the generations opened and the pages they took out
    /// of the two youngest (what the kernel would have to look at: pgrefill). Afterwards,
    /// unless nothing is resident, there is a page to evict.
    pub(super) fn age(&mut self) -> (u64, Pages) {
        let (mut opened, mut demoted) = (0, Pages::ZERO);
        if self.resident == self.on_probation() {
            return (opened, demoted);
        }
        self.generations.advance();
        while self.is_due() {
            let left = index(self.generations.open());
            demoted += Pages(self.generations.list(Kind::Anon, left).len().into());
            opened += 1;
            self.generations.advance();
        }
        (opened, demoted)
    }

    /// Whether only the two youngest generations and at most one more are left.
    fn is_due(&self) -> bool {
        let window = self.generations.window();
        window.aging(window.min_seq(Kind::Anon), &TRIGGER) != Aging::Not
    }

    /// The page to evict next, and the rank of its list.
    #[inline]
    pub(super) fn oldest(&mut self) -> Option<(PageId, Rank)> {
        let share = TUNING.picking.probation.of(self.resident);
        // And more than a batch of reclaim.
        let share = share.max(MIN_LRU_BATCH);
        let due = self.on_probation() > share;
        let newcomer = self.probation.tail().map(|id| (id, None));
        if due {
            return newcomer;
        }
        self.generations.advance();
        let old = self.generations.oldest(Kind::Anon);
        old.map(|(id, seq)| (id, Some(seq))).or(newcomer)
    }

    /// Passes a page over whose turn has come: puts it into the youngest generation, if it is referenced, and takes
    /// the mark off it.
    #[inline]
    pub(super) fn pass_over(&mut self, table: &mut Table, id: PageId) -> bool {
        let (leaf, at) = table.at(id);
        let referenced = leaf.referenced(at);
        if referenced {
            self.remove(table, id);
            self.insert(table, id, Place::Generation(Heat::Hot));
        }
        referenced
    }

    /// Rank of a list of the window.
    #[inline]
    pub(super) fn rank_of(&self, list: usize) -> Rank {
        (list != PROBATION).then(|| self.generations.window().seq_of(Kind::Anon, list))
    }

    /// Panics unless the window and the lists agree.
    pub(super) fn check(&self, table: &Table, mut visit: impl FnMut(PageId)) {
        let mut sum = 0;
        let mut look = |id, list| {
            let (leaf, at) = table.at(id);
            let page = leaf.page(at);
            assert!(leaf.is_resident(at), "{page} on a list is not resident");
            assert_eq!(leaf.list(at), list, "list of {page}");
            visit(id);
            sum += 1;
        };
        let youngest = self.generations.window().max_seq();
        self.generations.check(table, |id, _, generation| {
            let exists = self.rank_of(generation) <= Some(youngest);
            assert!(exists, "pages in a generation that does not exist");
            look(id, generation);
        });
        self.probation.check(table, |id| look(id, PROBATION));
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
        lru.insert(&mut table, hot, Place::Generation(Heat::Hot));
        let warm = resident(&mut table, leaf, 1);
        lru.insert(&mut table, warm, Place::Generation(Heat::Warm));
        assert_eq!(
            lru.oldest(),
            None,
            "the two youngest generations are not evicted from"
        );
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
    fn a_page_from_a_generation_came_back_soon_within_a_quarter_of_what_is_there() {
        let mut table = Table::default();
        let leaf = table.claim(SpaceId(0), 0);
        let mut lru = Lru::new(NonresidentAge::default());
        for at in 0..40 {
            let id = resident(&mut table, leaf, at);
            lru.insert(&mut table, id, Place::Generation(Heat::Hot));
        }
        let stamp = lru.evicted(false);
        let recent = |lru: &mut Lru| lru.refault(stamp, false, Heat::Warm, true).0.restored;
        // The page itself is the first of ten.
        for _ in 1..10 {
            assert!(recent(&mut lru));
            lru.evicted(false);
        }
        assert!(recent(&mut lru));
        lru.evicted(false);
        assert!(!recent(&mut lru));
    }

    #[test]
    fn a_refault_is_recent_within_what_is_in_generations_also_across_the_wrap() {
        let mut table = Table::default();
        let leaf = table.claim(SpaceId(0), 0);
        let mut age = NonresidentAge::default();
        age.advance(u64::from(u32::MAX) - 1);
        let mut lru = Lru::new(age);
        for at in 0..4 {
            let id = resident(&mut table, leaf, at);
            lru.insert(&mut table, id, Place::Generation(Heat::Hot));
        }
        let recent = |lru: &mut Lru, stamp, tried| {
            let (refault, _) = lru.refault(stamp, tried, Heat::Warm, true);
            refault.restored
        };
        let stamp = lru.evicted(false);
        assert!(recent(&mut lru, stamp, true) && recent(&mut lru, stamp, false));
        lru.evicted(false);
        assert!(recent(&mut lru, stamp, true), "distance 2 of 4");
        assert!(!recent(&mut lru, stamp, false), "more than a quarter");
        lru.evicted(false);
        lru.evicted(false);
        assert!(lru.refault(stamp, true, Heat::Hot, false).0.activated);
        lru.evicted(false);
        let late = lru.refault(stamp, true, Heat::Hot, true);
        assert_eq!(late.1, Place::Probation, "distance 5 of 4");
    }
}
