//! Records of real programs: the decisions come out the same again, whatever ends the record.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::Path;
use std::process::{Command, Output};
use std::thread::sleep;
use std::time::{Duration, Instant};

use neap_record::{Answer, Header, Reader, block, end_block, payload};
use neap_tests::{Neap, Need, Run, neap_binary, paging, program, require};
use serde_json::Value;

/// Who decides in a run over its limit, beside the core.
const DECIDERS: &[&str] = &[
    "fresh",
    "gate",
    "outlook",
    "pacer",
    "pressure",
    "readahead",
    "shrinker",
    "stride",
    "worker",
];

fn sim(words: &[&str], file: &Path) -> Output {
    Command::new(neap_binary().expect("the binary of neap"))
        .arg("sim")
        .args(words)
        .arg(file)
        .output()
        .expect("neap starts")
}

fn hog() -> Run {
    Run::new([program("hog").as_os_str(), "96".as_ref(), "2".as_ref()])
}

fn neap(record: &Path) -> Neap {
    let neap = Neap::limit("32M").option("--no-swap");
    neap.option("--record").option(record)
}

/// Replays a record and fails unless every decision is the same; gives the object and what was said.
fn replayed(record: &Path) -> (Value, String) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let (now, then) = (dir.path().join("now"), dir.path().join("then"));
    let words = ["replay", "--json", "--decisions"];
    let words: Vec<&str> = words
        .into_iter()
        .chain([now.to_str().unwrap(), "--recorded", then.to_str().unwrap()])
        .collect();
    let out = sim(&words, record);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success(), "{said}");
    let result: Value = serde_json::from_slice(&out.stdout).expect("one object");
    let [now, then] = [now, then].map(|path| fs::read_to_string(path).expect("lines"));
    for (number, (now, then)) in now.lines().zip(then.lines()).enumerate() {
        assert_eq!(now, then, "line {}", number + 1);
    }
    let lines = now.lines().count();
    assert_eq!(lines, then.lines().count());
    assert_eq!(result["decisions"], lines);
    assert_eq!(
        (&result["equal"], &result["different"]),
        (&lines.into(), &0.into())
    );
    for word in ["pick ", "Stage(", "CommitStore("] {
        assert!(now.contains(word), "no line with {word:?} of {lines}");
    }
    (result, said)
}

/// Changes one answer of each decider in a record: a replay finds just these, and names the first.
fn changed_answers_are_found(record: &Path) {
    let mut reader = Reader::open(BufReader::new(File::open(record).unwrap())).unwrap();
    let mut calls: Vec<_> = reader.by_ref().collect();
    let mut changed = BTreeSet::new();
    let mut first = String::new();
    for (call, answer) in &mut calls {
        if let Answer::Decided(who, numbers) = answer
            && changed.insert(who.name())
        {
            if first.is_empty() {
                first = call.to_string();
            }
            numbers.push(0);
        }
    }
    let changed: Vec<_> = changed.into_iter().collect();
    assert_eq!(changed, DECIDERS);
    let mut bytes = reader.header().encode();
    bytes.extend(block(&payload(&calls)));
    bytes.extend(end_block());
    fs::write(record, bytes).expect("written");
    let out = sim(&["replay", "--json"], record);
    assert_eq!(out.status.code(), Some(1));
    let result: Value = serde_json::from_slice(&out.stdout).expect("one object");
    assert_eq!(result["different"], DECIDERS.len());
    assert_eq!(result["first_difference"]["call"], first);
}

#[test]
fn a_program_with_threads_and_forks_is_replayed_with_the_same_decisions() {
    let test = "a_program_with_threads_and_forks_is_replayed_with_the_same_decisions";
    let Some(_alone) = paging(test) else {
        return;
    };
    let dir = tempfile::tempdir_in("/var/tmp").expect("a temporary folder");
    let record = dir.path().join("record");
    let words = "--seed 5 --seconds 8 --threads 4 --memory 192M --stall 150";
    let torture = program("torture");
    let words = [torture.as_os_str()]
        .into_iter()
        .chain(words.split(' ').map(AsRef::as_ref));
    // A pool so small is full now and then: the pool worker runs.
    let neap = Neap::limit("64M").option("--pool-max").option("5%");
    let neap = neap.option("--record").option(&record);
    let run = neap.run(&Run::new(words));
    run.must_have_paged();
    let (result, said) = replayed(&record);
    assert_eq!(result["whole"], true, "{said}");
    assert_eq!(said, "");
    let stolen = result["vmstat"]["pgsteal"].as_u64().unwrap_or(0);
    assert!(stolen >= run.number("/vmstat/pgsteal"), "{result}");
    assert!(
        stolen > 0 && result["faults"].as_u64() > Some(0),
        "{result}"
    );
    for decider in DECIDERS.iter().chain(&["core"]) {
        let decisions = result["deciders"][decider].as_u64();
        assert!(decisions > Some(0), "{decider}: {result}");
    }
    changed_answers_are_found(&record);
}

#[test]
fn a_record_of_a_run_that_was_killed_is_read_up_to_there() {
    let test = "a_record_of_a_run_that_was_killed_is_read_up_to_there";
    if !require(test, &[Need::Neap, Need::Userfaultfd]) {
        return;
    }
    let dir = tempfile::tempdir_in("/var/tmp").expect("a temporary folder");
    let record = dir.path().join("record");
    let long = Run::new([program("hog").as_os_str(), "96".as_ref(), "1000".as_ref()]);
    let run = neap(&record).run_with(&long.may_leave_processes(), |pid| {
        let end = Instant::now() + Duration::from_secs(60);
        while fs::metadata(&record).map_or(0, |meta| meta.len()) < 1 << 20 {
            assert!(Instant::now() < end, "nothing is recorded");
            sleep(Duration::from_millis(5));
        }
        let _ = Command::new("kill")
            .args(["-KILL", &pid.to_string()])
            .status();
    });
    run.must_exit(128 + libc::SIGKILL);
    let (result, said) = replayed(&record);
    assert_eq!(result["whole"], false);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("cut short at byte"), "{said}");
}

#[test]
fn a_record_that_finds_no_room_ends_with_a_warning_and_the_program_goes_on() {
    let test = "a_record_that_finds_no_room_ends_with_a_warning_and_the_program_goes_on";
    if !require(test, &[Need::Neap, Need::Userfaultfd]) {
        return;
    }
    let dir = tempfile::tempdir_in("/var/tmp").expect("a temporary folder");
    let record = dir.path().join("record");
    let plain = hog().go();
    // No file may grow over 300 blocks of 512 bytes, or of 1024 where sh is bash.
    let limited = ["sh", "-c", "ulimit -f 300; exec \"$@\"", "sh"].map(Into::into);
    for (neap, record) in [
        (neap(&record).wrapped(limited), Some(&record)),
        (neap(Path::new("/dev/full")), None),
    ] {
        let run = neap.run(&hog());
        run.must_have_paged();
        assert_eq!(run.text(), plain.text());
        let warnings = run
            .stderr
            .lines()
            .filter(|line| line.contains("recording stopped"));
        assert_eq!(warnings.count(), 1, "{}", run.stderr);
        if let Some(record) = record {
            let (result, said) = replayed(record);
            assert_eq!(result["whole"], false);
            assert!(said.contains("cut short at byte"), "{said}");
        }
    }
}

#[test]
fn a_record_without_a_decision_that_can_be_read_is_no_success() {
    let name = "a_record_without_a_decision_that_can_be_read_is_no_success";
    let Some(_alone) = paging(name) else {
        return;
    };
    let dir = tempfile::tempdir().expect("a temporary folder");
    let record = dir.path().join("record");
    neap(&record).run(&hog()).must_exit(0);
    let mut bytes = fs::read(&record).expect("a record");
    bytes[200..3000].fill(0xa5);
    fs::write(&record, bytes).expect("damaged");
    let out = sim(&["replay"], &record);
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{said}");
    assert!(said.contains("nothing was compared"), "{said}");
}

#[test]
fn a_record_serves_as_a_trace() {
    let test = "a_record_serves_as_a_trace";
    if !require(test, &[Need::Neap, Need::Userfaultfd]) {
        return;
    }
    let dir = tempfile::tempdir_in("/var/tmp").expect("a temporary folder");
    let (record, trace) = (dir.path().join("record"), dir.path().join("trace"));
    neap(&record).run(&hog()).must_have_paged();
    let to = trace.to_str().unwrap();
    let made = sim(&["import", "--from", "record", "-o", to], &record);
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    let replay = ["replay", "-m", "40M", "--json"];
    let [of_trace, of_record] = [&trace, &record].map(|file| sim(&replay, file));
    assert!(of_trace.status.success() && of_record.status.success());
    assert_eq!(of_trace.stdout, of_record.stdout);
    let said = String::from_utf8_lossy(&of_record.stderr);
    assert!(said.contains("pages that stayed in memory"), "{said}");
    let forecast = sim(&["forecast", "--limits", "100%,50%"], &record);
    let table = String::from_utf8_lossy(&forecast.stdout);
    let rows = table.lines().filter(|line| !line.starts_with('*'));
    assert_eq!(rows.count(), 3, "{table}");
    assert!(
        table.contains("a record does not tell the program's own time"),
        "{table}"
    );
}

#[test]
fn a_record_that_cannot_be_made_or_read_is_one_clear_line() {
    let test = "a_record_that_cannot_be_made_or_read_is_one_clear_line";
    if !require(test, &[Need::Neap]) {
        return;
    }
    let nowhere = neap(Path::new("/nonexistent/record"));
    let run = nowhere.command(&Run::new(["true"]), None).go();
    run.must_exit(125);
    assert!(run.stderr.contains("E0107"), "{}", run.stderr);
    let dir = tempfile::tempdir().expect("a temporary folder");
    let file = dir.path().join("file");
    for (bytes, flags, word) in [
        (
            &b"NEAPREC\x09\x00"[..],
            &["replay"][..],
            "record version 9 is not known",
        ),
        (b"NEAPREC", &["replay"], "nothing was recorded"),
        (b"NEAPREC\x02\x00", &["forecast"], "no touch of a page"),
        (
            b"NEAPTRC\x01",
            &["replay", "--decisions", "x"],
            "no record of neap run",
        ),
    ] {
        fs::write(&file, bytes).expect("a file");
        let out = sim(flags, &file);
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(2), "{said}");
        assert!(said.contains(word) && !said.contains("panicked"), "{said}");
    }
}

#[test]
fn the_first_difference_is_shown_with_what_both_said() {
    let test = "the_first_difference_is_shown_with_what_both_said";
    if !require(test, &[Need::Neap]) {
        return;
    }
    let calls = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/calls/short");
    let calls = fs::read(calls).expect("a block of the corpus");
    let mut file = Header::default().encode();
    // Its choices are among spaces that are not there, and the same again has other numbers than it says.
    for _ in 0..2 {
        file.extend(block(&calls));
    }
    file.extend(end_block());
    let dir = tempfile::tempdir().expect("a temporary folder");
    let record = dir.path().join("record");
    fs::write(&record, file).expect("a file");
    let out = sim(&["replay"], &record);
    let (table, said) = (
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr),
    );
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(
        said.contains("E0209") && said.contains("decisions differ"),
        "{said}"
    );
    for word in [
        "first difference, line ",
        ": choose a space among ",
        "recorded: ",
        "replayed: ",
    ] {
        assert!(table.contains(word), "{word:?} is missing in {table}");
    }
}
