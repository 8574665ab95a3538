//! What imagined pages hold: bytes that compress as it is wished.

use neap_units::PAGE_SIZE;

/// Bytes at the start of a page that tell it from all others and from what it held before, and how much of it is noise.
const HEAD: usize = 16;
/// What lz4 adds to bytes that it finds nothing in, with the head.
const OVERHEAD: f64 = 40.0;
const WRITTEN: u64 = 1 << 63;

/// Bytes of noise in a page that is to get so many times smaller.
pub(super) fn noise_of(ratio: f64) -> u64 {
    let whole = PAGE_SIZE as f64;
    let bytes = whole / ratio.max(1.0) - OVERHEAD;
    if ratio <= 1.0 {
        PAGE_SIZE as u64
    } else {
        bytes.max(0.0) as u64
    }
}

/// Writes a page: nothing but its head changes if it has so much noise already.
pub(super) fn write(bytes: &mut [u8; PAGE_SIZE], stamp: u64, noise: u64) {
    bytes[..8].copy_from_slice(&mixed(stamp).to_ne_bytes());
    let mark = (WRITTEN | noise).to_ne_bytes();
    if bytes[8..HEAD] == mark {
        return;
    }
    bytes[8..HEAD].copy_from_slice(&mark);
    let (noisy, still) = bytes[HEAD..].split_at_mut((noise as usize).min(PAGE_SIZE - HEAD));
    still.fill(0);
    for (at, word) in (stamp << 10..).zip(noisy.chunks_mut(8)) {
        word.copy_from_slice(&mixed(at).to_ne_bytes()[..word.len()]);
    }
}

/// Another number for each, without a pattern (splitmix64, Steele, Lea and Flood, 2014).
fn mixed(number: u64) -> u64 {
    let mut word = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use neap_store::{CompressorKind, Config, HashKey, NoFile, Store, VecArena};
    use neap_units::{Pages, SpaceId};

    use super::*;

    #[test]
    fn a_page_gets_as_many_times_smaller_as_is_wished() {
        for ratio in [1.2, 2.0, 4.4, 12.0] {
            let config = Config {
                compressor: CompressorKind::Lz4,
                pool_max: Pages(1 << 10),
                ..Config::default()
            };
            let arena = Box::new(VecArena::new(1 << 22));
            let key = HashKey::new(&[7; HashKey::BYTES]);
            let store = Store::new(config, arena, Box::new(NoFile), key);
            let mut codec = store.codec();
            for stamp in 0..256 {
                let mut page = [0; PAGE_SIZE];
                write(&mut page, stamp, noise_of(ratio));
                store
                    .store(SpaceId(0), &page, &mut codec)
                    .expect("there is room");
            }
            let held = store.holding();
            let is = held.held as f64 / held.compressed as f64;
            assert!((is / ratio - 1.0).abs() < 0.05, "{is} instead of {ratio}");
        }
    }
}
