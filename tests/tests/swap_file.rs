//! What a program meets when the swap file fails under it: a disk that changes bytes, a disk that is full.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use neap_tests::{Neap, Need, Run, exclusive, paging, program, require, skip};

/// A pool so small that most pages go to the swap file in `dir`.
fn neap(dir: &Path) -> Neap {
    Neap::limit("32M")
        .option("--swap-dir")
        .option(dir)
        .option("--pool-max")
        .option("4")
}

fn hog(mib: &str, rounds: &str) -> Run {
    Run::new([program("hog").as_os_str(), mib.as_ref(), rounds.as_ref()])
}

/// The swap file of process `pid` as a path that opens it: it has no name in `dir`.
fn swap_file(pid: u32, dir: &Path) -> Option<PathBuf> {
    let fds = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let mut paths = fds.flatten().map(|fd| fd.path());
    paths.find(|path| fs::read_link(path).is_ok_and(|to| to.starts_with(dir)))
}

/// Overwrites the swap file once it holds something.
fn spoil(pid: u32, dir: &Path) {
    const ENOUGH: u64 = 1 << 20;
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        assert!(Instant::now() < end, "no swap file, or nothing in it");
        if let Some(path) = swap_file(pid, dir)
            && let Ok(file) = OpenOptions::new().write(true).open(path)
            && let Ok(meta) = file.metadata()
            && meta.len() >= ENOUGH
        {
            let junk = vec![0xa5; 1 << 20];
            for at in (0..meta.len()).step_by(junk.len()) {
                file.write_all_at(&junk, at).expect("the swap file");
            }
            return;
        }
        sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_page_that_the_disk_changed_ends_the_program_with_a_message() {
    let test = "a_page_that_the_disk_changed_ends_the_program_with_a_message";
    if !require(test, &[Need::Neap, Need::Userfaultfd]) {
        return;
    }
    let dir = tempfile::tempdir_in("/var/tmp").expect("a temporary folder");
    let run = neap(dir.path()).run_with(&hog("96", "1000"), |pid| spoil(pid, dir.path()));
    run.must_exit(128 + libc::SIGKILL);
    assert!(
        run.stderr.contains("is lost") && run.stderr.contains("rather than let it read wrong"),
        "{}",
        run.stderr
    );
    assert!(
        !run.stderr.contains("FAIL") && run.stdout.is_empty(),
        "{}{}",
        run.text(),
        run.stderr
    );
}

/// A file system of its own, unmounted when dropped.
struct Tmpfs(tempfile::TempDir);

impl Tmpfs {
    fn new(size: &str) -> Result<Self, String> {
        let dir = tempfile::tempdir().map_err(|e| e.to_string())?;
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", size, "tmpfs"])
            .arg(dir.path())
            .output()
            .map_err(|e| format!("mount: {e}"))?;
        if mount.status.success() {
            Ok(Self(dir))
        } else {
            Err(String::from_utf8_lossy(&mount.stderr).trim().to_owned())
        }
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_costs_no_byte() {
    let test = "a_full_disk_costs_no_byte";
    if !require(test, &[Need::Neap, Need::Userfaultfd, Need::Root]) {
        return;
    }
    let disk = match Tmpfs::new("size=8m") {
        Ok(disk) => disk,
        Err(reason) => return skip(test, &reason),
    };
    let _alone = exclusive();
    let plain = hog("256", "1").go();
    let run = neap(disk.0.path()).run(&hog("256", "1").limit(Duration::from_secs(120)));
    run.must_exit(0);
    assert_eq!(run.text(), plain.text());
    assert!(run.number("/vmstat/zswpwb") > 0, "{}", run.stats);
}

#[test]
fn what_comes_from_the_swap_file_and_does_not_change_is_not_written_again() {
    const MIB: u64 = 160;
    let test = "what_comes_from_the_swap_file_and_does_not_change_is_not_written_again";
    let Some(_alone) = paging(test) else {
        return;
    };
    // It is written once and read twice.
    let noise = program("incompressible");
    let run = Run::new([noise.as_os_str(), MIB.to_string().as_ref()]);
    let run = Neap::limit("64M")
        .option("--swap-size")
        .option("1G")
        .run(&run);
    run.must_exit(0);
    let (read, written) = (run.number("/vmstat/pswpin"), run.number("/vmstat/pswpout"));
    let pages = (MIB << 20) / 4096;
    assert!(
        read > pages && written < pages + pages / 20,
        "{read} pages read, {written} written, of {pages}"
    );
}
