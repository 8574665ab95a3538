//! `neap sim` as users call it: what it prints where, its exit codes, and one-line errors.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn neap(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_neap"));
    command.arg("sim").args(args).output().unwrap()
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

fn path(dir: &tempfile::TempDir, name: &str) -> String {
    dir.path().join(name).to_str().unwrap().to_owned()
}

const FAST: [&str; 8] = [
    "--seeds",
    "2",
    "--scale",
    "0.1",
    "--set",
    "writes=2",
    "--set",
    "warm_up=1",
];

fn experiment(more: &[&str]) -> Output {
    let mut args = vec!["experiment", "memcg-lru-6.12"];
    args.extend(FAST);
    args.extend(more);
    neap(&args)
}

#[test]
fn list_names_every_experiment() {
    let output = neap(&["experiment", "list"]);
    assert!(output.status.success());
    for name in [
        "second-chance",
        "cold-data",
        "memcg-lru",
        "memcg-lru-6.12",
        "recency",
        "noreuse",
    ] {
        let first = |line: &str| line.split_whitespace().next() == Some(name);
        assert!(stdout(&output).lines().any(first), "{name}");
    }
}

#[test]
fn list_says_what_each_experiment_costs() {
    let output = neap(&["experiment", "list"]);
    let mut lines = stdout(&output).lines();
    let head = lines.next().unwrap();
    let (from, to) = ("name", "what it shows");
    assert!(head.starts_with(from) && head.contains("cpu time") && head.ends_with(to));
    let rows: Vec<&str> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
    assert_eq!(rows.len(), 20);
    let end = head.find("cpu time").unwrap() + "cpu time".len();
    for row in rows {
        let (number, unit) = row[..end].trim_end().rsplit_once(' ').unwrap();
        assert!(["s", "min", "h"].contains(&unit), "{row}");
        let number = number.rsplit(' ').next().unwrap();
        assert!(number.parse::<f64>().unwrap() > 0.0, "{row}");
    }
    assert!(lines.next().unwrap().starts_with("cpu time: "));
}

#[test]
fn all_says_beforehand_how_long_it_takes_and_which_experiment_is_running() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_neap"));
    command.args(["sim", "experiment", "all", "--seeds", "1"]);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let said = BufReader::new(child.stderr.take().unwrap());
    let said: Vec<String> = said.lines().take(2).map(Result::unwrap).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(said[0].starts_with("neap: 20 experiments, about "));
    let first = "neap: 1 of 20: second-chance with --seeds 1: about ";
    assert!(said[1].starts_with(first), "{}", said[1]);
}

#[test]
fn an_experiment_shows_reported_beside_simulated() {
    let dir = tempfile::tempdir().unwrap();
    let (json, html) = (path(&dir, "a.json"), path(&dir, "a.html"));
    let output = experiment(&["--json", &json, "--html", &html]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains("reported"));
    assert_eq!(stderr(&output), "", "talk only on a terminal");
    let value: Value = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    assert_eq!(value["schema"], "neap.experiment/1");
    assert_eq!(value["name"], "memcg-lru-6.12");
    assert_eq!(value["seeds"], 2);
    assert_eq!(value["parameters"]["writes"]["value"], 2.0);
    let row = &value["rows"][0];
    for key in [
        "metric",
        "config",
        "unit",
        "reported",
        "simulated",
        "low",
        "high",
    ] {
        assert!(row.get(key).is_some(), "{key}");
    }
    let html = fs::read_to_string(html).unwrap();
    assert!(html.contains("<svg") && !html.contains("<script") && !html.contains("<link"));
}

#[test]
fn the_same_seed_gives_the_same_bytes_on_any_number_of_threads() {
    let run = |threads: &str| experiment(&["--json", "-", "--threads", threads]).stdout;
    let one = run("1");
    assert!(!one.is_empty());
    assert_eq!(one, run("3"));
}

#[test]
fn the_least_memory_that_may_be_set_is_enough() {
    let small = ["--seeds", "1", "--scale", "0.005", "--set", "hot=1"];
    let output = neap(&[&["experiment", "noreuse"], &small[..]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn mistakes_are_told_in_one_line_with_what_to_write() {
    let told = |args: &[&str], what: &str| {
        let output = neap(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let text = stderr(&output);
        assert!(text.contains(what), "{text}");
        assert_eq!(text.trim_end().lines().count(), 1, "{text}");
        assert_eq!(stdout(&output), "");
    };
    told(
        &["experiment", "second"],
        "no experiment is called \"second\": did you mean second-chance? there are",
    );
    told(
        &["experiment", "recency", "--set", "jobs"],
        "\"jobs\" is not KEY=VALUE",
    );
    told(
        &["experiment", "recency", "--set", "speed=1"],
        "recency has no parameter \"speed\"",
    );
    told(
        &["experiment", "memcg-lru-6.12", "--sweep", "writes"],
        "--sweep: there is nothing to try of writes: name one of",
    );
    told(
        &["experiment", "recency", "--scale", "0"],
        "--scale: write a number from 0.0001 to 16",
    );
    told(
        &["experiment", "second-chance", "--set", "cpus=1e30"],
        "cpus=1e30: write a whole number of CPUs from 1 to 4096",
    );
    told(
        &[
            "experiment",
            "second-chance",
            "--scale",
            "16",
            "--set",
            "swap=1e6",
        ],
        "swap=1000000: write a smaller number: with scale 16",
    );
    let none = neap(&["experiment", "recency", "--threads", "0"]);
    assert_eq!(none.status.code(), Some(2));
    let last = u64::MAX.to_string();
    let none = experiment(&["--seed", &last]);
    assert_eq!(none.status.code(), Some(2));
    told(
        &["experiment", "list", "--json", "-"],
        "a list runs nothing and writes nothing: name an experiment",
    );
    told(
        &["import", "--from", "lackey", "/", "-o", "-"],
        "[E0202]: /: ",
    );
    told(&["fit", "--name", "x", "/"], "[E0202]: /: ");
    told(&["run", "/nonexistent.toml"], "/nonexistent.toml: ");
    assert_eq!(neap(&[]).status.code(), Some(2));
    assert_eq!(neap(&["experiment"]).status.code(), Some(2));
}

#[test]
fn a_workload_file_runs_and_its_faults_name_the_key() {
    let dir = tempfile::tempdir().unwrap();
    let file = path(&dir, "w.toml");
    let text = "schema = \"neap.workload/1\"\n[[group]]\nname = \"job\"\nmax = \"64M\"\n\
                [[task]]\nkind = \"random\"\ngroup = \"job\"\nsize = \"8M\"\ntouches = 1000\n";
    fs::write(&file, text).unwrap();
    let output = neap(&["run", &file, "--json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let value: Value = serde_json::from_str(stdout(&output)).unwrap();
    assert_eq!(value["schema"], "neap.sim-run/1");
    assert!(value["vmstat"]["job"]["pgfault"].as_u64().unwrap() > 500);
    fs::write(&file, text.replace("8M", "lots")).unwrap();
    let output = neap(&["run", &file]);
    assert!(
        stderr(&output).contains("task 1.size: \"lots\" is no size"),
        "{}",
        stderr(&output)
    );
    let replay = "[[task]]\nkind = \"replay\"\ntrace = \"none\"\n";
    fs::write(&file, format!("schema = \"neap.workload/1\"\n{replay}")).unwrap();
    let output = neap(&["run", &file]);
    let want = "w.toml: task 1.trace: none: No such file";
    assert!(stderr(&output).contains(want), "{}", stderr(&output));
}

#[test]
fn a_recording_is_imported_replayed_and_forecast() {
    let dir = tempfile::tempdir().unwrap();
    let (log, trace) = (path(&dir, "log"), path(&dir, "t.neaptrc"));
    let mut lines = String::new();
    for i in 0..40_000u64 {
        let address = (i * 7919 % 2000) * 4096 + 0x10_0000;
        lines.push_str(&format!("I  400000,4\n S {address:x},8\n"));
    }
    fs::write(&log, lines).unwrap();
    let output = neap(&[
        "import", "--from", "lackey", &log, "-o", &trace, "--window", "2us",
    ]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(Path::new(&trace).exists());
    let output = neap(&["replay", &trace, "-m", "1M"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let output = neap(&["replay", &trace, "-m", "0"]);
    assert!(stderr(&output).contains("--memory: write at least 64K"));
    let svg = path(&dir, "f.svg");
    let output = neap(&[
        "forecast", &trace, "--limits", "4M,100%", "--json", "-", "--svg", &svg,
    ]);
    assert!(output.status.success(), "{}", stderr(&output));
    let value: Value = serde_json::from_str(stdout(&output)).unwrap();
    assert_eq!(value["points"].as_array().unwrap().len(), 2);
    assert_eq!(value["points"][0]["limit"], 4 << 20);
    assert_eq!(value["machine"], "neap");
    let range = |key| value["points"][0][key].as_f64().unwrap();
    assert!(range("slowdown_low") <= range("slowdown"));
    assert!(range("slowdown") <= range("slowdown_high"));
    let linux = [
        "forecast", &trace, "--limits", "1M", "--kernel", "6.18", "--json", "-",
    ];
    let linux: Value = serde_json::from_str(stdout(&neap(&linux))).unwrap();
    assert_eq!(linux["machine"], "linux");
    assert!(linux["points"][0]["slowdown"].as_f64().unwrap() >= 1.0);
    assert!(fs::read_to_string(svg).unwrap().starts_with("<svg"));
    let output = neap(&["replay", &log]);
    assert!(
        stderr(&output).contains("not a neap trace"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn the_schema_of_workload_files_is_json() {
    let output = neap(&["schema"]);
    let value: Value = serde_json::from_str(stdout(&output)).unwrap();
    assert_eq!(value["title"], "neap.workload/1");
}

/// A trace of so many pages, each written once.
fn small_trace(dir: &tempfile::TempDir, pages: u64) -> String {
    let (log, trace) = (path(dir, "small.log"), path(dir, "small.neaptrc"));
    let line = |page: u64| format!("I  1000,4\n S {:x},8\n", page * 4096);
    fs::write(&log, (0..pages).map(line).collect::<String>()).unwrap();
    let output = neap(&["import", "--from", "lackey", &log, "-o", &trace]);
    assert!(output.status.success(), "{}", stderr(&output));
    trace
}

/// Fails with this status, says `what` and leaves `dir` as it was.
fn fails(dir: &tempfile::TempDir, args: &[&str], status: i32, what: &str) {
    let names = || {
        let entries = fs::read_dir(dir.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name());
        names.collect::<std::collections::BTreeSet<_>>()
    };
    let before = names();
    let output = neap_in(dir, args);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(status), "{args:?}: {text}");
    assert!(text.contains(what), "{text}");
    assert_eq!(stdout(&output), "", "{args:?}");
    assert_eq!(names(), before, "{args:?}");
}

fn neap_in(dir: &tempfile::TempDir, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_neap"));
    command.current_dir(dir.path()).arg("sim").args(args);
    command.output().unwrap()
}

#[test]
fn an_output_that_cannot_be_written_is_known_before_the_work() {
    let dir = tempfile::tempdir().unwrap();
    let trace = small_trace(&dir, 100);
    let bad = "/no/such/dir/x";
    let denied = "error[E0201]: /no/such/dir/x: ";
    // Nothing is printed, so nothing was done yet.
    for flag in ["--json", "--html"] {
        fails(&dir, &["experiment", "recency", flag, bad], 1, denied);
        let swept = ["experiment", "recency", "--sweep", flag, bad];
        fails(&dir, &swept, 1, denied);
    }
    for flag in ["--json", "--svg"] {
        fails(&dir, &["forecast", &trace, flag, bad], 1, denied);
    }
    let foreign = "--mglru and --zswap: are of Linux: add --kernel VERSION";
    fails(&dir, &["forecast", &trace, "--zswap"], 2, foreign);
    let foreign = "--time, --pool-max, --cpus and --no-swap: are of neap run: leave --kernel out";
    let both = ["forecast", &trace, "--kernel", "6.12", "--ratio", "2"];
    fails(&dir, &both, 2, foreign);
    let advice =
        "there are lz4, zstd:-1, zstd:1, deflate:1; neap sim fit --compressors zstd:7 makes one";
    let unknown = ["forecast", &trace, "--compressor", "zstd:7"];
    fails(&dir, &unknown, 2, advice);
    let fit = ["fit", "--name", "x", "-o", bad, &trace];
    fails(&dir, &fit, 1, denied);
    // An input that is there to be waited for: the fault comes before it is read.
    let mut import = Command::new(env!("CARGO_BIN_EXE_neap"));
    import.args(["sim", "import", "--from", "lackey", "-", "-o", bad]);
    let mut child = import
        .stdin(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let input = child.stdin.take();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    drop(input);
}

#[test]
fn work_that_fails_leaves_the_output_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let (log, old) = (path(&dir, "log"), path(&dir, "old"));
    fs::write(&log, "nothing of lackey's\n").unwrap();
    fs::write(&old, "long ago").unwrap();
    for output in ["new", "old"] {
        let import = ["import", "--from", "lackey", "log", "-o", output];
        fails(&dir, &import, 2, "error[E0206]: log: ");
        let fit = ["fit", "--name", "x", "log", "-o", output];
        let told = match output {
            "new" => "log: no whole page of 4 KiB",
            _ => "--output: old has other content",
        };
        fails(&dir, &fit, 2, told);
    }
    assert_eq!(fs::read_to_string(&old).unwrap(), "long ago");
}

#[test]
fn a_dash_is_standard_output_and_nothing_else_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let trace = small_trace(&dir, 100);
    let limits = ["forecast", &trace, "--limits", "8Mi"];
    let run = |args: &[&str], more: &[&str]| {
        let output = neap_in(&dir, &[args, more].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        output.stdout
    };
    assert!(run(&limits, &["--svg", "-"]).starts_with(b"<svg"));
    let experiment = [&["experiment", "memcg-lru-6.12"], &FAST[..]].concat();
    assert!(run(&experiment, &["--html", "-"]).starts_with(b"<!"));
    let swept = ["--sweep", "slow", "--json", "-"];
    assert!(run(&experiment, &swept).starts_with(b"["));
    let again = ["import", "--from", "lackey", "small.log", "-o", "-"];
    assert_eq!(run(&again, &[]), fs::read(&trace).unwrap());
    assert!(!dir.path().join("-").exists());
    let both = ["--json", "-", "--html", "-"];
    fails(
        &dir,
        &[&experiment[..], &both].concat(),
        2,
        "only one of them can be standard output",
    );
    let both = ["--json", "-", "--svg", "-"];
    fails(
        &dir,
        &[&limits[..], &both].concat(),
        2,
        "only one of them can be standard output",
    );
}

#[test]
fn a_sweep_says_what_any_of_its_runs_must_say() {
    let sweep = "experiment concurrent-shrinkers --sweep jobs --seeds 1 --scale 0.01";
    let sweep =
        format!("{sweep} --set units=300 --set user=20 --set serial=0 --set memory=1 --html");
    let dir = tempfile::tempdir().unwrap();
    let page = path(&dir, "page");
    let mut args: Vec<&str> = sweep.split(' ').collect();
    args.push(&page);
    let output = neap(&args);
    for text in [stdout(&output), &fs::read_to_string(&page).unwrap()] {
        for jobs in ["18", "36", "72"] {
            let told = format!("one of {jobs} jobs: ");
            assert_eq!(text.matches(&told).count(), 1, "{text}");
        }
    }
}

#[test]
fn a_forecast_blames_only_limits_that_were_given() {
    let dir = tempfile::tempdir().unwrap();
    let trace = small_trace(&dir, 30);
    let linux = ["--kernel", "6.12"];
    let offered = |trace: &str, more: &[&str]| -> Vec<u64> {
        let output = neap(&[&["forecast", trace, "--json", "-"], more].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        let value: Value = serde_json::from_str(stdout(&output)).unwrap();
        let points = value["points"].as_array().unwrap().iter();
        points
            .map(|point| point["limit"].as_u64().unwrap())
            .collect()
    };
    assert_eq!(offered(&trace, &linux).len(), 5);
    let given = |limit| ["forecast", &trace, "--limits", limit];
    let of_linux = |limit| [&given(limit)[..], &linux].concat();
    fails(&dir, &of_linux("30%"), 2, "--limits: 30% of 120KiB is ");
    fails(
        &dir,
        &of_linux("50"),
        2,
        "--limits: 50 is below 64KiB: no program runs in less",
    );
    fails(
        &dir,
        &given("4095Ki"),
        2,
        "--limits: 4095Ki is below 4MiB: neap run takes no less",
    );
    let tiny = small_trace(&dir, 3);
    let needs = "TRACE: needs 12KiB, and the least limit is 64KiB: there is nothing to forecast";
    fails(&dir, &[&["forecast", &tiny], &linux[..]].concat(), 2, needs);
}

#[test]
fn a_file_that_is_read_or_written_already_is_not_written_over() {
    let dir = tempfile::tempdir().unwrap();
    let trace = small_trace(&dir, 100);
    let record = [&[0, 0, 0, 0][..], &[1; 12], &[0xff; 8]].concat();
    let at = |name: &str| dir.path().join(name);
    fs::write(at("og"), &record).unwrap();
    fs::hard_link(at("og"), at("link")).unwrap();
    let (bytes, log) = (
        fs::read(&trace).unwrap(),
        fs::read(at("small.log")).unwrap(),
    );
    let refused = |args: &[&str], flag: &str, other: &str| {
        let told = format!("error[E0207]: {flag}: ");
        fails(&dir, args, 2, &told);
        let told = format!("is the file of {other}, too: nothing was written\n  try: ");
        fails(&dir, args, 2, &told);
    };
    for output in ["og", "./og", "link"] {
        let import = ["import", "--from", "oracle-general", "og", "-o", output];
        refused(&import, "--output", "FILE");
    }
    let import = ["import", "--from", "lackey", "small.log", "-o", "small.log"];
    refused(&import, "--output", "FILE");
    for flag in ["--json", "--svg"] {
        let name = "small.neaptrc";
        refused(&["forecast", name, flag, name], flag, "TRACE");
    }
    let both = ["forecast", &trace, "--json", "new", "--svg", "./new"];
    refused(&both, "--svg", "--json");
    let both = ["experiment", "recency", "--json", "new", "--html", "new"];
    refused(&both, "--html", "--json");
    refused(
        &["fit", "--name", "x", "og", "-o", "og"],
        "--output",
        "FILE",
    );
    assert_eq!(fs::read(&trace).unwrap(), bytes);
    assert_eq!(fs::read(at("og")).unwrap(), record);
    assert_eq!(fs::read(at("small.log")).unwrap(), log);
}
