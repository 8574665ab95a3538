//! The synthetic workloads: a heap is filled once, and then used in one pattern.

use std::thread;

use super::heap::{Content, Heap, PAGE_WORDS, page};
use super::mix;
use super::random::{Random, Zipf, shuffled};

/// Pages and operations in, a checksum out.
pub type Work = fn(usize, usize) -> u64;

/// Every kind.
pub const KINDS: [(&str, Work); 13] = [
    ("seq-read", seq_read),
    ("seq-write", seq_write),
    ("stride", stride),
    ("random", random),
    ("zipf", zipf),
    ("hot-cold", hot_cold),
    ("chase", chase),
    ("threads-2", |pages, ops| threads(pages, ops, 2)),
    ("threads-4", |pages, ops| threads(pages, ops, 4)),
    ("dead", dead),
    ("noise", noise),
    ("fresh", fresh),
    ("faults", faults),
];

/// Exponent of the zipf workload.
const THETA: f64 = 0.99;
/// Between two words that a scan touches: a line of the processor's cache.
const LINE: usize = 8;
/// Pages from one access to the next of the strided workload. Odd, so that every page has its turn in a
/// number of pages that is a power of two.
const STRIDE: usize = 7;
/// The word that writers of random pages write.
const WRITTEN: usize = 16;

/// The kind of that name.
#[must_use]
pub fn named(kind: &str) -> Option<Work> {
    let (_, work) = KINDS.iter().find(|(name, _)| *name == kind)?;
    Some(*work)
}

/// Passes that make `ops` operations, at least one.
fn passes(pages: usize, ops: usize) -> usize {
    (ops / pages).max(1)
}

fn read_page(heap: &Heap, page: usize, sum: u64) -> u64 {
    let words = (0..PAGE_WORDS).step_by(LINE);
    mix(sum, words.fold(0, |all, word| all ^ heap.get(page, word)))
}

fn seq_read(pages: usize, ops: usize) -> u64 {
    let heap = Heap::new(Content::Records, pages);
    let mut sum = 0;
    for _ in 0..passes(pages, ops) {
        sum = (0..pages).fold(sum, |sum, page| read_page(&heap, page, sum));
    }
    sum
}

fn seq_write(pages: usize, ops: usize) -> u64 {
    let heap = Heap::new(Content::Records, pages);
    let mut sum = 0;
    for pass in 0..passes(pages, ops) {
        for page in 0..pages {
            // The number of every eighth record.
            for word in (2..PAGE_WORDS).step_by(LINE * 8) {
                let value = heap.get(page, word);
                sum = mix(sum, value);
                heap.set(page, word, (value + pass as u64) & 0xffff);
            }
        }
    }
    sum
}

fn stride(pages: usize, ops: usize) -> u64 {
    let heap = Heap::new(Content::Records, pages);
    let mut sum = 0;
    for i in 0..ops.max(pages) {
        sum = read_page(&heap, i * STRIDE % pages, sum);
    }
    sum
}

fn random(pages: usize, ops: usize) -> u64 {
    uniform(&Heap::new(Content::Records, pages), ops, 1)
}

fn noise(pages: usize, ops: usize) -> u64 {
    uniform(&Heap::new(Content::Noise, pages), ops, 2)
}

fn uniform(heap: &Heap, ops: usize, seed: u64) -> u64 {
    let mut random = Random::new(seed);
    (0..ops).fold(0, |sum, _| {
        let page = random.below(heap.pages());
        mix(sum, heap.get(page, random.below(PAGE_WORDS)))
    })
}

/// Every other operation writes, in all that follow.
fn use_page(heap: &Heap, page: usize, op: usize, sum: u64) -> u64 {
    if op % 2 == 1 {
        heap.add(page, WRITTEN, 1);
    }
    mix(sum, heap.get(page, WRITTEN))
}

/// Ranks lie anywhere, as keys of a table do. Reads alone.
fn zipf(pages: usize, ops: usize) -> u64 {
    let heap = Heap::new(Content::Records, pages);
    let (zipf, places) = (Zipf::new(pages, THETA), shuffled(pages, 3));
    let mut random = Random::new(4);
    (0..ops).fold(0, |sum, _| {
        let page = places[zipf.rank(&mut random)] as usize;
        mix(sum, heap.get(page, random.below(PAGE_WORDS)))
    })
}

/// Nine of ten accesses go to a tenth of the pages.
fn hot_cold(pages: usize, ops: usize) -> u64 {
    let heap = Heap::new(Content::Records, pages);
    let places = shuffled(pages, 5);
    let hot = (pages / 10).max(1);
    let mut random = Random::new(6);
    (0..ops).fold(0, |sum, op| {
        let place = match random.below(10) {
            0 => hot + random.below(pages - hot),
            _ => random.below(hot),
        };
        use_page(&heap, places[place] as usize, op, sum)
    })
}

/// Each page names the next, in one circle through all.
fn chase(pages: usize, ops: usize) -> u64 {
    let heap = Heap::new(Content::Records, pages);
    let order = shuffled(pages, 7);
    for (i, from) in order.iter().enumerate() {
        let to = order[(i + 1) % pages];
        heap.set(*from as usize, WRITTEN, u64::from(to));
    }
    let (mut at, mut sum) = (0, 0);
    for _ in 0..ops {
        let next = heap.get(at, WRITTEN);
        sum = mix(sum, next);
        at = usize::try_from(next).unwrap_or(0) % pages;
    }
    sum
}

/// Each thread reads what no thread writes, and every other time writes a word of its own.
fn threads(pages: usize, ops: usize, count: usize) -> u64 {
    let heap = Heap::new(Content::Records, pages);
    let one = |thread: usize| {
        let mut random = Random::new(8 + thread as u64);
        (0..ops / count).fold(0, |sum, op| {
            let page = random.below(pages);
            if op % 2 == 1 {
                heap.add(page, WRITTEN + thread, 1);
            }
            mix(sum, heap.get(page, 2))
        })
    };
    let sums: Vec<u64> = thread::scope(|scope| {
        let running: Vec<_> = (0..count).map(|t| scope.spawn(move || one(t))).collect();
        let ended = running.into_iter().map(|thread| thread.join());
        ended.map(|sum| sum.unwrap_or(0)).collect()
    });
    (0..pages).fold(
        sums.iter().fold(0, |all, sum| mix(all, *sum)),
        |sum, page| mix(sum, heap.get(page, WRITTEN)),
    )
}

/// A job in steps: each builds a structure of small blocks, uses it and the one before it, and lets go of
/// every fourth block; the rest stays and is never looked at again.
fn dead(pages: usize, ops: usize) -> u64 {
    const STEPS: usize = 24;
    const BLOCK: usize = 4;
    let blocks = (pages / BLOCK / STEPS).max(1);
    let (mut kept, mut sum) = (Vec::new(), 0);
    let mut random = Random::new(9);
    let mut before: Vec<Vec<u64>> = Vec::new();
    // A quarter is let go of, so a third more steps fill the same memory.
    for step in 0..STEPS * 4 / 3 {
        let make = |block: usize| -> Vec<u64> {
            let first = (step * blocks + block) * BLOCK;
            let mut words = Vec::with_capacity(BLOCK * PAGE_WORDS);
            (first..first + BLOCK).for_each(|number| words.extend(page(Content::Records, number)));
            words
        };
        let mut fresh: Vec<Vec<u64>> = (0..blocks).map(make).collect();
        for _ in 0..ops / (STEPS * 4 / 3) {
            let block = random.below(blocks);
            let word = random.below(BLOCK * PAGE_WORDS);
            fresh[block][word] ^= before.get(block).map_or(1, |old| old[word] & 0xff);
            sum = mix(sum, fresh[block][word]);
        }
        let gone = std::mem::replace(&mut before, fresh)
            .into_iter()
            .enumerate();
        kept.extend(gone.filter(|(i, _)| i % 4 != 0).map(|(_, block)| block));
    }
    mix(sum, (kept.len() + before.len()) as u64)
}

/// Half of the pages are filled once and stay; the other half is filled, given back and filled anew until
/// `ops` pages were fresh. Blocks so large are the kernel's again as soon as they are freed (mallopt(3),
/// `M_MMAP_THRESHOLD`).
fn fresh(pages: usize, ops: usize) -> u64 {
    let half = (pages / 2).max(1);
    let base = Heap::new(Content::Records, half);
    let mut sum = 0;
    for _ in 0..passes(half, ops) {
        let heap = Heap::new(Content::Records, half);
        sum = (0..half)
            .step_by(64)
            .fold(sum, |sum, page| mix(sum, heap.get(page, 2)));
    }
    mix(sum, base.get(half - 1, 2))
}

/// For the micro benchmarks: pages in an order that nothing foresees, each once in a pass, and what that
/// took in nanoseconds for each, on standard error.
fn faults(pages: usize, ops: usize) -> u64 {
    let start = neap_sys::monotonic_nanos();
    let heap = Heap::new(Content::Records, pages);
    let filled = neap_sys::monotonic_nanos();
    let order = shuffled(pages, 10);
    let mut sum = 0;
    for i in 0..ops {
        sum = mix(sum, heap.get(order[i % pages] as usize, 2));
    }
    let read = neap_sys::monotonic_nanos() - filled;
    eprintln!(
        "fill {} ns a page, read {} ns a page",
        (filled - start) / pages.max(1) as u64,
        read / ops.max(1) as u64
    );
    sum
}
