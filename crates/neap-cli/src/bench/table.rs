//! The comparison for people.

use std::fmt::Write as _;

use neap_units::Bytes;

use super::figures::{MEASURES, Measure, Raw, Summary, Unit, Verdict, said};
use super::plan::{Accounting, Entrant};
use super::report::Report;
use crate::choice::Contender;

/// The whole text.
#[must_use]
pub fn table(report: &Report<'_>) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "command: {}", report.command.join(" "));
    let _ = writeln!(text, "machine: {}", report.machine.line());
    let _ = writeln!(
        text,
        "runs:    {} of each, by turns, after a first one that is not counted\n",
        report.runs
    );
    for absent in report.absent {
        let _ = writeln!(text, "not measured: {absent}");
    }
    if !report.absent.is_empty() {
        text.push('\n');
    }
    let (resident, pooled) = (Accounting::Resident, Accounting::Pooled);
    let size = report.size;
    let title = format!("(a) equal resident memory of {size}, the pool counted for nobody");
    part(&mut text, report, resident, &title);
    let title = format!("(b) equal resident memory and pool together, {size}");
    part(&mut text, report, pooled, &title);
    verdict(&mut text, &report.verdict);
    for warning in &report.warnings {
        let _ = writeln!(text, "warning: {warning}");
    }
    text
}

fn part(text: &mut String, report: &Report<'_>, accounting: Accounting, title: &str) {
    let stands = report.entrants.iter().filter_map(|entrant| {
        let label = entrant.label(accounting)?;
        Some((entrant, label))
    });
    let stands: Vec<(&Entrant, &str)> = stands.collect();
    let _ = writeln!(text, "{title}");
    for (entrant, label) in &stands {
        let runs = report.runs_of(entrant);
        let good = report.good_runs_of(entrant).len();
        let compressor = runs
            .iter()
            .find_map(|run| run.compressor.clone())
            .map_or_else(String::new, |name| format!(", {name}"));
        let failed = match runs.iter().find(|run| !report.is_good(run)) {
            Some(run) => format!(
                "; {} of {} failed: {}",
                runs.len() - good,
                runs.len(),
                said(run.ending)
            ),
            None => String::new(),
        };
        let name = entrant.contender.to_string();
        let _ = writeln!(text, "  {name:<6} {label}{compressor}{failed}");
    }
    let _ = writeln!(
        text,
        "\n  {:<28}{:<8}{:>11}  {:>23}{:>9}",
        "", "", "median", "least to most", "ratio"
    );
    for measure in &MEASURES {
        rows(text, report, &stands, measure);
    }
    text.push('\n');
}

fn rows(text: &mut String, report: &Report<'_>, stands: &[(&Entrant, &str)], measure: &Measure) {
    let summary = |entrant: &Entrant| {
        let runs = report.good_runs_of(entrant);
        Summary::of(runs.iter().map(|run| (measure.of)(run)))
    };
    let plain = stands
        .iter()
        .find(|(entrant, _)| entrant.contender == Contender::Plain)
        .and_then(|(entrant, _)| summary(entrant));
    let mut title = measure.title;
    for (entrant, _) in stands {
        let name = entrant.contender.to_string();
        let Some(figures) = summary(entrant) else {
            let _ = writeln!(text, "  {title:<28}{name:<8}{:>11}", "-");
            title = "";
            continue;
        };
        let shown = |figure| show(measure.unit, figure);
        let spread = format!("{} to {}", shown(figures.least), shown(figures.most));
        let ratio = figures
            .ratio(plain)
            .map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
        let median = shown(figures.median);
        let _ = writeln!(
            text,
            "  {title:<28}{name:<8}{median:>11}  {spread:>23}{ratio:>9}"
        );
        title = "";
    }
}

fn show(unit: Unit, figure: f64) -> String {
    match unit {
        Unit::Seconds => format!("{figure:.3} s"),
        // Figures are of whole bytes and pages, and far below 2^53.
        Unit::Bytes => mebibytes(Bytes(figure as u64)),
        Unit::Count => format!("{figure:.0}"),
    }
}

fn mebibytes(bytes: Bytes) -> String {
    format!("{:.1} MiB", bytes.0 as f64 / f64::from(1 << 20))
}

fn verdict(text: &mut String, verdict: &Verdict) {
    let _ = match verdict {
        Verdict::Same { compared, sha256 } => writeln!(
            text,
            "output: the same in all {compared} runs, the first ones included (SHA-256 {sha256})"
        ),
        Verdict::Unsteady => writeln!(
            text,
            "output: differs between plain runs, so nothing can be said about the others"
        ),
        Verdict::Different(lines) => {
            let _ = writeln!(text, "output: DIFFERS");
            lines.iter().try_for_each(|line| writeln!(text, "  {line}"))
        }
    };
}

/// What a run that failed had to say.
#[must_use]
pub fn complaint(run: &Raw) -> String {
    let last = run.stderr.trim_end().lines().last().unwrap_or_default();
    match last.is_empty() {
        true => said(run.ending),
        false => format!("{}: {last}", said(run.ending)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::report;
    use super::*;

    #[test]
    fn a_table_has_a_row_for_each_measure_and_contender_and_names_what_is_absent() {
        let text = table(&report());
        assert!(
            text.contains("not measured: zram: no zram; try: modprobe zram"),
            "{text}"
        );
        assert!(
            text.contains("(a) equal resident memory of 64MiB"),
            "{text}"
        );
        let row = text
            .lines()
            .find(|line| line.contains("wall time"))
            .unwrap();
        let words: Vec<&str> = row.split_whitespace().collect();
        let want = "wall time plain 1.000 s 1.000 s to 1.000 s 1.00";
        assert_eq!(words.join(" "), want);
        assert!(
            text.contains("neap        3.000 s       2.000 s to 4.000 s     3.00"),
            "{text}"
        );
        assert!(text.contains("output: the same in all 5 runs"), "{text}");
        assert!(text.lines().all(|line| line.len() < 120), "{text}");
    }

    #[test]
    fn figures_keep_their_unit() {
        assert_eq!(show(Unit::Seconds, 1.23456), "1.235 s");
        assert_eq!(show(Unit::Bytes, 1_572_864.0), "1.5 MiB");
        assert_eq!(show(Unit::Count, 12.5), "12");
    }
}
