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
    assert_eq!(limits("8M,foo"), format!("neap: error[E0207]: {foo}"));
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
    for (tool, magic) in [
        ("zstd", &[0x28, 0xb5, 0x2f, 0xfd][..]),
        ("gzip", &[0x1f, 0x8b, 8, 0]),
        ("xz", &[0xfd, b'7', b'z', b'X', b'Z', 0]),
    ] {
        let bytes = [magic, &[0; 48]].concat();
        fs::write(dir.path().join("og"), &bytes[..48]).unwrap();
        let import = ["import", "--from", "oracle-general", "og", "-o", "x"];
        let text = told(&dir, &import, 2);
        let is = format!("og: it is compressed with {tool}\n");
        let remedy =
            format!("  try: to decompress it first, or {tool} -dc FILE | neap sim import ");
        assert!(text.contains(&(is + &remedy)), "{text}");
        assert!(!dir.path().join("x").exists());
    }
}

#[test]
fn records_of_another_format_are_known_by_their_next_use() {
    let dir = tempfile::tempdir().unwrap();
    // Four numbers of eight bytes in each record, as other tools write them.
    let other: Vec<u8> = (0..6u64)
        .flat_map(|i| [i, 4096 * i, 4096, 1].map(u64::to_le_bytes))
        .flatten()
        .collect();
    fs::write(dir.path().join("og"), other).unwrap();
    let import = ["import", "--from", "oracle-general", "og", "-o", "x"];
    let text = told(&dir, &import, 2);
    let want = "og: record 3 says that its object is used next at record 2: that cannot be\n  try: --from with";
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

#[test]
fn a_scale_that_an_experiment_does_not_have_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let scale = |name, scale| told(&dir, &["experiment", name, "--scale", scale], 2);
    assert_eq!(
        scale("mthp-store", "0.0001"),
        "neap: error[E0203]: mthp-store has no scale 0.0001: write a number from 0.002 to 16"
    );
    for wrong in ["-1", "0", "nan"] {
        let want = "neap: error[E0207]: --scale: write a number from 0.0001 to 16";
        assert_eq!(scale("recency", wrong), want);
    }
}

#[test]
fn an_object_that_is_cut_is_told_of() {
    let dir = tempfile::tempdir().unwrap();
    let object = |object: u64, size: u32| {
        let mut bytes = 1u32.to_le_bytes().to_vec();
        bytes.extend(object.to_le_bytes());
        bytes.extend(size.to_le_bytes());
        bytes.extend((-1i64).to_le_bytes());
        bytes
    };
    fs::write(
        dir.path().join("og"),
        [object(1, 5000), object(2, 1 << 30)].concat(),
    )
    .unwrap();
    let import = ["import", "--from", "oracle-general", "og", "-o", "t"];
    let text = told(&dir, &import, 0);
    let want = "neap: warning: og: objects of more than 2 MiB are cut to that: 1";
    assert_eq!(text.lines().next(), Some(want));
    let text = told(&dir, &[&import[..], &["--window", "1ms"]].concat(), 2);
    let want = "--window, --window-pages and --thousand-instructions: are of lackey";
    assert!(text.contains(want), "{text}");
}

#[test]
fn flags_that_would_do_nothing_are_refused() {
    let dir = with_trace();
    // A record in which nothing was asked.
    fs::write(dir.path().join("r"), b"NEAPREC\x02\x00").unwrap();
    let refused = |args: &[&str], what: &str| {
        let text = told(&dir, args, 2);
        assert!(text.starts_with("neap: error[E0207]: "), "{text}");
        assert!(text.contains(what) && text.lines().count() == 1, "{text}");
    };
    for flag in [
        &["--pool-max", "10"][..],
        &["--cpus", "1"],
        &["--compressor", "lz4"],
        &["--zswap", "--compressor", "lz4"],
    ] {
        let forecast = [&["forecast", "t", "--kernel", "6.12"], flag].concat();
        refused(&forecast, "--no-swap: are of neap run: leave --kernel out");
    }
    for flag in [
        &["--kernel", "6.1"][..],
        &["--zswap"],
        &["--zswap", "--compressor", "lz4"],
        &["--mglru"],
        &["--swap-size", "1G"],
        &["--swap-latency", "1ms"],
        &["--seed", "2"],
    ] {
        let replay = [&["replay", "r"], flag].concat();
        refused(&replay, "add -m SIZE to run it as a trace");
    }
    for flag in [["--seeds", "2"], ["--set", "a=b"], ["--scale", "1"]] {
        let list = [&["experiment", "list"][..], &flag].concat();
        refused(&list, "a list runs nothing and writes nothing");
    }
    let swept = [
        "experiment",
        "memcg-lru-6.12",
        "--sweep",
        "slow",
        "--set",
        "slow=3",
    ];
    refused(&swept, "it tries other values of slow than --set slow=3");
    refused(
        &["replay", "t", "--mglru", "--kernel", "6.0"],
        "--mglru: is not in that kernel",
    );
}

#[test]
fn only_one_thing_of_a_replay_is_standard_output() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("r"), b"NEAPREC\x02\x00").unwrap();
    let lines = ["replay", "r", "--decisions", "-"];
    for more in [&["--recorded", "-"][..], &["--json"]] {
        let text = told(&dir, &[&lines, more].concat(), 2);
        assert!(text.contains("only one of them can be standard output"));
    }
    assert_eq!(neap_in(&dir, &lines).stdout, b"");
    let table = neap_in(&dir, &lines[..2]).stdout;
    let table = String::from_utf8(table).unwrap();
    let row = table.lines().find(|line| line.starts_with("decisions"));
    assert!(row.is_some_and(|row| row.ends_with(" 0")), "{table}");
}

#[test]
fn flags_are_looked_at_before_a_record_is() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("r"), b"NEAPREC\x02\x00").unwrap();
    for flags in [
        &["replay", "r", "-m", "1K"][..],
        &["replay", "r", "-m", "50%"],
        &["replay", "r", "-m", "8M", "--kernel", "banana"],
        &["forecast", "r", "--kernel", "banana"],
        &["forecast", "r", "--content", "nope"],
    ] {
        let text = told(&dir, flags, 2);
        assert!(text.starts_with("neap: error[E0207]: "), "{text}");
    }
    let text = told(&dir, &["forecast", "r"], 2);
    let mut lines = text.lines();
    assert!(
        lines
            .next()
            .unwrap()
            .starts_with("neap: warning: r: a record holds")
    );
    let want =
        "neap: error[E0206]: r: no touch of a page is in it: the run never came near its limit";
    assert_eq!(lines.next(), Some(want));
    assert!(lines.next().unwrap().contains("under a smaller limit"));
    for flag in ["--seeds", "--seed", "--threads"] {
        let text = told(&dir, &["experiment", "recency", flag, "-1"], 2);
        assert!(text.contains("-1") && !text.contains("to pass"), "{text}");
    }
}

#[test]
fn a_recording_of_another_century_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let record = |time: u32| [&time.to_le_bytes()[..], &[1; 12], &[0xff; 8]].concat();
    let log = [record(0), record(u32::MAX)].concat();
    fs::write(dir.path().join("log"), log).unwrap();
    let import = ["import", "--from", "oracle-general", "log", "-o", "t"];
    let text = told(&dir, &import, 2);
    let want = "log: more than 366 days pass by record 2";
    assert!(text.contains(want), "{text}");
}

/// A forecast of neap offers no limit that `neap run` refuses.
#[test]
fn limits_that_neap_run_refuses_are_not_forecast() {
    let dir = with_trace();
    let needs = "and the least limit is 4MiB: there is nothing to forecast";
    let text = told(&dir, &["forecast", "t"], 2);
    assert!(text.contains(needs), "{text}");
    let line = |page: u64| format!("I  1000,4\n S {:x},8\n", page * 4096);
    let lines: String = (0..3000).map(|i| line(i * 7 % 2000)).collect();
    fs::write(dir.path().join("log"), lines).unwrap();
    told(&dir, &["import", "--from", "lackey", "log", "-o", "t"], 0);
    let output = neap_in(&dir, &["forecast", "t", "--json", "-"]);
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let points = value["points"].as_array().unwrap();
    assert_eq!(points.len(), 5, "100% to 60% of 2000 pages: {value}");
    let limit = |point: &serde_json::Value| point["limit"].as_u64().unwrap();
    assert!(
        points.iter().all(|point| limit(point) >= 4 << 20),
        "{value}"
    );
}
