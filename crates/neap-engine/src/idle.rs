//! `neap run --idle`: memory of processes that do nothing leaves before any limit is met.
//!
//! A process whose processor time stands still touches nothing: that is a cheaper sign of cold memory than any look at its
//! pages. What is taken at once grows as long as hardly anything comes back and hardly anybody waits. Else it becomes less,
//! with a pause that grows, as senpai does with the kernel's pressure. Without `--idle` there is no thread and no look.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use neap_sys::Lock;
use neap_tuning::TUNING;
use neap_units::Nanos;

use crate::bell::Bell;
use crate::group::Group;
use crate::job::Job;
use crate::quiet::look_each;
use crate::space::Space;
use crate::spawn::try_spawn;

#[derive(Default)]
pub(crate) struct Idle {
    /// Somebody looks.
    watched: AtomicBool,
    bell: Bell,
    /// The spaces of idle processes, by number.
    spaces: Lock<HashSet<u64>, 7>,
    /// A step begins: what was staged by the one before it and not touched since is compressed, and more is taken.
    begins: AtomicBool,
}

impl Idle {
    /// Has somebody look now.
    pub fn ring(&self) {
        self.bell.ring();
    }

    /// Whether a step begins.
    pub fn begins(&self) -> bool {
        self.begins.swap(false, Relaxed)
    }

    /// Whether the process of this space does nothing.
    pub fn holds(&self, space: u64) -> bool {
        self.spaces.lock().contains(&space)
    }
}

impl Job {
    /// Takes memory from processes of a group, and of those below it, that have done nothing for so long; 0: from none.
    pub fn set_idle(self: &Arc<Self>, group: &Group, period: Nanos) {
        let before = self.shortest_idle();
        for group in self.groups.within(group) {
            group.idle.store(period.0, Relaxed);
        }
        self.watch_idle(before);
    }

    /// Has somebody look for idle processes, if there is a group that wants it; at once only if the shortest time was another
    /// before: each look takes a step, and whoever comes often would have memory leave sooner.
    pub fn watch_idle(self: &Arc<Self>, before: Option<Nanos>) {
        if self.shortest_idle() != before {
            self.idle.ring();
        }
        if self.shortest_idle().is_none() || self.idle.watched.swap(true, Relaxed) {
            return;
        }
        let job = self.clone();
        let started = try_spawn("neap-idle", move || {
            neap_sys::block_signals();
            neap_sys::lower_to_ordinary();
            run(&job);
        });
        if let Err(error) = started {
            self.idle.watched.store(false, Relaxed);
            self.warn(crate::spawn::no_thread(&error));
        }
    }

    /// The shortest time for which processes of some group must do nothing.
    pub fn shortest_idle(&self) -> Option<Nanos> {
        let all = self.groups.within(self.groups.top());
        let periods = all.iter().map(|group| group.idle());
        periods.filter(|period| period.0 > 0).min()
    }
}

/// Looks until the engine stops.
fn run(job: &Arc<Job>) {
    let mut paces = HashMap::new();
    while !job.is_stopping() {
        let period = job.shortest_idle();
        let wait = period.map_or(TUNING.idle.look_at_most, look_each);
        job.idle.bell.wait(wait.duration());
        if job.shortest_idle().is_none() {
            job.idle.spaces.lock().clear();
            continue;
        }
        let spaces = job.spaces();
        job.look_for_quiet(&spaces);
        let now = neap_sys::monotonic_nanos();
        let is_idle = |space: &&Arc<Space>| {
            let (group, period) = (&space.group, space.group.idle());
            let lives = space.body.get().is_some_and(|body| !body.is_left());
            // A frozen job gives all. Protected memory does not leave for the sake of others.
            lives
                && period.0 > 0
                && space.quiet.lasts(now) >= period
                && !group.freeze.is_frozen()
                && !job.groups.is_kept_from_all(group)
        };
        let (idle, others): (Vec<_>, Vec<_>) = spaces.iter().partition(is_idle);
        for space in others {
            space.idle.store(0, Relaxed);
        }
        let numbers: HashSet<u64> = idle.iter().map(|space| space.cookie).collect();
        paces.retain(|number, _| numbers.contains(number));
        *job.idle.spaces.lock() = numbers;
        if !idle.is_empty() {
            if !job.flags.foreseen.load(Relaxed) {
                job.foresee_reclaim();
            }
            for space in idle {
                let pace = paces.entry(space.cookie).or_insert_with(Pace::default);
                // One whose group has longer to do nothing is not looked at each time, and may be at work by now.
                let looked = space.quiet.looked();
                if std::mem::replace(&mut pace.looked, looked) != looked {
                    step(job, space, pace, now);
                }
            }
            job.idle.begins.store(true, Relaxed);
            job.reclaim.ring();
        }
    }
}

/// Has reclaim take some of what a space has.
fn step(job: &Job, space: &Space, pace: &mut Pace, now: u64) {
    let resident = {
        let core = job.core();
        match space.is_dead() {
            true => return,
            false => core.resident(space.id).0,
        }
    };
    let signs = Signs {
        time: now,
        waited: space.stalled.load(Relaxed),
        came_back: space.came_back.load(Relaxed),
    };
    let left = space.idle.load(Relaxed);
    let pages = pace.step(resident, signs, left);
    space.idle.store(pages, Relaxed);
}

/// What tells whether something was taken that should have stayed.
#[derive(Clone, Copy, Default)]
struct Signs {
    /// When, in nanoseconds.
    time: u64,
    /// Time for which threads of the process waited for memory, in nanoseconds.
    waited: u64,
    /// Its pages that were touched after they had left.
    came_back: u64,
}

/// How much is taken at once of what a process has, and how often.
struct Pace {
    /// When its process had been looked at for the last step.
    looked: Option<Nanos>,
    /// One part in so many.
    part: u64,
    /// Looks that pass before the next try, and before the one after another failure.
    wait: u32,
    pause: u32,
    /// Pages that the last look asked for; 0: none.
    asked: u64,
    /// Pages taken lately: half as many count at each look.
    lately: u64,
    before: Signs,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            looked: None,
            part: TUNING.idle.first,
            wait: 0,
            pause: 1,
            asked: 0,
            lately: 0,
            before: Signs::default(),
        }
    }
}

impl Pace {
    /// The pages to take now of `resident` ones; `left`: of those that were asked for last.
    fn step(&mut self, resident: u64, signs: Signs, left: u64) -> u64 {
        let before = std::mem::replace(&mut self.before, signs);
        let asked = std::mem::take(&mut self.asked);
        self.lately = self.lately / 2 + asked.saturating_sub(left);
        let passed = signs.time.saturating_sub(before.time);
        let waited = signs.waited.saturating_sub(before.waited);
        let came_back = signs.came_back.saturating_sub(before.came_back);
        let known = before.time > 0;
        let suffers = waited > TUNING.idle.pressure.of(passed)
            || came_back > TUNING.idle.refaults.of(self.lately);
        if known && suffers || left > 0 {
            self.part = (self.part * 2).min(TUNING.idle.smallest);
            self.pause = (self.pause * 2).min(TUNING.idle.pause);
            self.wait = self.pause;
            return 0;
        }
        if asked > 0 {
            self.part = (self.part / 2).max(TUNING.idle.largest);
            self.pause = (self.pause / 2).max(1);
        }
        if self.wait > 0 {
            self.wait -= 1;
            return 0;
        }
        let least = TUNING.idle.pages.0;
        self.asked = (resident / self.part).max(least).min(resident);
        self.asked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// A process of 16,384 pages, looked at once a second.
    #[derive(Default)]
    struct Looks {
        pace: Pace,
        signs: Signs,
    }

    impl Looks {
        /// The next, after so many pages came back and threads waited so long.
        fn next(&mut self, came_back: u64, waited: u64, left: u64) -> u64 {
            self.signs.time += SECOND;
            self.signs.came_back += came_back;
            self.signs.waited += waited;
            self.pace.step(16_384, self.signs, left)
        }
    }

    #[test]
    fn more_is_taken_at_once_as_long_as_nothing_comes_back() {
        let mut looks = Looks::default();
        let steps = [(); 4].map(|()| looks.next(0, 0, 0));
        assert_eq!(steps, [1024, 2048, 4096, 4096]);
        assert!(looks.next(200, SECOND / 2000, 0) > 0, "few came back");
        let mut pace = Pace::default();
        assert_eq!(pace.step(100, Signs::default(), 0), 64);
        assert_eq!(pace.step(7, Signs::default(), 0), 7, "all there is");
    }

    #[test]
    fn what_comes_back_and_who_waits_makes_it_less_and_ever_later() {
        for (came_back, waited, vain) in [(200, 0, 0), (0, SECOND / 500, 0), (0, 0, 10)] {
            let mut looks = Looks::default();
            let (mut steps, mut pauses) = (vec![looks.next(0, 0, 0)], Vec::new());
            for _ in 0..8 {
                assert_eq!(looks.next(came_back, waited, vain), 0);
                let mut pause = 1;
                let mut step = looks.next(0, 0, 0);
                while step == 0 {
                    pause += 1;
                    step = looks.next(0, 0, 0);
                }
                pauses.push(pause);
                steps.push(step);
            }
            assert_eq!(pauses, [3, 5, 9, 17, 33, 65, 65, 65]);
            assert_eq!(steps, [1024, 512, 256, 128, 64, 64, 64, 64, 64]);
        }
    }

    #[test]
    fn who_loaded_much_before_is_not_blamed_for_it() {
        let mut looks = Looks::default();
        assert!(looks.next(100_000, SECOND, 0) > 0);
    }
}
