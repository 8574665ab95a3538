//! A task in the kernel: one entry, slice by slice.

use neap_policy::{
    Cause, Counter, LruvecId, MemcgId, Mm, Nodes, Progress, Reclaim, Request, ShrinkCall,
    high_delay, swap_high_delay,
};
use neap_units::{Bytes, Nanos, Pages};

use super::fault::Missing;
use super::machine::Machine;
use super::swapin::Ahead;
use super::{Op, Reply};

/// Attempts before a charge, an allocation or `memory.reclaim` gives up (SPEC 0).
const MAX_RECLAIM_RETRIES: u32 = 16;
/// Smallest reclaim of a task over high that tries again.
const HIGH_AGAIN: u64 = 32;
/// Longest wait of a task above high.
const LONGEST_DELAY: Nanos = Nanos(2_000_000_000);

/// What a task's reclaim is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Purpose {
    /// Room below the max of a cgroup.
    Room(MemcgId),
    /// Free pages.
    Memory,
    /// A level that is above high.
    High(MemcgId),
    /// `memory.reclaim`.
    Asked,
}

/// A kernel entry under way.
pub(super) struct Entry {
    op: Op,
    /// Large, and few entries have one.
    reclaim: Option<(Purpose, Box<Reclaim>)>,
    /// A call of zswap's shrinker under way, which comes before more reclaim.
    shrinker: Option<ShrinkCall<LruvecId>>,
    /// What a fault has still to read ahead.
    ahead: Option<Ahead>,
    retries: u32,
    drained: bool,
    /// `memory.reclaim`: pages so far.
    reclaimed: u64,
    /// Over high: pages owed, what is done of them, and whether this is a repetition.
    owed: u64,
    high: Option<HighWork>,
    done: bool,
}

/// The work of a task above high.
struct HighWork {
    /// The level to look at next.
    level: Option<MemcgId>,
    memcg: MemcgId,
    reclaimed: u64,
    again: bool,
    retries: u32,
}

impl Entry {
    pub(super) fn new(op: Op) -> Entry {
        Entry {
            op,
            reclaim: None,
            shrinker: None,
            ahead: None,
            retries: MAX_RECLAIM_RETRIES,
            drained: false,
            reclaimed: 0,
            owed: 0,
            high: None,
            done: false,
        }
    }

    /// Runs for a slice.
    pub(super) fn run(&mut self, mm: &mut Mm, machine: &mut Machine) -> Reply {
        if let Op::Touch { space, .. } | Op::FileIo { space, .. } = self.op
            && machine.space(space).killed
        {
            // No call is left half done.
            if let Some(mut call) = self.shrinker.take() {
                while !machine.shrink(mm, &mut call) {}
            }
            return Reply::Killed { cpu: machine.spent };
        }
        if let Op::Touch { space, page, .. } = self.op {
            machine.in_fault = !self.done && machine.counts(mm, space, page);
        }
        loop {
            if let Some(call) = &mut self.shrinker {
                if machine.shrink(mm, call) {
                    self.shrinker = None;
                }
                if let Some(reply) = machine.pause() {
                    return reply;
                }
                continue;
            }
            if let Some((purpose, reclaim)) = &mut self.reclaim {
                let progress = reclaim.step(mm, machine);
                self.shrinker = machine.shrinker.take();
                if progress == Progress::More {
                    if let Some(reply) = machine.pause() {
                        return reply;
                    }
                    continue;
                }
                let (purpose, reclaimed) = (*purpose, reclaim.reclaimed());
                self.reclaim = None;
                // An entry may end here: no call is left half done.
                if let Some(mut call) = self.shrinker.take() {
                    while !machine.shrink(mm, &mut call) {}
                }
                if let Some(reply) = self.reclaim_ended(purpose, reclaimed, mm, machine) {
                    return reply;
                }
                continue;
            }
            let reply = if self.done {
                self.leave(mm, machine)
            } else {
                self.attempt(mm, machine)
            };
            if let Some(reply) = reply {
                return reply;
            }
        }
    }

    /// Tries the operation once; none: there is more to do before it can be tried again.
    fn attempt(&mut self, mm: &mut Mm, machine: &mut Machine) -> Option<Reply> {
        machine.owed = 0;
        let (result, memcg) = match self.op {
            Op::Touch { space, page, write } => {
                let memcg = machine.space(space).memcg;
                (
                    machine.fault(mm, space, page, write, &mut self.ahead),
                    memcg,
                )
            }
            Op::FileIo {
                space,
                file,
                page,
                write,
                ..
            } => {
                let memcg = machine.space(space).memcg;
                (machine.file_io(mm, space, file, page, write), memcg)
            }
            Op::Reclaim {
                memcg,
                bytes,
                swappiness,
            } => return self.ask(memcg, bytes, swappiness, mm, machine),
        };
        self.owed += machine.owed;
        match result {
            Ok(()) => {
                if matches!(self.op, Op::Touch { .. }) {
                    mm.memcgs.count(memcg, Counter::Pgfault, 1);
                }
                self.done = true;
                machine.in_fault = false;
                None
            }
            Err(Missing::Read(until)) => Some(Reply::Wait {
                cpu: machine.spent,
                until,
            }),
            Err(Missing::Room(level)) => {
                mm.memcgs.count(level, Counter::MemcgMax, 1);
                self.begin(
                    Purpose::Room(level),
                    request(Cause::Limit, level, 1, machine),
                );
                None
            }
            Err(Missing::Memory) => {
                let all = MemcgId::ROOT;
                self.begin(Purpose::Memory, request(Cause::Direct, all, 1, machine));
                None
            }
        }
    }

    fn begin(&mut self, purpose: Purpose, request: Request) {
        self.reclaim = Some((purpose, Box::new(Reclaim::new(request))));
    }

    /// The next batch of `memory.reclaim` (SPEC 3.12).
    fn ask(
        &mut self,
        memcg: MemcgId,
        bytes: Bytes,
        swappiness: Option<u8>,
        mm: &mut Mm,
        machine: &mut Machine,
    ) -> Option<Reply> {
        let wanted = bytes.whole_pages().0;
        let Some(left) = wanted.checked_sub(self.reclaimed).filter(|&left| left > 0) else {
            self.done = true;
            return None;
        };
        if self.retries == 0 {
            machine.drain_all(mm);
        }
        let batch = mm.switches.reclaim_batching.goal(left);
        let asked = Request {
            swappiness,
            ..request(Cause::Proactive, memcg, batch, machine)
        };
        self.begin(Purpose::Asked, asked);
        None
    }

    fn reclaim_ended(
        &mut self,
        purpose: Purpose,
        reclaimed: Pages,
        mm: &mut Mm,
        machine: &mut Machine,
    ) -> Option<Reply> {
        match purpose {
            Purpose::Asked => {
                self.reclaimed += reclaimed.0;
                if reclaimed == Pages::ZERO {
                    if self.retries == 0 {
                        return Some(Reply::Again { cpu: machine.spent });
                    }
                    self.retries -= 1;
                }
                None
            }
            Purpose::High(_) => {
                if let Some(high) = &mut self.high {
                    high.reclaimed += reclaimed.0;
                }
                None
            }
            Purpose::Room(level) => {
                let gained = reclaimed > Pages::ZERO || mm.memcgs.margin(level) > Pages::ZERO;
                self.spend_retry(gained, level, mm, machine)
            }
            Purpose::Memory => {
                let gained = reclaimed > Pages::ZERO;
                self.spend_retry(gained, MemcgId::ROOT, mm, machine)
            }
        }
    }

    /// After a reclaim in vain: one retry less, and in the end a kill.
    fn spend_retry(
        &mut self,
        gained: bool,
        level: MemcgId,
        mm: &mut Mm,
        machine: &Machine,
    ) -> Option<Reply> {
        // Small charges go on for ever while something is gained.
        if gained {
            return None;
        }
        if !self.drained {
            self.drained = true;
            mm.memcgs.drain_stocks(level);
            return None;
        }
        if self.retries > 0 {
            self.retries -= 1;
            return None;
        }
        mm.memcgs.count(level, Counter::MemcgOom, 1);
        mm.memcgs.count(level, Counter::MemcgOomKill, 1);
        Some(Reply::Killed { cpu: machine.spent })
    }

    /// On the way out a task pays what it owes for being above high (SPEC 5.2).
    fn leave(&mut self, mm: &mut Mm, machine: &mut Machine) -> Option<Reply> {
        let done = Some(Reply::Done { cpu: machine.spent });
        if self.owed == 0 {
            return done;
        }
        let memcg = match self.op {
            Op::Touch { space, .. } | Op::FileIo { space, .. } => machine.space(space).memcg,
            Op::Reclaim { .. } => return done,
        };
        let high = self.high.get_or_insert(HighWork {
            level: Some(memcg),
            memcg,
            reclaimed: 0,
            again: false,
            retries: MAX_RECLAIM_RETRIES,
        });
        while let Some(level) = high.level {
            high.level = mm.memcgs.parent(level);
            if mm.memcgs.over_high(level) == 0 {
                continue;
            }
            mm.memcgs.count(level, Counter::MemcgHigh, 1);
            let goal = if high.again { HIGH_AGAIN } else { self.owed };
            self.begin(
                Purpose::High(level),
                request(Cause::Limit, level, goal, machine),
            );
            return None;
        }
        let owed = Pages(self.owed);
        mm.memcgs.count_swap_high(memcg);
        let delay = high_delay(&mm.memcgs, memcg, owed) + swap_high_delay(&mm.memcgs, memcg, owed);
        if delay <= neap_policy::SHORTEST_DELAY {
            return done;
        }
        if high.reclaimed > 0 || high.retries > 0 {
            high.retries -= u32::from(high.reclaimed == 0);
            high.level = Some(high.memcg);
            high.reclaimed = 0;
            high.again = true;
            return None;
        }
        self.owed = 0;
        Some(Reply::Wait {
            cpu: machine.spent,
            until: machine.now + machine.spent + delay.min(LONGEST_DELAY),
        })
    }
}

/// What a task asks for whose CPU this is.
fn request(cause: Cause, target: MemcgId, goal: u64, machine: &Machine) -> Request {
    Request {
        cause,
        target,
        goal: Pages(goal),
        swappiness: None,
        nodes: Nodes::From(machine.node_of_cpu()),
    }
}
