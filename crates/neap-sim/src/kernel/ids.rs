//! Names of what the imagined kernel keeps: indices that do not mix.

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(pub u32);

        impl $name {
            /// The id as an array index.
            #[inline]
            #[must_use]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

id!(
    /// An address space (kernel: `mm_struct`).
    SpaceId
);
id!(
    /// A file with its page cache.
    FileId
);
id!(
    /// An object of shared anonymous memory (kernel: a shmem inode).
    ShmemId
);
id!(
    /// A task; the caller chooses the number.
    TaskId
);
id!(
    /// A CPU.
    CpuId
);
id!(
    /// A NUMA node.
    NodeId
);
id!(
    /// An area, over all spaces.
    AreaId
);
id!(
    /// What areas map: an object of pages with its reverse map.
    ObjectId
);
