//! Walks of the tree: in full, and with a position that all reclaimers share (SPEC 3.11; kernel: mm/memcontrol.c,
//! `mem_cgroup_iter`). They need a [`GroupTree`] alone.

use super::{MemcgId, Memcgs};

/// A tree of groups, whose children are ordered.
pub trait GroupTree<Id: Copy + PartialEq> {
    /// The group above.
    fn parent(&self, id: Id) -> Option<Id>;
    /// The first of the groups right below.
    fn first_child(&self, id: Id) -> Option<Id>;
    /// The next group below the same parent.
    fn next_sibling(&self, id: Id) -> Option<Id>;

    /// The group after `at` in tree order, parents first, below `root`; the root itself
    /// after none.
    fn after(&self, root: Id, at: Option<Id>) -> Option<Id> {
        let Some(at) = at else {
            return Some(root);
        };
        if let Some(child) = self.first_child(at) {
            return Some(child);
        }
        let mut id = at;
        while id != root {
            if let Some(sibling) = self.next_sibling(id) {
                return Some(sibling);
            }
            id = self.parent(id)?;
        }
        None
    }
}

/// Where the reclaimers of one (root, node) are (kernel: mem_cgroup_reclaim_iter).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cookie<Id> {
    position: Option<Id>,
    cycle: u64,
}

impl<Id> Default for Cookie<Id> {
    fn default() -> Cookie<Id> {
        Cookie {
            position: None,
            cycle: 0,
        }
    }
}

impl<Id: Copy + PartialEq> Cookie<Id> {
    /// A group is about to leave the tree: a walk that stands there begins at its root again (kernel:
    /// `invalidate_reclaim_iterators`).
    pub fn forget(&mut self, id: Id) {
        if self.position == Some(id) {
            self.position = None;
        }
    }

    /// The next group of a walk that shares its position. `cycle` is the walker's own:
    /// none when it starts. A walk ends when the round it joined ends.
    pub(crate) fn next_group(
        &mut self,
        tree: &impl GroupTree<Id>,
        root: Id,
        cycle: &mut Option<u64>,
    ) -> Option<Id> {
        let starts = cycle.is_none();
        if *cycle.get_or_insert(self.cycle) != self.cycle {
            return None;
        }
        let mut next = tree.after(root, self.position);
        if next.is_none() {
            self.cycle += 1;
            // Who jumps in right at the end sees at least one group.
            if starts {
                *cycle = Some(self.cycle);
                next = Some(root);
            }
        }
        self.position = next;
        next
    }
}

/// A walk through a tree of groups, under way: what the memcg LRU is compared with (SPEC 3.11).
#[derive(Clone, Debug)]
pub struct TreeWalk<Id> {
    way: Way<Id>,
    over: bool,
}

#[derive(Clone, Debug)]
enum Way<Id> {
    Full { at: Option<Id> },
    Shared { cycle: Option<u64> },
}

impl<Id: Copy + PartialEq> TreeWalk<Id> {
    /// Everyone, in tree order (`FullLinear`).
    #[must_use]
    pub fn full() -> TreeWalk<Id> {
        TreeWalk {
            way: Way::Full { at: None },
            over: false,
        }
    }

    /// From where the last reclaimer stopped, to the end of its round (`PartialCookie`).
    #[must_use]
    pub fn shared() -> TreeWalk<Id> {
        TreeWalk {
            way: Way::Shared { cycle: None },
            over: false,
        }
    }

    /// The next group below `root`, if the walk goes on. `cookie` is where all walks from this root are.
    pub fn next_group(
        &mut self,
        tree: &impl GroupTree<Id>,
        root: Id,
        cookie: &mut Cookie<Id>,
    ) -> Option<Id> {
        match &mut self.way {
            _ if self.over => None,
            Way::Full { at } => {
                *at = tree.after(root, *at);
                self.over = at.is_none();
                *at
            }
            Way::Shared { cycle } => cookie.next_group(tree, root, cycle),
        }
    }

    /// The goal is met: a walk from where the last stopped ends here, a full one goes on.
    pub fn goal_met(&mut self) {
        self.over |= matches!(self.way, Way::Shared { .. });
    }
}

impl GroupTree<MemcgId> for Memcgs {
    #[inline]
    fn parent(&self, id: MemcgId) -> Option<MemcgId> {
        self.get(id).parent
    }

    #[inline]
    fn first_child(&self, id: MemcgId) -> Option<MemcgId> {
        self.get(id).first_child
    }

    #[inline]
    fn next_sibling(&self, id: MemcgId) -> Option<MemcgId> {
        self.get(id).next_sibling
    }
}

impl Memcgs {
    /// The cgroup after `at` in tree order, parents first, below `root`; the root itself
    /// after none.
    pub fn next(&self, root: MemcgId, at: Option<MemcgId>) -> Option<MemcgId> {
        self.after(root, at)
    }

    /// Every cgroup below `root` and itself, in tree order.
    pub fn walk(&self, root: MemcgId) -> impl Iterator<Item = MemcgId> + '_ {
        std::iter::successors(Some(root), move |&id| self.next(root, Some(id)))
    }
}
