//! A trace from a record of `neap run`: what the engine learned of accesses, which is not all of them.
//!
//! The engine sees a page when it enters the table, when it is touched on its way out, and when it comes
//! back. What it does not see is left out: touches of a page that stays in memory. So a trace made of a
//! record holds the more of the truth the closer the recorded limit was to those that are tried; above the
//! recorded limit a forecast is sound, far below it is too good.
//!
//! * A page found by a look at the mappings counts as touched when it was found.
//! * Every touch counts as a write: the engine is not told which it was.
//! * Time is the engine's clock: it includes what the program waited for pages.
//! * A page of a forked child is a page of its own from its first touch on.

use std::collections::BTreeMap;
use std::io::Read;
use std::ops::Range;

use neap_policy::{Heat, Step};
use neap_record::{Answer, Call, End, Reader, Replay, Replayed};
use neap_units::{Bytes, Nanos, PageNr, SpaceId};

use super::lackey::ImportFault;
use super::{Backing, Event, MAX_TIME, Trace, TraceArea};

/// Pages a trace may name.
const MAX_PAGES: usize = 1 << 31;

/// An event before pages have their final numbers.
#[derive(Clone, Copy)]
enum Raw {
    Time(u64),
    Touch(u32),
    Watch(u32, bool),
    Free(u32),
}

/// Pages by what they are, wherever they move.
#[derive(Default)]
struct Pages {
    /// The page that is at an address now.
    now: BTreeMap<(SpaceId, PageNr), u32>,
    /// For each page the order in which its space came, and its first address.
    first: Vec<(u32, PageNr)>,
    /// Spaces by their number, and when each came.
    came: BTreeMap<SpaceId, u32>,
    spaces: u32,
    events: Vec<Raw>,
}

impl Pages {
    fn touch(&mut self, space: SpaceId, page: PageNr) {
        let known = self.now.get(&(space, page)).copied();
        let page = known.unwrap_or_else(|| {
            let number = self.first.len() as u32;
            let came = self.came.get(&space).copied().unwrap_or(0);
            self.first.push((came, page));
            self.now.insert((space, page), number);
            number
        });
        self.events.push(Raw::Touch(page));
    }

    /// What neap sees of a page changed.
    fn watch(&mut self, space: SpaceId, page: PageNr, on: bool) {
        if let Some(&number) = self.now.get(&(space, page)) {
            self.events.push(Raw::Watch(number, on));
        }
    }

    /// Takes the pages of a range away from it.
    fn take(&mut self, space: SpaceId, range: &Range<PageNr>) -> Vec<(PageNr, u32)> {
        if range.start >= range.end {
            return Vec::new();
        }
        let found = self.now.range((space, range.start)..(space, range.end));
        let found: Vec<(PageNr, u32)> = found.map(|(&(_, page), &n)| (page, n)).collect();
        for &(page, _) in &found {
            self.now.remove(&(space, page));
        }
        found
    }

    fn free(&mut self, space: SpaceId, range: &Range<PageNr>) {
        let freed = self.take(space, range);
        self.events
            .extend(freed.into_iter().map(|(_, number)| Raw::Free(number)));
    }

    fn see(&mut self, call: &Call, done: &Replayed) {
        let all = PageNr(0)..PageNr(u64::MAX);
        match (call, &done.answer, done.place.0) {
            (Call::Time(nanos), ..) => self.events.push(Raw::Time(*nanos)),
            (Call::AddSpace, Some(Answer::Space(space)), _) => {
                self.spaces += 1;
                self.came.insert(*space, self.spaces);
            }
            (Call::DropSpace(space), ..) => self.free(*space, &all),
            (Call::Remove(space, range), ..) => self.free(*space, range),
            (Call::Apply(_, step), Some(Answer::Effect(_)), Some((space, page))) => match step {
                Step::Adopt(_)
                | Step::Putback(Heat::Hot)
                | Step::EndReturn(Heat::Hot)
                | Step::EndLoad {
                    heat: Heat::Hot, ..
                } => self.touch(space, page),
                Step::EndReturn(Heat::Warm)
                | Step::EndLoad {
                    heat: Heat::Warm, ..
                } => self.watch(space, page, false),
                Step::Stage(_) => self.watch(space, page, true),
                Step::Vanish | Step::Drop => self.free(space, &(page..PageNr(page.0 + 1))),
                _ => {}
            },
            (
                Call::Remap {
                    space,
                    from,
                    to,
                    len,
                },
                Some(_),
                _,
            ) => {
                self.free(*space, &to.span(*len));
                for (page, number) in self.take(*space, &from.span(*len)) {
                    let page = PageNr(page.0 - from.0 + to.0);
                    self.now.insert((*space, page), number);
                }
            }
            _ => {}
        }
    }

    /// Numbers the pages in the order of spaces and addresses, so that neighbours stay neighbours.
    fn finish(self) -> Trace {
        let mut order: Vec<u32> = (0..self.first.len() as u32).collect();
        order.sort_by_key(|&page| self.first[page as usize]);
        let mut number = vec![0u32; order.len()];
        for (at, &page) in order.iter().enumerate() {
            number[page as usize] = at as u32;
        }
        // One area for each space: a program of several processes is told from one of one.
        let mut areas: BTreeMap<u32, u32> = BTreeMap::new();
        for (came, _) in &self.first {
            *areas.entry(*came).or_default() += 1;
        }
        let area = |pages: u32| TraceArea {
            backing: Backing::Anon,
            pages,
        };
        let areas = areas.into_values().map(area).collect();
        let events = self.events.iter().map(|&raw| match raw {
            Raw::Time(nanos) => Event::Time(Nanos(nanos)),
            Raw::Touch(page) => Event::Touch {
                first: number[page as usize],
                count: 1,
                write: true,
            },
            Raw::Watch(page, on) => Event::Watch {
                first: number[page as usize],
                count: 1,
                on,
            },
            Raw::Free(page) => Event::Free {
                first: number[page as usize],
                count: 1,
            },
        });
        Trace::build(areas, Runs::new(events))
    }
}

/// Joins touches, and frees, of neighbours that follow each other.
struct Runs<I> {
    events: I,
    open: Option<Event>,
}

impl<I> Runs<I> {
    fn new(events: I) -> Runs<I> {
        Runs { events, open: None }
    }
}

/// The two as one, if the second goes on where the first ends.
fn joined(a: Event, b: Event) -> Option<Event> {
    match (a, b) {
        (
            Event::Touch {
                first,
                count,
                write,
            },
            Event::Touch { first: next, .. },
        ) if first + count == next => Some(Event::Touch {
            first,
            count: count + 1,
            write,
        }),
        (
            Event::Watch { first, count, on },
            Event::Watch {
                first: next,
                on: same,
                ..
            },
        ) if first + count == next && on == same => Some(Event::Watch {
            first,
            count: count + 1,
            on,
        }),
        (Event::Free { first, count }, Event::Free { first: next, .. })
            if first + count == next =>
        {
            let count = count + 1;
            Some(Event::Free { first, count })
        }
        _ => None,
    }
}

impl<I: Iterator<Item = Event>> Iterator for Runs<I> {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        for event in self.events.by_ref() {
            let Some(before) = self.open.replace(event) else {
                continue;
            };
            match joined(before, event) {
                Some(both) => self.open = Some(both),
                None => return Some(before),
            }
        }
        self.open.take()
    }
}

/// Reads a record, and says where it ended: one that was cut short gives what there is.
///
/// # Errors
///
/// When the input is no record, or nothing was touched in it.
pub fn from_record(input: impl Read) -> Result<(Trace, End), ImportFault> {
    let mut record = Reader::open(input)?;
    let mut replay = Replay::new();
    let mut pages = Pages::default();
    let mut passed = 0u64;
    for (number, (call, _)) in (1..).zip(record.by_ref()) {
        if let Call::Time(nanos) = call {
            passed = passed.saturating_add(nanos);
            if passed > MAX_TIME.0 {
                return Err(ImportFault::Long(number));
            }
        }
        let done = replay.step(&call);
        pages.see(&call, &done);
        if pages.first.len() > MAX_PAGES {
            return Err(ImportFault::TooLarge(MAX_PAGES as u64));
        }
    }
    if pages.first.is_empty() {
        return Err(ImportFault::Untouched);
    }
    let end = record.end().unwrap_or(End::Whole);
    let limit = Bytes(record.header().limit);
    Ok((pages.finish().seen_at(limit), end))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use std::sync::{Arc, Mutex};

    use neap_record::{Header, Recorded, Sink, block, end_block};
    use neap_units::{EntryId, SlotId};

    use super::*;

    #[derive(Clone, Default)]
    struct Tape(Arc<Mutex<Vec<u8>>>, Arc<AtomicU64>);

    impl Sink for Tape {
        fn now(&self) -> u64 {
            self.1.load(Relaxed)
        }

        fn take(&mut self, payload: Vec<u8>) -> bool {
            self.0.lock().unwrap().extend(block(&payload));
            true
        }
    }

    #[test]
    fn a_record_of_more_time_than_any_has_is_refused() {
        let bytes = Tape::default();
        let mut core = Recorded::new();
        core.start(Box::new(bytes.clone()));
        let space = core.add_space();
        bytes.1.store(MAX_TIME.0 + (1 << 30), Relaxed);
        core.ensure(space, PageNr(7));
        core.fault(space, PageNr(7));
        assert!(core.finish());
        let mut file = Header::default().encode();
        file.extend(bytes.0.lock().unwrap().iter());
        file.extend(end_block());
        let refused = from_record(&file[..]);
        assert!(matches!(refused, Err(ImportFault::Long(_))), "{refused:?}");
    }

    #[test]
    fn each_process_has_an_area_of_its_own() {
        let bytes = Tape::default();
        let mut core = Recorded::new();
        core.start(Box::new(bytes.clone()));
        for pages in 1..=2 {
            let space = core.add_space();
            for page in 0..pages {
                let id = core.ensure(space, PageNr(page));
                core.apply(id, Step::Adopt(Heat::Warm)).unwrap();
            }
        }
        assert!(core.finish());
        let mut file = Header::default().encode();
        file.extend(bytes.0.lock().unwrap().iter());
        file.extend(end_block());
        let (trace, _) = from_record(&file[..]).unwrap();
        let pages: Vec<u32> = trace.areas().iter().map(|area| area.pages).collect();
        assert_eq!(pages, [1, 2]);
    }

    #[test]
    fn what_the_engine_saw_of_a_page_becomes_touches_and_frees() {
        let bytes = Tape::default();
        let mut core = Recorded::new();
        core.start(Box::new(bytes.clone()));
        let space = core.add_space();
        let ids: Vec<_> = [7, 8, 9]
            .map(|page| core.ensure(space, PageNr(page)))
            .into();
        for &id in &ids {
            core.apply(id, Step::Adopt(Heat::Warm)).unwrap();
        }
        let out = [
            Step::Isolate,
            Step::Stage(SlotId(0)),
            Step::BeginStore,
            Step::CommitStore(EntryId(0)),
            Step::BeginLoad,
        ];
        let back = |heat| Step::EndLoad { keep: false, heat };
        for (&id, heat) in ids.iter().zip([Heat::Hot, Heat::Warm]) {
            for step in out.into_iter().chain([back(heat)]) {
                core.apply(id, step).unwrap();
            }
        }
        core.remap_with(
            space,
            PageNr(9),
            PageNr(100),
            neap_units::Pages(1),
            |_, _, _| (),
        );
        core.remove_range(space, PageNr(100)..PageNr(101));
        assert!(core.finish());
        let mut file = Header::default().encode();
        file.extend(bytes.0.lock().unwrap().iter());
        file.extend(end_block());
        let (trace, end) = from_record(&file[..]).unwrap();
        assert_eq!((trace.pages(), end), (3, End::Whole));
        assert_eq!(trace.areas().len(), 1, "one process");
        let touch = |first, count| Event::Touch {
            first,
            count,
            write: true,
        };
        let events: Vec<Event> = trace.events().collect();
        let free = Event::Free { first: 2, count: 1 };
        let watch = |first, on| Event::Watch {
            first,
            count: 1,
            on,
        };
        let wanted = [
            touch(0, 3),
            watch(0, true),
            touch(0, 1),
            watch(1, true),
            watch(1, false),
            free,
        ];
        assert_eq!(events, wanted);
        assert_eq!(trace.limit(), Some(Bytes(0)));
        assert!(from_record(&Header::default().encode()[..]).is_err());
    }
}
