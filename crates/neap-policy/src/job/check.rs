//! Invariants of the whole table.

use neap_units::SpaceId;

use super::Core;
use crate::page::LEAF_PAGES;

impl Core {
    /// Panics if any invariant is broken. Walks everything: for tests and stress runs.
    ///
    /// * Each leaf in use is in the index of exactly its space, under its number.
    /// * Each resident page is on exactly one list: the one of its space and
    ///   generation.
    /// * Each space has two to four generations, and no pages outside of them.
    /// * All counts are right.
    pub fn check(&self) {
        let leaves_in_use = self.table.check();
        let mut leaves_indexed = 0;
        let mut resident_total = 0;
        for (at, space) in self.spaces.iter().enumerate() {
            let id = SpaceId(at as u16);
            assert_ne!(
                space.live,
                self.free_spaces.contains(&id),
                "{id} is both live and free"
            );
            space.index.check();
            let (mut resident, mut pages) = (0, 0);
            for (number, leaf) in space.index.iter() {
                let leaf = self.table.leaf(leaf);
                assert_eq!((leaf.space(), leaf.number()), (id, number), "index of {id}");
                resident += (0..LEAF_PAGES).filter(|&at| leaf.is_resident(at)).count() as u64;
                pages += u64::from(leaf.used());
                leaves_indexed += 1;
            }
            // The walk proves each list sound; equal counts prove that no resident page
            // is missing, so none can be on two.
            space.lru.check(&self.table, |page| {
                let leaf = self.table.at(page).0;
                assert_eq!(leaf.space(), id, "{page} is on a list of another space");
            });
            assert_eq!(space.lru.resident(), resident, "resident pages of {id}");
            assert_eq!(space.pages, pages, "pages of {id}");
            let listed = space.lru.listed();
            let told = listed.generations.iter().map(|(_, pages)| pages.0);
            let told = told.sum::<u64>() + listed.probation.0;
            assert_eq!(told, resident, "pages that are told of {id}");
            assert!(space.live || pages == 0, "{id} was dropped and has pages");
            resident_total += resident;
        }
        assert_eq!(leaves_in_use, leaves_indexed, "leaves that no space knows");
        assert_eq!(
            self.total_resident, resident_total,
            "resident pages of the job"
        );
    }
}
