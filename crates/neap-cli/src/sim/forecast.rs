//! `neap sim forecast`.

use std::path::Path;

use neap_forecast::{NeapCosts, NeapForecast, NeapJob, NeapPoint};
use neap_sim::{
    Align, Bytes, Curve, Models, Nanos, Packing, Plot, Table, Trace, UnknownModel, count,
    forecast as of_linux, number,
};
use neap_tuning::TUNING;
use serde_json::{Map, Value, json};

use super::failure::Failure;
use super::flags::ForecastArgs;
use super::output::{Output, distinct, is_stdout};
use super::print;
use super::trace::{flag, machine, size, time};
use super::workload::read_trace;

/// Least and most that pages may be said to get smaller.
const RATIOS: std::ops::RangeInclusive<f64> = 1.0..=1000.0;

/// The shares that are tried when nothing is said.
const SHARES: [&str; 8] = ["100%", "90%", "80%", "70%", "60%", "50%", "40%", "30%"];

/// The least limit of a machine, and who refuses less.
#[derive(Clone, Copy)]
struct Floor {
    least: Bytes,
    who: &'static str,
}

const NEAP: Floor = Floor {
    least: TUNING.limit.least,
    who: "neap run takes no less",
};
const LINUX: Floor = Floor {
    least: TUNING.forecast.least,
    who: "no program runs in less",
};

/// Limits from the list: sizes, or shares of what the trace needs. Without a list, the usual shares as
/// far as the machine takes them.
fn limits(args: &ForecastArgs, pages: u32, floor: Floor) -> Result<Vec<Bytes>, Failure> {
    let Floor { least, who } = floor;
    let needs = Bytes(u64::from(pages) << 12);
    let of = |text: &str| size("--limits", text.trim()).map(|size| size.of(needs));
    if args.limits.is_empty() {
        let shares = SHARES.into_iter().map(of).collect::<Result<Vec<_>, _>>()?;
        let usable: Vec<Bytes> = shares.into_iter().filter(|limit| *limit >= least).collect();
        return match usable.is_empty() {
            true => Err(flag(
                "TRACE",
                format!(
                    "needs {needs}, and the least limit is {least}: there is nothing to forecast"
                ),
            )),
            false => Ok(usable),
        };
    }
    let mut all = Vec::new();
    for text in &args.limits {
        let limit = of(text)?;
        if limit < least {
            let is = match text.ends_with('%') {
                true => format!(" of {needs} is {limit},"),
                false => " is".to_owned(),
            };
            return Err(flag(
                "--limits",
                format!("{}{is} below {least}: {who}", text.trim()),
            ));
        }
        all.push(limit);
    }
    Ok(all)
}

/// A limit, and what it would do.
struct Line {
    limit: String,
    /// `None`: the program does not end.
    slowdown: Option<f64>,
    /// At least and, if that is known, at most.
    range: Option<(f64, Option<f64>)>,
    seconds: f64,
    pgmajfault: u64,
    page_ins: u64,
    pswpin: u64,
    pswpout: u64,
    remark: &'static str,
}

/// Lines as a table; all have a range or none has.
fn table_of(lines: &[Line]) -> Table {
    let ranged = lines.iter().any(|line| line.range.is_some());
    let (slowdown, range) = (["limit", "slowdown"], ["at least", "at most"]);
    let range = if ranged { &range[..] } else { &[] };
    let rest = [
        "seconds",
        "major faults",
        "pages in",
        "of them disk",
        "disk writes",
    ];
    let heads = slowdown.iter().chain(range).chain(&rest);
    let mut columns: Vec<_> = heads.map(|&head| (head, Align::Right)).collect();
    columns.push(("", Align::Left));
    let mut table = Table::new(&columns);
    let times = |times: f64| format!("{times:.2}x");
    for line in lines {
        let mut cells = vec![
            line.limit.clone(),
            line.slowdown.map_or("-".to_owned(), times),
        ];
        if let Some((least, most)) = line.range {
            cells.extend([times(least), most.map_or("unknown".to_owned(), times)]);
        }
        cells.push(number(line.seconds));
        let counts = [line.pgmajfault, line.page_ins, line.pswpin, line.pswpout];
        cells.extend(counts.map(count));
        cells.push(line.remark.to_owned());
        table.row(cells);
    }
    table
}

/// What Linux would do, as a table.
pub(super) fn table(points: &[neap_sim::ForecastPoint]) -> Table {
    let line = |point: &neap_sim::ForecastPoint| Line {
        limit: match point.limit {
            Bytes(u64::MAX) => "none".to_owned(),
            limit => limit.to_string(),
        },
        slowdown: Some(point.slowdown).filter(|_| !point.killed),
        range: None,
        seconds: point.seconds,
        pgmajfault: point.pgmajfault,
        page_ins: point.page_ins(),
        pswpin: point.pswpin,
        pswpout: point.pswpout,
        remark: match point.killed {
            true => "killed: out of memory",
            false => "",
        },
    };
    table_of(&points.iter().map(line).collect::<Vec<_>>())
}

/// What neap would do, as a table.
fn neap_table(points: &[NeapPoint]) -> Table {
    let line = |point: &NeapPoint| Line {
        limit: point.limit.to_string(),
        slowdown: Some(point.slowdown),
        range: Some((point.slowdown_low, point.slowdown_high)),
        seconds: point.seconds,
        pgmajfault: point.counts.pgmajfault,
        page_ins: point.counts.zswpin + point.counts.pswpin,
        pswpin: point.counts.pswpin,
        pswpout: point.counts.pswpout,
        remark: match point.counts.over {
            true => "the limit would not be kept",
            false => "",
        },
    };
    table_of(&points.iter().map(line).collect::<Vec<_>>())
}

/// A forecast, ready to be shown.
struct Shown {
    text: String,
    json: Map<String, Value>,
    curves: Vec<Curve>,
}

fn curve(name: &str, mut at: Vec<(f64, f64)>) -> Curve {
    at.sort_by(|a, b| a.0.total_cmp(&b.0));
    Curve {
        name: name.to_owned(),
        points: at,
    }
}

fn mib(limit: Bytes) -> f64 {
    limit.0 as f64 / 1_048_576.0
}

/// What the compressor makes of pages, as far as there are models.
fn packing(args: &ForecastArgs) -> Result<Packing, Failure> {
    let models = models(args.models.as_deref())?;
    let compressor = args.compressor.unwrap_or_default().to_string();
    let packing = Packing::of(&models, &compressor, args.content.as_deref());
    let packing = packing.map_err(|unknown| no_model(&compressor, &unknown))?;
    Ok(match args.ratio {
        Some(ratio) => packing.of_ratio(ratio),
        None => packing,
    })
}

/// What to do about a compressor or content of which there is no model.
pub(super) fn no_model(compressor: &str, unknown: &UnknownModel) -> Failure {
    let advice = format!("neap sim fit --compressors {compressor} makes one for --models");
    flag("--compressor and --content", format!("{unknown}; {advice}"))
}

/// The models of a file, or those built in.
pub(super) fn models(path: Option<&Path>) -> Result<Models, Failure> {
    let Some(path) = path else {
        return Ok(Models::of_neap());
    };
    let text = std::fs::read(path).map_err(|source| Failure::Read {
        path: path.to_owned(),
        source,
    })?;
    serde_json::from_slice(&text).map_err(|fault| {
        let is = format!("{} is no file of neap sim fit: {fault}", path.display());
        flag("--models", is)
    })
}

fn neap(args: &ForecastArgs, trace: &Trace, asked: Asked) -> Result<Shown, Failure> {
    let limits = limits(args, trace.private_pages(), NEAP)?;
    let forecast = NeapForecast {
        job: NeapJob {
            limit: Bytes(0),
            pool_max_percent: args.pool_max.unwrap_or(50),
            swap: !args.no_swap,
            cpus: args.cpus.unwrap_or(2),
        },
        packing: asked.packing,
        time: asked.took,
        costs: NeapCosts {
            disk_read: machine(&args.machine)?.swap_latency,
            ..NeapCosts::likely()
        },
    };
    let points = forecast.run(trace, &limits);
    let points = points.map_err(|source| Failure::Read {
        path: args.trace.clone(),
        source, // descriptors are short
    })?;
    let notes = forecast.notes(trace, &limits);
    let mut text = neap_table(&points).text();
    for note in &notes {
        text.push_str(&format!("* {note}\n"));
    }
    let at = |of: fn(&NeapPoint) -> Option<f64>| -> Vec<(f64, f64)> {
        let known = |point| of(point).map(|value| (mib(point.limit), value));
        points.iter().filter_map(known).collect()
    };
    let json = json!({
        "machine": "neap",
        "compressor": forecast.packing.compressor,
        "ratio": forecast.packing.dictionary.likely,
        "notes": notes,
        "points": points,
    });
    Ok(Shown {
        text,
        json: json.as_object().cloned().unwrap_or_default(),
        curves: vec![
            curve("likely", at(|point| Some(point.slowdown))),
            curve("at least", at(|point| Some(point.slowdown_low))),
            curve("at most", at(|point| point.slowdown_high)),
        ],
    })
}

/// Whether a flag was given that says nothing of Linux.
fn of_neap_run(args: &ForecastArgs) -> bool {
    let packed = args.ratio.is_some() || args.content.is_some() || args.models.is_some();
    let sized = args.pool_max.is_some() || args.cpus.is_some() || args.no_swap;
    packed || sized || args.compressor.is_some() || args.time.is_some()
}

fn linux(args: &ForecastArgs, trace: &std::sync::Arc<Trace>) -> Result<Shown, Failure> {
    let limits = limits(args, trace.pages(), LINUX)?;
    let points = of_linux(&machine(&args.machine)?, trace, &limits);
    let known = points.iter().filter(|point| !point.killed);
    let at = known.map(|point| (mib(point.limit), point.slowdown));
    let curves = vec![curve("slowdown", at.collect())];
    let notes = [
        "of Linux: only pages in the trace count, and not what the kernel, its page tables and shared libraries take of a cgroup: times are the least that a limit costs",
    ];
    let json = json!({
        "machine": "linux",
        "kernel": args.machine.version(),
        "mglru": args.machine.mglru,
        "zswap": args.machine.zswap,
        "notes": notes,
        "points": points,
    });
    Ok(Shown {
        text: format!("{}* {}\n", table(&points).text(), notes[0]),
        json: json.as_object().cloned().unwrap_or_default(),
        curves,
    })
}

/// What the flags of `neap run` say.
struct Asked {
    packing: Packing,
    took: Option<Nanos>,
}

/// Finds what makes no sense of flags, before a trace is read that may be long. What they ask of `neap run`, unless
/// `--kernel` is given; a file of models may be a pipe, and is read here only.
fn check(args: &ForecastArgs) -> Result<Option<Asked>, Failure> {
    machine(&args.machine)?;
    if args.machine.kernel.is_some() {
        if of_neap_run(args) {
            let fault = "are of neap run: leave --kernel out";
            return Err(flag(
                "--compressor, --ratio, --content, --models, --time, --pool-max, --cpus and --no-swap",
                fault,
            ));
        }
        return Ok(None);
    }
    if args.machine.mglru || args.machine.zswap {
        let fault = "are of Linux: add --kernel VERSION";
        return Err(flag("--mglru and --zswap", fault));
    }
    if args.ratio.is_some_and(|ratio| !RATIOS.contains(&ratio)) {
        return Err(flag("--ratio", "write a number from 1 to 1000"));
    }
    let took = args.time.as_deref().map(|text| time("--time", text));
    Ok(Some(Asked {
        took: took.transpose()?,
        packing: packing(args)?,
    }))
}

/// Tries several limits.
pub fn forecast(args: &ForecastArgs) -> Result<(), Failure> {
    let (json, svg) = (args.json.as_deref(), args.svg.as_deref());
    let read = [
        ("TRACE", Some(&*args.trace)),
        ("--models", args.models.as_deref()),
    ];
    distinct(&read, &[("--json", json), ("--svg", svg)])?;
    let on_stdout = [json, svg].into_iter().flatten().filter(|p| is_stdout(p));
    let on_stdout = on_stdout.count();
    if on_stdout > 1 {
        let fault = "only one of them can be standard output";
        return Err(flag("--json and --svg", fault));
    }
    let asked = check(args)?;
    let trace = std::sync::Arc::new(read_trace(&args.trace)?);
    let open = |path: Option<&Path>| Output::if_any(path);
    let (json, svg) = (open(json)?, open(svg)?);
    let shown = match asked {
        Some(asked) => neap(args, &trace, asked)?,
        None => linux(args, &trace)?,
    };
    if on_stdout == 0 {
        print(shown.text)?;
    }
    if let Some(output) = json {
        let mut value = json!({
            "schema": "neap.forecast/1",
            "version": env!("CARGO_PKG_VERSION"),
            "trace_pages": trace.pages(),
            "trace_seconds": trace.duration().0 as f64 / 1e9,
            "recorded_limit": trace.limit().map(|limit| limit.0),
            "seed": args.machine.seed(),
        });
        if let Some(object) = value.as_object_mut() {
            object.extend(shown.json);
        }
        output.write(format!("{value}\n").as_bytes())?;
    }
    if let Some(output) = svg {
        let plot = Plot {
            title: "slowdown by memory limit".to_owned(),
            x_name: "limit (MiB)".to_owned(),
            log_x: false,
            curves: shown.curves,
        };
        output.write(plot.svg().as_bytes())?;
    }
    Ok(())
}
