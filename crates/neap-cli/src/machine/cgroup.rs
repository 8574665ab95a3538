//! The memory cgroup this process lives in, versions 1 and 2.
//!
//! The limit that counts is the smallest on the way from the own group to the top of what is mounted
//! (cgroup-v2.rst, "memory.max"; memory.c, `page_counter_try_charge` charges every ancestor). In
//! version 2 `memory.high` counts as well: above it the kernel throttles.

use std::path::{Path, PathBuf};

use neap_units::Bytes;

use super::Root;

/// A memory cgroup and the limit in force there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cgroup {
    /// 1 or 2.
    pub version: u8,
    /// The group's directory.
    pub dir: PathBuf,
    /// The smallest limit on the way up; `None` when nothing limits.
    pub limit: Option<Bytes>,
}

/// Version 1 writes "no limit" as the largest number of whole pages in a signed word
/// (page_counter.h, `PAGE_COUNTER_MAX`); anything near it is none.
const V1_NO_LIMIT: u64 = 1 << 62;

/// The cgroup that charges this process's memory. `None` when there is no memory controller.
#[must_use]
pub fn own_memory_cgroup(root: &Root) -> Option<Cgroup> {
    let membership = root.read("/proc/self/cgroup").ok()?;
    let mounts = root.read("/proc/self/mountinfo").ok()?;
    version_1(root, &membership, &mounts).or_else(|| version_2(root, &membership, &mounts))
}

/// Where groups with the memory controller can be made, and the hierarchy's version: the top of what is
/// mounted. `None` when there is no memory controller.
#[must_use]
pub fn memory_hierarchy(root: &Root) -> Option<(PathBuf, u8)> {
    let mounts = root.read("/proc/self/mountinfo").ok()?;
    let mut mounts = mounts.lines().filter_map(Mount::read);
    mounts.find_map(|mount| {
        let point = PathBuf::from(mount.point);
        let memory = |list: &str, separator| list.split(separator).any(|word| word == "memory");
        match mount.kind {
            "cgroup" if memory(mount.super_options, ',') => Some((point, 1)),
            "cgroup2" => {
                let controllers = root.read(point.join("cgroup.controllers")).ok()?;
                memory(controllers.trim(), ' ').then_some((point, 2))
            }
            _ => None,
        }
    })
}

fn version_1(root: &Root, membership: &str, mounts: &str) -> Option<Cgroup> {
    let path = membership.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let controllers = fields.next()?;
        let path = fields.next()?;
        controllers
            .split(',')
            .any(|c| c == "memory")
            .then_some(path)
    })?;
    let mount = mounts.lines().filter_map(Mount::read).find(|m| {
        m.kind == "cgroup" && m.super_options.split(',').any(|option| option == "memory")
    })?;
    let dirs = mount.way_up(root, path);
    let own = dirs.first()?.clone();
    let stat = std::fs::read_to_string(root.path(own.join("memory.stat"))).unwrap_or_default();
    // The kernel walks the ancestors itself here, those outside the mount included.
    let hierarchical = stat
        .lines()
        .find_map(|line| line.strip_prefix("hierarchical_memory_limit "))
        .and_then(|n| n.trim().parse().ok());
    let limit = dirs
        .iter()
        .filter_map(|dir| number(root, &dir.join("memory.limit_in_bytes")))
        .chain(hierarchical)
        .min()
        .filter(|&limit| limit < V1_NO_LIMIT)
        .map(Bytes);
    Some(Cgroup {
        version: 1,
        dir: own,
        limit,
    })
}

fn version_2(root: &Root, membership: &str, mounts: &str) -> Option<Cgroup> {
    let path = membership.lines().find_map(|l| l.strip_prefix("0::"))?;
    let mount = mounts
        .lines()
        .filter_map(Mount::read)
        .find(|m| m.kind == "cgroup2")?;
    let dirs = mount.way_up(root, path);
    let own = dirs.first()?.clone();
    let has_memory = std::fs::read_to_string(root.path(own.join("cgroup.controllers")))
        .is_ok_and(|list| list.split_whitespace().any(|c| c == "memory"));
    let limit = dirs
        .iter()
        .flat_map(|dir| [dir.join("memory.max"), dir.join("memory.high")])
        .filter_map(|file| number(root, &file))
        .min()
        .map(Bytes);
    (has_memory || limit.is_some()).then_some(Cgroup {
        version: 2,
        dir: own,
        limit,
    })
}

/// The number in a limit file; `max` and unreadable files are none.
fn number(root: &Root, file: &Path) -> Option<u64> {
    root.read(file).ok()?.trim().parse().ok()
}

/// One line of /proc/self/mountinfo, as far as needed (proc_pid_mountinfo(5)).
struct Mount<'a> {
    root: &'a str,
    point: &'a str,
    kind: &'a str,
    super_options: &'a str,
}

impl<'a> Mount<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let (left, right) = line.split_once(" - ")?;
        let mut left = left.split(' ').skip(3);
        let mut right = right.split(' ');
        Some(Self {
            root: left.next()?,
            point: left.next()?,
            kind: right.next()?,
            super_options: right.nth(1)?,
        })
    }

    /// The directories from `path`'s group up to the mount point, nearest first. A container may see
    /// the path as on the host while only its own subtree is mounted: then what is mounted is the
    /// nearest group there is.
    fn way_up(&self, root: &Root, path: &str) -> Vec<PathBuf> {
        let top = Path::new(self.point);
        let below = Path::new(path)
            .strip_prefix(self.root)
            .unwrap_or(Path::new(""));
        let mut dir = top.join(below);
        let outside = below
            .components()
            .any(|c| c == std::path::Component::ParentDir);
        if outside || !root.path(&dir).is_dir() {
            dir = top.to_owned();
        }
        dir.ancestors()
            .take_while(|dir| dir.starts_with(top))
            .map(Path::to_owned)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::{machine, write};
    use super::*;

    const V2_MOUNT: &str =
        "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
    const V1_MOUNT: &str = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
        35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
        41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";

    fn limit_of(root: &Root) -> Option<Bytes> {
        own_memory_cgroup(root).expect("a memory cgroup").limit
    }

    #[test]
    fn version_2_takes_the_smallest_limit_on_the_way_up() {
        let (_dir, root) = machine(&[
            ("/proc/self/cgroup", "0::/user.slice/job.scope\n"),
            ("/proc/self/mountinfo", V2_MOUNT),
            (
                "/sys/fs/cgroup/user.slice/job.scope/cgroup.controllers",
                "cpu memory\n",
            ),
            (
                "/sys/fs/cgroup/user.slice/job.scope/memory.max",
                "8589934592\n",
            ),
            ("/sys/fs/cgroup/user.slice/job.scope/memory.high", "max\n"),
            ("/sys/fs/cgroup/user.slice/memory.max", "4294967296\n"),
        ]);
        let group = own_memory_cgroup(&root).unwrap();
        assert_eq!(group.version, 2);
        assert_eq!(group.limit, Some(Bytes::gib(4)));
        assert_eq!(group.dir, Path::new("/sys/fs/cgroup/user.slice/job.scope"));
        write(
            &root,
            "/sys/fs/cgroup/user.slice/job.scope/memory.high",
            "1073741824\n",
        );
        assert_eq!(limit_of(&root), Some(Bytes::gib(1)));
    }

    #[test]
    fn max_everywhere_is_no_limit() {
        let (_dir, root) = machine(&[
            ("/proc/self/cgroup", "0::/a\n"),
            ("/proc/self/mountinfo", V2_MOUNT),
            ("/sys/fs/cgroup/a/cgroup.controllers", "memory\n"),
            ("/sys/fs/cgroup/a/memory.max", "max\n"),
        ]);
        assert_eq!(limit_of(&root), None);
    }

    #[test]
    fn version_2_without_the_memory_controller_is_no_memory_cgroup() {
        let (_dir, root) = machine(&[
            ("/proc/self/cgroup", "0::/\n"),
            ("/proc/self/mountinfo", V2_MOUNT),
            ("/sys/fs/cgroup/cgroup.controllers", "cpu\n"),
        ]);
        assert_eq!(own_memory_cgroup(&root), None);
    }

    #[test]
    fn version_1_is_found_beside_a_version_2_without_controllers() {
        let (_dir, root) = machine(&[
            (
                "/proc/self/cgroup",
                "9:name=systemd:/\n4:cpu,memory:/job/inner\n0::/\n",
            ),
            ("/proc/self/mountinfo", V1_MOUNT),
            (
                "/sys/fs/cgroup/memory/job/inner/memory.limit_in_bytes",
                "9223372036854771712\n",
            ),
            (
                "/sys/fs/cgroup/memory/job/memory.limit_in_bytes",
                "2147483648\n",
            ),
        ]);
        let group = own_memory_cgroup(&root).unwrap();
        assert_eq!((group.version, group.limit), (1, Some(Bytes::gib(2))));
        write(
            &root,
            "/sys/fs/cgroup/memory/job/inner/memory.stat",
            "cache 0\nhierarchical_memory_limit 1073741824\n",
        );
        assert_eq!(limit_of(&root), Some(Bytes::gib(1)));
    }

    #[test]
    fn version_1_without_a_limit_says_so() {
        let (_dir, root) = machine(&[
            ("/proc/self/cgroup", "4:memory:/\n"),
            ("/proc/self/mountinfo", V1_MOUNT),
            (
                "/sys/fs/cgroup/memory/memory.stat",
                "hierarchical_memory_limit 9223372036854771712\n",
            ),
        ]);
        assert_eq!(limit_of(&root), None);
    }

    #[test]
    fn a_container_that_sees_the_hosts_path_uses_what_is_mounted() {
        let (_dir, root) = machine(&[
            ("/proc/self/cgroup", "4:memory:/docker/abc\n"),
            (
                "/proc/self/mountinfo",
                "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
            ),
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912\n"),
        ]);
        assert_eq!(limit_of(&root), Some(Bytes::mib(512)));
    }

    #[test]
    fn groups_are_made_where_the_memory_controller_is_mounted() {
        let mounts = ("/proc/self/mountinfo", V1_MOUNT);
        let (_dir, root) = machine(&[mounts]);
        let found = Some(("/sys/fs/cgroup/memory".into(), 1));
        assert_eq!(memory_hierarchy(&root), found);
        let controllers = "/sys/fs/cgroup/cgroup.controllers";
        let (_dir, root) = machine(&[("/proc/self/mountinfo", V2_MOUNT)]);
        assert_eq!(memory_hierarchy(&root), None);
        write(&root, controllers, "cpu memory pids\n");
        let found = Some(("/sys/fs/cgroup".into(), 2));
        assert_eq!(memory_hierarchy(&root), found);
    }

    #[test]
    fn no_controller_at_all_is_none() {
        let (_dir, root) = machine(&[
            ("/proc/self/cgroup", ""),
            ("/proc/self/mountinfo", V2_MOUNT),
        ]);
        assert_eq!(own_memory_cgroup(&root), None);
    }
}
