//! Import of libCacheSim's oracleGeneral format: records of 24 bytes, little endian: time in seconds
//! (u32), object (u64), size in bytes (u32), and the number of the record that uses the object next (i64; -1 or
//! the largest number if none does). The last field is needed only to know another format by it.

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
/// More records than any trace has.
const MOST_RECORDS: i64 = 1 << 48;
/// Pages a trace may name.
const MAX_PAGES: u64 = 1 << 31;

struct Record {
    time: u32,
    object: u64,
    size: u32,
    next_use: i64,
}

impl Record {
    /// The next one; `None` at the end of the input.
    fn read(input: &mut impl Read) -> Result<Option<Self>, ImportFault> {
        let mut bytes = [0u8; RECORD];
        match fill(input, &mut bytes)? {
            0 => return Ok(None),
            RECORD => {}
            got => return Err(ImportFault::Cut(got, RECORD)),
        }
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| bytes[at + i]));
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        Ok(Some(Self {
            time: word(0),
            object: long(4),
            size: word(12),
            next_use: long(16) as i64,
        }))
    }
}

/// Reads the records. An object becomes as many pages as its first size needs, anonymous, written at
/// its first use and read later. Beside the trace: how many objects were cut to `OBJECT_PAGES`.
///
/// # Errors
///
/// When the input cannot be read, ends within a record, is empty, has a next use that cannot be, or a time more than
/// 366 days after the first.
pub fn from_oracle(mut input: impl Read) -> Result<(Trace, u64), ImportFault> {
    let mut objects: BTreeMap<u64, (u32, u32)> = BTreeMap::new();
    let mut events = Vec::new();
    let (mut next, mut cut) = (0u64, 0);
    // First and latest time.
    let mut clock: Option<(u32, u32)> = None;
    let mut number = 0;
    while let Some(record) = Record::read(&mut input)? {
        let Record {
            time,
            object,
            size,
            next_use,
        } = record;
        number += 1;
        if !may_follow(number, next_use) {
            return Err(ImportFault::NextUse {
                record: number,
                next: next_use,
            });
        }
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

/// Whether an object of record `number`, the first being 1, may be used next at `next`. Parts and samples of a trace keep
/// the numbers of the whole, which are larger; some writers count from 0.
fn may_follow(number: u64, next: i64) -> bool {
    let later = u64::try_from(next).is_ok_and(|next| next >= number);
    next == -1 || next == i64::MAX || (later && next < MOST_RECORDS)
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
    fn a_next_use_that_cannot_be_is_refused() {
        let with = |nexts: &[i64]| {
            let record = |&next: &i64| [&record(1, 7, 1)[..16], &next.to_le_bytes()].concat();
            let input: Vec<u8> = nexts.iter().flat_map(record).collect();
            from_oracle(&input[..]).map(|_| ())
        };
        // Counted from 0, from 1, of a part of a longer trace, and not at all.
        for sound in [
            &[1, 2, -1][..],
            &[2, 3, i64::MAX],
            &[900, 1000, -1],
            &[-1, -1],
        ] {
            assert!(with(sound).is_ok(), "{sound:?}");
        }
        for (wrong, record) in [(&[0][..], 1), (&[1, 1], 2), (&[-1, -2], 2), (&[1 << 48], 1)] {
            let fault = with(wrong).unwrap_err();
            let next = *wrong.last().unwrap();
            assert!(
                matches!(fault, ImportFault::NextUse { record: r, next: n } if r == record && n == next),
                "{wrong:?}: {fault}"
            );
        }
        assert_eq!(
            with(&[5, 0]).unwrap_err().to_string(),
            "record 2 says that its object is used next at record 0: that cannot be"
        );
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
            from_oracle(&[0xffu8; 30][..]),
            Err(ImportFault::Cut(6, 24))
        ));
        assert!(from_oracle(&[][..]).is_err());
    }
}
