//! What the kernel tells of one space: changes are kept until nothing is still to come, faults wait here to be
//! served.

use std::collections::VecDeque;
use std::sync::Arc;

use neap_sys::{Alone, Event};
use neap_tuning::TUNING;
use neap_units::PageNr;

use super::Fault;
use super::rank::Rank;
use crate::job::Job;
use crate::space::{Born, Space};

pub(super) struct Inbox {
    job: Arc<Job>,
    space: Arc<Space>,
    pub waiting: VecDeque<Fault>,
    /// Events since this was last looked at.
    pub heard: u32,
    /// Reads in a row that found nothing.
    pub fruitless: u32,
    /// Reads in a row that told of no change.
    pub quiet: u32,
    /// Since when changes wait for others, in nanoseconds.
    unsure_since: Option<u64>,
}

impl Inbox {
    pub fn new(job: &Arc<Job>, space: &Arc<Space>) -> Self {
        Self {
            job: job.clone(),
            space: space.clone(),
            waiting: VecDeque::new(),
            heard: 0,
            fruitless: 0,
            quiet: 0,
            unsure_since: None,
        }
    }

    /// Takes what there is. Faults wait in the queue until the gate is free again.
    pub fn read(&mut self, rank: &mut Rank) {
        let space = self.space.clone();
        let gate = space.gate.write();
        if !self.read_all(rank, gate) {
            let pause = match space.window.is_quiet() {
                true => TUNING.talk.fork_look,
                false => TUNING.faults.unread_pause,
            };
            self.job.clock.sleep(pause.0);
        }
    }

    /// The same on a cpu that is nobody else's: the gate is looked at until it opens, since a sleep costs more than
    /// most waits, and left alone if that takes long.
    pub fn read_soon(&mut self, rank: &mut Rank) {
        let space = self.space.clone();
        let until = self.job.clock.now() + TUNING.faults.spin.0;
        while self.job.clock.now() < until {
            if let Some(gate) = space.gate.try_write() {
                self.read_all(rank, gate);
                return;
            }
            (0..TUNING.faults.spin_pauses).for_each(|_| std::hint::spin_loop());
        }
    }

    fn read_all(&mut self, rank: &mut Rank, gate: Alone<'_, (), 2>) -> bool {
        let mut born = Vec::new();
        let read = self.read_under_gate(&mut born);
        drop(gate);
        if !born.is_empty() {
            // Or the threads that serve them would begin behind, where nobody looks after them.
            rank.go_ahead();
        }
        for child in born {
            child.attend(&self.job);
        }
        read
    }

    /// Whether others change the address space so often that something has waited for long: a change for what is still
    /// to come, or a fault for its fill.
    pub fn is_starved(&self) -> bool {
        if self.waiting.is_empty() && self.unsure_since.is_none() {
            return false;
        }
        let tried = self.waiting.iter().filter(|fault| fault.held_at.is_none());
        let since = tried.filter_map(|fault| fault.tried_at);
        let since = since.chain(self.unsure_since).min();
        let long = |at| self.job.clock.now() - at > TUNING.faults.long_unsure.0;
        self.quiet < TUNING.faults.naps_quiet && since.is_some_and(long)
    }

    /// Nothing more is read: the space has ended.
    pub fn end(&self) {
        let born = {
            let _gate = self.space.gate.write();
            self.space.settle_now(&self.job)
        };
        for child in born {
            child.attend(&self.job);
        }
    }

    /// False if there was nothing to be had now. The caller has the gate.
    fn read_under_gate(&mut self, born: &mut Vec<Born>) -> bool {
        if self.space.window.is_quiet() {
            return false; // it forks
        }
        if !self.space.quiesce(&self.job) {
            return false; // the program is stopped, or starved: so are the threads that wait
        }
        // Before more is read: what has come since the last look may have been the end of it.
        born.extend(self.space.settle(&self.job));
        let read = self.read_events();
        self.look_for_a_gap(born);
        read
    }

    /// A thread that tells of one change after the other wakes us with each: when we come to look whether something is
    /// still to come, the next is under way. Where that goes on for long, this looks without a pause: between two calls
    /// it is in none.
    fn look_for_a_gap(&mut self, born: &mut Vec<Born>) {
        if !self.space.expects() {
            self.unsure_since = None;
            return;
        }
        let now = self.job.clock.now();
        let long = now - *self.unsure_since.get_or_insert(now) >= TUNING.faults.long_unsure.0;
        // What came grows at once, and waits for nothing until it is registered.
        if !long && !self.space.has_replaced() {
            return;
        }
        while self.space.expects() && self.job.clock.now() < now + TUNING.faults.look.0 {
            born.extend(self.space.settle(&self.job));
        }
    }

    fn read_events(&mut self) -> bool {
        let (space, job) = (&self.space, &self.job);
        let (waiting, heard, quiet) = (&mut self.waiting, &mut self.heard, &mut self.quiet);
        *quiet = quiet.saturating_add(1);
        let mut hear = |event| match event {
            Event::Fault { .. } => note(waiting, &event),
            other => {
                *heard += 1;
                *quiet = 0;
                space.hear(job, other);
            }
        };
        let events = || space.uffd.read_events(&mut hear);
        let read = job.spares.for_child(events);
        self.fruitless = match read {
            Ok(0) => self.fruitless.saturating_add(1),
            _ => 0,
        };
        if read.is_err() && self.space.look_for_life() {
            if self.job.spares.give_child() {
                return false;
            }
            // No descriptor or no memory for a forked child's: it waits, and we try again.
            self.job.warn("a process forks, and neap has no descriptor left for its child: it waits; raise `ulimit -n`".into());
            return false;
        }
        true
    }
}

/// Puts a fault into the queue, unless it is there: a signal makes a thread ask again for what it waits for.
fn note(waiting: &mut VecDeque<Fault>, event: &Event) {
    let &Event::Fault {
        address,
        write,
        protected,
        thread,
    } = event
    else {
        return;
    };
    let page = PageNr::containing(address);
    let known = |fault: &Fault| (fault.page, fault.protected) == (page, protected);
    if !waiting.iter().any(known) {
        waiting.push_back(Fault {
            page,
            write,
            protected,
            thread,
            tried_at: None,
            stuck_since: None,
            held_at: None,
        });
    }
}
