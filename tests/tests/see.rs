//! What a job looks like from outside: the time its threads wait, metrics for Prometheus, and what is drawn on a terminal.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use neap_tests::service::Place;
use neap_tests::{
    Managed, Neap, Need, Run, Terminal, exclusive, neap_binary, program, require, spawn_unmarked,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// Longest that anything here is waited for.
const LONGEST: Duration = Duration::from_secs(60);

fn neap(dir: &Path) -> Command {
    let mut command = Command::new(neap_binary().expect("the binary of neap"));
    command.env("XDG_RUNTIME_DIR", dir);
    command
}

fn wait_until(what: &str, mut is: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < LONGEST, "waited in vain: {what}");
        sleep(Duration::from_millis(20));
    }
}

/// A job that waits, and touches its memory all the time; it ends with this value.
struct Job {
    dir: TempDir,
    child: Child,
}

impl Job {
    fn begin(limit: &str, mib: u64) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let mut command = neap(dir.path());
        command.args(["run", "-m", limit, "--name", "web", "--"]);
        command.arg(program("waits")).arg(mib.to_string());
        command.arg(dir.path().join("stop")).arg("busy");
        command.stdout(Stdio::null());
        let child = spawn_unmarked(&mut command).expect("neap runs");
        wait_until("the program waits", || {
            dir.path().join("stop.ready").exists()
        });
        Self { dir, child }
    }

    fn neap(&self, words: &[&str]) -> Output {
        neap(self.dir.path())
            .args(words)
            .output()
            .expect("neap runs")
    }

    fn stat(&self) -> Value {
        let output = self.neap(&["stat", "web", "--json"]);
        serde_json::from_slice(&output.stdout).expect("an object")
    }

    fn socket(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let _ = fs::write(self.dir.path().join("stop"), "");
        let ended = self.child.wait().expect("our child");
        if !std::thread::panicking() {
            assert!(ended.success(), "its memory is as it was");
        }
    }
}

fn run(limit: &str, mib: &str) -> Managed {
    let hog = program("hog");
    let run = Run::new([hog.as_os_str(), mib.as_ref(), "4".as_ref()]).limit(2 * LONGEST);
    let managed = Neap::limit(limit).run(&run);
    managed.must_exit(0);
    managed
}

#[test]
fn threads_that_wait_for_memory_are_pressure_and_others_are_not() {
    let test = "threads_that_wait_for_memory_are_pressure_and_others_are_not";
    if !require(test, &[Need::Neap, Need::Userfaultfd]) {
        return;
    }
    let _alone = exclusive();
    let short = run("24M", "64");
    let some = short.number("/pressure/some/total_us");
    let full = short.number("/pressure/full/total_us");
    let wall = short.stats["wall_seconds"].as_f64().expect("a time") * 1e6;
    assert!(
        some > 0 && full <= some && some as f64 <= wall,
        "{some} {full} {wall}"
    );
    let stalled = short.stats["processes"][0]["stalled_seconds"].as_f64();
    assert!(stalled.is_some_and(|seconds| seconds > 0.0 && seconds * 1e6 <= wall));
    let ample = run("256M", "32");
    for kind in ["some", "full"] {
        assert_eq!(ample.number(&format!("/pressure/{kind}/total_us")), 0);
        assert_eq!(ample.stats["pressure"][kind]["avg10"].as_f64(), Some(0.0));
    }
}

#[test]
fn a_program_that_waits_all_the_time_is_seen_to_while_it_runs() {
    let test = "a_program_that_waits_all_the_time_is_seen_to_while_it_runs";
    if !require(test, &[Need::Neap, Need::Userfaultfd]) {
        return;
    }
    let _alone = exclusive();
    let job = Job::begin("24M", 64);
    let average = |kind: &str| {
        let stat = job.stat();
        stat["pressure"][kind]["avg10"].as_f64().expect("a share")
    };
    wait_until("the averages move on", || {
        average("some") > 0.0 && average("full") > 0.0
    });
    let text = String::from_utf8(job.neap(&["stat"]).stdout).expect("text");
    let line = text
        .lines()
        .find(|line| line.starts_with("some"))
        .expect("a line");
    assert!(
        line.contains("avg10=") && line.contains("avg300=") && line.contains("total="),
        "{line}"
    );
}

#[test]
fn metrics_are_had_as_a_file_and_by_http() {
    let test = "metrics_are_had_as_a_file_and_by_http";
    if !require(test, &[Need::Neap, Need::Userfaultfd]) {
        return;
    }
    let _alone = exclusive();
    let job = Job::begin("24M", 48);
    let file = job.socket("neap.prom");
    let output = job.neap(&["metrics", "--textfile", file.to_str().expect("text")]);
    assert!(output.status.success());
    let text = fs::read_to_string(file).expect("it was written");
    assert!(!text.contains("# EOF"), "{text}");
    let limit = format!("neap_memory_limit_bytes{{job=\"web\"}} {}\n", 24 << 20);
    assert!(text.contains(&limit), "{text}");
    let socket = job.socket("metrics");
    let mut server = neap(job.dir.path());
    server.args(["metrics", "--socket"]).arg(&socket);
    let mut server = spawn_unmarked(&mut server).expect("neap runs");
    wait_until("it listens", || UnixStream::connect(&socket).is_ok());
    // Some that ask nothing, and one that does.
    let _silent: Vec<_> = (0..4).map(|_| UnixStream::connect(&socket)).collect();
    let mut stream = UnixStream::connect(&socket).expect("it listens");
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        .expect("room");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(
        answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains(&limit),
        "{answer}"
    );
    kill_process(Pid::from_child(&server), Signal::TERM).expect("it runs");
    let ended = server.wait().expect("it ends");
    assert_eq!(ended.signal(), Some(Signal::TERM.as_raw()));
    assert!(!socket.exists(), "it removed its socket");
}

/// What Prometheus' own tool says of the figures of a service and of its jobs.
#[test]
fn promtool_accepts_the_metrics_of_all_jobs() {
    let test = "promtool_accepts_the_metrics_of_all_jobs";
    if !require(
        test,
        &[Need::Neap, Need::Userfaultfd, Need::Tool("promtool")],
    ) {
        return;
    }
    let _alone = exclusive();
    let place = Place::own();
    let _service = place.serve(&["-m", "96M"]);
    let jobs = ["one", "two"].map(|name| (name, place.job(name, 8, &["-m", "32M"], false)));
    let output = place.ask(&["metrics"]);
    let text = String::from_utf8(output.stdout).expect("text");
    for (job, mib) in [("all", 96), ("all/one", 32), ("all/two", 32)] {
        let limit = format!("neap_memory_limit_bytes{{job=\"{job}\"}} {}\n", mib << 20);
        assert!(text.contains(&limit), "{text}");
    }
    let mut check = Command::new("promtool");
    check.args(["check", "metrics"]).stdin(Stdio::piped());
    let mut check = spawn_unmarked(check.stderr(Stdio::piped())).expect("it runs");
    let mut stdin = check.stdin.take().expect("a pipe");
    stdin.write_all(text.as_bytes()).expect("it reads");
    drop(stdin);
    let checked = check.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success(), "{said}\n{text}");
    for (name, job) in jobs {
        place.end(name, job);
    }
}

/// One that is stopped is told of, and the others are shown all the same.
#[test]
fn jobs_that_are_stopped_keep_no_list_from_being_shown() {
    let test = "jobs_that_are_stopped_keep_no_list_from_being_shown";
    if !require(test, &[Need::Neap, Need::Userfaultfd]) {
        return;
    }
    let _alone = exclusive();
    let job = Job::begin("24M", 8);
    let stopped = |name: &str| {
        let mut command = neap(job.dir.path());
        command.args(["run", "-m", "24M", "--name", name, "--", "sleep", "60"]);
        let child = spawn_unmarked(&mut command).expect("neap runs");
        let socket = job.dir.path().join("neap").join(format!("{name}.sock"));
        wait_until("it listens", || UnixStream::connect(&socket).is_ok());
        kill_process(Pid::from_child(&child), Signal::STOP).expect("it runs");
        child
    };
    let others = ["one", "two", "three"].map(stopped);
    let output = job.neap(&["ps"]);
    for mut child in others {
        child.kill().expect("it runs");
        child.wait().expect("it ends");
    }
    assert!(output.status.success());
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(
        shown.lines().count() == 2 && shown.contains("web"),
        "{shown}"
    );
    let said = String::from_utf8_lossy(&output.stderr);
    let silent = said.matches("it does not answer: nothing came in time");
    assert_eq!(silent.count(), 3, "{said}");
}

#[test]
fn what_makes_no_sense_is_refused_in_words_of_the_command() {
    let test = "what_makes_no_sense_is_refused_in_words_of_the_command";
    if !require(test, &[Need::Neap, Need::Userfaultfd]) {
        return;
    }
    let _alone = exclusive();
    let job = Job::begin("24M", 8);
    for (words, line) in [
        (
            &["reclaim", "web", "0"][..],
            "neap: error[E0306]: SIZE is \"0\", and takes nothing away\n",
        ),
        (
            &["stat", "/etc/passwd"],
            "neap: error[E0301]: /etc/passwd: it is no socket\n",
        ),
        (
            &["stat", "/no/such"],
            "neap: error[E0301]: /no/such: there is no such file\n",
        ),
    ] {
        let output = job.neap(words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{words:?}");
        assert!(
            said.starts_with(line) && said.lines().count() == 2,
            "{said}"
        );
    }
    let largest = format!("memory.max={}", u64::MAX);
    assert!(job.neap(&["set", "web", &largest]).status.success());
    let limit = job
        .stat()
        .pointer("/memory/limit_bytes")
        .and_then(Value::as_u64);
    assert_eq!(limit, Some(1 << 52));
}

#[test]
fn the_line_of_a_run_is_on_a_terminal_only() {
    let test = "the_line_of_a_run_is_on_a_terminal_only";
    if !require(test, &[Need::Neap, Need::Userfaultfd, Need::Tool("setsid")]) {
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let mut command = neap(dir.path());
    command.args(["run", "-m", "64M", "--watch", "--", "sleep", "3"]);
    let piped = command.output().expect("neap runs");
    assert!(piped.status.success() && piped.stderr.is_empty() && piped.stdout.is_empty());
    let terminal = Terminal::run(&command, 40, 10);
    let (status, seen) = terminal.end();
    assert_eq!(status, Some(0));
    assert!(
        seen.contains("\r\u{1b}[2Kneap: ") && seen.contains("of 64M"),
        "{seen:?}"
    );
    assert!(seen.ends_with("\r\u{1b}[2K"), "nothing is left: {seen:?}");
    let lines = seen.split("\r\u{1b}[2K");
    assert!(
        lines.clone().all(|line| line.chars().count() < 40),
        "{seen:?}"
    );
}

/// The end of a terminal is read for ever by who reads until something comes: it kept a cpu busy.
#[test]
fn top_ends_with_its_terminal() {
    let test = "top_ends_with_its_terminal";
    if !require(test, &[Need::Neap, Need::Tool("setsid")]) {
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let binary = neap_binary().expect("the binary of neap");
    for before in ["", "trap '' HUP; "] {
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("{before}exec \"$0\" top"));
        command.arg(&binary).env("XDG_RUNTIME_DIR", dir.path());
        let terminal = Terminal::run(command.env("TERM", "xterm"), 60, 15);
        terminal.wait_for("NAME");
        terminal.hang_up();
    }
}

#[test]
fn top_shows_jobs_on_a_terminal_and_sets_a_limit() {
    let test = "top_shows_jobs_on_a_terminal_and_sets_a_limit";
    if !require(test, &[Need::Neap, Need::Userfaultfd, Need::Tool("setsid")]) {
        return;
    }
    let _alone = exclusive();
    let job = Job::begin("96M", 32);
    let mut command = neap(job.dir.path());
    command.arg("top").env("TERM", "xterm").env("NO_COLOR", "1");
    let mut terminal = Terminal::run(&command, 60, 15);
    terminal.wait_for("web");
    terminal.keys("m48M\r");
    wait_until("the limit is set", || {
        job.stat()["memory"]["limit_bytes"] == 48 << 20
    });
    terminal.keys("\r");
    terminal.wait_for("waits");
    terminal.keys("q");
    let (status, seen) = terminal.end();
    assert_eq!(status, Some(0));
    assert!(
        seen.contains("\u{1b}[?1049h") && seen.contains("\u{1b}[?1049l"),
        "the screen is given back"
    );
    let colour = seen
        .split("\u{1b}[")
        .any(|code| code.starts_with("31m") || code.starts_with("38;"));
    assert!(!colour, "NO_COLOR: {seen:?}");
    let once = job.neap(&["top", "--once", "--json"]);
    let once: Value = serde_json::from_slice(&once.stdout).expect("an object");
    assert_eq!(once["jobs"][0]["name"], "web");
    let without = neap(job.dir.path())
        .arg("top")
        .stdin(Stdio::null())
        .output()
        .expect("neap runs");
    assert_eq!(without.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&without.stderr).contains("--once"));
}

/// A service with one job, which keeps what it is asked: it listens where a real one would.
fn listens_as_a_service(dir: &Path) -> std::sync::mpsc::Receiver<Value> {
    let folder = dir.join("neap");
    let made = fs::DirBuilder::new().mode(0o700).create(&folder);
    made.expect("a folder");
    let listener = UnixListener::bind(folder.join("all.sock")).expect("a socket");
    let (say, heard) = std::sync::mpsc::channel();
    spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a caller");
            let mut line = String::new();
            let read = BufReader::new(&stream).read_line(&mut line);
            read.expect("a request");
            let asked: Value = serde_json::from_str(&line).expect("JSON");
            let answer: &[u8] = match asked["job"].as_str() {
                Some("one") => br#"{"ok":true,"result":{"name":"one"}}"#,
                None => br#"{"ok":true,"result":{"name":"all","jobs":[{"name":"one"}]}}"#,
                Some(_) => br#"{"ok":false,"error":{"code":"ESRCH","message":"no job"}}"#,
            };
            let _ = say.send(asked);
            let _ = stream.write_all(&[answer, b"\n"].concat());
        }
    });
    heard
}

#[test]
fn of_a_service_with_many_jobs_only_the_figures_of_the_one_that_is_named_are_asked_for() {
    let dir = tempfile::tempdir().expect("a folder");
    let heard = listens_as_a_service(dir.path());
    for word in ["one", "on"] {
        let output = neap(dir.path()).args(["stat", "--json", word]).output();
        let output = output.expect("neap runs");
        assert!(output.status.success(), "{output:?}");
        let stat: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(stat["name"], "one");
        let all = heard.try_iter().filter(|asked| asked["job"].is_null());
        let asked_for_all = all.count() > 0;
        assert_eq!(
            asked_for_all,
            word == "on",
            "the beginning of a name is looked for among all"
        );
    }
}
