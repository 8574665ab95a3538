//! Cleaning up, on a directory that stands for the machine.

use std::io::Write;

use super::super::kernel::fake::Fake;
use super::*;
use crate::machine::fake::{machine, write};

const ENABLED: &str = "/sys/module/zswap/parameters/enabled";
const COMPRESSOR: &str = "/sys/module/zswap/parameters/compressor";
const GROUP: &str = "/sys/fs/cgroup/memory/neap-bench-1-0";
const FILES: &[(&str, &str)] = &[
    (BOOT_ID, "boot-1\n"),
    (ENABLED, "N\n"),
    (COMPRESSOR, "lzo\n"),
    ("/sys/class/zram-control/hot_remove", ""),
    ("/sys/block/zram3/reset", "0\n"),
    ("/var/tmp/neap-bench-1.swap", "pages"),
    (
        "/sys/fs/cgroup/memory/neap-bench-1-0/cgroup.procs",
        "41\n42\n",
    ),
];

/// Whether this is root, for nobody else has a journal; says which test is skipped if not, past the harness's
/// capture, where `make test` counts it.
#[track_caller]
pub fn root_or_skipped() -> bool {
    let is_root = geteuid().is_root();
    if !is_root {
        let thread = std::thread::current();
        // Where tests have no threads of their own, that is the main one.
        let name = thread.name().filter(|name| *name != "main");
        let place = std::panic::Location::caller().to_string();
        let line = format!("SKIP {}: not root\n", name.unwrap_or(&place));
        let _ = std::io::stderr().lock().write_all(line.as_bytes()); // `eprint!` is captured
    }
    is_root
}

/// A new journal; nothing where there can be none, which is said.
#[track_caller]
pub fn journal(root: &Root) -> Option<Journal> {
    root_or_skipped().then(|| {
        let (journal, left) = Journal::open(root, &Fake::default()).expect("a journal");
        assert_eq!(left, None, "nothing was left");
        journal
    })
}

/// The same on a machine with [`FILES`].
#[track_caller]
fn opened() -> Option<(tempfile::TempDir, Root, Journal)> {
    let (dir, root) = machine(FILES);
    let journal = journal(&root)?;
    Some((dir, root, journal))
}

fn change_everything(journal: &mut Journal, kernel: &Fake) {
    journal.group(Path::new(GROUP)).unwrap();
    journal
        .file(Path::new("/var/tmp/neap-bench-1.swap"))
        .unwrap();
    for swap in ["/var/tmp/neap-bench-1.swap", "/dev/zram3"] {
        journal.swap(Path::new(swap)).unwrap();
        kernel.swap_on(&journal.root.path(swap), 1).unwrap();
    }
    journal.zram(3).unwrap();
    journal.set(ENABLED, "Y").unwrap();
    journal.set(COMPRESSOR, "zstd").unwrap();
    journal.set(COMPRESSOR, "lz4").unwrap();
}

fn assert_clean(root: &Root, kernel: &Fake) {
    assert!(kernel.swaps.borrow().is_empty());
    assert_eq!(root.read(ENABLED).unwrap(), "N");
    assert_eq!(root.read(COMPRESSOR).unwrap(), "lzo");
    assert!(!root.path("/var/tmp/neap-bench-1.swap").exists());
    assert!(!root.path(GROUP).exists());
    assert!(!root.path(FILE).exists());
    assert_eq!(root.read("/sys/block/zram3/reset").unwrap(), "1");
    let removed = root.read("/sys/class/zram-control/hot_remove");
    assert_eq!(removed.unwrap(), "3");
}

#[test]
fn everything_is_undone_at_the_end() {
    let Some((_dir, root, mut journal)) = opened() else {
        return;
    };
    let kernel = Fake::default();
    change_everything(&mut journal, &kernel);
    assert_eq!(root.read(COMPRESSOR).unwrap(), "lz4");
    assert!(journal.undo(&kernel, Keep::Nothing).is_empty());
    assert_clean(&root, &kernel);
    let calls = kernel.calls.borrow();
    let at = |call: &str| calls.iter().position(|c| c == call).expect("it was called");
    assert!(at("kill 42") < at("rmdir neap-bench-1-0"));
    assert!(at("rmdir neap-bench-1-0") < at("swapoff zram3"));
}

#[test]
fn the_next_start_undoes_what_a_killed_one_left() {
    let Some((_dir, root, mut first)) = opened() else {
        return;
    };
    let kernel = Fake::default();
    change_everything(&mut first, &kernel);
    let refused = Journal::open(&root, &kernel).expect_err("one at a time");
    assert!(refused.to_string().contains("at work"), "{refused}");
    drop(first);
    let (second, faults) = Journal::open(&root, &kernel).expect("the lock ended with its holder");
    assert_eq!(faults, Some(vec![]));
    assert_clean(&root, &kernel);
    assert!(second.left.is_empty());
}

#[test]
fn a_panic_undoes_by_the_journal_alone() {
    let Some((_dir, root, mut journal)) = opened() else {
        return;
    };
    let kernel = Fake::default();
    change_everything(&mut journal, &kernel);
    assert_eq!(sweep(&root, &kernel), Some(vec![]));
    assert_clean(&root, &kernel);
    assert_eq!(sweep(&root, &kernel), None);
}

#[test]
fn after_a_boot_only_the_files_are_still_ours() {
    let Some((_dir, root, mut journal)) = opened() else {
        return;
    };
    let kernel = Fake::default();
    change_everything(&mut journal, &kernel);
    write(&root, BOOT_ID, "boot-2\n");
    // The settings and the device of the same number are now somebody else's.
    let before = kernel.calls.borrow().len();
    assert_eq!(sweep(&root, &kernel), Some(vec![]));
    assert_eq!(kernel.calls.borrow().len(), before);
    assert_eq!(root.read(COMPRESSOR).unwrap(), "lz4");
    assert!(!root.path("/var/tmp/neap-bench-1.swap").exists());
}

#[test]
fn what_fails_is_told_and_stays_in_the_journal() {
    let Some((_dir, root, mut journal)) = opened() else {
        return;
    };
    let mut kernel = Fake {
        sticky: true,
        ..Fake::default()
    };
    change_everything(&mut journal, &kernel);
    let faults = journal.undo(&kernel, Keep::Nothing);
    assert_eq!(faults.len(), 3, "{faults:?}");
    assert!(faults[0].contains("no memory"), "{faults:?}");
    // The kernel still swaps there, so the file keeps its name.
    assert!(root.path("/var/tmp/neap-bench-1.swap").exists());
    assert_eq!(root.read(ENABLED).unwrap(), "N", "the rest is undone");
    kernel.sticky = false;
    assert!(journal.undo(&kernel, Keep::Nothing).is_empty());
    assert_clean(&root, &kernel);
}

#[test]
fn between_runs_the_swap_file_stays() {
    let Some((_dir, root, mut journal)) = opened() else {
        return;
    };
    let kernel = Fake::default();
    change_everything(&mut journal, &kernel);
    assert!(journal.undo(&kernel, Keep::Bench).is_empty());
    assert!(root.path("/var/tmp/neap-bench-1.swap").exists());
    assert!(root.path(FILE).exists(), "and is still known");
    assert!(journal.undo(&kernel, Keep::Nothing).is_empty());
    assert_clean(&root, &kernel);
}

#[test]
fn a_setting_that_has_its_value_is_not_touched() {
    let Some((_dir, _root, mut journal)) = opened() else {
        return;
    };
    journal.set(ENABLED, "N").unwrap();
    assert!(journal.left.is_empty());
    assert!(
        journal
            .set("/sys/module/zswap/parameters/none", "Y")
            .is_err()
    );
}

#[test]
fn a_journal_that_makes_no_sense_is_told_and_not_acted_on() {
    let (_dir, root) = machine(&[(FILE, "{\"files\":7}")]);
    let faults = sweep(&root, &Fake::default()).expect("there is one");
    assert!(faults[0].contains("cannot be understood"), "{faults:?}");
}

#[test]
fn what_an_interrupted_bench_left_is_told_unless_one_is_at_work() {
    let (_dir, root) = machine(&[(BOOT_ID, "one\n")]);
    assert_eq!(left_behind(&root), None);
    let text = r#"{"boot":"one","swaps":["/s/a.swap"],"zrams":[3],"files":["/s/a.swap"],
        "settings":[{"file":"/sys/x","before":"N"}]}"#;
    write(&root, FILE, text);
    let all = "swap area /s/a.swap, device zram3, /sys/x (before: N), file /s/a.swap";
    assert_eq!(left_behind(&root).as_deref(), Some(all));
    write(&root, LOCK, "");
    assert_eq!(left_behind(&root).as_deref(), Some(all));
    let lock = File::open(root.path(LOCK)).unwrap();
    lock.lock().unwrap();
    assert_eq!(left_behind(&root), None);
    drop(lock);
    write(&root, BOOT_ID, "two\n");
    assert_eq!(left_behind(&root).as_deref(), Some("file /s/a.swap"));
    let text = r#"{"boot":"one","zrams":[3]}"#;
    write(&root, FILE, text);
    assert_eq!(left_behind(&root), None, "of another boot, and no file");
}

#[test]
fn who_only_reads_the_journal_is_no_bench_at_work() {
    if !root_or_skipped() {
        return;
    }
    let (_dir, root) = machine(&[(BOOT_ID, "one\n"), (LOCK, "")]);
    let reader = File::open(root.path(LOCK)).unwrap();
    reader.lock_shared().unwrap();
    let kernel = Fake::default();
    kernel.held.replace(Some(reader));
    assert!(Journal::open(&root, &kernel).is_ok());
}
