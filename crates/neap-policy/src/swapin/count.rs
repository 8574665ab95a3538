//! What counts as a swap-in for the shrinker of zswap (SPEC 2.4).

use crate::switches::SwapinCount;

/// Where a page came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// The swap cache had it.
    Cache,
    /// The zero map.
    ZeroMap,
    /// zswap.
    Zswap,
    /// The device.
    Device,
}

/// Something that one of the rules counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Swapin {
    /// A folio was read, alone or within a window.
    Read {
        /// Where it came from.
        source: Source,
        /// Whether it was read for others than the fault's own page.
        readahead: bool,
    },
    /// A readahead call of a fault ended, with the page of the fault.
    ReadaheadEnded {
        /// Whether that page had to be read at the end, because no window had it: where
        /// the window was a single page.
        read_last: bool,
    },
    /// A page read ahead from the device was used for the first time.
    FirstUse,
}

impl SwapinCount {
    /// Whether the event adds one to the counter of the folio's owner.
    #[must_use]
    pub const fn counts(self, event: Swapin) -> bool {
        match (self, event) {
            (SwapinCount::V68, Swapin::ReadaheadEnded { .. }) => true,
            (SwapinCount::V69Literal, Swapin::ReadaheadEnded { read_last }) => read_last,
            (SwapinCount::DiskReads, Swapin::Read { source, .. }) => {
                matches!(source, Source::Device)
            }
            (SwapinCount::UsefulReads, Swapin::Read { source, readahead }) => {
                matches!(source, Source::Device) && !readahead
            }
            (SwapinCount::UsefulReads, Swapin::FirstUse) => true,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a fault counts that reads its page and `ahead` others from `source`, of which
    /// one is used later.
    fn counted(rule: SwapinCount, source: Source, ahead: u32) -> u32 {
        let mut events = vec![Swapin::Read {
            source,
            readahead: false,
        }];
        for _ in 0..ahead {
            events.push(Swapin::Read {
                source,
                readahead: true,
            });
        }
        events.push(Swapin::ReadaheadEnded {
            read_last: ahead == 0,
        });
        if ahead > 0 && source == Source::Device {
            events.push(Swapin::FirstUse);
        }
        events
            .iter()
            .map(|&event| u32::from(rule.counts(event)))
            .sum()
    }

    #[test]
    fn the_rules_count_what_they_are_called() {
        for (rule, source, alone, window) in [
            (SwapinCount::V68, Source::Zswap, 1, 1),
            (SwapinCount::V68, Source::Device, 1, 1),
            (SwapinCount::V69Literal, Source::Zswap, 1, 0),
            (SwapinCount::V69Literal, Source::Device, 1, 0),
            (SwapinCount::DiskReads, Source::Zswap, 0, 0),
            (SwapinCount::DiskReads, Source::ZeroMap, 0, 0),
            (SwapinCount::DiskReads, Source::Device, 1, 8),
            (SwapinCount::UsefulReads, Source::Zswap, 0, 0),
            (SwapinCount::UsefulReads, Source::Device, 1, 2),
        ] {
            assert_eq!(counted(rule, source, 0), alone, "{rule} {source:?} alone");
            assert_eq!(counted(rule, source, 7), window, "{rule} {source:?} of 8");
        }
        let cached = Swapin::Read {
            source: Source::Cache,
            readahead: false,
        };
        assert!(SwapinCount::ALL.iter().all(|rule| !rule.counts(cached)));
    }
}
