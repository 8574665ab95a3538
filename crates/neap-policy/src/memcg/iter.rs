//! Walks of the tree: in full, and with a position that all reclaimers share (SPEC 3.11).

use super::{MemcgId, Memcgs};

/// Where the reclaimers of one (root, node) are (kernel: mem_cgroup_reclaim_iter).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Cookie {
    position: Option<MemcgId>,
    cycle: u64,
}

impl Memcgs {
    /// The cgroup after `at` in tree order, parents first, below `root`; the root itself
    /// after none.
    pub fn next(&self, root: MemcgId, at: Option<MemcgId>) -> Option<MemcgId> {
        let Some(at) = at else {
            return Some(root);
        };
        if let Some(child) = self.get(at).first_child {
            return Some(child);
        }
        let mut id = at;
        while id != root {
            if let Some(sibling) = self.get(id).next_sibling {
                return Some(sibling);
            }
            id = self.parent(id)?;
        }
        None
    }

    /// Every cgroup below `root` and itself, in tree order.
    pub fn walk(&self, root: MemcgId) -> impl Iterator<Item = MemcgId> + '_ {
        std::iter::successors(Some(root), move |&id| self.next(root, Some(id)))
    }

    /// The next cgroup of a walk that shares its position. `cycle` is the walker's own:
    /// none when it starts. A walk ends when the round it joined ends.
    pub(crate) fn next_shared(
        &self,
        root: MemcgId,
        cookie: &mut Cookie,
        cycle: &mut Option<u64>,
    ) -> Option<MemcgId> {
        let starts = cycle.is_none();
        if *cycle.get_or_insert(cookie.cycle) != cookie.cycle {
            return None;
        }
        let mut next = self.next(root, cookie.position);
        if next.is_none() {
            cookie.cycle += 1;
            // Who jumps in right at the end sees at least one cgroup.
            if starts {
                *cycle = Some(cookie.cycle);
                next = Some(root);
            }
        }
        cookie.position = next;
        next
    }
}
