//! What a parameter that is a number may be: what the simulator can hold in memory and do in its life.

/// The smallest and the largest value, and whether it must be whole.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Range {
    low: f64,
    high: f64,
    whole: bool,
}

/// Most of any count.
const MANY: f64 = 1e6;
/// Most MiB of memory in use or of swap: 1 TiB, whose bookkeeping takes about 32 bytes a page.
pub(super) const MOST_MIB: f64 = 1_048_576.0;

/// Keys that may be 0: there is none of it, or it takes no time.
const NONE_IS_FINE: &[&str] = &[
    "cold",
    "swap_latency",
    "pace",
    "pause",
    "warm_up",
    "source",
    "headers",
    "object",
    "scatter",
    "serial",
    "prepare",
    "before",
    "touched",
    "exponent",
    "work",
    "zstd_compress",
    "zstd_decompress",
    "iaa_compress",
    "iaa_decompress",
];

impl Range {
    pub(super) fn of(key: &str, unit: &str) -> Range {
        let range = |low, high, whole| Range { low, high, whole };
        let least = |other| {
            if NONE_IS_FINE.contains(&key) {
                0.0
            } else {
                other
            }
        };
        match (key, unit) {
            ("page_cluster" | "order", _) => range(0.0, 9.0, true),
            // No page of it costs anything until it is used.
            ("ram", _) => range(16.0, 16.0 * MOST_MIB, false),
            (_, "CPUs") => range(1.0, 4096.0, true),
            (_, "MiB") => range(least(1.0), MOST_MIB, false),
            ("memory", _) => range(1.0, 64.0, false),
            // What costs no time at all would never end.
            (cost, _) if cost.starts_with(super::cost::PREFIX) => range(1.0, MANY, true),
            ("scatter", _) => range(0.0, 1.0, false),
            ("exponent", _) => range(0.0, 10.0, false),
            (_, unit) if unit.starts_with('%') => range(0.0, 100.0, false),
            (_, "s" | "ms" | "us" | "ns" | "times" | "" | "MiB/s" | "touches/s") => {
                range(least(0.001), MANY, false)
            }
            _ => range(least(1.0), MANY, true),
        }
    }

    /// Whether it is within; what is no number is not.
    pub(super) fn holds(self, value: f64) -> bool {
        (self.low..=self.high).contains(&value) && (!self.whole || value.fract() == 0.0)
    }

    /// What to write.
    pub(super) fn wanted(self, unit: &str) -> String {
        let kind = if self.whole {
            "a whole number"
        } else {
            "a number"
        };
        let of = if unit.is_empty() { "" } else { " of " };
        format!("{kind}{of}{unit} from {} to {}", self.low, self.high)
    }
}
