//! What this machine allows: the checks of `neap doctor` that concern the engine.

use std::fs::File;

use neap_sys::{Features, Maps, Pagemap, Uffd};
use serde::Serialize;

use crate::engine::{StartError, negotiate, open_device};

/// One thing neap would like to have.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// What.
    pub name: &'static str,
    /// Whether it is there.
    pub ok: bool,
    /// Whether neap can work without it.
    pub optional: bool,
    /// What was found.
    pub detail: String,
    /// What to do about it; empty when nothing needs to be done.
    pub remedy: &'static str,
}

/// All checks.
#[derive(Clone, Debug, Serialize)]
pub struct Probe {
    /// In order of importance.
    pub checks: Vec<Check>,
}

impl Probe {
    /// Whether `neap run` can manage programs here.
    pub fn can_run(&self) -> bool {
        self.checks.iter().all(|check| check.ok || check.optional)
    }
}

const ALLOW: &str = "let this user open /dev/userfaultfd (udev rule, chgrp, or --device /dev/userfaultfd for a container), \
     or set sysctl vm.unprivileged_userfaultfd=1, or give CAP_SYS_PTRACE (docker run --cap-add SYS_PTRACE; \
     a seccomp profile must also allow userfaultfd)";
const MOVE: &str = "Linux 6.8 or later; or NEAP_WAY_OUT=write-protect, the older way out, which can lose pages of a program \
     that gives memory back (docs/design/safety.md)";
const ALLOW_FORK: &str = "give CAP_SYS_PTRACE (setcap cap_sys_ptrace+ep on the neap binary, or docker run --cap-add SYS_PTRACE); \
     without it every page is brought back before a fork";

const ALLOW_AHEAD: &str = "give CAP_SYS_NICE (setcap cap_sys_nice+ep on the neap binary, or docker run --cap-add SYS_NICE); \
     without it faults wait until the scheduler gives neap a cpu";

/// Looks, without changing anything.
pub fn probe() -> Probe {
    let device = open_device();
    let negotiated = negotiate(device.as_ref().ok());
    let mut checks = vec![userfaultfd(&device, &negotiated)];
    if let Ok(features) = &negotiated {
        checks.push(feature(
            "fork events",
            features.has(Features::FORK),
            ALLOW_FORK,
        ));
        checks.push(Check {
            optional: false,
            ..feature("UFFDIO_MOVE", features.has(Features::MOVE), MOVE)
        });
    }
    checks.push(feature("cpu priority", goes_ahead(), ALLOW_AHEAD));
    let pagemap = File::open("/proc/self/pagemap").map(Pagemap::adopt);
    checks.push(feature(
        "PAGEMAP_SCAN",
        pagemap.is_ok_and(|pagemap| pagemap.has_scan()),
        "Linux 6.7 or later; before it /proc/PID/pagemap is read word by word",
    ));
    let maps = File::open("/proc/self/maps").map(Maps::adopt);
    checks.push(feature(
        "PROCMAP_QUERY",
        maps.is_ok_and(|maps| maps.has_query()),
        "Linux 6.11 or later; before it /proc/PID/maps is read as text",
    ));
    Probe { checks }
}

fn userfaultfd(
    device: &Result<std::os::fd::OwnedFd, neap_sys::SysError>,
    negotiated: &Result<Features, StartError>,
) -> Check {
    let detail = match (device, negotiated) {
        (Ok(_), Ok(_)) => "by the device".to_owned(),
        (Err(_), Ok(_)) => "by system call".to_owned(),
        (Err(device), Err(error)) => format!("{error}; {device}"),
        (Ok(_), Err(error)) => error.to_string(),
    };
    let ok = negotiated.is_ok() && kernel_faults();
    Check {
        name: "userfaultfd",
        ok,
        optional: false,
        detail,
        remedy: if ok { "" } else { ALLOW },
    }
}

/// Whether faults inside system calls are served too: without, read(2) into an evicted buffer would
/// fail. Descriptors made without UFFD_USER_MODE_ONLY always do, and neap makes no others.
fn kernel_faults() -> bool {
    let device = open_device().ok();
    Uffd::create(device.as_ref().map(std::os::fd::AsFd::as_fd)).is_ok()
}

/// Whether threads of neap may run ahead of all ordinary ones, also once they have run behind them.
fn goes_ahead() -> bool {
    let there_and_back =
        || neap_sys::raise_to_realtime() && neap_sys::give_way() && neap_sys::raise_to_realtime();
    std::thread::spawn(there_and_back).join().unwrap_or(false)
}

fn feature(name: &'static str, ok: bool, remedy: &'static str) -> Check {
    Check {
        name,
        ok,
        optional: true,
        detail: if ok { "yes" } else { "no" }.to_owned(),
        remedy: if ok { "" } else { remedy },
    }
}
