//! The page: what the job is, its charts, and what else its figures tell.

use neap_units::{Bytes, PAGE_SIZE};
use serde_json::Value;

use super::charts::charts;
use super::markup::Markup;
use super::scale::{number, time};
use super::told::Told;

const SHEET: &str = include_str!("page.css");
/// What a browser may do with the page: show it.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";
/// Rows of a list at most.
const ROWS: usize = 100;

/// All of it; `date` is when it was made.
#[must_use]
pub fn page(told: &Told, date: &str) -> String {
    let mut page = Markup::document();
    let name = told.name();
    let attributes = [("xmlns", "http://www.w3.org/1999/xhtml"), ("lang", "en")];
    page.with("html", &attributes, |page| {
        page.end_line();
        page.with("head", &[], |page| {
            page.empty("meta", &[("charset", "utf-8")]);
            let policy = ("http-equiv", "Content-Security-Policy");
            page.empty("meta", &[policy, ("content", POLICY)]);
            let fits = ("content", "width=device-width, initial-scale=1");
            page.empty("meta", &[("name", "viewport"), fits]);
            page.line("title", &[], &format!("neap: {name}"));
            page.style(SHEET);
        });
        page.end_line();
        page.with("body", &[], |page| {
            page.with("h1", &[], |page| {
                page.text("neap: ");
                page.line("bdi", &[], &name);
            });
            write_facts(page, told, date);
            for (at, chart) in charts(&told.series, &told.parts).iter().enumerate() {
                chart.write(page, &format!("chart{at}"));
            }
            write_generations(page, told);
            write_processes(page, told);
            write_list(page, "Warnings", &told.figures["warnings"]);
        });
    });
    page.end_line();
    page.finish()
}

/// What the job is and what became of it, in pairs of a word and a line.
fn facts(told: &Told, date: &str) -> Vec<(&'static str, String)> {
    let bytes = |path: &str| Bytes(told.number(path));
    let count = |name: &str| told.number(&format!("/vmstat/{name}"));
    let mut facts = vec![("command", told.command()), ("state", state(told))];
    if let Some(service) = told.text("/service") {
        facts.push(("service", service.to_owned()));
    }
    facts.push(("limit", bytes("/memory/limit_bytes").to_string()));
    let mut highest = format!(
        "{}; resident at most {}, pool at most {}",
        bytes("/memory/peak_bytes"),
        bytes("/memory/peak_resident_bytes"),
        bytes("/memory/peak_pool_bytes"),
    );
    let own = bytes("/memory/overhead_bytes");
    if own.0 > 0 {
        highest += &format!(", neap itself at most {own}"); // counted for a service, not for a job in it
    }
    facts.push(("highest use", highest));
    facts.push((
        "pages out",
        format!(
            "{} compressed, {} of them to the swap file",
            count("zswpout"),
            count("zswpwb")
        ),
    ));
    facts.push((
        "pages in",
        format!(
            "{} decompressed, {} read from the swap file",
            count("zswpin"),
            count("pswpin")
        ),
    ));
    let waited = told.number("/pressure/some/total_us") as f64 / 1e6;
    let full = told.number("/pressure/full/total_us") as f64 / 1e6;
    facts.push((
        "waiting",
        format!(
            "some thread for {} s, and none ran for {} s of it",
            number(waited),
            number(full)
        ),
    ));
    facts.push(("events", events(told)));
    let version = told.text("/version").unwrap_or("?");
    let kernel = told
        .text("/kernel")
        .map(|kernel| format!(", Linux {kernel}"));
    facts.push((
        "made",
        format!("{date}, by neap {version}{}", kernel.unwrap_or_default()),
    ));
    facts
}

fn state(told: &Told) -> String {
    if let Some(seconds) = told.figures["uptime_seconds"].as_f64() {
        let frozen = if told.number("/neap/frozen") == 1 {
            ", and is frozen"
        } else {
            ""
        };
        return format!("runs for {}{frozen}", time(seconds));
    }
    let seconds = told.figures["wall_seconds"].as_f64().unwrap_or(0.0);
    let how = match told.figures["signal"].as_i64() {
        Some(signal) => format!("was ended by signal {signal}"),
        None => format!("exited with {}", told.number("/exit_status")),
    };
    format!("{how} after {}", time(seconds))
}

fn events(told: &Told) -> String {
    let counts = told.figures["events"].as_object().into_iter().flatten();
    let some = counts.filter(|(_, count)| count.as_u64().unwrap_or(0) > 0);
    let words: Vec<String> = some
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    match words.is_empty() {
        true => "none".to_owned(),
        false => words.join(", "),
    }
}

fn write_facts(page: &mut Markup, told: &Told, date: &str) {
    page.with("dl", &[], |page| {
        for (name, line) in facts(told, date) {
            page.line("dt", &[], name);
            page.with("dd", &[], |page| match name {
                "command" => page.line("code", &[("dir", "auto")], &line),
                _ => page.line("bdi", &[], &line),
            });
        }
    });
    page.end_line();
}

/// The generations of a job that runs.
fn write_generations(page: &mut Markup, told: &Told) {
    let lists = told
        .figures
        .pointer("/generations/lists")
        .and_then(Value::as_array);
    // At the end of a run its processes, and so their pages, have gone.
    let lives = told.figures["uptime_seconds"].is_number();
    let Some(lists) = lists.filter(|lists| !lists.is_empty() && lives) else {
        return;
    };
    let rows = lists.iter().take(ROWS).map(|list| {
        let age = list["age_ms"].as_u64().unwrap_or(0) as f64 / 1000.0;
        let pages = list["pages"].as_u64().unwrap_or(0);
        [time(age), pages.to_string(), bytes_of(pages)]
    });
    let title = "Generations now, the oldest first";
    write_table(page, title, ["age", "pages", "size"], rows.collect());
}

fn bytes_of(pages: u64) -> String {
    Bytes(pages.saturating_mul(PAGE_SIZE as u64)).to_string()
}

fn write_processes(page: &mut Markup, told: &Told) {
    let all = told.figures["processes"].as_array();
    let Some(all) = all.filter(|all| !all.is_empty()) else {
        return;
    };
    let bytes =
        |process: &Value, name: &str| Bytes(process[name].as_u64().unwrap_or(0)).to_string();
    let rows = all.iter().take(ROWS).map(|process| {
        let comm = process["comm"].as_str().unwrap_or_default();
        let waited = process["stalled_seconds"].as_f64().unwrap_or(0.0);
        let pid = process["pid"].as_u64().unwrap_or(0);
        let name = format!("{pid} {comm}");
        [
            name,
            bytes(process, "peak_resident_bytes"),
            format!("{} s", number(waited)),
        ]
    });
    let title = match all.len() > ROWS {
        true => format!("Processes, the first {ROWS} of {}", all.len()),
        false => "Processes".to_owned(),
    };
    write_table(
        page,
        &title,
        ["process", "resident at most", "waited"],
        rows.collect(),
    );
}

fn write_table<const COLUMNS: usize>(
    page: &mut Markup,
    title: &str,
    head: [&str; COLUMNS],
    rows: Vec<[String; COLUMNS]>,
) {
    let class = |at: usize| [("class", if at == 0 { "name" } else { "number" })];
    page.with("section", &[], |page| {
        page.line("h2", &[], title);
        page.with("div", &[("class", "wide"), ("tabindex", "0")], |page| {
            page.with("table", &[], |page| {
                page.with("thead", &[], |page| {
                    page.with("tr", &[], |page| {
                        for (at, name) in head.into_iter().enumerate() {
                            let [class] = class(at);
                            page.line("th", &[("scope", "col"), class], name);
                        }
                    });
                });
                page.with("tbody", &[], |page| {
                    for row in &rows {
                        page.with("tr", &[], |page| {
                            for (at, cell) in row.iter().enumerate() {
                                page.with("td", &class(at), |page| page.line("bdi", &[], cell));
                            }
                        });
                    }
                });
            });
        });
    });
    page.end_line();
}

fn write_list(page: &mut Markup, title: &str, lines: &Value) {
    let lines = lines.as_array().into_iter().flatten();
    let lines: Vec<&str> = lines.filter_map(Value::as_str).take(ROWS).collect();
    if lines.is_empty() {
        return;
    }
    page.with("section", &[], |page| {
        page.line("h2", &[], title);
        page.with("ul", &[], |page| {
            for line in lines {
                page.with("li", &[], |page| page.line("bdi", &[], line));
            }
        });
    });
    page.end_line();
}

#[cfg(test)]
mod tests {
    use neap_control::{Column, Part, Sample, Series};
    use serde_json::json;

    use super::super::markup::tests::check;
    use super::*;

    const HOSTILE: &str = "</title></h1><script>alert(1)</script><img src=x onerror='alert(2)'>\u{202e}\u{1b}]0;x\u{7}";

    fn samples(count: u64, value: impl Fn(u64, Column) -> u64) -> Series {
        let mut series = Series::new(1024, 0);
        for at in 0..count {
            let mut sample = Sample::default();
            for column in Column::ALL {
                sample.set(*column, value(at, *column));
            }
            series.push(sample.with(Column::Time, at * 100));
        }
        series
    }

    fn hostile() -> Value {
        json!({
            "schema": HOSTILE, "name": HOSTILE, "version": HOSTILE, "kernel": HOSTILE,
            "service": HOSTILE, "command": [HOSTILE, "--", HOSTILE], "uptime_seconds": 1e300,
            "memory": {"limit_bytes": u64::MAX, "peak_bytes": -1, "own_bytes": HOSTILE},
            "events": {HOSTILE: 7}, "warnings": [HOSTILE, 5, HOSTILE],
            "processes": [{"pid": -5, "comm": HOSTILE, "peak_resident_bytes": u64::MAX}],
            "generations": {"lists": [{"age_ms": u64::MAX, "pages": u64::MAX}, HOSTILE]},
        })
    }

    #[test]
    fn what_a_job_calls_itself_is_text_and_nothing_else() {
        let told = Told {
            figures: hostile(),
            parts: vec![Part {
                name: HOSTILE.to_owned(),
                used: vec![(0, 7)],
            }],
            series: samples(9, |at, column| at * column as u64),
        };
        let text = page(&told, "today");
        check(&text);
        assert!(!text.contains("<script") && !text.contains("<img") && !text.contains('\u{1b}'));
        assert!(text.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
        let title = text.split("<title>").nth(1).expect("a title");
        assert!(title.starts_with("neap: &lt;/title&gt;"), "{title}");
    }

    /// The only words that a browser would fetch, run or follow are none.
    #[test]
    fn a_page_is_whole_in_itself() {
        let told = Told {
            figures: json!({"command": ["make"], "exit_status": 2, "wall_seconds": 3.5}),
            parts: Vec::new(),
            series: samples(300, |at, column| at * 4096 * column as u64),
        };
        let text = page(&told, "today");
        check(&text);
        for word in [
            "src=", "href=", "url(", "@import", "<script", "<link", "<object", "<iframe", " on",
        ] {
            let tags = text.split('<').filter_map(|tag| tag.split('>').next());
            let sheet = SHEET.contains(word);
            assert!(
                !sheet && tags.into_iter().all(|tag| !tag.contains(word)),
                "{word}"
            );
        }
        let addresses = text.matches("://").count();
        let names = text.matches("=\"http://www.w3.org/").count();
        assert_eq!(addresses, names, "names of XML, which nobody fetches");
        assert!(
            text.contains("exited with 2 after 3.5 s")
                && text.contains("<title>neap: make</title>")
        );
        assert_eq!(text.matches("<figure>").count(), 5);
    }

    #[test]
    fn any_numbers_make_a_page() {
        for value in [0, 1, u64::MAX] {
            for count in [0, 1, 2, 700] {
                let told = Told {
                    figures: json!(null),
                    parts: Vec::new(),
                    series: samples(count, |at, column| match (at % 3, column) {
                        (1, _) => value,
                        _ => at,
                    }),
                };
                let text = page(&told, "today");
                check(&text);
                assert!(
                    !text.contains("NaN") && !text.contains("inf"),
                    "{value} {count}"
                );
            }
        }
    }

    #[test]
    fn the_sheet_has_every_class_that_is_drawn() {
        for at in 0..8 {
            for kind in ["area", "line"] {
                assert!(SHEET.contains(&format!(".{kind}{at}{{")));
            }
        }
        assert!(SHEET.contains("prefers-color-scheme:dark") && SHEET.contains("@media print"));
    }
}
