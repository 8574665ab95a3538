//! Pages of one word over and over: only the word is kept (SPEC 1.6).

use neap_units::PAGE_SIZE;

use super::Page;

const WORD: usize = size_of::<u64>();

/// The word that fills the page, if one does.
pub(crate) fn same_filled(page: &Page) -> Option<u64> {
    // A page equal to itself one word further on repeats its first word to the end.
    if page[PAGE_SIZE - WORD..] != page[..WORD] || page[WORD..] != page[..PAGE_SIZE - WORD] {
        return None;
    }
    let mut word = [0; WORD];
    word.copy_from_slice(&page[..WORD]);
    Some(u64::from_ne_bytes(word))
}

/// The page that `word` fills.
pub(crate) fn fill(word: u64, page: &mut Page) {
    for chunk in page.chunks_exact_mut(WORD) {
        chunk.copy_from_slice(&word.to_ne_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_word_makes_a_page_and_one_byte_breaks_it() {
        for word in [0, 1, u64::MAX, 0x0123_4567_89ab_cdef] {
            let mut page = [0; PAGE_SIZE];
            fill(word, &mut page);
            assert_eq!(same_filled(&page), Some(word));
            for at in [0, 7, 8, 2048, PAGE_SIZE - 1] {
                page[at] ^= 1;
                assert_eq!(same_filled(&page), None, "byte {at}");
                page[at] ^= 1;
            }
        }
    }

    #[test]
    fn a_period_other_than_a_word_is_not_enough() {
        let mut page = [0; PAGE_SIZE];
        for (i, byte) in page.iter_mut().enumerate() {
            *byte = (i % 16) as u8;
        }
        assert_eq!(same_filled(&page), None);
    }
}
