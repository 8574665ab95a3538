//! A keyed hash of a page, by which a page is known again without its bytes.
//!
//! No program can find two pages of equal hash, nor happen on them: for any two different pages that are chosen without
//! the key, at most 2^-127 of all keys give both the same. That is proven and needs no assumption, unlike for the faster
//! hashes of tables (XXH3, ahash), and takes integer arithmetic alone. Two universal hashes, one after the other:
//!
//! * NH of UMAC (Black and others, CRYPTO 1999) with words of 64 bits, twice with keys that are two words apart: sums of
//!   products of two words of the page with a word of the key added to each. Equal for 2^-128 of all keys at most.
//! * Of the 256 bits that this gives, twice the upper half of a multilinear sum (Lemire and Kaser 2014): strongly
//!   universal, so again 2^-128.

use neap_units::PAGE_SIZE;

use crate::compress::Page;

/// Words of a page.
const WORDS: usize = PAGE_SIZE / 8;
/// Distance of the two keys of NH, in words.
const SHIFT: usize = 2;
/// Sums of words in a multilinear sum, and the constant before them.
const TERMS: usize = 5;

/// The hash of a page under one key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct PageHash(u64, u64);

/// The key: secret, and random for each store.
pub struct HashKey {
    pages: Box<[u64; WORDS + SHIFT]>,
    sums: [[u128; TERMS]; 2],
}

impl HashKey {
    /// Random bytes that a key is made of.
    pub const BYTES: usize = (WORDS + SHIFT) * 8 + 2 * TERMS * 16;

    /// A key of these bytes, all of which must be random.
    #[must_use]
    pub fn new(random: &[u8; Self::BYTES]) -> Self {
        let (words, _) = random.as_chunks::<8>();
        let word = |at: usize| u64::from_le_bytes(words[at]);
        let mut pages = Box::new([0; WORDS + SHIFT]);
        for (at, key) in pages.iter_mut().enumerate() {
            *key = word(at);
        }
        let term = |sum: usize, at: usize| {
            let first = pages.len() + (sum * TERMS + at) * 2;
            u128::from(word(first)) | u128::from(word(first + 1)) << 64
        };
        let sum = |sum| std::array::from_fn(|at| term(sum, at));
        Self {
            sums: [sum(0), sum(1)],
            pages,
        }
    }

    pub(crate) fn hash(&self, page: &Page) -> PageHash {
        let (mut first, mut second) = (0u128, 0u128);
        let (words, _) = page.as_chunks::<8>();
        let words: &[[u8; 8]; WORDS] = words.try_into().expect("a page has so many");
        let key = &*self.pages;
        for at in (0..WORDS).step_by(2) {
            let (a, b) = (
                u64::from_le_bytes(words[at]),
                u64::from_le_bytes(words[at + 1]),
            );
            first = first.wrapping_add(product(a, key[at], b, key[at + 1]));
            second = second.wrapping_add(product(a, key[at + 2], b, key[at + 3]));
        }
        let parts = [first, first >> 64, second, second >> 64].map(|part| part as u64);
        let [low, high] = self.sums.map(|keys| multilinear(&keys, parts));
        PageHash(low, high)
    }
}

/// One term of NH.
fn product(a: u64, key_a: u64, b: u64, key_b: u64) -> u128 {
    u128::from(a.wrapping_add(key_a)) * u128::from(b.wrapping_add(key_b))
}

fn multilinear(keys: &[u128; TERMS], parts: [u64; TERMS - 1]) -> u64 {
    let sum = keys[1..]
        .iter()
        .zip(parts)
        .fold(keys[0], |sum, (key, part)| {
            sum.wrapping_add(key.wrapping_mul(part.into()))
        });
    (sum >> 64) as u64
}

impl std::fmt::Debug for HashKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HashKey").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn key(seed: u8) -> HashKey {
        let mut state = u64::from(seed) + 1;
        let mut random = [0; HashKey::BYTES];
        for byte in &mut random {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            *byte = (state >> 56) as u8;
        }
        HashKey::new(&random)
    }

    /// The definition, word by word, with the terms of the key counted from its end.
    fn slow(key: &HashKey, page: &Page) -> PageHash {
        let word = |at: usize| {
            let bytes = (0..8)
                .rev()
                .fold(0, |word, i| word << 8 | u64::from(page[at * 8 + i]));
            u128::from(bytes)
        };
        let one = 1u128 << 64;
        let mut sums = [0u128; 2];
        for (i, sum) in sums.iter_mut().enumerate() {
            for at in (0..WORDS).step_by(2) {
                let a = (word(at) + u128::from(key.pages[at + i * SHIFT])) % one;
                let b = (word(at + 1) + u128::from(key.pages[at + 1 + i * SHIFT])) % one;
                *sum = sum.wrapping_add(a * b);
            }
        }
        let parts = [sums[0] % one, sums[0] / one, sums[1] % one, sums[1] / one];
        let half = |keys: [u128; TERMS]| {
            let mut sum = keys[0];
            for (at, part) in parts.iter().enumerate() {
                sum = sum.wrapping_add(keys[at + 1].wrapping_mul(*part));
            }
            (sum / one) as u64
        };
        PageHash(half(key.sums[0]), half(key.sums[1]))
    }

    proptest! {
        #[test]
        fn it_is_what_its_definition_says(seed: u8, bytes in prop::collection::vec(any::<u8>(), PAGE_SIZE)) {
            let page: Page = bytes.try_into().expect("a page");
            let key = key(seed);
            prop_assert_eq!(key.hash(&page), slow(&key, &page));
        }
    }

    #[test]
    fn every_word_of_the_key_counts() {
        let pages = [[0; PAGE_SIZE], [0x5a; PAGE_SIZE], [0xff; PAGE_SIZE]];
        let hashes =
            |random: &[u8; HashKey::BYTES]| pages.map(|page| HashKey::new(random).hash(&page));
        let mut random = [0x33; HashKey::BYTES];
        let before = hashes(&random);
        // The lowest bits of what comes after are rounded off.
        for at in 0..(WORDS + SHIFT) * 8 {
            random[at] ^= 0x81;
            assert_ne!(hashes(&random), before, "byte {at}");
            random[at] ^= 0x81;
        }
    }

    #[test]
    fn pages_that_differ_in_one_bit_or_in_the_order_of_words_differ() {
        let key = key(7);
        let mut seen = HashSet::new();
        let mut page: Page = std::array::from_fn(|at| (at * at / 7 % 251) as u8);
        let mut differs = |page: &Page| {
            let PageHash(low, high) = key.hash(page);
            seen.insert(low) && seen.insert(high)
        };
        assert!(differs(&page));
        for bit in 0..PAGE_SIZE * 8 {
            page[bit / 8] ^= 1 << (bit % 8);
            assert!(differs(&page), "bit {bit}");
            page[bit / 8] ^= 1 << (bit % 8);
        }
        for at in (8..PAGE_SIZE).step_by(8) {
            let mut other = page;
            (0..8).for_each(|i| other.swap(i, at + i));
            assert!(differs(&other), "word 0 and byte {at}");
        }
    }
}
