//! Anonymous memory of a process and all it starts, by the kernel's own accounting, each millisecond.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

/// The largest sum seen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Peak {
    /// RssAnon of all processes of the tree, in bytes; pages shared after a fork count once for each.
    pub anon_bytes: u64,
    /// How many sums were taken.
    pub samples: u64,
}

/// A thread that watches a tree.
pub struct Sampler {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Peak>,
}

impl Sampler {
    /// Watches process `root` and its descendants.
    #[must_use]
    pub fn start(root: u32) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        Sampler {
            stop,
            thread: spawn(move || watch(root, &seen)),
        }
    }

    /// Ends the watch.
    ///
    /// # Panics
    /// If the watching thread did.
    #[must_use]
    pub fn stop(self) -> Peak {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the sampler does not panic")
    }
}

fn watch(root: u32, stop: &AtomicBool) -> Peak {
    let mut peak = Peak::default();
    let mut tree = BTreeSet::from([root]);
    let mut next_scan = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        if Instant::now() >= next_scan {
            tree = without_agents(descendants(root));
            // New processes are rare; looking for them costs more than a sum.
            next_scan = Instant::now() + Duration::from_millis(if tree.len() < 2 { 1 } else { 20 });
        }
        let sum: u64 = tree.iter().map(|pid| rss_anon(*pid)).sum();
        peak.anon_bytes = peak.anon_bytes.max(sum);
        peak.samples += 1;
        sleep(Duration::from_millis(1));
    }
    peak
}

fn descendants(root: u32) -> BTreeSet<u32> {
    let mut all = BTreeSet::from([root]);
    let mut todo = vec![root];
    while let Some(pid) = todo.pop() {
        let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
            continue;
        };
        for task in tasks.filter_map(Result::ok) {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            for child in children.split_whitespace().filter_map(|c| c.parse().ok()) {
                if all.insert(child) {
                    todo.push(child);
                }
            }
        }
    }
    all
}

/// Leaves out the agents, whose memory is that of a process of the tree: it would count twice. One that has just begun has no
/// name yet.
fn without_agents(tree: BTreeSet<u32>) -> BTreeSet<u32> {
    let comm = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/comm"));
    let is_agent = |pid: &u32| comm(pid).is_ok_and(|name| name == "mm-agent\n");
    let (agents, others): (Vec<u32>, Vec<u32>) = tree.into_iter().partition(is_agent);
    let mut kept = BTreeSet::new();
    for pid in others.into_iter().chain(agents) {
        let share = |other: &u32| neap_sys::share_memory(pid.cast_signed(), other.cast_signed());
        let unknown = is_agent(&pid);
        if !kept.iter().any(|other| share(other).unwrap_or(unknown)) {
            kept.insert(pid);
        }
    }
    kept
}

fn rss_anon(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("RssAnon:"));
    let kib = line.and_then(|l| l.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}
