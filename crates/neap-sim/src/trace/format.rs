//! The bytes of a trace.
//!
//! | part | bytes |
//! | --- | --- |
//! | magic | `NEAPTRC` and the version: 1 of all accesses, 2 of what neap saw |
//! | limit | version 2: varint, the limit in bytes under which neap saw it |
//! | areas | varint count; for each a byte of backing (0 anon, 1 file, 2 shmem) and varint pages |
//! | events | varints whose low two bits tell time (0), touch (1), free (2), end (3) |
//! | checksum | FNV-1a of all before, 8 bytes, little endian |
//!
//! A touch or free holds, above the tag, the write bit and the zigzag distance from the end of the
//! range before; then comes a varint of its length less one. A free with the write bit is a change of
//! what neap sees instead: the lowest bit of the second varint says whether it watches from here on.
//! A reader takes any bytes: what is not a trace is a [`TraceFault`], never a panic, and page numbers of what it accepts lie in the areas.

use neap_record::{VarintFault, pull_varint, push_varint as push};
use neap_units::{Bytes, Nanos};
use thiserror::Error;

use super::{Backing, Event, MAX_TIME, Trace, TraceArea};

const MAGIC: &[u8; 7] = b"NEAPTRC";
const VERSION: u8 = 1;
/// Of a trace that lacks what neap did not see.
const SEEN: u8 = 2;
/// More areas than any program has; bounds what a reader may be made to allocate.
const MAX_AREAS: u64 = 65_536;
/// Pages a trace may name: 8 TiB.
const MAX_PAGES: u64 = 1 << 31;

/// Why bytes are not a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum TraceFault {
    /// The first bytes are others.
    #[error("not a neap trace")]
    Magic,
    /// There is nothing in it.
    #[error("the file is empty")]
    Empty,
    /// Made by another version.
    #[error("trace version {0} is not known: this program reads {VERSION} and {SEEN}")]
    Version(u8),
    /// The bytes end too early.
    #[error("cut off at byte {0}")]
    Short(usize),
    /// A value that no writer makes.
    #[error(
        "malformed at byte {at} of a trace of version {version}: damaged, or its version is another"
    )]
    Malformed {
        /// Where.
        at: usize,
        /// The version in its eighth byte.
        version: u8,
    },
    /// More time passes than any recording has.
    #[error("more than 366 days pass in it: no recording is that long")]
    Long,
    /// The checksum differs: bytes were changed.
    #[error("checksum does not match: the file is damaged")]
    Checksum,
}

/// Where bytes stop being sound, for those who read without knowing the version.
#[derive(Clone, Copy, Debug)]
enum Unsound {
    Short(usize),
    Malformed(usize),
}

impl Unsound {
    /// The fault, of bytes that begin at `start` in a file of this version.
    fn of(self, start: usize, version: u8) -> TraceFault {
        match self {
            Unsound::Short(at) => TraceFault::Short(start + at),
            Unsound::Malformed(at) => TraceFault::Malformed {
                at: start + at,
                version,
            },
        }
    }
}

fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// The varint at `at`, which moves behind it.
#[inline]
fn pull(bytes: &[u8], at: &mut usize) -> Result<u64, Unsound> {
    let start = *at;
    pull_varint(bytes, at).map_err(|fault| match fault {
        VarintFault::Short => Unsound::Short(*at),
        VarintFault::Malformed => Unsound::Malformed(start),
    })
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// The events of a body, one after the other. Ends at the end mark or at the first byte that is not
/// sound.
#[derive(Clone, Debug)]
pub struct Events<'a> {
    body: &'a [u8],
    at: usize,
    last: i64,
    fault: Option<Unsound>,
    ended: bool,
}

impl<'a> Events<'a> {
    pub(super) fn new(body: &'a [u8]) -> Events<'a> {
        Events {
            body,
            at: 0,
            last: 0,
            fault: None,
            ended: false,
        }
    }

    /// Where the reader is, to go on from later with [`Events::resume`].
    #[must_use]
    pub fn position(&self) -> (usize, i64) {
        (self.at, self.last)
    }

    /// Goes on from a position of the same trace.
    #[must_use]
    pub fn resume(mut self, position: (usize, i64)) -> Events<'a> {
        (self.at, self.last) = position;
        self
    }

    fn read(&mut self) -> Result<Option<Event>, Unsound> {
        let start = self.at;
        let word = pull(self.body, &mut self.at)?;
        match word & 3 {
            0 => Ok(Some(Event::Time(Nanos(word >> 2)))),
            3 => Ok(None),
            tag => {
                let distance = unzigzag(word >> 3);
                let first = self.last.checked_add(distance);
                let watch = tag == 2 && word & 4 != 0;
                let mut length = pull(self.body, &mut self.at)?;
                let on = watch && length & 1 != 0;
                length >>= u32::from(watch);
                let fault = Unsound::Malformed(start);
                let first = first.and_then(|f| u64::try_from(f).ok()).ok_or(fault)?;
                let end = length.checked_add(1).and_then(|n| n.checked_add(first));
                let end = end.filter(|&end| end <= MAX_PAGES).ok_or(fault)?;
                self.last = end as i64;
                let (first, count) = (first as u32, (end - first) as u32);
                let write = word & 4 != 0;
                Ok(Some(match tag {
                    1 => Event::Touch {
                        first,
                        count,
                        write,
                    },
                    _ if watch => Event::Watch { first, count, on },
                    _ => Event::Free { first, count },
                }))
            }
        }
    }
}

impl Iterator for Events<'_> {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        if self.ended {
            return None;
        }
        match self.read() {
            Ok(Some(event)) => Some(event),
            Ok(None) => {
                self.ended = true;
                None
            }
            Err(fault) => {
                self.ended = true;
                self.fault = Some(fault);
                None
            }
        }
    }
}

impl Trace {
    /// A trace of these areas and events. Events that name pages outside the areas are left out.
    #[must_use]
    pub fn build(areas: Vec<TraceArea>, events: impl IntoIterator<Item = Event>) -> Trace {
        let pages: u64 = areas.iter().map(|area| u64::from(area.pages)).sum();
        let mut body = Vec::new();
        let mut last = 0i64;
        for event in events {
            let (first, count, bits) = match event {
                Event::Time(span) => {
                    push(&mut body, span.0.min(u64::MAX >> 2) << 2);
                    continue;
                }
                Event::Touch {
                    first,
                    count,
                    write,
                } => (first, count, 1 | u64::from(write) << 2),
                Event::Free { first, count } => (first, count, 2),
                Event::Watch { first, count, .. } => (first, count, 2 | 4),
            };
            let end = u64::from(first) + u64::from(count);
            if count == 0 || end > pages.min(MAX_PAGES) {
                continue;
            }
            push(&mut body, zigzag(i64::from(first) - last) << 3 | bits);
            let length = u64::from(count) - 1;
            push(
                &mut body,
                match event {
                    Event::Watch { on, .. } => length << 1 | u64::from(on),
                    _ => length,
                },
            );
            last = end as i64;
        }
        push(&mut body, 3);
        Trace {
            areas,
            body,
            seen_at: None,
        }
    }

    /// The same, as what neap saw under this limit.
    #[must_use]
    pub fn seen_at(self, limit: Bytes) -> Trace {
        Trace {
            seen_at: Some(limit),
            ..self
        }
    }

    /// The trace as bytes of a file.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        match self.seen_at {
            None => bytes.push(VERSION),
            Some(limit) => {
                bytes.push(SEEN);
                push(&mut bytes, limit.0);
            }
        }
        push(&mut bytes, self.areas.len() as u64);
        for area in &self.areas {
            bytes.push(match area.backing {
                Backing::Anon => 0,
                Backing::File => 1,
                Backing::Shmem => 2,
            });
            push(&mut bytes, u64::from(area.pages));
        }
        bytes.extend_from_slice(&self.body);
        let sum = checksum(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads a file's bytes.
    ///
    /// # Errors
    ///
    /// Where and why they are not a trace of this version.
    pub fn decode(bytes: &[u8]) -> Result<Trace, TraceFault> {
        if bytes.is_empty() {
            return Err(TraceFault::Empty);
        }
        if bytes.get(..7) != Some(MAGIC) {
            return Err(TraceFault::Magic);
        }
        let version = match bytes.get(7) {
            Some(&version @ (VERSION | SEEN)) => version,
            Some(&other) => return Err(TraceFault::Version(other)),
            None => return Err(TraceFault::Short(7)),
        };
        let unsound = |fault: Unsound| fault.of(0, version);
        let end = bytes.len().checked_sub(8).filter(|&end| end > 8);
        let end = end.ok_or(TraceFault::Short(bytes.len()))?;
        let mut at = 8;
        let seen_at = match version {
            SEEN => Some(Bytes(pull(&bytes[..end], &mut at).map_err(unsound)?)),
            _ => None,
        };
        let areas = areas(&bytes[..end], &mut at).map_err(unsound)?;
        let body = &bytes[at..end];
        let pages: u64 = areas.iter().map(|area| u64::from(area.pages)).sum();
        let mut events = Events::new(body);
        let malformed = |offset| Unsound::Malformed(offset).of(at, version);
        while let Some(event) = events.next() {
            if let Event::Touch { first, count, .. }
            | Event::Watch { first, count, .. }
            | Event::Free { first, count } = event
                && u64::from(first) + u64::from(count) > pages
            {
                return Err(malformed(events.at));
            }
        }
        if let Some(fault) = events.fault {
            return Err(fault.of(at, version));
        }
        if events.at != body.len() {
            return Err(malformed(events.at));
        }
        if bytes[end..] != checksum(&bytes[..end]).to_le_bytes() {
            return Err(TraceFault::Checksum);
        }
        let body = body.to_vec();
        let trace = Trace {
            areas,
            body,
            seen_at,
        };
        match trace.duration() > MAX_TIME {
            true => Err(TraceFault::Long),
            false => Ok(trace),
        }
    }
}

fn areas(bytes: &[u8], at: &mut usize) -> Result<Vec<TraceArea>, Unsound> {
    let start = *at;
    let count = pull(bytes, at)?;
    if count > MAX_AREAS {
        return Err(Unsound::Malformed(start));
    }
    let mut total = 0u64;
    let mut areas = Vec::new();
    for _ in 0..count {
        let here = *at;
        let backing = match bytes.get(here) {
            Some(0) => Backing::Anon,
            Some(1) => Backing::File,
            Some(2) => Backing::Shmem,
            Some(_) => return Err(Unsound::Malformed(here)),
            None => return Err(Unsound::Short(here)),
        };
        *at += 1;
        let pages = pull(bytes, at)?;
        total = total.saturating_add(pages);
        if total > MAX_PAGES {
            return Err(Unsound::Malformed(here));
        }
        let pages = pages as u32;
        areas.push(TraceArea { backing, pages });
    }
    Ok(areas)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn event(pages: u32) -> impl Strategy<Value = Event> {
        let range = (0..pages).prop_flat_map(move |first| (Just(first), 1..=pages - first));
        prop_oneof![
            // As many as there are stay within the longest time.
            (0..1u64 << 44).prop_map(|span| Event::Time(Nanos(span))),
            (range.clone(), any::<bool>()).prop_map(|((first, count), write)| Event::Touch {
                first,
                count,
                write
            }),
            range.prop_map(|(first, count)| Event::Free { first, count }),
        ]
    }

    #[test]
    fn a_trace_of_more_than_a_year_is_refused() {
        let of = |span| Trace::build(two_areas(), [Event::Time(span)]).encode();
        assert!(Trace::decode(&of(MAX_TIME)).is_ok());
        let long = Trace::decode(&of(MAX_TIME + Nanos(1)));
        assert_eq!(long, Err(TraceFault::Long));
    }

    fn two_areas() -> Vec<TraceArea> {
        vec![
            TraceArea {
                backing: Backing::File,
                pages: 400,
            },
            TraceArea {
                backing: Backing::Anon,
                pages: 600,
            },
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(events in prop::collection::vec(event(1000), 0..200)) {
            let trace = Trace::build(two_areas(), events.iter().copied());
            let back = Trace::decode(&trace.encode()).unwrap();
            prop_assert_eq!(&back, &trace);
            prop_assert_eq!(back.events().collect::<Vec<_>>(), events);
        }

        #[test]
        fn any_bytes_are_refused_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(Trace::decode(&bytes).is_err());
            let mut headed = b"NEAPTRC\x01".to_vec();
            headed.extend(&bytes);
            let sum = checksum(&headed);
            headed.extend(sum.to_le_bytes());
            if let Ok(trace) = Trace::decode(&headed) {
                for event in trace.events() {
                    if let Event::Touch { first, count, .. } = event {
                        prop_assert!(first + count <= trace.pages());
                    }
                }
            }
        }

        #[test]
        fn one_changed_byte_is_noticed(at in 0usize..200, bits in 1u8..) {
            let touch = Event::Touch { first: 3, count: 7, write: true };
            let mut bytes = Trace::build(two_areas(), [touch; 40]).encode();
            let at = at % bytes.len();
            bytes[at] ^= bits;
            prop_assert!(Trace::decode(&bytes).is_err());
        }
    }

    #[test]
    fn a_reader_goes_on_where_it_stopped() {
        let touch = |first| Event::Touch {
            first,
            count: 2,
            write: false,
        };
        let trace = Trace::build(two_areas(), [touch(5), touch(900), touch(0)]);
        let mut events = trace.events();
        events.next();
        let rest = trace.events().resume(events.position());
        assert_eq!(rest.collect::<Vec<_>>(), [touch(900), touch(0)]);
    }

    #[test]
    fn another_version_is_named() {
        let mut bytes = Trace::default().encode();
        bytes[7] = 9;
        assert_eq!(Trace::decode(&bytes), Err(TraceFault::Version(9)));
        assert_eq!(Trace::decode(b"hello"), Err(TraceFault::Magic));
        assert_eq!(Trace::decode(b""), Err(TraceFault::Empty));
    }

    #[test]
    fn a_version_that_does_not_fit_the_bytes_is_named() {
        let touch = Event::Touch {
            first: 3,
            count: 7,
            write: true,
        };
        let mut bytes = Trace::build(two_areas(), [touch; 40]).encode();
        bytes[7] = 2;
        let fault = Trace::decode(&bytes).unwrap_err().to_string();
        let told = "of a trace of version 2: damaged, or its version is another";
        assert!(
            fault.starts_with("malformed at byte ") && fault.ends_with(told),
            "{fault}"
        );
    }
}
