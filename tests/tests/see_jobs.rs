//! What is shown of the jobs of a service, and by what words they are steered. In each test the programs look at the end whether
//! every word of their memory is as it was.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::process::Command;

use neap_tests::service::{Place, path, wait_until};
use neap_tests::{Need, Schema, Terminal, paging, require};
use serde_json::{Value, json};

const MIB: u64 = 1 << 20;

fn done(place: &Place, words: &[&str]) -> String {
    let output = place.ask(words);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.success() && said.is_empty(),
        "{words:?}: {said}"
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The line of a job in the figures of its service.
fn line(place: &Place, job: &str) -> Value {
    let stat = place.stat("all");
    let jobs = stat["jobs"].as_array().into_iter().flatten();
    let mut its = jobs.filter(|line| line["name"] == job);
    its.next().expect("it is there").clone()
}

/// Jobs that are frozen: one into the pool, one to disk, and one within another, which counts for both.
#[test]
fn each_job_has_its_own_share_of_the_pool_and_of_the_disk() {
    let test = "each_job_has_its_own_share_of_the_pool_and_of_the_disk";
    let Some(_alone) = paging(test) else { return };
    let place = Place::own();
    let _service = place.serve(&["-m", "256M"]);
    let jobs = ["one", "two"].map(|name| (name, place.job(name, 24, &[], false)));
    let stop = place.file("inner.stop");
    let mut words = vec!["run", "--in", "all", "--name", "outer", "--"];
    words.extend([path(&place.neap), "run", "--name", "inner", "--"]);
    words.extend([path(&place.waits), "16", path(&stop)]);
    let outer = place.start(&words);
    wait_until("the inner one waits", || {
        place.file("inner.stop.ready").exists()
    });
    done(&place, &["freeze", "all/one"]);
    done(&place, &["freeze", "all/two", "--to-disk"]);
    done(&place, &["reclaim", "all/inner", "8M"]);
    let share = |job: &str| {
        let number = |what: &str| place.number(&format!("all/{job}"), &format!("/zswap/{what}"));
        [
            "pool_bytes",
            "swap_used_bytes",
            "stored_pages",
            "swapped_pages",
        ]
        .map(number)
    };
    let [pool, disk, pages, written] = share("one");
    assert!(pool > MIB / 4 && pages * 4096 > 16 * MIB, "{pool} {pages}");
    assert_eq!((disk, written), (0, 0));
    let [pool_of_two, disk_of_two, _, written] = share("two");
    assert!(
        disk_of_two > MIB / 4 && written * 4096 > 16 * MIB,
        "{disk_of_two} {written}"
    );
    assert_eq!(pool_of_two, 0);
    assert_eq!(
        place.number("all", "/zswap/swap_used_bytes"),
        disk_of_two,
        "nobody else is on disk"
    );
    let inner = share("inner");
    assert!(inner[0] > 0 && share("outer") == inner, "{inner:?}");
    // The same in the figures of the service, in its table, and for each process.
    assert_eq!(line(&place, "one")["zswap"]["pool_bytes"], pool);
    assert_eq!(line(&place, "two")["zswap"]["swap_used_bytes"], disk_of_two);
    let stat = place.stat("all/two");
    let process = &stat["processes"][0];
    assert_eq!(process["swap_used_bytes"], disk_of_two, "{process}");
    let table = done(&place, &["ps"]);
    let row = table
        .lines()
        .find(|line| line.starts_with("  two "))
        .expect("a row");
    let cells: Vec<_> = row.split_whitespace().collect();
    assert!(cells[4] == "0" && cells[6] != "0", "{table}");
    let metrics = done(&place, &["metrics"]);
    let disk = format!("neap_zswap_swap_used_bytes{{job=\"all/two\"}} {disk_of_two}\n");
    assert!(metrics.contains(&disk), "{metrics}");
    // Nothing moves in them, and in the busy one something does.
    wait_until("they are idle for long", || {
        let idle = line(&place, "one")["idle_seconds"].as_f64();
        idle.is_some_and(|seconds| seconds > 2.0)
    });
    let busy = place.job("busy", 8, &[], true);
    let idle = |name: &str| place.stat(name)["idle_seconds"].as_f64();
    assert!(idle("all/one") > idle("all/busy") && idle("all/one") > idle("all"));
    place.end("busy", busy);
    for (name, job) in jobs {
        done(&place, &["thaw", &format!("all/{name}")]);
        place.end(name, job);
    }
    place.end("inner", outer);
}

/// A service with much room, and a job in it that is at a limit of its own.
#[test]
fn a_limit_is_told_of_the_level_that_is_full_and_counted_for_those_above() {
    let test = "a_limit_is_told_of_the_level_that_is_full_and_counted_for_those_above";
    let Some(_alone) = paging(test) else { return };
    let place = Place::own();
    let service = place.serve(&["-m", "4G", "--idle", "off"]);
    let easy = place.job("easy", 8, &[], false);
    let poor = place.job("poor", 96, &["-m", "32M"], true);
    let counted = |name: &str, what: &str| place.number(name, &format!("/memory_events/{what}"));
    let of_poor = counted("all/poor", "max");
    assert!(of_poor > 0 && counted("all", "max") >= of_poor, "{of_poor}");
    assert_eq!(counted("all/easy", "max"), 0);
    for kind in ["low", "high", "oom", "oom_kill"] {
        assert_eq!(counted("all/poor", kind), 0, "{kind}");
    }
    assert!(place.number("all/poor", "/events/limit") > 0);
    let events = place.start(&["events", "--json", "all"]);
    place.end("poor", poor);
    place.end("easy", easy);
    drop(service);
    let (_, out, _) = events.wait();
    let told: Vec<Value> = out.lines().flat_map(serde_json::from_str).collect();
    let limits = told.iter().filter(|event| event["event"] == "limit");
    let limits: Vec<_> = limits.collect();
    assert!(!limits.is_empty(), "{out}");
    assert!(limits.iter().all(|event| event["job"] == "poor"), "{out}");
}

#[test]
fn what_is_killed_for_want_of_memory_is_an_event_of_its_job() {
    let test = "what_is_killed_for_want_of_memory_is_an_event_of_its_job";
    let Some(_alone) = paging(test) else { return };
    let place = Place::own();
    let _service = place.serve(&["-m", "64M", "--no-swap", "--on-exhausted", "kill"]);
    let easy = place.job("easy", 4, &[], false);
    let stop = place.file("poor.stop");
    let words = [
        "run",
        "--in",
        "all",
        "--name",
        "poor",
        "-m",
        "16M",
        "--swap-max",
        "4M",
        "--",
    ];
    let poor = place.start(&[&words[..], &[path(&place.waits), "96", path(&stop)]].concat());
    let (status, _, err) = poor.wait();
    assert!(
        !status.success() && err.contains("killed"),
        "{status} {err}"
    );
    let counted = |name: &str, what: &str| place.number(name, &format!("/memory_events/{what}"));
    let all = ["oom", "oom_kill"].map(|what| counted("all", what));
    assert!(
        all.iter().all(|count| *count >= 1),
        "of all that were in it: {all:?}"
    );
    assert_eq!(counted("all/easy", "oom_kill"), 0);
    place.end("easy", easy);
}

#[test]
fn top_shows_and_freezes_a_job_of_a_service() {
    let test = "top_shows_and_freezes_a_job_of_a_service";
    let Some(_alone) = paging(test) else { return };
    if !require(test, &[Need::Tool("setsid")]) {
        return;
    }
    let place = Place::own();
    let _service = place.serve(&["-m", "128M"]);
    let jobs = ["one", "two"].map(|name| (name, place.job(name, 16, &[], false)));
    let mut command = Command::new(&place.neap);
    command.arg("top").env("XDG_RUNTIME_DIR", place.dir.path());
    command.env("TERM", "xterm").env("NO_COLOR", "1");
    let mut terminal = Terminal::run(&command, 60, 15);
    terminal.wait_for("all/one");
    terminal.wait_for("IDLE");
    terminal.keys("/all/one\rf");
    wait_until("it is frozen", || {
        place.number("all/one", "/neap/frozen") == 1
    });
    terminal.wait_for("all/one is frozen: it takes");
    terminal.keys("\r");
    terminal.wait_for("POOL   DISK");
    terminal.wait_for("waits");
    terminal.keys("\r");
    assert_eq!(place.number("all/two", "/neap/frozen"), 0);
    let own_limit = || place.stat("all/one")["settings"]["memory.max"].clone();
    assert_eq!(own_limit(), "max");
    terminal.keys("m24M\r");
    wait_until("its limit is set", || own_limit() == 24 * MIB);
    terminal.keys("f");
    wait_until("it goes on", || {
        place.number("all/one", "/neap/frozen") == 0
    });
    terminal.wait_for("all/one goes on");
    terminal.keys("q");
    assert_eq!(terminal.end().0, Some(0));
    let once: Value =
        serde_json::from_str(&done(&place, &["top", "--once", "--json"])).expect("JSON");
    assert_eq!(once["jobs"][0]["jobs"][0]["name"], "one");
    for (name, job) in jobs {
        place.end(name, job);
    }
}

/// A connection to a socket, all of whose lines must be as the schema has them.
struct Wire {
    stream: BufReader<UnixStream>,
    schema: Schema,
}

impl Wire {
    fn of(place: &Place) -> Self {
        let stream = UnixStream::connect(place.file("neap/all.sock")).expect("it listens");
        Self {
            stream: BufReader::new(stream),
            schema: Schema::of_control(),
        }
    }

    fn must(&self, rule: &str, value: &Value) {
        let faults = self.schema.faults(rule, value);
        assert!(faults.is_empty(), "{rule}: {faults:#?}\n{value}");
    }

    fn say(&mut self, request: &Value) {
        self.must("request", request);
        let line = format!("{request}\n");
        self.stream
            .get_mut()
            .write_all(line.as_bytes())
            .expect("room");
    }

    fn line(&mut self) -> Value {
        let mut line = String::new();
        self.stream.read_line(&mut line).expect("a line");
        serde_json::from_str(&line).expect("JSON")
    }

    /// The result of a request.
    fn ask(&mut self, request: Value) -> Value {
        self.say(&request);
        let mut answer = self.line();
        while answer.get("event").is_some() {
            self.must("event", &answer);
            answer = self.line();
        }
        self.must("answer", &answer);
        assert_eq!(answer["ok"], true, "{answer}");
        let op = request["op"].as_str().expect("a word");
        self.must(&format!("results/{op}"), &answer["result"]);
        answer["result"].clone()
    }
}

/// Every request is made of a service and of its jobs, and all that it says is what the schema says.
#[test]
fn the_schema_describes_each_request_and_all_of_its_answers() {
    let test = "the_schema_describes_each_request_and_all_of_its_answers";
    let Some(_alone) = paging(test) else { return };
    let place = Place::own();
    let _service = place.serve(&["-m", "128M"]);
    let one = place.job("one", 48, &["-m", "32M"], false);
    let mut wire = Wire::of(&place);
    for op in ["stat", "series"] {
        wire.ask(json!({"v": 1, "op": op}));
        wire.ask(json!({"v": 1, "op": op, "job": "one"}));
    }
    let kernel = json!({"memory.max": "max", "memory.high": "max", "memory.low": 0, "memory.min": 0,
        "memory.swap.max": 64 * MIB, "memory.zswap.max": "max", "memory.zswap.writeback": 0,
        "idle": 0, "memory.pressure": 50});
    let now = wire.ask(json!({"v": 1, "op": "set", "set": kernel, "job": "one"}));
    assert_eq!(
        now["swap.max"],
        64 * MIB,
        "by the name of the kernel's file"
    );
    assert_eq!(
        (&now["zswap.max"], &now["zswap.writeback"]),
        (&json!("max"), &json!(0))
    );
    let low = json!({"memory.low": "max", "zswap.writeback": 1, "memory.swap.max": "max"});
    let now = wire.ask(json!({"v": 1, "op": "set", "set": low, "job": "one"}));
    assert_eq!(
        (&now["memory.low"], &now["swap.max"]),
        (&json!("max"), &json!("max"))
    );
    wire.ask(json!({"v": 1, "op": "set", "set": {"zswap.max_pool_percent": 40}}));
    wire.ask(json!({"v": 1, "op": "reclaim", "bytes": 4 * MIB, "job": "one"}));
    wire.ask(json!({"v": 1, "op": "freeze", "job": "one", "to_disk": 1}));
    wire.ask(json!({"v": 1, "op": "thaw", "job": "one", "prefetch": 1}));
    wire.ask(json!({"v": 1, "op": "join", "name": "two", "memory.swap.max": "max", "memory.max": 32 * MIB}));
    wire.ask(json!({"v": 1, "op": "stat", "job": "two"}));
    wire.ask(json!({"v": 1, "op": "leave"}));
    wire.say(&json!({"v": 1, "op": "stat", "job": "nobody"}));
    let refused = wire.line();
    wire.must("answer", &refused);
    assert_eq!(refused["ok"], false);
    wire.say(&json!({"v": 1, "op": "events", "job": "one"}));
    place.end("one", one);
    loop {
        let event = wire.line();
        wire.must("event", &event);
        if event["event"] == "leave" {
            break;
        }
    }
}
