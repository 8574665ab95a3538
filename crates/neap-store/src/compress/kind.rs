//! Names of compressors: `lz4`, `zstd`, `zstd:3`, `deflate:1`.

use std::fmt;
use std::str::FromStr;

use neap_tuning::TUNING;

use super::Compressor;
use super::deflate::Deflate;
use super::lz4::Lz4;
use super::zstd::Zstd;

/// Which compressor, and how hard it tries.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CompressorKind {
    /// LZ4 block format: fastest.
    Lz4,
    /// Zstandard at a level (-7 to 19); the only one that can use a dictionary.
    Zstd(i32),
    /// Deflate at a level (1 to 12).
    Deflate(i32),
}

/// A compressor name that means nothing.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum KindError {
    /// No such compressor.
    #[error("no compressor is called {0:?}: use lz4, zstd[:LEVEL] or deflate[:LEVEL]")]
    Name(String),
    /// A level that is no number, out of range, or not wanted.
    #[error("{name} takes {range}, not {level:?}")]
    Level {
        /// The compressor.
        name: &'static str,
        /// What it would take.
        range: &'static str,
        /// What was given.
        level: String,
    },
}

impl Default for CompressorKind {
    /// Twice as dense as lz4 for half as much work again (`docs/adr/0007-dictionaries.md`).
    fn default() -> Self {
        Self::Zstd(TUNING.pool.zstd_default)
    }
}

impl CompressorKind {
    /// A compressor of this kind, with tables of its own.
    #[must_use]
    pub fn build(self) -> Box<dyn Compressor> {
        match self {
            Self::Lz4 => Box::new(Lz4::new()),
            Self::Zstd(level) => Box::new(Zstd::new(level)),
            Self::Deflate(level) => Box::new(Deflate::new(level)),
        }
    }
}

impl FromStr for CompressorKind {
    type Err = KindError;

    fn from_str(text: &str) -> Result<Self, KindError> {
        let (name, level) = match text.split_once([':', '=']) {
            Some((name, level)) => (name, Some(level)),
            None => (text, None),
        };
        let parse = |name, range, span: std::ops::RangeInclusive<i32>, default| match level {
            None => Ok(default),
            Some(level) => match level.parse() {
                Ok(n) if span.contains(&n) => Ok(n),
                _ => Err(KindError::Level {
                    name,
                    range,
                    level: level.to_owned(),
                }),
            },
        };
        match name.to_ascii_lowercase().as_str() {
            "lz4" => match level {
                None => Ok(Self::Lz4),
                Some(level) => Err(KindError::Level {
                    name: "lz4",
                    range: "no level",
                    level: level.to_owned(),
                }),
            },
            "zstd" => {
                parse("zstd", "a level from -7 to 19", -7..=19, TUNING.pool.zstd).map(Self::Zstd)
            }
            "deflate" => parse(
                "deflate",
                "a level from 1 to 12",
                1..=12,
                TUNING.pool.deflate,
            )
            .map(Self::Deflate),
            _ => Err(KindError::Name(text.to_owned())),
        }
    }
}

impl fmt::Display for CompressorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lz4 => f.write_str("lz4"),
            Self::Zstd(level) => write!(f, "zstd:{level}"),
            Self::Deflate(level) => write!(f, "deflate:{level}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_and_print() {
        for (text, kind) in [
            ("lz4", CompressorKind::Lz4),
            ("zstd:1", CompressorKind::Zstd(1)),
            ("zstd:-5", CompressorKind::Zstd(-5)),
            ("deflate:6", CompressorKind::Deflate(6)),
        ] {
            assert_eq!(text.parse(), Ok(kind));
            assert_eq!(kind.to_string(), text);
        }
        assert_eq!("ZSTD".parse(), Ok(CompressorKind::Zstd(1)));
        assert_eq!("deflate".parse(), Ok(CompressorKind::Deflate(1)));
    }

    #[test]
    fn wrong_names_and_levels_say_what_is_right() {
        for (text, part) in [
            ("lzo", "lz4, zstd"),
            ("zstd:20", "-7 to 19"),
            ("deflate:x", "1 to 12"),
            ("lz4:3", "no level"),
        ] {
            let error = text.parse::<CompressorKind>().expect_err(text);
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}
