//! `neap sim import`, `replay` and `forecast`.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;

use neap_sim::{
    Align, Bytes, Curve, ForecastMachine, Lackey, Nanos, Plot, Size, Table, Trace,
    forecast as predict, from_lackey, from_oracle, number, parse_duration, parse_size,
    parse_version,
};
use serde_json::json;

use super::failure::Failure;
use super::flags::{ForecastArgs, Format, ImportArgs, MachineArgs, ReplayArgs};
use super::workload::{as_json, read_trace};
use super::{print, write};
use crate::talk;

fn flag(flag: &'static str, fault: impl Into<String>) -> Failure {
    Failure::Flag {
        flag,
        fault: fault.into(),
    }
}

fn time(name: &'static str, text: &str) -> Result<Nanos, Failure> {
    let wanted = "write one of at most 366 days, such as 250ns, 10us, 5ms or 1s";
    parse_duration(text).ok_or_else(|| flag(name, format!("{text:?} is no time: {wanted}")))
}

fn size(name: &'static str, text: &str) -> Result<Size, Failure> {
    parse_size(text).map_err(|error| flag(name, error.to_string()))
}

fn bytes(name: &'static str, text: &str) -> Result<Bytes, Failure> {
    match size(name, text)? {
        Size::Bytes(bytes) => Ok(bytes),
        Size::Percent(_) => Err(flag(name, "a percentage has nothing to be a share of here")),
    }
}

/// Makes a trace of a recording.
pub fn import(args: &ImportArgs) -> Result<(), Failure> {
    let read = |source| Failure::Read {
        path: args.input.clone(),
        source,
    };
    let rules = Lackey {
        thousand_instructions: time("--thousand-instructions", &args.thousand_instructions)?,
        window: time("--window", &args.window)?,
    };
    let input: Box<dyn BufRead> = if args.input == Path::new("-") {
        Box::new(BufReader::with_capacity(1 << 20, io::stdin()))
    } else {
        Box::new(BufReader::with_capacity(
            1 << 20,
            File::open(&args.input).map_err(read)?,
        ))
    };
    let trace = match args.from {
        Format::Lackey => from_lackey(input, rules),
        Format::OracleGeneral => from_oracle(input),
    };
    let trace = trace.map_err(|source| Failure::Import {
        path: args.input.clone(),
        source,
    })?;
    let encoded = trace.encode();
    fs::write(&args.output, &encoded).map_err(|source| Failure::Write {
        path: args.output.clone(),
        source,
    })?;
    talk::note(&format!(
        "{}: {} pages, {} of work, {} on disk",
        args.output.display(),
        number(f64::from(trace.pages())),
        trace.duration(),
        Bytes(encoded.len() as u64)
    ));
    Ok(())
}

fn machine(args: &MachineArgs) -> Result<ForecastMachine, Failure> {
    let version = parse_version(&args.kernel);
    let fault = || {
        flag(
            "--kernel",
            format!(
                "{:?} is no version from 6.0 to 6.19: write 6.12",
                args.kernel
            ),
        )
    };
    let swap_size = bytes("--swap-size", &args.swap_size)?;
    if !(Bytes::kib(4)..=Bytes::gib(1 << 10)).contains(&swap_size) {
        return Err(flag("--swap-size", "write a size from 4K to 1T"));
    }
    Ok(ForecastMachine {
        version: version.ok_or_else(fault)?,
        mglru: args.mglru,
        swap_size,
        swap_latency: time("--swap-latency", &args.swap_latency)?,
        zswap: args.zswap,
        seed: args.seed,
    })
}

/// Runs a trace once.
pub fn replay(args: &ReplayArgs) -> Result<(), Failure> {
    let trace = Arc::new(read_trace(&args.trace)?);
    let limit = args
        .memory
        .as_deref()
        .map(|text| bytes("--memory", text))
        .transpose()?;
    if limit.is_some_and(|limit| limit < Bytes::kib(64)) {
        let fault = "write at least 64K: no program runs in less";
        return Err(flag("--memory", fault));
    }
    let mut run = machine(&args.machine)?.workload(&trace, limit).run();
    if args.json {
        return print(&format!("{}\n", as_json(&mut run)));
    }
    let point = predict(
        &machine(&args.machine)?,
        &trace,
        &[limit.unwrap_or(Bytes(u64::MAX))],
    );
    print(&table(&point).text())
}

fn table(points: &[neap_sim::ForecastPoint]) -> Table {
    let right = Align::Right;
    let mut table = Table::new(&[
        ("limit", right),
        ("slowdown", right),
        ("seconds", right),
        ("major faults", right),
        ("pages in", right),
        ("of them disk", right),
        ("disk writes", right),
        ("", Align::Left),
    ]);
    for point in points {
        let limit = match point.limit {
            Bytes(u64::MAX) => "none".to_owned(),
            limit => limit.to_string(),
        };
        table.row(vec![
            limit,
            format!("{:.2}x", point.slowdown),
            number(point.seconds),
            number(point.pgmajfault as f64),
            number(point.page_ins() as f64),
            number(point.pswpin as f64),
            number(point.pswpout as f64),
            if point.killed {
                "killed: out of memory".to_owned()
            } else {
                String::new()
            },
        ]);
    }
    table
}

/// Limits from the list: sizes, or shares of what the trace needs.
fn limits(args: &ForecastArgs, trace: &Trace) -> Result<Vec<Bytes>, Failure> {
    let needs = Bytes(u64::from(trace.pages()) << 12);
    let mut all = Vec::new();
    for text in &args.limits {
        let limit = size("--limits", text.trim())?.of(needs);
        if limit < Bytes::kib(64) {
            return Err(flag(
                "--limits",
                format!("{text} is below 64 KiB: no program runs in that"),
            ));
        }
        all.push(limit);
    }
    Ok(all)
}

/// Tries several limits.
pub fn forecast(args: &ForecastArgs) -> Result<(), Failure> {
    let trace = Arc::new(read_trace(&args.trace)?);
    let limits = limits(args, &trace)?;
    let points = predict(&machine(&args.machine)?, &trace, &limits);
    let quiet = args.json.as_deref() == Some(Path::new("-"));
    if !quiet {
        print(&table(&points).text())?;
    }
    if let Some(path) = &args.json {
        let value = json!({
            "schema": "neap.forecast/1",
            "version": env!("CARGO_PKG_VERSION"),
            "trace_pages": trace.pages(),
            "trace_seconds": trace.duration().0 as f64 / 1e9,
            "kernel": args.machine.kernel,
            "mglru": args.machine.mglru,
            "zswap": args.machine.zswap,
            "seed": args.machine.seed,
            "points": points,
        });
        write(path, &format!("{value}\n"))?;
    }
    if let Some(path) = &args.svg {
        let mut at: Vec<(f64, f64)> = points
            .iter()
            .map(|point| (point.limit.0 as f64 / 1048576.0, point.slowdown))
            .collect();
        at.sort_by(|a, b| a.0.total_cmp(&b.0));
        let plot = Plot {
            title: "slowdown by memory limit".to_owned(),
            x_name: "limit (MiB)".to_owned(),
            log_x: false,
            curves: vec![Curve {
                name: "slowdown".to_owned(),
                points: at,
            }],
        };
        write(path, &plot.svg())?;
    }
    Ok(())
}
