//! The background reclaimer of each node.

use neap_policy::{Cause, MemcgId, Progress, Reclaim, Request};
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
                node: Some(node),
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
