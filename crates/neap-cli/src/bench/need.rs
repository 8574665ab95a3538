//! How much memory a command takes by itself, which no single figure tells.

use neap_tuning::TUNING;
use neap_units::Bytes;

use super::figures::Raw;

/// What a plain run took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// Anonymous memory when it was looked at: what came and went in between is not in it.
    seen: Bytes,
    /// The kernel's own peak, which misses nothing, and counts page cache or mapped files too.
    told: Option<(Bytes, &'static str)>,
}

impl Need {
    /// Of a plain run.
    #[must_use]
    pub fn of(plain: &Raw) -> Self {
        let group = plain.group_peak_bytes.map(|bytes| {
            let what = "the peak of its control group, page cache included";
            (Bytes(bytes), what)
        });
        let largest = plain.max_rss_bytes.map(|bytes| {
            let what = "the peak of its largest process, mapped files included";
            (Bytes(bytes), what)
        });
        let seen = Bytes(plain.peak_memory_bytes);
        Self {
            seen,
            told: group.or(largest).filter(|(told, _)| *told > seen),
        }
    }

    /// How large a swap file must be: what the command used plainly, again as much for what is free in
    /// between, and a little more. First by all that is known, then by what was seen, for page cache needs none.
    #[must_use]
    pub fn swap_sizes(self) -> [Bytes; 2] {
        let most = self.told.map_or(self.seen, |(told, _)| told);
        [most, self.seen].map(|need| (need * 2 + TUNING.bench.spare).whole_pages().into())
    }

    /// What is said of a limit of `size` that the command may fit in.
    #[must_use]
    pub fn warning(self, size: Bytes) -> Option<String> {
        let seen = format!(
            "the command's anonymous memory, {} when looked at each 10 ms, fits in {size}",
            self.seen
        );
        match self.told {
            _ if self.seen >= size => None,
            Some((told, what)) if told >= size => Some(format!(
                "{seen}, and {what}, is {told}: it may be that nothing but files need go out"
            )),
            Some((told, what)) => Some(format!(
                "{seen}, and so does {what}, {told}: nothing need go out"
            )),
            None => Some(format!("{seen}: nothing need go out")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::figures::tests::raw;
    use super::*;
    use crate::choice::Contender;

    fn need(seen: u64, group: Option<u64>, largest: Option<u64>) -> Need {
        let mut plain = raw(Contender::Plain, 0, 1.0);
        plain.peak_memory_bytes = seen << 20;
        plain.group_peak_bytes = group.map(|mib| mib << 20);
        plain.max_rss_bytes = largest.map(|mib| mib << 20);
        Need::of(&plain)
    }

    #[test]
    fn a_swap_file_holds_more_than_the_command() {
        let sizes = |need: Need| need.swap_sizes().map(|size| size.0 >> 20);
        assert_eq!(sizes(need(100, None, None)), [264, 264]);
        assert_eq!(sizes(need(100, Some(300), Some(120))), [664, 264]);
        assert_eq!(sizes(need(100, None, Some(120))), [304, 264]);
        assert_eq!(sizes(need(100, Some(90), None)), [264, 264]);
    }

    #[test]
    fn that_a_command_fits_is_said_by_the_kernels_own_peak() {
        let size = Bytes::mib(64);
        assert_eq!(need(64, Some(80), None).warning(size), None);
        let line = need(10, Some(20), None).warning(size).unwrap();
        assert!(
            line.ends_with("page cache included, 20MiB: nothing need go out"),
            "{line}"
        );
        let line = need(10, Some(80), None).warning(size).unwrap();
        assert!(line.contains("10MiB when looked at each 10 ms"), "{line}");
        assert!(line.contains("is 80MiB: it may be"), "{line}");
        let line = need(10, None, None).warning(size).unwrap();
        assert!(
            line.ends_with("fits in 64MiB: nothing need go out"),
            "{line}"
        );
    }
}
