//! Torture under neap: everything a program can do to its memory, at random, in memory several times
//! the limit, each page checked.
//!
//! The seed is printed and replays with `NEAP_TORTURE_SEED`; `NEAP_TORTURE_SECONDS=600` is the long run,
//! with a fresh seed. Every structure of the engine checks itself meanwhile.

use std::ffi::OsString;
use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use neap_tests::{Managed, Neap, Need, OrdinaryUser, Run, WITHOUT_RAW_CLONE, program, require};

/// How long the longest of these tortures takes, in seconds. `NEAP_TORTURE_SECONDS` replaces it, and scales the others.
const EVERYDAY: u64 = 10;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// The seed of this run: always the same in the everyday run, another each time in a long one.
fn seed() -> u64 {
    const USUAL: u64 = 20_261_121;
    let usual = number("NEAP_TORTURE_SECONDS").is_none().then_some(USUAL);
    number("NEAP_TORTURE_SEED").or(usual).unwrap_or_else(|| {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        now.as_micros() as u64 % 1_000_000_007
    })
}

struct Torture {
    name: &'static str,
    seconds: u64,
    program: OsString,
    extra: &'static [&'static str],
    memory: &'static str,
}

impl Torture {
    fn new(name: &'static str, seconds: u64) -> Self {
        let seconds = number("NEAP_TORTURE_SECONDS").map_or(seconds, |s| seconds * s / EVERYDAY);
        Torture {
            name,
            seconds,
            program: program("torture").into(),
            extra: &[],
            memory: "256M",
        }
    }

    /// Runs it and fails unless not one byte was wrong and pages went out.
    fn run(&self, neap: &Neap) -> Managed {
        let seed = seed();
        // Told at once and past the capture: a machine that dies of it still shows the seed.
        let _ = writeln!(
            std::io::stderr().lock(),
            "{}: NEAP_TORTURE_SEED={seed}",
            self.name
        );
        let mut words = vec![self.program.clone()];
        let options = [
            "--seed",
            &seed.to_string(),
            "--seconds",
            &self.seconds.to_string(),
            "--threads",
            "4",
        ];
        words.extend(options.iter().map(OsString::from));
        words.extend([
            "--memory".into(),
            self.memory.into(),
            "--stall".into(),
            "150".into(),
        ]);
        words.extend(self.extra.iter().map(OsString::from));
        let neap = neap.clone().env("NEAP_CHECK", "1");
        let run = neap.run(&Run::new(words).limit(Duration::from_secs(self.seconds + 240)));
        run.must_have_paged();
        assert!(
            run.text().starts_with(&format!("torture: ok seed={seed} ")),
            "{}",
            run.text()
        );
        run
    }
}

#[test]
fn torture_finds_no_wrong_byte() {
    let test = Torture::new("torture_finds_no_wrong_byte", EVERYDAY);
    if require(test.name, &[Need::Neap, Need::Userfaultfd]) {
        test.run(&Neap::limit("64M"));
    }
}

#[test]
fn torture_with_a_swap_file_finds_no_wrong_byte() {
    let test = Torture {
        memory: "384M",
        ..Torture::new("torture_with_a_swap_file_finds_no_wrong_byte", 8)
    };
    if require(test.name, &[Need::Neap, Need::Userfaultfd]) {
        let dir = tempfile::tempdir_in("/var/tmp").expect("a temporary folder");
        // A pool this small must be written back all the time.
        let neap = Neap::limit("64M")
            .option("--swap-dir")
            .option(dir.path())
            .option("--swap-size")
            .option("2G");
        let run = test.run(&neap.option("--pool-max").option("10"));
        assert!(
            run.number("/vmstat/zswpwb") > 0,
            "nothing was written back: {}",
            run.stats
        );
    }
}

#[test]
fn torture_of_an_ordinary_user_finds_no_wrong_byte() {
    // Without CAP_SYS_PTRACE the kernel announces no fork, and neap's library sees what comes by libc's `syscall` on x86-64 only.
    let extra: &[&str] = match cfg!(target_arch = "x86_64") {
        true => &[],
        false => &["--ops", WITHOUT_RAW_CLONE],
    };
    let mut test = Torture {
        extra,
        ..Torture::new("torture_of_an_ordinary_user_finds_no_wrong_byte", 7)
    };
    let Some((user, device)) = OrdinaryUser::with_device(test.name) else {
        return;
    };
    test.program = user.copy(test.program.as_ref()).into();
    let run = test.run(&user.run("64M", &device, &[]));
    assert!(
        run.number("/vmstat/zswpin") > 0,
        "nothing came back: {}",
        run.stats
    );
}
