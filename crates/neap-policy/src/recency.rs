//! Which accesses make a page hot (SPEC 4.1): the rule of mappings without recency, for the simulated kernel and for
//! `neap run`.

use crate::switches::Recency;

/// What a program says of how it will use memory (kernel: `madvise`, and NOREUSE of an open file).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Advice {
    /// Nothing (MADV_NORMAL).
    #[default]
    Normal,
    /// MADV_SEQUENTIAL.
    Sequential,
    /// MADV_RANDOM.
    Random,
    /// POSIX_FADV_NOREUSE on the file.
    NoReuse,
}

impl Advice {
    /// Whether accesses to such memory count. (kernel: vma_has_recency, include/linux/mm_inline.h, 6.3. Before, the
    /// classic lists alone ignored sequential mappings.)
    #[must_use]
    pub fn has_recency(self, rule: Recency, generational: bool) -> bool {
        match (rule, self) {
            (_, Advice::Normal) => true,
            (Recency::Hints, _) => false,
            (Recency::SequentialOnly, advice) => advice != Advice::Sequential || generational,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_take_the_recency_of_a_mapping() {
        let advised = [
            Advice::Normal,
            Advice::Sequential,
            Advice::Random,
            Advice::NoReuse,
        ];
        for (rule, generations, want) in [
            (Recency::SequentialOnly, false, [true, false, true, true]),
            (Recency::SequentialOnly, true, [true; 4]),
            (Recency::Hints, false, [true, false, false, false]),
            (Recency::Hints, true, [true, false, false, false]),
        ] {
            let found = advised.map(|advice| advice.has_recency(rule, generations));
            assert_eq!(found, want, "{rule} {generations}");
        }
    }
}
