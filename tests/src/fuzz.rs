//! Every format that is read back, each as a function that takes any bytes and must not panic.
//!
//! `tests/fuzz.rs` calls them with the corpus and with mutations of it on any toolchain; `fuzz/` calls the
//! same ones from libFuzzer.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};

use neap_control::{Column, Part, Series};
use neap_record::{Header, Reader, Replay, block, end_block};
use neap_sim::{Event, Lackey, Trace, Workload, from_lackey, from_oracle, from_record};
use neap_store::{
    BlockFile, CompressorKind, Config, HashKey, LoadError, MemFile, Page, Store, VecArena,
};
use neap_units::{Bytes, EntryId, PAGE_SIZE, Pages, SpaceId};
use neap_wire::notes::{NOTES, WORDS};
use neap_wire::{Hearing, MAX_RANGES, Request, lack, offer, reply, request};

/// A name, which is that of its folder in `fuzz/corpus`, and what it does with bytes.
pub type Target = (&'static str, fn(&[u8]));

/// All of them.
pub const TARGETS: [Target; 11] = [
    ("trace", trace),
    ("record", record),
    ("calls", calls),
    ("oracle", oracle),
    ("lackey", lackey),
    ("workload", workload),
    ("swapfile", swapfile),
    ("compressed", compressed),
    ("wire", wire),
    ("control", control),
    ("series", series),
];

/// A trace names only pages it has, and is the same when it is written and read again.
fn sound(trace: &Trace) {
    for event in trace.events() {
        if let Event::Touch { first, count, .. }
        | Event::Watch { first, count, .. }
        | Event::Free { first, count } = event
        {
            assert!(u64::from(first) + u64::from(count) <= u64::from(trace.pages()));
        }
    }
    let again = Trace::decode(&trace.encode()).expect("what was written is read");
    assert_eq!(again, *trace);
}

/// A request to the control socket is read as it was written, or refused for one reason in one line.
fn control(bytes: &[u8]) {
    match neap_control::Call::read(bytes) {
        Ok(request) => {
            let line = request.line();
            let again = neap_control::Call::read(line.trim_end().as_bytes());
            assert!(line.ends_with('\n') && line.lines().count() == 1);
            assert_eq!(again, Ok(request));
        }
        Err(fault) => {
            assert_eq!(fault.to_string().lines().count(), 1, "{fault}");
            assert!(fault.code().starts_with('E'));
        }
    }
}

/// A run over time is read as it was written, or refused for one reason in one line. What is added to one is in its order.
fn series(bytes: &[u8]) {
    let Ok(object) = serde_json::from_slice(bytes) else {
        return;
    };
    for part in Part::read_all(&object) {
        let last = part.used.last().copied();
        assert_eq!(
            last.map(|(time, used)| (part.at(time), used)),
            last.map(|(_, used)| (used, used))
        );
        let _ = part.at(u64::MAX / 2);
        assert_eq!(
            Part::read_all(&serde_json::json!({"jobs": [part.object()]})),
            [part]
        );
    }
    match Series::read(&object) {
        Ok(series) => {
            let times = series
                .samples()
                .iter()
                .map(|sample| sample.get(Column::Time));
            assert!(times.is_sorted());
            assert_eq!(Series::read(&series.object()), Ok(series.clone()));
            let mut few = Series::new(8, 1);
            series.samples().iter().for_each(|sample| few.push(*sample));
            let most = |series: &Series| {
                let all = series.samples().iter();
                all.map(|sample| sample.get(Column::Most)).max()
            };
            assert!(few.samples().len() <= 8);
            assert_eq!(most(&few), most(&series));
        }
        Err(fault) => assert_eq!(fault.to_string().lines().count(), 1, "{fault}"),
    }
}

/// A message of a program, by its first byte; what is read names memory that a program may have.
fn wire(bytes: &[u8]) {
    const STAGE: u64 = 64 << 20;
    const PAGE: u64 = PAGE_SIZE as u64;
    let can_be = |range: &Range<u64>| {
        let whole = range.start.is_multiple_of(PAGE) && range.end.is_multiple_of(PAGE);
        assert!(
            whole && range.start <= range.end && range.end <= 1 << 56,
            "{range:x?}"
        );
    };
    let Some((kind, message)) = bytes.split_first() else {
        return;
    };
    match kind % 4 {
        0 => {
            if let Ok((_, Request::Release(range) | Request::Wipe(range))) = request(message) {
                can_be(&range);
            }
        }
        1 => {
            if let Ok(offer) = offer(message, STAGE)
                && offer.lacks == lack::NOTHING
            {
                can_be(&(offer.stage..offer.stage + STAGE));
                can_be(&offer.agent);
                can_be(&(offer.cookie..offer.cookie + PAGE));
                assert!(offer.stage > 0 && offer.cookie > 0 && !offer.agent.is_empty());
            }
        }
        2 => {
            if let Ok(reply) = reply(message) {
                assert!(reply.done as usize <= MAX_RANGES && reply.errno >= 0);
            }
        }
        _ => {
            let mut hearing = Hearing::default();
            let mut before = [0; WORDS];
            for words in message.chunks(WORDS * size_of::<u64>()) {
                let mut now = before;
                for (to, from) in now.iter_mut().zip(words.chunks_exact(size_of::<u64>())) {
                    *to = u64::from_ne_bytes(from.try_into().expect("eight bytes"));
                }
                let mut heard = 0;
                for first in [before, now] {
                    hearing.hear(&first, &now, |note| {
                        can_be(&note.range);
                        heard += 1;
                    });
                }
                // Each note of the ring once, and for each round what the last one grew by.
                assert!(heard <= 2 * NOTES + 2, "{heard}");
                before = now;
            }
        }
    }
}

fn trace(bytes: &[u8]) {
    if let Ok(trace) = Trace::decode(bytes) {
        sound(&trace);
    }
}

fn replay(file: &[u8]) {
    let Ok(reader) = Reader::open(file) else {
        return;
    };
    let mut replay = Replay::new();
    for (call, answer) in reader {
        let done = replay.step(&call);
        let _ = format!("{call}{}: {answer} {:?}", done.place, done.answer);
    }
    replay.core().check();
    if let Ok((trace, _)) = from_record(file) {
        sound(&trace);
    }
}

/// A record as it is in a file.
fn record(bytes: &[u8]) {
    replay(bytes);
}

/// What is in a record's block, where the checksum is right.
fn calls(bytes: &[u8]) {
    let mut file = Header::default().encode();
    file.extend(block(bytes));
    file.extend(end_block());
    replay(&file);
}

fn oracle(bytes: &[u8]) {
    if let Ok((trace, _)) = from_oracle(bytes) {
        sound(&trace);
    }
}

fn lackey(bytes: &[u8]) {
    if let Ok((trace, _)) = from_lackey(bytes, Lackey::default()) {
        sound(&trace);
    }
}

/// A fault is one line.
fn workload(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let none = |_: &Path| Err("no traces here".to_owned());
    if let Err(fault) = Workload::parse(&text, none) {
        assert_eq!(fault.to_string().lines().count(), 1, "{fault}");
    }
}

/// A swap file whose bytes are changed on their way back.
#[derive(Clone, Default)]
struct Liar(Arc<(MemFile, Mutex<Vec<u8>>)>);

impl BlockFile for Liar {
    fn read_many(&self, requests: &mut [(u64, &mut [u8])]) -> io::Result<()> {
        self.0.0.read_many(requests)?;
        let lies = self.0.1.lock().expect("lies");
        // Three bytes a lie: where, and what is exclusive-ored there.
        for lie in lies.chunks_exact(3) {
            let at = u64::from(u16::from_le_bytes([lie[0], lie[1]])) * 5;
            for (offset, buffer) in requests.iter_mut() {
                let place = at.checked_sub(*offset).map(|at| at as usize);
                if let Some(byte) = place.and_then(|place| buffer.get_mut(place)) {
                    *byte ^= lie[2];
                }
            }
        }
        Ok(())
    }

    fn write_many(&self, requests: &[(u64, &[u8])]) -> io::Result<()> {
        self.0.0.write_many(requests)
    }

    fn punch(&self, range: Range<u64>) -> io::Result<()> {
        self.0.0.punch(range)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.0.set_len(len)
    }
}

/// A page that compresses to a length of its own.
fn page(number: u64) -> Page {
    let mut page = [0; PAGE_SIZE];
    let mut word = number + 1;
    for place in page.iter_mut().take(200 + number as usize * 37 % 2500) {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        *place = (word >> 60) as u8;
    }
    page
}

/// Whatever a disk gives back, a page is read as it was written or not at all.
fn swapfile(bytes: &[u8]) {
    const PAGES: u64 = 48;
    // Room for a run of pages of each length's own.
    const POOL: u64 = 512;
    const OWNER: SpaceId = SpaceId(0);
    let file = Liar::default();
    let config = Config {
        pool_max: Pages(POOL),
        swap_size: Bytes::mib(4),
        ..Config::default()
    };
    let arena = VecArena::new(POOL as usize * PAGE_SIZE);
    let key = HashKey::new(&std::array::from_fn(|at| (at * at / 5 % 251) as u8));
    let store = Store::new(config, Box::new(arena), Box::new(file.clone()), key);
    let mut codec = store.codec();
    let store_one = |number| {
        let stored = store.store(OWNER, &page(number), &mut codec);
        (number, stored.expect("there is room"))
    };
    let entries: Vec<(u64, EntryId)> = (0..PAGES).map(store_one).collect();
    for _ in 0..2 * PAGES {
        store.shrink_owner(OWNER, &mut codec);
    }
    assert!(entries.iter().any(|&(_, entry)| store.is_on_disk(entry)));
    *file.0.1.lock().expect("lies") = bytes.to_vec();
    let mut out = [0; PAGE_SIZE];
    for &(number, entry) in &entries {
        match store.load(entry, &mut out, &mut codec) {
            Ok(_) => assert!(out == page(number), "page {number} is another"),
            Err(LoadError::Corrupt { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    store.check();
}

/// The first byte chooses the compressor; the rest is what it is to make a page of.
fn compressed(bytes: &[u8]) {
    let Some((&first, data)) = bytes.split_first() else {
        return;
    };
    let kinds = [
        CompressorKind::Lz4,
        CompressorKind::Zstd(1),
        CompressorKind::Deflate(1),
    ];
    let mut compressor = kinds[usize::from(first) % kinds.len()].build();
    let mut page = [0; PAGE_SIZE];
    let _ = compressor.decompress(data, None, &mut page);
}
