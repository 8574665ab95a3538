//! The limit of a job: what the user gave, or what the memory cgroup leaves.

use neap_tuning::TUNING;
use neap_units::{Bytes, Size, parse_size};

use crate::failure::Failure;
use crate::machine::{Cgroup, Root, own_memory_cgroup, ram};

/// A limit and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The limit.
    pub bytes: Bytes,
    /// For `-v`: who said so.
    pub source: String,
    /// It is the memory cgroup's, and goes along with that.
    pub is_cgroups: bool,
    /// One line when the limit cannot protect the program.
    pub warning: Option<String>,
}

/// The limit that `text`, as given by flag or variable `flag`, asks for on this machine.
///
/// # Errors
/// When the text is no size, or no text is given and no cgroup limits.
pub fn limit(root: &Root, flag: &'static str, text: Option<&str>) -> Result<Limit, Failure> {
    let group = own_memory_cgroup(root);
    let mut limit = match text {
        Some(text) => given(root, flag, text, group.as_ref())?,
        None => from_cgroup(root, group)?,
    };
    if limit.bytes < TUNING.limit.least {
        return Err(Failure::LimitTooSmall(limit.bytes, TUNING.limit.least));
    }
    limit.bytes = limit.bytes.min(TUNING.limit.most);
    Ok(limit)
}

fn given(
    root: &Root,
    flag: &'static str,
    text: &str,
    group: Option<&Cgroup>,
) -> Result<Limit, Failure> {
    let bytes = size(root, flag, text)?;
    let warning = group
        .and_then(|group| group.limit)
        .filter(|&cap| bytes > cap)
        .map(|cap| {
            format!(
                "the limit {bytes} is above the memory cgroup's {cap}, at which the kernel kills; try: -m {}",
                less_headroom(cap).0
            )
        });
    Ok(Limit {
        bytes,
        source: format!("{flag} {text}"),
        is_cgroups: false,
        warning,
    })
}

/// What a flag asks for: a size, or a share of RAM.
///
/// # Errors
/// It is none, or nobody knows how much RAM there is.
pub fn size(root: &Root, flag: &'static str, text: &str) -> Result<Bytes, Failure> {
    let size = parse_size(text).map_err(|source| Failure::Size { flag, source })?;
    match size {
        Size::Bytes(bytes) => Ok(bytes),
        Size::Percent(_) => Ok(size.of(ram(root).ok_or(Failure::NoRam)?)),
    }
}

fn from_cgroup(root: &Root, group: Option<Cgroup>) -> Result<Limit, Failure> {
    let group = group.ok_or(Failure::NoLimit("there is no memory cgroup"))?;
    let cap = group
        .limit
        .ok_or(Failure::NoLimit("the memory cgroup sets none"))?;
    if ram(root).is_some_and(|ram| cap >= ram) {
        return Err(Failure::NoLimit("the memory cgroup's is not below RAM"));
    }
    Ok(Limit {
        bytes: less_headroom(cap),
        source: format!("the memory cgroup's {cap} less a headroom"),
        is_cgroups: true,
        warning: None,
    })
}

/// The limit that the memory cgroup leaves just now; `None`: it sets none, or cannot be asked.
#[must_use]
pub fn of_cgroup(root: &Root) -> Option<Bytes> {
    let cap = own_memory_cgroup(root)?.limit?;
    Some(less_headroom(cap).max(TUNING.limit.least))
}

/// `cap` less the headroom, but never less than half of it.
fn less_headroom(cap: Bytes) -> Bytes {
    let headroom = Bytes(TUNING.limit.cgroup_spare_share.of(cap.0)) + TUNING.limit.cgroup_spare;
    cap.saturating_sub(headroom).max(cap / 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::fake::machine;

    const MEMINFO: (&str, &str) = ("/proc/meminfo", "MemTotal:       8388608 kB\n");
    const MOUNT: (&str, &str) = (
        "/proc/self/mountinfo",
        "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
    );
    const MEMBER: (&str, &str) = ("/proc/self/cgroup", "0::/job\n");

    fn capped(max: &str) -> (tempfile::TempDir, Root) {
        machine(&[
            MEMINFO,
            MOUNT,
            MEMBER,
            ("/sys/fs/cgroup/job/cgroup.controllers", "memory\n"),
            ("/sys/fs/cgroup/job/memory.max", max),
        ])
    }

    #[test]
    fn a_given_size_wins_over_everything() {
        let (_dir, root) = capped("max\n");
        let limit = limit(&root, "--memory", Some("1.5G")).unwrap();
        assert_eq!(limit.bytes, Bytes::mib(1536));
        assert_eq!(limit.source, "--memory 1.5G");
        assert_eq!(limit.warning, None);
    }

    #[test]
    fn a_share_is_of_ram() {
        let (_dir, root) = machine(&[MEMINFO]);
        assert_eq!(
            limit(&root, "--memory", Some("25%")).unwrap().bytes,
            Bytes::gib(2)
        );
        let (_dir, root) = machine(&[]);
        assert!(matches!(
            limit(&root, "--memory", Some("25%")),
            Err(Failure::NoRam)
        ));
    }

    #[test]
    fn without_a_size_the_cgroups_limit_less_a_headroom_holds() {
        let (_dir, root) = capped("1073741824\n");
        let limit = limit(&root, "--memory", None).unwrap();
        assert_eq!(limit.bytes, Bytes((1 << 30) - (1 << 30) / 20 - (8 << 20)));
    }

    #[test]
    fn a_small_cgroup_keeps_half() {
        assert_eq!(less_headroom(Bytes::mib(12)), Bytes::mib(6));
    }

    #[test]
    fn with_no_limit_anywhere_the_user_is_told_what_to_give() {
        for max in ["max\n", "99999999999999\n"] {
            let (_dir, root) = capped(max);
            let failure = limit(&root, "--memory", None).unwrap_err();
            assert_eq!(failure.exit(), 125);
            assert!(failure.lines().contains("-m 2G"), "{}", failure.lines());
        }
    }

    #[test]
    fn a_limit_above_the_cgroups_is_warned_of() {
        let (_dir, root) = capped("1073741824\n");
        let limit = limit(&root, "--memory", Some("2G")).unwrap();
        let warning = limit.warning.unwrap();
        assert!(
            warning.contains("above the memory cgroup's 1GiB"),
            "{warning}"
        );
    }

    #[test]
    fn tiny_limits_are_refused() {
        let (_dir, root) = machine(&[]);
        assert!(matches!(
            limit(&root, "--memory", Some("3M")),
            Err(Failure::LimitTooSmall(..))
        ));
    }
}
