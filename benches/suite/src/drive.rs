//! Runs the rows one after the other through `neap bench` and keeps what they took.

mod index;
mod peak;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

pub use index::{Index, Measured, RowIndex};

use crate::report;
use crate::rows::{Place, Row};

/// Between two looks at a bench that runs.
const LOOK: Duration = Duration::from_millis(20);
/// The status of a bench of which some run did not do what the plain ones did.
const DIFFERENT: i32 = 1;

/// What is to be run.
#[derive(Debug)]
pub struct Plan {
    /// The rows.
    pub rows: Vec<Row>,
    /// The limits, in percent of the plain peak.
    pub percents: Vec<u64>,
    /// Counted runs.
    pub runs: u32,
    /// Size of everything, in percent.
    pub scale: usize,
    /// Contenders.
    pub against: String,
    /// Seconds after which a bench is given up.
    pub patience: u64,
    /// Seconds after which a single run is given up.
    pub run_patience: Option<u64>,
    /// Where the results go.
    pub out: PathBuf,
    /// `neap`.
    pub neap: PathBuf,
    /// `neap-work`.
    pub work: PathBuf,
    /// For swap files and the files of rows.
    pub dir: PathBuf,
}

/// Runs the plan; the report is written beside the results.
///
/// # Errors
/// Results that cannot be written. What a row lacks is no error but stands in the index.
pub fn run(plan: &Plan) -> Result<(), String> {
    let place = Place {
        work: plan.work.clone(),
        repository: index::repository(),
        dir: plan.dir.join("neap-suite"),
        scale: plan.scale,
    };
    fs::create_dir_all(&place.dir).map_err(|e| format!("{}: {e}", place.dir.display()))?;
    let mut index = Index::new(plan);
    let out = index.make_directory(&plan.out)?;
    eprintln!("results: {}", out.display());
    for row in &plan.rows {
        let found = one(plan, row, &place, &out);
        if let Some(missing) = &found.missing {
            eprintln!("{}: not measured: {missing}", row.name);
        }
        index.rows.push(found);
        index.write(&out)?;
    }
    let text = report::of(&out)?;
    let file = out.join("README.md");
    fs::write(&file, &text).map_err(|e| format!("{}: {e}", file.display()))?;
    print!("{text}");
    Ok(())
}

fn one(plan: &Plan, row: &Row, place: &Place, out: &Path) -> RowIndex {
    let mut found = RowIndex::new(row);
    let command = match row.command(place) {
        Ok(command) => command,
        Err(missing) => return found.without(missing),
    };
    let peak = match peak::of(&command) {
        Ok(peak) => peak,
        Err(fault) => return found.without(fault),
    };
    found.plain_peak_bytes = peak;
    for percent in &plan.percents {
        let file = format!("{}-{percent}.json", row.name);
        let size = peak * percent / 100;
        let (start, load_before) = (neap_sys::monotonic_nanos(), index::load());
        let ended = bench(plan, &command, size, &out.join(&file))
            .and_then(|()| leave_out_places(&out.join(&file), &command, &place.repository));
        let seconds = (neap_sys::monotonic_nanos() - start) as f64 / 1e9;
        let fault = ended.err();
        let said = fault.as_ref().map(|fault| format!(": {fault}"));
        eprintln!(
            "{} at {percent} %: {seconds:.0} s{}",
            row.name,
            said.unwrap_or_default()
        );
        found.results.push(Measured {
            percent: *percent,
            file,
            fault,
            seconds,
            load_before,
            load_after: index::load(),
        });
    }
    found
}

/// One `neap bench`; an error says why there are no results.
fn bench(plan: &Plan, words: &[OsString], size: u64, json: &Path) -> Result<(), String> {
    let mut command = Command::new(&plan.neap);
    let run_patience = plan.run_patience.map(|seconds| seconds.to_string());
    command
        .args([
            "bench",
            "-m",
            &size.to_string(),
            "--runs",
            &plan.runs.to_string(),
        ])
        .args(run_patience.iter().flat_map(|n| ["--patience", n]))
        .args(["--against", &plan.against, "--swap-dir"])
        .arg(&plan.dir)
        .arg("--json")
        .arg(json)
        .arg("--")
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let status = wait(&mut command, plan.patience).map_err(|e| e.to_string())?;
    match status.map(|status| (status, status.code())) {
        None => Err(format!("given up after {} s", plan.patience)),
        Some((_, Some(0 | DIFFERENT))) => Ok(()),
        Some((status, _)) => Err(format!("neap bench ended with {status}")),
    }
}

/// The command as it is on any machine: without the folder of its program, and below the repository.
fn leave_out_places(json: &Path, command: &[OsString], repository: &Path) -> Result<(), String> {
    let lost = |e: std::io::Error| format!("{}: {e}", json.display());
    let text = fs::read_to_string(json).map_err(lost)?;
    let mut places = Vec::new();
    if let Some(program) = command.first().map(Path::new)
        && let Some(name) = program.file_name()
    {
        let quoted = |path: &Path| format!("\"{}\"", path.display());
        places.push((quoted(program), quoted(Path::new(name))));
    }
    places.push((format!("\"{}/", repository.display()), "\"".to_owned()));
    let replaced = |text: String, (from, to): &(String, String)| text.replace(from, to);
    fs::write(json, places.iter().fold(text, replaced)).map_err(lost)
}

/// How it ended; `None` when it took too long and was told to stop, so that it tidies up.
fn wait(command: &mut Command, patience: u64) -> std::io::Result<Option<ExitStatus>> {
    let mut child = command.spawn()?;
    let end = neap_sys::monotonic_nanos() + patience * 1_000_000_000;
    let mut late = false;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok((!late).then_some(status));
        }
        if !late && neap_sys::monotonic_nanos() > end {
            late = true;
            kill_process(Pid::from_child(&child), Signal::INT)?;
        }
        std::thread::sleep(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_tells_nothing_of_where_the_programs_are() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = r#"{"command": ["/r/x/target/python3", "/r/x/benches/job.py", "7"], "swap_dir": "/var/tmp"}"#;
        fs::write(&file, text).unwrap();
        let command = ["/r/x/target/python3", "/r/x/benches/job.py", "7"].map(OsString::from);
        leave_out_places(file.path(), &command, Path::new("/r/x")).unwrap();
        let kept = r#"{"command": ["python3", "benches/job.py", "7"], "swap_dir": "/var/tmp"}"#;
        assert_eq!(fs::read_to_string(&file).unwrap(), kept);
    }

    #[test]
    fn what_takes_too_long_is_told_to_stop() {
        let mut slow = Command::new("sleep");
        assert!(wait(slow.arg("60"), 0).unwrap().is_none());
        let status = wait(&mut Command::new("true"), 60).unwrap();
        assert!(status.is_some_and(|status| status.success()));
    }
}
