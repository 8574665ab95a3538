//! Facts about one process, from its directory in `/proc`. That is opened once, while the process is known to live, and
//! never comes to mean another. What the process runs may change (exec): what is said then is about that.

use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

use crate::errno::Result;
use crate::numbers::each_number;
use crate::process::Pidfd;

/// A process that is sure to be the one that was met, whatever its number means by now.
#[derive(Debug)]
pub struct Process {
    pid: i32,
    /// `/proc/PID`: it serves as a pidfd, too.
    dir: OwnedFd,
}

/// A program that runs for a user: the file, by the number that its device gives it, and the user.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Program {
    device: (u32, u32),
    file: u64,
    user: u32,
}

impl Process {
    /// Process `pid`, which is the one of `pidfd`.
    pub fn open(pid: i32, pidfd: &Pidfd) -> io::Result<Self> {
        let dir = File::open(format!("/proc/{pid}"))?.into();
        // While it lives its number is its own.
        if !pidfd.lives() {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        Ok(Self { pid, dir })
    }

    /// One of which nothing is known, and that no signal reaches: of an imagined program.
    ///
    /// # Errors
    /// As [`File::open`] of `/dev/null`.
    pub fn of_nobody() -> io::Result<Self> {
        let dir = File::open("/dev/null")?.into();
        Ok(Self { pid: 0, dir })
    }

    /// Its number, in our pid namespace: for those who read, not for the kernel.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Sends `signal` to the process.
    pub fn signal(&self, signal: i32) -> Result<()> {
        crate::process::send_signal(&self.dir, signal)
    }

    fn file(&self, name: &str) -> io::Result<File> {
        let path = CString::new(name)?;
        let flags = libc::O_RDONLY | libc::O_CLOEXEC;
        // SAFETY: a path that ends with a zero.
        let fd = unsafe { libc::openat(self.dir.as_raw_fd(), path.as_ptr(), flags) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel just gave us this descriptor and nobody else owns it.
        Ok(unsafe { File::from_raw_fd(fd) })
    }

    pub(crate) fn text(&self, name: &str) -> io::Result<String> {
        read_text(&self.file(name)?)
    }

    /// The numbers of its threads.
    pub fn threads(&self) -> Vec<i32> {
        // By the descriptor, and not by the number.
        let mut found = Vec::new();
        if let Ok(folder) = CString::new(format!("/proc/self/fd/{}/task", self.dir.as_raw_fd())) {
            each_number(&folder, |tid| found.push(tid));
        }
        found
    }

    /// What it runs, and for whom; `None`: we may not look, or it has ended. No file system is asked that may not answer.
    pub fn program(&self) -> Option<Program> {
        let cached = libc::AT_STATX_DONT_SYNC;
        let file = self.stat(c"exe", cached)?;
        // Its files are root's where it may not be looked at, its directory is not.
        let folder = self.stat(c"", cached | libc::AT_EMPTY_PATH)?;
        Some(Program {
            device: (file.stx_dev_major, file.stx_dev_minor),
            file: file.stx_ino,
            user: folder.stx_uid,
        })
    }

    /// What the kernel says of a file of its directory.
    fn stat(&self, name: &CStr, flags: i32) -> Option<libc::statx> {
        let mut stat = MaybeUninit::uninit();
        let (dir, wanted) = (self.dir.as_raw_fd(), libc::STATX_BASIC_STATS);
        // SAFETY: a path that ends with a zero, and room for what the kernel writes.
        let got = unsafe { libc::statx(dir, name.as_ptr(), flags, wanted, stat.as_mut_ptr()) };
        // SAFETY: the kernel has filled it in.
        (got == 0).then(|| unsafe { stat.assume_init() })
    }

    /// Whether it has one thread, and no other of it can begin one.
    pub fn has_one_thread(&self) -> bool {
        /// Names of a folder of /proc without folders in it. The kernel counts each thread as one more.
        const NAMES: u32 = 2;
        let tasks = self.stat(c"task", libc::AT_SYMLINK_NOFOLLOW);
        tasks.is_some_and(|tasks| tasks.stx_nlink == NAMES + 1)
    }

    /// Whether it has that thread, by the number that it has for us.
    pub fn has_thread(&self, tid: u32) -> bool {
        self.file(&format!("task/{tid}/comm")).is_ok()
    }

    /// Whether its numbers of threads mean the same to us: it is in our pid namespace.
    pub fn shares_pids(&self) -> bool {
        let text = self.text("status").unwrap_or_default();
        let numbers = text.lines().find_map(|line| line.strip_prefix("NSpid:"));
        numbers.is_some_and(|numbers| numbers.split_ascii_whitespace().count() == 1)
    }

    /// The memory that it has now, to be read; it stays that of this address space.
    ///
    /// # Errors
    /// We may not look, or it has ended.
    pub fn memory(&self) -> io::Result<File> {
        self.file("mem")
    }

    /// The number of its parent; `None` once it is gone.
    pub fn parent(&self) -> Option<i32> {
        let stat = self.text("stat").ok()?;
        stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
    }

    /// Whether somebody has stopped it, by a signal or as a debugger.
    pub fn is_stopped(&self) -> bool {
        let stat = self.text("stat").unwrap_or_default();
        let state = stat
            .rsplit_once(") ")
            .and_then(|(_, rest)| rest.chars().next());
        matches!(state, Some('T' | 't'))
    }

    /// How much memory it has, to be asked again and again.
    pub fn statm(&self) -> io::Result<Statm> {
        self.file("statm").map(Statm)
    }

    /// Processor time that all its threads have taken so far, in nanoseconds; `None` once it is gone.
    pub fn cpu_nanos(&self) -> Option<u64> {
        let mut clock = 0;
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // By number: it is a figure for the share of processors, nothing depends on whose it is.
        // SAFETY: one clockid_t is written, then one timespec.
        let failed = unsafe {
            libc::clock_getcpuclockid(self.pid, &raw mut clock) != 0
                || libc::clock_gettime(clock, &raw mut time) != 0
        };
        (!failed)
            .then_some(time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned())
    }

    /// The cpu time of one of its threads; `None` where the kernel does not say.
    pub fn cpu_time(&self, tid: u32) -> Option<CpuTime> {
        CpuTime::read(&self.text(&format!("task/{tid}/schedstat")).ok()?)
    }

    /// The cpu that one of its threads last ran on.
    pub fn cpu_of(&self, tid: u32) -> Option<usize> {
        let stat = self.text(&format!("task/{tid}/stat")).ok()?;
        // Field 39 (processor) is 37 places after the closing bracket of the name.
        let cpu = stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(36)?;
        cpu.parse().ok()
    }

    /// Whether one of its threads sleeps in mremap.
    pub fn is_in_mremap(&self, tid: u32) -> bool {
        let text = self
            .text(&format!("task/{tid}/syscall"))
            .unwrap_or_default();
        let number = text.split(' ').next().and_then(|word| word.parse().ok());
        number == Some(libc::SYS_mremap)
    }

    /// The same of any of its threads, for a process whose numbers of threads mean nothing to us.
    pub fn any_in_mremap(&self) -> bool {
        let threads = self.threads();
        threads
            .into_iter()
            .any(|tid| self.is_in_mremap(tid.cast_unsigned()))
    }

    /// How much of its anonymous memory others have as well. The kernel walks every page for it.
    pub fn sharing(&self) -> Option<Sharing> {
        let text = self.text("smaps_rollup").ok()?;
        let anon = sum_of(&text, "Anonymous:")?;
        let elsewhere = anon.saturating_sub(sum_of(&text, "Pss_Anon:")?);
        // Memory that is shared by intention may be in this number, too. But a page has two sharers at least.
        let shared = sum_of(&text, "Shared_Dirty:")?.clamp(elsewhere, elsewhere * 2);
        Some(Sharing { elsewhere, shared })
    }

    /// Its faults, minor and major, that came to their end.
    pub fn faults(&self) -> Option<u64> {
        let text = self.text("stat").ok()?;
        let (_, after_name) = text.rsplit_once(')')?; // which may hold anything
        let mut fields = after_name.split_whitespace().skip(7);
        let mut next = |skip| fields.nth(skip)?.parse::<u64>().ok();
        Some(next(0)? + next(1)?)
    }

    /// Bytes that it has declared free (MADV_FREE) and that are still there. Slow: the kernel walks every page.
    pub fn declared_free(&self) -> Option<u64> {
        sum_of(&self.text("smaps_rollup").ok()?, "LazyFree:")
    }
}

/// Where a thread keeps its list of robust futexes, in its own record in libc. `None`: it has none, or we may not ask. Asked
/// by number: an answer of another thread names a page too many.
pub fn robust_list(tid: i32) -> Option<u64> {
    let (mut head, mut len) = (0u64, 0usize);
    // SAFETY: the kernel writes one pointer and one size.
    let done =
        unsafe { libc::syscall(libc::SYS_get_robust_list, tid, &raw mut head, &raw mut len) };
    (done == 0 && head != 0).then_some(head)
}

/// A field of smaps_rollup, in bytes.
fn sum_of(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kib * 1024)
}

/// Anonymous memory of a process that others have as well, since a fork.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sharing {
    /// What of it counts elsewhere, where each page is divided by its sharers (`Anonymous` less `Pss_Anon`), in bytes.
    pub elsewhere: u64,
    /// All of it, in bytes.
    pub shared: u64,
}

/// How much memory a process has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Extent {
    /// Anonymous and resident (`RssAnon`), in bytes.
    pub anon: u64,
    /// All that is mapped, in pages.
    pub size: u64,
}

/// An open `/proc/PID/statm`: how much memory a process has, also when no descriptor is left to ask with.
#[derive(Debug)]
pub struct Statm(File);

impl Statm {
    /// That of this process.
    pub fn own() -> io::Result<Self> {
        File::open("/proc/self/statm").map(Self)
    }

    /// Anonymous memory resident in the process (`RssAnon`), in bytes; `None` once it is gone.
    pub fn anon_resident(&self) -> Option<u64> {
        self.extent().map(|extent| extent.anon)
    }

    /// The same with the size of the address space. It costs a third of status.
    pub fn extent(&self) -> Option<Extent> {
        let [size, resident, shared, _] = self.fields()?;
        let anon = resident.saturating_sub(shared) * 4096; // shared: file and shmem pages
        Some(Extent { anon, size })
    }

    /// The size of the address space, and of the program's code, in pages: what two processes with the same memory have
    /// in common, but for what changes between two looks. `None` once it has none.
    pub fn outline(&self) -> Option<(u64, u64)> {
        let [size, _, _, code] = self.fields()?;
        (size > 0).then_some((size, code))
    }

    /// It is asked each millisecond: one read of the few bytes it has, and no look at its size before.
    fn fields(&self) -> Option<[u64; 4]> {
        let mut text = [0; 160];
        let len = self.0.read_at(&mut text, 0);
        // Once more: what is not known counts as nothing, and the job would go over its limit by it.
        let len = len.or_else(|_| self.0.read_at(&mut text, 0)).ok()?;
        let text = str::from_utf8(&text[..len]).ok()?;
        let mut fields = text.split(' ').map(str::parse::<u64>);
        let mut next = || fields.next()?.ok();
        Some([next()?, next()?, next()?, next()?])
    }
}

/// Anonymous memory resident in process `pid` (`RssAnon`), in bytes; `None` once it is gone. For words and reports.
pub fn anon_resident(pid: i32) -> Option<u64> {
    let file = File::open(format!("/proc/{pid}/statm")).ok()?;
    Statm(file).anon_resident()
}

/// The command name of process `pid`. For words and reports.
pub fn comm(pid: i32) -> Option<String> {
    let text = read_text(&File::open(format!("/proc/{pid}/comm")).ok()?).ok()?;
    Some(text.trim_end().to_owned())
}

/// A file of /proc, most of which fit one read; std would ask for its size, which is 0, and read it in small pieces.
fn read_text(mut file: &File) -> io::Result<String> {
    let mut text = String::with_capacity(4096);
    file.by_ref().take(u64::MAX).read_to_string(&mut text)?;
    Ok(text)
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
    /// That of the calling thread.
    pub fn own() -> Option<Self> {
        Self::read(&fs::read_to_string("/proc/thread-self/schedstat").ok()?)
    }

    fn read(text: &str) -> Option<Self> {
        let mut numbers = text.split(' ').map_while(|number| number.parse().ok());
        let (ran, waited) = (numbers.next()?, numbers.next()?);
        Some(Self { ran, waited })
    }

    /// What has come to it since `then`.
    #[must_use]
    pub fn since(self, then: Self) -> Self {
        Self {
            ran: self.ran.saturating_sub(then.ran),
            waited: self.waited.saturating_sub(then.waited),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn this() -> Process {
        let pid = std::process::id().cast_signed();
        Process::open(pid, &Pidfd::open(pid).expect("self")).expect("self")
    }

    #[test]
    fn every_thread_of_this_process_has_a_robust_list() {
        let lists = || this().threads().into_iter().filter_map(robust_list).count();
        let here = std::thread::spawn(lists);
        assert!(here.join().expect("a thread") >= 2);
    }

    #[test]
    fn the_memory_and_the_threads_of_a_process_are_found() {
        let bytes = [7u8, 1, 8, 2];
        let process = this();
        let at = bytes.as_ptr() as u64;
        let (memory, mut found) = (process.memory().expect("our own"), [0; 4]);
        memory.read_exact_at(&mut found, at).expect("it is there");
        assert_eq!(found, bytes);
        assert!(memory.read_exact_at(&mut found, 0).is_err());
        assert!(process.has_thread(crate::own_tid().unsigned_abs()));
        assert!(!process.has_thread(1));
        assert!(!process.has_one_thread(), "each test has a thread");
        assert!(process.shares_pids());
    }

    #[test]
    fn one_that_has_ended_is_not_taken_for_its_successor() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .expect("sleep");
        let pid = child.id().cast_signed();
        let pidfd = Pidfd::open(pid).expect("it lives");
        let process = Process::open(pid, &pidfd).expect("it lives");
        assert!(
            process
                .statm()
                .is_ok_and(|statm| statm.anon_resident().is_some())
        );
        assert!(process.has_one_thread());
        process.signal(libc::SIGKILL).expect("a signal");
        let _ = child.wait();
        assert!(process.statm().is_err() && process.signal(0).is_err());
        assert!(Process::open(pid, &pidfd).is_err());
    }

    #[test]
    fn the_cpu_of_this_thread_is_found() {
        let cpu = crate::this_cpu();
        crate::pin_to(0, cpu).expect("pin");
        let tid = crate::own_tid().unsigned_abs();
        assert_eq!(this().cpu_of(tid), Some(cpu));
        assert!(this().cpu_time(tid).is_some() && CpuTime::own().is_some());
    }

    #[test]
    fn anonymous_memory_of_this_process_grows_when_touched() {
        let statm = this().statm().expect("self");
        let before = statm.anon_resident().expect("self");
        let mut arena = crate::Arena::new(32 << 20).expect("arena");
        arena.bytes_mut().fill(1);
        let after = statm.anon_resident().expect("self");
        assert!(after >= before + (30 << 20), "{before} {after}");
        let pid = std::process::id().cast_signed();
        assert!(anon_resident(pid).expect("self") >= before + (30 << 20));
    }
}
