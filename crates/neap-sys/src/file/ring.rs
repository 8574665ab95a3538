//! One small io_uring: a batch of reads or writes in one system call.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use io_uring::{IoUring, Probe, opcode, squeue, types};
use neap_tuning::TUNING;

/// One transfer. The memory at `addr` belongs to a borrow that outlives the call it is passed to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transfer {
    pub offset: u64,
    pub addr: *mut u8,
    pub len: usize,
    pub write: bool,
}

/// How far one transfer came: bytes done, or the errno.
pub(super) type Outcome = Result<usize, i32>;

pub(super) struct Ring(IoUring);

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ring")
    }
}

impl Ring {
    /// A ring, or `None` where the kernel has none, a filter forbids it, or it cannot read and
    /// write plain buffers (before 5.6).
    pub(super) fn new() -> Option<Self> {
        let ring = IoUring::new(TUNING.swap.requests as u32).ok()?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe).ok()?;
        let able =
            probe.is_supported(opcode::Read::CODE) && probe.is_supported(opcode::Write::CODE);
        able.then_some(Self(ring))
    }

    /// Carries out at most [`TUNING.swap.requests`] transfers and says how far each came. When this returns, with
    /// either result, the kernel no longer touches any of the buffers. `Err` means that the ring
    /// is useless and must be dropped; transfers may or may not have happened.
    ///
    /// # Safety
    /// Every transfer's memory is valid for `len` bytes, exclusively borrowed by the caller until
    /// this returns if it is a read, and not written by others if it is a write.
    pub(super) unsafe fn run(
        &mut self,
        file: &File,
        work: &[Transfer],
    ) -> io::Result<Vec<Outcome>> {
        assert!(
            work.len() <= TUNING.swap.requests,
            "{} transfers in a ring of {}",
            work.len(),
            TUNING.swap.requests
        );
        let mut outcomes: Vec<Outcome> = vec![Err(libc::EIO); work.len()];
        for (index, transfer) in work.iter().enumerate() {
            let entry = prepare(file, transfer).user_data(index as u64);
            // SAFETY: the caller keeps the memory valid until we return, and we return only when
            // every submitted entry has completed.
            unsafe { self.0.submission().push(&entry) }
                .map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        }
        let mut submitted = 0;
        let mut completed = 0;
        while completed < work.len() {
            match self.0.submit_and_wait(1) {
                Ok(n) => submitted += n,
                Err(e) if again(&e) => {}
                // Nothing is in flight: safe to leave. Otherwise wait for the rest below.
                Err(e) if submitted == completed => return Err(e),
                Err(_) => std::thread::yield_now(),
            }
            for entry in self.0.completion() {
                let outcome = usize::try_from(entry.result()).map_err(|_| -entry.result());
                if let Some(slot) = outcomes.get_mut(entry.user_data() as usize) {
                    *slot = outcome;
                }
                completed += 1;
            }
        }
        Ok(outcomes)
    }
}

fn prepare(file: &File, transfer: &Transfer) -> squeue::Entry {
    let fd = types::Fd(file.as_raw_fd());
    let len = u32::try_from(transfer.len).unwrap_or(u32::MAX);
    if transfer.write {
        opcode::Write::new(fd, transfer.addr, len)
            .offset(transfer.offset)
            .build()
    } else {
        opcode::Read::new(fd, transfer.addr, len)
            .offset(transfer.offset)
            .build()
    }
}

/// The kernel asks to call again: a signal, or completions must be reaped first.
fn again(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EINTR | libc::EAGAIN | libc::EBUSY)
    )
}
