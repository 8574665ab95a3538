//! The real kernel: a child in a memory cgroup (version 1), with a swap file and zswap of
//! its own. Everything that is changed is put back, whatever happens.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::pattern::{Pattern, Stream};
use crate::{COUNTERS, Counts, Setting};

const PAGE: usize = 4096;
const GROUP: &str = "/sys/fs/cgroup/memory/neap-native-check";
const ZSWAP: &str = "/sys/module/zswap/parameters";

/// Files whose content is put back when this goes.
struct Restore(Vec<(PathBuf, String)>);

impl Restore {
    fn set(&mut self, path: impl Into<PathBuf>, value: &str) -> io::Result<()> {
        let path = path.into();
        let old = fs::read_to_string(&path)?.trim().to_owned();
        fs::write(&path, value)?;
        self.0.push((path, old));
        Ok(())
    }
}

impl Drop for Restore {
    fn drop(&mut self) {
        while let Some((path, old)) = self.0.pop() {
            let _ = fs::write(path, old);
        }
    }
}

/// The swap file, gone when this goes.
struct Swap(PathBuf);

impl Swap {
    fn new(path: &Path, mib: u64) -> io::Result<Swap> {
        let mut file = fs::File::create(path)?;
        let swap = Swap(path.to_owned());
        let block = vec![0; 1 << 20];
        for _ in 0..mib {
            file.write_all(&block)?;
        }
        file.sync_all()?;
        command("chmod", &["600".as_ref(), path.as_os_str()])?;
        command("mkswap", &[path.as_os_str()])?;
        command("swapon", &[path.as_os_str()])?;
        Ok(swap)
    }
}

impl Drop for Swap {
    fn drop(&mut self) {
        let _ = command("swapoff", &[self.0.as_os_str()]);
        let _ = fs::remove_file(&self.0);
    }
}

/// The cgroup, gone when this goes.
struct Group;

impl Group {
    fn new(limit_mib: u64) -> io::Result<Group> {
        fs::create_dir(GROUP)?;
        let group = Group;
        let limit = (limit_mib << 20).to_string();
        fs::write(format!("{GROUP}/memory.limit_in_bytes"), limit)?;
        Ok(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(GROUP);
    }
}

/// The child; killed when this goes.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn command(name: &str, args: &[&std::ffi::OsStr]) -> io::Result<()> {
    let done = Command::new(name)
        .args(args)
        .stdout(Stdio::null())
        .status()?;
    match done.success() {
        true => Ok(()),
        false => Err(io::Error::other(format!("{name} failed: {done}"))),
    }
}

/// RAM of this machine.
pub fn ram_mib() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let total = text.lines().find(|line| line.starts_with("MemTotal:"))?;
    let kib: u64 = total.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib >> 10)
}

fn vmstat() -> io::Result<Counts> {
    let text = fs::read_to_string("/proc/vmstat")?;
    let mut counts = Counts::default();
    for line in text.lines() {
        let Some((name, value)) = line.split_once(' ') else {
            continue;
        };
        if let Some(at) = COUNTERS.iter().position(|counter| *counter == name) {
            counts.0[at] = value.parse().unwrap_or(0);
        }
    }
    Ok(counts)
}

/// Runs a pattern on this machine. Returns the counters of its filling and of its run.
pub fn run(setting: &Setting, pattern: &str, dir: &Path) -> io::Result<(Counts, Counts)> {
    let mut restore = Restore(Vec::new());
    let pool = setting.pool_percent.to_string();
    restore.set(format!("{ZSWAP}/max_pool_percent"), &pool)?;
    restore.set(format!("{ZSWAP}/shrinker_enabled"), "Y")?;
    restore.set(format!("{ZSWAP}/enabled"), "Y")?;
    let _swap = Swap::new(&dir.join("neap-native-check.swap"), setting.swap_mib)?;
    let _group = Group::new(setting.limit_mib)?;
    let args = [
        "child".to_owned(),
        pattern.to_owned(),
        setting.mib.to_string(),
        setting.accesses.to_string(),
        setting.seed.to_string(),
        setting.bytes.to_string(),
    ];
    let child = Command::new(std::env::current_exe()?)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut child = Guard(child);
    let mut to = child.0.stdin.take().expect("a pipe");
    let mut from = BufReader::new(child.0.stdout.take().expect("a pipe"));
    let mut wait = || -> io::Result<Counts> {
        let mut line = String::new();
        from.read_line(&mut line)?;
        if line.is_empty() {
            let why = "the child ended early: if dmesg tells of an out-of-memory kill, the kernel \
                       found nothing in the cgroup that could leave soon enough; fewer accesses or \
                       a larger limit= may help";
            return Err(io::Error::other(why));
        }
        let counts = vmstat()?;
        to.write_all(b"\n")?;
        Ok(counts)
    };
    let (start, filled, done) = (wait()?, wait()?, wait()?);
    child.0.wait()?;
    Ok((filled.since(&start), done.since(&filled)))
}

/// The child: joins the cgroup, fills its pages, goes over them. Between the parts it
/// tells its parent, and waits for it.
pub fn child(args: &[String]) -> io::Result<()> {
    let number = |at: usize| args[at].parse::<u64>().map_err(io::Error::other);
    let pattern = Pattern::named(&args[0]).ok_or_else(|| io::Error::other("no such pattern"))?;
    let (mib, accesses, seed, bytes) = (number(1)?, number(2)?, number(3)?, number(4)? as usize);
    let pages = mib as usize * 256;
    fs::write(
        format!("{GROUP}/cgroup.procs"),
        std::process::id().to_string(),
    )?;
    let mut noise = vec![0; bytes];
    fs::File::open("/dev/urandom")?.read_exact(&mut noise)?;
    let stream = Stream::new(pattern, pages as u64, accesses, seed);
    let mut memory = vec![0u8; (pages + 1) * PAGE];
    // A large allocation starts a few bytes into its first page.
    let skip = memory.as_ptr().align_offset(PAGE);
    let memory = &mut memory[skip..skip + pages * PAGE];
    tell()?;
    for (number, page) in memory.chunks_exact_mut(PAGE).enumerate() {
        page[..bytes].copy_from_slice(&noise);
        page[..8].copy_from_slice(&number.to_le_bytes());
    }
    tell()?;
    let mut sum = 0u64;
    for (page, write) in stream {
        let byte = &mut memory[page as usize * PAGE + 9];
        // A write that does not read first, so that its fault is a write fault.
        if write {
            *byte = page as u8;
        } else {
            sum = sum.wrapping_add(u64::from(*byte));
        }
    }
    std::hint::black_box(sum);
    tell()
}

fn tell() -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(b"here\n")?;
    out.flush()?;
    let mut line = String::new();
    io::stdin().read_line(&mut line).map(drop)
}
