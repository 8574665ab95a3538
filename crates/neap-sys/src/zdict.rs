//! The one call of zstd that its safe bindings lack.

use std::ffi::c_uint;
use std::ops::Range;

use zstd_sys::{ZDICT_finalizeDictionary, ZDICT_isError, ZDICT_params_t};

/// What zstd writes before the content: at most 256 bytes (its `HBUFFSIZE`).
const HEADER: usize = 256;

/// Where its number is. With 0 frames do not name it, which costs them nothing.
const ID: Range<usize> = 4..8;

/// A zstd dictionary of `content` that also says how `samples`, pieces of `size` bytes one after another, are
/// coded with it at `level`: what is compressed with it carries no tables of its own, and none are built for it.
/// Takes half a MiB while it works, at levels up to 1. `None`: zstd refuses.
pub fn finalize_dictionary(
    content: &[u8],
    samples: &[u8],
    size: usize,
    level: i32,
) -> Option<Vec<u8>> {
    let sizes = vec![size; samples.len().checked_div(size)?];
    let mut made = vec![0; content.len() + HEADER];
    let parameters = ZDICT_params_t {
        compressionLevel: level,
        notificationLevel: 0,
        dictID: 0,
    };
    // SAFETY: zstd writes at most `made.len()` bytes to `made`, reads `content` and, by `sizes`, no more than the
    // whole of `samples`; none of them is kept.
    let len = unsafe {
        ZDICT_finalizeDictionary(
            made.as_mut_ptr().cast(),
            made.len(),
            content.as_ptr().cast(),
            content.len(),
            samples.as_ptr().cast(),
            sizes.as_ptr(),
            c_uint::try_from(sizes.len()).ok()?,
            parameters,
        )
    };
    // SAFETY: a plain number.
    if unsafe { ZDICT_isError(len) } != 0 {
        return None;
    }
    made.truncate(len);
    made.get_mut(ID)?.fill(0);
    Some(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dictionary_holds_its_content_behind_a_header() {
        let samples: Vec<u8> = (0..8192u32)
            .flat_map(|n| (n * n / 7).to_le_bytes())
            .collect();
        let (content, rest) = samples.split_at(8192);
        let made = finalize_dictionary(content, rest, 4096, -1).expect("a dictionary");
        assert!(made.len() > content.len() && made.ends_with(content));
        assert!(finalize_dictionary(content, rest, 0, -1).is_none());
    }
}
