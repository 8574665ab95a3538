//! Memory while a run goes on: anonymous memory of its processes, by the kernel's accounting, and the
//! pool that lies outside of them.

use std::path::PathBuf;

use super::group::{Group, field};
use crate::machine::{Root, children};

/// Most that was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peak {
    /// Anonymous memory and pool at the same time, in bytes.
    pub memory: u64,
    /// Anonymous memory without the pool and without neap.
    pub resident: u64,
    /// The pool.
    pub pool: u64,
    /// Bytes of the pages in it when it was largest.
    pub held: u64,
    /// How often it was looked at.
    pub samples: u64,
}

/// Where the size of the pool is read.
#[derive(Clone, Debug)]
pub enum Pool {
    /// There is none outside of the processes.
    None,
    /// zswap's, of the group where the kernel says so, else of the machine less what it was before.
    Zswap(Holding),
    /// A zram device's.
    Zram(u32),
}

impl Pool {
    /// zswap's, from now on.
    #[must_use]
    pub fn zswap(root: &Root) -> Self {
        Pool::Zswap(zswap_of_machine(root))
    }

    fn holding(&self, root: &Root, group: Option<&Group>) -> Holding {
        match self {
            Pool::None => Holding::default(),
            Pool::Zswap(before) => group
                .and_then(|group| {
                    Some(Holding {
                        pool: group.pool()?,
                        held: group.counter("zswapped")?,
                    })
                })
                .unwrap_or_else(|| zswap_of_machine(root).since(*before)),
            Pool::Zram(number) => zram(root, *number).unwrap_or_default(),
        }
    }
}

/// A pool, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holding {
    /// What it takes.
    pool: u64,
    /// The pages in it.
    held: u64,
}

impl Holding {
    fn since(self, before: Self) -> Self {
        Self {
            pool: self.pool.saturating_sub(before.pool),
            held: self.held.saturating_sub(before.held),
        }
    }
}

/// `Zswap:` and `Zswapped:` of /proc/meminfo.
fn zswap_of_machine(root: &Root) -> Holding {
    let text = root.read("/proc/meminfo").unwrap_or_default();
    let bytes = |name| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
        kib.unwrap_or(0) << 10
    };
    Holding {
        pool: bytes("Zswap:"),
        held: bytes("Zswapped:"),
    }
}

/// `mem_used_total` and `orig_data_size`, the third and first figure of a device's mm_stat
/// (Documentation/admin-guide/blockdev/zram.rst).
fn zram(root: &Root, number: u32) -> Option<Holding> {
    let path = PathBuf::from(format!("/sys/block/zram{number}/mm_stat"));
    let text = root.read(path).ok()?;
    let mut figures = text.split_whitespace();
    let held = figures.next()?.parse().ok()?;
    let pool = figures.nth(1)?.parse().ok()?;
    Some(Holding { pool, held })
}

/// Watches one run.
#[derive(Debug)]
pub struct Watch<'a> {
    /// The machine.
    pub root: &'a Root,
    /// The group, if the run has one.
    pub group: Option<&'a Group>,
    /// The first process.
    pub first: i32,
    /// The first process is neap, which is not the command.
    pub neap: bool,
    /// The pool outside of the processes.
    pub pool: Pool,
}

impl Watch<'_> {
    /// Looks once.
    pub fn look(&self, peak: &mut Peak) {
        let pids = match self.group {
            Some(group) => group.members(),
            None => tree(self.root, self.first),
        };
        let (mut all, mut resident) = (0, 0);
        for pid in without_agents(pids) {
            let anon = neap_sys::anon_resident(pid).unwrap_or(0);
            all += anon;
            if !(self.neap && pid == self.first) {
                resident += anon;
            }
        }
        let Holding { pool, held } = self.pool.holding(self.root, self.group);
        peak.memory = peak.memory.max(all + pool);
        peak.resident = peak.resident.max(resident);
        if pool > peak.pool {
            (peak.pool, peak.held) = (pool, held);
        }
        peak.samples += 1;
    }
}

/// Leaves out the agents whose memory is that of another of these processes: it would count twice.
fn without_agents(pids: Vec<i32>) -> Vec<i32> {
    let is_agent = |pid: &i32| neap_sys::comm(*pid).is_some_and(|name| name == "mm-agent");
    let (agents, mut others): (Vec<i32>, Vec<i32>) = pids.into_iter().partition(is_agent);
    let counted = others.len();
    for agent in agents {
        let shared = |pid: &i32| neap_sys::share_memory(agent, *pid) != Some(false);
        if !others[..counted].iter().any(shared) {
            others.push(agent);
        }
    }
    others
}

/// The names and ids of what `neap` waits for.
#[must_use]
pub fn waited_for(root: &Root, neap: i32) -> String {
    let name = |pid: i32| {
        let name = root.read(format!("/proc/{pid}/comm")).unwrap_or_default();
        format!("{} ({pid})", name.trim())
    };
    let all: Vec<String> = children(root, neap).into_iter().map(name).collect();
    all.join(", ")
}

/// A process and all its descendants.
fn tree(root: &Root, first: i32) -> Vec<i32> {
    let mut all = vec![first];
    let mut next = 0;
    while let Some(pid) = all.get(next) {
        let more = children(root, *pid);
        all.extend(more);
        next += 1;
    }
    all
}

/// The kernel's counters of pages on their way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Pages that left memory, to a pool or to a swap area.
    pub out: u64,
    /// Pages that came back.
    pub back: u64,
    /// Pages written to a swap area.
    pub written: u64,
}

impl Counters {
    /// Of the machine, since it started.
    #[must_use]
    pub fn of_machine(root: &Root) -> Self {
        let text = root.read("/proc/vmstat").unwrap_or_default();
        Self::from(|name| field(&text, name))
    }

    /// Of a group, since it was made; `None` where the kernel does not count so (version 1).
    #[must_use]
    pub fn of_group(group: &Group) -> Option<Self> {
        group.counter("pswpout")?;
        Some(Self::from(|name| group.counter(name)))
    }

    /// By the kernel's names. A page in the pool that is written back was counted when it went there;
    /// pages of zeros are counted by themselves since Linux 6.12.
    pub fn from(get: impl Fn(&str) -> Option<u64>) -> Self {
        let get = |name| get(name).unwrap_or(0);
        let to_disk = get("pswpout");
        Self {
            out: get("zswpout") + to_disk.saturating_sub(get("zswpwb")) + get("swpout_zero"),
            back: get("zswpin") + get("pswpin") + get("swpin_zero"),
            written: to_disk,
        }
    }

    /// What was added since `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            out: self.out.saturating_sub(before.out),
            back: self.back.saturating_sub(before.back),
            written: self.written.saturating_sub(before.written),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::fake::{machine, write};

    #[test]
    fn a_page_that_goes_on_to_disk_left_memory_once() {
        let (_dir, root) = machine(&[(
            "/proc/vmstat",
            "pswpin 5\npswpout 30\nswpin_zero 2\nswpout_zero 3\nzswpin 7\nzswpout 100\nzswpwb 20\n",
        )]);
        let counters = Counters::of_machine(&root);
        let want = Counters {
            out: 113,
            back: 14,
            written: 30,
        };
        assert_eq!(counters, want);
        assert_eq!(counters.since(counters), Counters::default());
    }

    #[test]
    fn the_pool_is_zswaps_growth_or_the_devices_memory() {
        let (_dir, root) = machine(&[
            ("/proc/meminfo", "Zswap:    8 kB\nZswapped:  20 kB\n"),
            ("/sys/block/zram2/mm_stat", " 9 8 4096 0 5000 0 0\n"),
        ]);
        let pool = Pool::zswap(&root);
        write(
            &root,
            "/proc/meminfo",
            "Zswap:    20 kB\nZswapped:  60 kB\n",
        );
        let both = |pool: &Pool| {
            let Holding { pool, held } = pool.holding(&root, None);
            (pool, held)
        };
        assert_eq!(both(&pool), (12 << 10, 40 << 10));
        assert_eq!(both(&Pool::Zram(2)), (4096, 9));
        assert_eq!(both(&Pool::Zram(3)), (0, 0));
        assert_eq!(both(&Pool::None), (0, 0));
    }

    #[test]
    fn what_neap_waits_for_has_names() {
        let (_dir, root) = machine(&[
            ("/proc/5/task/5/children", "8 "),
            ("/proc/8/comm", "sleep\n"),
        ]);
        assert_eq!(waited_for(&root, 5), "sleep (8)");
    }

    #[test]
    fn a_run_without_a_group_is_its_tree() {
        let (_dir, root) = machine(&[
            ("/proc/5/task/5/children", "6 7 "),
            ("/proc/7/task/7/children", "8 "),
        ]);
        assert_eq!(tree(&root, 5), [5, 6, 7, 8]);
    }
}
