//! What neap has learnt of how a program uses its memory. It is never unlearnt, and a forked child has it from its parent.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

#[derive(Clone, Copy)]
#[repr(u8)]
pub(crate) enum Trait {
    /// It uses MADV_WIPEONFORK.
    Wipes = 1,
    /// It declares memory free (MADV_FREE): the kernel may drop pages of it without a word.
    Frees = 2,
    /// It has a userfaultfd of its own, and may ask for the faults of what it has not touched.
    Exact = 4,
}

#[derive(Default)]
pub(crate) struct Traits(AtomicU8);

impl Traits {
    pub fn has(&self, one: Trait) -> bool {
        self.0.load(Relaxed) & one as u8 != 0
    }

    pub fn note(&self, one: Trait) {
        self.0.fetch_or(one as u8, Relaxed);
    }

    /// As if nothing had been learnt.
    pub fn forget(&self) {
        self.0.store(0, Relaxed);
    }

    pub fn inherit_from(&self, parent: &Traits) {
        self.0.fetch_or(parent.0.load(Relaxed), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_has_what_its_parent_has_and_its_own() {
        let (parent, child) = (Traits::default(), Traits::default());
        parent.note(Trait::Frees);
        child.note(Trait::Wipes);
        child.inherit_from(&parent);
        assert!(child.has(Trait::Frees) && child.has(Trait::Wipes) && !child.has(Trait::Exact));
        assert!(!parent.has(Trait::Wipes));
    }
}
