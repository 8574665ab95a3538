//! Figures of jobs as people read them.

use std::fmt::Write as _;

use neap_units::Bytes;
use serde_json::Value;

/// What a table has of a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// The process `neap run`.
    pub pid: u64,
    /// Processes that are managed.
    pub processes: u64,
    /// Bytes that they have resident.
    pub resident: u64,
    /// Bytes of the pool, and of the pages in it.
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
}

impl Row {
    /// Of an answer to `stat`.
    #[must_use]
    pub fn of(stat: &Value) -> Self {
        let number = |path: &str| stat.pointer(path).and_then(Value::as_u64).unwrap_or(0);
        let real = |path: &str| stat.pointer(path).and_then(Value::as_f64).unwrap_or(0.0);
        let compressed = number("/zswap/compressed_bytes");
        let stored = number("/zswap/stored_pages")
            - number("/zswap/same_filled_pages").min(number("/zswap/stored_pages"));
        let ratio = match compressed {
            0 => 0.0,
            bytes => (stored << neap_units::PAGE_SHIFT) as f64 / bytes as f64,
        };
        Self {
            name: stat["name"].as_str().unwrap_or_default().to_owned(),
            pid: number("/pid"),
            processes: number("/neap/processes"),
            resident: number("/memory/resident_bytes"),
            pool: number("/zswap/pool_bytes"),
            ratio,
            disk: number("/zswap/swap_used_bytes"),
            current: number("/memory/current_bytes"),
            limit: number("/memory/limit_bytes"),
            some: real("/pressure/some/avg10"),
            full: real("/pressure/full/avg10"),
            major: number("/vmstat/pgmajfault"),
            frozen: number("/neap/frozen") == 1,
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
        let limit = stat.pointer("/memory/limit_bytes").and_then(Value::as_u64);
        let mut rows = vec![Self::of(stat)];
        Self::add_within(jobs, None, limit.unwrap_or(0), 1, &mut rows);
        rows
    }

    /// The jobs within another, or within none, as the kernel shows a tree of cgroups.
    fn add_within(
        jobs: &[Value],
        within: Option<&str>,
        limit: u64,
        depth: usize,
        rows: &mut Vec<Self>,
    ) {
        if depth > jobs.len() {
            return; // it is no tree
        }
        // A job that ran within one which has left is nobody's but the service's.
        let is_there = |name: &&str| jobs.iter().any(|job| job["name"] == *name);
        for job in jobs {
            if job["within"].as_str().filter(is_there) != within {
                continue;
            }
            let row = Self::of_job(job, limit, depth);
            let limit = row.limit;
            rows.push(row);
            Self::add_within(jobs, job["name"].as_str(), limit, depth + 1, rows);
        }
    }

    fn of_job(job: &Value, limit: u64, depth: usize) -> Self {
        let number = |name: &str| job[name].as_u64().unwrap_or(0);
        let own = job["limit_bytes"].as_u64();
        let share = |kind: &str| job["pressure"][kind]["avg10"].as_f64().unwrap_or(0.0);
        Self {
            name: format!(
                "{:1$}{2}",
                "",
                2 * depth,
                job["name"].as_str().unwrap_or_default()
            ),
            pid: number("pid"),
            processes: number("processes"),
            resident: number("resident_bytes"),
            pool: number("pool_bytes"),
            current: number("current_bytes"),
            limit: own.map_or(limit, |own| own.min(limit)),
            some: share("some"),
            full: share("full"),
            frozen: job["frozen"] == true,
            ..Self::default()
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

/// The table of `neap ps`.
#[must_use]
pub fn table(rows: &[Row]) -> String {
    let width = rows
        .iter()
        .map(|row| row.name.len())
        .max()
        .unwrap_or(0)
        .max(4);
    let mut text = format!(
        "{:<width$} {:>8} {:>5} {:>8} {:>6} {:>5} {:>6} {:>7} {:>6} {:>8}\n",
        "NAME", "PID", "PROCS", "RESIDENT", "POOL", "RATIO", "DISK", "CURRENT", "LIMIT", "PRESSURE"
    );
    for row in rows {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:<width$} {:>8} {:>5} {:>8} {:>6} {:>5} {:>6} {:>7} {:>6} {:>8}",
            row.name,
            row.pid,
            row.processes,
            short(row.resident),
            short(row.pool),
            row.ratio_text(),
            short(row.disk),
            short(row.current),
            short(row.limit),
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
                "{}, process {}, for {seconds:.1} s{frozen}",
                row.name, row.pid
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
