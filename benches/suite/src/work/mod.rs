//! The workloads. Each is named by a kind, the MiB it holds at its most, and a number of operations; all
//! randomness comes from fixed seeds, and the checksum covers whatever was read, so that two runs compare.

mod heap;
mod patterns;
mod random;
mod redis;
mod texts;

pub use heap::{Content, PAGE_WORDS, page};
pub use random::{Random, Zipf};

/// Mixes a value into a checksum.
fn mix(sum: u64, value: u64) -> u64 {
    (sum.rotate_left(7) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Runs `KIND MIB OPS`, or `redis MIB OPS DIR`, or writes one of the texts that programs read.
///
/// # Errors
/// Words that mean nothing, or a file or server that cannot be had.
pub fn run(words: &[&str]) -> Result<String, String> {
    let number = |text: &str| {
        let parsed = text.parse::<usize>();
        parsed.map_err(|_| format!("{text:?} is no number: neap-work KIND MIB OPS"))
    };
    match words {
        ["c-source", functions] => texts::c_source(number(functions)?),
        ["lines", mib] => texts::lines(number(mib)?),
        ["redis", mib, ops, dir] => {
            let sum = redis::run(number(mib)?, number(ops)?, dir.as_ref());
            Ok(format!("redis {mib} {ops} {:016x}", sum?))
        }
        [kind, mib, ops] => {
            let work = patterns::named(kind).ok_or_else(|| unknown(kind))?;
            let sum = work(number(mib)? * heap::PAGES_OF_MIB, number(ops)?);
            Ok(format!("{kind} {mib} {ops} {sum:016x}"))
        }
        _ => Err("usage: neap-work KIND MIB OPS".to_owned()),
    }
}

fn unknown(kind: &str) -> String {
    let known = patterns::KINDS.map(|(name, _)| name).join(", ");
    format!("no workload is called {kind:?}: use {known}, redis, c-source or lines")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_gives_the_same_checksum_each_time() {
        for (kind, _) in patterns::KINDS {
            let line = run(&[kind, "1", "500"]).unwrap();
            assert_eq!(run(&[kind, "1", "500"]).unwrap(), line);
            assert!(line.starts_with(&format!("{kind} 1 500 ")), "{line}");
        }
    }

    #[test]
    fn what_is_unknown_is_named_with_what_is_known() {
        let fault = run(&["zip", "1", "1"]).unwrap_err();
        assert!(
            fault.contains("\"zip\"") && fault.contains("zipf"),
            "{fault}"
        );
        assert!(run(&["zipf", "x", "1"]).unwrap_err().contains("\"x\""));
        assert!(run(&[]).unwrap_err().starts_with("usage"));
    }
}
