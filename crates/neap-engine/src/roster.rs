//! Which spaces there are: of all groups together, and of each.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use neap_sys::Gate;

use crate::group::Group;
use crate::space::Space;

/// Spaces as they were when somebody asked, in the order in which they came.
pub(crate) type Spaces = Arc<[Arc<Space>]>;

/// The spaces of each group and of those below it, by the group's number. The top's are all.
#[derive(Default)]
pub(crate) struct Rosters(Gate<HashMap<u64, Roster>, 6>);

#[derive(Default)]
struct Roster {
    spaces: Vec<Arc<Space>>,
    /// The same, for whoever asks; made anew by the first after a change.
    list: OnceLock<Spaces>,
}

impl Roster {
    fn change<T>(&mut self, how: impl FnOnce(&mut Vec<Arc<Space>>) -> T) -> T {
        self.list.take();
        how(&mut self.spaces)
    }
}

impl Rosters {
    /// The spaces of a group and of those below it.
    pub fn of(&self, group: &Group) -> Spaces {
        self.numbered(group.number)
    }

    /// All spaces.
    pub fn all(&self) -> Spaces {
        self.numbered(Group::TOP)
    }

    fn numbered(&self, number: u64) -> Spaces {
        let rosters = self.0.read();
        let list = |roster: &Roster| {
            let list = || roster.spaces.as_slice().into();
            roster.list.get_or_init(list).clone()
        };
        rosters.get(&number).map_or_else(Spaces::default, list)
    }

    /// The first space that is so.
    pub fn find(&self, is_it: impl Fn(&Space) -> bool) -> Option<Arc<Space>> {
        let rosters = self.0.read();
        let all = &rosters.get(&Group::TOP)?.spaces;
        all.iter().find(|space| is_it(space)).cloned()
    }

    /// One more, made by somebody who sees all others meanwhile.
    pub fn add(&self, make: impl FnOnce(&[Arc<Space>]) -> Arc<Space>) -> Arc<Space> {
        let mut rosters = self.0.write();
        let space = make(&rosters.entry(Group::TOP).or_default().spaces);
        for group in space.group.chain() {
            let roster = rosters.entry(group.number).or_default();
            roster.change(|spaces| spaces.push(space.clone()));
        }
        space
    }

    /// One less. Whether it was there. `last` is done before another comes.
    pub fn remove(&self, space: &Space, last: impl FnOnce()) -> bool {
        let mut rosters = self.0.write();
        let mut was_there = false;
        for group in space.group.chain() {
            let Some(roster) = rosters.get_mut(&group.number) else {
                continue;
            };
            let before = roster.spaces.len();
            roster.change(|spaces| spaces.retain(|other| other.cookie != space.cookie));
            was_there |= roster.spaces.len() < before;
            if roster.spaces.is_empty() {
                rosters.remove(&group.number);
            }
        }
        if was_there {
            last();
        }
        was_there
    }
}
