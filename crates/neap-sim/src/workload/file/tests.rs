use std::path::Path;

use neap_units::Pages;

use super::*;
use crate::trace::Trace;

const FULL: &str = r#"
schema = "neap.workload/1"
seed = 7
duration = "2s"

[machine]
ram = "1G"
cpus = 2
kernel = "6.12"
mglru = true
[machine.switches]
memcg_walk = "full-linear"
writeback_refault = false
[machine.swap]
size = "2G"
latency = "80us"
[machine.zswap]
shrinker = true

[[group]]
name = "a"
max = "64M"
[[group]]
name = "b"
parent = "a"
low = "8M"

[[task]]
kind = "zipf"
group = "b"
size = "4M"
exponent = 1.1
touches = 5000
count = 2
[[task]]
kind = "cold"
group = "a"
size = "1M"
[[task]]
kind = "stream"
size = "1M"
hint = "noreuse"
[[task]]
kind = "compile"
units = 2
unit_memory = 1
unit_work = 0.1
count = 2
"#;

fn no_trace(_: &Path) -> Result<Trace, String> {
    Err("there is none".to_owned())
}

fn fault(text: &str) -> String {
    Workload::parse(text, no_trace).unwrap_err().to_string()
}

fn with(line: &str) -> String {
    fault(&format!("schema = \"neap.workload/1\"\n{line}\n"))
}

#[test]
fn a_file_is_a_machine_with_groups_and_tasks() {
    let workload = Workload::parse(FULL, no_trace).unwrap();
    assert_eq!(workload.kernel.seed, 7);
    assert_eq!(workload.groups[1].parent.as_deref(), Some("a"));
    let run = workload.run();
    assert!(run.finished);
    assert_eq!(run.tasks.len(), 6);
    let ended = run
        .times()
        .iter()
        .filter(|(_, times)| times.ended.is_some())
        .count();
    assert_eq!(ended, 5, "the cold task keeps its memory");
}

#[test]
fn a_link_comes_after_the_last_unit_and_is_a_task_of_its_own() {
    let build =
        "[[task]]\nkind = \"compile\"\nunits = 3\nunit_memory = 1\nunit_work = 0.1\ncount = 2";
    let run = |more: &str| {
        let text = format!("schema = \"neap.workload/1\"\n{build}\n{more}");
        let workload = Workload::parse(&text, no_trace).unwrap();
        let run = workload.run();
        assert!(run.finished);
        run.times()
            .iter()
            .map(|(name, times)| ((*name).to_owned(), times.ended.unwrap_or_default()))
            .collect::<Vec<_>>()
    };
    let alone = run("");
    assert_eq!(alone.len(), 2);
    let linked = run("prepare = \"1s\"\nlink_work = \"2s\"\nlink_memory = \"4M\"");
    let (name, end) = &linked[0];
    assert_eq!((name.as_str(), linked.len()), ("compile-link", 3));
    let jobs = linked[1..].iter().map(|job| job.1).max().unwrap();
    let before = alone.iter().map(|job| job.1).max().unwrap();
    assert!(
        jobs >= Nanos(1_000_000_000).max(before)
            && *end >= jobs.saturating_add(Nanos(2_000_000_000))
    );
    assert!(
        with(&format!("{build}\nlink_scatter = 2"))
            .starts_with("task 1.link_scatter: write a number")
    );
}

#[test]
fn every_fault_names_its_key_and_what_to_write() {
    assert_eq!(
        fault(""),
        "schema: write schema = \"neap.workload/1\" as the first line"
    );
    assert_eq!(
        with("[machine]\nram = 4"),
        "machine.ram: write a size in quotes, such as \"512M\" or \"1.5G\""
    );
    assert_eq!(
        with("[machine.switches]\nlru = \"fifo\""),
        "machine.switches.lru: \"fifo\" is none of classic, mglru63, mglru614"
    );
    assert_eq!(
        with("[[group]]\nname = \"x\"\nmaxx = \"1G\""),
        "group 1.maxx: did you mean max? it means nothing here: there is high, low, max, min, name, parent, soft_limit, \
         swap_high, swap_max, zswap_max, zswap_writeback"
    );
    assert_eq!(
        with("[[task]]\nkind = \"zipf\"\nsize = \"1M\"\ngroup = \"y\""),
        "task 1.group: no group is called \"y\": add a [[group]] above"
    );
    assert_eq!(
        with("[[task]]\nkind = \"replay\"\ntrace = \"t\""),
        "task 1.trace: t: there is none"
    );
    assert_eq!(
        with("[[task]]\nkind = \"zipf\"\nsize = \"1M\"\nexponent = -1"),
        "task 1.exponent: write a number from 0 to 10"
    );
    assert!(fault("a = 1\nb").starts_with("line 2: "));
    assert!(!fault("schema = 3\n[x").contains('\n'));
}

#[test]
fn what_goes_on_for_ever_needs_a_duration() {
    let cold = "[[task]]\nkind = \"zipf\"\nsize = \"1M\"";
    let fault = with(cold);
    assert!(
        fault.starts_with("duration: no task ends by itself: write duration"),
        "{fault}"
    );
    for more in [
        format!("duration = \"1s\"\n{cold}"),
        format!("{cold}\ntouches = 1"),
    ] {
        let text = format!("schema = \"neap.workload/1\"\n{more}\n");
        assert!(Workload::parse(&text, no_trace).is_ok(), "{more}");
    }
}

#[test]
fn a_key_that_is_nearly_right_is_offered() {
    let tasks = with("[[tasks]]\nkind = \"zipf\"");
    assert!(tasks.starts_with("tasks: did you mean task?"), "{tasks}");
    let fault = with("[machine]\nkernle = \"6.12\"");
    assert!(
        fault.starts_with("machine.kernle: did you mean kernel? it means nothing here: there is "),
        "{fault}"
    );
}

#[test]
fn what_no_simulator_could_hold_is_refused() {
    let size = |size: &str| with(&format!("[[task]]\nkind = \"cold\"\nsize = \"{size}\""));
    assert_eq!(size("0"), "task 1.size: write a size of more than 0");
    assert!(size("100T").starts_with("task 1.size: write a size of at most 1"));
    let many = with("[[task]]\nkind = \"cold\"\nsize = \"1T\"\ncount = 2");
    assert!(
        many.starts_with("task: all together have more than 1 TiB"),
        "{many}"
    );
    let ram = with("[machine]\nram = \"1M\"");
    assert!(
        ram.starts_with("machine.ram: write a size of at least 16"),
        "{ram}"
    );
    let swap = with("[machine.swap]\nsize = \"0\"");
    assert_eq!(swap, "machine.swap.size: write a size of more than 0");
    let slow = with("[machine.swap]\nsize = \"1G\"\nlatency = \"1h\"");
    assert_eq!(slow, "machine.swap.latency: write at most \"10s\"");
    let kernel = with("[machine]\nkernel = \"9.99\"");
    assert!(
        kernel.starts_with("machine.kernel: \"9.99\" is no version"),
        "{kernel}"
    );
}

#[test]
fn a_group_cannot_have_the_name_of_the_root() {
    for name in ["/", ""] {
        let fault = with(&format!("[[group]]\nname = \"{name}\""));
        let want = format!("group 1.name: {name:?} is the root: write name = \"job\"");
        assert_eq!(fault, want);
    }
}

#[test]
fn a_number_larger_than_any_is_told_with_its_key() {
    let want = "line 2: seed: write a whole number from 0 to 9223372036854775807";
    assert_eq!(with("seed = 99999999999999999999 # many"), want);
}

#[test]
fn keys_that_do_nothing_beside_another_are_refused() {
    for (lines, want) in [
        (
            "[machine.zswap]\nshrinker = true",
            "machine.zswap: has no swap behind it: add [machine.swap] with size",
        ),
        (
            "[machine]\nmin_ttl = \"1s\"",
            "machine.min_ttl: is of the other LRU, of mglru = true",
        ),
        (
            "[machine]\nkernel = \"6.0\"\nmglru = true",
            "machine.mglru: is not in that kernel: write kernel = \"6.1\" or later",
        ),
        (
            "[[task]]\nkind = \"zipf\"\nsize = \"1M\"\nuntil = \"1s\"\nstart = \"2s\"",
            "task 1.until: write a time after start",
        ),
        ("duration = \"0s\"", "duration: write a time of more than 0"),
        (
            "[[task]]\nkind = \"reclaim\"\nsize = \"1M\"\nown_groups = true",
            "task 1.own_groups: is of tasks with memory of their own",
        ),
        (
            "[machine]\ndisk = \"tape\"",
            "machine.disk: \"tape\" is none of ram, nvme, ssd, disk",
        ),
    ] {
        assert_eq!(with(lines), want);
    }
}

/// Every key that a reader asks for must be in the schema, and every key of the schema must be one.
#[test]
fn the_schema_knows_every_key() {
    let schema: serde_json::Value = serde_json::from_str(WORKLOAD_SCHEMA).unwrap();
    let keys = |pointer: &str| {
        let object = schema.pointer(pointer).and_then(|v| v.as_object()).unwrap();
        let mut keys: Vec<&str> = object.keys().map(String::as_str).collect();
        keys.sort_unstable();
        keys.join(", ")
    };
    // The fault of an unknown key lists all that are known.
    let known = |text: &str| {
        let fault = with(text);
        fault
            .split_once("there is ")
            .map(|(_, keys)| keys.to_owned())
            .unwrap_or(fault)
    };
    let machine = "/properties/machine/properties";
    assert_eq!(known("[machine]\nx = 1"), keys(machine));
    let switches = format!("{machine}/switches/properties");
    assert_eq!(known("[machine.switches]\nx = 1"), keys(&switches));
    assert_eq!(
        known("[machine.zswap]\nx = 1"),
        keys(&format!("{machine}/zswap/properties"))
    );
    assert_eq!(
        known("[[group]]\nname = \"a\"\nx = 1"),
        keys("/properties/group/items/properties")
    );
    let task = keys("/properties/task/items/properties");
    for kind in [
        "usemem", "random", "zipf", "hot-cold", "phases", "stream", "compile",
    ] {
        let text = format!("[[task]]\nkind = \"{kind}\"\nsize = \"1M\"\nburst = 1\nx = 1");
        for key in known(&text).split(", ") {
            assert!(
                task.split(", ").any(|known| known == key),
                "{key} of {kind}"
            );
        }
    }
}

#[test]
fn the_schema_has_every_word_of_the_parser() {
    let schema: serde_json::Value = serde_json::from_str(WORKLOAD_SCHEMA).unwrap();
    let words = |value: &serde_json::Value| -> Vec<String> {
        let listed = value["enum"].as_array().into_iter().flatten();
        let listed = listed.map(|word| word.as_str().unwrap().to_owned());
        listed.collect()
    };
    let switches = &schema["properties"]["machine"]["properties"]["switches"]["properties"];
    let parsed = machine::switch_words();
    for (key, known) in &parsed {
        assert_eq!(words(&switches[key]), *known, "{key}");
    }
    let named = switches.as_object().unwrap();
    let of_words = named.iter().filter(|(_, value)| value["enum"].is_array());
    assert_eq!(of_words.count(), parsed.len());
    let task = &schema["properties"]["task"]["items"]["properties"];
    for (key, known) in tasks::task_words() {
        assert_eq!(words(&task[key]), known, "{key}");
    }
    let named = task.as_object().unwrap();
    let of_words = named.iter().filter(|(_, value)| value["enum"].is_array());
    assert_eq!(of_words.count(), tasks::task_words().len());
}

#[test]
fn a_reclaim_task_takes_what_it_asks_for_of_its_group() {
    let text = r#"
schema = "neap.workload/1"
duration = "20s"
[machine]
ram = "256M"
[machine.swap]
size = "256M"
[[group]]
name = "asked"
[[group]]
name = "spared"
[[task]]
kind = "cold"
group = "asked"
size = "32M"
[[task]]
kind = "cold"
group = "spared"
size = "32M"
[[task]]
kind = "reclaim"
group = "asked"
size = "4M"
requests = 3
pause = "1s"
start = "5s"
"#;
    let none = |_: &std::path::Path| Err("no traces here".to_owned());
    let mut run = Workload::parse(text, none).unwrap().run();
    let of = |run: &WorkloadRun, name: &str| {
        let found = run.groups.iter().find(|(group, _)| group == name);
        found.map(|(_, id)| *id).unwrap()
    };
    let (asked, spared) = (of(&run, "asked"), of(&run, "spared"));
    let kernel = run.machine.kernel();
    assert!(kernel.vmstat(asked).pgsteal() >= 3 * 1024);
    assert_eq!(kernel.vmstat(spared).pgsteal(), 0);
}

#[test]
fn tasks_may_have_a_cgroup_each_and_files_lie_where_it_says() {
    let text = r#"
schema = "neap.workload/1"
duration = "20s"
[machine]
ram = "256M"
disk = "DISK"
[[group]]
name = "all"
[[task]]
name = "reader"
kind = "scan"
group = "all"
memory = "file"
size = "4M"
touches = 1024
count = 3
own_groups = true
"#;
    let run = |disk| {
        Workload::parse(&text.replace("DISK", disk), no_trace)
            .unwrap()
            .run()
    };
    let mut found = run("ram");
    let names: Vec<&str> = found.groups.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["all", "reader-1", "reader-2", "reader-3"]);
    let kernel = found.machine.kernel();
    for (name, id) in &found.groups[1..] {
        assert!(kernel.usage(*id) >= Pages(1024), "{name}");
    }
    assert!(kernel.usage(found.groups[0].1) >= Pages(3 * 1024));
    let stalled = |run: &WorkloadRun| {
        run.times()
            .iter()
            .map(|(_, t)| t.times.stalled.0)
            .sum::<u64>()
    };
    assert_eq!(stalled(&found), 0, "a RAM disk keeps nobody waiting");
    assert!(stalled(&run("disk")) > 0);
}
