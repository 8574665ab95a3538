//! The command as its users meet it: statuses, silence, signals, and a program that sees no change.
//!
//! Programs are managed here or not, as this machine has it; what these tests say holds either way. `tests/` looks at
//! managed programs.
#![forbid(unsafe_code)]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// `neap run -m 64M` with options, then `--` and the command.
fn neap(options: &[&str], command: &[&str]) -> Command {
    let mut neap = Command::new(env!("CARGO_BIN_EXE_neap"));
    neap.args(["run", "-m", "64M"]).args(options).arg("--");
    neap.args(command).stdin(Stdio::null());
    for variable in ["NEAP_MEMORY", "NEAP_SWAP_DIR", "NEAP_COMPRESSOR"] {
        neap.env_remove(variable);
    }
    neap
}

/// The same, supervised even when unmanaged: with an exit file in `dir`.
fn watched(dir: &tempfile::TempDir, command: &[&str]) -> Command {
    let file = dir.path().join("exit");
    neap(&["--exit-file", file.to_str().expect("a path")], command)
}

fn exit_file(dir: &tempfile::TempDir) -> String {
    fs::read_to_string(dir.path().join("exit")).expect("an exit file")
}

fn dir() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

fn go(mut command: Command) -> Output {
    go_with(&mut command)
}

fn go_with(command: &mut Command) -> Output {
    command.output().expect("neap runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What neap said itself, without the line that tells of a program that stays unmanaged.
fn said(output: &Output) -> Vec<String> {
    let unmanaged = |line: &&str| line.contains(" runs without a limit: ");
    let all = text(&output.stderr);
    let warnings = all.lines().filter(unmanaged).count();
    assert!(warnings <= 1, "{all}");
    all.lines()
        .filter(|line| !unmanaged(line))
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_status_is_the_commands_own() {
    for code in [0, 1, 7, 125, 255] {
        let dir = dir();
        let script = format!("exit {code}");
        let output = go(watched(&dir, &["sh", "-c", &script]));
        assert_eq!(output.status.code(), Some(code));
        assert_eq!(exit_file(&dir), format!("exited {code}\n"));
        assert!(said(&output).is_empty(), "{}", text(&output.stderr));
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn neap_ends_by_the_signal_that_ended_the_command() {
    for (name, number) in [
        ("KILL", 9),
        ("TERM", 15),
        ("SEGV", 11),
        ("INT", 2),
        ("PIPE", 13),
    ] {
        let dir = dir();
        let script = format!("kill -{name} $$");
        let output = go(watched(&dir, &["sh", "-c", &script]));
        assert_eq!(output.status.signal(), Some(number), "{name}");
        assert!(!output.status.core_dumped());
        assert_eq!(exit_file(&dir), format!("signaled {number} SIG{name}\n"));
    }
}

#[test]
fn a_shell_sees_128_and_the_signal_for_signals_without_a_name() {
    let dir = dir();
    let output = go(watched(&dir, &["sh", "-c", "kill -40 $$"]));
    assert_eq!(output.status.code(), Some(168));
    assert_eq!(exit_file(&dir), "signaled 40 SIG40\n");
}

#[test]
fn failures_have_their_own_statuses_and_name_a_remedy() {
    let dir = dir();
    let plain = dir.path().join("plain");
    fs::write(&plain, "x").expect("a file");
    let plain = plain.to_str().expect("a path");
    let both = dir.path().join("both");
    let both = both.to_str().expect("a path");
    for (command, status, code) in [
        (neap(&[], &["no-such-command"]), 127, "E0104"),
        (neap(&[], &["/no/such/command"]), 127, "E0104"),
        (neap(&[], &[plain]), 126, "E0105"),
        (
            neap(&["--stats", "/no/such/dir/x"], &["true"]),
            125,
            "E0107",
        ),
        (
            neap(&["--stats", both, "--exit-file", both], &["true"]),
            125,
            "E0107",
        ),
        (neap(&["--swap-dir", "/no/such"], &["true"]), 125, "E0108"),
        (neap(&["-m", "1M"], &["true"]), 125, "unexpected"),
    ] {
        let output = go(command);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{stderr}");
        // A repeated -m is clap's to refuse.
        let known = stderr.contains(code) || stderr.contains("cannot be used multiple times");
        assert!(known, "{stderr}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn a_wrong_size_is_shown_with_a_caret() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_neap"));
    command.args(["run", "-m", "30MK", "true"]);
    let output = go(command);
    assert_eq!(output.status.code(), Some(125));
    assert!(text(&output.stderr).contains("\n  30MK\n     ^"));
}

#[test]
fn a_failure_is_written_to_the_exit_file() {
    let dir = dir();
    let output = go(watched(&dir, &["no-such-command"]));
    assert_eq!(output.status.code(), Some(127));
    assert_eq!(exit_file(&dir), "failed 127\n");
}

#[test]
fn help_is_a_success_and_no_arguments_are_not() {
    let binary = env!("CARGO_BIN_EXE_neap");
    let bare = Command::new(binary).output().expect("neap runs");
    assert_eq!(bare.status.code(), Some(2));
    assert!(bare.stdout.is_empty() && text(&bare.stderr).contains("Usage: neap"));
    let help = Command::new(binary).args(["run", "--help"]).output();
    let help = help.expect("neap runs");
    assert!(help.status.success() && text(&help.stdout).contains("NEAP_MEMORY"));
    let wrong = Command::new(binary).args(["run", "--bogus", "ls"]).output();
    assert_eq!(wrong.expect("neap runs").status.code(), Some(125));
}

/// Everything a program inherits that a shell can print.
const LOOK: &str = "umask; pwd; ulimit -a; for fd in /proc/$$/fd/*; do echo ${fd##*/}; readlink $fd; done; \
    grep -E '^(SigBlk|SigIgn|Groups|NoNewPrivs|Seccomp):' /proc/self/status; nice; cat";

fn looked(mut command: Command, dir: &tempfile::TempDir) -> String {
    let input = dir.path().join("input");
    fs::write(&input, "through\n").expect("a file");
    command.stdin(fs::File::open(&input).expect("the file"));
    command.current_dir(dir.path()).stderr(Stdio::null());
    // Each run has pipes of its own.
    let numbered = |line: &str| line.split(":[").next().unwrap_or(line).to_owned();
    let lines = text(&go(command).stdout);
    lines.lines().map(|line| numbered(line) + "\n").collect()
}

#[test]
fn a_program_inherits_what_it_would_inherit_without_neap() {
    let dir = dir();
    let mut plain = Command::new("sh");
    plain.args(["-c", LOOK]);
    let plain = looked(plain, &dir);
    assert!(plain.ends_with("through\n"), "{plain}");
    let under = watched(&dir, &["sh", "-c", LOOK]);
    assert_eq!(looked(under, &dir), plain);
}

#[test]
fn signals_ignored_at_the_start_stay_ignored() {
    let dir = dir();
    let script = "trap '' HUP USR1 QUIT; exec \"$@\"";
    let look = ["sh", "-c", "grep SigIgn /proc/$$/status"];
    let plain = Command::new("sh")
        .args(["-c", script, "sh"])
        .args(look)
        .output();
    let inner = watched(&dir, &look);
    let mut outer = Command::new("sh");
    outer.args(["-c", script, "sh"]).arg(inner.get_program());
    outer.args(inner.get_args());
    let ignored = |output: Output| {
        let line = text(&output.stdout);
        let mask = line.trim().rsplit('\t').next().unwrap_or("");
        u64::from_str_radix(mask, 16).expect("a mask") & 0xff
    };
    let plain = ignored(plain.expect("a shell"));
    assert_ne!(plain, 0);
    assert_eq!(ignored(go(outer)), plain);
}

#[test]
fn the_first_argument_is_the_name_as_written() {
    let dir = dir();
    let output = go(watched(
        &dir,
        &["sh", "-c", "tr '\\0' '|' </proc/$$/cmdline"],
    ));
    assert!(
        text(&output.stdout).starts_with("sh|-c|"),
        "{}",
        text(&output.stdout)
    );
}

/// A running command that said "ready".
fn started(mut command: Command) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut child = command.stdout(Stdio::piped()).spawn().expect("neap runs");
    let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut line = String::new();
    out.read_line(&mut line).expect("a line");
    assert_eq!(line, "ready\n");
    (child, out)
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("neap is there");
}

#[test]
fn a_signal_to_neap_reaches_the_command_once() {
    for (name, signal) in [
        ("TERM", Signal::TERM),
        ("HUP", Signal::HUP),
        ("USR1", Signal::USR1),
    ] {
        let dir = dir();
        let script = format!(
            "n=0; trap 'n=$((n+1)); echo got' {name}; echo ready; \
             while [ $n = 0 ]; do sleep 0.02; done; sleep 0.2; exit $((40 + n))"
        );
        let (mut child, mut out) = started(watched(&dir, &["sh", "-c", &script]));
        send(&child, signal);
        let mut rest = String::new();
        out.read_to_string(&mut rest).expect("output");
        assert_eq!(rest, "got\n", "{name}");
        assert_eq!(child.wait().expect("a status").code(), Some(41));
    }
}

#[test]
fn a_signal_that_ends_the_command_ends_neap() {
    let dir = dir();
    let (mut child, _out) = started(watched(&dir, &["sh", "-c", "echo ready; exec sleep 60"]));
    // The command may still be the shell, which dies just the same.
    send(&child, Signal::TERM);
    assert_eq!(child.wait().expect("a status").signal(), Some(15));
}

#[test]
fn neap_in_a_group_of_its_own_still_passes_signals_on() {
    let dir = dir();
    let mut command = watched(
        &dir,
        &[
            "sh",
            "-c",
            "trap 'exit 6' TERM; echo ready; while :; do sleep 0.02; done",
        ],
    );
    command.process_group(0);
    let (mut child, _out) = started(command);
    send(&child, Signal::TERM);
    assert_eq!(child.wait().expect("a status").code(), Some(6));
}

#[test]
fn the_statistics_are_one_json_object() {
    let dir = dir();
    let file = dir.path().join("stats.json");
    let output = go(neap(
        &["--stats", file.to_str().expect("a path"), "--summary"],
        &["sh", "-c", "exit 4"],
    ));
    assert_eq!(output.status.code(), Some(4));
    assert!(text(&output.stderr).contains("exited 4"));
    let stats = fs::read_to_string(file).expect("the file");
    let stats: serde_json::Value = serde_json::from_str(&stats).expect("JSON");
    assert_eq!(stats["schema"], "neap.run/1");
    assert_eq!(stats["exit_status"], 4);
    assert_eq!(stats["command"], serde_json::json!(["sh", "-c", "exit 4"]));
    assert_eq!(stats["memory"]["limit_bytes"], 64 << 20);
    assert!(stats["wall_seconds"].as_f64().is_some_and(|s| s > 0.0));
}

#[test]
fn doctor_answers_in_words_and_in_json() {
    let binary = env!("CARGO_BIN_EXE_neap");
    let words = Command::new(binary)
        .arg("doctor")
        .output()
        .expect("neap runs");
    let json = Command::new(binary).args(["doctor", "--json"]).output();
    let json = json.expect("neap runs");
    let value: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!(value["schema"], "neap.doctor/1");
    let healthy = value["ok"] == true;
    assert_eq!(json.status.code(), Some(if healthy { 0 } else { 1 }));
    assert_eq!(words.status.code(), json.status.code());
    for check in value["checks"].as_array().expect("checks") {
        let name = check["name"].as_str().expect("a name");
        assert!(text(&words.stdout).contains(name), "{name}");
    }
}

#[test]
fn a_swap_directory_of_no_use_is_blamed_on_what_named_it() {
    for options in [vec![], vec!["--swap-dir", "/proc"]] {
        let name = options.first().copied().unwrap_or("NEAP_SWAP_DIR");
        let mut run = neap(&options, &["true"]);
        run.env("NEAP_SWAP_DIR", "/proc");
        let output = go(run);
        assert_eq!(output.status.code(), Some(125));
        let start = format!("neap: error[E0108]: {name} /proc: ");
        assert!(said(&output)[0].starts_with(&start), "{output:?}");
    }
    let mut run = neap(&[], &["true"]);
    run.env("NEAP_SWAP_DIR", "/dev/shm");
    let first = said(&go(run)).remove(0);
    assert!(
        first.starts_with("neap: warning: NEAP_SWAP_DIR /dev/shm is on"),
        "{first}"
    );
}

#[test]
fn a_usual_directory_where_no_file_can_be_made_is_passed_over() {
    let (here, locked) = (dir(), dir());
    let only_read = fs::Permissions::from_mode(0o500);
    fs::set_permissions(locked.path(), only_read).expect("a mode");
    for passed in [Path::new("/sys"), Path::new("/proc"), locked.path()] {
        let stats = here.path().join("stats");
        let mut run = neap(&["--stats", stats.to_str().expect("a path")], &["true"]);
        let output = go_with(run.env("TMPDIR", passed));
        assert_eq!(output.status.code(), Some(0));
        assert!(said(&output).is_empty(), "{output:?}");
        let report = fs::read_to_string(&stats).expect("statistics");
        let value: serde_json::Value = serde_json::from_str(&report).expect("JSON");
        // root may write where nobody else may.
        let root = rustix::process::geteuid().is_root();
        if !(root && passed == locked.path()) {
            let chosen = value["config"]["swap_dir"].as_str();
            assert_ne!(chosen.map(Path::new), Some(passed), "{value}");
        }
    }
}

#[test]
fn doctor_looks_at_the_directory_that_a_run_would_use() {
    let here = dir();
    let doctor = |variable: &str, value: &Path| {
        let mut doctor = Command::new(env!("CARGO_BIN_EXE_neap"));
        doctor.arg("doctor").env_remove("NEAP_SWAP_DIR");
        let shown = text(&go_with(doctor.env(variable, value)).stdout);
        let line = shown.lines().find(|line| line.contains("swap directory"));
        line.expect("a line").to_owned()
    };
    let chosen = doctor("NEAP_SWAP_DIR", here.path());
    assert!(
        chosen.contains(here.path().to_str().expect("a path")),
        "{chosen}"
    );
    let proc = doctor("NEAP_SWAP_DIR", Path::new("/proc"));
    assert!(
        proc.starts_with("MISSING") && proc.contains("NEAP_SWAP_DIR /proc: "),
        "{proc}"
    );
    assert!(!doctor("TMPDIR", Path::new("/sys")).contains("/sys"));
}

#[test]
fn a_dash_is_no_file_to_write_to() {
    for flag in ["--stats", "--exit-file"] {
        let here = dir();
        let mut run = neap(&[flag, "-"], &["true"]);
        let output = go_with(run.current_dir(here.path()));
        assert_eq!(output.status.code(), Some(125));
        let start = format!("neap: error[E0107]: {flag} -: standard output is the command's");
        assert!(said(&output)[0].starts_with(&start), "{output:?}");
        assert_eq!(fs::read_dir(here.path()).expect("a directory").count(), 0);
    }
}

#[test]
fn where_no_file_may_grow_the_status_stays_and_what_is_lost_is_said() {
    for (flag, lost) in [
        ("--stats", "the statistics are lost"),
        ("--exit-file", "how it ended is lost"),
    ] {
        let here = dir();
        let file = here.path().join("file");
        let run = neap(
            &[flag, file.to_str().expect("a path")],
            &["sh", "-c", "exit 4"],
        );
        let mut limited = Command::new("sh");
        limited.args(["-c", "ulimit -f 0; exec \"$@\"", "sh"]);
        limited.arg(run.get_program()).args(run.get_args());
        let output = go(limited);
        assert_eq!(output.status.code(), Some(4), "{output:?}");
        let line = format!("neap: warning: {flag} ");
        let said = said(&output);
        assert!(
            said[0].starts_with(&line) && said[0].ends_with(lost),
            "{said:?}"
        );
        assert_eq!(said.len(), 1, "{said:?}");
    }
}

#[test]
fn a_command_ends_of_a_file_that_may_not_grow_as_it_would_alone() {
    let here = dir();
    let file = here.path().join("file");
    let write = format!("ulimit -f 0; echo a > {}", file.display());
    let output = go(watched(&here, &["sh", "-c", &write]));
    assert_eq!(
        output.status.signal(),
        Some(Signal::XFSZ.as_raw()),
        "{output:?}"
    );
    assert_eq!(exit_file(&here), "signaled 25 SIGXFSZ\n");
}

#[test]
fn a_run_within_a_run_says_whose_limit_counts() {
    let mut run = neap(&[], &["true"]);
    let output = go_with(run.env("NEAP_SOCKET", "elsewhere"));
    assert_eq!(output.status.code(), Some(0));
    let line = "neap: warning: this runs under another neap run";
    assert!(said(&output)[0].starts_with(line), "{output:?}");
}
