//! userfaultfd: the kernel's door to another address space's missing pages.
//!
//! Preconditions for everything here: addresses and lengths are in bytes, page aligned, and belong to
//! the address space that created the descriptor (the kernel checks both and answers EINVAL). The
//! caller may be any process that holds the descriptor. Nothing here dereferences a foreign address.

mod event;
mod fill;

use std::fs::OpenOptions;
use std::mem::size_of;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::Path;

use linux_raw_sys::general as raw;

use crate::errno::{Result, SysError, passes, persist};
pub use event::Event;
pub use fill::{Progress, Stop, Wake};

const fn iowr(nr: u32, size: usize) -> libc::c_ulong {
    ((3 << 30) | ((size as u32) << 16) | (raw::UFFDIO << 8) | nr) as libc::c_ulong
}
const fn ior(nr: u32, size: usize) -> libc::c_ulong {
    ((2 << 30) | ((size as u32) << 16) | (raw::UFFDIO << 8) | nr) as libc::c_ulong
}

/// `USERFAULTFD_IOC_NEW`: a new descriptor from an open /dev/userfaultfd (Linux 6.1).
const IOC_NEW: libc::c_ulong = (raw::USERFAULTFD_IOC << 8) as libc::c_ulong;
const API: libc::c_ulong = iowr(raw::_UFFDIO_API, size_of::<raw::uffdio_api>());
const REGISTER: libc::c_ulong = iowr(raw::_UFFDIO_REGISTER, size_of::<raw::uffdio_register>());
const UNREGISTER: libc::c_ulong = ior(raw::_UFFDIO_UNREGISTER, size_of::<raw::uffdio_range>());
const WAKE: libc::c_ulong = ior(raw::_UFFDIO_WAKE, size_of::<raw::uffdio_range>());

/// Abilities of the running kernel's userfaultfd, as negotiated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features(u64);

impl Features {
    /// Forked children keep their registration and announce themselves (needs CAP_SYS_PTRACE).
    pub const FORK: Self = Self(raw::UFFD_FEATURE_EVENT_FORK as u64);
    /// mremap, madvise and munmap of registered memory are announced.
    pub const LAYOUT: Self = Self(
        (raw::UFFD_FEATURE_EVENT_REMAP
            | raw::UFFD_FEATURE_EVENT_REMOVE
            | raw::UFFD_FEATURE_EVENT_UNMAP) as u64,
    );
    /// Faults name the thread.
    pub const THREAD_ID: Self = Self(raw::UFFD_FEATURE_THREAD_ID as u64);
    /// Write protection.
    pub const WP: Self = Self(raw::UFFD_FEATURE_PAGEFAULT_FLAG_WP as u64);
    /// UFFDIO_MOVE (Linux 6.8).
    pub const MOVE: Self = Self(raw::UFFD_FEATURE_MOVE as u64);

    /// No ability.
    pub const fn none() -> Self {
        Self(0)
    }
    /// Both sets.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
    /// What is left without `other`.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
    /// Whether all of `other` is here.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// What a registered range traps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Faults on absent pages.
    Missing,
    /// Faults on absent pages and on write-protected ones.
    MissingAndWp,
    /// Write faults only: absent pages stay native. Enough for a range to be UFFDIO_MOVE's target.
    Wp,
}

/// One userfaultfd, speaking for one address space.
#[derive(Debug)]
pub struct Uffd {
    fd: OwnedFd,
}

impl Uffd {
    /// Takes over a descriptor that another process created for its address space.
    pub fn adopt(fd: OwnedFd) -> Self {
        Self { fd }
    }

    /// A userfaultfd of this process, from an open device if one is given, else by system call.
    pub fn create(device: Option<BorrowedFd<'_>>) -> Result<Self> {
        Self::with_flags(device, libc::O_CLOEXEC | libc::O_NONBLOCK)
    }

    /// Makes one that serves no fault of the kernel's, which takes no right: of no use but to find out whether the
    /// system call is there at all.
    pub fn create_for_programs_only() -> Result<Self> {
        /// `UFFD_USER_MODE_ONLY` of linux/userfaultfd.h
        const USER_MODE_ONLY: i32 = 1;
        Self::with_flags(None, libc::O_CLOEXEC | USER_MODE_ONLY)
    }

    fn with_flags(device: Option<BorrowedFd<'_>>, flags: i32) -> Result<Self> {
        let fd = match device {
            // SAFETY: the ioctl takes flags by value and touches no memory of ours.
            Some(device) => unsafe { libc::ioctl(device.as_raw_fd(), IOC_NEW, flags) },
            // SAFETY: the system call takes flags by value and touches no memory of ours.
            None => unsafe { libc::syscall(libc::SYS_userfaultfd, flags) as i32 },
        };
        if fd < 0 {
            return Err(SysError::last("userfaultfd", ""));
        }
        // SAFETY: the kernel just gave us this descriptor and nobody else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { fd })
    }

    /// Opens the userfaultfd device; whoever holds it may create descriptors.
    pub fn open_device(path: &Path) -> Result<OwnedFd> {
        OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .map(OwnedFd::from)
            .map_err(|e| SysError::new("open", path.display().to_string(), e))
    }

    /// The handshake every descriptor needs once. Errors with EPERM when `FORK` is wanted without
    /// CAP_SYS_PTRACE, with EINVAL when the kernel lacks a feature.
    pub fn handshake(&self, want: Features) -> Result<()> {
        let mut api = raw::uffdio_api {
            api: u64::from(raw::UFFD_API),
            features: want.0,
            ioctls: 0,
        };
        self.ioctl("UFFDIO_API", API, &mut api)
    }

    /// What this kernel offers at all. Uses up a descriptor, so this makes one of its own.
    pub fn offered(device: Option<BorrowedFd<'_>>) -> Result<Features> {
        let probe = Self::create(device)?;
        let mut api = raw::uffdio_api {
            api: u64::from(raw::UFFD_API),
            features: 0,
            ioctls: 0,
        };
        probe.ioctl("UFFDIO_API", API, &mut api)?;
        Ok(Features(api.features))
    }

    /// Traps `range`. The range must be whole mappings: a part of a mapping could no longer be
    /// moved by mremap.
    pub fn register(&self, range: Range<u64>, mode: Mode) -> Result<()> {
        let mode = match mode {
            Mode::Missing => raw::UFFDIO_REGISTER_MODE_MISSING,
            Mode::MissingAndWp => raw::UFFDIO_REGISTER_MODE_MISSING | raw::UFFDIO_REGISTER_MODE_WP,
            Mode::Wp => raw::UFFDIO_REGISTER_MODE_WP,
        };
        let mut arg = raw::uffdio_register {
            range: to_raw(&range),
            mode: u64::from(mode),
            ioctls: 0,
        };
        self.ioctl("UFFDIO_REGISTER", REGISTER, &mut arg)
    }

    /// Stops trapping `range`; waiting faults are let go (and read zeros where nothing is mapped:
    /// the caller must have brought every page back).
    pub fn unregister(&self, range: Range<u64>) -> Result<()> {
        self.ioctl("UFFDIO_UNREGISTER", UNREGISTER, &mut to_raw(&range))
    }

    /// Lets every thread that waits for a page of `range` try again. Nobody else would: so this tries again, too.
    pub fn wake(&self, range: Range<u64>) -> Result<()> {
        self.ioctl_again("UFFDIO_WAKE", WAKE, &mut to_raw(&range), passes)
    }

    fn ioctl<T>(&self, name: &'static str, request: libc::c_ulong, arg: &mut T) -> Result<()> {
        self.ioctl_again(name, request, arg, |_| false)
    }

    /// The same, again where an error is `worth` it.
    fn ioctl_again<T>(
        &self,
        name: &'static str,
        request: libc::c_ulong,
        arg: &mut T,
        worth: fn(i32) -> bool,
    ) -> Result<()> {
        // SAFETY: every caller pairs `request` with the argument type whose size is encoded in it,
        // so the kernel reads and writes within `arg`. Foreign addresses inside it are checked and
        // used by the kernel only, in the address space of the descriptor.
        let call = || unsafe {
            libc::ioctl(self.fd.as_raw_fd(), request, std::ptr::from_mut(arg)) as isize
        };
        if persist(call, worth) < 0 {
            return Err(SysError::last(name, ""));
        }
        Ok(())
    }
}

impl AsFd for Uffd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl From<Uffd> for OwnedFd {
    fn from(uffd: Uffd) -> OwnedFd {
        uffd.fd
    }
}

fn to_raw(range: &Range<u64>) -> raw::uffdio_range {
    raw::uffdio_range {
        start: range.start,
        len: range.end - range.start,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linux_raw_sys::ioctl;

    #[test]
    fn request_numbers_equal_the_kernel_headers() {
        assert_eq!(API, libc::c_ulong::from(ioctl::UFFDIO_API));
        assert_eq!(REGISTER, libc::c_ulong::from(ioctl::UFFDIO_REGISTER));
        assert_eq!(UNREGISTER, libc::c_ulong::from(ioctl::UFFDIO_UNREGISTER));
        assert_eq!(WAKE, libc::c_ulong::from(ioctl::UFFDIO_WAKE));
    }
}
