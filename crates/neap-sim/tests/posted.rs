//! The posted scripts as workload files: each says what the mail says, and runs.
//!
//! They are as large as what was posted. Here each value is made smaller by name, so that a file that says anything else fails.

use std::fs;
use std::path::{Path, PathBuf};

use neap_policy::Counter;
use neap_sim::{Compiler, Workload, WorkloadRun};

fn dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/experiments/posted")
}

fn text(name: &str) -> String {
    fs::read_to_string(dir().join(name)).unwrap()
}

/// The file with each `from` as its `to`.
fn with(name: &str, changes: &[(&str, &str)]) -> String {
    let mut text = text(name);
    for (from, to) in changes {
        let found = text.matches(&format!("\n{from} ")).count();
        assert!(found > 0, "{name} has no {from:?}");
        text = text.replace(&format!("\n{from} "), &format!("\n{to} "));
    }
    text
}

fn parse(text: &str) -> Workload {
    Workload::parse(text, |_| Err("no traces here".to_owned())).unwrap()
}

fn run(name: &str, changes: &[(&str, &str)]) -> WorkloadRun {
    let run = parse(&with(name, changes)).run();
    assert!(run.finished, "{name}");
    run
}

fn root(run: &mut WorkloadRun, counter: Counter) -> u64 {
    run.machine.kernel().vmstat(neap_sim::MemcgId::ROOT)[counter]
}

#[test]
fn every_posted_script_is_a_workload_and_names_its_mail() {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let text = text(&name);
        assert!(text.starts_with("# S") && text.contains("@"), "{name}");
        assert!(text.contains("# posted"), "{name}");
        parse(&text);
        names.push(name);
    }
    names.sort();
    assert_eq!(
        names,
        [
            "fairness.toml",
            "noreuse.toml",
            "recency.toml",
            "second-chance.toml"
        ]
    );
}

#[test]
fn the_fairness_test_takes_from_every_cgroup_what_was_asked_for() {
    let mut run = run(
        "fairness.toml",
        &[
            ("ram = \"512G\"", "ram = \"2G\""),
            ("size = \"1920M\"", "size = \"7680K\""),
            ("size = \"256M\"", "size = \"1M\""),
            ("count = 128", "count = 128"),
            ("burst = 1638", "burst = 6"),
            ("requests = 600", "requests = 60"),
            ("pause = \"6s\"", "pause = \"6s\""),
            ("start = \"600s\"", "start = \"20s\""),
        ],
    );
    let groups = run.groups.clone();
    assert_eq!(groups.len(), 128);
    let kernel = run.machine.kernel();
    let paid: Vec<u64> = groups
        .iter()
        .map(|(_, id)| kernel.vmstat(*id).pgsteal())
        .collect();
    let requested = 60 * 256;
    let sum = paid.iter().sum::<u64>();
    assert!(
        (requested..requested * 5 / 4).contains(&sum),
        "{sum} of {requested}"
    );
    let payers = paid.iter().filter(|pages| **pages > 0).count();
    assert!(payers > 100, "{payers} of 128 paid");
}

#[test]
fn random_reads_with_a_hint_make_nothing_active() {
    let small = [
        ("ram = \"8G\"", "ram = \"32M\""),
        ("size = \"8G\"", "size = \"32M\""),
        ("count = 8", "count = 8"),
        // Reclaim makes dirty pages active whatever a hint says.
        ("writes = 0.5", "writes = 0.0"),
        ("until = \"10min\"", "until = \"500ms\""),
    ];
    let mut after = run("recency.toml", &small);
    assert!(root(&mut after, Counter::WorkingsetRefaultFile) > 1000);
    assert_eq!(root(&mut after, Counter::Pgactivate), 0);
    let before = [&small[..], &[("hint = \"random\"", "hint = \"none\"")]].concat();
    assert!(root(&mut run("recency.toml", &before), Counter::Pgactivate) > 1000);
}

#[test]
fn a_video_that_is_not_reused_spares_the_encoders_memory() {
    let small = [
        ("ram = \"8G\"", "ram = \"128M\""),
        ("size = \"8G\"", "size = \"128M\""),
        ("size = \"7118M\"", "size = \"111M\""),
        ("frame = 3037", "frame = 47"),
        ("size = \"7372M\"", "size = \"115M\""),
    ];
    let refaults = |changes: &[(&str, &str)]| {
        root(
            &mut run("noreuse.toml", changes),
            Counter::WorkingsetRefaultAnon,
        )
    };
    let before = [&small[..], &[("hint = \"noreuse\"", "hint = \"none\"")]].concat();
    let (with_hint, without) = (refaults(&small), refaults(&before));
    assert!(
        with_hint < without / 2,
        "{with_hint} with the call, {without} without"
    );
}

#[test]
fn the_build_takes_the_posted_time_and_keeps_to_its_limit() {
    let trace = Compiler::recorded_trace();
    let work = (4318.0 - 70.0) / 2900.0 / (trace.duration().0 as f64 / 1e9);
    let line = format!("unit_work = {work:.2} ");
    assert!(text("second-chance.toml").contains(&line), "{line}");
    // A twelfth of it: three jobs.
    let mut run = run(
        "second-chance.toml",
        &[
            ("cpus = 36", "cpus = 3"),
            ("max = \"2G\"", "max = \"170M\""),
            ("count = 36", "count = 3"),
            ("units = 2900", "units = 24"),
            ("prepare = \"10s\"", "prepare = \"1s\""),
        ],
    );
    assert!(root(&mut run, Counter::Zswpout) > 1000);
    assert!(root(&mut run, Counter::MemcgMax) > 0);
}
