//! Figures, medians and verdicts.

use neap_units::Bytes;

use super::*;

/// A run of no account.
pub fn raw(contender: Contender, turn: u32, wall: f64) -> Raw {
    Raw {
        turn,
        contender,
        limit_bytes: None,
        pool_beside: false,
        ending: Ending::Exited(0),
        given_up_after_seconds: None,
        left_running: false,
        wall_seconds: wall,
        cpu_user_seconds: 0.0,
        cpu_system_seconds: 0.0,
        cpu_neap_seconds: 0.0,
        cpu_all_seconds: 0.0,
        peak_memory_bytes: 0,
        peak_resident_bytes: 0,
        peak_pool_bytes: 0,
        pool_held_bytes: 0,
        group_peak_bytes: None,
        max_rss_bytes: None,
        pages_out: 0,
        pages_in: 0,
        major_faults: 0,
        disk_written_bytes: 0,
        counted: "machine",
        kills: 0,
        samples: 1,
        stdout_bytes: 2,
        stdout_sha256: "ab".to_owned(),
        compressor: None,
        shrinker: None,
        settings_set: BTreeMap::new(),
        neap: Value::Null,
        stderr: String::new(),
    }
}

#[test]
fn a_median_lies_in_the_middle() {
    let of = |figures: &[f64]| Summary::of(figures.iter().copied());
    assert_eq!(of(&[]), None);
    let odd = of(&[3.0, 1.0, 2.0]).unwrap();
    assert_eq!((odd.median, odd.least, odd.most), (2.0, 1.0, 3.0));
    assert_eq!(of(&[4.0, 1.0]).unwrap().median, 2.5);
    assert_eq!(of(&[4.0, 1.0]).unwrap().ratio(Some(odd)), Some(1.25));
    assert_eq!(odd.ratio(of(&[0.0])), None);
    assert_eq!(odd.ratio(None), None);
}

#[test]
fn every_measure_has_its_field_in_the_raw_run() {
    let value = serde_json::to_value(raw(Contender::Zram, 1, 2.5)).unwrap();
    for measure in MEASURES {
        assert!(value[measure.name].is_number(), "{}", measure.name);
    }
    assert_eq!(value["contender"], "zram");
    assert_eq!(value["ending"], "exited 0");
    assert_eq!((MEASURES[0].of)(&raw(Contender::Zram, 1, 2.5)), 2.5);
}

#[test]
fn equal_outputs_are_counted_and_others_named() {
    let plain = raw(Contender::Plain, 0, 1.0);
    let neap = raw(Contender::Neap, 2, 1.0);
    let same = Verdict::of(&[plain.clone(), neap.clone()], &[]);
    assert!(matches!(same, Verdict::Same { compared: 2, .. }));
    let mut other = neap.clone();
    other.stdout_sha256 = "cd".to_owned();
    let Verdict::Different(lines) = Verdict::of(&[plain.clone(), neap.clone(), other], &[]) else {
        panic!("they differ");
    };
    assert_eq!(lines.len(), 1);
    assert!(
        lines[0].starts_with("neap in turn 2: 2 bytes"),
        "{}",
        lines[0]
    );
}

#[test]
fn a_killed_run_is_named_and_its_output_not_compared() {
    let plain = raw(Contender::Plain, 0, 1.0);
    for contender in [Contender::Plain, Contender::Swap] {
        let mut killed = raw(contender, 1, 1.0);
        (killed.ending, killed.kills) = (Ending::Signaled(9), 1);
        killed.stdout_bytes = 1;
        let line = failure(&killed, &plain, &[]);
        assert!(
            line.ends_with(
                "in turn 1 ended by SIGKILL, plain exited 0; the kernel killed 1 for want of memory"
            ),
            "{line}"
        );
        let verdict = Verdict::of(&[plain.clone(), killed], &[]);
        assert!(matches!(verdict, Verdict::Same { compared: 1, .. }));
    }
}

#[test]
fn a_run_that_took_too_long_is_named_and_never_like_plain() {
    let mut plain = raw(Contender::Plain, 0, 1.0);
    // Also where plain ends by the same signal.
    plain.ending = Ending::Signaled(9);
    let mut late = raw(Contender::Zswap, 1, 5.0);
    (late.ending, late.given_up_after_seconds) = (Ending::Signaled(9), Some(5));
    late.stdout_bytes = 1;
    let mut leaving = late.clone();
    leaving.left_running = true;
    assert!(leaving.said().starts_with("left processes behind"));
    assert!(!late.is_like(&plain) && plain.is_like(&plain));
    let line = failure(&late, &plain, &[]);
    assert_eq!(
        line,
        "zswap in turn 1 did not end within 5 s, plain ended by SIGKILL"
    );
    let verdict = Verdict::of(&[plain.clone(), late], &[]);
    assert!(matches!(verdict, Verdict::Same { compared: 1, .. }));
    plain.given_up_after_seconds = Some(5);
    assert_eq!(Verdict::of(&[plain], &[]), Verdict::Unknown);
}

#[test]
fn a_command_that_differs_by_itself_proves_nothing() {
    let plain = raw(Contender::Plain, 0, 1.0);
    let mut again = plain.clone();
    again.stdout_bytes = 9;
    assert_eq!(Verdict::of(&[plain, again], &[]), Verdict::Unsteady);
    assert_eq!(Verdict::of(&[], &[]), Verdict::Unsteady);
}

#[test]
fn a_run_with_a_killed_process_is_no_good_one_whatever_its_status() {
    let plain = raw(Contender::Plain, 0, 1.0);
    let mut killed = raw(Contender::Zram, 1, 1.0);
    killed.kills = 1;
    assert!(!killed.is_like(&plain));
    assert_eq!(killed.fault(), "exited 0, 1 killed for want of memory");
    let line = failure(&killed, &plain, &[]);
    let want = "zram in turn 1 exited 0, plain exited 0; the kernel killed 1 for want of memory";
    assert_eq!(line, want);
    let verdict = Verdict::of(&[plain.clone(), killed.clone()], &[]);
    assert!(matches!(verdict, Verdict::Same { compared: 1, .. }));
    // A command whose own control group kills does so plainly too.
    assert!(killed.is_like(&killed));
}

#[test]
fn a_run_is_sound_that_ended_by_itself_with_success_and_lost_no_process() {
    let sound = raw(Contender::Plain, 0, 1.0);
    assert!(sound.is_sound());
    let mut failed = sound.clone();
    failed.ending = Ending::Exited(1);
    let mut killed = sound.clone();
    killed.kills = 1;
    let mut late = sound;
    late.given_up_after_seconds = Some(1);
    assert!(!failed.is_sound() && !killed.is_sound() && !late.is_sound());
}

#[test]
fn two_runs_of_a_contender_in_one_turn_have_two_names() {
    use super::super::plan::{First, entrants};
    let first = |contender, mib, charged| First {
        contender,
        pool: Bytes::mib(mib),
        charged,
        late: None,
        left_running: false,
    };
    let firsts = [
        first(Contender::Neap, 10, true),
        first(Contender::Swap, 0, false),
    ];
    let (entrants, _) = entrants(Bytes::mib(64), &firsts);
    let run = |contender, turn, pool_beside| Raw {
        limit_bytes: Some(64 << 20),
        pool_beside,
        ..raw(contender, turn, 1.0)
    };
    let names = [
        (run(Contender::Neap, 2, true), "neap (a) in turn 2"),
        (run(Contender::Neap, 2, false), "neap (b) in turn 2"),
        (run(Contender::Neap, 0, false), "neap in its first run"),
        (run(Contender::Swap, 1, false), "swap in turn 1"),
        (raw(Contender::Plain, 1, 1.0), "plain in turn 1"),
    ];
    for (run, name) in names {
        assert_eq!(who(&run, &entrants), name);
        let line = failure(&run, &run, &entrants);
        assert!(line.starts_with(&format!("{name} exited 0, ")), "{line}");
    }
}
