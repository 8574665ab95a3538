//! Where a page that the table has as resident can be gone only by a fault of neap's.
//!
//! The kernel drops a page that was declared free (MADV_FREE) without a word. Of what is declared free in a registered
//! range it tells; what was before is told by nobody, page by page. So neap vouches for the mappings of the first look,
//! after which it asks whether anything at all is declared free, and in those of later looks for what was not there yet
//! when they were registered.

use std::ops::Range;

use super::Space;

impl Space {
    /// Takes note of a mapping that was registered just now, but for its parts in `known`. `there` is the shortest
    /// range that holds all pages which those parts had; with nothing in it all is vouched for.
    pub(super) fn vouch(&self, range: &Range<u64>, known: &[Range<u64>], there: &Range<u64>) {
        let mut vouched = self.vouched.lock().expect("vouched lock");
        for part in gaps(range, known) {
            vouched.remove(part.clone());
            let before = part.start..there.start.clamp(part.start, part.end);
            let after = there.end.clamp(part.start, part.end)..part.end;
            let sure = match there.is_empty() {
                true => [part.clone(), part.end..part.end],
                false => [before, after],
            };
            for sure in sure.into_iter().filter(|sure| !sure.is_empty()) {
                vouched.insert(sure);
            }
        }
    }

    /// A forked child has what its parent had, and none of it was declared free unheard since.
    pub(super) fn vouch_like_parent(&self) {
        let parent = self.kin.parent();
        let known = parent.map(|parent| parent.vouched.lock().expect("vouched lock").clone());
        *self.vouched.lock().expect("vouched lock") = known.unwrap_or_default();
    }

    pub fn is_vouched_for(&self, address: u64) -> bool {
        let vouched = self.vouched.lock().expect("vouched lock");
        vouched.find(address).is_some()
    }
}

/// What of `range` is in none of `known`, which ascend.
pub(super) fn gaps(range: &Range<u64>, known: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut gaps = Vec::new();
    let mut from = range.start;
    for part in known {
        gaps.push(from..part.start.min(range.end));
        from = from.max(part.end);
    }
    gaps.push(from..range.end);
    gaps.retain(|gap| gap.start < gap.end);
    gaps
}

/// The shortest range that holds `hull` and what of `run` is in one of `parts`.
pub(super) fn widen(hull: &mut Range<u64>, run: &Range<u64>, parts: &[Range<u64>]) {
    for part in parts {
        let (start, end) = (run.start.max(part.start), run.end.min(part.end));
        if start >= end {
            continue;
        }
        *hull = match hull.is_empty() {
            true => start..end,
            false => hull.start.min(start)..hull.end.max(end),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_what_is_new() {
        let all = std::slice::from_ref(&(10..90));
        assert_eq!(gaps(&(10..90), &[]), all);
        assert_eq!(gaps(&(10..90), &[10..20, 30..40]), [20..30, 40..90]);
        assert_eq!(gaps(&(10..90), all), []);
    }

    #[test]
    fn a_hull_holds_what_new_parts_have() {
        let (parts, mut hull) = ([20..30, 40..90], 0..0);
        widen(&mut hull, &(0..20), &parts);
        assert!(hull.is_empty());
        for run in [25..35, 50..55] {
            widen(&mut hull, &run, &parts);
        }
        assert_eq!(hull, 25..55);
    }
}
