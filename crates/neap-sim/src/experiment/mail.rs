//! The mails that posted what the experiments run: `docs/seeds.md` has them with links.

/// A mail to the kernel's lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mail {
    /// Its Message-Id, without brackets.
    pub id: &'static str,
    /// Its subject.
    pub subject: &'static str,
}

impl Mail {
    /// Where the lists' archive has it.
    #[must_use]
    pub fn link(&self) -> String {
        format!("https://lore.kernel.org/all/{}/", self.id)
    }
}

/// S0: the second chance; its measurement of a build in 2 GB, and that with cold data.
pub(super) const SECOND_CHANCE: Mail = Mail {
    id: "20240730222707.2324536-2-nphamcs@gmail.com",
    subject: "[PATCH v2 1/2] zswap: implement a second chance algorithm for dynamic zswap shrinker",
};
/// S0: counting of swap-ins.
pub(super) const DISK_SWAPINS: Mail = Mail {
    id: "20240730222707.2324536-3-nphamcs@gmail.com",
    subject: "[PATCH v2 2/2] zswap: increment swapin count for non-pivot swapped in pages",
};
/// S3: the same, as merged.
pub(super) const SECOND_CHANCE_V3: Mail = Mail {
    id: "20240805232243.2896283-1-nphamcs@gmail.com",
    subject: "[PATCH v3 0/2] improving dynamic zswap shrinker protection scheme",
};
/// S1: stores of large folios.
pub(super) const MTHP_V6: Mail = Mail {
    id: "20240829212705.6714-1-kanchana.p.sridhar@intel.com",
    subject: "[PATCH v6 0/3] mm: ZSWAP swap-out of mTHP folios",
};
/// The same, as merged.
pub(super) const MTHP_V10: Mail = Mail {
    id: "20241001053222.6944-1-kanchana.p.sridhar@intel.com",
    subject: "[PATCH v10 0/7] mm: zswap swap-out of large folios",
};
/// S2: the memcg LRU.
pub(super) const MEMCG_LRU: Mail = Mail {
    id: "20221222041905.2431096-1-yuzhao@google.com",
    subject: "mm: multi-gen LRU: memcg LRU, v3",
};
/// S2: which mappings have recency.
pub(super) const RECENCY: Mail = Mail {
    id: "20221230215252.2628425-1-yuzhao@google.com",
    subject: "mm: add vma_has_recency()",
};
/// S2: POSIX_FADV_NOREUSE.
pub(super) const NOREUSE: Mail = Mail {
    id: "20221230215252.2628425-2-yuzhao@google.com",
    subject: "mm: support POSIX_FADV_NOREUSE",
};
/// S4: rotation of what zswap wrote back.
pub(super) const ROTATION: Mail = Mail {
    id: "20240209115950.3885183-1-chengming.zhou@linux.dev",
    subject: "[PATCH RFC 0/1] mm/zswap: fix LRU reclaim for zswap writeback folios",
};
