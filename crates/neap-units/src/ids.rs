//! Names of things that live in tables: plain indices that do not mix.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty), $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(pub $inner);

        impl $name {
            /// The id as an array index.
            #[inline]
            #[must_use]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    };
}

id!(
    /// A managed address space: one process as the engine sees it.
    SpaceId(u16), "space "
);
id!(
    /// A page record in the page table of the job (leaf in the high bits,
    /// offset within the leaf in the low six).
    PageId(u32), "page record "
);
id!(
    /// A page-sized slot of a staging area, where a page waits to be compressed.
    SlotId(u32), "slot "
);
id!(
    /// A compressed page held by the store. `u32::MAX` is never an entry: packed
    /// words use it for "none".
    EntryId(u32), "entry "
);

id!(
    /// A page-sized slot of a swap area, counted over all areas of a machine. 0 is a
    /// header and never holds a page: packed links use it for "none".
    SwapSlot(u32), "swap slot "
);

impl EntryId {
    /// Largest value the store may hand out.
    pub const MAX: EntryId = EntryId(u32::MAX - 1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_print_what_they_name() {
        assert_eq!(SpaceId(3).to_string(), "space 3");
        assert_eq!(PageId(64).to_string(), "page record 64");
        assert_eq!(SlotId(1).to_string(), "slot 1");
        assert_eq!(EntryId::MAX.to_string(), "entry 4294967294");
        assert_eq!(SwapSlot(9).to_string(), "swap slot 9");
        assert_eq!(EntryId(7).index(), 7);
    }
}
