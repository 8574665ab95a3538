//! A run within a run joins the engine of that, as a cgroup below another: it counts for all above it.

use neap_tests::service::{Place, Running, path, places, wait_until};
use neap_tests::{allowed, paging};
use serde_json::Value;

const MIB: u64 = 1 << 20;

/// A run within a run, `outer` and `inner`, of which the inner fills so many MiB and waits.
fn nested(place: &Place, outer: &[&str], inner: &[&str], mib: &str) -> Running {
    let stop = place.file("inner.stop");
    let mut words = vec!["run", "--name", "outer"];
    words.extend(outer);
    words.extend(["--", path(&place.neap), "run", "--name", "inner"]);
    words.extend(inner);
    words.extend(["--", path(&place.waits), mib, path(&stop)]);
    let running = place.start(&words);
    let ready = place.file("inner.stop.ready");
    wait_until("the inner one waits", || ready.exists());
    running
}

#[test]
fn a_run_within_a_job_of_a_service_counts_for_both() {
    let test = "a_run_within_a_job_of_a_service_counts_for_both";
    let Some(_alone) = paging(test) else { return };
    for place in places(test) {
        let _service = place.serve(&["-m", "256M"]);
        let rich = place.job("rich", 48, &[], false);
        let run = nested(&place, &["--in", "all", "-m", "128M"], &["-m", "64M"], "96");
        let events = place.start(&["events", "--json", "outer"]);
        let number = |name, pointer| place.number(name, pointer);
        let peak = number("inner", "/memory/peak_bytes");
        assert!(peak > 32 * MIB && peak <= allowed(64 * MIB), "{peak}");
        let inner = number("inner", "/memory/current_bytes");
        assert!(number("outer", "/memory/current_bytes") >= inner);
        let jobs = place.stat("all")["jobs"].clone();
        let inner = jobs.as_array().into_iter().flatten();
        let mut inner = inner.filter(|job| job["name"] == "inner");
        assert_eq!(
            inner.next().map(|job| &job["within"]),
            Some(&Value::from("outer"))
        );
        let table = place.ask(&["ps"]);
        let table = String::from_utf8_lossy(&table.stdout).into_owned();
        assert!(table.contains("\n    inner"), "{table}");
        // The limit of the outer one holds for what runs within it, and takes nothing from others.
        assert!(
            place
                .ask(&["set", "outer", "memory.max=40M"])
                .status
                .success()
        );
        let left = number("inner", "/memory/current_bytes");
        assert!(left <= allowed(40 * MIB), "{left}");
        assert!(number("rich", "/memory/resident_bytes") >= 48 * MIB);
        assert_eq!(place.end("inner", run), "");
        let (status, out, err) = events.wait();
        let told = |job: &str| out.contains(&format!("\"job\":\"{job}\""));
        assert!(status.success(), "{status} {err}");
        assert!(told("outer") && told("inner") && !told("rich"), "{out}");
        place.end("rich", rich);
    }
}

/// Two runs within a job that takes more than its limit: one has protection from what is taken for that.
#[test]
fn a_run_within_a_job_keeps_what_protects_it_from_the_others_there() {
    let test = "a_run_within_a_job_keeps_what_protects_it_from_the_others_there";
    let Some(_alone) = paging(test) else { return };
    for (service, flag) in [(true, "--min"), (true, "--low"), (false, "--min")] {
        let place = Place::own();
        let _service = service.then(|| place.serve(&["-m", "512M"]));
        let stops = ["kept", "goes"].map(|name| place.file(&format!("{name}.stop")));
        let neap = path(&place.neap);
        let run = |name, flags: &str, stop, busy: &str| {
            let waits = path(&place.waits);
            format!("{neap} run --name {name} {flags} -- {waits} 48 {stop} {busy}")
        };
        let script = format!(
            "{} & while [ ! -e {}.ready ]; do sleep 0.05; done; {} & wait",
            run("kept", &format!("{flag} 56M"), path(&stops[0]), ""),
            path(&stops[0]),
            run("goes", "", path(&stops[1]), "busy"),
        );
        let within: &[&str] = if service { &["--in", "all"] } else { &[] };
        let words = [&["run", "--name", "outer", "-m", "80M"], within];
        let words = [&words.concat()[..], &["--", "sh", "-c", &script]].concat();
        let outer = place.start(&words);
        let ready = place.file("goes.stop.ready");
        wait_until("both wait", || ready.exists());
        let resident = |name| place.number(name, "/memory/resident_bytes");
        wait_until("the other one pays", || resident("goes") < 36 * MIB);
        assert!(resident("kept") >= 47 * MIB, "{flag}: {}", resident("kept"));
        // Without protection it pays as the other does.
        let key = format!("memory.{}=0", flag.trim_start_matches('-'));
        assert!(place.ask(&["set", "kept", &key]).status.success());
        wait_until("it gives its share", || resident("kept") < 44 * MIB);
        for stop in &stops {
            std::fs::write(stop, "").expect("a file");
        }
        let (status, out, err) = outer.wait();
        assert!(status.success() && out == "whole\nwhole\n", "{out} {err}");
    }
}

#[test]
fn a_run_within_a_run_counts_for_that() {
    let test = "a_run_within_a_run_counts_for_that";
    let Some(_alone) = paging(test) else { return };
    for place in places(test) {
        let run = nested(&place, &["-m", "64M"], &[], "96");
        let peak = place.number("outer", "/memory/peak_bytes");
        assert!(peak > 48 * MIB && peak <= allowed(64 * MIB), "{peak}");
        assert!(place.number("inner", "/memory/current_bytes") > 32 * MIB);
        assert_eq!(place.end("inner", run), "");
    }
}

/// What an engine is told by flags only one of the run's own can follow.
#[test]
fn a_run_within_a_run_that_says_how_has_an_engine_of_its_own() {
    let test = "a_run_within_a_run_that_says_how_has_an_engine_of_its_own";
    let Some(_alone) = paging(test) else { return };
    let place = Place::own();
    let said = |inner: &[&str]| {
        let words = [
            "run",
            "-m",
            "64M",
            "--",
            path(&place.neap),
            "run",
            "-m",
            "48M",
        ];
        let output = place.ask(&[&words[..], inner, &["--", "echo", "here"]].concat());
        assert_eq!(String::from_utf8_lossy(&output.stdout), "here\n");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert_eq!(said(&[]), "");
    let own = said(&["--no-swap"]);
    assert!(own.contains("runs under another neap run"), "{own}");
}
