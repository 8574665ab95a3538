//! What this machine allows: the checks of `neap doctor` that concern the engine.

mod access;
mod rights;

use std::fs::File;

use neap_sys::{Features, Maps, Pagemap};
use neap_tuning::TUNING;
use serde::Serialize;

pub use access::Refusal;

use crate::engine::{StartError, negotiate, open_device};
use access::{Door, Place};
use rights::{Rights, Wanted};

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
    pub remedy: String,
}

/// All checks.
#[derive(Clone, Debug, Serialize)]
pub struct Probe {
    /// In order of importance.
    pub checks: Vec<Check>,
}

const TOO_OLD: &str = "Linux 6.8 or later";

/// Why programs get no userfaultfd here; `None` where they do.
pub fn refusal() -> Option<Refusal> {
    Place::look().door().err()
}

/// Looks, without changing anything.
pub fn probe() -> Probe {
    let rights = Rights::own();
    let negotiated = negotiate(open_device().ok().as_ref());
    let mut checks = vec![userfaultfd(Place::look().door(), &negotiated)];
    if let Ok(features) = &negotiated {
        checks.push(wish(
            "fork events",
            features.has(Features::FORK),
            "no: forks of a libc that neap does not know bring every page back, and a child of a clone(2) that does not come by libc reads zeros where pages are out",
            rights.way_to(Wanted::Trace),
        ));
    }
    checks.push(wish(
        "cpu priority",
        goes_ahead(),
        "no: faults wait until the scheduler gives neap a cpu",
        rights.way_to(Wanted::Nice),
    ));
    checks.push(Check {
        name: "privileges",
        ok: true,
        optional: true,
        detail: rights.describe(),
        remedy: String::new(),
    });
    let pagemap = File::open("/proc/self/pagemap").map(Pagemap::adopt);
    checks.push(wish(
        "PAGEMAP_SCAN",
        pagemap.is_ok_and(|pagemap| pagemap.has_scan()),
        "no",
        "Linux 6.7 or later; before it /proc/PID/pagemap is read word by word",
    ));
    let maps = File::open("/proc/self/maps").map(Maps::adopt);
    checks.push(wish(
        "PROCMAP_QUERY",
        maps.is_ok_and(|maps| maps.has_query()),
        "no",
        "Linux 6.11 or later; before it /proc/PID/maps is read as text",
    ));
    Probe { checks }
}

fn userfaultfd(door: Result<Door, Refusal>, negotiated: &Result<Features, StartError>) -> Check {
    let (ok, detail, remedy) = match (door, negotiated) {
        (Err(refusal), _) => (false, refusal.why, refusal.remedy),
        (Ok(_), Err(error)) => (false, error.to_string(), TOO_OLD.to_owned()),
        (Ok(Door::Device), Ok(_)) => (true, "by the device".to_owned(), String::new()),
        (Ok(Door::Call), Ok(_)) => (true, "by system call".to_owned(), String::new()),
    };
    Check {
        name: "userfaultfd",
        ok,
        optional: false,
        detail,
        remedy,
    }
}

/// Whether threads of neap may run ahead of all ordinary ones, also once they have run behind them.
fn goes_ahead() -> bool {
    let there_and_back =
        || neap_sys::raise_to_realtime() && neap_sys::give_way() && neap_sys::raise_to_realtime();
    neap_sys::Thread::run("neap-probe", TUNING.talk.stack.as_usize(), there_and_back)
        .unwrap_or(false)
}

/// Something that neap can do without, `lacking` if it is not there.
fn wish(name: &'static str, ok: bool, lacking: &str, remedy: impl Into<String>) -> Check {
    Check {
        name,
        ok,
        optional: true,
        detail: if ok { "yes" } else { lacking }.to_owned(),
        remedy: if ok { String::new() } else { remedy.into() },
    }
}
