//! A memory cgroup of our own with a hard limit and no swap, of either version; removed when dropped.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::Duration;

use crate::process::kill;

static NEXT: AtomicU32 = AtomicU32::new(0);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// The cgroup.
#[derive(Debug)]
pub struct MemoryGroup {
    dir: PathBuf,
    version: Version,
}

/// Where the memory controller is mounted.
fn mounted() -> Option<(PathBuf, Version)> {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    for line in mounts.lines() {
        let mut words = line.split(' ').skip(1);
        let (Some(dir), Some(kind), Some(options)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        let dir = PathBuf::from(dir);
        if kind == "cgroup" && options.split(',').any(|o| o == "memory") {
            return Some((dir, Version::One));
        }
        let has = |file: &str| {
            let names = fs::read_to_string(dir.join(file)).unwrap_or_default();
            names.split_whitespace().any(|n| n == "memory")
        };
        if kind == "cgroup2" && has("cgroup.controllers") {
            if !has("cgroup.subtree_control") {
                // Refused where the root is not ours to change; then there is no group for us.
                let _ = fs::write(dir.join("cgroup.subtree_control"), "+memory");
            }
            if has("cgroup.subtree_control") {
                return Some((dir, Version::Two));
            }
        }
    }
    None
}

/// Why no group can be made here; `None` if one can.
pub(crate) fn unavailable() -> Option<String> {
    MemoryGroup::new(64 << 20).err()
}

impl MemoryGroup {
    /// A group that may use `limit` bytes of memory, and no swap.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn new(limit: u64) -> Result<Self, String> {
        let (root, version) = mounted().ok_or("no memory cgroup is mounted")?;
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = root.join(format!("neap-test-{}-{n}", std::process::id()));
        fs::create_dir(&dir).map_err(|e| format!("creating {}: {e}", dir.display()))?;
        let group = MemoryGroup { dir, version };
        let limit = limit.to_string();
        match version {
            Version::One => {
                group.write("memory.limit_in_bytes", &limit)?;
                // Only where swap is accounted; without swap there is nothing to forbid.
                let _ = group.write("memory.memsw.limit_in_bytes", &limit);
                let _ = group.write("memory.swappiness", "0");
            }
            Version::Two => {
                group.write("memory.max", &limit)?;
                let _ = group.write("memory.swap.max", "0");
            }
        }
        Ok(group)
    }

    /// Moves the limit.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn set_limit(&self, limit: u64) -> Result<(), String> {
        let limit = limit.to_string();
        let Version::One = self.version else {
            return self.write("memory.max", &limit);
        };
        // That of memory and swap, where there is one, may never be the smaller one.
        let _ = self.write("memory.memsw.limit_in_bytes", &limit);
        self.write("memory.limit_in_bytes", &limit)?;
        let _ = self.write("memory.memsw.limit_in_bytes", &limit);
        Ok(())
    }

    fn write(&self, file: &str, value: &str) -> Result<(), String> {
        let path = self.dir.join(file);
        fs::write(&path, value).map_err(|e| format!("writing {value} to {}: {e}", path.display()))
    }

    /// Words that make the command after them run in this group.
    #[must_use]
    pub fn enter(&self) -> Vec<OsString> {
        let script = "echo $$ > \"$0\" && exec \"$@\"";
        vec![
            "sh".into(),
            "-c".into(),
            script.into(),
            self.dir.join("cgroup.procs").into(),
        ]
    }

    /// The most memory the group ever used, in bytes, where the kernel says it.
    #[must_use]
    pub fn peak(&self) -> Option<u64> {
        let file = match self.version {
            Version::One => "memory.max_usage_in_bytes",
            Version::Two => "memory.peak",
        };
        number(&self.dir.join(file))
    }

    /// Anonymous memory of the group now, in bytes.
    #[must_use]
    pub fn anonymous(&self) -> Option<u64> {
        let name = match self.version {
            Version::One => "rss ",
            Version::Two => "anon ",
        };
        let text = fs::read_to_string(self.dir.join("memory.stat")).ok()?;
        let mut lines = text.lines();
        lines.find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
    }

    /// How many processes the kernel killed here for want of memory.
    #[must_use]
    pub fn killed(&self) -> u64 {
        let file = match self.version {
            Version::One => "memory.oom_control",
            Version::Two => "memory.events",
        };
        let text = fs::read_to_string(self.dir.join(file)).unwrap_or_default();
        let count = text
            .lines()
            .find_map(|l| l.strip_prefix("oom_kill ")?.trim().parse().ok());
        count.unwrap_or(0)
    }
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        for _ in 0..100 {
            let pids = fs::read_to_string(self.dir.join("cgroup.procs")).unwrap_or_default();
            kill(
                &pids
                    .split_whitespace()
                    .filter_map(|p| p.parse().ok())
                    .collect::<Vec<u32>>(),
            );
            if fs::remove_dir(&self.dir).is_ok() || !self.dir.exists() {
                return;
            }
            sleep(Duration::from_millis(20));
        }
    }
}
