//! The memory of a workload: pages that look like those of real heaps.

use std::sync::atomic::{AtomicU64, Ordering};

use super::random::Random;

/// Words of 8 bytes in a page.
pub const PAGE_WORDS: usize = 512;
/// Pages of 4 KiB in a MiB.
pub const PAGES_OF_MIB: usize = 256;
/// Words of one record.
const RECORD: usize = 8;
/// Strings in records: what programs keep many of.
const WORDS: [&[u8; 8]; 8] = [
    b"customer",
    b"pending\0",
    b"Hamburg\0",
    b"2024-03-",
    b"invoice_",
    b"null\0\0\0\0",
    b"https://",
    b"en_GB.UT",
];

/// What a page holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Records of pointers, small numbers and strings: lz4 makes them 3 to 4 times smaller.
    Records,
    /// Noise: nothing makes it smaller.
    Noise,
}

/// The words of page `number`.
#[must_use]
pub fn page(content: Content, number: usize) -> [u64; PAGE_WORDS] {
    let mut random = Random::new(number as u64 ^ 0x5eed);
    let mut words = [0; PAGE_WORDS];
    match content {
        Content::Noise => words.fill_with(|| random.bits()),
        Content::Records => {
            let (records, _) = words.as_chunks_mut::<RECORD>();
            for record in records {
                *record = self::record(&mut random, number);
            }
        }
    }
    words
}

/// A kind of object, two pointers, a number, a length, a string and unused room.
fn record(random: &mut Random, number: usize) -> [u64; RECORD] {
    let bits = random.bits();
    let heap = 0x7f3a_0000_0000 + number as u64 * 4096;
    let string = u64::from_le_bytes(*WORDS[(bits & 7) as usize]);
    [
        0x5581_c0de_4000 + (bits >> 3 & 3) * 0x60,
        heap + (bits >> 8 & 0xff0),
        // Half of all numbers are the usual one.
        if bits >> 40 & 1 == 0 {
            1
        } else {
            bits >> 24 & 0xffff
        },
        0,
        8,
        string,
        if bits >> 60 == 0 { heap + 16 } else { 0 },
        0,
    ]
}

/// Pages of one length, that threads may share.
#[derive(Debug)]
pub struct Heap(Vec<AtomicU64>);

impl Heap {
    /// `pages` of `content`, written once from the first to the last.
    #[must_use]
    pub fn new(content: Content, pages: usize) -> Self {
        let mut words = Vec::with_capacity(pages * PAGE_WORDS);
        for number in 0..pages {
            words.extend(page(content, number).map(AtomicU64::new));
        }
        Self(words)
    }

    /// How many pages.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.0.len() / PAGE_WORDS
    }

    /// A word of a page.
    #[must_use]
    pub fn get(&self, page: usize, word: usize) -> u64 {
        self.0[page * PAGE_WORDS + word].load(Ordering::Relaxed)
    }

    /// Changes a word of a page.
    pub fn set(&self, page: usize, word: usize, value: u64) {
        self.0[page * PAGE_WORDS + word].store(value, Ordering::Relaxed);
    }

    /// Adds to a word of a page, whoever else does.
    pub fn add(&self, page: usize, word: usize, value: u64) {
        self.0[page * PAGE_WORDS + word].fetch_add(value, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use neap_store::CompressorKind;

    /// Bytes of pages by bytes of their lz4.
    fn ratio(content: Content) -> f64 {
        let mut lz4 = CompressorKind::Lz4.build();
        let mut out = vec![0; neap_store::SCRATCH];
        let mut packed = 0;
        for number in 0..200 {
            let mut bytes = [0; 4096];
            let (words, _) = bytes.as_chunks_mut::<8>();
            for (to, word) in words.iter_mut().zip(page(content, number)) {
                *to = word.to_le_bytes();
            }
            packed += lz4.compress(&bytes, None, &mut out).unwrap_or(4096);
        }
        (200 * 4096) as f64 / packed as f64
    }

    #[test]
    fn records_compress_like_heaps_and_noise_does_not() {
        let records = ratio(Content::Records);
        assert!((3.0..4.0).contains(&records), "{records}");
        let noise = ratio(Content::Noise);
        assert!(noise < 1.01, "{noise}");
    }

    #[test]
    fn pages_differ_and_stay_what_they_are() {
        assert_ne!(page(Content::Records, 1), page(Content::Records, 2));
        let heap = Heap::new(Content::Records, 3);
        assert_eq!(heap.pages(), 3);
        assert_eq!(heap.get(2, 5), page(Content::Records, 2)[5]);
        heap.set(2, 5, 7);
        heap.add(2, 5, 1);
        assert_eq!(heap.get(2, 5), 8);
    }
}
