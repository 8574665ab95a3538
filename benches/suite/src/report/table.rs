//! The tables, in Markdown.

use std::fmt::Write as _;

use serde_json::Value;

use super::figure::Figure;
use super::result::{Accounting, KERNELS, Side, geometric_mean};
use super::target::{self, DENSITY, DISK, FRAGMENTATION, PERCENT, Target};
use super::{Entry, Gap};
use crate::drive::Index;
use crate::rows::Class;

/// Where, when and how.
#[must_use]
pub fn head(index: &Index, site: &Value) -> String {
    let ram = site["ram_bytes"].as_u64().unwrap_or(0) >> 20;
    let loads = index.rows.iter().flat_map(|row| &row.results);
    let busy = loads
        .filter_map(|found| found.load_before.split(' ').next()?.parse::<f64>().ok())
        .fold(0.0, f64::max);
    format!(
        "# The suite on {}, {}\n\n{}, {} cpus, {ram} MiB, Linux {}, cgroup v{}, swap on {}; commit {}; {} counted \
         runs of each; sizes at {} % of the suite's; highest load of the machine before a row {busy:.1}.\n\n\
         Plain is in seconds, all others are ratios of medians of wall time; * where some runs failed and are not in \
         the figures. A target is met when both ratios are at most what it says. `>` and `<` are bounds, of who did not \
         end in time; they are in no mean.\n",
        index.machine,
        index.date,
        site["cpu"].as_str().unwrap_or("unknown cpu"),
        site["cpus"],
        index.kernel,
        site["cgroup_version"],
        site["swap_filesystem"].as_str().unwrap_or("?"),
        index.commit,
        index.runs,
        index.scale,
    )
}

/// A row of the table of times.
struct Line {
    class: Class,
    /// neap by zswap, and by the best of the kernel's.
    zswap: Figure,
    best: Figure,
}

/// Wall time of all by one accounting, and what it comes to.
#[must_use]
pub fn times(entries: &[Entry], percent: u64, accounting: Accounting) -> String {
    let mut text = format!(
        "\n## Limit {percent} % of the plain peak, {}\n\n",
        accounting.title()
    );
    text += "| workload | plain | neap | zswap | zram | swap | neap / zswap | neap / best | target | | CPU / zswap |\n";
    text += "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n";
    let mut lines = Vec::new();
    for entry in entries {
        let (row, line) = time_row(entry, percent, accounting);
        text += &row;
        lines.push(line);
    }
    text + "\n" + &summary(&lines, percent)
}

fn time_row(entry: &Entry, percent: u64, accounting: Accounting) -> (String, Line) {
    let side = |contender: &str| Side::of(&entry.bench, contender, accounting);
    let wall = |contender: &str| side(contender).map_or(Figure::None, |side| Figure::wall(&side));
    let (plain, neap) = (wall("plain"), wall("neap"));
    let best = KERNELS
        .map(wall)
        .into_iter()
        .fold(Figure::None, Figure::faster);
    let line = Line {
        class: entry.class,
        zswap: neap.by(wall("zswap")),
        best: neap.by(best),
    };
    let goal = target::of(entry.class).filter(|_| percent == PERCENT);
    let mut text = format!("| {} | {} ", entry.name, plain.cell(" s"));
    for contender in ["neap", KERNELS[0], KERNELS[1], KERNELS[2]] {
        let star = side(contender).is_some_and(|side| side.failed());
        let mark = if star { " *" } else { "" };
        let _ = write!(text, "| {} ", wall(contender).by(plain).cell(mark));
    }
    let cpu = |contender: &str| side(contender).and_then(|side| side.cpu());
    let _ = writeln!(
        text,
        "| {} | {} | {} | {} | {} |",
        line.zswap.cell(""),
        line.best.cell(""),
        goal.filter(|_| entry.class != Class::Real)
            .map_or("-".to_owned(), goal_text),
        verdict(&line, goal),
        cell(ratio(cpu("neap"), cpu("zswap")), ""),
    );
    (text, line)
}

fn ratio(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    let ratio = a? / b?;
    ratio.is_finite().then_some(ratio)
}

fn cell(figure: Option<f64>, unit: &str) -> String {
    figure.map_or("-".to_owned(), |figure| format!("{figure:.2}{unit}"))
}

fn goal_text(goal: Target) -> String {
    format!("{} / {}", goal.zswap, goal.best)
}

fn met(line: &Line, goal: Target) -> bool {
    line.zswap.is_at_most(goal.zswap) && line.best.is_at_most(goal.best)
}

/// What a row is called: `met`, else by the best of the kernel's.
fn verdict(line: &Line, goal: Option<Target>) -> &'static str {
    // Real programs have a target together, not each.
    let goal = goal.filter(|_| line.class != Class::Real);
    match line.best {
        Figure::None => "not compared",
        _ if goal.is_some_and(|goal| met(line, goal)) => "met",
        Figure::Is(ratio) | Figure::Below(ratio) if ratio < 1.0 => "win",
        // Within its patience neap was not slower than who was given up after the same.
        Figure::Below(_) => "not compared",
        Figure::Is(_) | Figure::Above(_) => "LOSS",
    }
}

/// Ratios of rows, of some only a bound.
struct Ratios(Vec<Figure>);

impl Ratios {
    /// Rows that neap wins, of those of which it is known whether it does.
    fn wins(&self) -> String {
        let won = |figure: &Figure| match *figure {
            Figure::Is(ratio) => Some(ratio < 1.0),
            Figure::Above(ratio) => (ratio >= 1.0).then_some(false),
            Figure::Below(ratio) => (ratio <= 1.0).then_some(true),
            Figure::None => None,
        };
        let known: Vec<bool> = self.0.iter().filter_map(won).collect();
        let wins = known.iter().filter(|won| **won).count();
        format!("{wins} of {}", known.len())
    }

    /// Of those that were measured.
    fn mean(&self) -> String {
        let measured: Vec<f64> = self.0.iter().filter_map(|figure| figure.exact()).collect();
        cell(geometric_mean(&measured), "")
    }

    fn bounds(&self) -> usize {
        self.0.iter().filter(|figure| figure.is_bound()).count()
    }

    /// The largest, also where only that it is at least so much is known.
    fn worst(&self) -> String {
        let least = |figure: &Figure| match *figure {
            Figure::Is(ratio) | Figure::Above(ratio) => Some((*figure, ratio)),
            _ => None,
        };
        let worst = self
            .0
            .iter()
            .filter_map(least)
            .max_by(|a, b| a.1.total_cmp(&b.1));
        worst.map_or("-".to_owned(), |(figure, _)| figure.cell(""))
    }
}

fn summary(lines: &[Line], percent: u64) -> String {
    let by_zswap = Ratios(lines.iter().map(|line| line.zswap).collect());
    let by_best = Ratios(lines.iter().map(|line| line.best).collect());
    let mut text = format!(
        "neap wins {} rows against zswap and {} against the best of the kernel's; geometric means {} and {}.",
        by_zswap.wins(),
        by_best.wins(),
        by_zswap.mean(),
        by_best.mean(),
    );
    let real = |of: fn(&Line) -> Figure| {
        Ratios(
            lines
                .iter()
                .filter(|line| line.class == Class::Real)
                .map(of)
                .collect(),
        )
    };
    let (of_zswap, of_best) = (real(|line| line.zswap), real(|line| line.best));
    if of_best.0.iter().any(|figure| *figure != Figure::None) {
        let _ = write!(
            text,
            " Real programs: {} and {}, the worst {}{}.",
            of_zswap.mean(),
            of_best.mean(),
            of_best.worst(),
            match target::of(Class::Real) {
                Some(goal) if percent == PERCENT =>
                    format!(" (target {}, none above 1)", goal_text(goal)),
                _ => String::new(),
            }
        );
    }
    if by_zswap.bounds() + by_best.bounds() > 0 {
        let _ = write!(
            text,
            " Not in the means: {} rows against zswap and {} against the best, of which only a bound is known.",
            by_zswap.bounds(),
            by_best.bounds(),
        );
    }
    text + "\n"
}

/// What a byte of pool holds.
#[must_use]
pub fn pools(entries: &[Entry], percent: u64) -> String {
    let mut text = format!(
        "\n## Limit {percent} %: program bytes held per byte of pool\n\nThe pages in the pool by its size, when \
         that was largest, from the runs of (a); what takes no room (same-filled pages) is left out on both sides. \
         neap's pool also holds copies of pages that are resident and clean. Target: neap at least {DENSITY} times zswap, at most {:.0} % of its pool empty.\n\n\
         | workload | neap | zswap | zram | neap / zswap | of neap's pool empty |\n\
         | --- | --- | --- | --- | --- | --- |\n",
        FRAGMENTATION * 100.0
    );
    for entry in entries {
        let side = |contender: &str| Side::of(&entry.bench, contender, Accounting::Resident);
        let held = |contender: &str| side(contender)?.density();
        let empty = side("neap").and_then(|neap| neap.fragmentation());
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} |",
            entry.name,
            cell(held("neap"), ""),
            cell(held("zswap"), ""),
            cell(held("zram"), ""),
            cell(ratio(held("neap"), held("zswap")), ""),
            empty.map_or("-".to_owned(), |part| format!("{:.1} %", part * 100.0)),
        );
    }
    text
}

/// What went to disk, and how many pages left memory meanwhile.
#[must_use]
pub fn disks(entries: &[Entry], percent: u64) -> String {
    let mut text = format!(
        "\n## Limit {percent} %: written to disk, and pages out\n\nMiB, from the runs of (a), with what the workload \
         itself writes. Target: for the same evictions at most {DISK} times the kernel's.\n\n\
         | workload | neap | zswap | swap | neap, pages out | zswap, pages out | swap, pages out |\n\
         | --- | --- | --- | --- | --- | --- | --- |\n"
    );
    for entry in entries {
        let _ = write!(text, "| {} ", entry.name);
        for (measure, unit) in [
            ("disk_written_bytes", f64::from(1 << 20)),
            ("pages_out", 1.0),
        ] {
            for contender in ["neap", "zswap", "swap"] {
                let side = Side::of(&entry.bench, contender, Accounting::Resident);
                let figure = side.and_then(|side| side.median(measure));
                let shown = figure.map_or("-".to_owned(), |figure| format!("{:.0}", figure / unit));
                let _ = write!(text, "| {shown} ");
            }
        }
        text += "|\n";
    }
    text
}

/// What is not in the tables, or must be known beside them.
#[must_use]
pub fn gaps(gaps: &[Gap]) -> String {
    if gaps.is_empty() {
        return String::new();
    }
    let mut text = "\n## Not measured, failed, or to be known\n\n".to_owned();
    for gap in gaps {
        let _ = writeln!(text, "* {}: {}", gap.what, gap.why);
    }
    text
}
