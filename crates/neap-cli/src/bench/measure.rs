//! One run: start the command, look at it while it runs, and count what it took.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

use neap_sys::{Usage, start_within, usage_of_children};
use neap_tuning::TUNING;
use neap_units::PAGE_SIZE;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, WaitOptions, pidfd_open, wait};
use serde_json::Value;

use super::figures::Raw;
use super::group::{Group, field};
use super::interrupt::{Interrupt, Stop};
use super::lab::Backing;
use super::left::Left;
use super::plan::Bound;
use super::sample::{Counters, Peak, Pool, Watch, waited_for};
use super::stream::{Input, digest, tail};
use crate::choice::Contender;
use crate::exit::Ending;
use crate::failure::Failure;
use crate::machine::{Root, own_ticks};
use crate::run::launch::Target;
use crate::talk;

fn machine(what: &'static str) -> impl Fn(io::Error) -> Stop {
    move |source| Stop::Failed(Failure::Machine { what, source })
}

/// What is run, again and again.
#[derive(Debug)]
pub struct Runner {
    /// The machine.
    pub root: Root,
    /// The command.
    pub target: Target,
    /// This executable.
    pub neap: PathBuf,
    /// Where neap is told to swap.
    pub swap_dir: Option<PathBuf>,
    /// The standard input of each run.
    pub input: Input,
    /// Seconds after which a run is ended.
    pub patience: Option<u64>,
    /// Ends a run early.
    pub interrupt: Interrupt,
}

/// One turn of one contender.
#[derive(Clone, Copy, Debug)]
pub struct Turn<'a> {
    /// Which turn; 0 is the first run.
    pub number: u32,
    /// Under what.
    pub contender: Contender,
    /// Held to what.
    pub bound: Bound,
    /// In which group.
    pub group: Option<&'a Group>,
    /// On what the lab prepared.
    pub backing: &'a Backing,
}

/// The counters that are read before and after a run.
struct Before {
    usage: Usage,
    written: u64,
    pages: Counters,
}

impl Before {
    fn now(root: &Root) -> Self {
        Self {
            usage: usage_of_children(),
            written: written(root),
            pages: Counters::of_machine(root),
        }
    }
}

/// Bytes that this process and those it waited for had written to disk (proc(5), write_bytes).
fn written(root: &Root) -> u64 {
    let text = root.read("/proc/self/io").unwrap_or_default();
    field(&text, "write_bytes:").unwrap_or(0)
}

/// What is known when the last process has ended.
struct Ended {
    status: ExitStatus,
    /// The patience in seconds, when the run took longer.
    late: Option<u64>,
    /// The command had ended by itself before, and what it left behind had not.
    left_running: bool,
    wall_nanos: u64,
    /// Processor time of the first process alone, in nanoseconds.
    own_nanos: u64,
    /// The same in clock ticks, outside and in the kernel.
    ticks: (u64, u64),
    peak: Peak,
}

impl Runner {
    /// Runs the command once.
    ///
    /// # Errors
    /// A signal, or a failure of neap's own; how the command ends is no error.
    pub fn run(&self, turn: Turn<'_>) -> Result<Raw, Stop> {
        let stats = memfd_create("neap-bench-stats", MemfdFlags::CLOEXEC)
            .map(File::from)
            .map_err(|errno| machine("memfd_create")(errno.into()))?;
        let fate = memfd_create("neap-bench-fate", MemfdFlags::CLOEXEC)
            .map(File::from)
            .map_err(|errno| machine("memfd_create")(errno.into()))?;
        let mut command = self.command(turn, &stats, &fate);
        let input = self.input.open().map_err(machine("standard input"))?;
        command
            .stdin(input)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let entrance = turn.group.map(Group::entrance).transpose();
        start_within(&mut command, entrance.map_err(machine("cgroup.procs"))?);
        let pool = match (turn.contender, turn.backing.zram) {
            (Contender::Zswap, _) => Pool::zswap(&self.root),
            (_, Some(number)) => Pool::Zram(number),
            _ => Pool::None,
        };
        let before = Before::now(&self.root);
        let start = neap_sys::monotonic_nanos();
        let mut child = command.spawn().map_err(Failure::Spawn)?;
        let watch = Watch {
            root: &self.root,
            group: turn.group,
            first: i32::try_from(child.id()).unwrap_or_default(),
            neap: turn.contender == Contender::Neap,
            pool,
        };
        let out = child.stdout.take().map(digest).transpose();
        let err = child.stderr.take().map(tail).transpose();
        let ended = self.follow(&mut child, &watch, start, &fate)?;
        self.end_all(turn.group)?;
        let pages = turn.group.and_then(Counters::of_group);
        let machine_pages = Counters::of_machine(&self.root).since(before.pages);
        let after = usage_of_children();
        let wrote = written(&self.root).saturating_sub(before.written);
        self.interrupt.check()?;
        let mut raw = basic(turn, &ended, before.usage, after);
        raw.add_pages(turn, pages, machine_pages, wrote);
        raw.add_neap(&read_stats(stats));
        if let Some(reader) = out.map_err(machine("reader thread"))? {
            let digest = reader.join().unwrap_or_default();
            (raw.stdout_bytes, raw.stdout_sha256) = (digest.bytes, digest.sha256);
        }
        if let Some(reader) = err.map_err(machine("reader thread"))? {
            raw.stderr = reader.join().unwrap_or_default();
        }
        Ok(raw)
    }

    fn command(&self, turn: Turn<'_>, stats: &File, fate: &File) -> Command {
        if turn.contender != Contender::Neap {
            return self.target.command(&[]);
        }
        let limit = turn.bound.limit.unwrap_or_default().0.to_string();
        let name = |file: &File| format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        let mut command = Command::new(&self.neap);
        command.args(["run", "--require", "-m", &limit, "--stats", &name(stats)]);
        command.args(["--exit-file", &name(fate)]);
        if turn.bound.pool_beside {
            // The kernel's share (`max_pool_percent`).
            command.args(["--pool-beside", "--pool-max", "20"]);
        }
        if let Some(dir) = &self.swap_dir {
            command.arg("--swap-dir").arg(dir);
        }
        command.arg("--").args(&self.target.argv);
        neap_sys::hand_down(&mut command);
        command
    }

    /// Looks at the run until its first process has ended.
    fn follow(
        &self,
        child: &mut Child,
        watch: &Watch<'_>,
        start: u64,
        fate: &File,
    ) -> Result<Ended, Stop> {
        let pid = Pid::from_child(child);
        let fd = pidfd_open(pid, PidfdFlags::empty());
        let fd = fd.map_err(|errno| machine("pidfd_open")(errno.into()))?;
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: TUNING.bench.looks.0 as i64,
        };
        let (mut peak, mut late) = (Peak::default(), None);
        let (mut left, mut left_running) = (Left::default(), false);
        let waits = || waited_for(&self.root, watch.first);
        loop {
            watch.look(&mut peak);
            match poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timeout)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => break,
                Err(errno) => return Err(machine("poll")(errno.into())),
            }
            if self.interrupt.caught().is_some()
                || self.overrun(start, TUNING.bench.to_tell.0).is_some()
            {
                kill_everything(watch.group);
            }
            if late.is_none() && watch.neap {
                let ended = fate.metadata().is_ok_and(|facts| facts.len() > 0);
                let times = (neap_sys::monotonic_nanos(), TUNING.bench.to_leave.0);
                left.look(ended, times, waits)
                    .inspect(|line| talk::note(line));
            }
            if late.is_none() {
                late = self.overrun(start, 0);
                left_running = late.is_some() && left.is_running(waits);
            }
            if late.is_some() {
                kill_command(watch);
            }
        }
        let wall_nanos = neap_sys::monotonic_nanos() - start;
        let ticks = own_ticks(&self.root, pid.as_raw_pid()).unwrap_or_default();
        let own_nanos = neap_sys::own_time(pid.as_raw_pid()).unwrap_or(0);
        let status = child.wait().map_err(machine("wait"))?;
        Ok(Ended {
            status,
            late,
            left_running,
            wall_nanos,
            own_nanos,
            ticks,
            peak,
        })
    }

    /// The patience, when a run that began at `start` goes on for longer than that and `more` nanoseconds.
    fn overrun(&self, start: u64, more: u64) -> Option<u64> {
        let taken = (neap_sys::monotonic_nanos() - start).saturating_sub(more);
        self.patience
            .filter(|seconds| taken > seconds.saturating_mul(1_000_000_000))
    }

    /// Ends what the command left behind, and waits for all of it.
    fn end_all(&self, group: Option<&Group>) -> Result<(), Stop> {
        loop {
            match wait(WaitOptions::NOHANG) {
                Err(Errno::CHILD) if group.is_none_or(|g| g.members().is_empty()) => return Ok(()),
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) | Err(Errno::CHILD) => {
                    kill_everything(group);
                    std::thread::sleep(TUNING.bench.dying.duration());
                }
                Err(errno) => return Err(machine("wait")(errno.into())),
            }
        }
    }
}

/// By SIGKILL: every process of the group and every descendant.
fn kill_everything(group: Option<&Group>) {
    for pid in group.map(Group::members).unwrap_or_default() {
        // It may have ended by itself.
        let _ = neap_sys::signal(pid, signal_hook::consts::SIGKILL);
    }
    neap_sys::Root::own().kill_descendants();
}

/// The same but for neap, which then tells of its run and ends.
fn kill_command(watch: &Watch<'_>) {
    let members = watch.group.map(Group::members).unwrap_or_default();
    for pid in members
        .into_iter()
        .chain(neap_sys::Root::own().descendants())
    {
        if !(watch.neap && pid == watch.first) {
            // It may have ended by itself.
            let _ = neap_sys::signal(pid, signal_hook::consts::SIGKILL);
        }
    }
}

fn read_stats(mut file: File) -> Value {
    let mut text = String::new();
    let read = file.rewind().and_then(|()| file.read_to_string(&mut text));
    let stats = read.ok().and_then(|_| serde_json::from_str(&text).ok());
    let mut stats: Value = stats.unwrap_or(Value::Null);
    if let Some(stats) = stats.as_object_mut() {
        stats.remove("series"); // it is most of the file, and a bench has many runs
    }
    stats
}

/// The time of neap's thread in each process, in the kernel nearly all of it.
fn agents_seconds(stats: &Value) -> f64 {
    let processes = stats["processes"].as_array().into_iter().flatten();
    let times = processes.filter_map(|process| process["agent_seconds"].as_f64());
    times.sum()
}

fn ending(status: ExitStatus) -> Ending {
    match (status.code(), status.signal()) {
        (_, Some(signal)) => Ending::Signaled(signal),
        (code, None) => Ending::Exited(code.and_then(|c| u8::try_from(c).ok()).unwrap_or(u8::MAX)),
    }
}

/// The part of neap's own time that it spent outside the kernel: by its ticks, or like the whole run's
/// where it took less than a tick.
fn share(ticks: (u64, u64), all: (f64, f64)) -> f64 {
    let (user, system) = match ticks {
        (0, 0) => all,
        (user, system) => (user as f64, system as f64),
    };
    if user + system > 0.0 {
        user / (user + system)
    } else {
        0.0
    }
}

fn basic(turn: Turn<'_>, ended: &Ended, before: Usage, after: Usage) -> Raw {
    let seconds = |nanos: u64| nanos as f64 / 1e9;
    let user = seconds(after.user_nanos - before.user_nanos);
    let system = seconds(after.system_nanos - before.system_nanos);
    let own = match turn.contender {
        Contender::Neap => seconds(ended.own_nanos),
        _ => 0.0,
    };
    let own_user = own * share(ended.ticks, (user, system));
    // The kernel samples how time divides, so a part may come out larger than its whole.
    let cpu_user_seconds = (user - own_user).max(0.0);
    let cpu_system_seconds = (system - (own - own_user)).max(0.0);
    Raw {
        turn: turn.number,
        contender: turn.contender,
        limit_bytes: turn.bound.limit.map(|limit| limit.0),
        pool_beside: turn.bound.pool_beside,
        ending: ending(ended.status),
        given_up_after_seconds: ended.late,
        left_running: ended.left_running,
        wall_seconds: seconds(ended.wall_nanos),
        cpu_user_seconds,
        cpu_system_seconds,
        cpu_neap_seconds: own,
        cpu_all_seconds: cpu_user_seconds + cpu_system_seconds + own,
        peak_memory_bytes: ended.peak.memory,
        peak_resident_bytes: ended.peak.resident,
        peak_pool_bytes: ended.peak.pool,
        pool_held_bytes: ended.peak.held,
        group_peak_bytes: turn.group.and_then(Group::peak),
        max_rss_bytes: (after.max_rss_bytes > before.max_rss_bytes).then_some(after.max_rss_bytes),
        pages_out: 0,
        pages_in: 0,
        major_faults: after.major_faults - before.major_faults,
        disk_written_bytes: 0,
        counted: "machine",
        kills: turn.group.map_or(0, Group::kills),
        samples: ended.peak.samples,
        stdout_bytes: 0,
        stdout_sha256: String::new(),
        compressor: turn.backing.compressor.clone(),
        shrinker: turn.backing.shrinker(),
        settings_set: turn.backing.settings_set(),
        neap: Value::Null,
        stderr: String::new(),
    }
}

impl Raw {
    /// The kernel's counters of pages. Of swap, only what goes to a disk is written to one.
    fn add_pages(&mut self, turn: Turn<'_>, group: Option<Counters>, all: Counters, wrote: u64) {
        self.disk_written_bytes = wrote;
        if !matches!(
            turn.contender,
            Contender::Zswap | Contender::Swap | Contender::Zram
        ) {
            return;
        }
        self.counted = if group.is_some() { "group" } else { "machine" };
        let pages = group.unwrap_or(all);
        self.pages_out = pages.out;
        self.pages_in = pages.back;
        if turn.contender != Contender::Zram {
            self.disk_written_bytes += pages.written * PAGE_SIZE as u64;
        }
    }

    /// What only neap can tell of its run. Major faults are those it served: the kernel counts each
    /// fault that waited for neap, also those of fresh memory.
    fn add_neap(&mut self, stats: &Value) {
        if stats.is_null() {
            return;
        }
        let number = |path: &str| stats.pointer(path).and_then(Value::as_u64).unwrap_or(0);
        let counters = Counters::from(|name| Some(number(&format!("/vmstat/{name}"))));
        self.counted = "neap";
        self.pages_out = counters.out;
        self.pages_in = counters.back;
        self.major_faults = number("/vmstat/pgmajfault");
        self.peak_pool_bytes = number("/memory/peak_pool_bytes");
        self.pool_held_bytes = number("/memory/pool_held_bytes");
        let peak = |own: u64, name: &str| own.max(number(name));
        self.peak_memory_bytes = peak(self.peak_memory_bytes, "/memory/peak_bytes");
        self.peak_resident_bytes = peak(self.peak_resident_bytes, "/memory/peak_resident_bytes");
        let compressor = stats.pointer("/config/compressor").and_then(Value::as_str);
        self.compressor = compressor.map(str::to_owned);
        let agents = agents_seconds(stats).min(self.cpu_system_seconds);
        self.cpu_system_seconds -= agents;
        self.cpu_neap_seconds += agents;
        let mut told = stats.clone();
        if let Some(map) = told.as_object_mut() {
            map.remove("command");
            map.remove("processes");
        }
        self.neap = told;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_all_agents_counts() {
        let stats = serde_json::json!({"processes": [
            {"agent_seconds": 0.25}, {"pid": 1}, {"agent_seconds": 0.5}]});
        assert_eq!(agents_seconds(&stats), 0.75);
        assert_eq!(agents_seconds(&Value::Null), 0.0);
    }

    #[test]
    fn own_time_divides_by_ticks_or_like_the_rest() {
        assert_eq!(share((3, 1), (0.0, 1.0)), 0.75);
        assert_eq!(share((0, 0), (1.0, 1.0)), 0.5);
        assert_eq!(share((0, 0), (0.0, 0.0)), 0.0);
    }

    #[test]
    fn an_ending_is_a_code_or_a_signal() {
        assert_eq!(ending(ExitStatus::from_raw(3 << 8)), Ending::Exited(3));
        assert_eq!(ending(ExitStatus::from_raw(9)), Ending::Signaled(9));
    }
}
