//! Jobs that join a service, and leave it.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use neap_control::{Join, Name};
use neap_store::Account;
use neap_sys::{Pidfd, Root};
use neap_tuning::TUNING;
use neap_units::{AtomicLimit, Limit, Nanos};

use super::{Group, NoPlace, SIGKILL};
use crate::control::Kind;
use crate::freeze::SIGCONT;
use crate::job::Job;
use crate::meter::Meter;
use crate::options::Exhausted;
use crate::report::Report;
use crate::spawn::try_spawn;

/// Why a job cannot join: the error as errno(3) names it, and words for people.
pub(crate) type Refused = (&'static str, String);

impl Job {
    /// A job joins: the descendants of the process that asks count for it from now on. One that descends from another job counts
    /// for that, too.
    pub fn join(self: &Arc<Self>, wish: Join, root: Root) -> Result<Arc<Group>, Refused> {
        let parent = match self.groups.of_root(&root) {
            Some(parent) => parent,
            None if self.options.serves => self.groups.top().clone(),
            None => return Err(("EOPNOTSUPP", "it is a job and no service".to_owned())),
        };
        let least = TUNING.limit.least;
        for (key, size) in [("memory.max", wish.max), ("memory.high", wish.high)] {
            if size < Limit::Bytes(least) {
                return Err(("EINVAL", format!("{key} is at least {least}")));
            }
        }
        let max = wish.max.bytes().unwrap_or(TUNING.limit.most);
        let name = wish.name.unwrap_or_else(|| {
            let command = wish.command.first().map_or("job", |word| word);
            Name::of(command.as_ref(), root.pid().cast_unsigned())
        });
        let meter = Meter::new(max, self.options.on_exhausted == Exhausted::Open);
        meter.set_high(wish.high);
        let account = Arc::new(Account::below(&parent.account));
        self.store.set_account_writeback(&account, wish.writeback);
        account.set_swap_max(wish.swap_max);
        account.set_zswap_max(wish.zswap_max);
        let idle = wish.idle.map_or(parent.idle(), Nanos::millis);
        let group = Group {
            name: Some(name.clone()),
            parent: Some(parent),
            root: Some(root),
            command: wish.command,
            require: wish.require,
            low: AtomicLimit::new(wish.low),
            min: AtomicLimit::new(wish.min),
            idle: AtomicU64::new(idle.0),
            account,
            started: neap_sys::monotonic_nanos(),
            ..Group::bare(Arc::new(meter))
        };
        let shortest = self.shortest_idle();
        let group = self.groups.add(group).map_err(|why| match why {
            NoPlace::Taken => ("EEXIST", format!("a job named {name} runs there already")),
            NoPlace::Full => {
                let many = TUNING.control.members;
                ("EAGAIN", format!("{many} jobs run there already"))
            }
            NoPlace::Closed => ("ESHUTDOWN", "it is about to end".to_owned()),
        })?;
        let line = format!(
            "{name} joins, with process {} and its children",
            group.pid()
        );
        self.log.note_of(self, &group, Kind::Join, line);
        self.watch_idle(shortest);
        Ok(group)
    }

    /// The job has ended. Its figures.
    pub fn leave(&self, group: &Arc<Group>) -> Report {
        group.end();
        self.let_go_of_stopped(group, SIGCONT);
        self.tell_of_excess(group);
        let report = self.last_report_of(group);
        self.groups.remove(group);
        let line = format!("{} has ended", group.who());
        self.log.note_of(self, group, Kind::Leave, line);
        report
    }

    /// Whoever started the job has ended without a word: its processes are killed, as they are when a plain `neap run` is.
    pub fn abandon(self: &Arc<Self>, group: &Arc<Group>) {
        group.end();
        self.let_go_of_stopped(group, SIGKILL);
        self.groups.remove(group);
        let line = format!(
            "{}: neap run ended before its programs; they are killed",
            group.who()
        );
        self.log.note_of(self, group, Kind::Leave, line);
        let (job, group) = (self.clone(), group.clone());
        // It may take a while; without a thread it is done here.
        let kill = move || job.kill_all_of(&group);
        let again = kill.clone();
        if try_spawn("neap-end", kill).is_err() {
            again();
        }
    }

    /// The engine ends: so do the jobs of a service that have not, and nothing stays stopped.
    pub fn end_groups(&self) {
        for group in self.groups.below().iter() {
            self.let_go_of_stopped(group, SIGKILL);
            self.kill_all_of(group);
        }
        self.let_go_of_stopped(self.groups.top(), SIGCONT);
    }

    /// Sends SIGKILL to all processes of a group that are known, and to those below them.
    pub fn kill_all_of(&self, group: &Group) {
        self.groups.kill(group);
        for space in self.spaces_of(group).iter() {
            let Some(body) = space.body.get() else {
                continue;
            };
            // Who runs another program by now is still of the group.
            if let Ok(pidfd) = Pidfd::open(body.pid)
                && body.pidfd.lives()
            {
                Root::of(body.pid, pidfd).kill_descendants();
            }
            let _ = body.process.signal(SIGKILL);
        }
    }
}
