//! What the shrinker knows of one owner's list of compressed pages (SPEC 1.9, 1.11).

use neap_units::Bytes;

use crate::switches::ShrinkerScheme;

/// What to do with the entry at the head of the list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Its second chance: move it to the tail, go on.
    Rotate,
    /// Its turn: write it to the swap file.
    WriteBack,
}

impl ShrinkerScheme {
    /// Whether a stored entry starts with its `referenced` bit set (SPEC 1.5 step 6).
    #[must_use]
    pub const fn marks_new(self) -> bool {
        matches!(self, ShrinkerScheme::SecondChance)
    }

    /// What to do with an entry whose `referenced` bit is as it is. One that is spared loses
    /// the bit. So a fresh entry is never written before it was visited twice.
    #[inline]
    #[must_use]
    pub const fn verdict(self, referenced: bool) -> Verdict {
        match self {
            ShrinkerScheme::SecondChance if referenced => Verdict::Rotate,
            ShrinkerScheme::SecondChance | ShrinkerScheme::Old => Verdict::WriteBack,
        }
    }
}

/// The counters of one owner's list.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LruState {
    /// [`ShrinkerScheme::Old`]: entries protected. [`ShrinkerScheme::SecondChance`]: pages read
    /// back from disk that no [`LruState::count`] has held back an entry for yet.
    pub protected_or_disk_swapins: u64,
    /// Objects the generic shrinker owes this list.
    pub deferred: u64,
    /// Calls of the shrinker under way.
    pub(super) shrinkers: u64,
    /// Objects that they have still to ask for.
    pub(super) in_flight: u64,
}

impl LruState {
    /// An entry was put on the list, which now has `len` entries. Protection grows by
    /// one and is halved, once, when it exceeds a quarter of the list.
    #[inline]
    pub fn on_insert(&mut self, scheme: ShrinkerScheme, len: u64) {
        if scheme == ShrinkerScheme::SecondChance {
            return;
        }
        let grown = self.protected_or_disk_swapins + 1;
        self.protected_or_disk_swapins = if grown > len / 4 { grown / 2 } else { grown };
    }

    /// A page of this owner was read from disk, by a fault or by readahead (SPEC 2.4,
    /// `DiskReads`).
    #[inline]
    pub fn on_disk_swapin(&mut self) {
        self.protected_or_disk_swapins = self.protected_or_disk_swapins.saturating_add(1);
    }

    /// Entries worth offering to the shrinker, scaled by how little room they take.
    ///
    /// * `len`: entries on this list.
    /// * `compressed`: bytes the owner's entries take.
    /// * `stored`: entries the owner has.
    ///
    /// Under [`ShrinkerScheme::SecondChance`] a call spends up to `len` recorded disk reads,
    /// whether or not a scan follows. The caller holds the lock of the list, so that
    /// no read is spent twice.
    pub fn count(
        &mut self,
        scheme: ShrinkerScheme,
        len: u64,
        compressed: Bytes,
        stored: u64,
    ) -> u64 {
        if stored == 0 || len == 0 {
            return 0;
        }
        let recorded = self.protected_or_disk_swapins;
        let offered = match scheme {
            ShrinkerScheme::Old => len.saturating_sub(recorded),
            ShrinkerScheme::SecondChance => {
                let remaining = recorded.saturating_sub(len);
                self.protected_or_disk_swapins = remaining;
                len - (recorded - remaining)
            }
        };
        let backing = compressed.whole_pages().0;
        // The product of two page counts can exceed 64 bits.
        (u128::from(offered) * u128::from(backing) / u128::from(stored)) as u64
    }

    /// Forgets all but the calls under way, which still end.
    pub fn forget(&mut self) {
        *self = LruState {
            shrinkers: self.shrinkers,
            in_flight: self.in_flight,
            ..LruState::default()
        };
    }

    /// Spends `n` recorded disk reads, or what there is, outside of a count.
    pub fn spend(&mut self, n: u64) {
        self.protected_or_disk_swapins = self.protected_or_disk_swapins.saturating_sub(n);
    }

    /// Whether a scan of `n` entries may start on a list of `len`. Under
    /// [`ShrinkerScheme::Old`] not when it would eat into the protected part; as in the
    /// kernel, `len - n` wraps when more is asked for than there is, and then the
    /// guard does not hold.
    #[must_use]
    pub fn may_scan(&self, scheme: ShrinkerScheme, len: u64, n: u64) -> bool {
        scheme == ShrinkerScheme::SecondChance
            || self.protected_or_disk_swapins < len.wrapping_sub(n)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn with(recorded: u64) -> LruState {
        LruState {
            protected_or_disk_swapins: recorded,
            ..LruState::default()
        }
    }

    fn pages(n: u64) -> Bytes {
        Bytes(n * 4096)
    }

    #[test]
    fn protection_saw_tooths_between_an_eighth_and_a_quarter() {
        let mut state = LruState::default();
        let mut seen = Vec::new();
        for len in 1..=2000 {
            state.on_insert(ShrinkerScheme::Old, len);
            if [4, 5, 8, 16, 32, 100, 500, 1000, 2000].contains(&len) {
                seen.push((len, state.protected_or_disk_swapins));
            }
        }
        let expected = [
            (4, 1),
            (5, 1),
            (8, 2),
            (16, 4),
            (32, 6),
            (100, 15),
            (500, 92),
            (1000, 241),
            (2000, 356),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn three_stores_destroy_a_large_protection() {
        let mut state = with(8000);
        let after: Vec<u64> = (1..=4)
            .map(|n| {
                state.on_insert(ShrinkerScheme::Old, 10_000 + n);
                state.protected_or_disk_swapins
            })
            .collect();
        assert_eq!(after, [4000, 2000, 2001, 2002]);
    }

    #[test]
    fn a_count_spends_disk_swapins_up_to_the_length() {
        let mut state = with(300);
        assert_eq!(
            state.count(ShrinkerScheme::SecondChance, 1000, pages(250), 1000),
            175
        );
        assert_eq!(state, with(0));
        let mut state = with(2500);
        assert_eq!(
            state.count(ShrinkerScheme::SecondChance, 1000, pages(250), 1000),
            0
        );
        assert_eq!(state, with(1500));
        let mut state = with(0);
        assert_eq!(
            state.count(ShrinkerScheme::SecondChance, 1000, pages(1000), 1000),
            1000
        );
        let mut state = with(5);
        assert_eq!(state.count(ShrinkerScheme::SecondChance, 0, pages(1), 1), 0);
        assert_eq!(state, with(5), "an empty list spends nothing");
    }

    #[test]
    fn protection_is_not_spent_by_counting() {
        let mut state = with(400);
        assert_eq!(
            state.count(ShrinkerScheme::Old, 1000, pages(500), 1000),
            300
        );
        assert_eq!(state.count(ShrinkerScheme::Old, 300, pages(500), 1000), 0);
        assert_eq!(state.count(ShrinkerScheme::Old, 1000, pages(500), 0), 0);
        assert_eq!(state, with(400));
    }

    #[test]
    fn the_guard_of_the_old_scheme_and_its_unsigned_trap() {
        let state = with(900);
        assert!(!state.may_scan(ShrinkerScheme::Old, 1000, 128));
        assert!(!state.may_scan(ShrinkerScheme::Old, 1000, 100));
        assert!(state.may_scan(ShrinkerScheme::Old, 1000, 99));
        assert!(
            state.may_scan(ShrinkerScheme::Old, 100, 128),
            "len - n wraps"
        );
        assert!(state.may_scan(ShrinkerScheme::SecondChance, 1000, 128));
    }

    #[test]
    fn a_fresh_entry_is_written_only_at_its_second_visit() {
        let (old, new) = (ShrinkerScheme::Old, ShrinkerScheme::SecondChance);
        assert_eq!(new.verdict(new.marks_new()), Verdict::Rotate);
        assert_eq!(new.verdict(false), Verdict::WriteBack, "spared once");
        assert_eq!(old.verdict(true), Verdict::WriteBack);
        assert!(!old.marks_new());
    }

    proptest! {
        /// Every disk read holds back exactly one entry, in whatever portions it is spent.
        #[test]
        fn each_disk_swapin_holds_back_one_entry(lens in prop::collection::vec(0u64..5000, 1..40), reads in 0u64..50_000) {
            let mut state = LruState::default();
            for _ in 0..reads {
                state.on_disk_swapin();
            }
            let mut held_back = 0;
            for &len in &lens {
                // Incompressible: the result is the number offered.
                held_back += len - state.count(ShrinkerScheme::SecondChance, len, pages(1000), 1000);
            }
            prop_assert_eq!(held_back + state.protected_or_disk_swapins, reads);
        }

        #[test]
        fn protection_stays_within_a_quarter_of_a_growing_list(inserts in 1u64..3000) {
            let mut state = LruState::default();
            for len in 1..=inserts {
                state.on_insert(ShrinkerScheme::Old, len);
                prop_assert!(state.protected_or_disk_swapins <= len / 4);
            }
        }

        #[test]
        fn the_scaled_count_is_the_exact_quotient(
            (len, backing, more) in (0u64..1 << 40, 0u64..1 << 52, 0u64..1 << 52),
            // Numbers of every size: among large ones alone a divisor that is off by one changes nothing.
            (few, small, near) in (0u32..40, 0u32..52, 0u32..52),
        ) {
            let (len, backing, more) = (len >> few, backing >> small, more >> near);
            // What is stored takes no more room than it had, so that the quotient is no larger than the list.
            let stored = backing + more + 1;
            let count = with(0).count(ShrinkerScheme::SecondChance, len, pages(backing), stored);
            let wide = u128::from;
            let product = wide(len) * wide(backing);
            prop_assert!(wide(count) * wide(stored) <= product);
            prop_assert!(product < (wide(count) + 1) * wide(stored));
        }
    }
}
