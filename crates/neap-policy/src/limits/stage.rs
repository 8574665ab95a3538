//! How much may wait between its last touch and being compressed.

use neap_units::Bytes;

/// Share of the limit that staged pages may take before the oldest are compressed: 1/128. It is the program's memory
/// all the same, but each touch of it is a fault.
const STAGE_SHARE: u64 = 128;

/// Blocks of so many bytes that wait for a touch, at least one.
#[must_use]
pub fn staged_blocks(limit: Bytes, block: Bytes) -> u64 {
    (limit.0 / STAGE_SHARE / block.0).max(1)
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
