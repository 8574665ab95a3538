//! Pauses shorter than a sleep can be.

use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use neap_tuning::TUNING;
use neap_units::Nanos;

use crate::errno::{Result, SysError};

/// A timer for pauses of some microseconds, in which another thread has this cpu.
///
/// To arm a timer takes longer than that on a virtual machine, so it is armed ahead, and the calling thread waits for the
/// beginning of its pause without giving up the cpu. A thread of the real-time class takes the cpu back when the timer
/// fires, from a thread that is in a system call as soon as that returns.
#[derive(Debug)]
pub struct Nap {
    timer: OwnedFd,
}

impl Nap {
    /// A timer. It fails where descriptors or memory are short.
    pub fn new() -> Result<Self> {
        // SAFETY: no memory is touched.
        let timer = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC) };
        if timer < 0 {
            return Err(SysError::last("timerfd_create", ""));
        }
        // SAFETY: the kernel has just made it, and nobody else has it.
        let timer = unsafe { OwnedFd::from_raw_fd(timer) };
        Ok(Self { timer })
    }

    /// Leaves the cpu to others for about `len`, which is at most the lead of the timer. `last` is done just before.
    pub fn take(&self, len: Nanos, last: impl FnOnce()) -> Result<()> {
        let end = crate::monotonic_nanos() + TUNING.system.nap_lead.0;
        let never = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let spec = libc::itimerspec {
            it_interval: never,
            it_value: timespec(end),
        };
        // SAFETY: the kernel reads `spec` and writes nothing.
        let armed = unsafe {
            libc::timerfd_settime(
                self.timer.as_raw_fd(),
                libc::TFD_TIMER_ABSTIME,
                &raw const spec,
                std::ptr::null_mut(),
            )
        };
        if armed != 0 {
            return Err(SysError::last("timerfd_settime", ""));
        }
        while crate::monotonic_nanos() < end.saturating_sub(len.0) {
            std::hint::spin_loop();
        }
        last();
        let mut fired = 0u64;
        // SAFETY: the kernel writes eight bytes at most.
        let read = unsafe {
            libc::read(
                self.timer.as_raw_fd(),
                (&raw mut fired).cast(),
                size_of::<u64>(),
            )
        };
        match read {
            8 => Ok(()),
            _ => Err(SysError::last("read", "a timer")),
        }
    }
}

fn timespec(nanos: u64) -> libc::timespec {
    const SECOND: u64 = 1_000_000_000;
    libc::timespec {
        tv_sec: (nanos / SECOND).cast_signed(),
        tv_nsec: (nanos % SECOND).cast_signed(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nap_ends_when_its_timer_fires() {
        let nap = Nap::new().expect("timerfd_create");
        for len in [0, 2_000, TUNING.system.nap_lead.0, u64::MAX] {
            let before = crate::monotonic_nanos();
            nap.take(Nanos(len), || ()).expect("nap");
            let took = crate::monotonic_nanos() - before;
            assert!(took >= TUNING.system.nap_lead.0, "{took} ns");
        }
    }
}
