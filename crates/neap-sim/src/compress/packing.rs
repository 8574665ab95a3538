//! What a compressor of `neap run` makes of pages, from models fitted to real ones.

use neap_units::{Nanos, PAGE_SIZE};

use super::{CompressorModel, ContentModel, Models, PageModel, UnknownModel};

/// How a model of a compressor with a dictionary is called.
#[must_use]
pub fn with_dictionary(compressor: &str) -> String {
    format!("{compressor}+dictionary")
}

/// How many times smaller pages get.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ratio {
    /// Likely.
    pub likely: f64,
    /// Least of the contents there are models of.
    pub least: f64,
    /// Most of them.
    pub most: f64,
}

impl Ratio {
    /// One that is known.
    #[must_use]
    pub fn known(ratio: f64) -> Ratio {
        Ratio {
            likely: ratio,
            least: ratio,
            most: ratio,
        }
    }

    /// The geometric mean, and the ends.
    fn of(ratios: &[f64]) -> Ratio {
        let sum: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
        Ratio {
            likely: (sum / ratios.len() as f64).exp(),
            least: ratios.iter().copied().fold(f64::INFINITY, f64::min),
            most: ratios.iter().copied().fold(1.0, f64::max),
        }
    }
}

/// Pages of a content, or of any of them, to a compressor without a dictionary: then each gets smaller by the
/// likely ratio, at the mean of the costs. Pages of one word, which are apart in a content, are then part of
/// that ratio.
///
/// # Errors
///
/// As [`Packing::of`].
pub fn page_model(
    models: &Models,
    compressor: &str,
    content: Option<&str>,
) -> Result<PageModel, UnknownModel> {
    if let Some(name) = content {
        return models.page_model(name, compressor);
    }
    let packing = Packing::of(models, compressor, None)?;
    let (compress, decompress) = packing.alone_ns;
    let bytes = (PAGE_SIZE as f64 / packing.alone.likely) as u16;
    Ok(PageModel::fixed(bytes, compress, decompress))
}

/// A compressor on pages of some content.
#[derive(Clone, PartialEq, Debug)]
pub struct Packing {
    /// As `--compressor` calls it.
    pub compressor: String,
    /// What the models were fitted from.
    pub contents: Vec<String>,
    /// Of pages alone.
    pub alone: Ratio,
    /// With a dictionary of the program's own pages.
    pub dictionary: Ratio,
    /// How many times as long as lz4 it takes to compress a page.
    pub compress: f64,
    /// And to decompress one.
    pub decompress: f64,
    /// CPU time to compress a page without a dictionary, and to decompress one: means of the contents.
    pub alone_ns: (Nanos, Nanos),
}

/// What lz4 takes to compress a page and to decompress one, in nanoseconds: for models without it
/// (`docs/adr/0007-dictionaries.md`).
pub const LZ4: (u64, u64) = (4_400, 1_800);

fn ratio(content: &ContentModel, compressor: &CompressorModel) -> f64 {
    // Pages of one word take no room.
    let kept = (1.0 - content.zero - content.same_filled).max(0.001);
    let bytes: f64 = compressor.sizes.iter().map(|&size| f64::from(size)).sum();
    PAGE_SIZE as f64 * compressor.sizes.len() as f64 / (bytes * kept).max(1.0)
}

impl Packing {
    /// A compressor on a content, or on any of them.
    ///
    /// # Errors
    ///
    /// When there is no such content, or none that was fitted with this compressor.
    pub fn of(
        models: &Models,
        compressor: &str,
        content: Option<&str>,
    ) -> Result<Packing, UnknownModel> {
        if let Some(name) = content {
            models.page_model(name, compressor)?;
        }
        let dictionary = with_dictionary(compressor);
        let (mut contents, mut alone, mut helped) = (Vec::new(), Vec::new(), Vec::new());
        let (mut compress, mut decompress) = (Vec::new(), Vec::new());
        let (mut compress_ns, mut decompress_ns) = (0, 0);
        let of_it = |other: &&ContentModel| content.is_none_or(|name| name == other.name);
        for content in models.contents.iter().filter(of_it) {
            let find = |name: &str| content.compressors.iter().find(|c| c.name == name);
            let Some(plain) = find(compressor) else {
                continue;
            };
            let best = find(&dictionary).unwrap_or(plain);
            contents.push(content.name.clone());
            alone.push(ratio(content, plain));
            helped.push(ratio(content, best));
            let lz4 = find("lz4").map(|lz4| (lz4.compress_ns, lz4.decompress_ns));
            let lz4 = lz4.unwrap_or(LZ4);
            compress.push(best.compress_ns as f64 / lz4.0.max(1) as f64);
            decompress.push(best.decompress_ns as f64 / lz4.1.max(1) as f64);
            compress_ns += plain.compress_ns;
            decompress_ns += plain.decompress_ns;
        }
        if contents.is_empty() {
            return Err(models.unknown_compressor(compressor));
        }
        let mean = |times: Vec<f64>| times.iter().sum::<f64>() / times.len() as f64;
        let of_each = |sum: u64| Nanos(sum / contents.len() as u64);
        let alone_ns = (of_each(compress_ns), of_each(decompress_ns));
        Ok(Packing {
            compressor: compressor.to_owned(),
            contents,
            alone: Ratio::of(&alone),
            dictionary: Ratio::of(&helped),
            compress: mean(compress),
            decompress: mean(decompress),
            alone_ns,
        })
    }

    /// The same for pages of a ratio that is known.
    #[must_use]
    pub fn of_ratio(self, ratio: f64) -> Packing {
        Packing {
            alone: Ratio::known(ratio),
            dictionary: Ratio::known(ratio),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_any_content_are_between_those_of_each() {
        let models = Models::of_neap();
        let of = |content: Option<&ContentModel>| {
            let name = content.map(|content| content.name.as_str());
            page_model(&models, "zstd:-1", name).unwrap()
        };
        // Pages of one word are apart in a content, and part of the mean of any.
        let room = |content: &ContentModel| {
            of(Some(content)).mean_bytes() * (1.0 - content.zero - content.same_filled)
        };
        let each: Vec<f64> = models.contents.iter().map(room).collect();
        let least = each.iter().copied().fold(f64::INFINITY, f64::min);
        let most = each.iter().copied().fold(0.0, f64::max);
        let any = of(None);
        assert!(least < any.mean_bytes() && any.mean_bytes() < most);
        let times = models.contents.iter();
        let times: Vec<Nanos> = times.map(|content| of(Some(content)).compress()).collect();
        assert!(times.iter().any(|&time| time <= any.compress()));
        assert!(times.iter().any(|&time| time >= any.compress()));
        let lz4 = page_model(&models, "lz4", None).unwrap();
        assert!(lz4.compress() < any.compress() && lz4.mean_bytes() > any.mean_bytes());
        assert!(page_model(&models, "none", None).is_err());
    }

    #[test]
    fn the_default_of_neap_run_is_denser_and_slower_than_lz4_on_every_content() {
        let models = Models::of_neap();
        let of = |compressor, content| Packing::of(&models, compressor, content).unwrap();
        let all = of("zstd:-1", None);
        assert!(all.contents.len() > 2 && all.alone.least < all.alone.most);
        for content in &all.contents {
            let (zstd, lz4) = (of("zstd:-1", Some(content)), of("lz4", Some(content)));
            assert!(zstd.alone.likely > lz4.alone.likely, "{content}");
            assert!(zstd.dictionary.likely >= zstd.alone.likely, "{content}");
            assert!(zstd.compress > 1.0, "{content}");
            assert_eq!((lz4.compress, lz4.decompress), (1.0, 1.0));
        }
    }

    #[test]
    fn without_a_model_it_says_which_there_are() {
        let models = Models::of_neap();
        let fault = |compressor, content| {
            let unknown = Packing::of(&models, compressor, content).unwrap_err();
            unknown.to_string()
        };
        assert!(
            fault("zstd:7", None).starts_with("no model of compressor \"zstd:7\": there are lz4, ")
        );
        assert!(fault("lz4", Some("film")).starts_with("no model of content \"film\": there are "));
    }
}
