//! Which of some words somebody meant.

/// The word nearest to what was written, if any is near: it goes on from there, or a third of its
/// letters at most differ.
pub(crate) fn nearest<'a>(
    written: &str,
    words: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let far = |word: &&str| distance(written, word);
    let goes_on = |word: &str| written.len() > 2 && word.starts_with(written);
    let near = |word: &&str| goes_on(word) || far(word) <= word.len().div_ceil(3);
    words
        .into_iter()
        .filter(near)
        .min_by_key(|word| (!goes_on(word), far(word)))
}

/// Letters to add, drop, change or swap with the next (optimal string alignment).
fn distance(from: &str, to: &str) -> usize {
    let (from, to) = (from.as_bytes(), to.as_bytes());
    let mut rows = vec![(0..=to.len()).collect::<Vec<usize>>()];
    for i in 1..=from.len() {
        let mut row = vec![i];
        for j in 1..=to.len() {
            let changed = usize::from(from[i - 1] != to[j - 1]);
            let (left, above, across) = (row[j - 1], rows[i - 1][j], rows[i - 1][j - 1]);
            let mut least = (left + 1).min(above + 1).min(across + changed);
            let swapped = i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1];
            if swapped {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[from.len()][to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_that_differ_are_counted() {
        for (from, to, want) in [
            ("", "", 0),
            ("", "abc", 3),
            ("kernle", "kernel", 1),
            ("second_chance", "second-chance", 1),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!((distance(from, to), distance(to, from)), (want, want));
        }
    }

    #[test]
    fn only_what_is_near_is_offered() {
        let words = ["memcg-lru", "memcg-lru-6.12", "recency", "noreuse"];
        let meant = |written| nearest(written, words);
        assert_eq!(meant("recensy"), Some("recency"));
        assert_eq!(meant("memcg"), Some("memcg-lru"), "the shorter one first");
        assert_eq!(meant("no-reuse"), Some("noreuse"));
        assert_eq!(meant("speed"), None);
        assert_eq!(meant(""), None);
    }
}
