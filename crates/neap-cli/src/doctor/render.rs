//! Checks as a table for people and as one JSON object for programs.

use serde::Serialize;

use super::{Check, Verdict, healthy};

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    version: &'static str,
    ok: bool,
    checks: &'a [Check],
}

/// One JSON object and a newline.
pub fn json(checks: &[Check]) -> String {
    let document = Document {
        schema: "neap.doctor/1",
        version: env!("CARGO_PKG_VERSION"),
        ok: healthy(checks),
        checks,
    };
    // Strings and booleans always serialize.
    let mut text = serde_json::to_string(&document).unwrap_or_default();
    text.push('\n');
    text
}

/// A line for each check, remedies below, and a last line that sums up.
pub fn table(checks: &[Check]) -> String {
    let width = checks.iter().map(|check| check.name.len()).max();
    let width = width.unwrap_or(0);
    let mut text = String::new();
    for check in checks {
        let word = match check.verdict {
            Verdict::Ok => "ok",
            Verdict::Limited => "limited",
            Verdict::Missing => "MISSING",
            Verdict::Info => "-",
        };
        text.push_str(&format!(
            "{word:<8} {:<width$}  {}\n",
            check.name, check.detail
        ));
        if let Some(remedy) = &check.remedy {
            text.push_str(&format!("{:8} {:width$}  try: {remedy}\n", "", ""));
        }
    }
    let limited = checks.iter().any(|check| check.verdict == Verdict::Limited);
    text.push_str(match (healthy(checks), limited) {
        (true, false) => "neap can run fully on this machine.\n",
        (true, true) => "neap can run on this machine, within what is limited above.\n",
        (false, _) => "neap cannot run fully on this machine: see MISSING above.\n",
    });
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(verdict: Verdict) -> Check {
        Check {
            name: "userfaultfd",
            verdict,
            detail: "refused".to_owned(),
            remedy: Some("ask".to_owned()),
        }
    }

    #[test]
    fn a_missing_thing_is_told_apart_from_a_slower_way() {
        assert!(healthy(&[check(Verdict::Limited), check(Verdict::Info)]));
        assert!(!healthy(&[check(Verdict::Ok), check(Verdict::Missing)]));
        let text = table(&[check(Verdict::Missing)]);
        assert!(
            text.starts_with("MISSING  userfaultfd  refused\n"),
            "{text}"
        );
        assert!(text.contains("try: ask") && text.contains("cannot run fully"));
        let text = table(&[check(Verdict::Limited), check(Verdict::Ok)]);
        assert!(text.ends_with("within what is limited above.\n"), "{text}");
        let text = table(&[check(Verdict::Ok), check(Verdict::Info)]);
        assert!(text.ends_with("can run fully on this machine.\n"), "{text}");
    }

    #[test]
    fn the_json_object_names_its_schema() {
        let text = json(&[check(Verdict::Limited)]);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["schema"], "neap.doctor/1");
        assert_eq!(value["ok"], true);
        assert_eq!(value["checks"][0]["verdict"], "limited");
    }
}
