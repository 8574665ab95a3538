//! Import of what `valgrind --tool=lackey --trace-mem=yes` writes.

use std::io::{self, BufRead};

use neap_record::RecordFault;
use neap_units::Nanos;
use thiserror::Error;

use super::{MAX_TIME, Trace, TraceFault, Windows};

/// Why an import failed.
#[derive(Debug, Error)]
pub enum ImportFault {
    /// The input could not be read.
    #[error("cannot read: {0}")]
    Read(#[from] io::Error),
    /// The input has no byte.
    #[error("it is empty")]
    Empty,
    /// The input was compressed.
    #[error("it is compressed with {0}")]
    Compressed(&'static str),
    /// Nothing of the expected kind was found.
    #[error("no {0} in the input")]
    Nothing(&'static str),
    /// A record of a run that pushed no page out.
    #[error("no touch of a page is in it: the run never came near its limit")]
    Untouched,
    /// The input ends within a record.
    #[error("the last record has {0} of {1} bytes")]
    Cut(usize, usize),
    /// The input has more pages than a trace can name.
    #[error("more than {0} distinct pages")]
    TooLarge(u64),
    /// The input is not a record of neap's.
    #[error(transparent)]
    Record(#[from] RecordFault),
    /// More time passes than any recording has.
    #[error("more than 366 days pass by record {0}: a time there is wrong")]
    Long(u64),
    /// More time passes by the rules than any recording has.
    #[error("more than 366 days pass in it: make a thousand instructions take less time")]
    Slow,
    /// A record of oracleGeneral whose last field no such trace has.
    #[error("record {record} says that its object is used next at record {next}: that cannot be")]
    NextUse {
        /// Which record, from 1.
        record: u64,
        /// What its last field says.
        next: i64,
    },
    /// The trace made of it is not sound.
    #[error(transparent)]
    Trace(#[from] TraceFault),
}

/// How instructions become time.
#[derive(Clone, Copy, Debug)]
pub struct Lackey {
    /// Time of a thousand instructions. 400 ns is about one instruction a nanosecond and a half at
    /// 3 GHz with an IPC near 1, what compilers reach.
    pub thousand_instructions: Nanos,
    /// Length of a window.
    pub window: Nanos,
    /// Pages of a window at most.
    pub window_pages: u32,
}

impl Default for Lackey {
    fn default() -> Lackey {
        Lackey {
            thousand_instructions: Nanos(400),
            window: Nanos::millis(2),
            window_pages: 256,
        }
    }
}

/// What a line says: kind (`I`, `L`, `S`, `M`), address, size. Lines of other tools and of the
/// program itself are nothing.
fn line(text: &[u8]) -> Option<(u8, u64, u64)> {
    let start = text.iter().position(|&b| b != b' ')?;
    let kind = text[start];
    if !matches!(kind, b'I' | b'L' | b'S' | b'M') || text.get(start + 1) != Some(&b' ') {
        return None;
    }
    let rest = &text[start + 1..];
    let mut address = 0u64;
    let mut digits = 0;
    let mut at = rest.iter().position(|&b| b != b' ')?;
    while let Some(digit) = rest.get(at).and_then(|&b| char::from(b).to_digit(16)) {
        address = address.checked_mul(16)? + u64::from(digit);
        digits += 1;
        at += 1;
    }
    if digits == 0 || rest.get(at) != Some(&b',') {
        return None;
    }
    let mut size = 0u64;
    for &byte in &rest[at + 1..] {
        let digit = char::from(byte).to_digit(10);
        let Some(digit) = digit else { break };
        size = size.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some((kind, address, size))
}

/// Whether a line begins as lackey's do: if nothing can be read of it, it was cut or changed.
fn begins_as_one(text: &[u8]) -> bool {
    let start = text.iter().take_while(|&&b| b == b' ').count();
    match text[start..] {
        [b'I', b' ', b' ', ..] => start == 0,
        [b'L' | b'S' | b'M', b' ', ..] => start == 1,
        _ => false,
    }
}

/// Reads lackey's lines; others among them are skipped. The number is of those skipped that begin as
/// lackey's do.
///
/// # Errors
///
/// When the input cannot be read or has no line of lackey's.
pub fn from_lackey(mut input: impl BufRead, rules: Lackey) -> Result<(Trace, u64), ImportFault> {
    let mut windows = Windows::new(rules.window).of_pages(rules.window_pages);
    let (mut instructions, mut total) = (0u32, Nanos::ZERO);
    let (mut seen, mut broken) = (false, 0);
    let mut text = Vec::with_capacity(64);
    loop {
        text.clear();
        if input.read_until(b'\n', &mut text)? == 0 {
            break;
        }
        let Some((kind, address, size)) = line(&text) else {
            broken += u64::from(begins_as_one(&text));
            continue;
        };
        seen = true;
        windows.access(address, size, matches!(kind, b'S' | b'M'));
        if kind == b'I' {
            instructions += 1;
            if instructions == 1000 {
                instructions = 0;
                total = total.saturating_add(rules.thousand_instructions);
                if total > MAX_TIME {
                    return Err(ImportFault::Slow);
                }
                windows.pass(rules.thousand_instructions);
            }
        }
    }
    if !seen {
        return Err(ImportFault::Nothing("line of valgrind's lackey"));
    }
    Ok((windows.finish(), broken))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::trace::Event;

    #[test]
    fn lines_of_lackey_are_read_and_others_skipped() {
        let text = b"==1== Lackey\nI  0023C790,2\n S BE80199C,4\n L BE801950,4\nhello\n M 1000,8\n";
        let (trace, broken) = from_lackey(&text[..], Lackey::default()).unwrap();
        assert_eq!((trace.pages(), broken), (3, 0));
        let writes = trace
            .events()
            .filter(|e| matches!(e, Event::Touch { write: true, .. }));
        assert_eq!(
            writes.count(),
            2,
            "neighbours in number, the later one touched first"
        );
        assert!(from_lackey(&b"hello\n"[..], Lackey::default()).is_err());
    }

    #[test]
    fn lines_that_were_cut_are_counted() {
        let text = b"I  0023C790,2\n S BE80\n S xyz,4\nI am no line\n M 1000\n L \nI  12";
        let (trace, broken) = from_lackey(&text[..], Lackey::default()).unwrap();
        assert_eq!((trace.pages(), broken), (1, 5));
    }

    #[test]
    fn instructions_that_take_years_are_refused() {
        let text = b"I  1000,4\n".repeat(2000);
        let slow = |thousand_instructions| Lackey {
            thousand_instructions,
            ..Lackey::default()
        };
        let fault = from_lackey(&text[..], slow(MAX_TIME)).unwrap_err();
        assert!(matches!(fault, ImportFault::Slow), "{fault}");
        let (trace, _) = from_lackey(&text[..], slow(MAX_TIME / 2)).unwrap();
        assert_eq!(trace.duration(), MAX_TIME);
    }

    proptest! {
        #[test]
        fn any_line_is_read_without_a_panic(text in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = line(&text);
            let mut text = text;
            text.splice(0..0, *b" L ");
            let _ = from_lackey(&text[..], Lackey::default());
        }
    }
}
