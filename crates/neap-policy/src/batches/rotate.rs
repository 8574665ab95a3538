//! The end of a write-back: does the folio get to the reclaim end of its list?
//!
//! zswap's write-back adds its folio through a batch, and the write often ends before the
//! batch drains. `Mainline` then drops the mark and the folio enters at the head like a
//! new one; `Rfc004` queues the rotation all the same; `AddTail` leaves the mark for the
//! drain of the add batch to look at.

use crate::switches::Rotate;

/// What the rules look at.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FolioView {
    /// Somebody works on it.
    pub locked: bool,
    /// Written again since.
    pub dirty: bool,
    /// A write is under way.
    pub writeback: bool,
    /// It cannot be reclaimed.
    pub unevictable: bool,
    /// It is on a list, not in an add batch nor isolated.
    pub on_lru: bool,
    /// Marked active.
    pub active: bool,
    /// Marked for reclaim at the end of the write.
    pub reclaim: bool,
}

/// What to do with a folio whose write ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WritebackEnd {
    /// Put it into the rotate batch of this CPU.
    pub queue: bool,
    /// Clear the reclaim mark.
    pub clear_mark: bool,
}

impl Rotate {
    /// A write ended.
    #[must_use]
    pub const fn writeback_ended(self, folio: FolioView) -> WritebackEnd {
        if !folio.reclaim {
            return WritebackEnd {
                queue: false,
                clear_mark: false,
            };
        }
        let idle = !folio.locked && !folio.dirty && !folio.unevictable;
        let queue = match self {
            Rotate::Mainline | Rotate::AddTail => idle && folio.on_lru,
            Rotate::Rfc004 => idle && !folio.active,
        };
        WritebackEnd {
            queue,
            clear_mark: queue || !matches!(self, Rotate::AddTail),
        }
    }

    /// Whether the drain of a rotate batch moves the folio to the reclaim end.
    #[must_use]
    pub const fn moves(self, folio: FolioView) -> bool {
        let free = match self {
            Rotate::Mainline | Rotate::AddTail => true,
            Rotate::Rfc004 => !folio.locked && !folio.dirty && !folio.active,
        };
        folio.on_lru && !folio.unevictable && free
    }

    /// Whether the drain of an add batch puts the folio at the reclaim end, and clears its
    /// mark.
    #[must_use]
    pub const fn adds_at_tail(self, folio: FolioView) -> bool {
        matches!(self, Rotate::AddTail) && folio.reclaim && !folio.dirty && !folio.writeback
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batches::{Batch, Batches, SMALL_BATCH};

    const CLEAN: FolioView = FolioView {
        locked: false,
        dirty: false,
        writeback: false,
        unevictable: false,
        on_lru: true,
        active: false,
        reclaim: true,
    };

    /// Where a write-back folio ends up whose write ends while it waits to be added.
    /// `order` is that of the drains.
    fn lands_at_tail(rule: Rotate, mut folio: FolioView, order: [Batch; 2]) -> bool {
        let mut batches = Batches::new(SMALL_BATCH);
        assert!(!batches.queue(Batch::Add, 1, false));
        folio.on_lru = false;
        let end = rule.writeback_ended(folio);
        folio.reclaim &= !end.clear_mark;
        if end.queue {
            assert!(!batches.queue(Batch::Rotate, 1, false));
        }
        let mut at_tail = false;
        for batch in order {
            batches.drain(batch, |_| {
                if batch == Batch::Add {
                    at_tail = rule.adds_at_tail(folio);
                    folio.on_lru = true;
                } else {
                    at_tail |= rule.moves(folio);
                }
            });
        }
        at_tail
    }

    #[test]
    fn a_write_that_ends_before_the_add_drain_loses_its_rotation_in_mainline() {
        let (first, late) = ([Batch::Add, Batch::Rotate], [Batch::Rotate, Batch::Add]);
        assert!(!lands_at_tail(Rotate::Mainline, CLEAN, first));
        assert!(lands_at_tail(Rotate::Rfc004, CLEAN, first));
        assert!(!lands_at_tail(Rotate::Rfc004, CLEAN, late));
        assert!(lands_at_tail(Rotate::AddTail, CLEAN, first));
        assert!(lands_at_tail(Rotate::AddTail, CLEAN, late));
        let refaulted = FolioView {
            active: true,
            ..CLEAN
        };
        assert!(!lands_at_tail(Rotate::Rfc004, refaulted, first));
    }

    #[test]
    fn a_folio_on_its_list_is_rotated_by_all_rules_unless_somebody_uses_it() {
        for &rule in Rotate::ALL {
            let end = rule.writeback_ended(CLEAN);
            assert!(end.queue && end.clear_mark && rule.moves(CLEAN), "{rule}");
            for busy in [
                FolioView {
                    locked: true,
                    ..CLEAN
                },
                FolioView {
                    dirty: true,
                    ..CLEAN
                },
                FolioView {
                    unevictable: true,
                    ..CLEAN
                },
            ] {
                assert!(!rule.writeback_ended(busy).queue, "{rule}");
            }
            let unmarked = FolioView {
                reclaim: false,
                ..CLEAN
            };
            assert_eq!(rule.writeback_ended(unmarked), WritebackEnd::default());
        }
        let active = FolioView {
            active: true,
            ..CLEAN
        };
        assert!(Rotate::Mainline.writeback_ended(active).queue);
        assert!(!Rotate::Rfc004.writeback_ended(active).queue);
    }

    #[test]
    fn rotations_are_judged_again_when_they_drain() {
        let dirty = FolioView {
            dirty: true,
            ..CLEAN
        };
        assert!(Rotate::Mainline.moves(dirty));
        assert!(!Rotate::Rfc004.moves(dirty));
        let off = FolioView {
            on_lru: false,
            ..CLEAN
        };
        assert!(Rotate::ALL.iter().all(|rule| !rule.moves(off)));
        let again = FolioView {
            writeback: true,
            ..CLEAN
        };
        assert!(!Rotate::AddTail.adds_at_tail(again));
        assert!(Rotate::AddTail.adds_at_tail(CLEAN));
    }
}
