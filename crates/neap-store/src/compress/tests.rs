use proptest::prelude::*;

use super::*;

const KINDS: [CompressorKind; 5] = [
    CompressorKind::Lz4,
    CompressorKind::Zstd(1),
    CompressorKind::Zstd(-3),
    CompressorKind::Zstd(9),
    CompressorKind::Deflate(1),
];

/// A page as programs make them: words drawn from a small set, some noise, some zeros.
pub(crate) fn page_like(seed: u64, noise_percent: u64) -> Page {
    let mut page = [0; PAGE_SIZE];
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for word in page.chunks_exact_mut(8) {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(seed | 1);
        let draw = state >> 33;
        let value = if draw % 100 < noise_percent {
            state ^ state >> 17
        } else {
            (draw % 13) * 0x0000_7f00_1234_0008 + (draw % 5)
        };
        word.copy_from_slice(&value.to_le_bytes());
    }
    page
}

#[test]
fn pages_survive_every_compressor() {
    for kind in KINDS {
        let mut codec = Codec::new(kind);
        for seed in 0..200 {
            let page = page_like(seed, seed % 60);
            let Packed::Bytes(len) = codec.pack(&page, None) else {
                panic!("{kind}: page {seed} did not compress");
            };
            assert!(len < PAGE_SIZE);
            assert!(codec.packed_equals(len, None, &page));
            let mut out = [0; PAGE_SIZE];
            codec.unpack(len, None, &mut out).expect("unpack");
            assert!(out == page, "{kind}: page {seed} came back changed");
        }
    }
}

#[test]
fn noise_is_poor() {
    for kind in KINDS {
        let mut codec = Codec::new(kind);
        assert_eq!(codec.pack(&page_like(3, 100), None), Packed::Poor, "{kind}");
    }
}

#[test]
fn frames_without_trimmings_are_shorter_than_standard_ones() {
    let page = page_like(1, 20);
    let mut codec = Codec::new(CompressorKind::Zstd(1));
    let Packed::Bytes(bare) = codec.pack(&page, None) else {
        panic!("the page compresses");
    };
    let mut out = vec![0; SCRATCH];
    let standard = zstd_safe::compress(&mut out[..], &page, 1).expect("zstd");
    assert!(bare + 4 < standard, "{bare} {standard}");
}

#[test]
fn a_dictionary_of_like_pages_wins_and_one_of_noise_is_refused() {
    // Pages of one program: the same long strings in different order.
    let strings: Vec<Vec<u8>> = (0..64u64)
        .map(|i| page_like(1000 + i, 100)[..96].to_vec())
        .collect();
    let page = |seed: u64| -> Page {
        let mut page = [0; PAGE_SIZE];
        for (i, part) in page.chunks_mut(96).enumerate() {
            let string = &strings[((seed * 31 + i as u64 * 17 + seed * i as u64) % 64) as usize];
            part.copy_from_slice(&string[..part.len()]);
        }
        page
    };
    let samples: Vec<u8> = (0..400).flat_map(page).collect();
    let dictionary = Dictionary::train(&samples, 1).expect("like pages");
    let (without, with) = dictionary.gain();
    assert!(with * 2 < without, "{with} {without}");
    assert!(dictionary.memory_bytes().0 > DICT_TABLES);
    let mut codec = Codec::new(CompressorKind::Zstd(1));
    for seed in 5000..5050 {
        let page = page(seed);
        let Packed::Bytes(len) = codec.pack(&page, Some(&dictionary)) else {
            panic!("the page compresses");
        };
        let mut out = [0; PAGE_SIZE];
        codec
            .unpack(len, Some(&dictionary), &mut out)
            .expect("unpack");
        assert!(out == page);
        assert!(codec.unpack(len, None, &mut out).is_err() || out != page);
    }
    let noise: Vec<u8> = (0..100).flat_map(|i| page_like(i, 100)).collect();
    assert!(Dictionary::train(&noise, 1).is_err());
    assert!(matches!(
        Dictionary::train(&samples[..PAGE_SIZE * 10], 1),
        Err(TrainError::TooFew { got: 10, .. })
    ));
}

/// A dictionary counts at least its own bytes.
const DICT_TABLES: u64 = 16 << 10;

proptest! {
    /// Damaged data is refused or gives some page; it never panics or writes elsewhere.
    #[test]
    fn damaged_data_does_no_harm(seed in 0u64..1000, flips in prop::collection::vec((any::<u16>(), any::<u8>()), 1..20), cut in 0usize..4096) {
        for kind in KINDS {
            let mut codec = Codec::new(kind);
            let page = page_like(seed, 30);
            let Packed::Bytes(len) = codec.pack(&page, None) else { continue };
            for (at, value) in &flips {
                codec.packed()[usize::from(*at) % len] ^= value;
            }
            let mut out = [0; PAGE_SIZE];
            let _ = codec.unpack(len.min(cut), None, &mut out);
            let _ = codec.packed_equals(len, None, &page);
        }
    }
}
