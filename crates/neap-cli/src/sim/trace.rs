//! `neap sim import`, `replay` and `forecast`.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;

use neap_sim::{
    Align, Bytes, Curve, ForecastMachine, ImportFault, Lackey, MAX_SWAP_LATENCY, Nanos, Plot, Size,
    Table, Trace, count, forecast as predict, from_lackey, from_oracle, number, parse_duration,
    parse_size, parse_version,
};
use serde_json::json;

use super::failure::Failure;
use super::flags::{ForecastArgs, Format, ImportArgs, MachineArgs, ReplayArgs};
use super::output::{Output, is_stdout};
use super::print;
use super::record;
use super::workload::{as_json, read_trace};
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
    let output = Output::open(&args.output)?;
    let trace = match args.from {
        Format::Lackey => from_lackey(input, rules),
        Format::OracleGeneral => from_oracle(input),
        Format::Record => record::convert(&args.input, input),
    };
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
    let swap_latency = time("--swap-latency", &args.swap_latency)?;
    if swap_latency > MAX_SWAP_LATENCY {
        return Err(flag("--swap-latency", "write at most 10s"));
    }
    Ok(ForecastMachine {
        version: version.ok_or_else(fault)?,
        mglru: args.mglru,
        swap_size,
        swap_latency,
        zswap: args.zswap,
        seed: args.seed,
    })
}

/// Runs a trace once.
pub fn replay(args: &ReplayArgs) -> Result<(), Failure> {
    if args.memory.is_none() && record::is_record(&args.trace) {
        return record::replay(args);
    }
    if args.decisions.is_some() || args.recorded.is_some() {
        let fault = format!("{} is no record of neap run", args.trace.display());
        return Err(flag("--decisions and --recorded", fault));
    }
    let trace = Arc::new(read_trace(&args.trace)?);
    let limit = args
        .memory
        .as_deref()
        .map(|text| bytes("--memory", text))
        .transpose()?;
    if limit.is_some_and(|limit| limit < LEAST) {
        let fault = "write at least 64K: no program runs in less";
        return Err(flag("--memory", fault));
    }
    let machine = machine(&args.machine)?;
    if args.json {
        let mut run = machine.workload(&trace, limit).run();
        return print(format!("{}\n", as_json(&mut run)));
    }
    let point = predict(&machine, &trace, &[limit.unwrap_or(Bytes(u64::MAX))]);
    print(table(&point).text())
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
            match point.killed {
                true => "-".to_owned(),
                false => format!("{:.2}x", point.slowdown),
            },
            number(point.seconds),
            count(point.pgmajfault),
            count(point.page_ins()),
            count(point.pswpin),
            count(point.pswpout),
            if point.killed {
                "killed: out of memory".to_owned()
            } else {
                String::new()
            },
        ]);
    }
    table
}

/// Least memory that a program is given: no program runs in less.
const LEAST: Bytes = Bytes::kib(64);
/// The shares that are tried when nothing is said.
const SHARES: [&str; 8] = ["100%", "90%", "80%", "70%", "60%", "50%", "40%", "30%"];

/// Limits from the list: sizes, or shares of what the trace needs. Without a list, the usual shares as
/// far as a program runs in them.
fn limits(args: &ForecastArgs, trace: &Trace) -> Result<Vec<Bytes>, Failure> {
    let needs = Bytes(u64::from(trace.pages()) << 12);
    let of = |text: &str| size("--limits", text.trim()).map(|size| size.of(needs));
    if args.limits.is_empty() {
        let shares = SHARES.into_iter().map(of).collect::<Result<Vec<_>, _>>()?;
        let usable: Vec<Bytes> = shares.into_iter().filter(|limit| *limit >= LEAST).collect();
        return match usable.is_empty() {
            true => Err(flag(
                "TRACE",
                format!(
                    "needs {needs} and no program runs in less than {LEAST}: there is nothing to forecast"
                ),
            )),
            false => Ok(usable),
        };
    }
    let mut all = Vec::new();
    for text in &args.limits {
        let limit = of(text)?;
        if limit < LEAST {
            let is = match text.ends_with('%') {
                true => format!(" of {needs} is {limit},"),
                false => " is".to_owned(),
            };
            return Err(flag(
                "--limits",
                format!("{}{is} below {LEAST}: no program runs in that", text.trim()),
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
    let machine = machine(&args.machine)?;
    let (json, svg) = (args.json.as_deref(), args.svg.as_deref());
    let on_stdout = [json, svg].into_iter().flatten().filter(|p| is_stdout(p));
    let on_stdout = on_stdout.count();
    if on_stdout > 1 {
        let fault = "only one of them can be standard output";
        return Err(flag("--json and --svg", fault));
    }
    let (json, svg) = (Output::if_any(json)?, Output::if_any(svg)?);
    let points = predict(&machine, &trace, &limits);
    if on_stdout == 0 {
        print(table(&points).text())?;
    }
    if let Some(output) = json {
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
        output.write(format!("{value}\n").as_bytes())?;
    }
    if let Some(output) = svg {
        let mut at: Vec<(f64, f64)> = points
            .iter()
            .filter(|point| !point.killed)
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
        output.write(plot.svg().as_bytes())?;
    }
    Ok(())
}
