//! From real pages to a model.

use neap_units::{Nanos, PAGE_SIZE};

use super::model::{CompressorModel, ContentModel, POINTS};

/// What one compressor made of one page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Measured {
    /// Bytes; 4096 or more if the page did not get smaller.
    pub bytes: usize,
    /// Time to compress.
    pub compress: Nanos,
    /// Time to decompress.
    pub decompress: Nanos,
}

/// Takes pages one by one.
#[derive(Debug)]
pub struct Fitter {
    names: Vec<String>,
    measured: Vec<Vec<Measured>>,
    zero: u64,
    same_filled: u64,
}

impl Fitter {
    /// A fit for these compressors.
    #[must_use]
    pub fn new(names: &[&str]) -> Fitter {
        Fitter {
            names: names.iter().map(|&name| name.to_owned()).collect(),
            measured: vec![Vec::new(); names.len()],
            zero: 0,
            same_filled: 0,
        }
    }

    /// Takes a page; `measure` is asked for each compressor by its number, unless the page
    /// is one word over and over.
    pub fn page(&mut self, page: &[u8; PAGE_SIZE], mut measure: impl FnMut(usize) -> Measured) {
        let word = &page[..8];
        if page.chunks_exact(8).all(|other| other == word) {
            match word == [0; 8] {
                true => self.zero += 1,
                false => self.same_filled += 1,
            }
            return;
        }
        for (number, measured) in self.measured.iter_mut().enumerate() {
            measured.push(measure(number));
        }
    }

    /// Pages taken.
    #[must_use]
    pub fn pages(&self) -> u64 {
        let others = self.measured.first().map_or(0, Vec::len) as u64;
        self.zero + self.same_filled + others
    }

    /// The model; none if there was no page to compress.
    #[must_use]
    pub fn finish(self, name: &str, command: &str) -> Option<ContentModel> {
        let pages = self.pages();
        let compressors = self.names.iter().zip(self.measured);
        let compressors: Option<Vec<_>> = compressors.map(|(name, of)| fitted(name, of)).collect();
        Some(ContentModel {
            name: name.to_owned(),
            command: command.to_owned(),
            pages,
            zero: self.zero as f64 / pages as f64,
            same_filled: self.same_filled as f64 / pages as f64,
            compressors: compressors.filter(|list| !list.is_empty())?,
        })
    }
}

fn fitted(name: &str, measured: Vec<Measured>) -> Option<CompressorModel> {
    if measured.is_empty() {
        return None;
    }
    let bytes = |m: &Measured| m.bytes.clamp(1, PAGE_SIZE) as u64;
    let sizes = sorted(&measured, bytes);
    let last = sizes.len() - 1;
    let at = |point: usize| sizes[point * last / (POINTS - 1)] as u16;
    // Medians: a measurement that was interrupted says nothing of the compressor.
    let median = |of: fn(&Measured) -> u64| sorted(&measured, of)[last / 2].max(1);
    Some(CompressorModel {
        name: name.to_owned(),
        compress_ns: median(|m| m.compress.0),
        decompress_ns: median(|m| m.decompress.0),
        sizes: (0..POINTS).map(at).collect(),
    })
}

fn sorted(measured: &[Measured], of: impl Fn(&Measured) -> u64) -> Vec<u64> {
    let mut values: Vec<u64> = measured.iter().map(of).collect();
    values.sort_unstable();
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fit_gives_back_what_it_was_fed() {
        let mut fitter = Fitter::new(&["a", "b"]);
        fitter.page(&[0; PAGE_SIZE], |_| unreachable!());
        fitter.page(&[7; PAGE_SIZE], |_| unreachable!());
        let mut page = [0; PAGE_SIZE];
        page[9] = 1;
        for bytes in 1..=98 {
            fitter.page(&page, |number| Measured {
                bytes: bytes * (1 + number * 100),
                compress: Nanos(10),
                decompress: Nanos(if bytes == 50 { 1_000_000 } else { 5 }),
            });
        }
        let model = fitter.finish("test", "a test").expect("pages");
        assert_eq!(
            (model.pages, model.zero, model.same_filled),
            (100, 0.01, 0.01)
        );
        let [a, b] = &model.compressors[..] else {
            panic!("two compressors");
        };
        assert_eq!((a.sizes[0], a.sizes[32], a.sizes[64]), (1, 49, 98));
        assert_eq!(b.sizes[64], 4096, "no more than a page");
        assert_eq!((a.compress_ns, a.decompress_ns), (10, 5));
        assert!(Fitter::new(&["a"]).finish("none", "").is_none());
    }
}
