//! The swap file: unnamed, private, read and written in whole blocks.
//!
//! The file has no name from the start (`O_TMPFILE`; on file systems without it, created and
//! unlinked at once), so nothing is left behind however neap ends. It bypasses the page cache
//! where the file system lets it: a cached copy of swapped pages would take back the memory that
//! swapping saved, and a cached write reports an I/O error long after the caller gave the
//! original away. Batches go through io_uring where the machine allows it, otherwise through
//! pread and pwrite; single requests always take the plain call, which is one system call too.
//!
//! Each operation takes a *lane* (a ring and an aligned buffer) for its duration, so a fault never
//! waits for a write-back that is under way.

mod lane;
mod plain;
mod ring;

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use neap_tuning::TUNING;

use crate::Lock;
use crate::errno::{Result, SysError};
use lane::Lane;

/// Unit of offsets and lengths: the largest logical block size of common disks.
pub(crate) const BLOCK: usize = 4096;

/// An unnamed file of blocks of 4096 bytes. All calls may be made from several threads at once.
#[derive(Debug)]
pub struct SwapFile {
    file: File,
    /// The page cache is bypassed: buffers must be aligned.
    direct: AtomicBool,
    /// Batches may go through io_uring; cleared for good when the kernel refuses a ring.
    rings: AtomicBool,
    lanes: Lock<Vec<Lane>, 7>,
}

impl SwapFile {
    /// Makes an empty swap file in `dir`, mode 0600.
    ///
    /// Fails when `dir` is no directory, is not writable, or its file system is full.
    pub fn create(dir: &Path) -> Result<Self> {
        Self::create_with(dir, true, true)
    }

    fn create_with(dir: &Path, direct: bool, rings: bool) -> Result<Self> {
        let (file, direct) = if direct {
            match open(dir, libc::O_DIRECT) {
                Ok(file) => (file, true),
                Err(_) => (open(dir, 0)?, false),
            }
        } else {
            (open(dir, 0)?, false)
        };
        Ok(Self {
            file,
            direct: AtomicBool::new(direct),
            rings: AtomicBool::new(rings),
            lanes: Lock::new(Vec::new()),
        })
    }

    /// Whether the page cache is bypassed.
    pub fn is_direct(&self) -> bool {
        self.direct.load(Ordering::Relaxed)
    }

    /// Reads every `(offset, buffer)`; all of them, or an error.
    ///
    /// Offsets and lengths are multiples of 4096. A range that was never written, or was punched,
    /// reads as zeros; one past the end of the file is `UnexpectedEof`.
    pub fn read_many(&self, requests: &mut [(u64, &mut [u8])]) -> io::Result<()> {
        for (offset, buffer) in requests.iter() {
            check_aligned(*offset, buffer.len())?;
        }
        self.with_lane(|lane, direct, rings| lane.read_many(&self.file, requests, direct, rings))
    }

    /// Writes every `(offset, bytes)`; all of them, or an error, after which any part of any of
    /// the ranges may have been written.
    ///
    /// Offsets and lengths are multiples of 4096. The file grows as needed.
    pub fn write_many(&self, requests: &[(u64, &[u8])]) -> io::Result<()> {
        for (offset, bytes) in requests {
            check_aligned(*offset, bytes.len())?;
        }
        self.with_lane(|lane, direct, rings| lane.write_many(&self.file, requests, direct, rings))
    }

    /// Gives the disk space of a range of bytes back; it reads as zeros afterwards.
    ///
    /// Fails with `Unsupported` where the file system cannot.
    pub fn punch(&self, range: Range<u64>) -> io::Result<()> {
        let (Ok(start), Ok(len)) = (
            libc::off_t::try_from(range.start),
            libc::off_t::try_from(range.end.saturating_sub(range.start)),
        ) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        if len == 0 {
            return Ok(());
        }
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        plain::retry(|| {
            // SAFETY: the descriptor is open; the call touches no memory of ours.
            unsafe { libc::fallocate(self.file.as_raw_fd(), mode, start, len) as isize }
        })
        .map(drop)
    }

    /// Sets the length of the file in bytes; what lies beyond is lost.
    pub fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    /// Runs `work` with a lane of its own. A file system that accepted `O_DIRECT` at open may
    /// still refuse it at the first transfer (EINVAL): then the flag is dropped for good.
    fn with_lane(
        &self,
        mut work: impl FnMut(&mut Lane, bool, &AtomicBool) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut lane = self.lanes.lock().pop().unwrap_or_default();
        let mut result = work(&mut lane, self.is_direct(), &self.rings);
        let refused = matches!(&result, Err(e) if e.raw_os_error() == Some(libc::EINVAL));
        if refused && self.is_direct() && self.leave_direct() {
            result = work(&mut lane, false, &self.rings);
        }
        self.lanes.lock().push(lane);
        result
    }

    fn leave_direct(&self) -> bool {
        let fd = self.file.as_raw_fd();
        // SAFETY: the descriptor is open; both commands only read and set its status flags.
        let done = unsafe {
            let flags = libc::fcntl(fd, libc::F_GETFL);
            flags >= 0 && libc::fcntl(fd, libc::F_SETFL, flags & !libc::O_DIRECT) == 0
        };
        if done {
            self.direct.store(false, Ordering::Relaxed);
        }
        done
    }
}

fn check_aligned(offset: u64, len: usize) -> io::Result<()> {
    if offset.is_multiple_of(BLOCK as u64) && len.is_multiple_of(BLOCK) {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("{len} bytes at {offset}: not whole blocks of {BLOCK}"),
    ))
}

fn open(dir: &Path, flags: i32) -> Result<File> {
    let unnamed = OpenOptions::new()
        .read(true)
        .write(true)
        .mode(0o600)
        .custom_flags(libc::O_TMPFILE | libc::O_CLOEXEC | flags)
        .open(dir);
    match unnamed {
        Ok(file) => Ok(file),
        // What a file system (or a kernel) without O_TMPFILE answers.
        Err(e)
            if matches!(
                e.raw_os_error(),
                Some(libc::EOPNOTSUPP | libc::EISDIR | libc::ENOENT)
            ) =>
        {
            open_and_unlink(dir, flags)
        }
        Err(e) => Err(SysError::new(
            "open O_TMPFILE",
            dir.display().to_string(),
            e,
        )),
    }
}

/// A new file whose name is removed at once.
fn open_and_unlink(dir: &Path, flags: i32) -> Result<File> {
    let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
    for attempt in 0..TUNING.system.names {
        let path = dir.join(format!(".neap-swap-{}-{attempt}", std::process::id()));
        let named = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .custom_flags(libc::O_CLOEXEC | libc::O_NOFOLLOW | flags)
            .open(&path);
        match named {
            Ok(file) => {
                return match std::fs::remove_file(&path) {
                    Ok(()) => Ok(file),
                    Err(e) => Err(SysError::new("unlink", path.display().to_string(), e)),
                };
            }
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => last = e,
            Err(e) => return Err(SysError::new("open", path.display().to_string(), e)),
        }
    }
    Err(SysError::new("open", dir.display().to_string(), last))
}

#[cfg(test)]
mod tests;
