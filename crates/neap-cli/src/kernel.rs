//! What the kernel allows this process, found by trying.

use std::os::fd::AsFd;
use std::path::Path;

use neap_sys::{Features, SysError, Uffd};

/// How a userfaultfd that serves the kernel's own faults was had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// By opening the device.
    Device,
    /// By the system call.
    Syscall,
}

/// A userfaultfd can be had, and what it can do.
#[derive(Clone, Copy, Debug)]
pub struct Userfaultfd {
    /// How it was had.
    pub door: Door,
    /// What this kernel's can do.
    pub features: Features,
    /// Whether forked children may announce themselves to this process.
    pub fork: bool,
}

/// No userfaultfd, or none that serves the kernel's faults.
#[derive(Debug)]
pub struct Refused {
    /// The system call's answer.
    pub syscall: SysError,
}

impl Refused {
    /// The cause.
    #[must_use]
    pub fn cause(&self) -> String {
        /// The kernel was built without it, or a seccomp profile says so.
        const ENOSYS: i32 = 38;
        match self.syscall.errno() {
            ENOSYS => "this kernel or container has no userfaultfd".to_owned(),
            _ => format!("userfaultfd refused ({})", self.syscall),
        }
    }

    /// Every way to get it.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        "sysctl vm.unprivileged_userfaultfd=1, or access to /dev/userfaultfd, or CAP_SYS_PTRACE; \
         in a container: --cap-add SYS_PTRACE or --device /dev/userfaultfd, \
         and a seccomp profile that allows userfaultfd"
    }

    /// Cause and remedy in one line.
    #[must_use]
    pub fn line(&self) -> String {
        format!("{}; try: {}", self.cause(), self.remedy())
    }
}

/// Tries to get a userfaultfd: from the device first, which needs no privilege but the file's.
///
/// # Errors
/// When both doors are closed.
pub fn userfaultfd(device: &Path) -> Result<Userfaultfd, Refused> {
    let opened = Uffd::open_device(device).ok();
    let open = opened.as_ref().map(AsFd::as_fd);
    for (door, device) in [(Door::Device, open), (Door::Syscall, None)] {
        if door == Door::Device && device.is_none() {
            continue;
        }
        let Ok(features) = Uffd::offered(device) else {
            continue;
        };
        let fork = Uffd::create(device).is_ok_and(|uffd| uffd.handshake(Features::FORK).is_ok());
        return Ok(Userfaultfd {
            door,
            features,
            fork,
        });
    }
    match Uffd::offered(None) {
        Err(syscall) => Err(Refused { syscall }),
        // It was refused a moment ago and is not now: take it.
        Ok(features) => Ok(Userfaultfd {
            door: Door::Syscall,
            features,
            fork: false,
        }),
    }
}
