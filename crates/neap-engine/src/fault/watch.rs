//! The watch over fault threads that run behind the program's: one that is ready to run and gets no cpu is put ahead
//! again. It takes no lock that such a thread may hold.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use neap_sys::Lock;
use neap_tuning::TUNING;

use crate::bell::Bell;

/// What a fault thread is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    /// Nobody waits for it but with a new fault.
    Rest = 0,
    /// It holds something, or somebody waits for it.
    Work = 1,
    /// It wakes somebody, who may take its cpu before it is done or after. It holds nothing.
    Wake = 2,
}

const KINDS: u32 = 4;

/// What the watch asks of a space.
pub(super) trait Client: Send + Sync {
    /// Whether a fault, an event or a call is unread.
    fn asks(&self) -> bool;
    /// Wakes who waits in these addresses.
    fn wake(&self, range: Range<u64>);
}

/// A fault thread that runs behind.
pub(super) struct Post {
    tid: i32,
    client: Box<dyn Client>,
    /// What it does, and [`KINDS`] more with each thing that it begins.
    doing: AtomicU32,
    /// Whom it wakes.
    wakes: [AtomicU64; 2],
    /// `doing` at the last look, and at how many in a row it was late. Of the watch alone.
    seen: AtomicU32,
    late: AtomicU32,
    raised: AtomicBool,
}

impl Post {
    /// The calling thread's, which is at work.
    pub fn new(client: Box<dyn Client>) -> Self {
        Self {
            tid: neap_sys::own_tid(),
            client,
            doing: AtomicU32::new(Doing::Work as u32),
            wakes: [const { AtomicU64::new(0) }; 2],
            seen: AtomicU32::new(0),
            late: AtomicU32::new(0),
            raised: AtomicBool::new(false),
        }
    }

    /// What the thread does from here on.
    pub fn set(&self, doing: Doing) {
        let turn = self.doing.load(Relaxed) / KINDS;
        let next = turn.wrapping_add(1).wrapping_mul(KINDS);
        self.doing.store(next + doing as u32, Release);
    }

    /// It is about to wake who waits in `range`, as its last act.
    pub fn set_waking(&self, range: Range<u64>) {
        self.wakes[0].store(range.start, Release);
        self.wakes[1].store(range.end, Release);
        self.set(Doing::Wake);
    }

    /// Whether it was put ahead, since it was late.
    pub fn was_raised(&self) -> bool {
        self.raised.load(Relaxed)
    }

    /// Puts it ahead. It lives until it has left; if it goes behind only now, it is late again.
    fn raise(&self) {
        let raised = neap_sys::raise_thread(self.tid);
        self.raised.store(raised, Relaxed);
    }

    /// It has done nothing for two looks or more, though somebody waits for it.
    fn is_late(&self) -> bool {
        let doing = self.doing.load(Acquire);
        let stands = self.seen.swap(doing, Relaxed) == doing;
        let late = if stands && neap_sys::is_runnable(self.tid) {
            self.late.load(Relaxed) + 1
        } else {
            0
        };
        self.late.store(late, Relaxed);
        if late < TUNING.faults.late {
            return false;
        }
        if doing % KINDS == Doing::Wake as u32 && late == TUNING.faults.late {
            // Who is woken may have its cpu, or others took that before it came to wake anybody.
            let [start, end] = self.wakes.each_ref().map(|at| at.load(Acquire));
            if self.doing.load(Relaxed) == doing {
                self.client.wake(start..end);
            }
        }
        doing % KINDS == Doing::Work as u32 || self.client.asks()
    }
}

#[derive(Default)]
pub(crate) struct Watch {
    behind: Lock<Behind, 7>,
    bell: Bell,
}

#[derive(Default)]
struct Behind {
    /// Threads may go behind: they can be put ahead again.
    able: bool,
    posts: Vec<Arc<Post>>,
}

impl Watch {
    /// To be called before the thread goes behind. Whether it may.
    pub(super) fn enter(&self, post: &Arc<Post>) -> bool {
        let mut behind = self.behind.lock();
        // Without memory from the heap, whose locks one who is behind may hold.
        let may = behind.able && behind.posts.len() < behind.posts.capacity();
        if may {
            behind.posts.push(post.clone());
            if behind.posts.len() == 1 {
                self.bell.ring();
            }
        }
        may
    }

    /// To be called once the thread is ahead again.
    pub(super) fn leave(&self, post: &Arc<Post>) {
        let mut behind = self.behind.lock();
        behind.posts.retain(|other| !Arc::ptr_eq(other, post));
    }

    /// The thread that looks, until `stops` says so after [`Watch::ring`].
    pub fn run(&self, stops: impl Fn() -> bool) {
        neap_sys::block_signals();
        // With one cpu all of neap's own threads would be before the one that serves the program.
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        // Not everybody who may do the one may undo it.
        if cpus < 2 || !neap_sys::give_way() || !neap_sys::raise_thread(neap_sys::own_tid()) {
            return;
        }
        *self.behind.lock() = Behind {
            able: true,
            posts: Vec::with_capacity(TUNING.faults.behind),
        };
        while !stops() {
            if self.look() {
                std::thread::sleep(TUNING.faults.watch.duration());
            } else {
                self.bell.wait_for_ring();
            }
        }
        let mut behind = self.behind.lock();
        behind.able = false;
        behind.posts.iter().for_each(|post| post.raise()); // nobody looks from here on
    }

    /// Wakes the thread that looks.
    pub fn ring(&self) {
        self.bell.ring();
    }

    /// Puts ahead who is late. Whether anybody is behind.
    fn look(&self) -> bool {
        let behind = self.behind.lock();
        let late = behind.posts.iter().filter(|post| post.is_late());
        late.for_each(|post| post.raise());
        !behind.posts.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use std::io::Write;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[derive(Default)]
    struct Asks {
        asks: bool,
        woken: Arc<Mutex<Vec<Range<u64>>>>,
    }

    impl Client for Asks {
        fn asks(&self) -> bool {
            self.asks
        }

        fn wake(&self, range: Range<u64>) {
            self.woken.lock().unwrap().push(range);
        }
    }

    fn post(asks: bool) -> Post {
        Post::new(Box::new(Asks {
            asks,
            ..Asks::default()
        }))
    }

    /// How often this thread, which runs, is late at three looks.
    fn late(post: &Post) -> usize {
        (0..3).filter(|_| post.is_late()).count()
    }

    #[test]
    fn who_stands_at_work_is_late_at_the_third_look() {
        let post = post(false);
        assert_eq!(late(&post), 1);
        post.set(Doing::Work);
        assert_eq!(late(&post), 1);
    }

    #[test]
    fn who_rests_is_late_only_if_asked() {
        for asks in [false, true] {
            let post = post(asks);
            post.set(Doing::Rest);
            assert_eq!(late(&post), usize::from(asks));
        }
    }

    #[test]
    fn who_wakes_somebody_is_helped() {
        let asks = Asks::default();
        let woken = asks.woken.clone();
        let post = Post::new(Box::new(asks));
        post.set_waking(4096..8192);
        assert_eq!(late(&post), 0);
        let woken = woken.lock().unwrap();
        assert_eq!((woken.len(), &woken[0]), (1, &(4096..8192)));
    }

    #[test]
    fn who_goes_on_is_not_late() {
        let post = post(true);
        use Doing::{Rest, Wake, Work};
        for doing in [Work, Work, Rest, Work, Wake, Wake, Rest, Rest] {
            post.set(doing);
            assert!(!post.is_late());
        }
    }

    /// A thread that somebody else keeps from its cpu is put ahead of them.
    #[test]
    fn who_gets_no_cpu_is_put_ahead() {
        let watch = Arc::new(Watch::default());
        let stop = Arc::new(AtomicBool::new(false));
        let (looks, stops) = (watch.clone(), stop.clone());
        let looker = std::thread::spawn(move || looks.run(|| stops.load(Relaxed)));
        let until = neap_sys::monotonic_nanos() + SECOND;
        while !watch.behind.lock().able && neap_sys::monotonic_nanos() < until {
            std::thread::yield_now();
        }
        if !watch.behind.lock().able {
            let why = "SKIP who_gets_no_cpu_is_put_ahead: it takes two cpus and CAP_SYS_NICE\n";
            let _ = std::io::stderr().lock().write_all(why.as_bytes()); // `eprint!` is captured
            return;
        }
        let cpu = neap_sys::this_cpu();
        let stops = stop.clone();
        let other = std::thread::spawn(move || {
            neap_sys::pin_to(0, cpu).unwrap();
            while !stops.load(Relaxed) {
                std::hint::spin_loop();
            }
        });
        let posts = watch.clone();
        let behind = std::thread::spawn(move || {
            neap_sys::pin_to(0, cpu).unwrap();
            let post = Arc::new(post(false));
            assert!(posts.enter(&post));
            assert!(neap_sys::give_way());
            let until = neap_sys::monotonic_nanos() + 60 * SECOND;
            while !post.was_raised() && neap_sys::monotonic_nanos() < until {
                std::hint::spin_loop();
            }
            neap_sys::raise_to_realtime();
            posts.leave(&post);
            assert!(post.was_raised());
        });
        behind.join().unwrap();
        stop.store(true, Relaxed);
        watch.ring();
        other.join().unwrap();
        looker.join().unwrap();
    }
}
