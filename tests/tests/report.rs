//! The page with a run over time: of a job that runs, of one that has ended, and of what is neither.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use neap_tests::service::places;
use neap_tests::{
    Neap, Need, OrdinaryUser, Run, exclusive, neap_binary, program, require, skip, spawn_unmarked,
    tool,
};
use serde_json::Value;
use tempfile::TempDir;

/// Longest that anything here is waited for.
const LONGEST: Duration = Duration::from_secs(60);

/// What reads a page as strict XML and as HTML, and prints what it found: charts, tables, their rows, and the text of `h1`.
/// It fails on whatever a browser would fetch or run.
const READER: &str = r#"
import sys, html.parser, xml.etree.ElementTree as tree
text = open(sys.argv[1], encoding="utf-8").read()
root = tree.fromstring(text)
class Reader(html.parser.HTMLParser):
    found = []
    def handle_starttag(self, tag, attributes):
        self.found.append(tag)
        assert tag not in ("script", "link", "img", "iframe", "object", "base"), tag
        for name, value in attributes:
            assert not name.startswith("on") and name not in ("src", "href", "srcset"), name
            assert "://" not in value or name == "xmlns", value
Reader().feed(text)
space = "{http://www.w3.org/1999/xhtml}"
names = [node.tag.split("}")[1] for node in root.iter()]
assert [n.lower() for n in names] == Reader.found, "XML and HTML find the same"
paths = [node.get("d") for node in root.iter("{http://www.w3.org/2000/svg}path")]
assert all("nan" not in path.lower() and "inf" not in path for path in paths)
heading = "".join(root.find(f"{space}body/{space}h1").itertext())
print(names.count("figure"), names.count("table"), names.count("tr"), heading)
"#;

fn neap(dir: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(neap_binary().expect("the binary of neap"));
    command.args(words).env("XDG_RUNTIME_DIR", dir);
    command.output().expect("neap runs")
}

/// What the reader found: charts, tables, rows and the heading.
fn read(page: &Path) -> (usize, usize, usize, String) {
    let output = Command::new("python3")
        .args(["-c", READER])
        .arg(page)
        .output();
    let output = output.expect("python3 runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", page.display());
    let text = String::from_utf8(output.stdout).expect("text");
    let mut words = text.trim_end().splitn(4, ' ');
    let mut count = || {
        words
            .next()
            .and_then(|word| word.parse().ok())
            .expect("a number")
    };
    let counts = (count(), count(), count());
    (
        counts.0,
        counts.1,
        counts.2,
        words.next().unwrap_or_default().to_owned(),
    )
}

fn needs(test: &str) -> bool {
    let needs = [Need::Neap, Need::Userfaultfd, Need::Tool("python3")];
    require(test, &needs)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

/// A job that waits, and touches its memory all the time.
struct Job {
    dir: TempDir,
    child: Child,
}

impl Job {
    fn begin(limit: &str, mib: &str) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let mut command = Command::new(neap_binary().expect("the binary of neap"));
        command.env("XDG_RUNTIME_DIR", dir.path());
        command.args(["run", "-m", limit, "--name", "web", "--"]);
        command.arg(program("waits")).arg(mib);
        command.arg(dir.path().join("stop")).arg("busy");
        let child = spawn_unmarked(command.stdout(Stdio::null())).expect("neap runs");
        let job = Self { dir, child };
        let begun = Instant::now();
        while !job.path("stop.ready").exists() {
            assert!(begun.elapsed() < LONGEST, "the program never waits");
            sleep(Duration::from_millis(20));
        }
        job
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn neap(&self, words: &[&str]) -> Output {
        neap(self.dir.path(), words)
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let _ = fs::write(self.path("stop"), "");
        let ended = self.child.wait().expect("our child");
        assert!(
            std::thread::panicking() || ended.success(),
            "its memory is as it was"
        );
    }
}

#[test]
fn a_job_that_runs_has_a_page_of_its_run_so_far() {
    let test = "a_job_that_runs_has_a_page_of_its_run_so_far";
    if !needs(test) {
        return;
    }
    let _alone = exclusive();
    let job = Job::begin("24M", "64");
    let page = job.path("run.html");
    fs::write(&page, "before").expect("a file");
    let output = job.neap(&["report", text(&page), "web"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
    let (charts, tables, _, heading) = read(&page);
    assert_eq!(heading, "neap: web");
    // Memory, pages that move, and ages at least; each with its table, and those of generations and processes.
    assert!(charts >= 3 && tables >= charts + 2, "{charts} {tables}");
    let written = fs::read_to_string(&page).expect("a page");
    assert!(written.contains("runs for ") && written.contains("24MiB"));
    let to_stdout = job.neap(&["report", "-"]);
    assert!(to_stdout.status.success());
    assert!(to_stdout.stdout.starts_with(b"<!DOCTYPE html>\n"));
    let folder = job.neap(&["report", text(job.dir.path()), "web"]);
    let said = String::from_utf8_lossy(&folder.stderr);
    assert_eq!(folder.status.code(), Some(1));
    assert!(
        said.starts_with("neap: error[E0307]: ") && said.contains("is a directory"),
        "{said}"
    );
    let left = fs::read_dir(job.dir.path()).expect("a folder").count();
    assert_eq!(
        left, 3,
        "the page, the sockets, and what says that the program waits"
    );
}

#[test]
fn generations_are_told_with_their_age_while_a_job_runs() {
    let test = "generations_are_told_with_their_age_while_a_job_runs";
    if !needs(test) {
        return;
    }
    let _alone = exclusive();
    let job = Job::begin("24M", "64");
    let stat = job.neap(&["stat", "web", "--json"]);
    let stat: Value = serde_json::from_slice(&stat.stdout).expect("an object");
    let lists = stat["generations"]["lists"].as_array().expect("a list");
    assert!(!lists.is_empty() && lists.len() <= 4, "{stat}");
    let of = |name: &str| -> Vec<u64> {
        let values = lists.iter().map(|list| list[name].as_u64());
        values.map(|value| value.expect("a number")).collect()
    };
    let pages: u64 = of("pages").iter().sum();
    let probation = stat["generations"]["probation_pages"]
        .as_u64()
        .expect("a number");
    // What is resident and what is listed are looked at one after the other.
    assert!(
        pages + probation > 0 && pages + probation <= (24 << 20) / 4096 * 2,
        "{stat}"
    );
    let uptime = stat["uptime_seconds"].as_f64().expect("a time") * 1000.0;
    assert!(
        of("age_ms").iter().all(|age| *age as f64 <= uptime),
        "{stat}"
    );
    let ages = of("age_ms");
    assert!(
        ages.is_sorted_by(|older, younger| older >= younger),
        "{stat}"
    );
}

/// The name and the arguments of the command are markup, and a page shows them as text.
#[test]
fn a_run_that_has_ended_has_a_page_whatever_it_was_called() {
    let test = "a_run_that_has_ended_has_a_page_whatever_it_was_called";
    if !needs(test) {
        return;
    }
    let _alone = exclusive();
    let dir = tempfile::tempdir().expect("a folder");
    let hostile = dir.path().join("<script>alert(1)<&'\"");
    fs::copy(program("hog"), &hostile).expect("a copy");
    let run = Run::new([hostile.as_os_str(), "64".as_ref(), "4".as_ref()]).limit(2 * LONGEST);
    let managed = Neap::limit("24M").run(&run);
    managed.must_have_paged();
    let series = &managed.stats["series"];
    assert_eq!(series["schema"], "neap.series/1");
    let column = |name: &str| -> Vec<u64> {
        let values = series["columns"][name].as_array().expect("a column");
        values
            .iter()
            .map(|value| value.as_u64().expect("a number"))
            .collect()
    };
    let times = column("time_ms");
    assert!(times.len() > 2 && times.len() <= 512 && times.is_sorted());
    assert_eq!(column("zswpout").last(), Some(&managed.pages_out()));
    let most = column("most_bytes").into_iter().max();
    assert!(most <= Some(managed.number("/memory/peak_bytes")) && most > Some(16 << 20));
    let (stats, page) = (dir.path().join("stats.json"), dir.path().join("run.html"));
    fs::write(&stats, managed.stats.to_string()).expect("a file");
    let output = neap(
        dir.path(),
        &["report", text(&page), "--stats", text(&stats)],
    );
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let (charts, tables, rows, heading) = read(&page);
    assert_eq!(heading, "neap: <script>alert(1)<&'\"");
    assert!(
        charts >= 3 && tables > charts && rows > 3 * times.len(),
        "{charts} {tables} {rows}"
    );
    let written = fs::read_to_string(&page).expect("a page");
    assert!(written.contains("exited with 0 after "));
}

#[test]
fn a_file_that_is_damaged_is_told_of_and_no_page_is_written() {
    let test = "a_file_that_is_damaged_is_told_of_and_no_page_is_written";
    if !require(test, &[Need::Neap]) {
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let (stats, page) = (dir.path().join("stats.json"), dir.path().join("run.html"));
    fs::write(&page, "before").expect("a file");
    let series = r#"{"schema":"neap.series/1","period_ms":100,"columns":{"time_ms":[5,"x"]}}"#;
    for (content, why) in [
        (String::new(), "it is damaged, or no statistics file"),
        (
            "{\"schema\":\"neap.run/1\",\"memory\":{".to_owned(),
            "it is damaged",
        ),
        (
            "{\"schema\":\"neap.sim/1\"}".to_owned(),
            "it is no statistics file of neap run",
        ),
        (
            "{\"schema\":\"neap.run/1\"}".to_owned(),
            "it has no series of samples",
        ),
        (
            format!("{{\"schema\":\"neap.run/1\",\"series\":{series}}}"),
            "its series has no column time_ms of whole numbers",
        ),
    ] {
        fs::write(&stats, content).expect("a file");
        let output = neap(
            dir.path(),
            &["report", text(&page), "--stats", text(&stats)],
        );
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(
            said.starts_with("neap: error[E0308]: ") && said.contains(why),
            "{said}"
        );
        assert_eq!(said.lines().count(), 2, "{said}");
        assert_eq!(fs::read_to_string(&page).expect("it"), "before");
    }
    let both = neap(
        dir.path(),
        &["report", "x.html", "web", "--stats", text(&stats)],
    );
    assert_eq!(both.status.code(), Some(2));
}

#[test]
fn an_ordinary_user_has_a_page_of_its_run() {
    let test = "an_ordinary_user_has_a_page_of_its_run";
    if tool("python3").is_none() {
        return skip(test, "python3 is not installed");
    }
    let Some((user, device)) = OrdinaryUser::with_device(test) else {
        return;
    };
    let _alone = exclusive();
    let hog = user.copy(&program("hog"));
    let run = Run::new([hog.as_os_str(), "64".as_ref(), "4".as_ref()]).dir(user.dir());
    let managed = user.run("24M", &device, &[]).run(&run);
    managed.must_have_paged();
    let (stats, page) = (user.dir().join("stats.json"), user.dir().join("run.html"));
    fs::write(&stats, managed.stats.to_string()).expect("a file");
    let words = user.words();
    let output = Command::new(&words[0])
        .args(&words[1..])
        .arg(user.neap())
        .arg("report")
        .arg(&page)
        .arg("--stats")
        .arg(&stats)
        .output()
        .expect("it runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let (charts, _, _, heading) = read(&page);
    assert!(charts >= 3 && heading == "neap: hog", "{charts} {heading}");
}

#[test]
fn a_service_has_a_page_of_its_jobs_and_each_job_one_of_its_own() {
    let test = "a_service_has_a_page_of_its_jobs_and_each_job_one_of_its_own";
    if !needs(test) {
        return;
    }
    let _alone = exclusive();
    for place in places(test) {
        let service = place.serve(&["-m", "64M"]);
        let one = place.job("one", 48, &[], true);
        let stats = place.file("two.json");
        let two = place.job("two", 24, &["--stats", text(&stats)], false);
        let page = place.file("run.html");
        let of = |words: &[&str]| {
            let output = place.ask(&[&["report", text(&page)], words].concat());
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{said}");
            (read(&page), fs::read_to_string(&page).expect("a page"))
        };
        // Both have been looked at, and are told of with the service.
        let begun = Instant::now();
        let (found, written) = loop {
            let (found, written) = of(&["all"]);
            if written.matches("<bdi>one</bdi>").count() > 0 && written.contains("<bdi>two</bdi>") {
                break (found, written);
            }
            assert!(begun.elapsed() < LONGEST, "{written}");
        };
        assert!(found.0 >= 4 && found.3 == "neap: all", "{found:?}");
        assert!(written.contains("Memory of each job") && written.contains("On disk"));
        let (found, written) = of(&["one"]);
        assert!(found.0 >= 2 && found.3 == "neap: one", "{found:?}");
        assert!(written.contains("On disk") && written.contains("Waiting for memory"));
        assert!(!written.contains("neap itself"));
        place.end("two", two);
        let (found, _) = of(&["--stats", text(&stats)]);
        assert!(found.0 >= 1 && found.3 == "neap: waits", "{found:?}");
        place.end("one", one);
        drop(service);
    }
}
