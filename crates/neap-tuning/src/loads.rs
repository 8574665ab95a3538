//! Loading pages: readahead, and copies that stay in the pool.

use neap_units::Pages;

use crate::Share;

crate::group! {
    /// Loading pages: readahead, and copies that stay in the pool.
    loads: Loads {
        /// Pages that one fault loads at most.
        /// Twice what the kernel has (SWAP_RA_ORDER_CEILING). Chosen.
        window: Pages = Pages(64);
        /// The same near the limit: what may be loaded without room for it.
        /// Chosen.
        window_near: Pages = Pages(16);
        /// Room for which one that waits for room is called.
        /// What one of them takes, more or less: a window of readahead. Chosen.
        window_usual: Pages = Pages(8);
        /// A fault that continues no walk loads the aligned block of so many pages, where there is much room.
        /// What left for idleness and not for want of room is wanted again as a whole (ADR 0024).
        around: Pages = Pages(4);
        /// Share of each limit that must be free for that.
        /// Reclaim keeps less free. Chosen.
        around_room: Share = Share::one_in(8);
        /// Walks that are followed at a time.
        /// gcc goes over that many lists by turns; sort merges 16 runs (ADR 0024).
        walks: usize = 32;
        /// Equal distances in a row that make a walk.
        /// Chosen.
        equal_distances: u32 = 3;
        /// How often pages that were loaded are tried to be filled while the address space is changing.
        /// Chosen.
        tries: u32 = 32;
        /// How often a staged page that cannot be read is tried before it is given up.
        /// Chosen.
        reads: u32 = 3;
        /// Loaded pages keep their compressed copies while the pool takes less than this share of the limit.
        /// Chosen.
        keep_below: Share = Share::percent(25);
        /// They keep them only where so many are loaded at once.
        /// Who walks on will not come back before they leave again, so that the room of a copy is no loss. Where any page may be
        /// next, a copy is a page that is not resident.
        keep_from: usize = 4;
        /// Copies are offered to a forked child while the pool takes less than this share of the limit.
        /// Chosen.
        offer_below: Share = Share::percent(50);
        /// Looks at copies after which what was seen counts for half.
        /// Chosen.
        copies_lately: u32 = 256;
        /// Looks at copies of which fewer say nothing.
        /// Chosen.
        copies_enough: u32 = 64;
        /// Share of the copies that must be the same as their page when it leaves.
        /// The first time a copy is decompressed to see that, which takes two fifths of compressing the page anew.
        copies_pay: Share = Share::percent(40);
        /// Where it does not pay, one batch in so many leaves its copies.
        /// To see whether that is still so. Chosen.
        copies_tried: u32 = 16;
    }
}
