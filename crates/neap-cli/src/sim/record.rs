//! Records of `neap run --record`: replayed through the core and the deciders that made them, or made a trace of.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use neap_record::{
    Answer, Call, Counts, End, Header, MAGIC, Place, Reader, Replay, Who, counter_names,
};
use neap_sim::{Align, Bytes, ImportFault, Nanos, Table, Trace, count, from_record};
use serde_json::{Map, Value, json};

use super::failure::Failure;
use super::flags::ReplayArgs;
use super::output::{Output, distinct, is_stdout};
use super::print;
use super::trace::flag;
use crate::talk;

/// Whether a file begins as records do. One that cannot be read does not, and a pipe is left alone: what
/// is read of it is gone.
pub fn is_record(path: &Path) -> bool {
    if !path.is_file() {
        return false;
    }
    let mut first = [0; MAGIC.len()];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut first));
    read.is_ok() && first == *MAGIC
}

fn open(path: &Path) -> Result<BufReader<File>, Failure> {
    let file = File::open(path).map_err(|source| Failure::Read {
        path: path.to_owned(),
        source,
    })?;
    Ok(BufReader::with_capacity(1 << 18, file))
}

/// One line when a record does not go on to its end.
fn warn_of(path: &Path, end: End) {
    let path = path.display();
    match end {
        End::Whole => {}
        End::Cut(at) => talk::warn(&format!(
            "{path}: cut short at byte {at}: what comes before it is used"
        )),
        End::Damaged(at) => talk::warn(&format!(
            "{path}: damaged at byte {at}: what comes before it is used"
        )),
        End::Unreadable(kind) => talk::warn(&format!(
            "{path}: cannot be read further ({kind}): what comes before is used"
        )),
    }
}

/// A trace of what the engine saw of accesses.
pub fn convert(path: &Path, input: impl Read) -> Result<Trace, ImportFault> {
    let (trace, end) = from_record(input)?;
    warn_of(path, end);
    Ok(trace)
}

/// A record where a trace is wanted.
pub fn as_trace(path: &Path) -> Result<Trace, Failure> {
    talk::warn(&format!(
        "{}: a record holds no touches of pages that stayed in memory: below its limit it knows too few",
        path.display()
    ));
    convert(path, open(path)?).map_err(|source| Failure::Import {
        path: path.to_owned(),
        source,
    })
}

/// A file of one line for each decision, or none.
struct Lines(Option<(PathBuf, Box<dyn Write>)>);

impl Lines {
    fn create(path: Option<&PathBuf>) -> Result<Lines, Failure> {
        let create = |path: &PathBuf| Ok((path.clone(), Output::open(path)?.stream()?));
        path.map(create).transpose().map(Lines)
    }

    fn with(
        &mut self,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), Failure> {
        match &mut self.0 {
            None => Ok(()),
            Some((path, file)) => write(file.as_mut()).map_err(|source| Failure::Write {
                path: path.clone(),
                source,
            }),
        }
    }

    fn line(&mut self, call: &Call, place: Place, answer: Option<&Answer>) -> Result<(), Failure> {
        self.with(|file| match answer {
            Some(answer) => writeln!(file, "{call}{place}: {answer}"),
            None => writeln!(file, "{call}{place}: cannot be asked"),
        })
    }
}

/// The first call that was answered otherwise.
struct Difference {
    line: u64,
    call: String,
    recorded: String,
    replayed: String,
}

#[derive(Default)]
struct Tally {
    header: Header,
    bytes: u64,
    calls: u64,
    /// Of these, by the name of who was asked.
    deciders: BTreeMap<&'static str, u64>,
    faults: u64,
    nanos: u64,
    different: u64,
    first: Option<Difference>,
}

/// Whether lines take standard output, which then has no table; refuses more than one thing there.
fn one_on_stdout(args: &ReplayArgs) -> Result<bool, Failure> {
    let lines = [&args.decisions, &args.recorded].into_iter().flatten();
    let lines = lines.filter(|path| is_stdout(path)).count();
    if lines + usize::from(args.json) > 1 {
        let fault = "only one of them can be standard output";
        return Err(flag("--decisions, --recorded and --json", fault));
    }
    Ok(lines > 0)
}

/// Asks the core and the deciders beside it again what they were asked, and compares.
pub fn replay(args: &ReplayArgs) -> Result<(), Failure> {
    let path = &args.trace;
    let written = [
        ("--decisions", args.decisions.as_deref()),
        ("--recorded", args.recorded.as_deref()),
    ];
    let quiet = one_on_stdout(args)?;
    distinct(&[("FILE", Some(path))], &written)?;
    let mut record = Reader::open(open(path)?).map_err(|source| Failure::Record {
        path: path.clone(),
        source,
    })?;
    let mut now = Lines::create(args.decisions.as_ref())?;
    let mut then = Lines::create(args.recorded.as_ref())?;
    let mut core = Replay::new();
    let mut tally = Tally {
        header: record.header(),
        ..Tally::default()
    };
    for (call, recorded) in record.by_ref() {
        match call {
            Call::Time(nanos) => tally.nanos = tally.nanos.saturating_add(nanos),
            Call::Fault(..) => tally.faults += 1,
            _ => {}
        }
        let done = core.step(&call);
        if !call.is_call() {
            continue;
        }
        tally.count(&call);
        now.line(&call, done.place, done.answer.as_ref())?;
        then.line(&call, done.place, Some(&recorded))?;
        let answer = done.answer.as_ref();
        if !answer.is_some_and(|answer| answer.agrees_with(&recorded)) {
            tally.differs(&call, done.place, &recorded, done.answer.as_ref());
        }
    }
    now.with(|file| file.flush())?;
    then.with(|file| file.flush())?;
    tally.bytes = record.bytes();
    let end = record.end().unwrap_or(End::Whole);
    warn_of(path, end);
    let counts = Counts::of(core.core());
    if args.json {
        print(format!("{}\n", tally.json(end, &counts)))?;
    } else if !quiet {
        print(tally.text(&counts))?;
    } else if let Some(first) = &tally.first {
        talk::note(&first.text());
    }
    match tally.different {
        0 if tally.calls == 0 && end != End::Whole => Err(Failure::Nothing { path: path.clone() }),
        0 => Ok(()),
        different => Err(Failure::Differs {
            path: path.clone(),
            different,
            calls: tally.calls,
        }),
    }
}

/// The counters with their names.
fn named(counts: &Counts) -> Vec<(&'static str, u64)> {
    counter_names()
        .into_iter()
        .zip(counts.vmstat.iter().copied())
        .collect()
}

impl Difference {
    fn text(&self) -> String {
        format!(
            "first difference, line {}: {}\n  recorded: {}\n  replayed: {}",
            self.line, self.call, self.recorded, self.replayed
        )
    }
}

impl Tally {
    fn count(&mut self, call: &Call) {
        self.calls += 1;
        let decider = call.decider().map_or("core", Who::name);
        *self.deciders.entry(decider).or_default() += 1;
    }

    fn differs(&mut self, call: &Call, place: Place, recorded: &Answer, now: Option<&Answer>) {
        self.different += 1;
        let line = self.calls;
        self.first.get_or_insert_with(|| Difference {
            line,
            call: format!("{call}{place}"),
            recorded: recorded.to_string(),
            replayed: now.map_or_else(|| "cannot be asked".to_owned(), ToString::to_string),
        });
    }

    fn text(&self, counts: &Counts) -> String {
        let mut table = Table::new(&[("", Align::Left), ("", Align::Right)]);
        let mut row = |name: &str, value: String| table.row(vec![name.to_owned(), value]);
        row("limit", Bytes(self.header.limit).to_string());
        row("recorded time", Nanos(self.nanos).to_string());
        row("bytes", count(self.bytes));
        row("faults", count(self.faults));
        row("decisions", count(self.calls));
        for (name, &calls) in &self.deciders {
            row(&format!("  of {name}"), count(calls));
        }
        row("equal", count(self.calls - self.different));
        row("different", count(self.different));
        row("resident at the end", count(counts.resident));
        for (name, value) in named(counts) {
            row(name, count(value));
        }
        let mut text = table.text();
        if let Some(first) = &self.first {
            text.push_str(&format!("\n{}\n", first.text()));
        }
        text
    }

    fn json(&self, end: End, counts: &Counts) -> Value {
        let vmstat: Map<String, Value> = named(counts)
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value.into()))
            .collect();
        let first = self.first.as_ref().map(|first| {
            json!({
                "line": first.line,
                "call": first.call,
                "recorded": first.recorded,
                "replayed": first.replayed,
            })
        });
        json!({
            "schema": "neap.record-replay/1",
            "version": env!("CARGO_PKG_VERSION"),
            "whole": end == End::Whole,
            "limit_bytes": self.header.limit,
            "seconds": self.nanos as f64 / 1e9,
            "bytes": self.bytes,
            "faults": self.faults,
            "decisions": self.calls,
            "deciders": self.deciders,
            "equal": self.calls - self.different,
            "different": self.different,
            "first_difference": first,
            "resident_pages": counts.resident,
            "vmstat": vmstat,
        })
    }
}
