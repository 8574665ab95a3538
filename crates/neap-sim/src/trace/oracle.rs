//! Import of libCacheSim's oracleGeneral format: records of 24 bytes, little endian: time in seconds
//! (u32), object (u64), size in bytes (u32), and when the object is used next (i64, not needed here).

use std::collections::BTreeMap;
use std::io::Read;

use neap_units::{Bytes, Nanos};

use super::lackey::ImportFault;
use super::{Backing, Event, MAX_TIME, Trace, TraceArea};

/// Bytes of a record.
const RECORD: usize = 24;
/// Nanoseconds.
const SECOND: u64 = 1_000_000_000;
/// Most pages of one object: what a larger one would need says nothing about pages.
const OBJECT_PAGES: u64 = 512;
/// Pages a trace may name.
const MAX_PAGES: u64 = 1 << 31;

/// Reads the records. An object becomes as many pages as its first size needs, anonymous, written at
/// its first use and read later. Beside the trace: how many objects were cut to [`OBJECT_PAGES`].
///
/// # Errors
///
/// When the input cannot be read, ends within a record, is empty, or has a time more than 366 days
/// after the first.
pub fn from_oracle(mut input: impl Read) -> Result<(Trace, u64), ImportFault> {
    let mut objects: BTreeMap<u64, (u32, u32)> = BTreeMap::new();
    let mut events = Vec::new();
    let (mut next, mut cut) = (0u64, 0);
    // First and latest time.
    let mut clock: Option<(u32, u32)> = None;
    let mut number = 0;
    let mut record = [0u8; RECORD];
    loop {
        let got = fill(&mut input, &mut record)?;
        if got == 0 {
            break;
        }
        if got < RECORD {
            return Err(ImportFault::Cut(got, RECORD));
        }
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| record[at + i]));
        let (time, size) = (word(0), word(12));
        let object = u64::from(word(4)) | u64::from(word(8)) << 32;
        number += 1;
        let (first, before) = clock.unwrap_or((time, time));
        let passed = time.saturating_sub(before);
        if Nanos(u64::from(time.saturating_sub(first)) * SECOND) > MAX_TIME {
            return Err(ImportFault::Long(number));
        }
        clock = Some((first, before.max(time)));
        if passed > 0 {
            events.push(Event::Time(Nanos(u64::from(passed) * SECOND)));
        }
        let known = objects.get(&object).copied();
        let (first, count) = known.unwrap_or_else(|| {
            let pages = Bytes(u64::from(size)).pages_up().0;
            cut += u64::from(pages > OBJECT_PAGES);
            let pages = pages.clamp(1, OBJECT_PAGES);
            (next as u32, pages as u32)
        });
        if known.is_none() {
            next += u64::from(count);
            if next > MAX_PAGES {
                return Err(ImportFault::TooLarge(MAX_PAGES));
            }
            objects.insert(object, (first, count));
        }
        let write = known.is_none();
        events.push(Event::Touch {
            first,
            count,
            write,
        });
    }
    if events.is_empty() {
        return Err(ImportFault::Nothing("record of oracleGeneral"));
    }
    let area = TraceArea {
        backing: Backing::Anon,
        pages: next as u32,
    };
    Ok((Trace::build(vec![area], events), cut))
}

/// Reads until the record is full or the input ends.
fn fill(input: &mut impl Read, record: &mut [u8]) -> Result<usize, ImportFault> {
    let mut got = 0;
    while got < record.len() {
        match input.read(&mut record[got..])? {
            0 => break,
            n => got += n,
        }
    }
    Ok(got)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(time: u32, object: u64, size: u32) -> Vec<u8> {
        let mut bytes = time.to_le_bytes().to_vec();
        bytes.extend(object.to_le_bytes());
        bytes.extend(size.to_le_bytes());
        bytes.extend((-1i64).to_le_bytes());
        bytes
    }

    #[test]
    fn objects_become_pages_written_first_and_read_later() {
        let input = [record(10, 7, 5000), record(10, 9, 1), record(12, 7, 5000)].concat();
        let (trace, cut) = from_oracle(&input[..]).unwrap();
        assert_eq!(cut, 0);
        assert_eq!(trace.pages(), 3);
        let touch = |first, count, write| Event::Touch {
            first,
            count,
            write,
        };
        let events: Vec<Event> = trace.events().collect();
        let wait = Event::Time(Nanos(2_000_000_000));
        assert_eq!(
            events,
            [
                touch(0, 2, true),
                touch(2, 1, true),
                wait,
                touch(0, 2, false)
            ]
        );
    }

    #[test]
    fn a_time_of_another_century_is_refused() {
        let input = |time| [record(10, 7, 1), record(time, 9, 1), record(11, 7, 1)].concat();
        let fault = from_oracle(&input(u32::MAX)[..]).unwrap_err();
        let want = "more than 366 days pass by record 2: a time there is wrong";
        assert_eq!(fault.to_string(), want);
        let (trace, _) = from_oracle(&input(10 + 366 * 86_400)[..]).unwrap();
        assert_eq!(trace.duration(), MAX_TIME);
    }

    #[test]
    fn large_objects_are_cut_and_counted_once() {
        let size = 2 << 20;
        let input = [
            record(1, 7, size + 1),
            record(1, 8, size),
            record(2, 7, size + 1),
        ]
        .concat();
        let (trace, cut) = from_oracle(&input[..]).unwrap();
        assert_eq!((trace.pages(), cut), (1024, 1));
    }

    #[test]
    fn a_cut_record_is_an_error() {
        assert!(matches!(
            from_oracle(&[0u8; 30][..]),
            Err(ImportFault::Cut(6, 24))
        ));
        assert!(from_oracle(&[][..]).is_err());
    }
}
