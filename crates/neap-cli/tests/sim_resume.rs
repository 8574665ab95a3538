//! `neap sim experiment --resume`: an interrupted command goes on where it was, with the same result.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn neap(dir: &Path, line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_neap"));
    command.arg("sim").args(line.split_whitespace());
    command.current_dir(dir).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

const FAST: &str =
    "experiment memcg-lru-6.12 --seeds 3 --scale 0.05 --set writes=2 --set warm_up=1 --json - ";

#[test]
fn an_interrupted_command_goes_on_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let whole = neap(dir, FAST);
    let kept = neap(dir, &format!("{FAST} --resume runs"));
    assert_eq!((said(&kept).as_str(), &kept.stdout), ("", &whole.stdout));
    let text = fs::read_to_string(dir.join("runs")).unwrap();
    assert_eq!(text.lines().count(), 1 + 3 * 2);
    // As if it had been killed while it wrote.
    let cut = text.len() * 2 / 3;
    fs::write(dir.join("runs"), &text[..cut]).unwrap();
    let before = text[..cut].matches('\n').count() - 1;
    let again = neap(dir, &format!("{FAST} --resume runs"));
    assert_eq!(again.stdout, whole.stdout);
    let told = format!("neap: runs: {before} runs of before are not run again\n");
    assert_eq!(said(&again), told);
    // All of them are there now.
    let again = neap(dir, &format!("{FAST} --resume runs"));
    assert_eq!(again.stdout, whole.stdout);
    assert!(said(&again).contains("6 runs"), "{}", said(&again));
}

#[test]
fn a_file_that_holds_no_runs_is_refused_and_left() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let head = |build: &str| format!("{{\"build\":\"{build}\",\"schema\":\"neap.runs/1\"}}\n");
    let cases = [
        ("a text\n".to_owned(), "holds no runs of experiments"),
        (head("0"), "holds runs of another build of neap"),
    ];
    for (text, fault) in cases {
        fs::write(dir.join("runs"), &text).unwrap();
        let output = neap(dir, &format!("{FAST} --resume runs"));
        assert_eq!(output.status.code(), Some(2));
        let told = said(&output);
        assert!(
            told.starts_with(&format!("neap: error[E0210]: runs: {fault}\n")),
            "{told}"
        );
        assert_eq!(fs::read_to_string(dir.join("runs")).unwrap(), text);
    }
    let both = neap(dir, &format!("{FAST} --resume new --html new"));
    assert!(
        said(&both).contains("[E0207]: --resume: new is the file of --html"),
        "{}",
        said(&both)
    );
    assert!(neap(dir, "experiment list --resume runs").status.code() == Some(2));
}
