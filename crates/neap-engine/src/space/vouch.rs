//! Where a page that the table has as resident can be gone only by a fault of neap's.
//!
//! The kernel drops a page that was declared free (MADV_FREE) without a word. Of what is declared free in a registered
//! range it tells; what was before is told by nobody, page by page. So neap vouches for the mappings of the first look,
//! after which it asks whether anything at all is declared free, and in those of later looks for what was not there yet
//! when they were registered.

use std::ops::Range;

use neap_tuning::TUNING;

use super::Space;

impl Space {
    /// Takes note of places that were registered just now. Both ascend; `there` are the pages that those had: with
    /// none of them all is vouched for.
    pub(super) fn vouch(&self, new: &[Range<u64>], there: &[Range<u64>]) {
        let mut vouched = self.vouched.lock();
        for part in new {
            vouched.insert(part.clone());
            hulls(part, there)
                .into_iter()
                .for_each(|hull| vouched.remove(hull));
        }
    }

    /// A forked child has what its parent had, and none of it was declared free unheard since.
    pub(super) fn vouch_like_parent(&self) {
        let parent = self.kin.parent();
        let known = parent.map(|parent| parent.vouched.lock().clone());
        *self.vouched.lock() = known.unwrap_or_default();
    }

    pub fn is_vouched_for(&self, address: u64) -> bool {
        let vouched = self.vouched.lock();
        vouched.find(address).is_some()
    }
}

/// What of `part` has pages, of which `there` has the runs. Runs that are near to each other are one, with what is
/// between them: there may be tens of thousands.
fn hulls(part: &Range<u64>, there: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut hulls: Vec<Range<u64>> = Vec::new();
    let from = there.partition_point(|run| run.end <= part.start);
    for run in there[from..].iter().take_while(|run| run.start < part.end) {
        let run = run.start.max(part.start)..run.end.min(part.end);
        match hulls.last_mut() {
            Some(last) if run.start - last.end < TUNING.looks.near.0 => last.end = run.end,
            _ => hulls.push(run),
        }
    }
    hulls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hulls_hold_what_a_part_has_and_join_what_is_near() {
        const FAR: u64 = 1 << 30;
        let there = [0..20, 25..35, 50..95, FAR..FAR + 5];
        assert_eq!(hulls(&(100..200), &there), []);
        assert_eq!(hulls(&(10..90), &there), std::slice::from_ref(&(10..90)));
        assert_eq!(hulls(&(30..FAR + 9), &there), [30..95, FAR..FAR + 5]);
    }
}
