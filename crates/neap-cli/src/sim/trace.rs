//! `neap sim import` and `replay`, and what `forecast` shares with them.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;

use neap_sim::{
    Bytes, ForecastMachine, ImportFault, Lackey, MAX_SWAP_LATENCY, MGLRU_SINCE, Nanos, PageModel,
    Size, forecast as predict, from_lackey, from_oracle, page_model, parse_duration, parse_size,
    parse_version,
};
use neap_tuning::TUNING;

use super::failure::Failure;
use super::flags::{Format, ImportArgs, MachineArgs, ReplayArgs};
use super::forecast::{models, no_model, table};
use super::output::{Output, distinct};
use super::print;
use super::record;
use super::workload::{as_json, read_trace};
use crate::talk;

/// The flags of the imagined machine.
const MACHINE: &str =
    "--kernel, --mglru, --swap-size, --swap-latency, --zswap, --compressor and --seed";

pub(super) fn flag(flag: &'static str, fault: impl Into<String>) -> Failure {
    Failure::Flag {
        flag,
        fault: fault.into(),
    }
}

pub(super) fn time(name: &'static str, text: &str) -> Result<Nanos, Failure> {
    let wanted = "write one of at most 366 days, such as 250ns, 10us, 5ms or 1s";
    parse_duration(text).ok_or_else(|| flag(name, format!("{text:?} is no time: {wanted}")))
}

pub(super) fn size(name: &'static str, text: &str) -> Result<Size, Failure> {
    // One line, without the caret: in a list it would not be seen which size is meant.
    parse_size(text).map_err(|error| flag(name, format!("{text:?} is no size: {}", error.fault())))
}

pub(super) fn bytes(name: &'static str, text: &str) -> Result<Bytes, Failure> {
    match size(name, text)? {
        Size::Bytes(bytes) => Ok(bytes),
        Size::Percent(_) => Err(flag(name, "a percentage has nothing to be a share of here")),
    }
}

/// The first bytes of what compressors write: a zstd frame (RFC 8878, 3.1.1), a gzip member of deflate (RFC 1952, 2.3),
/// an xz stream (its format 1.2.0, 2.1.1).
const COMPRESSED: [(&str, &[u8]); 3] = [
    ("zstd", &[0x28, 0xb5, 0x2f, 0xfd]),
    ("gzip", &[0x1f, 0x8b, 8]),
    ("xz", &[0xfd, b'7', b'z', b'X', b'Z', 0]),
];

/// Finds what is no recording of any format: no byte, or one that must be unpacked first.
fn readable(input: &mut dyn BufRead) -> Result<(), ImportFault> {
    let first = input.fill_buf()?;
    let packed = COMPRESSED
        .iter()
        .find(|(_, magic)| first.starts_with(magic));
    match packed {
        Some((name, _)) => Err(ImportFault::Compressed(name)),
        None if first.is_empty() => Err(ImportFault::Empty),
        None => Ok(()),
    }
}

/// The flags of lackey, which others do not have.
fn rules(args: &ImportArgs) -> Result<Lackey, Failure> {
    let (window, thousand) = (&args.window, &args.thousand_instructions);
    let given = window.is_some() || thousand.is_some() || args.window_pages.is_some();
    if given && args.from != Format::Lackey {
        return Err(flag(
            "--window, --window-pages and --thousand-instructions",
            "are of lackey: leave them out",
        ));
    }
    let or = |text: &Option<String>, default: &str| text.clone().unwrap_or(default.to_owned());
    Ok(Lackey {
        thousand_instructions: time("--thousand-instructions", &or(thousand, "400ns"))?,
        window: time("--window", &or(window, "2ms"))?,
        window_pages: args.window_pages.unwrap_or(256),
    })
}

/// What was cut of the objects of a cache's trace.
fn warn_of_cut(path: &Path, cut: u64) {
    if cut > 0 {
        talk::warn(&format!(
            "{}: objects of more than 2 MiB are cut to that: {cut}",
            path.display()
        ));
    }
}

/// Makes a trace of a recording.
pub fn import(args: &ImportArgs) -> Result<(), Failure> {
    let read = |source| Failure::Read {
        path: args.input.clone(),
        source,
    };
    let rules = rules(args)?;
    let written = [("--output", Some(&*args.output))];
    distinct(&[("FILE", Some(&args.input))], &written)?;
    let mut input: Box<dyn BufRead> = if args.input == Path::new("-") {
        Box::new(BufReader::with_capacity(1 << 20, io::stdin()))
    } else {
        Box::new(BufReader::with_capacity(
            1 << 20,
            File::open(&args.input).map_err(read)?,
        ))
    };
    let output = Output::open(&args.output)?;
    let trace = readable(&mut input).and_then(|()| match args.from {
        Format::Lackey => {
            let (trace, broken) = from_lackey(input, rules)?;
            if broken > 0 {
                let path = args.input.display();
                talk::warn(&format!(
                    "{path}: {broken} lines begin as lackey's do and cannot be read: they are left out"
                ));
            }
            Ok(trace)
        }
        Format::OracleGeneral => {
            let (trace, cut) = from_oracle(input)?;
            warn_of_cut(&args.input, cut);
            Ok(trace)
        }
        Format::Record => record::convert(&args.input, input),
    });
    let trace = trace.map_err(|source| match source {
        ImportFault::Read(source) => read(source),
        source => Failure::Import {
            path: args.input.clone(),
            source,
        },
    })?;
    let encoded = trace.encode();
    output.write(&encoded)?;
    talk::note(&format!(
        "{}: {} pages, {} of work, {} on disk",
        args.output.display(),
        trace.pages(),
        trace.duration(),
        Bytes(encoded.len() as u64)
    ));
    Ok(())
}

pub(super) fn machine(args: &MachineArgs) -> Result<ForecastMachine, Failure> {
    let version = parse_version(args.version());
    let fault = || {
        flag(
            "--kernel",
            format!(
                "{:?} is no version from 6.0 to 6.19: write 6.12",
                args.version()
            ),
        )
    };
    let version = version.ok_or_else(fault)?;
    if args.mglru && version < MGLRU_SINCE {
        return Err(flag(
            "--mglru",
            "is not in that kernel: write --kernel 6.1 or later",
        ));
    }
    let swap_size = bytes("--swap-size", args.swap_size.as_deref().unwrap_or("64G"))?;
    if !(Bytes::kib(4)..=Bytes::gib(1 << 10)).contains(&swap_size) {
        return Err(flag("--swap-size", "write a size from 4K to 1T"));
    }
    let swap_latency = time(
        "--swap-latency",
        args.swap_latency.as_deref().unwrap_or("100us"),
    )?;
    if swap_latency > MAX_SWAP_LATENCY {
        return Err(flag("--swap-latency", "write at most 10s"));
    }
    Ok(ForecastMachine {
        version,
        mglru: args.mglru,
        swap_size,
        swap_latency,
        zswap: args.zswap,
        pages: None,
        seed: args.seed(),
    })
}

/// What the compressor that was asked for makes of pages.
fn pages(args: &ReplayArgs) -> Result<Option<PageModel>, Failure> {
    let Some(kind) = args.compressor else {
        return Ok(None);
    };
    let models = models(args.models.as_deref())?;
    let compressor = kind.to_string();
    let model = page_model(&models, &compressor, args.content.as_deref());
    model
        .map(Some)
        .map_err(|unknown| no_model(&compressor, &unknown))
}

/// The limit to run under.
fn limit(args: &ReplayArgs) -> Result<Option<Bytes>, Failure> {
    let limit = args.memory.as_deref();
    let limit = limit.map(|text| bytes("--memory", text)).transpose()?;
    match limit {
        Some(limit) if limit < TUNING.forecast.least => {
            let fault = "write at least 64K: no program runs in less";
            Err(flag("--memory", fault))
        }
        limit => Ok(limit),
    }
}

/// Runs a trace once.
pub fn replay(args: &ReplayArgs) -> Result<(), Failure> {
    if args.memory.is_none() && record::is_record(&args.trace) {
        if args.machine.any() {
            let fault = "a record's decisions are made again as they were: add -m SIZE to run it as a trace";
            return Err(flag(MACHINE, fault));
        }
        return record::replay(args);
    }
    if args.decisions.is_some() || args.recorded.is_some() {
        let fault = format!("{} is no record of neap run", args.trace.display());
        return Err(flag("--decisions and --recorded", fault));
    }
    // Before the trace, which may be long to read.
    let limit = limit(args)?;
    let machine = ForecastMachine {
        pages: pages(args)?,
        ..machine(&args.machine)?
    };
    let trace = Arc::new(read_trace(&args.trace)?);
    if args.json {
        let mut run = machine.workload(&trace, limit).run();
        return print(format!("{}\n", as_json(&mut run)));
    }
    let point = predict(&machine, &trace, &[limit.unwrap_or(Bytes(u64::MAX))]);
    print(table(&point).text())
}
