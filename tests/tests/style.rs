//! The house rules that a machine can check: sizes, where `unsafe` may live, words and formats. They are
//! promises of CONTRIBUTING.md; this test is what keeps them.

#[path = "style/tables.rs"]
mod tables;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Most lines of a file.
const FILE_LINES: usize = 500;
/// Most lines of a function outside tests.
const FUNCTION_LINES: usize = 60;
/// Crates that may hold `unsafe`.
const UNSAFE_HOMES: [&str; 2] = ["crates/neap-sys/", "crates/neap-preload/"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Every file of the repository with one of the endings: path from the top, and text.
fn files(endings: &[&str]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut dirs = vec![root()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).expect("a directory of the repository") {
            let entry = entry.expect("an entry");
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = entry.path();
            if path.is_dir() {
                if name != "target" && name != ".git" && name != "corpus" {
                    dirs.push(path);
                }
            } else if endings.iter().any(|ending| name.ends_with(ending)) {
                let below = path.strip_prefix(root()).unwrap_or(&path);
                let text = fs::read_to_string(&path).unwrap_or_default();
                found.push((below.to_string_lossy().into_owned(), text));
            }
        }
    }
    found.sort();
    assert!(
        !found.is_empty(),
        "no {endings:?} below {}",
        root().display()
    );
    found
}

fn none(faults: &[String]) {
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn no_file_is_longer_than_500_lines() {
    let long = files(&[".rs", ".c", ".h", ".sh"])
        .into_iter()
        .map(|(path, text)| (path, text.lines().count()))
        .filter(|(_, lines)| *lines > FILE_LINES)
        .map(|(path, lines)| format!("{path}: {lines} lines"));
    none(&long.collect::<Vec<_>>());
}

#[test]
fn no_function_is_longer_than_60_lines() {
    let mut long = Vec::new();
    for (path, text) in files(&[".rs"]) {
        let test = ["tests/", "/tests/", "tests.rs", "model.rs"];
        if test.iter().any(|part| path.contains(part)) {
            continue;
        }
        let bare = strip(&text);
        let code = bare.split("#[cfg(test)]").next().unwrap_or(&bare);
        for (name, at, lines) in functions(code) {
            if lines > FUNCTION_LINES {
                long.push(format!("{path}:{at}: fn {name} has {lines} lines"));
            }
        }
    }
    none(&long);
}

#[test]
fn unsafe_lives_in_two_crates_and_every_block_says_why() {
    let mut faults = Vec::new();
    for (path, text) in files(&[".rs"]) {
        let home = UNSAFE_HOMES.iter().any(|home| path.starts_with(home));
        let lines: Vec<&str> = text.lines().collect();
        let bare = strip(&text);
        for (i, line) in bare.lines().enumerate() {
            if !has_word(line, "unsafe") {
                continue;
            }
            if !home {
                faults.push(format!("{path}:{}: unsafe outside its homes", i + 1));
                continue;
            }
            let above = &lines[i.saturating_sub(10)..=i];
            let argued = ["SAFETY:", "# Safety"];
            // A function pointer type or an extern block makes no promise of its own.
            let promise = line.contains("unsafe {") || line.contains("unsafe impl");
            let said = above
                .iter()
                .any(|l| argued.iter().any(|word| l.contains(word)));
            if promise && !said {
                faults.push(format!("{path}:{}: no SAFETY comment above", i + 1));
            }
        }
    }
    none(&faults);
}

#[test]
fn every_other_crate_forbids_unsafe() {
    let mut faults = Vec::new();
    for (path, text) in files(&["/lib.rs", "lib.rs", "main.rs"]) {
        let entry = path.starts_with("crates/") && path.matches('/').count() == 3;
        let home = UNSAFE_HOMES.iter().any(|home| path.starts_with(home));
        if entry && !home && !text.contains("#![forbid(unsafe_code)]") {
            faults.push(format!("{path}: does not forbid unsafe code"));
        }
    }
    none(&faults);
}

#[test]
fn no_text_names_a_place_outside_the_repository() {
    // Put together here, so that this file does not name them.
    let words = [
        ["/wo", "rk/"].concat(),
        ["/tmp/", "neap/"].concat(),
        ["/tmp/", "target"].concat(),
        ["crates", ".io"].concat(),
        ["index.", "crates"].concat(),
    ];
    let mut faults = Vec::new();
    for (path, text) in files(&[".rs", ".c", ".h", ".md", ".toml", ".sh", "Makefile", "run"]) {
        for (i, line) in text.lines().enumerate() {
            if words.iter().any(|word| line.contains(word.as_str())) {
                faults.push(format!("{path}:{}: {}", i + 1, line.trim()));
            }
        }
    }
    none(&faults);
}

#[test]
fn nothing_is_left_to_be_done_later_in_code() {
    let words = [["TO", "DO"], ["FIX", "ME"], ["XX", "X"]].map(|word| word.concat());
    let macros = [["todo", "!("], ["unimplemented", "!("]].map(|word| word.concat());
    let mut faults = Vec::new();
    for (path, text) in files(&[".rs", ".c", ".h", ".sh"]) {
        for (i, line) in text.lines().enumerate() {
            let word = words.iter().any(|word| has_word(line, word));
            if word || macros.iter().any(|call| line.contains(call.as_str())) {
                faults.push(format!("{path}:{}: {}", i + 1, line.trim()));
            }
        }
    }
    none(&faults);
}

#[test]
fn times_and_sizes_of_the_engine_stand_in_the_list_of_what_neap_chose() {
    let makers = ["Duration::from_", "Nanos::", "Nanos(", "Bytes::", "Bytes("];
    let starts = |rest: &str| rest.starts_with(|c| ('1'..='9').contains(&c));
    for (path, text) in files(&[".rs"]) {
        let is_test = path.contains("/tests") || path.contains("/dst/");
        let engine = path.starts_with("crates/neap-engine/src/") && !is_test;
        let code = text.split("#[cfg(test)]").next().filter(|_| engine);
        for (i, line) in strip(code.unwrap_or_default()).lines().enumerate() {
            let mut made = makers.iter().flat_map(|maker| line.split(maker).skip(1));
            let value = |rest: &str| starts(rest.trim_start_matches(|c: char| !c.is_numeric()));
            let at_once = |rest: &str| value(rest.split([',', ')', '.']).next().unwrap_or(rest));
            assert!(!made.any(at_once), "{path}:{}: not in neap-tuning", i + 1);
        }
    }
}

#[test]
fn the_changelog_keeps_its_format() {
    const KINDS: [&str; 6] = [
        "Added",
        "Changed",
        "Deprecated",
        "Removed",
        "Fixed",
        "Security",
    ];
    let text = fs::read_to_string(root().join("CHANGELOG.md")).expect("CHANGELOG.md");
    assert!(text.starts_with("# Changelog\n"));
    let mut versions = Vec::new();
    for line in text.lines() {
        if let Some(kind) = line.strip_prefix("### ") {
            assert!(KINDS.contains(&kind), "{kind:?} is none of {KINDS:?}");
        } else if let Some(version) = line.strip_prefix("## ") {
            versions.push(version);
        }
    }
    assert_eq!(versions.first(), Some(&"[Unreleased]"));
    for version in &versions[1..] {
        let dated = version.split_once("] - ").is_some_and(|(number, date)| {
            number.starts_with('[') && number.matches('.').count() == 2 && is_date(date)
        });
        assert!(dated, "{version:?} is not [X.Y.Z] - YYYY-MM-DD");
    }
}

fn is_date(text: &str) -> bool {
    text.len() == 10
        && text.bytes().enumerate().all(|(i, byte)| match i {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        })
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut faults = Vec::new();
    for (path, text) in files(&[".md"]) {
        let dir = root().join(&path);
        let dir = dir.parent().expect("a file lies in a directory");
        for target in text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
        {
            let file = target.split('#').next().unwrap_or(target);
            let outside = file.is_empty() || file.contains("://");
            if !outside && !dir.join(file).exists() {
                faults.push(format!("{path}: {target} is not there"));
            }
        }
    }
    none(&faults);
}

#[test]
fn files_that_documents_name_are_there() {
    let mut faults = Vec::new();
    for (path, text) in files(&[".md"]) {
        for name in text.split('`').skip(1).step_by(2) {
            let source = name.starts_with("neap-") && name.contains("/src/");
            if source && !root().join("crates").join(name).exists() {
                faults.push(format!("{path}: {name} is not there"));
            }
        }
    }
    none(&faults);
}

/// "SPEC 1.9" in a comment or a document is a heading "1.9 ..." in docs/kernel.
#[test]
fn every_rule_of_the_kernel_that_is_cited_can_be_opened() {
    let texts = files(&[".rs", ".md"]);
    let mut faults = Vec::new();
    let mut rules = BTreeSet::new();
    let chapters = texts
        .iter()
        .filter(|(path, _)| path.starts_with("docs/kernel/"));
    for line in chapters.flat_map(|(_, text)| text.lines()) {
        let title = line
            .strip_prefix('#')
            .unwrap_or("")
            .trim_matches(['#', ' ']);
        for number in numbers(title).into_iter().take(1) {
            if !rules.insert(number) {
                faults.push(format!("docs/kernel: {number} is there twice"));
            }
        }
    }
    let mut cited = 0;
    for (path, text) in &texts {
        for (i, line) in text.lines().enumerate() {
            let row = line
                .strip_prefix("| ")
                .filter(|_| path.ends_with("spec-tests.md"));
            for number in line.split("SPEC ").skip(1).chain(row).flat_map(numbers) {
                cited += 1;
                if !rules.contains(number) {
                    faults.push(format!("{path}:{}: docs/kernel has no {number}", i + 1));
                }
            }
        }
    }
    assert!(cited > 100, "only {cited} rules are cited");
    none(&faults);
}

/// The numbers that a text begins with: three in "1.9, 3.2-3.9: what is put where".
fn numbers(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = Some(text);
    while let Some(text) = rest {
        let is_part = |c: char| c.is_ascii_digit() || c == '.';
        let end = text.find(|c| !is_part(c)).unwrap_or(text.len());
        let number = text[..end].trim_end_matches('.');
        if number.is_empty() {
            break;
        }
        found.push(number);
        let behind = &text[number.len()..];
        let joints = [", ", " and ", " to ", "-"];
        rest = joints.iter().find_map(|joint| behind.strip_prefix(joint));
    }
    found
}

#[test]
fn every_variable_and_error_code_is_documented() {
    let text =
        |path: &str| fs::read_to_string(root().join(path)).expect("a file of the repository");
    let reference = text("docs/guide/reference.md");
    let mut faults = Vec::new();
    for (file, prefix) in [
        ("crates/neap-cli/src/env.rs", "\"NEAP_"),
        ("crates/neap-cli/src/failure.rs", "\"E01"),
    ] {
        let source = text(file);
        let code = source.split("#[cfg(test)]").next().unwrap_or(&source);
        for rest in code.split(prefix).skip(1) {
            let word = rest.split('"').next().unwrap_or(rest);
            let name = format!("{}{word}", &prefix[1..]);
            if !reference.contains(&name) {
                faults.push(format!("docs/guide/reference.md: {name} is missing"));
            }
        }
    }
    none(&faults);
}

/// Each row of these tables names a test, as `file.rs::name`, or says pending.
#[test]
fn every_promise_names_a_test_that_exists() {
    promises("SPECIFICATION.md", false);
    promises("docs/design/spec-tests.md", true);
}

/// `pending`: whether a row may say that it is.
fn promises(document: &str, pending: bool) {
    let text = fs::read_to_string(root().join(document)).expect("a document");
    let heads = ["| promise", "| SPEC", "| ---"];
    let is_head = |line: &str| heads.iter().any(|head| line.starts_with(head));
    let rows = text
        .lines()
        .filter(|line| line.starts_with("| ") && !is_head(line));
    let mut faults = Vec::new();
    let mut seen = 0;
    for row in rows {
        seen += 1;
        let shown = row
            .trim_end_matches([' ', '|'])
            .rsplit("| ")
            .next()
            .unwrap_or("");
        if pending && shown.starts_with("pending") {
            continue;
        }
        for test in shown.split('`').skip(1).step_by(2) {
            let known = test.split_once("::").is_some_and(|(file, name)| {
                fs::read_to_string(root().join(file)).is_ok_and(|text| {
                    // Or a line of a table that a macro makes tests of.
                    text.contains(&format!("fn {name}("))
                        || text.contains(&format!("    {name}: \""))
                })
            });
            if !known {
                faults.push(format!("{document}: {test} is not there"));
            }
        }
        if !shown.contains('`') {
            faults.push(format!("{document}: no test: {row}"));
        }
    }
    assert!(seen > 0, "{document} has no table");
    none(&faults);
}

fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

/// The text with comments, strings and character literals blanked out and every line kept.
fn strip(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < bytes.len() {
        let end = token_end(bytes, at);
        if end == at + 1 {
            out.push(if bytes[at].is_ascii() {
                char::from(bytes[at])
            } else {
                ' '
            });
        } else {
            out.extend(bytes[at..end].iter().filter(|&&b| b == b'\n').map(|_| '\n'));
            out.push(' ');
        }
        at = end;
    }
    out
}

/// Where the comment or literal that starts at `at` ends; the next byte if none does.
fn token_end(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    let find = |needle: &[u8], from: usize| {
        let from = from.min(rest.len());
        rest[from..]
            .windows(needle.len())
            .position(|w| w == needle)
            .map_or(bytes.len(), |i| at + from + i + needle.len())
    };
    let in_word = at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_');
    match rest {
        [b'/', b'/', ..] => find(b"\n", 0).saturating_sub(1).max(at + 2),
        [b'/', b'*', ..] => find(b"*/", 2),
        [b'"', ..] => quoted_end(bytes, at + 1),
        [b'r', b'"', ..] if !in_word => find(b"\"", 2),
        [b'r', b'#', b'"', ..] if !in_word => find(b"\"#", 3),
        [b'\'', b'\\', ..] => find(b"'", 3),
        [b'\'', _, b'\'', ..] => at + 3,
        _ => at + 1,
    }
}

fn quoted_end(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Name, line and length in lines of each function with a body, in stripped code.
fn functions(code: &str) -> Vec<(String, usize, usize)> {
    let lines: Vec<&str> = code.lines().collect();
    let mut found = Vec::new();
    for (i, line) in lines.iter().enumerate() {
        let Some((_, rest)) = line.split_once("fn ").filter(|_| has_word(line, "fn")) else {
            continue;
        };
        let name: String = rest
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect();
        if name.is_empty() {
            continue;
        }
        if let Some(length) = body_length(&lines[i..]) {
            found.push((name, i + 1, length));
        }
    }
    found
}

/// Lines from the first to the brace that closes the body; `None` for a declaration.
fn body_length(lines: &[&str]) -> Option<usize> {
    let mut depth = 0i32;
    let mut open = false;
    let mut brackets = 0i32;
    for (i, line) in lines.iter().enumerate() {
        for c in line.chars() {
            match c {
                '{' => (depth, open) = (depth + 1, true),
                '}' => depth -= 1,
                // An array type holds a semicolon too.
                '[' => brackets += 1,
                ']' => brackets -= 1,
                ';' if !open && brackets == 0 => return None,
                _ => {}
            }
            if open && depth == 0 {
                return Some(i + 1);
            }
        }
    }
    None
}

#[test]
fn the_checker_itself_sees_through_comments_and_strings() {
    let code = "fn a() {\n  // WORD {\n  let s = \"} WORD\";\n  let c = '}';\n}\nfn b();\n"
        .replace("WORD", "unsafe");
    let code = code.as_str();
    let bare = strip(code);
    assert!(!has_word(&bare, "unsafe"));
    assert_eq!(functions(&bare), [("a".to_owned(), 1, 5)]);
    assert!(has_word("an unsafe word", "unsafe") && !has_word("unsafely", "unsafe"));
}
