//! CPUs, and which are of which node.

use std::ops::Range;

use neap_units::Nanos;

use crate::workload::Rng;

/// What a CPU does.
#[derive(Clone, Copy, Default)]
pub(super) struct Cpu {
    pub(super) task: Option<u32>,
    pub(super) slice_end: Nanos,
}

/// CPUs split evenly over the nodes, as the kernel model does.
pub(super) struct Nodes {
    nodes: u32,
    cpus: u32,
}

impl Nodes {
    pub(super) fn new(nodes: u32, cpus: u32) -> Nodes {
        Nodes {
            nodes: nodes.max(1),
            cpus: cpus.max(1),
        }
    }

    /// The node of a CPU.
    pub(super) fn of(&self, cpu: u32) -> u32 {
        cpu * self.nodes / self.cpus
    }

    /// The CPUs of a node; none where there are fewer CPUs than nodes.
    pub(super) fn cpus_of(&self, node: u32) -> Range<u32> {
        let first = |node: u32| (node * self.cpus).div_ceil(self.nodes);
        first(node)..first(node + 1)
    }

    /// The node with most idle CPUs, by lot among several; none where no CPU is idle.
    pub(super) fn idlest(&self, cpus: &[Cpu], rng: &mut Rng) -> Option<u32> {
        if self.nodes == 1 {
            return Some(0);
        }
        let idle = |node: &u32| {
            let free = |cpu: &u32| cpus[*cpu as usize].task.is_none();
            self.cpus_of(*node).filter(free).count()
        };
        let most = (0..self.nodes).map(|node| idle(&node)).max()?;
        let all = (0..self.nodes).filter(|node| idle(node) == most);
        let all: Vec<u32> = all.collect();
        (most > 0).then(|| all[rng.below(all.len() as u64) as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cpu_is_of_the_node_that_has_it() {
        for (nodes, cpus) in [(1, 1), (2, 16), (2, 5), (4, 7), (3, 2)] {
            let split = Nodes::new(nodes, cpus);
            let mut all = Vec::new();
            for node in 0..nodes {
                let range = split.cpus_of(node);
                assert!(range.clone().all(|cpu| split.of(cpu) == node));
                all.extend(range);
            }
            assert_eq!(all, (0..cpus).collect::<Vec<_>>(), "{nodes} nodes");
        }
    }

    #[test]
    fn what_has_no_node_goes_where_most_cpus_are_idle() {
        let split = Nodes::new(2, 4);
        let mut cpus = [Cpu::default(); 4];
        let mut rng = Rng::new(1, 1);
        let drawn: Vec<_> = (0..32).map(|_| split.idlest(&cpus, &mut rng)).collect();
        assert!(drawn.contains(&Some(0)) && drawn.contains(&Some(1)));
        cpus[0].task = Some(7);
        assert!((0..32).all(|_| split.idlest(&cpus, &mut rng) == Some(1)));
        cpus.iter_mut().for_each(|cpu| cpu.task = Some(7));
        assert_eq!(split.idlest(&cpus, &mut rng), None);
    }
}
