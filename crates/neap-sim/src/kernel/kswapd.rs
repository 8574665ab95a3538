//! The background reclaimer of each node.

use neap_policy::{Cause, MemcgId, Nodes, Progress, Reclaim, Request};
use neap_units::Pages;

use super::Kernel;
use super::machine::Event;

/// Runs without any progress after which it rests until somebody else made some (kernel:
/// MAX_RECLAIM_RETRIES).
const FAILURES: u32 = 16;

/// kswapd of one node.
#[derive(Default)]
pub(super) struct Kswapd {
    reclaim: Option<Reclaim>,
    failures: u32,
}

impl Kernel {
    /// Wakes kswapd of nodes that are short of free pages.
    pub(super) fn wake_kswapd(&mut self) {
        for node in 0..self.kswapd.len() as u32 {
            let short = self.machine.free_pages(node) < self.machine.marks.low;
            let kswapd = &mut self.kswapd[node as usize];
            if !short || kswapd.reclaim.is_some() || kswapd.failures >= FAILURES {
                continue;
            }
            kswapd.reclaim = Some(Reclaim::new(Request {
                cause: Cause::Kswapd,
                target: MemcgId::ROOT,
                goal: Pages(self.machine.marks.high),
                swappiness: None,
                nodes: Nodes::Only(node),
            }));
            let at = self.machine.now + self.machine.spent;
            self.machine.schedule(at, Event::Kswapd(node));
        }
    }

    /// A slice of kswapd. It has a CPU to itself: what it costs shows in time only.
    pub(super) fn run_kswapd(&mut self, node: u32) {
        let Some(mut reclaim) = self.kswapd[node as usize].reclaim.take() else {
            return;
        };
        let mut progress = Progress::More;
        while progress == Progress::More
            && !self.machine.over_slice()
            && self.machine.congested.is_none()
        {
            progress = reclaim.step(&mut self.mm, &mut self.machine);
            if let Some(mut call) = self.machine.shrinker.take() {
                while !self.machine.shrink(&mut self.mm, &mut call) {}
            }
        }
        let kswapd = &mut self.kswapd[node as usize];
        if progress == Progress::More {
            kswapd.reclaim = Some(reclaim);
            let at = self.machine.next_slice();
            self.machine.schedule(at, Event::Kswapd(node));
        } else if reclaim.reclaimed() > Pages::ZERO {
            kswapd.failures = 0;
        } else {
            kswapd.failures += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use neap_policy::{Counter, Switches};
    use neap_units::{Bytes, Nanos};

    use super::super::tests::{finish, teardown};
    use super::super::{Area, KernelConfig, Op, Reply, SwapConfig};
    use super::*;

    /// A small program and one that goes round in twice the memory there is; who was
    /// killed, and how often.
    fn thrash(min_ttl: Nanos) -> ([bool; 2], u64) {
        let mut kernel = Kernel::new(&KernelConfig {
            ram: Bytes::mib(32),
            switches: Switches::of_kernel((6, 12), true),
            min_ttl,
            swap: Some(SwapConfig {
                size: Bytes::mib(64),
                latency: Nanos::micros(50),
                synchronous: false,
            }),
            ..KernelConfig::default()
        });
        let sizes = [1000, 16_000];
        let tasks = sizes.map(|pages| {
            let memcg = kernel.create_memcg(MemcgId::ROOT, "job");
            let space = kernel.create_space(memcg);
            (space, kernel.map(space, Area::anon(Pages(pages))))
        });
        let mut now = Nanos::ZERO;
        let mut killed = [false; 2];
        for n in 0..60_000 {
            let who = usize::from(n % 8 != 0);
            let (space, start) = tasks[who];
            if killed[who] {
                continue;
            }
            let page = start + Pages(n % sizes[who]);
            let op = Op::Touch {
                space,
                page,
                write: true,
            };
            let (reply, at) = finish(&mut kernel, op, now);
            now = at + Nanos(100);
            if matches!(reply, Reply::Killed { .. }) {
                kernel.exit_space(space);
                killed[who] = true;
            }
        }
        let kills = kernel.vmstat(MemcgId::ROOT)[Counter::MemcgOomKill];
        let left: Vec<_> = (0..2).filter(|&n| !killed[n]).map(|n| tasks[n].0).collect();
        teardown(kernel, &left);
        (killed, kills)
    }

    #[test]
    fn a_working_set_that_is_to_be_kept_outlives_a_program_that_thrashes() {
        assert_eq!(thrash(Nanos::ZERO), ([false, false], 0));
        assert_eq!(thrash(Nanos::millis(60_000)), ([false, true], 1));
    }
}
