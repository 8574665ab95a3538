//! The two kinds of memory.

use super::Flags;
use crate::counters::Counter;

/// Anonymous or file: which storage a folio goes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Anonymous and shared memory.
    Anon = 0,
    /// Page cache of files.
    File = 1,
}

impl Kind {
    pub(crate) const BOTH: [Kind; 2] = [Kind::Anon, Kind::File];

    #[inline]
    pub(crate) fn of(flags: Flags) -> Kind {
        if flags.has(Flags::SWAPBACKED) {
            Kind::Anon
        } else {
            Kind::File
        }
    }

    /// The other one.
    pub(crate) fn other(self) -> Kind {
        match self {
            Kind::Anon => Kind::File,
            Kind::File => Kind::Anon,
        }
    }

    /// `anon` or `file`.
    pub(crate) fn pick(self, anon: Counter, file: Counter) -> Counter {
        match self {
            Kind::Anon => anon,
            Kind::File => file,
        }
    }
}

/// Index of a size: inactive and active anonymous, inactive and active file.
#[inline]
pub(crate) fn list_of(kind: Kind, active: bool) -> usize {
    kind as usize * 2 + usize::from(active)
}
