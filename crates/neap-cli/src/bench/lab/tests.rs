//! Preparing a machine, on a directory that stands for it.

use super::super::journal::tests::root_or_skipped;
use super::super::kernel::fake::Fake;
use super::*;
use crate::machine::fake::machine;

const FILES: &[(&str, &str)] = &[
    (
        "/proc/self/mountinfo",
        "35 31 0:32 / /cg/memory rw - cgroup cgroup rw,memory\n",
    ),
    ("/cg/memory/tasks", ""),
    ("/sys/module/zswap/parameters/enabled", "N\n"),
    ("/sys/module/zswap/parameters/compressor", "lzo\n"),
    ("/sys/module/zswap/parameters/shrinker_enabled", "N\n"),
    ("/sys/class/zram-control/hot_add", "5\n"),
    ("/sys/class/zram-control/hot_remove", ""),
    ("/sys/block/zram5/comp_algorithm", "lzo [lzo-rle] lz4\n"),
    ("/sys/block/zram5/disksize", "0\n"),
    ("/dev/zram5", ""),
    ("/swap/x", ""),
];

/// A lab on a machine with `files`; nothing where there can be none, which is said.
#[track_caller]
fn lab(files: &[(&str, &str)]) -> Option<(tempfile::TempDir, Root, Lab)> {
    root_or_skipped().then(|| {
        let (dir, root) = machine(files);
        let lab = Lab::open_with(&root, Some("/swap".into()), Box::new(Fake::default()));
        (dir, root, lab.expect("a lab"))
    })
}

fn parameter(root: &Root, name: &str) -> String {
    root.read(format!("{ZSWAP}/{name}")).unwrap()
}

#[test]
fn zswap_gets_its_best_compressor_and_its_shrinker_and_loses_them_again() {
    let Some((_dir, root, mut lab)) = lab(FILES) else {
        return;
    };
    lab.make_swap([Bytes::mib(1); 2]);
    let backing = lab.prepare(Contender::Zswap).unwrap();
    assert_eq!(backing.compressor.as_deref(), Some("zstd"));
    for (name, value) in [
        ("enabled", "Y"),
        ("shrinker_enabled", "Y"),
        ("compressor", "zstd"),
    ] {
        assert_eq!(parameter(&root, name), value);
    }
    let file = shrinker_file();
    assert_eq!(backing.shrinker(), Some("on"));
    assert_eq!(backing.settings_set()[&file].as_deref(), Some("Y"));
    assert_eq!(lab.disturbed(&backing), None);
    std::fs::write(root.path(format!("{ZSWAP}/enabled")), "N").unwrap();
    let said = lab.disturbed(&backing).expect("a change");
    assert!(said.contains("enabled was Y"), "{said}");
    assert!(lab.tidy().is_empty());
    for (name, value) in [
        ("enabled", "N"),
        ("shrinker_enabled", "N"),
        ("compressor", "lzo"),
    ] {
        assert_eq!(parameter(&root, name), value);
    }
    assert!(lab.close().is_empty());
    assert_eq!(std::fs::read_dir(root.path("/swap")).unwrap().count(), 1);
}

#[test]
fn a_swap_file_is_what_mkswap_makes_and_nobody_else_may_read_it() {
    use std::os::unix::fs::MetadataExt;
    let Some((_dir, root, mut lab)) = lab(FILES) else {
        return;
    };
    lab.make_swap([Bytes::mib(2); 2]);
    let path = lab.swap.clone().unwrap();
    let bytes = std::fs::read(root.path(&path)).unwrap();
    assert_eq!(bytes.len(), 2 << 20);
    assert_eq!(&bytes[4086..4096], SIGNATURE);
    assert_eq!(bytes[1024..1028], 1u32.to_ne_bytes());
    assert_eq!(bytes[1028..1032], 511u32.to_ne_bytes());
    let meta = std::fs::metadata(root.path(&path)).unwrap();
    assert_eq!(meta.mode() & 0o777, 0o600);
    lab.make_swap([Bytes::mib(2); 2]);
    assert!(lab.swap.is_err(), "it is there already");
    assert!(lab.close().is_empty());
}

#[test]
fn zram_gets_a_device_of_its_own_and_no_zswap_before_it() {
    let Some((_dir, root, mut lab)) = lab(FILES) else {
        return;
    };
    std::fs::write(root.path(format!("{ZSWAP}/enabled")), "Y\n").unwrap();
    lab.make_swap([Bytes::mib(1); 2]);
    let backing = lab.prepare(Contender::Zram).unwrap();
    assert_eq!(
        (backing.zram, backing.compressor.as_deref()),
        (Some(5), Some("lz4"))
    );
    assert_eq!(parameter(&root, "enabled"), "N");
    assert_eq!(root.read("/sys/block/zram5/disksize").unwrap(), "1048576");
    assert!(lab.tidy().is_empty());
    assert_eq!(
        root.read("/sys/class/zram-control/hot_remove").unwrap(),
        "5"
    );
    assert_eq!(parameter(&root, "enabled"), "Y");
}

#[test]
fn what_the_kernel_lacks_is_named() {
    let Some((_dir, _root, mut lab)) = lab(&FILES[..2]) else {
        return;
    };
    let why = |missing: Missing| missing.to_string();
    assert!(why(lab.prepare(Contender::Zswap).unwrap_err()).contains("without zswap"));
    assert!(why(lab.prepare(Contender::Zram).unwrap_err()).contains("modprobe zram"));
    assert!(why(lab.prepare(Contender::Swap).unwrap_err()).contains("no swap file"));
    lab.make_swap([Bytes::mib(1); 2]);
    assert!(why(lab.prepare(Contender::Swap).unwrap_err()).contains("/swap/neap-bench-"));
    assert!(lab.close().is_empty());
}

#[test]
fn the_best_algorithm_is_the_densest() {
    assert_eq!(best_of("[lzo-rle] lzo lz4 zstd"), Some("zstd"));
    assert_eq!(best_of("lzo [lzo-rle]"), Some("lzo-rle"));
    assert_eq!(best_of("842"), None);
}

#[test]
fn a_panic_leaves_the_machine_as_it_was() {
    let Some((_dir, root, mut lab)) = lab(FILES) else {
        return;
    };
    lab.make_swap([Bytes::mib(1); 2]);
    let mut backing = Backing::default();
    lab.set(&mut backing, format!("{ZSWAP}/enabled"), "Y")
        .unwrap();
    assert_eq!(parameter(&root, "enabled"), "Y");
    clean_in_panic(&root);
    let panicked = std::panic::catch_unwind(|| panic!("as a test"));
    drop(std::panic::take_hook());
    assert!(panicked.is_err());
    assert_eq!(parameter(&root, "enabled"), "N");
    assert_eq!(std::fs::read_dir(root.path("/swap")).unwrap().count(), 1);
    assert!(!root.path("/run/neap-bench/journal.json").exists());
}

#[test]
fn a_kernel_without_a_shrinker_is_named() {
    let Some((_dir, root, mut lab)) = lab(FILES) else {
        return;
    };
    std::fs::remove_file(root.path(shrinker_file())).unwrap();
    lab.make_swap([Bytes::mib(1); 2]);
    let backing = lab.prepare(Contender::Zswap).unwrap();
    assert_eq!(backing.shrinker(), Some("not in this kernel"));
    assert_eq!(backing.settings_set()[&shrinker_file()], None);
    assert!(lab.close().is_empty());
}

#[test]
fn without_a_swap_file_zram_is_still_to_be_had() {
    let Some((_dir, root, mut lab)) = lab(FILES) else {
        return;
    };
    lab.dir = None;
    lab.make_swap([Bytes::mib(2), Bytes::mib(1)]);
    for contender in [Contender::Swap, Contender::Zswap] {
        let missing = lab.prepare(contender).unwrap_err().to_string();
        assert!(
            missing.contains("no directory for a swap file"),
            "{missing}"
        );
    }
    assert_eq!(lab.prepare(Contender::Zram).unwrap().zram, Some(5));
    // As large as can be, for no disk bounds it.
    assert_eq!(root.read("/sys/block/zram5/disksize").unwrap(), "2097152");
    assert!(lab.close().is_empty());
}

#[test]
fn a_swap_file_that_is_too_large_is_tried_smaller() {
    let Some((_dir, root, mut lab)) = lab(FILES) else {
        return;
    };
    lab.make_swap([Bytes(1 << 62), Bytes::mib(1)]);
    let file = root.path(lab.swap.clone().unwrap());
    assert_eq!(std::fs::metadata(file).unwrap().len(), 1 << 20);
    assert!(lab.close().is_empty());
}

#[test]
fn a_swap_file_leaves_room_on_its_disk() {
    let Some((_dir, root, mut lab)) = lab(FILES) else {
        return;
    };
    let free = filesystem_of(&root.path("/swap")).unwrap().free;
    lab.make_swap([free; 2]);
    let missing = lab.swap.clone().unwrap_err().to_string();
    assert!(
        missing.contains("leaves less than 64MiB of the"),
        "{missing}"
    );
    assert!(!root.path("/run/neap-bench/journal.json").exists());
    assert!(lab.close().is_empty());
}
