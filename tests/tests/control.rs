//! A job that can be seen and steered while it runs, by its user and by nobody else. In each test the program looks at the
//! end whether every word of its memory is as it was.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use neap_tests::{
    Managed, MemoryGroup, Neap, Need, OrdinaryUser, Run, allowed, neap_binary, program, require,
    spawn_unmarked,
};
use serde_json::Value;
use tempfile::TempDir;

const MIB: u64 = 1 << 20;

/// Longest that anything here is waited for.
const LONGEST: Duration = Duration::from_secs(60);

/// A folder for sockets and files of one test, and a job in it that waits.
struct Case {
    dir: TempDir,
    name: String,
}

static NEXT: AtomicU32 = AtomicU32::new(0);

impl Case {
    fn of(test: &str, needs: &[Need]) -> Option<Self> {
        let all = [&[Need::Neap, Need::Userfaultfd], needs].concat();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        require(test, &all).then(|| Self {
            dir: tempfile::tempdir().expect("a folder"),
            name: format!("test-{}-{number}", std::process::id()),
        })
    }

    fn stop(&self) -> PathBuf {
        self.dir.path().join("stop")
    }

    /// The program, which takes so many MiB; `busy`: it touches them all the time.
    fn program(&self, mib: u64, busy: bool) -> Run {
        let mut words = vec![program("waits").into_os_string(), mib.to_string().into()];
        words.push(self.stop().into());
        words.extend(busy.then(|| "busy".into()));
        Run::new(words).limit(2 * LONGEST)
    }

    /// Runs it under `neap`; once it waits `meanwhile` is called, and then it is to end.
    fn run(&self, neap: Neap, run: &Run, meanwhile: impl FnOnce(u32)) -> Managed {
        let neap = neap.option("--name").option(&self.name);
        let neap = neap.env("XDG_RUNTIME_DIR", self.dir.path());
        let managed = neap.run_with(run, |pid| {
            self.wait_until("the program waits", || {
                self.dir.path().join("stop.ready").exists()
            });
            meanwhile(pid);
            fs::write(self.stop(), "").expect("a file");
        });
        managed.must_exit(0);
        assert_eq!(managed.text(), "whole\n");
        managed
    }

    fn wait_until(&self, what: &str, mut is: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !is() {
            assert!(begun.elapsed() < LONGEST, "waited in vain: {what}");
            sleep(Duration::from_millis(10));
        }
    }

    /// A command of neap's that finds the job.
    fn neap(&self, words: &[&str]) -> Output {
        let mut command = Command::new(neap_binary().expect("the binary of neap"));
        command.args(words);
        command.env("XDG_RUNTIME_DIR", self.dir.path());
        command.output().expect("neap runs")
    }

    /// The same, which must do what it was asked for. What it printed.
    fn must(&self, words: &[&str]) -> String {
        let output = self.neap(words);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let said = text(&output.stderr);
        assert!(output.status.success(), "{words:?}: {said}");
        text(&output.stdout)
    }

    /// The same, which must fail with this code, and one line that says why.
    fn must_fail(&self, words: &[&str], code: &str) -> String {
        let output = self.neap(words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{words:?}: {said}");
        assert!(
            said.starts_with(&format!("neap: error[{code}]: ")),
            "{said}"
        );
        assert!(said.lines().count() <= 2, "{said}");
        said
    }

    fn stat(&self) -> Value {
        let text = self.must(&["stat", &self.name, "--json"]);
        serde_json::from_str(&text).expect("an object")
    }

    fn number(&self, path: &str) -> u64 {
        let stat = self.stat();
        let number = stat.pointer(path).and_then(Value::as_u64);
        number.unwrap_or_else(|| panic!("no {path} in {stat}"))
    }

    fn socket(&self) -> PathBuf {
        self.dir
            .path()
            .join("neap")
            .join(format!("{}.sock", self.name))
    }

    fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(self.socket()).expect("somebody listens");
        stream.set_read_timeout(Some(LONGEST)).expect("a limit");
        stream
    }
}

/// The kernel's word for the anonymous memory of a process and its children, in bytes.
fn anon_of_tree(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let word = line.and_then(|line| line.split_ascii_whitespace().next());
    let own: u64 = word.and_then(|word| word.parse().ok()).unwrap_or(0);
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let children = children.unwrap_or_default();
    let children = children
        .split_ascii_whitespace()
        .filter_map(|pid| pid.parse().ok());
    // The agent has the memory of its program, which counts once.
    let is_agent = |pid: &u32| {
        let comm = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        comm.trim() == "mm-agent"
    };
    (own << 10)
        + children
            .filter(|pid| !is_agent(pid))
            .map(anon_of_tree)
            .sum::<u64>()
}

#[test]
fn a_running_job_tells_the_figures_that_its_statistics_have_at_the_end() {
    let test = "a_running_job_tells_the_figures_that_its_statistics_have_at_the_end";
    let Some(case) = Case::of(test, &[]) else {
        return;
    };
    let mut seen = Value::Null;
    let run = case.run(Neap::limit("24M"), &case.program(48, true), |pid| {
        seen = case.stat();
        assert_eq!(seen["pid"], pid);
        assert_eq!(seen["processes"][0]["comm"], "waits");
        let ps = case.must(&["ps"]);
        assert!(ps.lines().any(|line| line.starts_with(&case.name)), "{ps}");
        let list: Value = serde_json::from_str(&case.must(&["ps", "--json"])).expect("JSON");
        assert_eq!(list["jobs"][0]["name"], *case.name);
        let vmstat = case.must(&["stat", &case.name[..case.name.len()], "--vmstat"]);
        assert!(
            vmstat.lines().any(|line| line.starts_with("zswpout ")),
            "{vmstat}"
        );
        let text = case.must(&["stat", &pid.to_string()]);
        assert!(text.contains("24MiB"), "found by its process: {text}");
    });
    run.must_have_paged();
    for part in ["memory", "vmstat", "zswap", "neap", "sampler", "events"] {
        let names = |of: &Value| -> Vec<String> {
            let of = of[part].as_object().expect("a part");
            of.keys()
                .filter(|name| *name != "processes")
                .cloned()
                .collect()
        };
        assert_eq!(names(&seen), names(&run.stats), "{part}");
    }
    assert_eq!(
        seen["memory"]["limit_bytes"],
        run.stats["memory"]["limit_bytes"]
    );
    case.must_fail(&["stat", "--json"], "E0301");
    let left = fs::read_dir(case.dir.path().join("neap")).expect("the folder");
    assert_eq!(left.count(), 0, "nothing is left");
}

#[test]
fn a_limit_that_is_made_smaller_holds_and_a_larger_one_is_used() {
    let test = "a_limit_that_is_made_smaller_holds_and_a_larger_one_is_used";
    let Some(case) = Case::of(test, &[]) else {
        return;
    };
    let run = case.run(Neap::limit("96M"), &case.program(64, false), |pid| {
        assert!(anon_of_tree(pid) > 60 * MIB);
        case.must(&["set", &case.name, "memory.max=32M"]);
        let now = anon_of_tree(pid);
        assert!(now <= allowed(32 * MIB), "{now}");
        assert_eq!(case.number("/memory/limit_bytes"), 32 * MIB);
        let large = ["memory.max=160M", "zswap.max_pool_percent=30"];
        case.must(&["set", &case.name, large[0], large[1]]);
        let unknown = case.must_fail(&["set", &case.name, "swap.high=1G"], "E0306");
        assert!(unknown.contains("memory.max"), "{unknown}");
        case.must_fail(&["set", &case.name, "memory.max=1M"], "E0304");
        assert_eq!(
            case.number("/memory/limit_bytes"),
            160 * MIB,
            "nothing was set"
        );
    });
    assert_eq!(run.stats["events"]["set"], 3);
    assert_eq!(run.stats["warnings"].as_array().map(Vec::len), Some(0));
}

#[test]
fn memory_that_is_asked_back_leaves_and_too_much_fails_as_the_kernel_has_it() {
    let test = "memory_that_is_asked_back_leaves_and_too_much_fails_as_the_kernel_has_it";
    let Some(case) = Case::of(test, &[]) else {
        return;
    };
    case.run(Neap::limit("1G"), &case.program(64, false), |pid| {
        let before = anon_of_tree(pid);
        let got = case.must(&["reclaim", &case.name, "40M"]);
        let got: u64 = got.trim().parse().expect("a number");
        assert!(got >= 40 * MIB, "{got}");
        let after = anon_of_tree(pid);
        assert!(after + 36 * MIB <= before, "{before} {after}");
        let said = case.must_fail(&["reclaim", &case.name, "10G"], "E0305");
        assert!(said.contains("EAGAIN"), "{said}");
    });
}

#[test]
fn who_follows_a_job_is_told_what_happens_to_it() {
    let test = "who_follows_a_job_is_told_what_happens_to_it";
    let Some(case) = Case::of(test, &[]) else {
        return;
    };
    let mut follower = None;
    case.run(Neap::limit("24M"), &case.program(48, false), |_| {
        let mut command = Command::new(neap_binary().expect("the binary of neap"));
        command
            .args(["events", "--json"])
            .env("XDG_RUNTIME_DIR", case.dir.path());
        command.stdout(std::process::Stdio::piped());
        follower = Some(spawn_unmarked(&mut command).expect("neap runs"));
        case.must(&["set", &case.name, "memory.max=28M"]);
    });
    let told = follower
        .expect("it began")
        .wait_with_output()
        .expect("it ends with the job");
    assert!(told.status.success());
    let text = String::from_utf8_lossy(&told.stdout).into_owned();
    let lines = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"));
    let events: Vec<Value> = lines.collect();
    let has = |kind: &str| events.iter().any(|event| event["event"] == kind);
    assert!(has("limit") && has("set") && has("end"), "{text}");
    let numbers: Vec<_> = events.iter().map(|event| event["seq"].as_u64()).collect();
    assert!(numbers.is_sorted() && numbers[0] == Some(1), "{text}");
}

/// As the same user: whoever floods, stalls or lies costs only itself.
#[test]
fn a_hostile_client_of_the_same_user_costs_only_itself() {
    let test = "a_hostile_client_of_the_same_user_costs_only_itself";
    let Some(case) = Case::of(test, &[]) else {
        return;
    };
    case.run(Neap::limit("24M"), &case.program(48, true), |_| {
        // Silent ones take all the room that one process may have, and some that do not end their line.
        let mut silent: Vec<_> = (0..40)
            .filter_map(|_| UnixStream::connect(case.socket()).ok())
            .collect();
        for stream in &mut silent {
            let _ = stream.write_all(b"{\"v\":1,");
        }
        assert_eq!(case.stat()["name"], *case.name, "others are answered");
        drop(silent);
        let answer = |bytes: &[u8]| {
            let mut stream = case.connect();
            let _ = stream.write_all(bytes);
            let mut byte = [0; 4096];
            let got = stream.read(&mut byte).unwrap_or(0);
            String::from_utf8_lossy(&byte[..got]).into_owned()
        };
        let code = |bytes: &[u8]| {
            let answer: Value = serde_json::from_str(&answer(bytes)).unwrap_or_default();
            answer["error"]["code"]
                .as_str()
                .unwrap_or("none")
                .to_owned()
        };
        case.wait_until("there is room again", || code(b"\n") == "EINVAL");
        assert_eq!(code(b"\xff\xfe\0\n"), "EINVAL");
        assert_eq!(code(&[b'x'; 9000]), "E2BIG");
        assert_eq!(code(b"{\"v\":9,\"op\":\"stat\"}\n"), "EPROTO");
        assert_eq!(code(b"{\"v\":1,\"op\":\"exec\"}\n"), "EOPNOTSUPP");
        // One asks a thousand times and reads nothing.
        let mut greedy = case.connect();
        greedy.set_nonblocking(true).expect("a flag");
        for _ in 0..1000 {
            let _ = greedy.write_all(b"{\"v\":1,\"op\":\"stat\"}\n");
        }
        assert_eq!(case.stat()["name"], *case.name);
        // Both ask for what lasts, and the second is told so.
        let mut first = case.connect();
        first
            .write_all(b"{\"v\":1,\"op\":\"reclaim\",\"bytes\":1000000000000}\n")
            .expect("room");
        case.wait_until("it is busy", || {
            code(b"{\"v\":1,\"op\":\"reclaim\",\"bytes\":1}\n") == "EBUSY"
        });
    });
}

/// As another user: the folder keeps it out, and where that is open the socket tells it nothing.
#[test]
fn another_user_gets_no_answer() {
    let test = "another_user_gets_no_answer";
    let needs = [Need::Root, Need::Tool("setpriv")];
    let Some(case) = Case::of(test, &needs) else {
        return;
    };
    let Some(user) = OrdinaryUser::for_test(test) else {
        return;
    };
    let knock = user.copy(&program("knock"));
    let knocked = |socket: &Path| {
        let mut words = user.words();
        words.extend([knock.clone().into(), socket.into()]);
        let outcome = Run::new(words).limit(LONGEST).go();
        outcome.must_exit(0);
        outcome.text().trim().to_owned()
    };
    let open = |path: &Path, mode| {
        fs::set_permissions(path, Permissions::from_mode(mode)).expect("our own file");
    };
    case.run(Neap::limit("24M"), &case.program(32, false), |_| {
        let folder = case.dir.path().join("neap");
        open(case.dir.path(), 0o755);
        assert_eq!(
            fs::metadata(&folder).expect("it").permissions().mode() & 0o777,
            0o700
        );
        assert_eq!(knocked(&case.socket()), "-1", "the folder");
        open(&folder, 0o755);
        open(&case.socket(), 0o777);
        assert_eq!(knocked(&case.socket()), "0", "the socket");
        open(&folder, 0o700);
        assert_eq!(case.stat()["name"], *case.name);
    });
}

#[test]
fn what_a_killed_engine_left_is_removed_and_its_name_is_free() {
    let test = "what_a_killed_engine_left_is_removed_and_its_name_is_free";
    let Some(case) = Case::of(test, &[]) else {
        return;
    };
    let run = |words: &[&str]| {
        let mut command = Command::new(neap_binary().expect("the binary of neap"));
        command
            .args(["run", "-m", "64M", "--name", &case.name, "--"])
            .args(words);
        command.env("XDG_RUNTIME_DIR", case.dir.path());
        command
    };
    let mut first = spawn_unmarked(&mut run(&["sleep", "60"])).expect("neap runs");
    case.wait_until("it listens", || case.socket().exists());
    let second = run(&["true"]).output().expect("neap runs");
    assert_eq!(second.status.code(), Some(125), "its name is taken");
    assert!(String::from_utf8_lossy(&second.stderr).contains("E0114"));
    let mut follower = Command::new(neap_binary().expect("the binary of neap"));
    follower.args(["events", &case.name]);
    follower.env("XDG_RUNTIME_DIR", case.dir.path());
    follower.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut follower = spawn_unmarked(&mut follower).expect("neap runs");
    case.must(&["set", &case.name, "memory.max=65M"]);
    let mut told = [0; 1]; // the change is an event
    let out = follower.stdout.as_mut().expect("a pipe");
    out.read_exact(&mut told).expect("an event");
    first.kill().expect("it runs");
    first.wait().expect("it ends");
    let followed = follower.wait_with_output().expect("it ends");
    assert_eq!(followed.status.code(), Some(1), "no end was told");
    assert!(String::from_utf8_lossy(&followed.stderr).contains("E0303"));
    assert!(case.socket().exists(), "it could remove nothing");
    assert!(case.must(&["ps"]).lines().count() == 1);
    assert!(!case.socket().exists());
    assert!(run(&["true"]).status().expect("neap runs").success());
}

#[test]
fn an_ordinary_user_sees_and_steers_its_jobs_without_a_runtime_directory() {
    let test = "an_ordinary_user_sees_and_steers_its_jobs_without_a_runtime_directory";
    let Some((user, device)) = OrdinaryUser::with_device(test) else {
        return;
    };
    let (stop, waits) = (user.dir().join("stop"), user.copy(&program("waits")));
    let run = Run::new([waits.as_os_str(), "48".as_ref(), stop.as_os_str()]).limit(2 * LONGEST);
    let run = run.without("XDG_RUNTIME_DIR");
    let neap = |words: &[&str]| {
        let mut all = user.words();
        all.push(user.neap().into());
        all.extend(words.iter().map(Into::into));
        let outcome = Run::new(all).without("XDG_RUNTIME_DIR").limit(LONGEST).go();
        outcome.must_exit(0);
        outcome.text()
    };
    let managed = user.run("64M", &device, &[]).run_with(&run, |_| {
        let begun = Instant::now();
        while !user.dir().join("stop.ready").exists() && begun.elapsed() < LONGEST {
            sleep(Duration::from_millis(10));
        }
        neap(&["set", "waits", "memory.max=32M"]);
        let stat: Value = serde_json::from_str(&neap(&["stat", "--json"])).expect("JSON");
        let usage = stat["memory"]["current_bytes"].as_u64().expect("a number");
        assert!(usage <= allowed(32 * MIB), "{usage}");
        fs::write(&stop, "").expect("a file");
    });
    managed.must_exit(0);
    assert_eq!(managed.text(), "whole\n");
}

#[test]
fn a_limit_of_the_memory_cgroup_is_followed() {
    let test = "a_limit_of_the_memory_cgroup_is_followed";
    let Some(case) = Case::of(test, &[Need::Cgroup]) else {
        return;
    };
    let group = MemoryGroup::new(256 * MIB).expect("a group");
    let binary = neap_binary().expect("the binary of neap");
    let mut words = group.enter();
    words.push(binary.into());
    words.extend(["run", "--name", &case.name, "--"].map(Into::into));
    let run = case.program(48, false).wrapped(words);
    let run = run
        .env("XDG_RUNTIME_DIR", case.dir.path())
        .without("NEAP_MEMORY");
    let outcome = run.go_with(|_| {
        case.wait_until("the program waits", || {
            case.dir.path().join("stop.ready").exists()
        });
        let first = case.number("/memory/limit_bytes");
        assert!(first < 256 * MIB && first > 200 * MIB, "{first}");
        group.set_limit(128 * MIB).expect("a smaller limit");
        case.wait_until("the limit follows", || {
            case.number("/memory/limit_bytes") < 128 * MIB
        });
        case.must(&["set", &case.name, "memory.max=100M"]);
        group.set_limit(192 * MIB).expect("a larger limit");
        sleep(Duration::from_millis(1500));
        assert_eq!(
            case.number("/memory/limit_bytes"),
            100 * MIB,
            "what a person sets stands"
        );
        fs::write(case.stop(), "").expect("a file");
    });
    outcome.must_exit(0);
    assert_eq!(outcome.text(), "whole\n");
}
