//! Raw results as tables: who took how long, against which target, and what the pools held.

mod figure;
mod result;
mod table;
mod target;

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::drive::Index;
use crate::rows::Class;
use result::Accounting;

/// A row at one limit, with what was measured.
#[derive(Debug)]
struct Entry {
    name: String,
    class: Class,
    bench: Value,
}

/// What was not measured, and why.
#[derive(Debug)]
struct Gap {
    what: String,
    why: String,
}

/// The report of the results in a directory, in Markdown.
///
/// # Errors
/// There are none, or they cannot be read.
pub fn of(dir: &Path) -> Result<String, String> {
    let index = Index::read(dir)?;
    let (mut text, mut gaps) = (String::new(), Vec::new());
    let mut site = None;
    for percent in &index.percents {
        let entries = entries(dir, &index, *percent, &mut gaps)?;
        site = site.or_else(|| entries.first().map(|entry| entry.bench["machine"].clone()));
        for accounting in [Accounting::Resident, Accounting::Pooled] {
            text += &table::times(&entries, *percent, accounting);
        }
        text += &table::pools(&entries, *percent);
        text += &table::disks(&entries, *percent);
        gaps.extend(
            entries
                .iter()
                .flat_map(|entry| result::gaps(entry, *percent)),
        );
    }
    for row in &index.rows {
        gaps.extend(row.missing.as_ref().map(|why| Gap {
            what: row.name.clone(),
            why: why.clone(),
        }));
    }
    Ok(table::head(&index, &site.unwrap_or_default()) + &text + &table::gaps(&gaps))
}

fn entries(
    dir: &Path,
    index: &Index,
    percent: u64,
    gaps: &mut Vec<Gap>,
) -> Result<Vec<Entry>, String> {
    let mut entries = Vec::new();
    for row in &index.rows {
        for found in row.results.iter().filter(|found| found.percent == percent) {
            if let Some(why) = &found.fault {
                gaps.push(Gap {
                    what: format!("{} at {percent} %", row.name),
                    why: why.clone(),
                });
                continue;
            }
            let file = dir.join(&found.file);
            let fault = |e: &dyn std::fmt::Display| format!("{}: {e}", file.display());
            let text = fs::read_to_string(&file).map_err(|e| fault(&e))?;
            entries.push(Entry {
                name: row.name.clone(),
                class: row.class,
                bench: serde_json::from_str(&text).map_err(|e| fault(&e))?,
            });
        }
    }
    Ok(entries)
}

#[cfg(test)]
mod tests;
