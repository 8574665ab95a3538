//! What memory a job has that cannot be reclaimed, and why: for the message that says so.

use std::ops::Range;

use neap_sys::Figures;
use neap_tuning::TUNING;
use neap_units::Bytes;

use crate::group::Group;
use crate::job::Job;

/// Why memory stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    Locked,
    File,
    ReadOnly,
    Executable,
    Shared,
    Unseen,
    Rest,
    Kernel,
    Own,
    Pool,
}

/// With the words for each.
const REASONS: [(Reason, &str); 10] = [
    (Reason::Locked, "is locked"),
    (Reason::File, "is of files"),
    (Reason::ReadOnly, "is read-only"),
    (Reason::Executable, "is executable"),
    (Reason::Shared, "is shared since a fork"),
    (Reason::Unseen, "is not managed, as asked or not found yet"),
    (Reason::Rest, "is pinned, in use or does not compress"),
    (
        Reason::Kernel,
        "is the kernel's for more than 1,000 mappings",
    ),
    (Reason::Own, "is what neap itself takes"),
    (Reason::Pool, "is compressed already"),
];

/// Bytes for each reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Inventory([u64; REASONS.len()]);

impl Inventory {
    /// Looks at all memory of a group. Slow.
    pub fn take(job: &Job, group: &Group) -> Self {
        let mut all = Self::default();
        for space in job.spaces_of(group).iter() {
            let Some(body) = space.body.get().filter(|_| !space.is_dead()) else {
                continue;
            };
            all.0[Reason::Kernel as usize] += space.mappings.bytes();
            for mapping in body.process.figures().unwrap_or_default() {
                all.add(&mapping, &body.own);
            }
        }
        let (_, peaks) = group.meter.peaks();
        all.0[Reason::Own as usize] = peaks.own;
        all.0[Reason::Pool as usize] = match group.parent {
            None => job.store.pool_memory().0,
            Some(_) => group.meter.pool(),
        };
        all
    }

    /// `own`: memory of neap's own in the program, which holds pages that are on their way out.
    fn add(&mut self, mapping: &Figures, own: &[Range<u64>]) {
        let meets =
            |own: &Range<u64>| own.start < mapping.range.end && mapping.range.start < own.end;
        if own.iter().any(meets) {
            return;
        }
        let shared = mapping.shared.min(mapping.anonymous);
        if !mapping.file {
            let own = mapping.anonymous - shared;
            self.0[Reason::Shared as usize] += mapping.proportional.saturating_sub(own); // each sharer adds its part
        }
        let reason = match mapping {
            _ if mapping.file => return self.0[Reason::File as usize] += mapping.anonymous,
            _ if mapping.locked > 0 => Reason::Locked,
            _ if mapping.exec => Reason::Executable,
            _ if !mapping.write => Reason::ReadOnly,
            _ if !mapping.traps_missing() => Reason::Unseen,
            _ => Reason::Rest,
        };
        self.0[reason as usize] += mapping.anonymous - shared;
    }

    /// The largest of these reasons, with their bytes.
    fn largest(&self, among: fn(Reason) -> bool) -> Vec<(u64, Reason, &'static str)> {
        let all: u64 = self.0.iter().sum();
        let mut parts: Vec<_> = REASONS
            .iter()
            .filter(|(reason, _)| among(*reason))
            .map(|&(reason, words)| (self.0[reason as usize], reason, words))
            .filter(|&(bytes, ..)| bytes > 0 && bytes >= TUNING.report.small_reason.of(all))
            .collect();
        parts.sort_by_key(|&(bytes, ..)| std::cmp::Reverse(bytes));
        parts.truncate(TUNING.report.reasons);
        parts
    }

    fn words_of(&self, among: fn(Reason) -> bool) -> String {
        let parts = self.largest(among).into_iter();
        let parts: Vec<String> = parts
            .map(|(bytes, _, words)| format!("{} {words}", Bytes(bytes)))
            .collect();
        parts.join(", ")
    }

    /// The largest reasons, in words.
    pub fn words(&self) -> String {
        self.words_of(|_| true)
    }

    /// Bytes of the programs that reclaim cannot take, as far as it is sure.
    pub fn held(&self) -> u64 {
        let sure = |reason: &Reason| {
            use Reason::{Own, Pool, Rest, Unseen};
            !matches!(reason, Unseen | Rest | Own | Pool)
        };
        let reasons = REASONS.iter().filter(|(reason, _)| sure(reason));
        reasons.map(|&(reason, _)| self.0[reason as usize]).sum()
    }

    /// The same with what is not managed: nobody may have found it yet.
    pub fn held_at_most(&self) -> u64 {
        self.held() + self.0[Reason::Unseen as usize]
    }

    /// The same of what reclaim cannot take from the programs; empty: it can take all of it.
    pub fn words_of_held(&self) -> String {
        self.words_of(|reason| !matches!(reason, Reason::Rest | Reason::Own | Reason::Pool))
    }

    /// The same of all that stays in the programs.
    pub fn words_of_programs(&self) -> String {
        self.words_of(|reason| !matches!(reason, Reason::Own | Reason::Pool))
    }

    /// What the user can do. A larger swap file takes compressed pages and those that do not compress, and no others.
    /// `writeback`: they may go there.
    pub fn advice(&self, writeback: bool) -> &'static str {
        let leaves = |reason| matches!(reason, Reason::Rest | Reason::Pool);
        match self
            .largest(|_| true)
            .iter()
            .any(|&(_, reason, _)| leaves(reason))
        {
            true if writeback => "give a larger -m or --swap-size",
            true => "give a larger -m, or set zswap.writeback=1",
            false => "give a larger -m",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn mapping(change: impl FnOnce(&mut Figures)) -> Figures {
        let mut mapping = Figures::default();
        (mapping.range, mapping.write, mapping.anonymous) = (10..20, true, 8 * MIB);
        change(&mut mapping);
        mapping
    }

    fn words(mapping: &Figures) -> String {
        let mut all = Inventory::default();
        all.add(mapping, &[]);
        all.words()
    }

    #[test]
    fn each_mapping_has_its_reason() {
        let said = |change: fn(&mut Figures)| words(&mapping(change));
        assert_eq!(said(|m| m.locked = 1), "8MiB is locked");
        assert_eq!(said(|m| (m.file, m.locked) = (true, 1)), "8MiB is of files");
        assert_eq!(said(|m| m.write = false), "8MiB is read-only");
        assert_eq!(said(|m| m.exec = true), "8MiB is executable");
        assert_eq!(
            said(|m| (m.shared, m.proportional) = (m.anonymous, 2 * MIB)),
            "2MiB is shared since a fork"
        );
        assert!(said(|_| {}).contains("not found yet"));
        assert_eq!(said(|m| m.anonymous = 0), "");
    }

    #[test]
    fn the_largest_reasons_come_first_and_small_ones_are_left_out() {
        let mut all = Inventory::default();
        all.add(&mapping(|m| m.locked = 1), &[]);
        all.add(
            &mapping(|m| (m.write, m.anonymous) = (false, 20 * MIB)),
            &[],
        );
        all.add(&mapping(|m| (m.exec, m.anonymous) = (true, MIB)), &[]);
        all.add(&mapping(|m| m.exec = true), std::slice::from_ref(&(12..14)));
        assert_eq!(all.words(), "20MiB is read-only, 8MiB is locked");
        all.0[Reason::Rest as usize] = 90 * MIB;
        assert_eq!(
            all.words(),
            "90MiB is pinned, in use or does not compress, 20MiB is read-only, 8MiB is locked"
        );
        assert_eq!(all.words_of_held(), "20MiB is read-only, 8MiB is locked");
        assert_eq!(all.held(), 29 * MIB, "what compresses may leave");
    }

    #[test]
    fn a_larger_swap_file_is_advised_only_for_what_it_can_take() {
        let advice = |reason: Reason| {
            let mut all = Inventory::default();
            all.0[reason as usize] = 8 * MIB;
            (all.advice(true), all.advice(false))
        };
        for (reason, _) in REASONS {
            let takes = matches!(reason, Reason::Rest | Reason::Pool);
            let (usual, switched_off) = advice(reason);
            assert_eq!(usual.contains("--swap-size"), takes, "{reason:?}");
            assert!(!switched_off.contains("--swap-size"), "{reason:?}");
            assert_eq!(switched_off.contains("zswap.writeback=1"), takes);
            assert!(
                usual.starts_with("give a larger -m")
                    && switched_off.starts_with("give a larger -m")
            );
        }
    }
}
