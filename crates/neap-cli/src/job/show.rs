//! Figures of jobs as people read them.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use neap_units::Bytes;
use serde_json::Value;

/// What a table has of a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// What commands call it: of a job in a service, or a run within another, with the name of that.
    pub address: String,
    /// Levels above it.
    pub depth: usize,
    /// The process `neap run`.
    pub pid: u64,
    /// Processes that are managed.
    pub processes: u64,
    /// Bytes that they have resident.
    pub resident: u64,
    /// Bytes of the pool; of a job in a service its part of it.
    pub pool: u64,
    /// How many times smaller the pages in the pool are there.
    pub ratio: f64,
    /// Bytes in the swap file.
    pub disk: u64,
    /// What counts against the limit.
    pub current: u64,
    /// The limit.
    pub limit: u64,
    /// Share of the last ten seconds in which some thread waited for memory, in percent.
    pub some: f64,
    /// The same in which no other ran.
    pub full: f64,
    /// Faults so far that had to load.
    pub major: u64,
    /// All its processes are stopped, and its memory is out.
    pub frozen: bool,
    /// Seconds for which none of its processes has done anything.
    pub idle: f64,
}

/// Bytes that a store has in its pool and in its swap file, and how many times smaller the pages in the pool are there.
fn stored(zswap: &Value) -> (u64, u64, f64) {
    let number = |name: &str| zswap[name].as_u64().unwrap_or(0);
    let pages = number("stored_pages").saturating_sub(number("same_filled_pages"));
    let ratio = match number("compressed_bytes") {
        0 => 0.0,
        bytes => (pages << neap_units::PAGE_SHIFT) as f64 / bytes as f64,
    };
    (number("pool_bytes"), number("swap_used_bytes"), ratio)
}

impl Row {
    /// Of an answer to `stat`.
    #[must_use]
    pub fn of(stat: &Value) -> Self {
        let number = |path: &str| stat.pointer(path).and_then(Value::as_u64).unwrap_or(0);
        let real = |path: &str| stat.pointer(path).and_then(Value::as_f64).unwrap_or(0.0);
        let (pool, disk, ratio) = stored(&stat["zswap"]);
        let name = stat["name"].as_str().unwrap_or_default();
        Self {
            name: name.to_owned(),
            address: name.to_owned(),
            depth: 0,
            pid: number("/pid"),
            processes: number("/neap/processes"),
            resident: number("/memory/resident_bytes"),
            pool,
            ratio,
            disk,
            current: number("/memory/current_bytes"),
            limit: number("/memory/limit_bytes"),
            some: real("/pressure/some/avg10"),
            full: real("/pressure/full/avg10"),
            major: number("/vmstat/pgmajfault"),
            frozen: number("/neap/frozen") == 1,
            idle: real("/idle_seconds"),
        }
    }

    /// How much it waits, with so many places behind the point; or that it is frozen.
    #[must_use]
    pub fn waits_text(&self, places: usize) -> String {
        match self.frozen {
            true => "frozen".to_owned(),
            false => format!("{:.places$}", self.some),
        }
    }

    /// The same, and behind a service a row for each of its jobs, with the runs within each behind it.
    #[must_use]
    pub fn with_jobs(stat: &Value) -> Vec<Self> {
        let jobs = stat["jobs"].as_array().map_or(&[][..], Vec::as_slice);
        let mut rows = vec![Self::of(stat)];
        let (service, limit) = (rows[0].name.clone(), rows[0].limit);
        Self::add_within(jobs, limit, &mut rows);
        for row in &mut rows[1..] {
            row.address = format!("{service}/{}", row.name);
        }
        rows
    }

    /// The jobs of a service, each with those within it behind it, as the kernel shows a tree of cgroups.
    fn add_within(jobs: &[Value], limit: u64, rows: &mut Vec<Self>) {
        let names: HashSet<&str> = jobs.iter().filter_map(|job| job["name"].as_str()).collect();
        let mut within: HashMap<Option<&str>, Vec<&Value>> = HashMap::new();
        for job in jobs.iter().rev() {
            // A job that ran within one which has left is nobody's but the service's.
            let parent = job["within"].as_str().filter(|name| names.contains(name));
            within.entry(parent).or_default().push(job);
        }
        let top = within.remove(&None).unwrap_or_default();
        let mut waiting: Vec<_> = top.into_iter().map(|job| (job, limit, 1)).collect();
        while let Some((job, limit, depth)) = waiting.pop() {
            let row = Self::of_job(job, limit, depth);
            // Each list is taken once, so that it ends with a list that is no tree.
            let its = job["name"]
                .as_str()
                .and_then(|name| within.remove(&Some(name)));
            let its = its.into_iter().flatten();
            waiting.extend(its.map(|job| (job, row.limit, depth + 1)));
            rows.push(row);
        }
    }

    fn of_job(job: &Value, limit: u64, depth: usize) -> Self {
        let number = |name: &str| job[name].as_u64().unwrap_or(0);
        let own = job["limit_bytes"].as_u64();
        let share = |kind: &str| job["pressure"][kind]["avg10"].as_f64().unwrap_or(0.0);
        let (pool, disk, ratio) = stored(&job["zswap"]);
        Self {
            name: job["name"].as_str().unwrap_or_default().to_owned(),
            address: String::new(),
            depth,
            pid: number("pid"),
            processes: number("processes"),
            resident: number("resident_bytes"),
            pool,
            ratio,
            disk,
            current: number("current_bytes"),
            limit: own.map_or(limit, |own| own.min(limit)),
            some: share("some"),
            full: share("full"),
            major: number("pgmajfault"),
            frozen: job["frozen"] == true,
            idle: job["idle_seconds"].as_f64().unwrap_or(0.0),
        }
    }

    /// The ratio in words.
    #[must_use]
    pub fn ratio_text(&self) -> String {
        match self.ratio {
            0.0 => "-".to_owned(),
            ratio => format!("{ratio:.1}"),
        }
    }
}

/// A size in four letters or so: a column of them is compared, not summed.
#[must_use]
pub fn short(bytes: u64) -> String {
    let units = [
        (1u64 << 40, "T"),
        (1 << 30, "G"),
        (1 << 20, "M"),
        (1 << 10, "K"),
    ];
    let unit = units.iter().find(|(unit, _)| bytes >= *unit);
    let Some((unit, letter)) = unit else {
        return bytes.to_string();
    };
    match bytes as f64 / *unit as f64 {
        few if few < 9.95 => format!("{few:.1}{letter}"),
        many => format!("{many:.0}{letter}"),
    }
}

/// A time in at most four letters.
#[must_use]
pub fn short_time(seconds: f64) -> String {
    let seconds = seconds as u64;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// The table of `neap ps`.
#[must_use]
pub fn table(rows: &[Row]) -> String {
    let name = |row: &Row| format!("{:1$}{2}", "", 2 * row.depth, row.name);
    let width = rows.iter().map(|row| name(row).len()).max();
    let width = width.unwrap_or(0).max(4);
    let mut text = format!(
        "{:<width$} {:>8} {:>5} {:>8} {:>6} {:>5} {:>6} {:>7} {:>6} {:>4} {:>8}\n",
        "NAME",
        "PID",
        "PROCS",
        "RESIDENT",
        "POOL",
        "RATIO",
        "DISK",
        "CURRENT",
        "LIMIT",
        "IDLE",
        "PRESSURE"
    );
    for row in rows {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:<width$} {:>8} {:>5} {:>8} {:>6} {:>5} {:>6} {:>7} {:>6} {:>4} {:>8}",
            name(row),
            row.pid,
            row.processes,
            short(row.resident),
            short(row.pool),
            row.ratio_text(),
            short(row.disk),
            short(row.current),
            short(row.limit),
            short_time(row.idle),
            row.waits_text(2)
        );
    }
    text
}

/// The figures of one job, as `neap stat` has them.
#[must_use]
pub fn figures(stat: &Value) -> String {
    let row = Row::of(stat);
    let number = |path: &str| stat.pointer(path).and_then(Value::as_u64).unwrap_or(0);
    let words = stat["command"].as_array().into_iter().flatten();
    let words: Vec<&str> = words.filter_map(Value::as_str).collect();
    let seconds = stat["uptime_seconds"].as_f64().unwrap_or(0.0);
    let frozen = if row.frozen { "; frozen" } else { "" };
    let mut lines = vec![
        (
            "job",
            format!(
                "{}, process {}, for {seconds:.1} s, idle for {}{frozen}",
                row.name,
                row.pid,
                short_time(row.idle)
            ),
        ),
        ("command", clean(&words.join(" "))),
        (
            "memory",
            format!(
                "{} of {}: resident {}, pool {}, neap itself {}; at most {} so far",
                Bytes(row.current),
                Bytes(row.limit),
                Bytes(row.resident),
                Bytes(row.pool),
                Bytes(number("/memory/own_bytes")),
                Bytes(number("/memory/peak_bytes"))
            ),
        ),
    ];
    lines.extend(pages(stat, &row));
    lines.extend(pressure(stat));
    let mut text = String::new();
    for (name, line) in lines {
        let _ = writeln!(text, "{name:<11} {line}");
    }
    for process in stat["processes"].as_array().into_iter().flatten() {
        let _ = writeln!(
            text,
            "process     {} {}: {} resident",
            process["pid"],
            clean(process["comm"].as_str().unwrap_or_default()),
            Bytes(process["resident_bytes"].as_u64().unwrap_or(0))
        );
    }
    text
}

/// Lines of pages and where they are.
fn pages(stat: &Value, row: &Row) -> Vec<(&'static str, String)> {
    let number = |path: &str| stat.pointer(path).and_then(Value::as_u64).unwrap_or(0);
    vec![
        (
            "pool",
            format!(
                "{} pages, {} of them the same all over; compressed {} to 1",
                number("/zswap/stored_pages"),
                number("/zswap/same_filled_pages"),
                row.ratio_text()
            ),
        ),
        (
            "swap file",
            format!(
                "{} pages in {}",
                number("/zswap/swapped_pages"),
                Bytes(row.disk)
            ),
        ),
        (
            "pages out",
            format!(
                "{} compressed, {} to the swap file",
                number("/vmstat/zswpout"),
                number("/vmstat/zswpwb")
            ),
        ),
        (
            "pages in",
            format!(
                "{} decompressed, {} read from the swap file, {} faults",
                number("/vmstat/zswpin"),
                number("/vmstat/pswpin"),
                row.major
            ),
        ),
    ]
}

/// Lines of memory.pressure.
fn pressure(stat: &Value) -> Vec<(&'static str, String)> {
    let line = |kind: &'static str| {
        let of = stat.pointer(&format!("/pressure/{kind}"))?;
        let real = |name: &str| of[name].as_f64().unwrap_or(0.0);
        let total = of["total_us"].as_u64().unwrap_or(0);
        let text = format!(
            "avg10={:.2} avg60={:.2} avg300={:.2} total={total}",
            real("avg10"),
            real("avg60"),
            real("avg300")
        );
        Some((kind, text))
    };
    ["some", "full"].into_iter().filter_map(line).collect()
}

/// Text of a program's, for a terminal.
#[must_use]
pub fn clean(text: &str) -> String {
    text.replace(char::is_control, "?")
}

/// Counters as `/proc/vmstat` has them.
#[must_use]
pub fn vmstat(stat: &Value) -> String {
    let all = stat["vmstat"].as_object().into_iter().flatten();
    all.map(|(name, value)| format!("{name} {value}\n"))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sizes_are_short_and_comparable() {
        let all = [0, 1023, 1 << 10, 10189, (10 << 20) - 1, 3 << 30, 1 << 50].map(short);
        assert_eq!(all, ["0", "1023", "1.0K", "10K", "10M", "3.0G", "1024T"]);
    }

    #[test]
    fn a_row_has_the_figures_and_no_answer_makes_it_fail() {
        assert_eq!(Row::of(&json!(null)), Row::default());
        let stat = json!({"name": "a", "pid": 7, "neap": {"processes": 2},
            "memory": {"resident_bytes": 5, "limit_bytes": 9, "current_bytes": 6},
            "zswap": {"stored_pages": 10, "same_filled_pages": 2, "compressed_bytes": 8192, "pool_bytes": 12288}});
        let row = Row::of(&stat);
        assert_eq!(
            (row.pid, row.processes, row.ratio_text()),
            (7, 2, "4.0".to_owned())
        );
        assert!(
            table(&[row])
                .lines()
                .nth(1)
                .is_some_and(|line| line.starts_with("a           7     2"))
        );
        assert!(figures(&stat).contains("compressed 4.0 to 1"));
        assert!(!figures(&stat).contains("frozen"));
    }

    #[test]
    fn a_job_of_a_service_has_a_row_with_its_own_share_and_an_address() {
        let zswap = json!({"stored_pages": 5, "same_filled_pages": 1, "compressed_bytes": 8192,
            "pool_bytes": 8192, "swap_used_bytes": 77});
        let stat = json!({"name": "all", "memory": {"limit_bytes": 9}, "jobs": [
            {"name": "one", "zswap": zswap, "idle_seconds": 61.5, "pgmajfault": 3, "limit_bytes": 4},
            {"name": "in", "within": "one"}]});
        let rows = Row::with_jobs(&stat);
        let one = &rows[1];
        assert_eq!((one.pool, one.disk, one.ratio), (8192, 77, 2.0));
        assert_eq!((one.major, one.limit, &*one.address), (3, 4, "all/one"));
        assert_eq!((rows[2].depth, &*rows[2].address), (2, "all/in"));
        let table = table(&rows);
        assert!(table.contains("\n  one ") && table.contains("\n    in "));
        assert!(table.contains("  1m "), "{table}");
        let all = [0.0, 59.9, 60.0, 7199.0, 86_400.0].map(short_time);
        assert_eq!(all, ["0s", "59s", "1m", "1h", "1d"]);
    }

    /// Each within the one before, and some that no order could be made of. It takes no time that grows with their square.
    #[test]
    fn many_runs_within_each_other_are_rows_as_well_and_no_list_makes_it_fail() {
        const MANY: usize = 20_000;
        let run = |n: usize| match n {
            0 => json!({"name": "0"}),
            n => json!({"name": n.to_string(), "within": (n - 1).to_string()}),
        };
        let mut jobs: Vec<Value> = (0..MANY).map(run).collect();
        jobs.extend([
            json!({"name": "0", "within": "0"}),
            json!({"name": "x", "within": "y"}),
            json!({"name": "y", "within": "x"}),
            json!({"name": "orphan", "within": "gone"}),
        ]);
        let rows = Row::with_jobs(&json!({"name": "all", "jobs": jobs}));
        let named = |name: &str| rows.iter().find(|row| row.name == name);
        assert_eq!(named("19999").map(|row| row.depth), Some(MANY));
        assert_eq!(named("orphan").map(|row| row.depth), Some(1));
        assert!(rows.len() > MANY && named("x").is_none());
    }

    #[test]
    fn a_frozen_job_is_shown_as_such() {
        let stat =
            json!({"name": "a", "neap": {"frozen": 1}, "pressure": {"some": {"avg10": 1.5}}});
        assert!(table(&[Row::of(&stat)]).ends_with("  frozen\n"));
        let figures = figures(&stat);
        assert!(
            figures
                .lines()
                .next()
                .is_some_and(|line| line.ends_with("; frozen"))
        );
    }

    #[test]
    fn what_a_program_calls_itself_does_nothing_to_a_terminal() {
        assert_eq!(clean("a\u{1b}[2J\n"), "a?[2J?");
    }
}
