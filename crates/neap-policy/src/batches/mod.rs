//! The per-CPU batches that folios pass through on their way to or between lists, and
//! what becomes of a folio whose write-back ends (SPEC 4.3).

mod rotate;

pub use rotate::{FolioView, WritebackEnd};

/// Folios a batch held for long (kernel: PAGEVEC_SIZE until 2024).
pub const SMALL_BATCH: usize = 15;

/// Folios a batch holds now.
pub const LARGE_BATCH: usize = 31;

/// One batch of a CPU. All but `Add` skip folios that are on no list when they drain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Batch {
    /// New folios, on no list until the batch drains.
    Add,
    /// To the reclaim end.
    Rotate,
    /// To the inactive list, for file pages that could not be dropped.
    DeactivateFile,
    /// To the inactive list.
    Deactivate,
    /// To the inactive file list, as MADV_FREE asks.
    Lazyfree,
    /// To the active list.
    Activate,
}

impl Batch {
    /// In the order in which one CPU drains them all.
    pub const DRAIN_ORDER: [Batch; 6] = [
        Batch::Add,
        Batch::Rotate,
        Batch::DeactivateFile,
        Batch::Deactivate,
        Batch::Lazyfree,
        Batch::Activate,
    ];
}

/// Folios waiting in one batch, in order.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    folios: [u32; LARGE_BATCH],
    len: u8,
}

/// The batches of one CPU. Folios are whatever numbers the caller gives them.
#[derive(Clone, Debug)]
pub struct Batches {
    waiting: [Waiting; Batch::DRAIN_ORDER.len()],
    size: u8,
}

impl Batches {
    /// Empty batches of `size` folios, at most [`LARGE_BATCH`].
    #[must_use]
    pub fn new(size: usize) -> Batches {
        let empty = Waiting {
            folios: [0; LARGE_BATCH],
            len: 0,
        };
        Batches {
            waiting: [empty; Batch::DRAIN_ORDER.len()],
            size: size.clamp(1, LARGE_BATCH) as u8,
        }
    }

    /// Puts a folio into a batch that has room. Returns whether the batch is to be drained
    /// now: it is full, or the folio is large.
    #[must_use]
    pub fn queue(&mut self, batch: Batch, folio: u32, large: bool) -> bool {
        let waiting = &mut self.waiting[batch as usize];
        waiting.folios[usize::from(waiting.len)] = folio;
        waiting.len += 1;
        waiting.len == self.size || large
    }

    /// Takes the oldest folio out of a batch. Draining is taking until there is none.
    #[must_use]
    pub fn take(&mut self, batch: Batch) -> Option<u32> {
        let waiting = &mut self.waiting[batch as usize];
        let len = usize::from(waiting.len);
        let first = *waiting.folios[..len].first()?;
        waiting.folios.copy_within(1..len, 0);
        waiting.len -= 1;
        Some(first)
    }

    /// Takes the folios of a batch out, all at once and in order.
    pub fn drain(&mut self, batch: Batch, folio: impl FnMut(u32)) {
        let waiting = &mut self.waiting[batch as usize];
        let len = usize::from(std::mem::take(&mut waiting.len));
        let folios = waiting.folios;
        folios[..len].iter().copied().for_each(folio);
    }

    /// Folios waiting in a batch.
    #[must_use]
    pub fn len(&self, batch: Batch) -> usize {
        usize::from(self.waiting[batch as usize].len)
    }

    /// Whether nothing waits in any batch.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.iter().all(|waiting| waiting.len == 0)
    }

    /// Forgets a folio that is freed. Returns whether it waited in a batch.
    pub fn forget(&mut self, folio: u32) -> bool {
        let mut found = false;
        for waiting in &mut self.waiting {
            let len = usize::from(waiting.len);
            let mut kept = 0;
            for at in 0..len {
                let other = waiting.folios[at];
                waiting.folios[kept] = other;
                kept += usize::from(other != folio);
            }
            found |= kept < len;
            waiting.len = kept as u8;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_drains_when_full_or_for_a_large_folio() {
        let mut batches = Batches::new(SMALL_BATCH);
        for folio in 0..14 {
            assert!(!batches.queue(Batch::Add, folio, false));
        }
        assert!(batches.queue(Batch::Add, 14, false), "the fifteenth");
        assert!(!batches.queue(Batch::Rotate, 99, false));
        let mut drained = Vec::new();
        batches.drain(Batch::Add, |folio| drained.push(folio));
        assert_eq!(drained, (0..15).collect::<Vec<_>>());
        assert_eq!(
            (batches.len(Batch::Add), batches.len(Batch::Rotate)),
            (0, 1)
        );
        assert!(batches.queue(Batch::Add, 7, true), "a large one");
        assert_eq!(Batch::DRAIN_ORDER[0], Batch::Add, "before rotations");
    }

    #[test]
    fn folios_leave_in_order_or_are_forgotten() {
        let mut batches = Batches::new(LARGE_BATCH);
        for folio in [5, 6, 7, 6] {
            assert!(!batches.queue(Batch::Activate, folio, false));
        }
        assert!(batches.forget(6) && !batches.forget(6));
        assert_eq!(batches.take(Batch::Activate), Some(5));
        assert_eq!(batches.take(Batch::Activate), Some(7));
        assert_eq!(batches.take(Batch::Activate), None);
        assert!(batches.is_empty());
    }
}
