//! What `neap sim` says of inputs and flags that it cannot use, and of those it can.

use std::fs;
use std::process::{Command, Output};

fn neap_in(dir: &tempfile::TempDir, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_neap"));
    command.current_dir(dir.path()).arg("sim").args(args);
    command.output().unwrap()
}

/// The lines on stderr, after a failure of this status.
fn told(dir: &tempfile::TempDir, args: &[&str], status: i32) -> String {
    let output = neap_in(dir, args);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(status), "{args:?}: {text}");
    text.trim_end().to_owned()
}

/// A directory with `log` of lackey's and the trace `t` made of it.
fn with_trace() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let line = |page: u64| format!("I  1000,4\n S {:x},8\n", page * 4096);
    let lines: String = (0..3000).map(|i| line(i * 7 % 300)).collect();
    fs::write(dir.path().join("log"), lines).unwrap();
    let import = ["import", "--from", "lackey", "log", "-o", "t"];
    assert_eq!(told(&dir, &import, 0).lines().count(), 1);
    dir
}

#[test]
fn a_size_in_a_list_is_named_in_one_line() {
    let dir = with_trace();
    let limits = |list| told(&dir, &["forecast", "t", "--limits", list], 2);
    let empty = "--limits: \"\" is no size: expected a size such as 512M, 1.5G or 50%";
    assert_eq!(limits(""), format!("neap: error[E0207]: {empty}"));
    let foo = "--limits: \"foo\" is no size: expected a digit";
    assert_eq!(limits("50%,foo"), format!("neap: error[E0207]: {foo}"));
}

#[test]
fn a_trace_that_is_not_of_its_version_or_empty_is_told_so() {
    let dir = with_trace();
    let mut bytes = fs::read(dir.path().join("t")).unwrap();
    for (version, what) in [
        (
            2,
            "of a trace of version 2: damaged, or its version is another",
        ),
        (
            7,
            "trace version 7 is not known: this program reads 1 and 2",
        ),
    ] {
        bytes[7] = version;
        fs::write(dir.path().join("v"), &bytes).unwrap();
        let text = told(&dir, &["replay", "v"], 2);
        assert!(text.starts_with("neap: error[E0205]: v: "), "{text}");
        assert!(text.contains(what), "{text}");
    }
    fs::write(dir.path().join("none"), "").unwrap();
    for command in ["replay", "forecast"] {
        let text = told(&dir, &[command, "none"], 2);
        assert!(text.contains("none: the file is empty\n  try: "), "{text}");
    }
    for format in ["lackey", "oracle-general", "record"] {
        let text = told(&dir, &["import", "--from", format, "none", "-o", "x"], 2);
        assert!(text.contains("none: it is empty\n  try: "), "{text}");
    }
}

#[test]
fn a_compressed_recording_is_told_to_be_decompressed() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = [&[0x28, 0xb5, 0x2f, 0xfd][..], &[0; 44]].concat();
    fs::write(dir.path().join("og.zst"), bytes).unwrap();
    let import = ["import", "--from", "oracle-general", "og.zst", "-o", "x"];
    let text = told(&dir, &import, 2);
    let want = "og.zst: it is compressed with zstd\n  try: to decompress it first";
    assert!(text.contains(want), "{text}");
    assert!(!dir.path().join("x").exists());
}

#[test]
fn lines_of_lackey_that_cannot_be_read_are_counted_in_one_warning() {
    let dir = with_trace();
    let mut log = fs::read_to_string(dir.path().join("log")).unwrap();
    log.push_str("==1== done\nhello\n S zz,8\n L 10");
    fs::write(dir.path().join("log"), log).unwrap();
    let import = ["import", "--from", "lackey", "log", "-o", "t"];
    let text = told(&dir, &import, 0);
    let want =
        "neap: warning: log: 2 lines begin as lackey's do and cannot be read: they are left out";
    assert_eq!(text.lines().next(), Some(want));
    assert_eq!(text.lines().count(), 2);
}

#[test]
fn a_trace_is_replayed_with_another_compressor() {
    let dir = with_trace();
    let replay = |more: &[&str]| {
        let args = [&["replay", "t", "-m", "512K", "--zswap", "--json"], more].concat();
        let output = neap_in(&dir, &args);
        assert!(output.status.success(), "{:?}", output.stderr);
        output.stdout
    };
    let (lz4, zstd) = (["--compressor", "lz4"], ["--compressor", "zstd:1"]);
    assert_ne!(replay(&lz4), replay(&zstd));
    assert_ne!(replay(&lz4), replay(&[]));
    let cc1 = replay(&["--compressor", "lz4", "--content", "cc1"]);
    assert_ne!(cc1, replay(&lz4));
    let unknown = ["replay", "t", "--zswap", "--compressor", "zstd:7"];
    let advice = "neap sim fit --compressors zstd:7 makes one for --models";
    assert!(told(&dir, &unknown, 2).contains(advice));
    let alone = told(&dir, &["replay", "t", "--compressor", "lz4"], 2);
    assert!(alone.contains("--zswap"), "{alone}");
}
