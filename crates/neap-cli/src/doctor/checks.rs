//! The checks themselves. Each tries the thing where it can, and reads about it where it cannot.

use std::fs::File;
use std::path::{Path, PathBuf};

use neap_sys::{Features, Maps, Pagemap};

use super::{Check, Verdict};
use crate::env;
use crate::kernel::{Door, Refused, Userfaultfd, userfaultfd};
use crate::machine::{
    Root, filesystem_of, holds_capability, own_memory_cgroup, ram, transparent_huge_pages,
};
use crate::run::{library, swap, uffd_device};

/// CAP_SYS_PTRACE of linux/capability.h.
const SYS_PTRACE: u32 = 19;

/// Every check, in the order in which a run meets them.
pub fn all(root: &Root, swap_dir: Option<&Path>) -> Vec<Check> {
    let device = uffd_device(&env::own);
    let door = userfaultfd(&device);
    let mut checks = vec![
        library_check(),
        door_check(&door, &device),
        fork_check(&door),
        feature(
            &door,
            "UFFDIO_MOVE",
            Features::MOVE,
            MOVE_LIMIT,
            MOVE_REMEDY,
        ),
        feature(&door, "write protection", Features::WP, WP_LIMIT, WP_REMEDY),
        layout_check(&door),
        pagemap_check(),
        maps_check(),
        yama_check(root),
        io_uring_check(),
        cgroup_check(root),
        thp_check(root),
    ];
    checks.push(swap_check(swap_dir));
    checks
}

const MOVE_LIMIT: &str = "no UFFDIO_MOVE: pages are write-protected, copied and discarded instead";
const MOVE_REMEDY: &str = "Linux 6.8 or later";
const WP_LIMIT: &str = "no write protection: pages that cannot be moved stay where they are";
const WP_REMEDY: &str = "Linux 5.7 or later";

type Found = Result<Userfaultfd, Refused>;

fn check(name: &'static str, verdict: Verdict, detail: impl Into<String>) -> Check {
    Check {
        name,
        verdict,
        detail: detail.into(),
        remedy: None,
    }
}

fn with_remedy(mut check: Check, remedy: impl Into<String>) -> Check {
    check.remedy = Some(remedy.into());
    check
}

fn library_check() -> Check {
    const NAME: &str = "preload library";
    match library() {
        Some(path) => check(NAME, Verdict::Ok, path.display().to_string()),
        None => with_remedy(
            check(
                NAME,
                Verdict::Missing,
                "neither beside neap nor in ../lib/neap",
            ),
            "reinstall neap",
        ),
    }
}

fn door_check(door: &Found, device: &Path) -> Check {
    const NAME: &str = "userfaultfd";
    match door {
        Ok(found) => {
            let how = match found.door {
                Door::Device => format!("by {}", device.display()),
                Door::Syscall => "by system call".to_owned(),
            };
            check(
                NAME,
                Verdict::Ok,
                format!("{how}; faults of the kernel itself are served too"),
            )
        }
        Err(refused) => with_remedy(
            check(NAME, Verdict::Missing, refused.cause()),
            refused.remedy(),
        ),
    }
}

fn unknown(name: &'static str) -> Check {
    check(name, Verdict::Info, "unknown without userfaultfd")
}

fn fork_check(door: &Found) -> Check {
    const NAME: &str = "EVENT_FORK";
    match door {
        Err(_) => unknown(NAME),
        Ok(found) if found.fork => check(NAME, Verdict::Ok, "forked children announce themselves"),
        Ok(_) => with_remedy(
            check(
                NAME,
                Verdict::Limited,
                "no CAP_SYS_PTRACE: each fork first brings every page back",
            ),
            "run as root, or setcap cap_sys_ptrace+ep on the neap binary",
        ),
    }
}

fn feature(
    door: &Found,
    name: &'static str,
    feature: Features,
    without: &str,
    remedy: &str,
) -> Check {
    match door {
        Err(_) => unknown(name),
        Ok(found) if found.features.has(feature) => check(name, Verdict::Ok, "works"),
        Ok(_) => with_remedy(check(name, Verdict::Limited, without), remedy),
    }
}

/// Without these events the engine would keep pages of ranges that the program has given up.
fn layout_check(door: &Found) -> Check {
    const NAME: &str = "layout events";
    match door {
        Err(_) => unknown(NAME),
        Ok(found) if found.features.has(Features::LAYOUT) => check(
            NAME,
            Verdict::Ok,
            "munmap, mremap and madvise are announced",
        ),
        Ok(_) => with_remedy(
            check(
                NAME,
                Verdict::Missing,
                "munmap, mremap or madvise go unnoticed",
            ),
            "Linux 4.14 or later",
        ),
    }
}

fn pagemap_check() -> Check {
    const NAME: &str = "PAGEMAP_SCAN";
    let works = File::open("/proc/self/pagemap").is_ok_and(|file| Pagemap::adopt(file).has_scan());
    match works {
        true => check(NAME, Verdict::Ok, "works"),
        false => with_remedy(
            check(NAME, Verdict::Limited, "pages are looked up one by one"),
            "Linux 6.7 or later",
        ),
    }
}

fn maps_check() -> Check {
    const NAME: &str = "PROCMAP_QUERY";
    let works = File::open("/proc/self/maps").is_ok_and(|file| Maps::adopt(file).has_query());
    match works {
        true => check(NAME, Verdict::Ok, "works"),
        false => with_remedy(
            check(NAME, Verdict::Limited, "mappings are read as text"),
            "Linux 6.11 or later",
        ),
    }
}

/// The engine reads pages of its descendants (process_vm_readv), which Yama may forbid.
fn yama_check(root: &Root) -> Check {
    const NAME: &str = "ptrace scope";
    let Some(scope) = std::fs::read_to_string(root.path("/proc/sys/kernel/yama/ptrace_scope"))
        .ok()
        .and_then(|text| text.trim().parse::<u8>().ok())
    else {
        return check(NAME, Verdict::Ok, "Yama is not there to forbid anything");
    };
    let allowed = scope < 2 || scope == 2 && holds_capability(root, SYS_PTRACE);
    if allowed {
        return check(
            NAME,
            Verdict::Ok,
            format!("{scope}: descendants may be read"),
        );
    }
    with_remedy(
        check(
            NAME,
            Verdict::Missing,
            format!("{scope}: descendants may not be read"),
        ),
        match scope {
            2 => "sysctl kernel.yama.ptrace_scope=1, or CAP_SYS_PTRACE",
            _ => "boot with kernel.yama.ptrace_scope=1: 3 cannot be taken back",
        },
    )
}

fn io_uring_check() -> Check {
    const NAME: &str = "io_uring";
    match io_uring::IoUring::new(2) {
        Ok(_) => check(NAME, Verdict::Ok, "works"),
        Err(error) => with_remedy(
            check(
                NAME,
                Verdict::Limited,
                format!("{error}: the swap file is read and written call by call"),
            ),
            "sysctl kernel.io_uring_disabled=0, and a seccomp profile that allows it",
        ),
    }
}

fn cgroup_check(root: &Root) -> Check {
    const NAME: &str = "memory cgroup";
    let Some(group) = own_memory_cgroup(root) else {
        return check(NAME, Verdict::Info, "none: neap run needs -m");
    };
    let place = format!("version {}, {}", group.version, group.dir.display());
    match group
        .limit
        .filter(|&limit| ram(root).is_none_or(|ram| limit < ram))
    {
        Some(limit) => check(
            NAME,
            Verdict::Info,
            format!("{place}: limit {limit} ({} bytes)", limit.0),
        ),
        None => check(
            NAME,
            Verdict::Info,
            format!("{place}: no limit, so neap run needs -m"),
        ),
    }
}

fn thp_check(root: &Root) -> Check {
    const NAME: &str = "huge pages";
    let policy = transparent_huge_pages(root).unwrap_or_else(|| "not in this kernel".to_owned());
    let detail = match policy.as_str() {
        "always" => "always: fine, but parts of a huge page are split when they leave".to_owned(),
        _ => policy,
    };
    check(NAME, Verdict::Info, detail)
}

fn swap_check(dir: Option<&Path>) -> Check {
    const NAME: &str = "swap directory";
    let usual = swap::usual_dirs(env::own("TMPDIR").map(PathBuf::from));
    let chosen = match dir.map(Path::to_owned) {
        Some(dir) => filesystem_of(&dir).map(|found| (dir, found)),
        None => match swap::first_on_disk(&usual, &swap::inspect_really) {
            Some((dir, found)) => Ok((dir.clone(), found)),
            None => {
                return with_remedy(
                    check(
                        NAME,
                        Verdict::Limited,
                        "no usual directory is on a disk: no swap file",
                    ),
                    "--swap-dir DIR on a local disk",
                );
            }
        },
    };
    let (dir, found) = match chosen {
        Ok(chosen) => chosen,
        Err(error) => {
            return with_remedy(
                check(NAME, Verdict::Missing, error.to_string()),
                "another --swap-dir",
            );
        }
    };
    let detail = format!("{} on {}, {} free", dir.display(), found.name, found.free);
    match found.kind.objection() {
        None => check(NAME, Verdict::Ok, detail),
        Some(why) => with_remedy(
            check(NAME, Verdict::Limited, format!("{detail}: {why}")),
            "--swap-dir DIR on a local disk",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::fake::machine;

    #[test]
    fn yama_forbids_from_scope_two_without_the_capability() {
        let scope = "/proc/sys/kernel/yama/ptrace_scope";
        let status = |caps: &str| format!("CapEff:\t{caps}\n");
        for (value, caps, verdict) in [
            ("0", "0", Verdict::Ok),
            ("1", "0", Verdict::Ok),
            ("2", "80000", Verdict::Ok),
            ("2", "0", Verdict::Missing),
            ("3", "80000", Verdict::Missing),
        ] {
            let status = status(caps);
            let (_dir, root) = machine(&[(scope, value), ("/proc/self/status", &status)]);
            assert_eq!(yama_check(&root).verdict, verdict, "{value} {caps}");
        }
        let (_dir, root) = machine(&[]);
        assert_eq!(yama_check(&root).verdict, Verdict::Ok);
    }

    #[test]
    fn a_cgroup_without_a_limit_asks_for_one() {
        let (_dir, root) = machine(&[]);
        assert!(cgroup_check(&root).detail.contains("-m"));
    }

    #[test]
    fn a_swap_directory_that_is_not_there_is_missing() {
        assert_eq!(
            swap_check(Some(Path::new("/no/such/dir"))).verdict,
            Verdict::Missing
        );
    }

    #[test]
    fn everything_missing_has_a_remedy() {
        for check in all(&Root::real(), None) {
            let bad = matches!(check.verdict, Verdict::Missing | Verdict::Limited);
            assert!(!bad || check.remedy.is_some(), "{check:?}");
        }
    }
}
