//! `make lab`: its guest compiles, its parts do what they say, and without qemu it says what to install. The lab itself
//! needs the network and an hour, and is run by hand.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn found(tool: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let mut all = std::env::split_paths(&path).map(|dir| dir.join(tool));
    all.find(|path| path.is_file())
}

fn said(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr].concat();
    String::from_utf8_lossy(&text).into_owned()
}

/// Python itself: what is on the path may be a script that needs a shell.
fn python() -> Option<PathBuf> {
    let mut command = Command::new(found("python3")?);
    let output = command
        .args(["-c", "import sys; print(sys.executable)"])
        .output();
    let path = PathBuf::from(String::from_utf8(output.ok()?.stdout).ok()?.trim());
    path.is_file().then_some(path)
}

/// A folder that has python3, these tools and no other, or `None` if one is not on this machine.
fn path_of(tools: &[&str]) -> Option<tempfile::TempDir> {
    let dir = tempfile::tempdir().unwrap();
    symlink(python()?, dir.path().join("python3")).unwrap();
    for tool in tools {
        symlink(found(tool)?, dir.path().join(tool)).unwrap();
    }
    Some(dir)
}

#[test]
fn without_qemu_the_lab_says_what_to_install() {
    let tools = ["make", "uname", "cc", "dpkg-deb"];
    let Some(path) = path_of(&tools) else {
        neap_tests::skip(
            "without_qemu_the_lab_says_what_to_install",
            &format!("needs python3, {}", tools.join(", ")),
        );
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new("make")
        .args(["--no-print-directory", "lab"])
        .current_dir(root())
        .env("PATH", path.path())
        .env("CARGO_TARGET_DIR", folder.path())
        .output()
        .unwrap();
    let told = said(&output);
    assert!(!output.status.success(), "{told}");
    for words in [
        "missing: qemu-system-x86_64",
        "apt-get install --no-install-recommends qemu-system-x86",
    ] {
        assert!(told.contains(words), "{told}");
    }
    assert!(
        !folder.path().join("lab").exists(),
        "nothing was begun: {told}"
    );
}

#[test]
fn the_parts_of_the_lab_do_what_they_say() {
    let Some(python) = python() else {
        neap_tests::skip("the_parts_of_the_lab_do_what_they_say", "needs python3");
        return;
    };
    let output = Command::new(python)
        .args(["-B", "-m", "unittest", "-q", "test_lab"])
        .current_dir(root().join("tools/lab"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", said(&output));
}

#[test]
fn the_first_process_of_the_lab_compiles_without_a_warning() {
    let Some(cc) = found("cc") else {
        neap_tests::skip(
            "the_first_process_of_the_lab_compiles_without_a_warning",
            "needs cc",
        );
        return;
    };
    let folder = root().join("tools/lab");
    let sources = std::fs::read_dir(&folder).unwrap();
    let sources = sources.map(|entry| entry.unwrap().path());
    let sources = sources.filter(|path| path.extension().is_some_and(|ext| ext == "c"));
    let output = Command::new(cc)
        .args(["-fsyntax-only", "-Wall", "-Wextra", "-Werror"])
        .args(sources)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", said(&output));
}
