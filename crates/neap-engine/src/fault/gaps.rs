//! Moments in which the kernel takes a fill, where threads change mappings all the time.
//!
//! The kernel refuses fills from the begin of a change until its event was read and its thread has gone on. A thread that
//! makes one change after the other goes on for a microsecond only. The fault thread runs ahead of it and wakes at each
//! event, so where the two share a cpu it finds that thread always within a change. It must give the cpu up for just so
//! long that the thread comes out of its call, and take it back before the next: a call is not interrupted, but its
//! return is. Then it reads the events of the others, and fills while they go on, on other cpus, all at once.

use neap_sys::Nap;
use neap_tuning::TUNING;
use neap_units::Nanos;

#[derive(Default)]
pub(super) struct Gaps {
    nap: Option<Nap>,
    /// Naps since something began to starve.
    taken: u32,
}

impl Gaps {
    /// Does `last`, and gives up the cpu for some microseconds. False: it cannot, as descriptors or memory are short.
    pub fn nap(&mut self, last: impl FnOnce()) -> bool {
        if self.nap.is_none() {
            self.nap = Nap::new().ok();
        }
        let Some(nap) = &self.nap else {
            return false;
        };
        self.taken = self.taken.wrapping_add(1);
        if self.taken.is_multiple_of(TUNING.faults.naps_here) {
            let _ = neap_sys::pin_to_next(); // there is no other
        }
        nap.take(length(self.taken), last).is_ok()
    }

    /// Nothing starves any more. Whether this thread may be on another cpu than before.
    pub fn end(&mut self) -> bool {
        let taken = std::mem::take(&mut self.taken);
        taken >= TUNING.faults.naps_here
    }
}

/// The length of the nap of this number: spread evenly, so that some end when the thread that has the cpu comes out of
/// its call.
fn length(number: u32) -> Nanos {
    /// 2^32 by the golden ratio: its multiples lie far from each other.
    const STEP: u32 = 0x9E37_79B9;
    let part = u64::from(number.wrapping_mul(STEP));
    let spread = (TUNING.faults.nap_spread.0 * part) >> u32::BITS;
    Nanos(TUNING.faults.nap.0 + spread)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_naps_are_of_all_lengths() {
        let (least, spread) = (TUNING.faults.nap.0, TUNING.faults.nap_spread.0);
        let mut lengths: Vec<u64> = (1..=4 * TUNING.faults.naps_here)
            .map(|number| length(number).0)
            .collect();
        lengths.sort_unstable();
        assert!(lengths[0] >= least && lengths[lengths.len() - 1] < least + spread);
        let widest = 2 * spread / lengths.len() as u64;
        assert!(lengths.windows(2).all(|pair| pair[1] - pair[0] <= widest));
    }
}
