//! The pool of compressed pages, and the tables of what is stored.

use neap_units::{Bytes, Pages};

use crate::Share;

crate::group! {
    /// The pool of compressed pages, and the tables of what is stored.
    pool: Pool {
        /// Share of the pool's limit at which it opens again once it was full.
        /// As the kernel's accept_threshold_percent.
        accept: Share = Share::percent(90);
        /// Least room for staged pages that forked children share, in bytes of addresses.
        /// Chosen.
        fork_room: Bytes = Bytes::gib(1);
        /// The same in times the limit.
        /// Chosen.
        fork_times: u64 = 2;
        /// Room in the pool for fragments, as a share of its limit, in addresses.
        /// Chosen.
        fragments: Share = Share::one_in(4);
        /// Level of zstd where no compressor is named.
        /// ADR 0007 has what it compresses to, and in what time.
        zstd_default: i32 = -1;
        /// Level of zstd where none is named.
        /// Of the levels 1 to 3, pages of 4 KiB gain little after 1.
        zstd: i32 = 1;
        /// Level of deflate where none is named.
        /// The speed and ratio of a hardware engine.
        deflate: i32 = 1;
        /// Longest zspage.
        /// zsmalloc's default chain is 8 (Linux 6.3). Longer ones waste less at their end, but a small pool pays half a zspage
        /// for each class: 6 was the best over size mixes.
        zspage: Pages = Pages(6);
        /// Share of itself that a zspage may waste before a longer one is tried.
        /// Chosen.
        waste: Share = Share::one_in(24);
        /// Free slots of a class beyond one zspage that are left alone, as a share of those in use.
        /// Chosen.
        slack: Share = Share::one_in(32);
        /// Idle pages that are kept, as a share of those in use.
        /// Chosen.
        idle: Share = Share::one_in(32);
        /// Idle pages that are kept in any case.
        /// Chosen.
        idle_least: Pages = Pages(64);
        /// Pages that are backed at a time, if so many are free.
        /// Chosen (ADR 0018).
        backed: Pages = Pages(32);
        /// Most compressed bytes that are on their way to the swap file through a pool that takes nothing else.
        /// A few writes' worth. Chosen.
        passage: Bytes = Bytes::mib(1);
        /// Numbers of ended address spaces that are kept from reuse since entries of theirs live on in forked children.
        /// A 16th of all numbers there are.
        retired: usize = 4096;
        /// Entries in a chunk of the store's table.
        /// 10 KiB, so that few are allocated and little is left over.
        entries: usize = 512;
        /// Entries handled under one hold of the lock where there may be many.
        /// Chosen.
        entries_held: usize = 32;
    }
}
