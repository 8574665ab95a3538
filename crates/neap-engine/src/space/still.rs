//! Whether a space is as it was when its mappings were looked at last: then nothing new is to be found. With hundreds of idle
//! processes those looks would take a good part of a cpu.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use neap_sys::Extent;
use neap_tuning::TUNING;

/// Written and read by the sampler, but for [`Still::forget`].
#[derive(Default)]
pub(crate) struct Still {
    seen: Seen,
    looked: Seen,
    /// So often it was passed over since.
    passed: AtomicU32,
}

#[derive(Default)]
struct Seen {
    anon: AtomicU64,
    size: AtomicU64,
}

impl Seen {
    fn set(&self, extent: Extent) {
        self.anon.store(extent.anon, Relaxed);
        self.size.store(extent.size, Relaxed);
    }

    fn get(&self) -> Extent {
        Extent {
            anon: self.anon.load(Relaxed),
            size: self.size.load(Relaxed),
        }
    }
}

impl Still {
    /// How much memory it has now.
    pub fn see(&self, extent: Extent) {
        self.seen.set(extent);
    }

    /// Its mappings are looked at now.
    pub fn is_looked_at(&self) {
        self.looked.set(self.seen.get());
        self.passed.store(0, Relaxed);
    }

    /// That look found something which it could not take over, or what was registered has gone: the next one is to come soon.
    pub fn forget(&self) {
        self.looked.set(Extent::default());
    }

    /// Whether it is as it was when its mappings were looked at last. Not for ever: a mapping that is not registered may have
    /// taken the place of another.
    pub fn is_passed_over(&self) -> bool {
        let seen = self.seen.get();
        let same = seen.size > 0 && seen == self.looked.get();
        same && self.passed.fetch_add(1, Relaxed) < TUNING.looks.still
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_changes_is_looked_at_and_who_does_not_now_and_then() {
        let still = Still::default();
        let extent = Extent { anon: 1, size: 2 };
        still.see(extent);
        assert!(!still.is_passed_over(), "never looked at");
        still.is_looked_at();
        let passed = (0..1000).take_while(|_| still.is_passed_over()).count();
        assert_eq!(passed, TUNING.looks.still as usize);
        still.is_looked_at();
        assert!(still.is_passed_over());
        still.forget();
        assert!(!still.is_passed_over(), "something was left");
        still.is_looked_at();
        still.see(Extent { size: 3, ..extent });
        assert!(!still.is_passed_over(), "grown");
        let unknown = Still::default();
        unknown.is_looked_at();
        assert!(!unknown.is_passed_over(), "nobody knows its size");
    }
}
