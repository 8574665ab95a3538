//! A service and its jobs on an imagined machine, without threads: for tests of whom the engine chooses. Only the table and the
//! meters know of pages.

use std::sync::Arc;

use neap_imagined::{Machine, Odds};
use neap_policy::{Heat, Step};
use neap_store::{Config, HashKey, NoFile, Store, VecArena};
use neap_sys::{Features, Waker};
use neap_units::{Bytes, PageNr, Pages};

use crate::attend::Attendance;
use crate::group::{Group, a_job_of};
use crate::job::Job;
use crate::options::{Options, Walk};
use crate::space::{Ranges, Space};
use crate::spares::Spares;

/// The service.
pub(crate) struct Bare {
    pub job: Arc<Job>,
    machine: Machine,
}

impl Bare {
    pub fn serve(walk: Walk) -> Self {
        let limit = Pages(1 << 18).bytes();
        let options = Options {
            serves: true,
            walk,
            ..Options::imagined(limit, Bytes(0), limit)
        };
        let key = HashKey::new(&[7; HashKey::BYTES]);
        let store = Store::new(
            Config {
                pool_max: Pages(1 << 10),
                ..Config::default()
            },
            Box::new(VecArena::new(1 << 22)),
            Box::new(NoFile),
            key,
        );
        let bell = Waker::new().expect("a bell");
        let spares = Spares::new().expect("descriptors");
        let attendance = Attendance::new().expect("an epoll");
        let features = Features::LAYOUT.with(Features::FORK);
        let job = Job::new(options, features, store, bell, spares, attendance);
        Self {
            job: Arc::new(job),
            machine: Machine::new(1, Odds::default()),
        }
    }

    /// A job in it, which has so many pages.
    pub fn with(&self, name: &str, pages: u64) -> Arc<Group> {
        let group = a_job_of(&self.job.groups, name);
        let space = self.space(&group, None);
        let mut core = self.job.core();
        for page in 0..pages {
            let id = core.ensure(space.id, PageNr(page));
            core.apply(id, Step::Adopt(Heat::Warm)).expect("it is new");
        }
        drop(core);
        group.charge(Pages(pages).bytes().0);
        group
    }

    /// A process of a job. `family`: the number of that of the process which it says it was forked from.
    pub fn space(&self, group: &Arc<Group>, family: Option<u64>) -> Arc<Space> {
        let uffd = Box::new(self.machine.uffd(self.machine.start(1)));
        self.job
            .add_space(group.clone(), uffd, Ranges::default(), family)
    }

    /// Reclaim is to free so many pages.
    pub fn want(&self, pages: u64) {
        let usage = self.job.meter.usage();
        let to = usage.saturating_sub(Pages(pages).bytes().0);
        self.job.meter.set_plan(Bytes(usage), Some(Bytes(to)));
    }

    /// So many pages leave a job, the coldest first. How many there were.
    pub fn take(&self, group: &Group, most: usize) -> usize {
        let mut picked = Vec::new();
        let mut core = self.job.core();
        for space in self.job.spaces_of(group).iter() {
            core.pick(space.id, most - picked.len(), &mut picked);
        }
        for &id in &picked {
            core.apply(id, Step::Vanish).expect("it was picked");
        }
        drop(core);
        group.uncharge(Pages(picked.len() as u64).bytes().0);
        picked.len()
    }
}
