//! Whether a space is as it was when its mappings were looked at last: then nothing new is to be found. With hundreds of idle
//! processes those looks would take a good part of a cpu.

use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};

use neap_sys::Extent;
use neap_tuning::TUNING;

/// Written and read by the sampler, but for [`Still::forget`].
#[derive(Default)]
pub(crate) struct Still {
    seen: Seen,
    looked: Seen,
    /// Something has gone since its memory was asked for.
    changed: AtomicBool,
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
    /// Asks how much memory it has now.
    pub fn see(&self, ask: impl FnOnce() -> Extent) -> Extent {
        self.changed.store(false, SeqCst);
        let extent = ask();
        self.seen.set(extent);
        extent
    }

    /// Its mappings are looked at now.
    pub fn is_looked_at(&self) {
        self.passed.store(0, Relaxed);
        let seen = match self.changed.load(SeqCst) {
            true => Extent::default(), // what was asked for may be older
            false => self.seen.get(),
        };
        self.looked.set(seen);
    }

    /// That look found something which it could not take over, or what was registered has gone: the next one is to come soon.
    pub fn forget(&self) {
        self.changed.store(true, SeqCst);
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
        still.see(|| extent);
        assert!(!still.is_passed_over(), "never looked at");
        still.is_looked_at();
        let passed = (0..1000).take_while(|_| still.is_passed_over()).count();
        assert_eq!(passed, TUNING.looks.still as usize);
        still.is_looked_at();
        assert!(still.is_passed_over());
        still.forget();
        assert!(!still.is_passed_over(), "something was left");
        still.is_looked_at();
        assert!(!still.is_passed_over(), "it may have been there already");
        still.see(|| extent);
        still.is_looked_at();
        assert!(still.is_passed_over());
        still.see(|| Extent { size: 3, ..extent });
        assert!(!still.is_passed_over(), "grown");
        let unknown = Still::default();
        unknown.is_looked_at();
        assert!(!unknown.is_passed_over(), "nobody knows its size");
    }
}
