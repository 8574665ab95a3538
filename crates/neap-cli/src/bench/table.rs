//! The comparison for people.

use std::borrow::Cow;
use std::fmt::Write as _;

use neap_units::Bytes;

use super::figures::{MEASURES, Measure, Raw, Summary, Unit, Verdict, too_long};
use super::plan::{Accounting, Entrant};
use super::report::Report;

/// The whole text.
#[must_use]
pub fn table(report: &Report<'_>) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let words: Vec<_> = report.command.iter().map(|word| quoted(word)).collect();
    let _ = writeln!(text, "command: {}", words.join(" "));
    let _ = writeln!(text, "machine: {}", report.machine.line());
    let patience = report.patience.map(|s| format!("; none longer than {s} s"));
    let _ = writeln!(
        text,
        "runs:    {} of each, by turns, after a first one that is not counted{}\n",
        report.runs,
        patience.unwrap_or_default()
    );
    for absent in report.absent {
        let _ = writeln!(text, "not measured: {absent}");
    }
    if !report.absent.is_empty() {
        text.push('\n');
    }
    let (resident, pooled) = (Accounting::Resident, Accounting::Pooled);
    let size = report.size;
    let title = format!("equal resident memory of {size}, the pool counted for nobody");
    part(&mut text, report, resident, &title);
    let title = format!("equal resident memory and pool together, {size}");
    part(&mut text, report, pooled, &title);
    verdict(&mut text, report);
    for warning in &report.warnings {
        let _ = writeln!(text, "warning: {warning}");
    }
    text
}

/// The word as a shell takes it.
fn quoted(word: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@%+,".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => Cow::Borrowed(word),
        false => Cow::Owned(format!("'{}'", word.replace('\'', r"'\''"))),
    }
}

fn part(text: &mut String, report: &Report<'_>, accounting: Accounting, title: &str) {
    let stands = report.entrants.iter().filter_map(|entrant| {
        let label = entrant.label(accounting)?;
        Some((entrant, label))
    });
    let stands: Vec<(&Entrant, &str)> = stands.collect();
    let _ = writeln!(text, "{} {title}", accounting.letter());
    for (entrant, label) in &stands {
        let runs = report.runs_of(entrant);
        let good = report.good_runs_of(entrant).len();
        let compressor = runs
            .iter()
            .find_map(|run| run.compressor.clone())
            .map_or_else(String::new, |name| format!(", {name}"));
        let shrinker = runs
            .iter()
            .find_map(|run| run.shrinker)
            .map_or_else(String::new, |word| format!(", shrinker {word}"));
        let failed = match runs.iter().find(|run| !report.is_good(run)) {
            Some(run) => format!(
                "; {} of {} failed: {}",
                runs.len() - good,
                runs.len(),
                run.fault()
            ),
            None => String::new(),
        };
        let given_up = match entrant.given_up {
            Some(seconds) if runs.is_empty() => {
                let said = report.first_run_of(entrant).map(Raw::said);
                format!(
                    "; its first run {}",
                    said.unwrap_or_else(|| too_long(seconds))
                )
            }
            _ => String::new(),
        };
        let name = entrant.contender.to_string();
        let _ = writeln!(
            text,
            "  {name:<6} {label}{compressor}{shrinker}{failed}{given_up}"
        );
    }
    text.push('\n');
    let heads = ["", "", "median", "least to most", "ratio"].map(str::to_owned);
    let rows = MEASURES.iter().flat_map(|m| rows(report, &stands, m));
    columns(text, &[heads].into_iter().chain(rows).collect::<Vec<_>>());
    text.push('\n');
}

/// What, who, median, spread and ratio.
type Row = [String; 5];

/// Least widths of the columns: what most benches need, so that their tables look alike.
const WIDTHS: [usize; 5] = [28, 8, 11, 23, 7];

fn columns(text: &mut String, rows: &[Row]) {
    let mut width = WIDTHS;
    for row in rows {
        for (width, cell) in width.iter_mut().zip(row) {
            *width = cell.len().max(*width);
        }
    }
    let [what, who, median, spread, ratio] = width;
    for [a, b, c, d, e] in rows {
        let line = format!("  {a:<what$}{b:<who$}{c:>median$}  {d:>spread$}  {e:>ratio$}");
        let _ = writeln!(text, "{}", line.trim_end());
    }
}

fn rows(report: &Report<'_>, stands: &[(&Entrant, &str)], measure: &Measure) -> Vec<Row> {
    let summary = |entrant: &Entrant| {
        let runs = report.good_runs_of(entrant);
        Summary::of(runs.iter().map(|run| (measure.of)(run)))
    };
    let plain = report.plain(measure);
    let mut title = measure.title;
    let row = |(entrant, _): &(&Entrant, &str)| {
        let (title, name) = (std::mem::take(&mut title), entrant.contender.to_string());
        let Some(figures) = summary(entrant) else {
            let (least, ratio) = at_least(entrant, measure, plain);
            return [title.to_owned(), name, least, String::new(), ratio];
        };
        let shown = |figure| show(measure.unit, figure);
        let ratio = figures.ratio(plain);
        [
            title.to_owned(),
            name,
            shown(figures.median),
            format!("{} to {}", shown(figures.least), shown(figures.most)),
            ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}")),
        ]
    };
    stands.iter().map(row).collect()
}

/// What is known of a contender without figures: wall time and its ratio, when it was given up.
fn at_least(entrant: &Entrant, measure: &Measure, plain: Option<Summary>) -> (String, String) {
    let seconds = match entrant.given_up {
        // Far below 2^53.
        Some(seconds) if measure.name == "wall_seconds" => seconds as f64,
        _ => return ("-".to_owned(), String::new()),
    };
    let least = Summary::of([seconds]).and_then(|least| least.ratio(plain));
    (
        format!("> {}", show(measure.unit, seconds)),
        least.map_or_else(String::new, |ratio| format!("> {ratio:.2}")),
    )
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

fn verdict(text: &mut String, report: &Report<'_>) {
    let failures = report.failures();
    let _ = match &report.verdict {
        Verdict::Same { compared, sha256 } => {
            let which = match failures.is_empty() {
                true => "",
                false => " that ended as plain did",
            };
            writeln!(
                text,
                "output: the same in all {compared} runs{which}, the first ones included (SHA-256 {sha256})"
            )
        }
        Verdict::Unsteady => writeln!(
            text,
            "output: differs between plain runs, so nothing can be said about the others"
        ),
        Verdict::Unknown => writeln!(text, "output: not compared, for plain did not end"),
        Verdict::Different(lines) => {
            let _ = writeln!(text, "output: DIFFERS");
            lines.iter().try_for_each(|line| writeln!(text, "  {line}"))
        }
    };
    for line in failures {
        let _ = writeln!(text, "FAILED: {line}");
    }
}

/// How a line of neap's begins that says what to try, below its cause ([`Failure::lines`](crate::failure::Failure::lines)).
const ADVICE: &str = "  try: ";

/// What neap's last words advise on a line of its own.
#[must_use]
pub fn advice(stderr: &str) -> Option<&str> {
    stderr.trim_end().lines().last()?.strip_prefix(ADVICE)
}

/// What a run that failed had to say: the cause, and not what to try.
#[must_use]
pub fn complaint(run: &Raw) -> String {
    let mut lines = run.stderr.trim_end().lines().rev();
    let last = lines
        .find(|line| !line.starts_with(ADVICE))
        .unwrap_or_default();
    match last.is_empty() {
        true => run.fault(),
        false => format!("{}: {last}", run.fault()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::{given_up, report};
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
    fn the_setup_names_compressor_and_shrinker() {
        let mut runs = report().raw.to_vec();
        runs[2].compressor = Some("lzo-rle".to_owned());
        runs[2].shrinker = Some("on");
        let text = table(&Report {
            raw: &runs,
            ..report()
        });
        assert!(text.contains(", lzo-rle, shrinker on\n"), "{text}");
    }

    #[test]
    fn a_command_can_be_given_again() {
        let words = ["sh", "-c", "exit 3", "", "it's"].map(quoted);
        assert_eq!(words.join(" "), r"sh -c 'exit 3' '' 'it'\''s'");
    }

    #[test]
    fn columns_never_touch() {
        let long = |row: &'static str| {
            [
                row,
                "plain",
                "123456.789 s",
                "123456.789 s to 123456.789 s",
                "100.00",
            ]
        };
        let short = ["b", "neap", "1", "1 to 1", "123456.00"];
        let mut text = String::new();
        columns(
            &mut text,
            &[long("a"), short].map(|row| row.map(str::to_owned)),
        );
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0].len(), lines[1].len(), "{text}");
        let words: Vec<&str> = lines[0].split_whitespace().collect();
        let want = "a plain 123456.789 s 123456.789 s to 123456.789 s 100.00";
        assert_eq!(words.join(" "), want);
    }

    #[test]
    fn a_run_that_failed_is_named_and_is_no_difference() {
        let mut runs = report().raw.to_vec();
        runs[4].ending = crate::exit::Ending::Signaled(9);
        let text = table(&Report {
            raw: &runs,
            verdict: Verdict::of(&runs, &[]),
            ..report()
        });
        assert!(!text.contains("DIFFERS"), "{text}");
        assert!(
            text.contains("in all 4 runs that ended as plain did"),
            "{text}"
        );
        assert!(
            text.contains("\nFAILED: neap in turn 2 ended by SIGKILL"),
            "{text}"
        );
    }

    #[test]
    fn a_run_with_a_killed_process_is_marked_as_failed_and_in_no_figure() {
        let mut runs = report().raw.to_vec();
        runs[4].kills = 1;
        let report = Report {
            raw: &runs,
            verdict: Verdict::of(&runs, &[]),
            ..report()
        };
        let text = table(&report);
        for part in [
            "1 of 2 failed: exited 0, 1 killed for want of memory\n",
            "neap        2.000 s       2.000 s to 2.000 s     2.00",
            "\nFAILED: neap in turn 2 exited 0, plain exited 0; the kernel killed 1 for want of memory",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert!(!report.is_unanimous());
    }

    #[test]
    fn a_contender_that_was_given_up_stands_there_with_what_it_took_at_least() {
        let text = table(&given_up());
        for part in [
            "counted; none longer than 30 s\n",
            "its pool was never used; its first run did not end within 30 s\n",
            "neap     > 30.000 s",
            "> 30.00\n",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        let user = text.lines().skip_while(|line| !line.contains("CPU, user"));
        assert!(user.take(2).any(|line| line.ends_with("  -")), "{text}");
    }

    #[test]
    fn a_complaint_is_the_cause_and_not_what_to_try() {
        let mut run = report().raw[2].clone();
        run.ending = crate::exit::Ending::Exited(125);
        let failure = crate::failure::Failure::NoRam.lines();
        run.stderr = format!("something before\n{failure}\n");
        let want =
            "exited 125: neap: error[E0111]: cannot read how much RAM there is from /proc/meminfo";
        assert_eq!(complaint(&run), want);
        let remedy = "--memory with a size instead of a percentage";
        assert_eq!(advice(&run.stderr), Some(remedy));
        run.stderr = "only this\n".to_owned();
        assert_eq!(complaint(&run), "exited 125: only this");
        assert_eq!(advice(&run.stderr), None);
        run.stderr.clear();
        assert_eq!(complaint(&run), "exited 125");
    }

    #[test]
    fn figures_keep_their_unit() {
        assert_eq!(show(Unit::Seconds, 1.23456), "1.235 s");
        assert_eq!(show(Unit::Bytes, 1_572_864.0), "1.5 MiB");
        assert_eq!(show(Unit::Count, 12.5), "12");
    }
}
