//! The memory cgroup of one run, of either version.

use std::fs::{self, OpenOptions};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use neap_units::Bytes;

use super::journal::{Journal, members};
use super::missing::Missing;
use crate::machine::{Root, memory_hierarchy};

/// Where groups are made, and by which rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    /// The top of what is mounted.
    pub top: PathBuf,
    /// 1 or 2.
    pub version: u8,
}

impl Hierarchy {
    /// Finds it, and makes version 2 pass the memory controller on to groups at its top.
    ///
    /// # Errors
    /// Why no group can be made.
    pub fn find(root: &Root, journal: &mut Journal) -> Result<Self, Missing> {
        let (top, version) = memory_hierarchy(root).ok_or_else(|| {
            Missing::new("no memory cgroup is mounted")
                .remedy("mount -t cgroup2 cgroup2 /sys/fs/cgroup")
        })?;
        if version == 2 {
            let file = top.join("cgroup.subtree_control");
            let passed = root.read(&file).unwrap_or_default();
            if !passed.split_whitespace().any(|word| word == "memory") {
                let name = file.to_string_lossy();
                journal
                    .set_for_all(&name, "+memory", "-memory")
                    .map_err(|error| Missing::new(format!("{name}: {error}")))?;
            }
        }
        Ok(Self { top, version })
    }

    /// The files of this version for a limit, the highest use, and the kills for want of memory.
    fn files(&self) -> (&'static str, &'static str, &'static str) {
        match self.version {
            1 => (
                "memory.limit_in_bytes",
                "memory.max_usage_in_bytes",
                "memory.oom_control",
            ),
            _ => ("memory.max", "memory.peak", "memory.events"),
        }
    }
}

/// A group.
#[derive(Clone, Debug)]
pub struct Group {
    root: Root,
    dir: PathBuf,
    hierarchy: Hierarchy,
}

impl Group {
    /// Makes group `name`, written down in the journal, which also removes it.
    ///
    /// # Errors
    /// The kernel's word.
    pub fn make(
        root: &Root,
        journal: &mut Journal,
        hierarchy: &Hierarchy,
        name: &str,
        limit: Option<Bytes>,
    ) -> Result<Self, Missing> {
        let dir = hierarchy.top.join(name);
        let refused = |what: &Path, error| Missing::new(format!("{}: {error}", what.display()));
        journal.group(&dir).map_err(|error| refused(&dir, error))?;
        fs::create_dir(root.path(&dir)).map_err(|error| refused(&dir, error))?;
        if let Some(limit) = limit {
            let file = dir.join(hierarchy.files().0);
            fs::write(root.path(&file), limit.0.to_string())
                .map_err(|error| refused(&file, error))?;
        }
        Ok(Self {
            root: root.clone(),
            dir,
            hierarchy: hierarchy.clone(),
        })
    }

    /// What a process writes itself into.
    ///
    /// # Errors
    /// Those of open(2).
    pub fn entrance(&self) -> std::io::Result<OwnedFd> {
        let file = self.root.path(self.dir.join("cgroup.procs"));
        Ok(OpenOptions::new().write(true).open(file)?.into())
    }

    /// The processes in it.
    #[must_use]
    pub fn members(&self) -> Vec<i32> {
        members(&self.root, &self.dir)
    }

    /// The most memory it was charged with, as the kernel counts: page cache and page tables included.
    #[must_use]
    pub fn peak(&self) -> Option<u64> {
        self.number(self.hierarchy.files().1)
    }

    /// The compressed pool the group is charged with; `None` where the kernel does not say (version 1).
    #[must_use]
    pub fn pool(&self) -> Option<u64> {
        self.number("memory.zswap.current")
    }

    /// How many processes the kernel killed here for want of memory.
    #[must_use]
    pub fn kills(&self) -> u64 {
        self.field(self.hierarchy.files().2, "oom_kill")
            .unwrap_or(0)
    }

    /// A counter of `memory.stat`.
    #[must_use]
    pub fn counter(&self, name: &str) -> Option<u64> {
        self.field("memory.stat", name)
    }

    fn field(&self, file: &str, name: &str) -> Option<u64> {
        field(&self.root.read(self.dir.join(file)).ok()?, name)
    }

    fn number(&self, file: &str) -> Option<u64> {
        self.root
            .read(self.dir.join(file))
            .ok()?
            .trim()
            .parse()
            .ok()
    }
}

/// The number after `name` on a line of its own.
#[must_use]
pub fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        line.strip_prefix(name)?
            .strip_prefix(' ')?
            .trim()
            .parse()
            .ok()
    })
}

#[cfg(test)]
mod tests {
    use super::super::journal::Keep;
    use super::super::journal::tests::journal;
    use super::super::kernel::fake::Fake;
    use super::*;
    use crate::machine::fake::{machine, write};

    const V1: (&str, &str) = (
        "/proc/self/mountinfo",
        "35 31 0:32 / /cg/memory rw - cgroup cgroup rw,memory\n",
    );
    const V2: (&str, &str) = (
        "/proc/self/mountinfo",
        "35 31 0:32 / /cg rw - cgroup2 cgroup2 rw\n",
    );

    #[test]
    fn version_1_is_limited_and_read_by_its_own_files() {
        let (_dir, root) = machine(&[V1, ("/cg/memory/tasks", "")]);
        let Some(mut journal) = journal(&root) else {
            return;
        };
        let hierarchy = Hierarchy::find(&root, &mut journal).unwrap();
        let limit = Some(Bytes::mib(64));
        let group = Group::make(&root, &mut journal, &hierarchy, "g", limit).unwrap();
        let file = |name: &str| format!("/cg/memory/g/{name}");
        assert_eq!(
            root.read(file("memory.limit_in_bytes")).unwrap(),
            "67108864"
        );
        write(
            &root,
            &file("memory.oom_control"),
            "under_oom 0\noom_kill 2\n",
        );
        write(&root, &file("memory.max_usage_in_bytes"), "5\n");
        write(
            &root,
            &file("memory.stat"),
            "pgmajfault 3\ntotal_pgmajfault 4\n",
        );
        write(&root, &file("cgroup.procs"), "7\n9\n");
        assert_eq!(
            (group.kills(), group.peak(), group.pool()),
            (2, Some(5), None)
        );
        assert_eq!(group.counter("pgmajfault"), Some(3));
        assert_eq!(group.counter("pgmaj"), None);
        assert_eq!(group.members(), [7, 9]);
        let again = Group::make(&root, &mut journal, &hierarchy, "g", None);
        assert!(again.unwrap_err().reason.contains("/cg/memory/g"));
    }

    #[test]
    fn version_2_passes_the_controller_on_and_takes_it_back() {
        let control = "/cg/cgroup.subtree_control";
        let (_dir, root) = machine(&[V2, ("/cg/cgroup.controllers", "memory\n"), (control, "")]);
        let Some(mut journal) = journal(&root) else {
            return;
        };
        let hierarchy = Hierarchy::find(&root, &mut journal).unwrap();
        assert_eq!(hierarchy.version, 2);
        assert_eq!(root.read(control).unwrap(), "+memory");
        let kernel = Fake::default();
        assert!(journal.undo(&kernel, Keep::Bench).is_empty());
        assert_eq!(root.read(control).unwrap(), "+memory", "for all runs");
        assert!(journal.undo(&kernel, Keep::Nothing).is_empty());
        assert_eq!(root.read(control).unwrap(), "-memory");
    }

    #[test]
    fn without_a_hierarchy_the_reason_is_told() {
        let (_dir, root) = machine(&[]);
        let Some(mut journal) = journal(&root) else {
            return;
        };
        let missing = Hierarchy::find(&root, &mut journal).unwrap_err();
        assert!(missing.to_string().contains("no memory cgroup is mounted"));
    }
}
