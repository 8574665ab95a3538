//! The whole way in and the whole way out: a program under `neap run` that measures its own accesses.
//!
//! `fault` is a random read of a heap of which half is resident, and so half a fault; `evict` is the first
//! write of a page while neap makes room, over the whole heap, of which the first half needs none.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};

/// The heap in MiB, what neap lets it have, and the reads.
const MIB: &str = "128";
const LIMIT: &str = "64M";
const READS: &str = "65536";

/// `NEAP_BIN`, or where cargo puts it.
fn neap() -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    let built = own.parent()?.parent()?.join("neap");
    let neap = std::env::var_os("NEAP_BIN").map_or(built, PathBuf::from);
    neap.exists().then_some(neap)
}

/// Nanoseconds for each page that is filled, and for each read, of one run under `runner`.
fn measured(runner: &[&str], work: &str) -> Option<(u64, u64)> {
    let words = [runner, &[work, "faults", MIB, READS]].concat();
    let output = Command::new(words[0]).args(&words[1..]).output().ok()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let line = said.lines().find(|line| line.starts_with("fill "))?;
    let mut numbers = line.split(' ').filter_map(|word| word.parse().ok());
    numbers
        .next()
        .zip(numbers.next())
        .filter(|_| output.status.success())
}

fn paths(c: &mut Criterion) {
    let Some(neap) = neap() else {
        eprintln!("paths: no neap: cargo build --release -p neap-cli -p neap-suite, or NEAP_BIN");
        return;
    };
    let work = neap.with_file_name("neap-work");
    let (neap, work) = (neap.to_string_lossy(), work.to_string_lossy());
    let work: &str = &work;
    let limited = [&neap, "run", "--require", "-m", LIMIT, "--"];
    let ways: [(&str, &[&str]); 2] = [("plain", &[]), ("neap", &limited)];
    let mut group = c.benchmark_group("paths");
    group.sample_size(10);
    for (name, runner) in ways {
        if measured(runner, work).is_none() {
            eprintln!(
                "paths: {name}: the run fails; try it by hand: {} {work} faults {MIB} {READS}",
                runner.join(" ")
            );
            continue;
        }
        // A run has its own number of accesses; what criterion asks for is a multiple of their mean.
        let nanos = |of: fn((u64, u64)) -> u64| {
            move |times: u64| Duration::from_nanos(measured(runner, work).map_or(0, of) * times)
        };
        let (fault, evict) = (nanos(|(_, read)| read), nanos(|(fill, _)| fill));
        group.bench_function(format!("fault/{name}"), |b| b.iter_custom(&fault));
        group.bench_function(format!("evict/{name}"), |b| b.iter_custom(&evict));
    }
}

criterion_group!(benches, paths);
criterion_main!(benches);
