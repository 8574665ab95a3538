//! A job that is frozen and thawed: it stands still, its memory leaves, and every word of that is as it was afterwards.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use neap_tests::{
    Managed, Neap, Need, OrdinaryUser, Run, Terminal, install, neap_binary, program, require, skip,
    tool,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

const MIB: u64 = 1 << 20;

/// Longest that anything here is waited for.
const LONGEST: Duration = Duration::from_secs(60);

/// A folder for sockets and files of one test, and the name of its job.
struct Case {
    dir: TempDir,
    name: String,
}

static NEXT: AtomicU32 = AtomicU32::new(0);

fn until(what: &str, mut is: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < LONGEST, "waited in vain: {what}");
        sleep(Duration::from_millis(10));
    }
}

fn signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    kill_process(pid.expect("a number"), signal).expect("our own");
}

impl Case {
    fn of(test: &str, needs: &[Need]) -> Option<Self> {
        let all = [&[Need::Neap, Need::Userfaultfd], needs].concat();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        require(test, &all).then(|| Self {
            dir: tempfile::tempdir().expect("a folder"),
            name: format!("frozen-{}-{number}", std::process::id()),
        })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The program that fills so many MiB and waits for the file `stop` to look at them.
    fn waits(&self, mib: u64, more: &[&str]) -> Run {
        let mut words = vec![program("waits").into_os_string(), mib.to_string().into()];
        words.push(self.file("stop").into());
        words.extend(more.iter().map(Into::into));
        Run::new(words).limit(2 * LONGEST)
    }

    fn run(&self, neap: Neap, run: &Run, meanwhile: impl FnOnce(u32)) -> Managed {
        let neap = neap.option("--name").option(&self.name);
        let neap = neap.env("XDG_RUNTIME_DIR", self.dir.path());
        neap.run_with(run, meanwhile)
    }

    fn neap(&self, words: &[&str]) -> Output {
        let mut command = Command::new(neap_binary().expect("the binary of neap"));
        command
            .args(words)
            .env("XDG_RUNTIME_DIR", self.dir.path())
            .output()
            .expect("neap runs")
    }

    /// Which must do what it is asked for, and has nothing to tell.
    fn must(&self, words: &[&str]) -> String {
        let output = self.neap(words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            output.status.success() && said.is_empty(),
            "{words:?}: {said}"
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Which must be refused, in one line.
    fn must_fail(&self, words: &[&str], why: &str) {
        let output = self.neap(words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{words:?}: {said}");
        assert!(
            said.starts_with("neap: error[E0304]: ") && said.contains(why),
            "{said}"
        );
        assert_eq!(said.lines().count(), 1, "{said}");
    }

    fn freeze(&self) -> u64 {
        let got = self.must(&["freeze", &self.name]);
        got.trim().parse().expect("a number of bytes")
    }

    fn thaw(&self) {
        assert_eq!(self.must(&["thaw", &self.name]), "");
    }

    fn number(&self, path: &str) -> u64 {
        let text = self.must(&["stat", &self.name, "--json"]);
        let stat: Value = serde_json::from_str(&text).expect("an object");
        let number = stat.pointer(path).and_then(Value::as_u64);
        number.unwrap_or_else(|| panic!("no {path} in {stat}"))
    }

    fn let_end(&self) {
        fs::write(self.file("stop"), "").expect("a file");
    }
}

/// The processes below this one, but for agents and those that have ended: number, state and processor time.
fn below(pid: u32) -> Vec<(u32, char, u64)> {
    let mut all = Vec::new();
    let tasks = fs::read_dir(format!("/proc/{pid}/task"));
    for task in tasks.into_iter().flatten().flatten() {
        let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        for child in children.split_ascii_whitespace() {
            let child: u32 = child.parse().expect("a number");
            let stat = fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
            let Some((name, rest)) = stat.rsplit_once(") ") else {
                continue;
            };
            let words: Vec<&str> = rest.split(' ').collect();
            let time = |at: usize| words[at].parse::<u64>().expect("a time");
            let state = words[0].chars().next().expect("a letter");
            if !name.ends_with("(mm-agent") && state != 'Z' {
                all.push((child, state, time(11) + time(12)));
            }
            all.extend(below(child));
        }
    }
    all
}

fn all_stand_still(neap: u32) {
    let before = below(neap);
    // A parent in vfork(2) waits for its child, which is stopped.
    let vforks = |pid| below(pid).iter().any(|(_, state, _)| *state == 'T');
    let stands = |&(pid, state, _): &_| state == 'T' || state == 'D' && vforks(pid);
    assert!(before.iter().all(stands), "{before:?}");
    sleep(Duration::from_millis(100));
    assert_eq!(below(neap), before, "none has had a cpu");
}

#[test]
fn a_frozen_job_stands_still_without_its_memory_and_is_whole_afterwards() {
    let test = "a_frozen_job_stands_still_without_its_memory_and_is_whole_afterwards";
    let Some(case) = Case::of(test, &[]) else {
        return;
    };
    let run = case.run(Neap::limit("512M"), &case.waits(64, &["busy"]), |pid| {
        until("it is ready", || case.file("stop.ready").exists());
        case.must_fail(&["thaw", &case.name], "not frozen");
        let got = case.freeze();
        assert!(got > 40 * MIB, "{got}");
        all_stand_still(pid);
        assert!(case.number("/memory/resident_bytes") < 4 * MIB);
        assert_eq!(
            case.number("/vmstat/zswpwb"),
            0,
            "nothing goes to disk unasked"
        );
        assert_eq!(case.number("/neap/frozen"), 1);
        assert!(case.must(&["ps"]).contains(" frozen\n"));
        assert!(case.must(&["stat", &case.name]).contains("; frozen\n"));
        case.must_fail(&["freeze", &case.name], "frozen already");
        case.must(&["freeze", &case.name, "--to-disk"]);
        assert_eq!(case.number("/zswap/pool_bytes"), 0);
        all_stand_still(pid);
        case.thaw();
        assert_eq!(case.number("/neap/frozen"), 0);
        until("it runs", || {
            below(pid).iter().all(|(_, state, _)| *state != 'T')
        });
        case.must(&["freeze", &case.name, "--to-disk"]);
        case.thaw();
        case.let_end();
    });
    run.must_exit(0);
    assert_eq!(run.text(), "whole\n");
    assert_eq!(run.stats["events"]["freeze"], 2);
    assert_eq!(run.stats["events"]["thaw"], 2);
}

#[test]
fn what_was_used_last_comes_back_with_the_thaw_where_that_is_asked_for() {
    let test = "what_was_used_last_comes_back_with_the_thaw_where_that_is_asked_for";
    let Some(case) = Case::of(test, &[]) else {
        return;
    };
    let run = case.run(Neap::limit("512M"), &case.waits(64, &[]), |_| {
        until("it is ready", || case.file("stop.ready").exists());
        for to_disk in [&[][..], &["--to-disk"]] {
            case.must(&[&["freeze", &case.name], to_disk].concat());
            let got = case.must(&["thaw", &case.name, "--prefetch"]);
            let got: u64 = got.trim().parse().expect("a number of bytes");
            assert!(got > 60 * MIB, "{got}");
            assert!(case.number("/memory/resident_bytes") > 60 * MIB);
        }
        case.freeze();
        case.must(&["set", &case.name, "memory.max=40M"]);
        let got = case.must(&["thaw", &case.name, "--prefetch"]);
        let got: u64 = got.trim().parse().expect("a number of bytes");
        assert!(
            (8 * MIB..40 * MIB).contains(&got),
            "as the limit has room: {got}"
        );
        assert!(case.number("/memory/current_bytes") <= 40 * MIB);
        case.let_end();
    });
    run.must_exit(0);
    assert_eq!(run.text(), "whole\n");
}

/// A shell with job control, which would tell of a child that it finds stopped; a pipeline; threads that wait; a program
/// that forks all the time; and a process that was stopped before.
#[test]
fn a_family_of_processes_stops_and_goes_on_as_if_nothing_had_been() {
    let test = "a_family_of_processes_stops_and_goes_on_as_if_nothing_had_been";
    let Some(case) = Case::of(test, &[Need::Tool("bash"), Need::Tool("python3")]) else {
        return;
    };
    let (dir, waits) = (case.dir.path().display(), program("waits"));
    let waits = waits.display();
    let threads = "import threading,os,time\n\
        def wait():\n while not os.path.exists('stop'): time.sleep(0.01)\n\
        all=[threading.Thread(target=wait) for _ in range(8)]\n\
        [t.start() for t in all]; open('threads.ready','w').close(); [t.join() for t in all]; print('joined')";
    fs::write(case.file("threads.py"), threads).expect("a file");
    let script = format!(
        "cd {dir}; set -m; {waits} 24 stop busy | cat & one=$!; python3 threads.py & two=$!; \
         sh -c 'while [ ! -e stop ]; do sh -c :; done' & three=$!; sleep 600 & kill -STOP $!; echo $! >stopped; \
         for job in $one $two $three; do wait $job; echo $?; done; kill -KILL $(cat stopped)"
    );
    let run = Run::new(["bash", "-c", &script]).limit(2 * LONGEST);
    let run = case.run(Neap::limit("512M"), &run, |pid| {
        until("all are ready", || {
            let ready = ["stop.ready", "threads.ready", "stopped"];
            ready.iter().all(|name| case.file(name).exists())
        });
        let stopped = fs::read_to_string(case.file("stopped")).expect("a file");
        let stopped: u32 = stopped.trim().parse().expect("a number");
        for _ in 0..5 {
            case.freeze();
            all_stand_still(pid);
            case.thaw();
            let state = |pid| fs::read_to_string(format!("/proc/{pid}/stat"));
            assert!(state(stopped).is_ok_and(|stat| stat.contains(") T ")));
            let others = |all: &[(u32, char, u64)]| {
                all.iter()
                    .all(|(pid, state, _)| *pid == stopped || *state != 'T')
            };
            until("the others run", || others(&below(pid)));
        }
        case.let_end();
    });
    run.must_exit(0);
    let said = run.text();
    let lines = said
        .lines()
        .filter(|line| *line != "joined" && *line != "whole");
    assert_eq!(lines.collect::<Vec<_>>(), ["0", "0", "0"], "{said}");
    let told = run.stderr.lines().filter(|line| line.contains("Stopped"));
    let mut told = told.filter(|line| !line.ends_with("sleep 600"));
    assert_eq!(told.next(), None, "the shell found it stopped");
}

#[test]
fn a_frozen_job_that_is_to_end_meets_the_signal_first() {
    let test = "a_frozen_job_that_is_to_end_meets_the_signal_first";
    let Some(case) = Case::of(test, &[]) else {
        return;
    };
    for (sent, status) in [(Signal::TERM, 3), (Signal::INT, 4)] {
        let ready = case.file("ready");
        let script = format!(
            "trap 'exit 3' TERM; trap 'exit 4' INT; : >{}; while :; do sleep 0.05; done",
            ready.display()
        );
        let run = Run::new(["sh", "-c", &script]).limit(LONGEST);
        let run = case.run(Neap::limit("512M"), &run, |pid| {
            until("it is ready", || ready.exists());
            case.freeze();
            signal(pid, sent);
        });
        run.must_exit(status);
        fs::remove_file(ready).expect("a file");
    }
}

#[test]
fn a_frozen_job_that_is_killed_leaves_nothing_behind() {
    let test = "a_frozen_job_that_is_killed_leaves_nothing_behind";
    let Some(case) = Case::of(test, &[]) else {
        return;
    };
    for kills_neap in [true, false] {
        let run = case.waits(32, &[]);
        let _ = fs::remove_file(case.file("stop.ready"));
        let run = case.run(Neap::limit("512M"), &run, |pid| {
            until("it is ready", || case.file("stop.ready").exists());
            case.freeze();
            let its = below(pid);
            signal(if kills_neap { pid } else { its[0].0 }, Signal::KILL);
            until("it has ended", || {
                !Path::new(&format!("/proc/{}", its[0].0)).exists()
            });
        });
        assert!(!run.status.success());
    }
    let left = String::from_utf8_lossy(&case.neap(&["ps"]).stdout).into_owned();
    assert_eq!(left.lines().count(), 1, "no job is left: {left}");
}

#[test]
fn a_job_without_a_swap_file_is_not_stopped_for_one() {
    let test = "a_job_without_a_swap_file_is_not_stopped_for_one";
    let Some(case) = Case::of(test, &[]) else {
        return;
    };
    let neap = Neap::limit("512M").option("--no-swap");
    let run = case.run(neap, &case.waits(16, &[]), |pid| {
        until("it is ready", || case.file("stop.ready").exists());
        case.must_fail(&["freeze", &case.name, "--to-disk"], "no swap file");
        assert!(below(pid).iter().all(|(_, state, _)| *state != 'T'));
        case.freeze();
        signal(pid, Signal::CONT);
        until("it goes on", || case.number("/neap/frozen") == 0);
        case.let_end();
    });
    run.must_exit(0);
    assert_eq!(run.text(), "whole\n");
}

/// As a shell would: the terminal sends the signal to neap and to the program, which is stopped.
#[test]
fn an_interrupt_from_the_terminal_ends_a_frozen_job() {
    let test = "an_interrupt_from_the_terminal_ends_a_frozen_job";
    let Some(case) = Case::of(test, &[Need::Tool("setsid")]) else {
        return;
    };
    let mut command = Command::new(neap_binary().expect("the binary of neap"));
    command.args(["run", "-m", "512M", "--name", &case.name, "--"]);
    command.args(case.waits(16, &[]).argv());
    command.env("XDG_RUNTIME_DIR", case.dir.path());
    let mut terminal = Terminal::run(&command, 80, 10);
    until("it is ready", || case.file("stop.ready").exists());
    case.freeze();
    terminal.keys("\x03");
    let (status, seen) = terminal.end();
    assert_eq!(status, None, "by the signal: {seen}");
}

/// One that became the superuser by a setuid program.
#[test]
fn a_process_that_may_not_be_stopped_is_named_and_the_others_are_frozen() {
    let test = "a_process_that_may_not_be_stopped_is_named_and_the_others_are_frozen";
    let Some((user, device)) = OrdinaryUser::with_device(test) else {
        return;
    };
    let becomes = user.dir().join("becomes-root");
    install(&tool("setpriv").expect("it is there"), &becomes, "4755");
    let (dir, becomes) = (user.dir().display(), becomes.display());
    let script = format!(
        "cd {dir}; {becomes} --reuid=0 sh -c 'id -ru >who; : >ready; until [ -e stop ]; do sleep 0.1; done' & \
         until [ -e stop ]; do sleep 0.1; done; wait"
    );
    let run = Run::new(["sh", "-c", &script]).limit(2 * LONGEST);
    let run = run.without("XDG_RUNTIME_DIR");
    let neap = user.run("512M", &device, &[]);
    let neap = neap.option("--name").option("of-two-users");
    let managed = neap.run_with(&run, |_| {
        until("it is ready", || user.dir().join("ready").exists());
        let steer = |word: &str| {
            let mut all = user.words();
            all.extend([user.neap().into(), word.into(), "of-two-users".into()]);
            Run::new(all).without("XDG_RUNTIME_DIR").limit(LONGEST).go()
        };
        let frozen = steer("freeze");
        match fs::read_to_string(user.dir().join("who")).is_ok_and(|who| who.trim() == "0") {
            true => {
                frozen.must_exit(1);
                assert!(
                    frozen.stderr.starts_with("neap: error[E0304]: "),
                    "{}",
                    frozen.stderr
                );
                assert!(
                    frozen.stderr.contains("could not be stopped"),
                    "{}",
                    frozen.stderr
                );
            }
            false => skip(test, "the temporary folder lets no program be setuid"),
        }
        steer("thaw").must_exit(0);
        fs::write(user.dir().join("stop"), "").expect("a file");
    });
    managed.must_exit(0);
}

/// Everything a program can do to its memory, frozen and thawed again and again meanwhile: five times, or as often as
/// `NEAP_TORTURE_SECONDS` has room for.
fn torture(words: &[&str], freeze_and_thaw: impl Fn(usize), neap: &Neap, copy: &Path) {
    let wanted = std::env::var("NEAP_TORTURE_SECONDS").ok();
    let seconds: u64 = wanted.and_then(|text| text.parse().ok()).unwrap_or(6);
    let usual =
        format!("--seconds {seconds} --threads 4 --memory 192M --stall 150 --seed 20261128");
    let all = [copy.to_str().expect("text")]
        .into_iter()
        .chain(usual.split(' '));
    let all = all.chain(words.iter().copied());
    let run = Run::new(all).limit(Duration::from_secs(300 + seconds));
    let neap = neap.clone().env("NEAP_CHECK", "1");
    let run = neap.run_with(&run, |_| {
        sleep(Duration::from_secs(2));
        (0..seconds as usize / 3).for_each(freeze_and_thaw);
    });
    run.must_have_paged();
    assert!(run.text().starts_with("torture: ok "), "{}", run.text());
}

#[test]
fn torture_that_is_frozen_and_thawed_finds_no_wrong_byte() {
    let test = "torture_that_is_frozen_and_thawed_finds_no_wrong_byte";
    let Some(case) = Case::of(test, &[]) else {
        return;
    };
    let neap = Neap::limit("64M").option("--name").option(&case.name);
    let neap = neap.env("XDG_RUNTIME_DIR", case.dir.path());
    let turn = |turn: usize| {
        let to_disk = ["freeze", &case.name, "--to-disk"];
        let frozen = case.neap(&to_disk[..2 + turn % 2]);
        assert!(frozen.status.success(), "{frozen:?}");
        let prefetch = ["thaw", &case.name, "--prefetch"];
        case.must(&prefetch[..2 + turn % 3 / 2]);
        sleep(Duration::from_millis(200));
    };
    torture(&[], turn, &neap, &program("torture"));
}

#[test]
fn so_does_that_of_an_ordinary_user() {
    let test = "so_does_that_of_an_ordinary_user";
    let Some((user, device)) = OrdinaryUser::with_device(test) else {
        return;
    };
    let copy = user.copy(&program("torture"));
    let neap = user
        .run("64M", &device, &[])
        .option("--name")
        .option("torture-of-user");
    let steer = |words: &[&str]| {
        let mut all = user.words();
        all.push(user.neap().into());
        all.extend(words.iter().map(Into::into));
        let outcome = Run::new(all)
            .without("XDG_RUNTIME_DIR")
            .limit(2 * LONGEST)
            .go();
        outcome.must_exit(0);
    };
    let turn = |turn: usize| {
        let to_disk = ["freeze", "torture-of-user", "--to-disk"];
        steer(&to_disk[..2 + turn % 2]);
        steer(&["thaw", "torture-of-user"]);
        sleep(Duration::from_millis(200));
    };
    // Without raw clones, which the other tortures of an ordinary user make.
    let ops = "map,unmap,punch,fixed,remap,protect,write,poke,verify,sweep,sleep,dontneed,free,advise,rw,vec,threads,\
        sharewrite,stack,fork,forkall,forkexec,vfork,spawn,daemon,malloc,code";
    torture(&["--ops", ops], turn, &neap, &copy);
}
