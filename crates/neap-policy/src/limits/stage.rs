//! How much may wait between its last touch and being compressed.

use neap_tuning::TUNING;
use neap_units::Bytes;

/// Blocks of so many bytes that wait for a touch, at least one.
#[must_use]
pub fn staged_blocks(limit: Bytes, block: Bytes) -> u64 {
    (TUNING.reclaim.staged.of(limit.0) / block.0).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_limit_stages_one_block() {
        let at = |mib| staged_blocks(Bytes::mib(mib), Bytes::kib(256));
        assert_eq!([at(4), at(32), at(64), at(256)], [1, 1, 2, 8]);
    }
}
