//! `neap freeze` and `neap thaw`.

use std::process::ExitCode;

use neap_control::Request;
use neap_units::Bytes;
use serde_json::Value;

use super::failure::Failure;
use super::find::Job;
use super::flags::{FreezeArgs, ThawArgs};
use super::{ask_for_long, done, print, show};
use crate::talk;

/// `neap freeze`: prints how many bytes came back.
pub fn freeze(args: &FreezeArgs) -> ExitCode {
    let freeze = || {
        let job = Job::find(Some(&args.job))?;
        let now = freeze_job(&job, args.to_disk)?;
        for line in what_stays(&now) {
            talk::warn(&format!("{}: {line}", job.name));
        }
        let got = now["reclaimed_bytes"].as_u64().unwrap_or(0);
        print(&format!("{got}\n"))
    };
    done(freeze())
}

/// Freezes a job, and returns what came of it.
pub fn freeze_job(job: &Job, to_disk: bool) -> Result<Value, Failure> {
    ask_for_long(job, Request::Freeze { to_disk }).map_err(as_refusal)
}

/// Who cannot be stopped is none that less would help.
fn as_refusal(failure: Failure) -> Failure {
    match failure {
        Failure::Short { name, message } => Failure::Refused { name, message },
        other => other,
    }
}

/// What could not leave, in lines.
pub fn what_stays(now: &Value) -> Vec<String> {
    let stays = Bytes(now["resident_bytes"].as_u64().unwrap_or(0));
    let held = now["held"].as_str().map(|held| {
        let held = show::clean(held);
        format!("{stays} of the programs could not leave: {held}")
    });
    let written = now["not_written"].as_str().map(show::clean);
    held.into_iter().chain(written).collect()
}

/// `neap thaw`.
pub fn thaw(args: &ThawArgs) -> ExitCode {
    let thaw = || {
        let job = Job::find(Some(&args.job))?;
        let prefetch = args.prefetch;
        let now = ask_for_long(&job, Request::Thaw { prefetch })?;
        let got = now["prefetched_bytes"].as_u64().unwrap_or(0);
        match prefetch {
            true => print(&format!("{got}\n")),
            false => Ok(()),
        }
    };
    done(thaw())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_could_not_leave_is_said_and_nothing_else() {
        assert!(what_stays(&json!({"resident_bytes": 1 << 20})).is_empty());
        let held = json!({"resident_bytes": 8 << 20, "held": "8MiB is locked"});
        let said = what_stays(&held);
        assert_eq!(
            said,
            ["8MiB of the programs could not leave: 8MiB is locked"]
        );
        assert_eq!(what_stays(&json!({"not_written": "x"})), ["x"]);
    }
}
