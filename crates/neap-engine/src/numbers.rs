//! Spaces come and go, and so do their numbers: none is given to another space while an entry of the store belongs to it.

use std::sync::Arc;

use neap_policy::Vmstat;
use neap_store::OwnerStats;
use neap_sys::{Userfault, Waker};
use neap_tuning::TUNING;
use neap_units::{PageNr, SpaceId};

use crate::group::Group;
use crate::job::Job;
use crate::space::{Kin, Ranges, Space};

impl Job {
    /// A number for a space of the group that is to come.
    pub fn take_number(&self, group: &Group) -> SpaceId {
        self.look_at_retired();
        let id = self.core().add_space();
        self.store.open_owner(id, &group.account);
        id
    }

    /// A new space around a userfaultfd that has shaken hands; `family`: the number of that of the process which forked it.
    pub fn add_space(
        &self,
        group: Arc<Group>,
        uffd: Box<dyn Userfault>,
        ranges: Ranges,
        family: Option<u64>,
    ) -> Arc<Space> {
        let name = (self.take_number(&group), Self::new_number());
        self.add_named(name, group, uffd, ranges, family)
    }

    /// The same where the numbers are given.
    pub fn add_named(
        &self,
        (id, cookie): (SpaceId, u64),
        group: Arc<Group>,
        uffd: Box<dyn Userfault>,
        ranges: Ranges,
        family: Option<u64>,
    ) -> Arc<Space> {
        let bell = Waker::new().ok(); // a forked child must be served though no descriptor is left
        self.spaces.add(|others| {
            let named = |other: &&Arc<Space>| Some(other.kin.family()) == family;
            let kin = match others.iter().find(named) {
                // A process says itself whose child it is: of another job's it is none.
                Some(relative) if relative.group.number != group.number => Kin::first(cookie),
                Some(relative) => relative.kin.another(self.clock.now()),
                None => Kin::first(family.unwrap_or(cookie)),
            };
            Arc::new(Space::new(id, cookie, kin, group, uffd, bell, ranges))
        })
    }

    /// Nothing depends on a space any more.
    pub fn end_space(&self, space: &Space) {
        if space.standing.is_served() {
            space.set_dead(); // its fault thread drops it
        } else {
            self.drop_space(space);
        }
    }

    /// Forgets a space whose memory is gone. Everything it held in the store is freed.
    pub fn drop_space(&self, space: &Space) {
        space.set_dead();
        // It leaves its family before another of that can come.
        if !self.spaces.remove(space, || space.kin.leave()) {
            return;
        }
        // Whoever works on the space holds its gate; wait for them before the id may be reused.
        let _gate = space.gate.write();
        self.departed.note(self, space);
        let (vmstat, stored) = self.free_number(space.id);
        space.group.note_gone(&vmstat, &stored);
    }

    /// Frees what the number of a space holds in the table and the store. The number is another's once no entry belongs to it.
    /// What it had done.
    pub fn free_number(&self, id: SpaceId) -> (Vmstat, OwnerStats) {
        let everything = PageNr(0)..PageNr(u64::MAX);
        let effects = self.core().remove_range(id, everything);
        let freed = effects.iter().filter_map(|effect| effect.freed_entry);
        let entries: Vec<_> = freed.collect();
        self.store.put_many(&entries);
        let stored = self.store.forget_owner(id);
        let vmstat = self.core().vmstat_of(id);
        self.retired.lock().push(id);
        self.look_at_retired();
        (vmstat, stored)
    }

    /// Gives numbers back to which no entry belongs any more. What a process left to its forked children counts for its group, and is
    /// written or not as that wants, until the last of them lets go of it.
    fn look_at_retired(&self) {
        let mut ids = std::mem::take(&mut *self.retired.lock());
        if ids.is_empty() {
            return;
        }
        let many = ids.len().saturating_sub(TUNING.pool.retired);
        let mut at = 0;
        ids.retain(|&id| {
            at += 1;
            let stays = at > many && self.store.owns(id);
            if !stays {
                self.core().drop_space(id);
            }
            stays
        });
        self.retired.lock().extend(ids);
    }

    /// A number that nobody guesses, and that no space has had.
    pub fn new_number() -> u64 {
        let mut bytes = [0; 8];
        let mut number = || {
            neap_sys::random(&mut bytes).expect("random numbers, which were there at the start");
            u64::from_ne_bytes(bytes)
        };
        std::iter::repeat_with(&mut number)
            .find(|&number| number != 0)
            .unwrap_or(1)
    }
}
