//! The torture program in the jobs of one service, to which everything is done meanwhile that can be done to a job.
//!
//! The seed is printed; `NEAP_TORTURE_SEED` repeats what is decided by it, though not the moment at which it happens.
//! `NEAP_TORTURE_SECONDS=600` is the long run, with a fresh seed.

#[path = "torture_jobs/words.rs"]
mod words;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use neap_tests::service::{Place, Told, path, places};
use neap_tests::{Dice, WITHOUT_RAW_CLONE, paging, program};
use words::{REFUSALS, WARNINGS, is_expected};

/// What is set for one job.
const KEYS: [&str; 7] = [
    "memory.max",
    "memory.low",
    "memory.min",
    "memory.high",
    "swap.max",
    "zswap.max",
    "zswap.writeback",
];

/// Jobs at a time.
const JOBS: usize = 8;
/// Requests at a time.
const REQUESTS: usize = 3;
/// How long anything may last that should end by itself: a hang is what lasts longer.
const PATIENCE: Duration = Duration::from_secs(240);
/// How long a round of the everyday run is, in seconds, and one of the long run.
const ROUND: [u64; 2] = [2, 20];

const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;
const SIGCONT: i32 = 18;
const SIGSTOP: i32 = 19;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// A torture program, and what was done that it may die of.
struct Job {
    name: String,
    told: Told,
    /// The program, by its number; others become children of the client later.
    program: Option<i32>,
    harms: Vec<i32>,
    goes_on: Option<Instant>,
    /// Its service has ended, or is about to.
    gone: bool,
}

/// How a round ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Jobs,
    Terminated,
    Killed,
}

/// The life of one service.
struct Round<'a> {
    place: &'a Place,
    ending: Ending,
    torture: PathBuf,
    folder: tempfile::TempDir,
    dice: Dice,
    service: Option<Told>,
    jobs: Vec<Job>,
    requests: Vec<Told>,
    started: u32,
    ends: Instant,
    /// The most that a program has, in MiB.
    most: u64,
    done: BTreeMap<&'static str, u32>,
    /// What went wrong, which is told at the end.
    faults: Vec<String>,
}

impl Drop for Round<'_> {
    fn drop(&mut self) {
        let _ = self.place.leftovers();
    }
}

impl<'a> Round<'a> {
    fn new(place: &'a Place, torture: PathBuf, ending: Ending, seed: u64, seconds: u64) -> Self {
        Self {
            place,
            ending,
            torture,
            folder: tempfile::tempdir().expect("a folder"),
            dice: Dice::new(seed),
            service: None,
            jobs: Vec::new(),
            requests: Vec::new(),
            started: 0,
            ends: Instant::now() + Duration::from_secs(seconds),
            most: if seconds == ROUND[0] { 24 } else { 96 },
            done: BTreeMap::new(),
            faults: Vec::new(),
        }
    }

    fn start(&mut self, words: &[&str]) -> Told {
        self.started += 1;
        let name = self.started.to_string();
        self.place.told(words, self.folder.path(), &name)
    }

    /// A service with a pool, a swap file and times as the dice have them.
    fn serve(&mut self, walk: &str) {
        let dice = &mut self.dice;
        let (limit, size) = (dice.mib(64, 64 + self.most), dice.of(&["32M", "2G"]));
        let pool = dice.of(&["3", "20", "50"]);
        let idle = dice.of(&["300ms", "1s", "off"]);
        let compressor = dice.of(&["zstd:-1", "lz4"]);
        let mut words = vec![
            "serve",
            "all",
            "-m",
            &limit,
            "--walk",
            walk,
            "--pool-max",
            pool,
        ];
        words.extend(["--idle", idle, "--compressor", compressor]);
        match dice.one_in(4) {
            true => words.push("--no-swap"),
            false => words.extend(["--swap-dir", "/var/tmp", "--swap-size", size]),
        }
        let service = self.start(&words);
        // Not by its socket: one before it that was killed has left such a one.
        self.until(service.begun, "the service answers", |round| {
            round.place.ask(&["stat", "all"]).status.success()
        });
        self.service = Some(service);
    }

    /// Goes on with what is there until something is so.
    fn until(&mut self, begun: Instant, what: &str, mut is: impl FnMut(&mut Self) -> bool) {
        while !is(self) {
            if begun.elapsed() > PATIENCE {
                self.hangs(what);
            }
            sleep(Duration::from_millis(10));
        }
    }

    fn hangs(&self, what: &str) -> ! {
        let live = self
            .jobs
            .iter()
            .map(|job| format!("{} ({:?})\n", job.told.what, job.harms));
        let live: String = live.collect();
        panic!("waited in vain: {what}\n{live}{}", self.place.describe());
    }

    fn start_job(&mut self) {
        let name = format!("job-{:05}", self.started);
        let left = self
            .ends
            .saturating_duration_since(Instant::now())
            .as_secs();
        let dice = &mut self.dice;
        let seconds = (1 + dice.below(5)).min(left + 1).to_string();
        let (seed, memory) = (dice.below(1 << 32).to_string(), dice.mib(12, self.most));
        let (max, low) = (dice.mib(16, 128), dice.mib(0, 48));
        let mut words = match dice.one_in(8) {
            true => vec!["run", "--budget", "all:64M", "--name", &name],
            false => vec!["run", "--in", "all", "--name", &name],
        };
        if dice.one_in(3) {
            words.extend(["-m", &max]);
        }
        if dice.one_in(3) {
            words.extend([dice.of(&["--low", "--min"]), &low]);
        }
        let torture = self.torture.clone();
        words.extend(["--", path(&torture), "--seed", &seed]);
        words.extend(["--seconds", &seconds, "--threads", "2"]);
        words.extend(["--memory", &memory, "--stall", "150"]);
        // Where forks are announced nobody ends such a child when the service is killed (docs/design/safety.md).
        let unseen = cfg!(not(target_arch = "x86_64")) && self.place.is_of_user();
        if unseen || self.ending == Ending::Killed {
            words.extend(["--ops", WITHOUT_RAW_CLONE]);
        }
        let told = self.start(&words);
        self.jobs.push(Job {
            name,
            told,
            program: None,
            harms: Vec::new(),
            goes_on: None,
            gone: false,
        });
    }

    fn ask(&mut self, what: &'static str, words: &[&str]) {
        *self.done.entry(what).or_default() += 1;
        let told = self.start(words);
        self.requests.push(told);
    }

    /// Does one of the things that can be done to a job or to the service.
    fn act(&mut self) {
        if self.jobs.len() < JOBS && self.dice.below(3) > 0 {
            self.start_job();
            return;
        }
        if self.jobs.is_empty() {
            return;
        }
        let at = self.dice.below(self.jobs.len() as u64) as usize;
        if self.dice.one_in(6) {
            self.harm(at);
        } else if self.requests.len() < REQUESTS {
            let name = self.jobs[at].name.clone();
            self.steer(&name);
        }
    }

    fn steer(&mut self, name: &str) {
        let either = self.dice.of(&[name, "all"]);
        match self.dice.below(16) {
            0..4 => self.ask("freeze", &["freeze", name]),
            4..6 => self.ask("thaw", &["thaw", name]),
            6..8 => self.ask("thaw --prefetch", &["thaw", name, "--prefetch"]),
            8 => {
                let size = self.dice.mib(1, 64);
                self.ask("reclaim", &["reclaim", either, &size]);
            }
            9 => {
                let max = format!("memory.max={}", self.dice.mib(64, 224));
                self.ask("set service", &["set", "all", &max]);
            }
            10 => {
                let share = format!("zswap.max_pool_percent={}", 1 + self.dice.below(60));
                let writes = format!("zswap.writeback={}", self.dice.below(2));
                let idle = format!("idle={}", self.dice.of(&["200ms", "1s", "off"]));
                self.ask("set service", &["set", "all", &share, &writes, &idle]);
            }
            11 => self.ask("look", &["stat", "--json", either]),
            12 => self.ask("freeze --to-disk", &["freeze", name, "--to-disk"]),
            _ => {
                let key = self.dice.of(&KEYS);
                let value = match key {
                    "zswap.writeback" => self.dice.below(2).to_string(),
                    "memory.high" | "swap.max" | "zswap.max" if self.dice.below(3) == 0 => {
                        "max".to_owned()
                    }
                    "memory.high" => self.dice.mib(48, 96),
                    "swap.max" => self.dice.mib(1, 64),
                    "zswap.max" => self.dice.mib(0, 8),
                    _ => self.dice.mib(8, 96),
                };
                let change = format!("{key}={value}");
                self.ask("set job", &["set", name, &change]);
            }
        }
    }

    /// A signal to a client, or to the program itself.
    fn harm(&mut self, at: usize) {
        let (kind, pause) = (self.dice.below(6), 50 + self.dice.below(1000));
        let job = &mut self.jobs[at];
        let what = match kind {
            0 | 1 => {
                job.told.signal(SIGSTOP);
                job.goes_on = Some(Instant::now() + Duration::from_millis(pause));
                "stop client"
            }
            2 | 3 => {
                job.harms.push(SIGTERM);
                job.told.signal(SIGTERM);
                "end client"
            }
            4 => {
                job.harms.push(SIGKILL);
                job.told.signal(SIGKILL);
                "kill client"
            }
            _ => {
                let all = job.told.children();
                let Some(pid) = job.program.filter(|pid| all.contains(pid)) else {
                    return;
                };
                job.harms.push(SIGKILL);
                let _ = neap_sys::signal(pid, SIGKILL);
                "kill program"
            }
        };
        *self.done.entry(what).or_default() += 1;
    }

    /// Looks after all that was begun.
    fn look(&mut self) {
        for mut request in std::mem::take(&mut self.requests) {
            match request.has_ended() {
                Some(status) => self.judge_request(&request, status),
                None if request.begun.elapsed() > PATIENCE => self.hangs(&request.what),
                None => self.requests.push(request),
            }
        }
        let now = Instant::now();
        for mut job in std::mem::take(&mut self.jobs) {
            if job.goes_on.is_some_and(|time| time <= now) {
                job.told.signal(SIGCONT);
                job.goes_on = None;
            }
            job.program = job.program.or(job.told.children().first().copied());
            match job.told.has_ended() {
                Some(status) => self.judge(&job, status),
                None => self.jobs.push(job),
            }
        }
    }

    fn judge_request(&mut self, request: &Told, status: ExitStatus) {
        let (_, err) = request.said();
        let known = err.lines().all(|line| {
            let mut all = REFUSALS.iter().chain(&WARNINGS);
            line.starts_with("  try: ") || all.any(|known| line.contains(known))
        });
        let to_disk = request.what.ends_with("--to-disk") && err.contains("nothing can go to disk");
        if !(to_disk || known) {
            self.faults
                .push(format!("{}: {status} {err}", request.what));
        }
    }

    fn judge(&mut self, job: &Job, status: ExitStatus) {
        let (out, err) = job.told.said();
        let mut lines = err.lines().filter(|line| line.starts_with("neap: "));
        // Or killed before the library has said a word, or while it forked.
        let early = ["library was not loaded", "could not take over its memory"];
        let early = |line: &str| early.iter().any(|known| line.contains(known));
        let early = |line: &str| !job.harms.is_empty() && early(line);
        let strange = lines.any(|line| !(is_expected(line, job.gone) || early(line)));
        let told = err.contains("ended with signal") || err.contains("or was killed");
        let wrong = err.lines().any(|line| {
            let fails = line.starts_with("torture: FAIL") || line.contains("STALL");
            // That a child of its own was killed is no more than what was done to it; one whose child was killed ends with status 1.
            let of_harm = line.contains("ended with signal") || line.contains("or was killed");
            let of_harm = of_harm || told && line.contains("ended with status 1");
            // Who cannot tell the engine of memory to be wiped is refused that (MADV_WIPEONFORK).
            let of_end = job.gone && line.contains("madvise 18");
            fails && !of_end && (job.harms.is_empty() || !of_harm)
        });
        let whole = status.success() && out.starts_with("torture: ok seed=");
        let late = job.gone && status.code() == Some(125);
        let died = job.harms.iter().any(|&harm| status.signal() == Some(harm));
        let harmed = died || !job.harms.is_empty() && (told || late);
        if strange || wrong || !(whole || harmed) {
            let (what, harms) = (&job.told.what, &job.harms);
            self.faults
                .push(format!("{what}: {status} {harms:?}\n{out}{err}"));
        }
        let kind = if whole { "whole" } else { "harmed" };
        *self.done.entry(kind).or_default() += 1;
    }

    /// The end of the service, before or after that of its jobs, and what it leaves.
    fn end(mut self) {
        let ending = self.ending;
        let mut service = self.service.take().expect("it was started");
        let (begun, mut thaws) = (Instant::now(), Duration::ZERO);
        if ending == Ending::Jobs {
            // What is out comes back sooner: the jobs are to end by themselves.
            self.ask("set service", &["set", "all", "memory.max=1G"]);
        }
        match ending {
            Ending::Jobs => self.until(begun, "the jobs end", |round| {
                let busy = !round.requests.is_empty() || begun.elapsed() < thaws;
                if !busy && round.jobs.iter().all(|job| job.goes_on.is_none()) {
                    thaws = begun.elapsed() + Duration::from_millis(300);
                    let names: Vec<_> = round.jobs.iter().map(|job| job.name.clone()).collect();
                    names
                        .iter()
                        .for_each(|name| round.ask("thaw", &["thaw", name]));
                }
                round.look();
                round.jobs.is_empty() && round.requests.is_empty()
            }),
            Ending::Terminated | Ending::Killed => {
                for job in &mut self.jobs {
                    // By the one or the other.
                    job.harms.extend([SIGTERM, SIGKILL]);
                    job.gone = true;
                }
            }
        }
        service.signal(if ending == Ending::Killed {
            SIGKILL
        } else {
            SIGTERM
        });
        self.until(begun, "the service and its jobs end", |round| {
            round.look_after_end();
            service.has_ended().is_some() && round.jobs.is_empty() && round.requests.is_empty()
        });
        let status = service.has_ended().expect("it has ended");
        let (_, err) = service.said();
        let mut lines = err.lines().filter(|line| !line.contains("all serves"));
        let strange = lines.any(|line| !is_expected(line, ending == Ending::Killed));
        if strange || !(status.success() || ending == Ending::Killed) {
            self.faults
                .push(format!("{}: {status} {err}", service.what));
        }
        let left = self.place.leftovers();
        self.faults
            .extend(left.into_iter().map(|line| format!("left: {line}")));
        if ending != Ending::Killed {
            let left = fs::read_dir(self.place.file("neap")).expect("a folder");
            let left = left.map(|entry| format!("left: {:?}", entry.expect("a file").path()));
            self.faults.extend(left);
        }
        let (what, done, mut all) = (&service.what, &self.done, std::io::stderr().lock());
        let took = begun.elapsed().as_secs();
        let _ = writeln!(all, "  {ending:?} after {took} s: {what} {done:?}");
        drop(all);
        assert!(self.faults.is_empty(), "{what}\n{}", self.faults.join("\n"));
    }

    /// As [`look`](Self::look); a service that ends takes its jobs along, by whatever signal, and answers nobody.
    fn look_after_end(&mut self) {
        for mut request in std::mem::take(&mut self.requests) {
            if request.has_ended().is_none() {
                self.requests.push(request);
            }
        }
        for mut job in std::mem::take(&mut self.jobs) {
            job.told.signal(SIGCONT);
            match job.told.has_ended() {
                Some(status) => self.judge(&job, status),
                None => self.jobs.push(job),
            }
        }
    }
}

/// The seed of this run: always the same in the everyday run, another each time in a long one.
fn seed() -> u64 {
    let usual = number("NEAP_TORTURE_SECONDS")
        .is_none()
        .then_some(20_261_205);
    number("NEAP_TORTURE_SEED").or(usual).unwrap_or_else(|| {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        now.as_micros() as u64 % 1_000_000_007
    })
}

#[test]
fn torture_in_eight_jobs_of_a_service_finds_no_wrong_byte() {
    let test = "torture_in_eight_jobs_of_a_service_finds_no_wrong_byte";
    let Some(_alone) = paging(test) else { return };
    let (seed, long) = (seed(), number("NEAP_TORTURE_SECONDS"));
    let _ = writeln!(std::io::stderr().lock(), "{test}: NEAP_TORTURE_SEED={seed}");
    let walks = ["memcg-lru", "full", "cookie"];
    let endings = [Ending::Jobs, Ending::Terminated, Ending::Killed];
    for place in places(test) {
        let torture = place.copy(&program("torture"));
        let seconds = ROUND[usize::from(long.is_some())];
        let usual = if place.is_of_user() { 1 } else { 3 };
        let rounds = long.map_or(usual, |long| long.div_ceil(seconds));
        for at in 0..rounds {
            let ending = endings[(at as usize + at as usize / 3) % 3];
            let mut round = Round::new(&place, torture.clone(), ending, seed + at, seconds);
            round.serve(walks[at as usize % 3]);
            (0..JOBS).for_each(|_| round.start_job());
            while Instant::now() < round.ends {
                round.act();
                round.look();
                sleep(Duration::from_millis(round.dice.below(100)));
            }
            round.end();
        }
    }
}
