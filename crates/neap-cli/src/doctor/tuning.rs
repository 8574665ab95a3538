//! What neap chose, as a table for people and as one JSON object for programs.

use neap_tuning::Tunable;
use serde::Serialize;

#[derive(Serialize)]
struct Document {
    schema: &'static str,
    version: &'static str,
    tuning: Vec<Entry>,
}

#[derive(Serialize)]
struct Entry {
    name: &'static str,
    value: String,
    amount: f64,
    unit: &'static str,
    meaning: &'static str,
    reason: String,
}

/// One JSON object and a newline.
pub fn json(list: &[Tunable]) -> String {
    let entry = |tunable: &Tunable| Entry {
        name: tunable.name,
        value: tunable.value.to_string(),
        amount: tunable.value.amount(),
        unit: tunable.value.unit(),
        meaning: tunable.meaning(),
        reason: tunable.reason(),
    };
    let document = Document {
        schema: "neap.tuning/1",
        version: env!("CARGO_PKG_VERSION"),
        tuning: list.iter().map(entry).collect(),
    };
    // Strings and numbers always serialize.
    let mut text = serde_json::to_string(&document).unwrap_or_default();
    text.push('\n');
    text
}

/// A line for each value, with what it is.
pub fn table(list: &[Tunable]) -> String {
    let width = |cell: fn(&Tunable) -> usize| list.iter().map(cell).max().unwrap_or(0);
    let names = width(|tunable| tunable.name.len());
    let values = width(|tunable| tunable.value.to_string().len());
    let line = |tunable: &Tunable| {
        let (name, meaning) = (tunable.name, tunable.meaning());
        let value = tunable.value.to_string();
        format!("{name:<names$}  {value:>values$}  {meaning}\n")
    };
    list.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use neap_tuning::TUNING;

    use super::*;

    #[test]
    fn every_value_is_a_line_of_the_table() {
        let list = TUNING.list();
        let text = table(&list);
        assert_eq!(text.lines().count(), list.len());
        for (line, tunable) in text.lines().zip(&list) {
            let value = tunable.value.to_string();
            let mut rest = line.strip_prefix(tunable.name).unwrap().trim_start();
            rest = rest.strip_prefix(&value).unwrap();
            assert_eq!(rest.trim_start(), tunable.meaning());
        }
    }

    #[test]
    fn every_value_is_in_the_json_object_with_its_unit_and_its_reason() {
        let list = TUNING.list();
        let value: serde_json::Value = serde_json::from_str(&json(&list)).unwrap();
        assert_eq!(value["schema"], "neap.tuning/1");
        let entries = value["tuning"].as_array().unwrap();
        assert_eq!(entries.len(), list.len());
        for (entry, tunable) in entries.iter().zip(&list) {
            assert_eq!(entry["name"], tunable.name);
            assert_eq!(entry["amount"], tunable.value.amount());
            assert_eq!(entry["unit"], tunable.value.unit());
            assert_eq!(entry["reason"], tunable.reason());
        }
    }
}
