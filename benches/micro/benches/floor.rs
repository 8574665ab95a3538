//! What a fault costs that somebody else serves, before anything is found or decompressed: a thread reads
//! pages of this process, another copies a constant page for each. No design with userfaultfd is faster.
//!
//! In `behind` the server has the least claim on the reader's cpu (SCHED_IDLE), as in bursts of faults under neap;
//! `kept` keeps the reader on the server's cpu for the time of its wake-up, as neap does otherwise; in `pinned` both
//! may run nowhere else, which cannot be done to a program; in `free` the scheduler chooses. Threads of one
//! process: between two processes each switch costs a little more.
#![forbid(unsafe_code)]

use std::hint::black_box;
use std::ops::Range;
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use neap_sys::{Event, Features, Keeper, Mode, Uffd, Wake};

const PAGE: usize = 4096;
/// Pages read in one measurement, and how far from each other: no two neighbours follow each other.
const PAGES: usize = 8192;
const STRIDE: usize = 4099;
const NEVER: Option<u64> = None;

#[derive(Clone, Copy, PartialEq)]
enum Way {
    Behind,
    Kept,
    Pinned,
    Free,
}

/// Whoever is woken goes on at once, where it is, and its next fault is there when this thread has the cpu again.
fn serve_behind(uffd: &Uffd, faults: usize) {
    neap_sys::give_way();
    let _ = neap_sys::pin_to(0, 0);
    let page = [1; PAGE];
    let (mut served, mut woken, mut slept) = (0, 0, false);
    while served < faults {
        let mut asked = None;
        let read = uffd.read_events(1, |event| {
            if let Event::Fault {
                address, thread, ..
            } = event
            {
                asked = Some((address, thread));
            }
        });
        match asked {
            Some((address, thread)) => {
                woken = if slept { woken + 1 } else { 0 };
                slept = false;
                if woken > 1 {
                    // It is on another cpu.
                    let cpu = neap_sys::cpu_of(std::process::id().cast_signed(), thread);
                    let _ = neap_sys::pin_to(0, cpu.unwrap_or(0));
                    woken = 0;
                }
                served += 1;
                uffd.copy(address, &page, Wake::Later);
                let _ = uffd.wake(address..address + PAGE as u64);
            }
            None if read.is_err() => break,
            None => {
                let _ = neap_sys::wait_readable(&[uffd.as_fd()], NEVER);
                slept = true;
            }
        }
    }
}

/// Ahead of the reader, on one cpu.
fn serve(uffd: &Uffd, way: Way, keeper: &Keeper, faults: usize) {
    if way == Way::Behind {
        return serve_behind(uffd, faults);
    }
    neap_sys::raise_to_realtime();
    if way != Way::Free {
        let _ = neap_sys::pin_to(0, 0);
    }
    let page = [1; PAGE];
    let mut served = 0;
    while served < faults {
        let _ = neap_sys::wait_readable(&[uffd.as_fd()], NEVER);
        let read = uffd.read_events(usize::MAX, |event| {
            let Event::Fault {
                address, thread, ..
            } = event
            else {
                return;
            };
            if way == Way::Kept {
                keeper.keep_until_woken(thread.cast_signed(), 0);
            }
            uffd.copy(address, &page, Wake::Now);
            neap_sys::end_keep();
            served += 1;
        });
        if read.is_err() {
            break;
        }
    }
}

/// The pages that lie wholly within `bytes`, as addresses.
fn whole_pages(bytes: &[u8]) -> Range<u64> {
    let pages = bytes.as_ptr_range();
    let first = (pages.start as u64).next_multiple_of(PAGE as u64);
    first..first + (PAGES * PAGE) as u64
}

/// The time that reading every page takes. `None`: this user may not have a userfaultfd.
fn measure(way: Way, keeper: &Keeper) -> Option<Duration> {
    let uffd = Uffd::create(None).ok()?;
    uffd.handshake(Features::THREAD_ID).ok()?;
    let bytes = vec![0u8; (PAGES + 1) * PAGE];
    let range = whole_pages(&bytes);
    uffd.register(range.clone(), Mode::Missing).ok()?;
    let first = (range.start - bytes.as_ptr() as u64) as usize;
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            if way == Way::Pinned {
                let _ = neap_sys::pin_to(0, 0);
            }
            thread::sleep(Duration::from_millis(5)); // until it is served
            let start = Instant::now();
            for page in (0..PAGES).map(|turn| turn * STRIDE % PAGES) {
                black_box(bytes[first + page * PAGE]);
            }
            start.elapsed()
        });
        scope.spawn(|| serve(&uffd, way, keeper, PAGES));
        reader.join().ok()
    })
}

fn floor(c: &mut Criterion) {
    let keeper = Keeper::new();
    let mut group = c.benchmark_group("floor");
    group.sample_size(10);
    for (name, way) in [
        ("behind", Way::Behind),
        ("kept", Way::Kept),
        ("pinned", Way::Pinned),
        ("free", Way::Free),
    ] {
        if measure(way, &keeper).is_none() {
            eprintln!("floor: this user may not have a userfaultfd; see `neap doctor`");
            return;
        }
        group.bench_function(name, |b| {
            b.iter_custom(|times| {
                let spent: Duration = (0..times.div_ceil(PAGES as u64))
                    .filter_map(|_| measure(way, &keeper))
                    .sum();
                spent.mul_f64(times as f64 / (times.div_ceil(PAGES as u64) * PAGES as u64) as f64)
            });
        });
    }
}

criterion_group!(benches, floor);
criterion_main!(benches);
