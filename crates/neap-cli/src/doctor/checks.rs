//! The checks themselves. Each tries the thing where it can, and reads about it where it cannot.

use std::path::{Path, PathBuf};

use neap_tuning::TUNING;
use neap_units::Bytes;
use rustix::process::{Resource, getrlimit};

use super::{Check, Verdict};
use crate::machine::{Root, own_memory_cgroup, ram, transparent_huge_pages};
use crate::run::engine::{NO_PROC, has_proc};
use crate::run::library::{self, Library};
use crate::run::{NO_PLACE, swap};
use crate::{bench, env};

/// Every check, in the order in which a run meets them.
pub fn all(root: &Root, swap_dir: Option<&Path>) -> Vec<Check> {
    if !has_proc() {
        let (why, remedy) = NO_PROC;
        return vec![with_remedy(check("/proc", Verdict::Missing, why), remedy)];
    }
    let mut checks = vec![library_check()];
    checks.extend(neap_engine::probe().checks.into_iter().map(of_engine));
    checks.extend([
        room_check(
            "address space",
            getrlimit(Resource::As).current,
            "ulimit -v unlimited",
        ),
        room_check(
            "data segment",
            getrlimit(Resource::Data).current,
            "ulimit -d unlimited",
        ),
        mappings_check(root),
        descriptors_check(getrlimit(Resource::Nofile).maximum),
        io_uring_check(),
        cgroup_check(root),
        thp_check(root),
        swap_check(swap::named(swap_dir, &env::own).as_ref()),
    ]);
    checks.extend(bench_check(root));
    checks
}

/// A check of the engine: what it can do without only makes it slower.
fn of_engine(found: neap_engine::Check) -> Check {
    Check {
        name: found.name,
        verdict: match (found.ok, found.optional) {
            (true, _) => Verdict::Ok,
            (false, true) => Verdict::Limited,
            (false, false) => Verdict::Missing,
        },
        detail: found.detail,
        remedy: (!found.remedy.is_empty()).then_some(found.remedy),
    }
}

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
    match Library::place(&library::usual_folders(&env::own)) {
        Ok(library) if library.is_in_a_folder() => check(
            NAME,
            Verdict::Ok,
            format!("carried by neap, put into {}", folder_of(&library)),
        ),
        Ok(_) => with_remedy(
            check(
                NAME,
                Verdict::Limited,
                "no usual folder may hold code (noexec, read-only or not private), so it is in memory: not for programs of \
                 another user or in another pid namespace",
            ),
            "TMPDIR=DIR on a file system without noexec",
        ),
        Err(error) => with_remedy(
            check(NAME, Verdict::Missing, format!("{NO_PLACE}: {error}")),
            "TMPDIR=DIR on a file system without noexec",
        ),
    }
}

/// The folder that the run's own is in.
fn folder_of(library: &Library) -> String {
    let folder = library.path().ancestors().nth(2);
    folder.map_or_else(String::new, |dir| dir.display().to_string())
}

/// `ulimit -v` counts what is mapped, used or not, and `ulimit -d` what of that may be written and is private. `limit`:
/// bytes, `None` for no limit.
fn room_check(name: &'static str, limit: Option<u64>, remedy: &str) -> Check {
    match limit {
        Some(limit) if limit < TUNING.command.enough_addresses.0 => with_remedy(
            check(
                name,
                Verdict::Limited,
                format!(
                    "{}: neap may not find room for its own mappings, nor for {} in each process",
                    Bytes(limit),
                    TUNING.agents.stage
                ),
            ),
            remedy,
        ),
        Some(limit) => check(name, Verdict::Ok, Bytes(limit).to_string()),
        None => check(name, Verdict::Ok, "not limited"),
    }
}

/// The kernel lets a process have this many; memory of which parts are registered or were protected takes more.
fn mappings_check(root: &Root) -> Check {
    const NAME: &str = "mappings";
    /// `DEFAULT_MAX_MAP_COUNT` of linux/mm.h.
    const USUAL: u64 = 65_530;
    let most = root.read("/proc/sys/vm/max_map_count").ok();
    match most.and_then(|text| text.trim().parse::<u64>().ok()) {
        Some(most) if most < USUAL => with_remedy(
            check(
                NAME,
                Verdict::Limited,
                format!(
                    "up to {most} a process, fewer than usual: memory of programs with many stays in them"
                ),
            ),
            format!("sysctl vm.max_map_count={USUAL}"),
        ),
        Some(most) => check(NAME, Verdict::Ok, format!("up to {most} a process")),
        None => check(NAME, Verdict::Info, "vm.max_map_count cannot be read"),
    }
}

/// neap raises its own limit to the most that it may have.
fn descriptors_check(most: Option<u64>) -> Check {
    const NAME: &str = "open files";
    match most {
        Some(most) if most < TUNING.command.enough_files => with_remedy(
            check(
                NAME,
                Verdict::Limited,
                format!("{most}: enough for a job of a few processes only, each takes several"),
            ),
            "ulimit -Hn 4096, as root, or LimitNOFILE= of the service",
        ),
        Some(most) => check(NAME, Verdict::Ok, format!("up to {most}")),
        None => check(NAME, Verdict::Ok, "not limited"),
    }
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

/// Only where there is something to say: settings that stay changed slow down all that swaps.
fn bench_check(root: &Root) -> Option<Check> {
    let left = bench::left_behind(root)?;
    let detail = format!("an interrupted neap bench left {left}");
    Some(with_remedy(
        check("earlier bench", Verdict::Limited, detail),
        "neap bench as root, for example `neap bench -m 16M --runs 1 -- true`: it first restores all of it",
    ))
}

/// The directory that `neap run` would take.
fn swap_check(named: Option<&swap::Named>) -> Check {
    const NAME: &str = "swap directory";
    let usual = swap::usual_dirs(env::own("TMPDIR").map(PathBuf::from));
    let chosen = match named {
        Some(named) => swap::inspect_really(&named.dir).map(|found| (&named.dir, found)),
        None => match swap::first_on_disk(&usual, &swap::inspect_really) {
            Some(chosen) => Ok(chosen),
            None => {
                let none = "no usual directory is on a disk, has room and lets a file be made: no swap file";
                return with_remedy(
                    check(NAME, Verdict::Limited, none),
                    "--swap-dir DIR on a local disk",
                );
            }
        },
    };
    let by = named.map_or_else(String::new, |named| {
        format!("{} {}: ", named.by, named.dir.display())
    });
    let (dir, found) = match chosen {
        Ok(chosen) => chosen,
        Err(error) => {
            return with_remedy(
                check(NAME, Verdict::Missing, format!("{by}{error}")),
                "another --swap-dir",
            );
        }
    };
    let detail = format!("{} on {}, {} free", dir.display(), found.name, found.free);
    match swap::objection(&found) {
        None => check(NAME, Verdict::Ok, detail),
        Some(why) => with_remedy(
            check(NAME, Verdict::Limited, format!("{detail}: {why}")),
            "--swap-dir DIR on a local disk with room",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::fake::machine;

    #[test]
    fn a_cgroup_without_a_limit_asks_for_one() {
        let (_dir, root) = machine(&[]);
        assert!(cgroup_check(&root).detail.contains("-m"));
    }

    #[test]
    fn what_a_bench_left_is_told_with_what_restores_it() {
        let (_dir, root) = machine(&[]);
        assert_eq!(bench_check(&root), None);
        let journal = r#"{"settings":[{"file":"/sys/x","before":"N"}]}"#;
        let (_dir, root) = machine(&[("/run/neap-bench/journal.json", journal)]);
        let check = bench_check(&root).unwrap();
        assert_eq!(check.verdict, Verdict::Limited);
        assert!(check.detail.ends_with("left /sys/x (before: N)"));
        assert!(check.remedy.unwrap().starts_with("neap bench as root"));
    }

    #[test]
    fn limits_of_the_shell_are_seen() {
        let room = |limit| room_check("data segment", limit, "ulimit -d unlimited");
        assert_eq!(room(None).verdict, Verdict::Ok);
        assert_eq!(room(Some(8 << 30)).verdict, Verdict::Ok);
        assert_eq!(room(Some(1 << 30)).verdict, Verdict::Limited);
        for (most, verdict) in [("65530", Verdict::Ok), ("4096", Verdict::Limited)] {
            let (_dir, root) = machine(&[("/proc/sys/vm/max_map_count", most)]);
            assert_eq!(mappings_check(&root).verdict, verdict);
        }
        assert_eq!(descriptors_check(Some(1024)).verdict, Verdict::Ok);
        assert_eq!(descriptors_check(Some(64)).verdict, Verdict::Limited);
    }

    #[test]
    fn a_swap_directory_that_is_not_there_is_missing() {
        for dir in ["/no/such/dir", "/proc"] {
            let by = "--swap-dir";
            let named = swap::Named {
                by,
                dir: dir.into(),
            };
            let found = swap_check(Some(&named));
            assert_eq!(found.verdict, Verdict::Missing);
            assert!(found.detail.starts_with(&format!("{by} {dir}: ")));
        }
    }

    #[test]
    fn everything_missing_has_a_remedy() {
        for check in all(&Root::real(), None) {
            let bad = matches!(check.verdict, Verdict::Missing | Verdict::Limited);
            assert!(!bad || check.remedy.is_some(), "{check:?}");
        }
    }
}
