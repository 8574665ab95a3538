//! What `memory.low` and `memory.min` protect in a service.

use std::os::unix::process::ExitStatusExt;

use neap_tests::service::{Place, wait_until};
use neap_tests::{allowed, paging, program};

const MIB: u64 = 1 << 20;
const SIGKILL: i32 = 9;

/// All three were killed, or the limit was passed by the half where that was allowed: what `memory.low` protects was given up only
/// after nothing more was to be had.
#[test]
fn what_low_protects_goes_once_nobody_else_has_any() {
    let test = "what_low_protects_goes_once_nobody_else_has_any";
    let Some(_alone) = paging(test) else { return };
    let place = Place::own();
    let _service = place.serve(&["-m", "64M", "--on-exhausted", "kill"]);
    let sizes = [("one", 36, "40M"), ("two", 28, "30M"), ("three", 16, "0")];
    let jobs = sizes.map(|(name, mib, low)| (name, place.job(name, mib, &["--low", low], false)));
    let peak = place.number("all", "/memory/peak_bytes");
    assert!(peak <= allowed(64 * MIB), "{peak}");
    let got = place.ask(&["reclaim", "all", "16M"]);
    assert!(got.status.success(), "{got:?}");
    for (name, job) in jobs {
        place.end(name, job);
    }
    // One of whom all is protected, and that does not fit.
    let large = place.job("large", 80, &["--low", "1G"], true);
    place.end("large", large);
}

/// The verdict that nothing is left is put off for it once, and not for ever: the job waited for room and was never killed.
#[test]
fn what_low_protects_and_cannot_leave_keeps_nobody_waiting() {
    let test = "what_low_protects_and_cannot_leave_keeps_nobody_waiting";
    let Some(_alone) = paging(test) else { return };
    let place = Place::own();
    let _service = place.serve(&["-m", "32M", "--no-swap", "--on-exhausted", "kill"]);
    let noise = program("incompressible");
    let noise = noise.to_str().expect("a path");
    let job = ["run", "--in", "all", "--low", "1G", "--", noise, "64"];
    let (status, _, err) = place.start(&job).wait();
    assert_eq!(status.signal(), Some(SIGKILL), "{err}");
    assert!(err.contains("nothing more can be reclaimed"), "{err}");
}

#[test]
fn what_is_protected_stays_while_others_have_memory() {
    let test = "what_is_protected_stays_while_others_have_memory";
    let Some(_alone) = paging(test) else { return };
    for flag in ["--min", "--low"] {
        let place = Place::own();
        let _service = place.serve(&["-m", "96M"]);
        let kept = place.job("kept", 48, &[flag, "56M"], false);
        let others = ["one", "two"].map(|name| (name, place.job(name, 48, &[], true)));
        let resident = |name| place.number(name, "/memory/resident_bytes");
        assert!(resident("kept") >= 47 * MIB, "{flag}: {}", resident("kept"));
        wait_until("the others pay", || {
            resident("one") + resident("two") < 64 * MIB
        });
        // Without protection it pays as the others do.
        let key = format!("memory.{}=0", flag.trim_start_matches('-'));
        assert!(place.ask(&["set", "kept", &key]).status.success());
        wait_until("it gives its share", || resident("kept") < 44 * MIB);
        place.end("kept", kept);
        for (name, job) in others {
            place.end(name, job);
        }
    }
    let place = Place::own();
    let _service = place.serve(&["-m", "96M"]);
    let refused = place.refusal(&["set", "all", "memory.low=1M"], 1);
    assert!(refused.contains("only a job in a service"), "{refused}");
    let alone = place.refusal(&["run", "--low", "1M", "-m", "64M", "--", "true"], 125);
    assert!(alone.contains("--in"), "{alone}");
}
