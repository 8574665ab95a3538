//! Models of content, and the pages they give.

use neap_units::{Nanos, PAGE_SIZE};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Points of a fitted distribution of sizes: its minimum, 63 quantiles, its maximum.
pub(super) const POINTS: usize = 65;

/// How far writing a page again moves it within the distribution: a part in this many.
/// Chosen: a page keeps its kind of data, and what it compresses to varies a little.
const JITTER_SHARE: f64 = 16.0;

/// One compressor on one kind of content.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CompressorModel {
    /// As the kernel or neap calls it.
    pub name: String,
    /// CPU time to compress a page.
    pub compress_ns: u64,
    /// CPU time to decompress one.
    pub decompress_ns: u64,
    /// Compressed sizes in bytes of pages that are not of one word, in equal steps from
    /// the smallest to the largest; 4096 where the page did not get smaller.
    pub sizes: Vec<u16>,
}

/// One kind of content.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ContentModel {
    /// What it was fitted from.
    pub name: String,
    /// The command that measured it.
    pub command: String,
    /// Pages it was fitted from.
    pub pages: u64,
    /// Share of pages that are all zeros.
    pub zero: f64,
    /// Share of pages that are another word over and over.
    pub same_filled: f64,
    /// Each compressor that was tried.
    pub compressors: Vec<CompressorModel>,
}

/// All kinds of content there are models of.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Models {
    /// Version of the format: `neap.fit/1`.
    pub schema: String,
    /// The models.
    pub contents: Vec<ContentModel>,
}

/// A content or compressor without a model.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("no model of {what} {name:?}: there are {known}")]
pub struct UnknownModel {
    what: &'static str,
    name: String,
    known: String,
}

impl Models {
    /// The models that come with the simulator.
    ///
    /// # Panics
    /// If the file built in is damaged, which a test rules out.
    #[must_use]
    pub fn built_in() -> Models {
        let text = include_str!("../../data/compress.json");
        serde_json::from_str(text).expect("the models built in are well-formed")
    }

    /// The model of a content and a compressor. `fixed:BYTES` is content of which each page
    /// compresses to just that, at the costs of the first model that has the compressor.
    ///
    /// # Errors
    /// [`UnknownModel`] names what there is.
    pub fn page_model(&self, content: &str, compressor: &str) -> Result<PageModel, UnknownModel> {
        if let Some(bytes) = content.strip_prefix("fixed:") {
            let bytes: u16 = bytes.parse().map_err(|_| self.unknown_content(content))?;
            let all = self.contents.iter();
            let found = all.flat_map(|content| &content.compressors);
            let found = found.filter(|model| model.name == compressor).take(1);
            let costs = found.map(|model| (model.compress_ns, model.decompress_ns));
            let (compress, decompress) = costs.last().unwrap_or_default();
            return Ok(PageModel::fixed(bytes, Nanos(compress), Nanos(decompress)));
        }
        let model = self.contents.iter().find(|model| model.name == content);
        let model = model.ok_or_else(|| self.unknown_content(content))?;
        let found = model.compressors.iter().find(|c| c.name == compressor);
        let found = found.ok_or_else(|| unknown_compressor(compressor, &model.compressors))?;
        Ok(PageModel {
            zero: model.zero,
            same_filled: model.same_filled,
            sizes: found.sizes.clone(),
            compress: Nanos(found.compress_ns),
            decompress: Nanos(found.decompress_ns),
        })
    }

    /// That no content was fitted with this compressor.
    pub(crate) fn unknown_compressor(&self, name: &str) -> UnknownModel {
        let there_are = self
            .contents
            .first()
            .map(|content| &content.compressors[..]);
        unknown_compressor(name, there_are.unwrap_or_default())
    }

    /// The models of `neap run`'s compressors that come with the simulator.
    ///
    /// # Panics
    /// If the file built in is damaged, which a test rules out.
    #[must_use]
    pub fn of_neap() -> Models {
        let text = include_str!("../../data/neap.json");
        serde_json::from_str(text).expect("the models built in are well-formed")
    }

    fn unknown_content(&self, name: &str) -> UnknownModel {
        UnknownModel {
            what: "content",
            name: name.to_owned(),
            known: join(self.contents.iter().map(|c| c.name.as_str())),
        }
    }
}

fn unknown_compressor(name: &str, there_are: &[CompressorModel]) -> UnknownModel {
    UnknownModel {
        what: "compressor",
        name: name.to_owned(),
        known: join(there_are.iter().map(|compressor| compressor.name.as_str())),
    }
}

fn join<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

/// What a compressor would make of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PageImage {
    /// All zeros; and the bytes it would compress to.
    Zero(u16),
    /// Another word over and over; likewise.
    SameFilled(u16),
    /// Anything else: bytes it compresses to, 4096 if it does not get smaller.
    Bytes(u16),
}

/// Bytes that a page of one word compresses to with any of the compressors, about.
const ONE_WORD: u16 = 32;

/// One content with one compressor, ready to be asked.
#[derive(Clone, PartialEq, Debug)]
pub struct PageModel {
    zero: f64,
    same_filled: f64,
    sizes: Vec<u16>,
    compress: Nanos,
    decompress: Nanos,
}

impl PageModel {
    /// Pages that all compress to `bytes`.
    #[must_use]
    pub fn fixed(bytes: u16, compress: Nanos, decompress: Nanos) -> PageModel {
        PageModel {
            zero: 0.0,
            same_filled: 0.0,
            sizes: vec![bytes],
            compress,
            decompress,
        }
    }

    /// CPU time to compress a page.
    #[must_use]
    pub fn compress(&self) -> Nanos {
        self.compress
    }

    /// CPU time to decompress one.
    #[must_use]
    pub fn decompress(&self) -> Nanos {
        self.decompress
    }

    /// The page numbered `page` after `version` writes.
    #[must_use]
    pub fn image(&self, seed: u64, page: u64, version: u32) -> PageImage {
        if let [size] = self.sizes[..]
            && self.zero + self.same_filled <= 0.0
        {
            return PageImage::Bytes(size.min(PAGE_SIZE as u16));
        }
        let place = mix(seed ^ mix(page));
        let at = unit(place);
        if at < self.zero {
            return PageImage::Zero(ONE_WORD);
        }
        if at < self.zero + self.same_filled {
            return PageImage::SameFilled(ONE_WORD);
        }
        let rest = 1.0 - self.zero - self.same_filled;
        let base = (at - self.zero - self.same_filled) / rest;
        let jitter = (unit(mix(place ^ u64::from(version))) - 0.5) / JITTER_SHARE;
        PageImage::Bytes(self.quantile((base + jitter).clamp(0.0, 1.0)))
    }

    /// The size below which a share of the pages lies.
    fn quantile(&self, share: f64) -> u16 {
        let steps = self.sizes.len() - 1;
        let at = share * steps as f64;
        let low = (at as usize).min(steps);
        let high = (low + 1).min(steps);
        let (a, b) = (f64::from(self.sizes[low]), f64::from(self.sizes[high]));
        ((a + (b - a) * (at - low as f64)) as u16).min(PAGE_SIZE as u16)
    }

    /// Mean bytes of pages that are not of one word.
    #[must_use]
    pub fn mean_bytes(&self) -> f64 {
        let points = 4096;
        let sum: f64 = (0..points)
            .map(|i| f64::from(self.quantile((f64::from(i) + 0.5) / f64::from(points))))
            .sum();
        sum / f64::from(points)
    }
}

/// The finalizer of splitmix64: every bit of the result depends on every bit given.
fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A number in [0, 1).
fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model() -> PageModel {
        PageModel {
            zero: 0.1,
            same_filled: 0.05,
            sizes: (0..POINTS).map(|i| (i * 64).max(1) as u16).collect(),
            compress: Nanos(1),
            decompress: Nanos(1),
        }
    }

    #[test]
    fn pages_follow_the_distribution_whatever_is_asked_first() {
        let model = model();
        let images: Vec<_> = (0..20_000).map(|page| model.image(7, page, 0)).collect();
        let again: Vec<_> = (0..20_000)
            .rev()
            .map(|page| model.image(7, page, 0))
            .collect();
        assert!(images.iter().eq(again.iter().rev()));
        let share = |of: fn(&PageImage) -> bool| {
            images.iter().filter(|image| of(image)).count() as f64 / 20_000.0
        };
        assert!((share(|i| matches!(i, PageImage::Zero(_))) - 0.1).abs() < 0.01);
        assert!((share(|i| matches!(i, PageImage::SameFilled(_))) - 0.05).abs() < 0.01);
        let below = share(|i| matches!(i, PageImage::Bytes(b) if *b < 2048));
        assert!((below - 0.425).abs() < 0.02, "{below}");
        assert!((model.mean_bytes() - 2048.0).abs() < 10.0);
    }

    #[test]
    fn a_page_written_again_stays_what_it_was_about() {
        let model = model();
        for page in 0..1000 {
            match (model.image(3, page, 0), model.image(3, page, 1)) {
                (PageImage::Bytes(a), PageImage::Bytes(b)) => assert!(a.abs_diff(b) <= 260),
                (a, b) => assert_eq!(a, b),
            }
        }
    }

    #[test]
    fn models_built_in_are_whole() {
        let models = Models::built_in();
        assert_eq!(models.schema, "neap.fit/1");
        for content in &models.contents {
            assert!(!content.command.is_empty() && content.pages > 1000);
            for compressor in &content.compressors {
                assert_eq!(compressor.sizes.len(), POINTS, "{}", compressor.name);
                assert!(compressor.sizes.is_sorted() && compressor.sizes[0] > 0);
                assert!(compressor.compress_ns > 0 && compressor.decompress_ns > 0);
                assert!(models.page_model(&content.name, &compressor.name).is_ok());
            }
        }
        let fixed = models.page_model("fixed:1000", "lz4").unwrap();
        assert_eq!(fixed.image(1, 2, 3), PageImage::Bytes(1000));
        assert!(fixed.compress() > Nanos::ZERO);
        let error = models.page_model("nothing", "lz4").unwrap_err().to_string();
        assert!(error.starts_with("no model of content \"nothing\": there are "));
        assert!(models.page_model("fixed:x", "lz4").is_err());
    }
}
