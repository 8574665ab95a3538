//! The engine's threads, of which one runs at a time: each stops at some calls of the kernel and at some locks, and at
//! each lock that another has, until it is told to go on. So the order in which they get on comes from the seed alone.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use neap_imagined::Chance;

/// Rounds in which everybody must be done where nobody waits for ever.
const ROUNDS: usize = 5000;
/// A thread that does not answer for so long waits for something that no other thread gives.
const LONGEST: Duration = Duration::from_secs(30);

type Work = Box<dyn FnOnce() + Send>;

enum Said {
    Stopped,
    Done(Result<(), String>),
}

/// Something that one thread at a time has.
pub(super) struct Slot<T>(Arc<Mutex<Option<T>>>);

impl<T> Slot<T> {
    pub fn new(thing: Option<T>) -> Self {
        Self(Arc::new(Mutex::new(thing)))
    }

    pub fn take(&self) -> Option<T> {
        self.0.lock().expect("a slot").take()
    }

    pub fn put(&self, thing: T) {
        *self.0.lock().expect("a slot") = Some(thing);
    }

    pub fn is_empty(&self) -> bool {
        self.0.lock().expect("a slot").is_none()
    }

    pub fn share(&self) -> Self {
        Self(self.0.clone())
    }
}

/// What a run and its threads share.
#[derive(Clone)]
pub(super) struct Luck {
    pub chance: Arc<Mutex<Chance>>,
    /// How often a thread stops where it may, of 1,000 times.
    pub stops: Arc<AtomicU32>,
}

impl Luck {
    fn stops(&self) -> bool {
        let stops = self.stops.load(Relaxed);
        self.chance.lock().expect("chance").happens(stops)
    }
}

/// The other end of a [`Hand`], in its thread.
struct Station {
    go: Receiver<Option<Work>>,
    said: Sender<Said>,
    luck: Luck,
}

impl Station {
    /// Lets others run until this thread is told to go on.
    fn stop(&self) {
        if std::thread::panicking() {
            return std::thread::yield_now(); // it lets go of what it holds
        }
        let told = self.said.send(Said::Stopped).is_ok();
        if !told || self.go.recv().is_err() {
            panic!("nobody waits for this thread any more");
        }
    }
}

thread_local! {
    static STATION: RefCell<Option<Station>> = const { RefCell::new(None) };
}

/// Whether this is one of the engine's threads. There may be a stop here.
pub(super) fn at_call() -> bool {
    STATION.with_borrow(|station| {
        let Some(station) = station else { return false };
        if station.luck.stops() {
            station.stop();
        }
        true
    })
}

fn at_lock(is_held: bool) {
    STATION.with_borrow(|station| {
        if let Some(station) = station
            && (is_held || station.luck.stops())
        {
            station.stop();
        }
    });
}

/// One of the engine's threads.
struct Hand {
    go: Option<Sender<Option<Work>>>,
    said: Receiver<Said>,
    is_busy: Cell<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Hand {
    fn new(luck: &Luck) -> Self {
        let (go, orders) = channel::<Option<Work>>();
        let (words, said) = channel();
        let station = Station {
            go: orders,
            said: words,
            luck: luck.clone(),
        };
        let run = move || {
            neap_sys::turns::set_hook(Some(at_lock));
            STATION.set(Some(station));
            let next = || STATION.with_borrow(|s| s.as_ref().map(|s| s.go.recv()));
            while let Some(Ok(Some(work))) = next() {
                let done = catch_unwind(AssertUnwindSafe(work));
                let done = done.map_err(|panic| super::run::words_of(&*panic));
                STATION.with_borrow(|s| s.as_ref().map(|s| s.said.send(Said::Done(done))));
            }
        };
        Self {
            go: Some(go),
            said,
            is_busy: Cell::new(false),
            thread: Some(std::thread::spawn(run)),
        }
    }

    /// Has it run until it stops or is done.
    fn run(&self, work: Option<Work>) -> Result<(), String> {
        let go = self.go.as_ref().expect("a thread");
        go.send(work).map_err(|_| "a thread is gone".to_owned())?;
        self.is_busy.set(true);
        match self.said.recv_timeout(LONGEST) {
            Ok(Said::Stopped) => Ok(()),
            Ok(Said::Done(done)) => {
                self.is_busy.set(false);
                done
            }
            Err(_) => Err("a thread of the engine waits for nothing that is known".into()),
        }
    }
}

impl Drop for Hand {
    fn drop(&mut self) {
        self.go = None;
        if !self.is_busy.get() {
            let _ = self.thread.take().map(JoinHandle::join);
        }
    }
}

/// All threads of the engine. Without any, the one that drives the run does everything itself.
pub(super) struct Hands {
    hands: Vec<Hand>,
    luck: Luck,
}

impl Hands {
    pub fn new(count: usize, luck: &Luck) -> Self {
        Self {
            hands: (0..count).map(|_| Hand::new(luck)).collect(),
            luck: luck.clone(),
        }
    }

    pub fn are_there(&self) -> bool {
        !self.hands.is_empty()
    }

    fn some(&self, busy: bool) -> Option<&Hand> {
        let found: Vec<_> = self
            .hands
            .iter()
            .filter(|hand| hand.is_busy.get() == busy)
            .collect();
        let count = found.len() as u64;
        let which = || self.luck.chance.lock().expect("chance").below(count);
        (count > 0).then(|| found[which() as usize])
    }

    pub fn has_idle(&self) -> bool {
        self.some(false).is_some()
    }

    /// Has a thread begin this work.
    pub fn begin(&self, work: Work) -> Result<(), String> {
        self.some(false).expect("an idle thread").run(Some(work))
    }

    /// Lets a thread go on. `None`: none is at work.
    pub fn go_on(&self) -> Option<Result<(), String>> {
        Some(self.some(true)?.run(None))
    }

    /// Lets all go on until they are done.
    pub fn finish(&self) -> Result<(), String> {
        for _ in 0..ROUNDS {
            match self.go_on() {
                Some(done) => done?,
                None => return Ok(()),
            }
        }
        Err("threads of the engine wait for each other".into())
    }
}
