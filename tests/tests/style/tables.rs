//! The tables of threads and locks in ARCHITECTURE.md are those of the code.

use std::collections::BTreeSet;

use super::{files, none};

/// Rows of the table under a heading of ARCHITECTURE.md, as cells.
fn rows(heading: &str) -> Vec<Vec<String>> {
    let texts = files(&["ARCHITECTURE.md"]);
    let (_, rest) = texts[0].1.split_once(heading).expect("the heading");
    let lines = rest.lines().skip_while(|line| !line.starts_with("| ---"));
    lines
        .skip(1)
        .map_while(|line| line.strip_prefix("| "))
        .map(|line| line.split(" | ").map(str::to_owned).collect())
        .collect()
}

/// Sources of what runs, without the tests in them.
fn sources() -> impl Iterator<Item = (String, String)> {
    let is_test = |path: &str| path.contains("/tests") || path.contains("/dst/");
    files(&[".rs"])
        .into_iter()
        .filter(move |(path, _)| path.starts_with("crates/") && !is_test(path))
        .map(|(path, text)| {
            let code = text.split("#[cfg(test)]\nmod tests").next();
            (path, code.unwrap_or_default().to_owned())
        })
}

/// `main` has no name of its own, and the agent is a process.
#[test]
fn every_thread_is_in_the_table_and_the_table_has_no_other() {
    let started: BTreeSet<String> = sources()
        .flat_map(|(_, code)| {
            let calls = ["spawn(\"neap-", "Thread::start(\"neap-", ".name(\"neap-"];
            let names = calls.map(|call| {
                code.split(call)
                    .skip(1)
                    .filter_map(|rest| rest.split_once('"'))
                    .map(|(name, _)| format!("neap-{name}"))
                    .collect::<Vec<_>>()
            });
            names.into_iter().flatten()
        })
        .collect();
    let told: BTreeSet<String> = rows("\n## Threads\n")
        .iter()
        .filter_map(|row| row[0].split('`').nth(1).map(str::to_owned))
        .filter(|name| name != "neap-agent")
        .collect();
    assert!(started.len() > 20, "only {started:?}");
    let missing = started
        .difference(&told)
        .map(|name| format!("{name} is not in the table"));
    let more = told
        .difference(&started)
        .map(|name| format!("nobody starts {name}"));
    none(&missing.chain(more).collect::<Vec<_>>());
}

/// A row may name a file: then that has a lock of the row's order, and none of another that no row has for it.
#[test]
fn locks_of_a_file_that_the_table_names_have_the_orders_that_it_says() {
    let told: BTreeSet<(String, String)> = rows("\n## Locks\n")
        .iter()
        .filter_map(|row| {
            let file = row[1]
                .split('`')
                .nth(1)
                .filter(|name| name.ends_with(".rs"))?;
            Some((file.to_owned(), row[0].clone()))
        })
        .collect();
    let named: BTreeSet<&String> = told.iter().map(|(file, _)| file).collect();
    let mut found = BTreeSet::new();
    for (path, code) in sources() {
        let Some(file) = path.strip_prefix("crates/neap-engine/src/") else {
            continue;
        };
        for kind in ["Lock<", "Gate<"] {
            let types = code
                .split(kind)
                .skip(1)
                .filter_map(|rest| rest.split([';', '\n', '{']).next());
            let orders = types.filter_map(|text| {
                let (_, order) = text.rsplit_once(", ")?;
                let order = order.split('>').next()?;
                order.parse::<u8>().ok()
            });
            found.extend(orders.map(|order| (file.to_owned(), order.to_string())));
        }
    }
    assert!(named.len() > 10, "only {named:?}");
    found.retain(|(file, _)| named.contains(file));
    let faults = found.symmetric_difference(&told);
    none(
        &faults
            .map(|(file, order)| format!("{file}: order {order}"))
            .collect::<Vec<_>>(),
    );
}
