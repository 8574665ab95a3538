//! Records against what the core was really asked, whole, cut and spoilt.

use std::sync::{Arc, Mutex};

use neap_policy::{Advice, Heat, Hint, State, Step};
use neap_units::{EntryId, PageId, PageNr, Pages, SlotId, SpaceId};
use proptest::prelude::*;

use crate::{
    Answer, Call, Counts, End, Header, OLDEST, Reader, Recorded, Replay, Sink, block, end_block,
};

/// A sink in memory, whose clock goes on by a step at each look.
#[derive(Clone, Default)]
pub(crate) struct Memory {
    pub blocks: Arc<Mutex<Vec<Vec<u8>>>>,
    clock: Arc<Mutex<u64>>,
    full: bool,
}

impl Sink for Memory {
    fn now(&self) -> u64 {
        let mut clock = self.clock.lock().unwrap();
        *clock += 40_000;
        *clock
    }

    fn take(&mut self, payload: Vec<u8>) -> bool {
        self.blocks.lock().unwrap().push(payload);
        !self.full
    }
}

pub(crate) fn file(blocks: &[Vec<u8>], whole: bool) -> Vec<u8> {
    let mut bytes = Header { limit: 64 << 20 }.encode();
    for payload in blocks {
        bytes.extend(block(payload));
    }
    if whole {
        bytes.extend(end_block());
    }
    bytes
}

/// Something to do with a core: what, where, and with which number.
type Deed = (u8, u64, u32);

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let page = prop_oneof![9 => 0u64..200, 1 => 0x10_0000u64..0x10_0050];
    prop::collection::vec((0u8..24, page, 0u32..1000), 1..150)
}

/// The next step of a page's journey, out or in.
fn next(state: State, number: u32) -> Step {
    let heat = [Heat::Hot, Heat::Warm][number as usize % 2];
    let keep = number.is_multiple_of(3);
    match state {
        State::Absent => Step::Adopt(heat),
        State::Resident { .. } => Step::Isolate,
        State::Isolated { .. } if keep => Step::Putback(heat),
        State::Isolated { .. } => Step::Stage(SlotId(number)),
        State::Staged { .. } if keep => Step::BeginReturn,
        State::Staged { .. } => Step::BeginStore,
        State::Storing { .. } => Step::CommitStore(EntryId(number)),
        State::Returning { .. } => Step::EndReturn(heat),
        State::Stored { .. } => Step::BeginLoad,
        State::Loading { .. } => Step::EndLoad { keep, heat },
    }
}

/// Does all of it, each in one of the spaces there are.
fn work(core: &mut Recorded, deeds: &[Deed]) {
    let mut spaces = vec![core.add_space()];
    for &(what, page, number) in deeds {
        let Some(&space) = spaces.get(number as usize % spaces.len().max(1)) else {
            spaces.push(core.add_space());
            continue;
        };
        let page = PageNr(page);
        match what {
            0 => spaces.push(core.add_space()),
            1 => {
                core.drop_space(space);
                spaces.retain(|&other| other != space);
            }
            2..=4 => core.pick(space, number as usize % 40, &mut vec![PageId(7)]),
            5 => drop(core.remove_range(space, page.span(Pages(u64::from(number) % 90)))),
            6 => {
                let (to, len) = (PageNr(page.0 + 300), Pages(u64::from(number) % 140));
                core.remap_with(space, page, to, len, |_, _, _| ());
            }
            7 => {
                let child = core.add_space();
                core.fork(space, child, |page, _| {
                    page.0.is_multiple_of(2).then_some(EntryId(number))
                });
                spaces.push(child);
            }
            8 => {
                let some = spaces
                    .iter()
                    .filter(|other| other.0 as u32 % 3 != number % 3);
                let some: Vec<SpaceId> = some.copied().collect();
                _ = core.choose_space(&some);
            }
            9 => core.fault(space, page),
            10 => {
                let id = core.ensure(space, page);
                core.want(id);
                core.take_wanted(id);
            }
            12 => {
                let hints = [Hint::Use(Advice::Random), Hint::Cold, Hint::Soon];
                let range = page.span(Pages(u64::from(number) % 90));
                core.hint(space, range, hints[number as usize % 3]);
            }
            // Most of these are refused.
            11 => {
                let id = core.ensure(space, page);
                let steps = [Step::SetCopy(EntryId(number)), Step::DropCopy, Step::Drop];
                let _ = core.apply(id, steps[number as usize % 3]);
            }
            _ => {
                let id = core.ensure(space, page);
                let step = next(core.state(id), number);
                core.apply(id, step).unwrap();
            }
        }
    }
}

/// The blocks of a run; a new one begins `every` so many deeds.
fn recorded(deeds: &[Deed], every: usize) -> Vec<Vec<u8>> {
    let memory = Memory::default();
    let mut core = Recorded::new();
    core.start(Box::new(memory.clone()));
    for part in deeds.chunks(every) {
        work(&mut core, part);
        core.flush();
    }
    assert!(core.finish());
    core.check();
    let blocks = memory.blocks.lock().unwrap();
    blocks.clone()
}

/// All calls of a file, and where it ended.
pub(crate) fn read(bytes: &[u8]) -> (Vec<(Call, Answer)>, End) {
    let mut reader = Reader::open(bytes).unwrap();
    let calls = reader.by_ref().collect();
    (calls, reader.end().unwrap())
}

fn some_deeds() -> Vec<Deed> {
    (0..90u64)
        .map(|at| ((at * 7 % 24) as u8, at * 13 % 150, (at * 31 % 997) as u32))
        .collect()
}

proptest! {
    #[test]
    fn a_replay_answers_as_it_was_recorded(deeds in deeds()) {
        let (calls, end) = read(&file(&recorded(&deeds, 40), true));
        prop_assert_eq!(end, End::Whole);
        let mut replay = Replay::new();
        for (call, answer) in &calls {
            let done = replay.step(call);
            prop_assert_eq!(done.answer.as_ref(), Some(answer), "{}", call);
        }
        replay.core().check();
        let pages: usize = deeds.iter().filter(|deed| deed.0 >= 10).count();
        prop_assert!(calls.len() > pages);
    }

    #[test]
    fn any_bytes_are_read_and_replayed_without_a_panic(
        payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..4),
    ) {
        let mut replay = Replay::new();
        for (call, answer) in Reader::open(&file(&payloads, true)[..]).unwrap() {
            let said = replay.step(&call).answer;
            let _ = format!("{call} {answer} {said:?}");
        }
        replay.core().check();
        let _ = Reader::open(&payloads[0][..]).map(Iterator::count);
    }

    #[test]
    fn a_spoilt_record_whose_checksums_match_is_replayed_without_a_panic(
        deeds in deeds(),
        spoils in prop::collection::vec((any::<usize>(), any::<u8>()), 1..20),
    ) {
        let mut blocks = recorded(&deeds, usize::MAX);
        for (at, byte) in spoils {
            let at = at % blocks[0].len();
            blocks[0][at] = byte;
        }
        let mut replay = Replay::new();
        for (call, _) in Reader::open(&file(&blocks, true)[..]).unwrap() {
            replay.step(&call);
        }
        replay.core().check();
    }

    #[test]
    fn one_changed_byte_ends_the_record_before_it(at in any::<usize>(), bits in 1u8..) {
        let blocks = recorded(&some_deeds(), 10);
        let mut bytes = file(&blocks, true);
        let (whole, _) = read(&bytes);
        let first = Header { limit: 64 << 20 }.encode().len();
        let at = first + at % (bytes.len() - first);
        bytes[at] ^= bits;
        let (calls, end) = read(&bytes);
        prop_assert!(matches!(end, End::Damaged(_)), "{end:?}");
        prop_assert!(whole.starts_with(&calls));
    }
}

#[test]
fn a_record_cut_at_any_byte_is_read_up_to_there() {
    let bytes = file(&recorded(&some_deeds(), 10), true);
    let (whole, _) = read(&bytes);
    let header = Header { limit: 64 << 20 }.encode().len();
    let mut before = 0;
    for cut in 0..bytes.len() {
        let part = &bytes[..cut];
        if cut < header {
            assert!(Reader::open(part).is_err());
            continue;
        }
        let (calls, end) = read(part);
        assert_eq!(end, End::Cut(cut as u64));
        assert!(whole.starts_with(&calls), "cut at {cut}");
        assert!(calls.len() >= before, "cut at {cut}");
        before = calls.len();
    }
    assert_eq!(before, whole.len());
}

#[test]
fn a_call_that_is_left_out_shows_as_a_difference() {
    let deeds = some_deeds();
    let (mut calls, _) = read(&file(&recorded(&deeds, 40), true));
    let adopted = calls
        .iter()
        .position(|(call, _)| matches!(call, Call::Apply(_, Step::Adopt(_))));
    calls.remove(adopted.unwrap());
    let mut replay = Replay::new();
    let differs =
        |(call, answer): &(Call, Answer)| replay.step(call).answer.as_ref() != Some(answer);
    assert!(calls.iter().any(differs));
}

#[test]
fn a_sink_that_takes_no_more_ends_the_record_and_not_the_core() {
    let full = Memory {
        full: true,
        ..Memory::default()
    };
    let mut core = Recorded::new();
    core.start(Box::new(full.clone()));
    let space = core.add_space();
    for page in 0..100_000 {
        let id = core.ensure(space, PageNr(page));
        core.apply(id, Step::Adopt(Heat::Hot)).unwrap();
    }
    assert_eq!(full.blocks.lock().unwrap().len(), 1);
    assert_eq!(core.resident(SpaceId(0)), Pages(100_000));
    assert!(!core.finish());
}

#[test]
fn neighbours_take_few_bytes() {
    let memory = Memory::default();
    let mut core = Recorded::new();
    core.start(Box::new(memory.clone()));
    let space = core.add_space();
    for page in 0..1000 {
        let id = core.ensure(space, PageNr(0x7f00_0000 + page));
        core.apply(id, Step::Adopt(Heat::Warm)).unwrap();
    }
    core.finish();
    let bytes: usize = memory.blocks.lock().unwrap().iter().map(Vec::len).sum();
    assert!(bytes < 5 * 2000, "{bytes} bytes for 2000 calls");
}

#[test]
fn another_version_and_other_files_are_named() {
    let fault = |bytes: &[u8]| Reader::open(bytes).map(|_| ()).unwrap_err().to_string();
    let mut bytes = Header::default().encode();
    bytes[7] = 9;
    assert_eq!(
        fault(&bytes),
        "record version 9 is not known: this program reads versions 2 to 3"
    );
    assert_eq!(
        fault(b"NEAPREC\x01\x00"),
        "record version 1 is not known: this program reads versions 2 to 3"
    );
    assert_eq!(fault(b"NEAPTRC\x01"), "not a record of neap run");
    assert_eq!(fault(b""), "nothing was recorded");
    assert_eq!(fault(b"NEAPREC\x02\xff"), "nothing was recorded");
}

#[test]
fn a_record_of_the_version_before_deciders_is_replayed() {
    let mut bytes = file(&recorded(&some_deeds(), 40), true);
    bytes[7] = OLDEST;
    let (calls, end) = read(&bytes);
    assert_eq!(end, End::Whole);
    let mut replay = Replay::new();
    for (call, answer) in &calls {
        assert_eq!(replay.step(call).answer.as_ref(), Some(answer), "{call}");
    }
}

#[test]
fn a_record_that_lacks_a_newer_counter_agrees_in_those_it_has() {
    let counts = |resident, vmstat: &[u64]| {
        Answer::Counts(Counts {
            resident,
            vmstat: vmstat.to_vec(),
        })
    };
    let now = counts(3, &[1, 2, 9]);
    assert!(now.agrees_with(&counts(3, &[1, 2])));
    assert!(!now.agrees_with(&counts(3, &[1, 4])));
    assert!(!now.agrees_with(&counts(2, &[1, 2])));
    assert!(!now.agrees_with(&counts(3, &[1, 2, 9, 0])));
    assert!(!now.agrees_with(&Answer::Nothing));
}
