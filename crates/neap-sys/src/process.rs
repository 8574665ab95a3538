//! Facts about other processes, and signals to them.

use std::fs;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::thread;
use std::time::Duration;

use crate::errno::{Result, SysError};

/// Whether process `pid` has that thread.
pub(crate) fn is_thread_of(pid: i32, thread: u32) -> bool {
    // SAFETY: integers only; signal 0 is none.
    unsafe { libc::syscall(libc::SYS_tgkill, pid, thread, 0) == 0 }
}

/// A process that cannot be confused with a later one of the same number.
#[derive(Debug)]
pub struct Pidfd(OwnedFd);

impl Pidfd {
    /// Opens process `pid`. Readable (see [`wait_readable`](crate::wait_readable)) once it ended.
    pub fn open(pid: i32) -> Result<Self> {
        // SAFETY: the call takes integers only.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        let fd = i32::try_from(fd).unwrap_or(-1);
        if fd < 0 {
            return Err(SysError::last("pidfd_open", pid.to_string()));
        }
        // SAFETY: the kernel just gave us this descriptor and nobody else owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Sends `signal` to the process.
    pub fn signal(&self, signal: i32) -> Result<()> {
        let info: *const libc::siginfo_t = std::ptr::null();
        // SAFETY: a null siginfo asks the kernel to fill in its own.
        let done = unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                self.0.as_raw_fd(),
                signal,
                info,
                0,
            )
        };
        if done < 0 {
            return Err(SysError::last("pidfd_send_signal", signal.to_string()));
        }
        Ok(())
    }
}

impl AsFd for Pidfd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Sends `signal` to process `pid`.
pub fn signal(pid: i32, signal: i32) -> Result<()> {
    // SAFETY: the call takes integers only.
    if unsafe { libc::kill(pid, signal) } < 0 {
        return Err(SysError::last("kill", format!("{pid}, {signal}")));
    }
    Ok(())
}

/// An open `/proc/PID/statm`: how much memory a process has, also when no descriptor is left to ask with.
#[derive(Debug)]
pub struct Statm(fs::File);

impl Statm {
    /// That of process `pid`, whatever it runs.
    pub fn open(pid: i32) -> io::Result<Self> {
        fs::File::open(format!("/proc/{pid}/statm")).map(Self)
    }

    /// Anonymous memory resident in the process (`RssAnon`), in bytes; `None` once it is gone.
    pub fn anon_resident(&self) -> Option<u64> {
        // It costs a third of status: resident minus shared (file and shmem) pages.
        // It is asked each millisecond: one read of the few bytes it has, and no look at its size before.
        let mut text = [0; 160];
        let len = self.0.read_at(&mut text, 0).ok()?;
        let text = str::from_utf8(&text[..len]).ok()?;
        let mut fields = text.split(' ').skip(1).map(str::parse::<u64>);
        let resident = fields.next()?.ok()?;
        let shared = fields.next()?.ok()?;
        Some(resident.saturating_sub(shared) * 4096)
    }
}

/// Anonymous memory resident in process `pid` (`RssAnon`), in bytes; `None` once it is gone.
pub fn anon_resident(pid: i32) -> Option<u64> {
    Statm::open(pid).ok()?.anon_resident()
}

/// Processor time that all threads of process `pid` have taken so far, in nanoseconds; `None` once it is gone.
pub fn cpu_nanos(pid: i32) -> Option<u64> {
    let (mut clock, mut time) = (
        0,
        libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        },
    );
    // SAFETY: one clockid_t is written, then one timespec.
    let failed = unsafe {
        libc::clock_getcpuclockid(pid, &raw mut clock) != 0
            || libc::clock_gettime(clock, &raw mut time) != 0
    };
    (!failed).then_some(time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned())
}

/// How long a thread has had a cpu so far, and how long it has waited for one, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// Time on a cpu.
    pub ran: u64,
    /// Time in which it was ready to run and did not.
    pub waited: u64,
}

impl CpuTime {
    /// What has come to it since `then`.
    #[must_use]
    pub fn since(self, then: Self) -> Self {
        Self {
            ran: self.ran.saturating_sub(then.ran),
            waited: self.waited.saturating_sub(then.waited),
        }
    }
}

/// The cpu time of a thread of process `pid`; `None` where the kernel does not say.
pub fn cpu_time(pid: i32, tid: i32) -> Option<CpuTime> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat")).ok()?;
    let mut numbers = text.split(' ').map_while(|number| number.parse().ok());
    let (ran, waited) = (numbers.next()?, numbers.next()?);
    Some(CpuTime { ran, waited })
}

/// Whether a thread of process `pid` sleeps in mremap.
pub fn is_in_mremap(pid: i32, tid: u32) -> bool {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall")).unwrap_or_default();
    let number = text.split(' ').next().and_then(|word| word.parse().ok());
    number == Some(libc::SYS_mremap)
}

/// The same of any of its threads, for a process whose numbers of threads mean nothing to us.
pub fn any_in_mremap(pid: i32) -> bool {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter();
    let number = |task: fs::DirEntry| task.file_name().to_str()?.parse().ok();
    let mut threads = tasks.flatten().flatten().filter_map(number);
    threads.any(|tid| is_in_mremap(pid, tid))
}

/// How much of the anonymous memory of process `pid` is its sharers' part (`Anonymous` less `Pss_Anon`), in
/// bytes. The kernel walks every page for it.
pub fn anon_of_sharers(pid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    Some(sum_of(&text, "Anonymous:")?.saturating_sub(sum_of(&text, "Pss_Anon:")?))
}

/// Faults of process `pid`, minor and major, that came to their end.
pub fn faults(pid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, after_name) = text.rsplit_once(')')?; // which may hold anything
    let mut fields = after_name.split_whitespace().skip(7);
    let mut next = |skip| fields.nth(skip)?.parse::<u64>().ok();
    Some(next(0)? + next(1)?)
}

/// Bytes that process `pid` has declared free (MADV_FREE) and that are still there. Slow: the kernel walks every page.
pub fn declared_free(pid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    sum_of(&text, "LazyFree:")
}

/// A field of smaps_rollup, in bytes.
fn sum_of(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kib * 1024)
}

/// Where each thread of process `pid` keeps its list of robust futexes, in its own record in libc.
/// Threads without one, and those we may not ask about, are left out.
pub fn robust_lists(pid: i32) -> Vec<u64> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"));
    let threads = tasks.into_iter().flatten().flatten();
    let list = |task: fs::DirEntry| {
        let tid: libc::c_int = task.file_name().to_str()?.parse().ok()?;
        let (mut head, mut len) = (0u64, 0usize);
        // SAFETY: the kernel writes one pointer and one size.
        let done =
            unsafe { libc::syscall(libc::SYS_get_robust_list, tid, &raw mut head, &raw mut len) };
        (done == 0 && head != 0).then_some(head)
    };
    threads.filter_map(list).collect()
}

/// The command name of process `pid`.
pub fn comm(pid: i32) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(text.trim_end().to_owned())
}

/// The mappings of process `pid` that a forked child finds empty (`wf` in VmFlags); `None` if they
/// cannot be read. Slow: the kernel walks every page for it.
pub fn wiped_on_fork(pid: i32) -> Option<Vec<Range<u64>>> {
    Some(with_flag(mappings_with_flags(pid)?, "wf"))
}

/// The mappings of process `pid` that a userfaultfd gets the faults of (`um` in VmFlags), in order of address;
/// `None` if they cannot be read, or `known` is not mapped: then it is not the address space that is meant.
/// Slow: the kernel walks every page for it.
pub fn traps_missing(pid: i32, known: u64) -> Option<Vec<Range<u64>>> {
    let found = mappings_with_flags(pid)?;
    found.iter().find(|(range, _)| range.contains(&known))?;
    Some(with_flag(found, "um"))
}

fn with_flag(mappings: Vec<(Range<u64>, String)>, flag: &str) -> Vec<Range<u64>> {
    let has = |flags: &String| flags.split(' ').any(|other| other == flag);
    let ranges = mappings.into_iter();
    ranges
        .filter_map(|(range, flags)| has(&flags).then_some(range))
        .collect()
}

fn mappings_with_flags(pid: i32) -> Option<Vec<(Range<u64>, String)>> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps")).ok()?;
    let (mut found, mut here) = (Vec::new(), 0..0);
    for line in text.lines() {
        if let Some(flags) = line.strip_prefix("VmFlags:") {
            found.push((here.clone(), flags.to_owned()));
        } else if let Some((start, end)) =
            line.split(' ').next().and_then(|word| word.split_once('-'))
            && let (Ok(start), Ok(end)) =
                (u64::from_str_radix(start, 16), u64::from_str_radix(end, 16))
        {
            here = start..end;
        }
    }
    Some(found)
}

/// Sends SIGKILL to every descendant of this process, until there is none: who was just being started is in
/// no list yet. Half a second at most, for one that the kernel cannot end now.
pub fn kill_descendants() {
    const PAUSE: Duration = Duration::from_millis(5);
    const TIMES: usize = 100;
    for _ in 0..TIMES {
        let family = descendants();
        if family.is_empty() {
            break;
        }
        let reached = family
            .iter()
            .filter(|&&pid| signal(pid, libc::SIGKILL).is_ok());
        if reached.count() == 0 {
            break; // nobody that may be signalled
        }
        thread::sleep(PAUSE);
    }
}

/// All processes that this one started and those that they did, if they have not ended.
pub fn descendants() -> Vec<i32> {
    let own = std::process::id().cast_signed();
    let (mut parents, mut ended) = (Vec::new(), Vec::new());
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<i32>().ok())
        else {
            continue;
        };
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
            continue;
        };
        let mut words = stat
            .rsplit_once(')')
            .map_or("", |(_, rest)| rest)
            .split(' ');
        let state = words.nth(1);
        let parent = words.next().and_then(|word| word.parse().ok());
        let threads: Option<u32> = words.nth(15).and_then(|word| word.parse().ok());
        // A process goes on when its first thread has ended.
        if matches!(state, Some("Z" | "X")) && threads.unwrap_or(0) <= 1 {
            ended.push(pid);
        }
        parents.push((pid, parent.unwrap_or(0)));
    }
    let mut family = vec![own];
    let mut next = 0;
    while let Some(&parent) = family.get(next) {
        family.extend(
            parents
                .iter()
                .filter(|(_, of)| *of == parent)
                .map(|(pid, _)| *pid),
        );
        next += 1;
    }
    let mut family = family.split_off(1);
    family.retain(|pid| !ended.contains(pid));
    family
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_of_this_process_has_a_robust_list() {
        let pid = i32::try_from(std::process::id()).expect("pid");
        let here = std::thread::spawn(move || robust_lists(pid).len());
        assert!(here.join().expect("a thread") >= 2);
    }

    /// Says that a test is in a process of its own.
    const ROLE: &str = "NEAP_TEST_OF_KILL";

    /// A test again, in a process of its own.
    fn again(test: &str) -> std::process::Command {
        let mut command = std::process::Command::new(std::env::current_exe().expect("this test"));
        let own = format!("process::tests::{test}");
        command.args(["--exact", &own]).env(ROLE, "1");
        command
    }

    #[test]
    fn descendants_are_ended_with_what_they_start_meanwhile() {
        let own = "descendants_are_ended_with_what_they_start_meanwhile";
        if std::env::var_os(ROLE).is_none() {
            let status = again(own).status();
            assert!(status.expect("itself").success());
            return;
        }
        // SAFETY: it changes who becomes the parent of orphans, nothing else.
        unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
        let forks = "while :; do sh -c 'sleep 60 & sleep 60' & done";
        let mut shell = std::process::Command::new("sh")
            .args(["-c", forks])
            .spawn()
            .expect("sh");
        thread::sleep(Duration::from_millis(20));
        kill_descendants();
        let _ = shell.wait();
        assert_eq!(descendants(), []);
    }

    #[test]
    fn a_process_whose_first_thread_has_ended_is_ended_too() {
        let own = "a_process_whose_first_thread_has_ended_is_ended_too";
        if std::env::var_os(ROLE).is_none() {
            let status = again(own).status();
            assert!(status.expect("itself").success());
            return;
        }
        // SAFETY: the child uses nothing that another thread might have held.
        let child = unsafe { libc::fork() };
        if child == 0 {
            thread::spawn(|| thread::sleep(Duration::from_secs(60)));
            // SAFETY: it ends this thread, of which the other uses nothing.
            unsafe { libc::syscall(libc::SYS_exit, 0) };
        }
        let stat = format!("/proc/{child}/stat");
        let has_ended = || fs::read_to_string(&stat).is_ok_and(|text| text.contains(") Z "));
        for _ in 0..1000 {
            if has_ended() {
                break;
            }
            thread::sleep(Duration::from_millis(5));
        }
        assert!(has_ended());
        assert_eq!(descendants(), [child], "its other thread goes on");
        kill_descendants();
        assert_eq!(descendants(), []);
    }

    #[test]
    fn anonymous_memory_of_this_process_grows_when_touched() {
        let pid = i32::try_from(std::process::id()).expect("pid");
        let statm = Statm::open(pid).expect("self");
        let before = statm.anon_resident().expect("self");
        let mut arena = crate::Arena::new(32 << 20).expect("arena");
        arena.bytes_mut().fill(1);
        let after = statm.anon_resident().expect("self");
        assert!(after >= before + (30 << 20), "{before} {after}");
        assert!(anon_resident(pid).expect("self") >= before + (30 << 20));
    }
}
