//! Many jobs within one limit: `neap serve`, `neap run --in` and `--budget`. In each test the programs look at the end whether
//! every word of their memory is as it was.

use std::ffi::{OsStr, OsString};
use std::fs::{self, Permissions};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use neap_tests::{Need, OrdinaryUser, allowed, neap_binary, paging, program, require};
use serde_json::Value;
use tempfile::TempDir;

const MIB: u64 = 1 << 20;
const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;

/// Longest that anything here is waited for.
const LONGEST: Duration = Duration::from_secs(60);

/// A folder for sockets and files, and the user to whom it belongs.
struct Place {
    dir: TempDir,
    /// Words before each command.
    as_user: Vec<OsString>,
    neap: PathBuf,
    device: Option<PathBuf>,
    waits: PathBuf,
    _user: Option<OrdinaryUser>,
}

/// A process that is killed if a test ends before it.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    fn wait(mut self) -> (std::process::ExitStatus, String, String) {
        let (mut out, mut err) = (String::new(), String::new());
        if let Some(mut stdout) = self.0.stdout.take() {
            stdout.read_to_string(&mut out).expect("text");
        }
        if let Some(mut stderr) = self.0.stderr.take() {
            stderr.read_to_string(&mut err).expect("text");
        }
        (self.0.wait().expect("it ends"), out, err)
    }
}

fn wait_until(what: &str, mut is: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < LONGEST, "waited in vain: {what}");
        sleep(Duration::from_millis(10));
    }
}

impl Place {
    /// Of the user who runs the test.
    fn own() -> Self {
        Self {
            dir: tempfile::tempdir().expect("a folder"),
            as_user: Vec::new(),
            neap: neap_binary().expect("the binary of neap"),
            device: None,
            waits: program("waits"),
            _user: None,
        }
    }

    /// Of an ordinary user; none if there can be none here.
    fn of_user(test: &str) -> Option<Self> {
        let (user, device) = OrdinaryUser::with_device(test)?;
        let dir = tempfile::Builder::new()
            .prefix("serve")
            .tempdir_in(user.dir())
            .expect("a folder");
        let words = user.words();
        let id = words[1]
            .to_str()
            .and_then(|word| word.strip_prefix("--reuid="));
        let id = id.and_then(|id| id.parse().ok()).expect("a number");
        std::os::unix::fs::chown(dir.path(), Some(id), Some(65534)).expect("a folder of theirs");
        fs::set_permissions(dir.path(), Permissions::from_mode(0o700)).expect("a mode");
        Some(Self {
            dir,
            as_user: words,
            neap: user.neap(),
            device: Some(device),
            waits: user.copy(&program("waits")),
            _user: Some(user),
        })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut all = self.as_user.clone();
        all.push(self.neap.clone().into());
        all.extend(words.iter().map(OsString::from));
        let mut command = Command::new(&all[0]);
        command
            .args(&all[1..])
            .env("XDG_RUNTIME_DIR", self.dir.path())
            .current_dir("/");
        command.env("TMPDIR", self.dir.path()).stdin(Stdio::null());
        if let Some(device) = &self.device {
            command.env("NEAP_UFFD_DEVICE", device);
        }
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn start(&self, words: &[&str]) -> Running {
        Running(self.command(words).spawn().expect("neap starts"))
    }

    fn ask(&self, words: &[&str]) -> Output {
        self.command(words).output().expect("neap runs")
    }

    fn serve(&self, words: &[&str]) -> Running {
        let running = self.start(&[&["serve", "all"], words].concat());
        wait_until("the service is there", || {
            self.file("neap/all.sock").exists()
        });
        running
    }

    /// A job that fills so many MiB, and waits until it is to end.
    fn job(&self, name: &str, mib: u64, options: &[&str], busy: bool) -> Running {
        let (stop, size) = (self.file(&format!("{name}.stop")), mib.to_string());
        let mut words = vec!["run", "--in", "all", "--name", name];
        words.extend(options);
        words.extend(["--", path(&self.waits), &size, path(&stop)]);
        words.extend(busy.then_some("busy"));
        let running = self.start(&words);
        let ready = self.file(&format!("{name}.stop.ready"));
        wait_until("a job waits", || ready.exists());
        running
    }

    /// Has a job end, which must be whole.
    fn end(&self, name: &str, job: Running) -> String {
        fs::write(self.file(&format!("{name}.stop")), "").expect("a file");
        let (status, out, err) = job.wait();
        assert!(
            status.success() && out == "whole\n",
            "{name}: {status} {out} {err}"
        );
        err
    }

    fn stat(&self, name: &str) -> Value {
        let output = self.ask(&["stat", "--json", name]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {said}");
        serde_json::from_slice(&output.stdout).expect("an object")
    }

    fn number(&self, name: &str, pointer: &str) -> u64 {
        let stat = self.stat(name);
        stat.pointer(pointer)
            .and_then(Value::as_u64)
            .unwrap_or_else(|| panic!("{pointer}: {stat}"))
    }

    /// What is said by a command that must fail with this status.
    fn refusal(&self, words: &[&str], status: i32) -> String {
        let output = self.ask(words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(status), "{words:?}: {said}");
        said
    }
}

fn path(path: &Path) -> &str {
    path.to_str().expect("a path of letters")
}

/// As root, and as an ordinary user as far as there may be one.
fn places(test: &str) -> Vec<Place> {
    let needs = [Need::Neap, Need::Userfaultfd];
    let own = require(test, &needs).then(Place::own);
    let user = format!("{test}_as_a_user");
    own.into_iter().chain(Place::of_user(&user)).collect()
}

#[test]
fn jobs_of_a_service_share_its_limit() {
    let test = "jobs_of_a_service_share_its_limit";
    let Some(_alone) = paging(test) else { return };
    for place in places(test) {
        let service = place.serve(&["-m", "96M"]);
        let names = ["one", "two", "three"];
        let jobs = names.map(|name| place.job(name, 48, &[], name == "two"));
        let ps = place.ask(&["ps"]);
        let table = String::from_utf8_lossy(&ps.stdout).into_owned();
        assert!(
            names
                .iter()
                .all(|name| table.contains(&format!("  {name}"))),
            "{table}"
        );
        for (name, job) in names.into_iter().zip(jobs) {
            assert!(place.number(name, "/memory/current_bytes") > 0);
            place.end(name, job);
        }
        let peak = place.number("all", "/memory/peak_bytes");
        assert!(peak > 64 * MIB && peak <= allowed(96 * MIB), "{peak}");
        assert!(place.number("all", "/vmstat/zswpout") > 0);
        assert_eq!(place.stat("all")["jobs"], Value::Array(Vec::new()));
        drop(service);
    }
}

#[test]
fn a_job_keeps_within_a_limit_of_its_own_and_its_neighbour_keeps_its_memory() {
    let test = "a_job_keeps_within_a_limit_of_its_own_and_its_neighbour_keeps_its_memory";
    let Some(_alone) = paging(test) else { return };
    for place in places(test) {
        let _service = place.serve(&["-m", "256M"]);
        let rich = place.job("rich", 64, &[], false);
        let poor = place.job("poor", 96, &["-m", "48M"], true);
        let peak = place.number("poor", "/memory/peak_bytes");
        assert!(peak > 32 * MIB && peak <= allowed(48 * MIB), "{peak}");
        let kept = place.number("rich", "/memory/resident_bytes");
        assert!(kept >= 64 * MIB, "nothing is taken from it: {kept}");
        // A limit moves while the job runs, and gives memory back.
        let set = place.ask(&["set", "rich", "memory.max=32M"]);
        assert!(
            set.status.success(),
            "{}",
            String::from_utf8_lossy(&set.stderr)
        );
        let left = place.number("rich", "/memory/current_bytes");
        assert!(left <= allowed(32 * MIB), "{left}");
        let got = place.ask(&["reclaim", "poor", "16M"]);
        assert!(
            got.status.success(),
            "{}",
            String::from_utf8_lossy(&got.stderr)
        );
        place.end("poor", poor);
        place.end("rich", rich);
    }
}

#[test]
fn a_job_of_a_service_is_frozen_alone_and_goes_on_whole() {
    let test = "a_job_of_a_service_is_frozen_alone_and_goes_on_whole";
    let Some(_alone) = paging(test) else { return };
    for place in places(test) {
        let service = place.serve(&["-m", "256M"]);
        let frozen = place.job("frozen", 64, &[], true);
        let other = place.job("other", 32, &[], true);
        let no_job = place.refusal(&["freeze", "all"], 1);
        assert!(no_job.contains("name one of its jobs"), "{no_job}");
        let froze = place.ask(&["freeze", "frozen"]);
        assert!(
            froze.status.success(),
            "{}",
            String::from_utf8_lossy(&froze.stderr)
        );
        assert_eq!(place.number("frozen", "/neap/frozen"), 1);
        let left = place.number("frozen", "/memory/resident_bytes");
        assert!(left < 16 * MIB, "all that can leave has left: {left}");
        let kept = place.number("other", "/memory/resident_bytes");
        assert!(kept >= 32 * MIB, "{kept}");
        place.end("other", other);
        // A frozen job that is to end goes on first, and gets the signal.
        let thawed = place.ask(&["thaw", "frozen", "--prefetch"]);
        assert!(
            thawed.status.success(),
            "{}",
            String::from_utf8_lossy(&thawed.stderr)
        );
        place.end("frozen", frozen);
        let ends = place.job("ends", 16, &[], false);
        assert!(place.ask(&["freeze", "ends"]).status.success());
        neap_sys::signal(i32::try_from(ends.0.id()).expect("a number"), SIGTERM).expect("it lives");
        let (status, ..) = ends.wait();
        assert_eq!(status.signal(), Some(SIGTERM), "{status}");
        drop(service);
    }
}

#[test]
fn a_run_that_is_killed_takes_its_programs_with_it_and_no_others() {
    let test = "a_run_that_is_killed_takes_its_programs_with_it_and_no_others";
    let Some(_alone) = paging(test) else { return };
    for place in places(test) {
        let service = place.serve(&["-m", "64M"]);
        let victim = place.job("victim", 48, &[], true);
        let other = place.job("other", 48, &[], false);
        let of_victim = place.stat("victim")["processes"][0]["pid"]
            .as_u64()
            .expect("a process");
        let client = place.number("victim", "/pid");
        neap_sys::signal(i32::try_from(client).expect("a number"), SIGKILL).expect("it lives");
        let proc = PathBuf::from(format!("/proc/{of_victim}"));
        wait_until("its program is gone", || !proc.join("exe").exists());
        wait_until("it is forgotten", || {
            place.stat("all")["jobs"]
                .as_array()
                .is_some_and(|jobs| jobs.len() == 1)
        });
        place.end("other", other);
        drop((victim, service));
    }
}

#[test]
fn programs_end_with_their_service_and_a_message() {
    let test = "programs_end_with_their_service_and_a_message";
    let Some(_alone) = paging(test) else { return };
    for place in places(test) {
        let service = place.serve(&["-m", "48M"]);
        let job = place.job("one", 64, &[], true);
        let engine = place.number("all", "/pid");
        neap_sys::signal(i32::try_from(engine).expect("a number"), SIGKILL).expect("it lives");
        let (status, out, err) = job.wait();
        assert_eq!(
            (status.signal(), &*out),
            (Some(SIGKILL), ""),
            "{status} {err}"
        );
        assert!(err.contains("service all has ended"), "{err}");
        drop(service);
        let again = place.refusal(&["run", "--in", "all", "--", "true"], 125);
        assert!(
            again.contains("no service named all runs") && again.contains("try: neap serve"),
            "{again}"
        );
    }
}

#[test]
fn a_service_that_is_to_end_asks_its_jobs_first() {
    let test = "a_service_that_is_to_end_asks_its_jobs_first";
    let Some(_alone) = paging(test) else { return };
    for place in places(test) {
        let service = place.serve(&["-m", "48M"]);
        let job = place.job("one", 64, &[], false);
        let engine = place.number("all", "/pid");
        neap_sys::signal(i32::try_from(engine).expect("a number"), SIGTERM).expect("it lives");
        let (status, _, err) = job.wait();
        assert_eq!(status.signal(), Some(SIGTERM), "{status} {err}");
        let (status, ..) = service.wait();
        assert!(status.success(), "{status}");
        assert!(!place.file("neap/all.sock").exists());
    }
}

#[test]
fn a_budget_starts_its_service_and_that_ends_with_the_last_job() {
    let test = "a_budget_starts_its_service_and_that_ends_with_the_last_job";
    let Some(_alone) = paging(test) else { return };
    for place in places(test) {
        let stop = place.file("stop");
        let words = [
            "run",
            "--budget",
            "all:64M",
            "--name",
            "first",
            "--",
            path(&place.waits),
            "48",
            path(&stop),
        ];
        let first = place.start(&words);
        wait_until("the first waits", || place.file("stop.ready").exists());
        // Another joins the same.
        let second = place.ask(&["run", "--budget", "all:1G", "--", "echo", "here"]);
        assert_eq!(String::from_utf8_lossy(&second.stdout), "here\n");
        assert_eq!(place.number("all", "/memory/limit_bytes"), 64 * MIB);
        fs::write(&stop, "").expect("a file");
        let (status, out, err) = first.wait();
        assert!(status.success() && out == "whole\n", "{status} {err}");
        wait_until("the service ends", || !place.file("neap/all.sock").exists());
    }
}

#[test]
fn who_may_not_join_is_told_so_in_one_line() {
    let test = "who_may_not_join_is_told_so_in_one_line";
    let Some(_alone) = paging(test) else { return };
    for place in places(test) {
        let _service = place.serve(&["-m", "64M"]);
        let job = place.job("one", 8, &[], false);
        let taken = place.refusal(&["run", "--in", "all", "--name", "one", "--", "true"], 125);
        assert!(
            taken.contains("a job named one runs there already"),
            "{taken}"
        );
        let again = place.refusal(&["serve", "all", "-m", "64M"], 125);
        assert!(again.contains("a job named all runs already"), "{again}");
        let small = place.refusal(&["run", "--in", "all", "-m", "1K", "--", "true"], 125);
        assert!(small.contains("too small"), "{small}");
        let mixed = place.refusal(&["run", "--in", "all", "--no-swap", "--", "true"], 125);
        assert!(mixed.contains("cannot be used with"), "{mixed}");
        for said in [taken, again, small] {
            assert!(said.trim_end().lines().count() <= 2, "{said}");
        }
        place.end("one", job);
    }
}

#[test]
fn no_other_user_sees_joins_or_steers_a_service() {
    let test = "no_other_user_sees_joins_or_steers_a_service";
    let Some(_alone) = paging(test) else { return };
    let Some(place) = Place::of_user(test) else {
        return;
    };
    let _service = place.serve(&["-m", "64M"]);
    let job = place.job("one", 48, &[], false);
    // Another ordinary user does not enter the folder; the superuser sees and steers, and does not join.
    let stranger = |words: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args([
            "--reuid=59999",
            "--regid=65534",
            "--clear-groups",
            "--inh-caps=-all",
        ]);
        command
            .arg(&place.neap)
            .args(words)
            .env("XDG_RUNTIME_DIR", place.dir.path());
        command.output().expect("neap runs")
    };
    for words in [
        &["stat", "all"][..],
        &["set", "one", "memory.max=16M"],
        &["reclaim", "all", "1M"],
        &["run", "--in", "all", "--", "true"],
        &["stat", path(&place.file("neap/all.sock"))],
    ] {
        let output = stranger(words);
        assert!(
            !output.status.success(),
            "{words:?}: {}",
            String::from_utf8_lossy(&output.stdout)
        );
    }
    let root = Command::new(&place.neap)
        .args(["stat", "--json", path(&place.file("neap/all.sock"))])
        .output()
        .expect("neap runs");
    assert!(root.status.success());
    let mut socket =
        std::os::unix::net::UnixStream::connect(place.file("neap/all.sock")).expect("a socket");
    std::io::Write::write_all(&mut socket, b"{\"v\":1,\"op\":\"join\"}\n").expect("room");
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(socket), &mut line)
        .expect("an answer");
    assert!(line.contains("EPERM"), "{line}");
    place.end("one", job);
}

#[test]
fn a_process_of_no_job_is_not_answered() {
    let test = "a_process_of_no_job_is_not_answered";
    let Some(_alone) = paging(test) else { return };
    let place = Place::own();
    let _service = place.serve(&["-m", "64M"]);
    let job = place.job("one", 48, &[], false);
    // It has all that a program of the job is given, and descends from nobody who joined.
    let pid = place.stat("one")["processes"][0]["pid"]
        .as_u64()
        .expect("a process");
    let environ = fs::read(format!("/proc/{pid}/environ")).expect("its variables");
    let variable = |name: &str| {
        let mut all = environ
            .split(|&byte| byte == 0)
            .filter_map(|line| std::str::from_utf8(line).ok());
        all.find_map(|line| {
            line.strip_prefix(name)?
                .strip_prefix('=')
                .map(str::to_owned)
        })
    };
    let mut stranger = Command::new(&place.waits);
    let stop = place.file("stranger.stop");
    fs::write(&stop, "").expect("a file");
    stranger.args([OsStr::new("8"), stop.as_os_str()]);
    for name in ["NEAP_SOCKET", "LD_PRELOAD"] {
        stranger.env(
            name,
            variable(name).unwrap_or_else(|| panic!("{name} is set")),
        );
    }
    let output = stranger.output().expect("it runs");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "whole\n",
        "it runs unmanaged"
    );
    assert_eq!(place.stat("one")["neap"]["attached"], 1);
    place.end("one", job);
}
