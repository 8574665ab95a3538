//! What a fault costs that somebody else serves, before anything is found or decompressed: a thread reads
//! pages of this process, another copies a constant page for each. No design with userfaultfd is faster.
//!
//! In `behind` the server has the least claim on the reader's cpu (SCHED_IDLE), as in bursts of faults under neap;
//! `kept` keeps the reader on the server's cpu for the time of its wake-up, as neap does otherwise; in `pinned` both
//! may run nowhere else, which cannot be done to a program; in `free` the scheduler chooses. Threads of one
//! process: a server in another takes as long (docs/design/limits.md).
//!
//! `fill` is a page that comes without a fault of its own, in windows of 32 as a walk has them, and `leave` one that
//! moves to a stage and is thrown away there, in runs of 16 and alone: the kernel's part of readahead and of eviction,
//! where no other cpu has the address space.
#![forbid(unsafe_code)]

use std::hint::black_box;
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, criterion_group, criterion_main};
use neap_sys::{Arena, Event, Features, Keeper, Mode, Pidfd, Process, Uffd, Wake};

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

fn this_process() -> Process {
    let pid = std::process::id().cast_signed();
    let pidfd = Pidfd::open(pid).expect("a pidfd");
    Process::open(pid, &pidfd).expect("its directory in /proc")
}

/// Whoever is woken goes on at once, where it is, and its next fault is there when this thread has the cpu again.
fn serve_behind(uffd: &Uffd, faults: usize) {
    neap_sys::give_way();
    let _ = neap_sys::pin_to(0, 0);
    let own = this_process();
    let page = [1; PAGE];
    let (mut served, mut woken, mut slept) = (0, 0, false);
    while served < faults {
        let mut asked = None;
        let read = uffd.read_events(|event| {
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
                    let cpu = own.cpu_of(thread);
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
        let read = uffd.read_events(|event| {
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

/// The time that reading every page takes. `None`: this user may not have a userfaultfd.
fn measure(way: Way, keeper: &Keeper) -> Option<Duration> {
    let (memory, _, uffd) = registered(Features::THREAD_ID)?;
    let bytes = memory.bytes();
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            if way == Way::Pinned {
                let _ = neap_sys::pin_to(0, 0);
            }
            thread::sleep(Duration::from_millis(5)); // until it is served
            let start = Instant::now();
            for page in (0..PAGES).map(|turn| turn * STRIDE % PAGES) {
                black_box(bytes[page * PAGE]);
            }
            start.elapsed()
        });
        scope.spawn(|| serve(&uffd, way, keeper, PAGES));
        reader.join().ok()
    })
}

/// Pages thrown away at once: a block of the stage.
const BLOCK: usize = 64;

/// New memory, its address, and a userfaultfd that serves it.
fn registered(features: Features) -> Option<(Arena, u64, Uffd)> {
    let memory = Arena::new(PAGES * PAGE).ok()?;
    let base = memory.bytes().as_ptr() as u64;
    let uffd = Uffd::create(None).ok()?;
    uffd.handshake(features).ok()?;
    let range = base..base + memory.len() as u64;
    uffd.register(range, Mode::Missing).ok()?;
    Some((memory, base, uffd))
}

/// The time that filling every page takes, `window` at once.
fn fill(window: usize) -> Option<Duration> {
    let (_memory, base, uffd) = registered(Features::MOVE)?;
    let source = vec![1; window * PAGE];
    let start = Instant::now();
    for at in (0..PAGES).step_by(window) {
        let filled = uffd.copy(base + (at * PAGE) as u64, &source, Wake::Later);
        filled.stop.is_none().then_some(())?;
    }
    Some(start.elapsed())
}

/// The time that moving every page to a stage takes, `run` at once, and throwing it away there.
fn leave(run: usize) -> Option<Duration> {
    let (mut stage, target, uffd) = registered(Features::MOVE)?;
    let mut memory = Arena::new(PAGES * PAGE).ok()?;
    memory.bytes_mut().fill(1);
    let from = memory.bytes().as_ptr() as u64;
    let (size, runs) = (run * PAGE, PAGES / run);
    let start = Instant::now();
    for turn in 0..runs {
        let source = from + (turn * STRIDE % runs * size) as u64;
        let done = turn * size;
        let moved = uffd.move_pages(target + done as u64, source..source + size as u64, false);
        moved.stop.is_none().then_some(())?;
        let done = done + size;
        if done.is_multiple_of(BLOCK * PAGE) {
            stage.discard(done - BLOCK * PAGE..done);
        }
    }
    Some(start.elapsed())
}

/// Measures what takes so long for [`PAGES`] pages. False: this user may not.
fn each_page(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    all: impl Fn() -> Option<Duration>,
) -> bool {
    if all().is_none() {
        eprintln!(
            "floor: this user may not have a userfaultfd that moves pages; see `neap doctor`"
        );
        return false;
    }
    group.bench_function(name, |b| {
        b.iter_custom(|times| {
            let turns = times.div_ceil(PAGES as u64);
            let spent: Duration = (0..turns).filter_map(|_| all()).sum();
            spent.mul_f64(times as f64 / (turns * PAGES as u64) as f64)
        });
    });
    true
}

fn floor(c: &mut Criterion) {
    let keeper = Keeper::new();
    let mut group = c.benchmark_group("floor");
    group.sample_size(10);
    let able = [
        ("behind", Way::Behind),
        ("kept", Way::Kept),
        ("pinned", Way::Pinned),
        ("free", Way::Free),
    ]
    .into_iter()
    .all(|(name, way)| each_page(&mut group, name, || measure(way, &keeper)));
    if able {
        each_page(&mut group, "fill/32", || fill(32));
        for run in [1, 16] {
            each_page(&mut group, &format!("leave/{run}"), || leave(run));
        }
    }
}

criterion_group!(benches, floor);
criterion_main!(benches);
