//! Reading another process's memory.
//!
//! process_vm_readv is fast but asks for ptrace permission each time; an open `/proc/PID/mem`
//! was permitted when the process opened it for itself, and keeps working after a change of user.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::errno::{Result, SysError};

/// One run of foreign memory and where it goes.
#[derive(Debug)]
pub struct Piece<'a> {
    /// Foreign address, in bytes.
    pub from: u64,
    /// Filled whole.
    pub to: &'a mut [u8],
}

/// A way to read one address space.
#[derive(Debug)]
pub struct Remote {
    pid: i32,
    mem: File,
    by_vm_readv: std::sync::atomic::AtomicBool,
}

/// Pieces passed to one process_vm_readv (IOV_MAX is 1024).
const BATCH: usize = 64;

impl Remote {
    /// `mem` is the `/proc/self/mem` that process `pid` opened.
    pub fn new(pid: i32, mem: File) -> Self {
        Self {
            pid,
            mem,
            by_vm_readv: std::sync::atomic::AtomicBool::new(true),
        }
    }

    /// Reads every piece whole, or fails. The pieces' memory must be mapped; absent registered
    /// pages among them make the call wait for their fill.
    ///
    /// `witness`: a thread of the process that was there when the address space was handed over. An exec ends it
    /// before the pid names another address space, so that what was read while it lives is from the first.
    pub fn read(&self, pieces: &mut [Piece<'_>], witness: Option<u32>) -> Result<()> {
        use std::sync::atomic::Ordering::Relaxed;
        if let Some(thread) = witness
            && self.by_vm_readv.load(Relaxed)
        {
            if self.vm_readv(pieces).is_ok() && crate::process::is_thread_of(self.pid, thread) {
                return Ok(());
            }
            // No permission, or the pid now names another address space, which others may have left to it.
            self.by_vm_readv.store(false, Relaxed);
        }
        self.read_bound(pieces)
    }

    /// As [`read`](Self::read), but surely from the address space that was handed over, even while
    /// the process execs: slower, for bytes that outlive the process.
    pub fn read_bound(&self, pieces: &mut [Piece<'_>]) -> Result<()> {
        for piece in pieces {
            self.mem
                .read_exact_at(piece.to, piece.from)
                .map_err(|e| SysError::new("read", format!("mem of {}", self.pid), e))?;
        }
        Ok(())
    }

    fn vm_readv(&self, pieces: &mut [Piece<'_>]) -> Result<()> {
        for batch in pieces.chunks_mut(BATCH) {
            let mut local = [libc::iovec {
                iov_base: std::ptr::null_mut(),
                iov_len: 0,
            }; BATCH];
            let mut remote = local;
            let mut total = 0;
            for (i, piece) in batch.iter_mut().enumerate() {
                local[i].iov_base = piece.to.as_mut_ptr().cast();
                local[i].iov_len = piece.to.len();
                remote[i].iov_base = piece.from as *mut libc::c_void;
                remote[i].iov_len = piece.to.len();
                total += piece.to.len();
            }
            let count = batch.len() as libc::c_ulong;
            // SAFETY: each local iovec is one exclusive borrow in `batch`; the kernel checks the
            // remote ones against the other address space.
            let got = unsafe {
                libc::process_vm_readv(self.pid, local.as_ptr(), count, remote.as_ptr(), count, 0)
            };
            if got < 0 || got.unsigned_abs() != total {
                return Err(SysError::last("process_vm_readv", self.pid.to_string()));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use super::*;

    #[test]
    fn both_ways_read_the_same_bytes() {
        let data: Vec<u8> = (0..20_000u32).map(|i| i as u8).collect();
        let mem = File::open("/proc/self/mem").expect("mem");
        let pid = i32::try_from(std::process::id()).expect("pid");
        let remote = Remote::new(pid, mem);
        for fast in [true, false] {
            remote.by_vm_readv.store(fast, Relaxed);
            let (mut one, mut two) = (vec![0; 5000], vec![0; 7000]);
            let base = data.as_ptr() as u64;
            let mut pieces = [
                Piece {
                    from: base,
                    to: &mut one,
                },
                Piece {
                    from: base + 9000,
                    to: &mut two,
                },
            ];
            remote
                .read(&mut pieces, Some(crate::own_tid().cast_unsigned()))
                .expect("read");
            assert_eq!(one, data[..5000]);
            assert_eq!(two, data[9000..16_000]);
        }
    }

    #[test]
    fn a_pid_that_names_another_address_space_is_not_believed() {
        static WHOSE: AtomicU64 = AtomicU64::new(OURS);
        const OURS: u64 = 1;
        // SAFETY: the child writes one word of its own memory and waits for its end, without a lock or the heap.
        let child = unsafe { libc::fork() };
        if child == 0 {
            WHOSE.store(2, Relaxed);
            loop {
                // SAFETY: no memory is involved.
                unsafe { libc::pause() };
            }
        }
        let read = |remote: &Remote, witness| {
            let mut bytes = [0; 8];
            let mut piece = [Piece {
                from: WHOSE.as_ptr() as u64,
                to: &mut bytes,
            }];
            remote.read(&mut piece, witness).expect("read");
            u64::from_ne_bytes(bytes)
        };
        let new = || Remote::new(child, File::open("/proc/self/mem").expect("mem"));
        let known = new();
        while read(&known, Some(child.cast_unsigned())) != 2 {
            std::thread::yield_now();
        }
        let (stranger, nobody) = (new(), new());
        let found = [
            read(&stranger, Some(crate::own_tid().cast_unsigned())),
            read(&stranger, Some(child.cast_unsigned())),
            read(&nobody, None),
        ];
        // SAFETY: it is our child, and nobody else waits for it.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, std::ptr::null_mut(), 0);
        }
        assert_eq!(found, [OURS; 3]);
    }
}
