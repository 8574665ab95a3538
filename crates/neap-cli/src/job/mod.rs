//! Looking at jobs that run and steering them: `neap ps`, `stat`, `set`, `reclaim`, `freeze`, `thaw`, `events`.
//!
//! Each asks the engine by its control socket, and shows what that says: nothing is computed twice.

mod expose;
mod failure;
mod find;
pub mod flags;
pub mod freeze;
mod metrics;
pub mod report;
mod show;
mod top;
pub mod watch;

use std::io::{self, Write};
use std::process::ExitCode;

use neap_control::{Change, Fault, Request};
use neap_units::{Bytes, Size, parse_size};
use serde_json::{Value, json};

use crate::choice::IdleTime;
use crate::machine::{Root, ram};
use crate::talk;
use failure::{Failure, NOT_DONE};
use find::{Job, stats_below, stats_of};
use flags::{EventsArgs, MetricsArgs, PsArgs, ReclaimArgs, SetArgs, StatArgs, TopArgs};
use metrics::Format;
use show::Row;

fn done(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            talk::say(&failure.lines());
            ExitCode::from(NOT_DONE)
        }
    }
}

/// Writes to standard output. A reader that has gone has seen enough.
fn print(text: &str) -> Result<(), Failure> {
    is_read(text).map(|_| ())
}

/// The same; whether somebody still reads.
fn is_read(text: &str) -> Result<bool, Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(source) => Err(Failure::Output {
            what: "standard output".to_owned(),
            source,
        }),
        Ok(()) => Ok(true),
    }
}

/// What all jobs say of themselves, and those of services after them.
fn all_stats() -> Vec<Value> {
    let jobs = Job::all();
    let mut stats = stats_of(&jobs);
    stats.extend(stats_below(&jobs, &stats));
    those_that_answer(stats)
}

/// One that says nothing is told of and left out.
fn those_that_answer(stats: Vec<Result<Value, Failure>>) -> Vec<Value> {
    let stats = stats.into_iter().filter_map(|stat| match stat {
        Ok(stat) => Some(stat),
        Err(failure) => {
            talk::warn(&failure.to_string());
            None
        }
    });
    stats.collect()
}

/// `neap ps`.
pub fn ps(args: &PsArgs) -> ExitCode {
    let jobs = Job::all();
    let none = jobs.is_empty();
    let stats = those_that_answer(stats_of(&jobs));
    if args.json {
        let all =
            json!({"schema": "neap.ps/1", "version": env!("CARGO_PKG_VERSION"), "jobs": stats});
        return done(print(&format!("{all}\n")));
    }
    if none {
        talk::note("no job of this user runs; try: neap run -m 2G -- COMMAND");
    }
    let rows: Vec<Row> = stats.iter().flat_map(Row::with_jobs).collect();
    done(print(&show::table(&rows)))
}

/// `neap top`.
pub fn show_top(args: &TopArgs) -> ExitCode {
    match args.once {
        true => ps(&PsArgs { json: args.json }),
        false => done(top::run()),
    }
}

/// `neap stat`.
pub fn stat(args: &StatArgs) -> ExitCode {
    let show = || {
        let stat = Job::find(args.whom.job.as_deref())?.stat()?;
        print(&match (args.json, args.vmstat) {
            (true, _) => format!("{stat}\n"),
            (_, true) => show::vmstat(&stat),
            _ => show::figures(&stat),
        })
    };
    done(show())
}

/// `neap set`.
pub fn set(args: &SetArgs) -> ExitCode {
    let set = || {
        let changes = args.changes.iter().map(|word| change(word));
        let changes = changes.collect::<Result<Vec<_>, _>>()?;
        let job = Job::find(Some(&args.job))?;
        let now = ask_for_long(&job, Request::Set(changes))?;
        say_what_is_over(&job, &now);
        Ok(())
    };
    done(set())
}

/// Asks for something that may last; the engine bounds that.
fn ask_for_long(job: &Job, request: Request) -> Result<Value, Failure> {
    let mut client = job.connect()?;
    let answer = client.wait_for(None).map_err(Into::into);
    let answer = answer.and_then(|()| client.ask(&job.call(request)));
    answer.map_err(|refusal| Failure::of(&job.name, refusal))
}

fn say_what_is_over(job: &Job, now: &Value) {
    let over = now["over_bytes"].as_u64().unwrap_or(0);
    if let Some(held) = now["held"].as_str().filter(|_| over > 0) {
        let (over, limit) = (Bytes(over), now["memory.max"].as_u64().unwrap_or(0));
        let limit = Bytes(limit);
        talk::warn(&format!(
            "{}: the limit is {limit} now, and {over} more could not be reclaimed yet: {held}",
            job.name
        ));
    }
}

/// KEY=VALUE, with sizes as people write them.
fn change(word: &str) -> Result<Change, Failure> {
    let (key, text) = word
        .split_once('=')
        .ok_or_else(|| Failure::Setting(format!("{word:?} is not KEY=VALUE")))?;
    let key = Change::key(key);
    let value = match key {
        "memory.max" | "memory.high" | "memory.low" | "memory.min" | "swap.max" | "zswap.max" => {
            match text {
                "max" => text.into(),
                text => size(key, text)?.0.into(),
            }
        }
        "idle" => match text.parse() {
            Ok(IdleTime(time)) => time.as_millis().into(),
            Err(bad) => return Err(Failure::Setting(bad.to_string())),
        },
        "memory.pressure" if text == "off" => 0.into(),
        _ => text
            .trim_end_matches('%')
            .parse()
            .map_or(Value::Null, |number: u64| number.into()),
    };
    Change::new(key, &value).map_err(|fault| match fault {
        Fault::Field(key, what) => Failure::Setting(format!("{key} is {what}, not {text:?}")),
        fault => Failure::Setting(fault.to_string()),
    })
}

fn size(what: &str, text: &str) -> Result<Bytes, Failure> {
    let size = parse_size(text).map_err(|source| Failure::Size {
        what: what.to_owned(),
        source,
    })?;
    match size {
        Size::Bytes(bytes) => Ok(bytes),
        Size::Percent(_) => ram(&Root::real())
            .map(|ram| size.of(ram))
            .ok_or_else(|| Failure::Setting("how much RAM there is cannot be read".to_owned())),
    }
}

/// `neap reclaim`.
pub fn reclaim(args: &ReclaimArgs) -> ExitCode {
    let reclaim = || {
        let bytes = size("SIZE", &args.size)?;
        if bytes == Bytes(0) {
            return Err(Failure::Nothing(args.size.clone()));
        }
        let job = Job::find(args.whom.job.as_deref())?;
        let got = ask_for_long(&job, Request::Reclaim(bytes.0))?;
        let got = Bytes(got["reclaimed_bytes"].as_u64().unwrap_or(0));
        print(&format!("{}\n", got.0))
    };
    done(reclaim())
}

/// `neap metrics`.
pub fn tell_metrics(args: &MetricsArgs) -> ExitCode {
    let text = |format| metrics::exposition(&all_stats(), format);
    done(match (&args.listen, &args.socket, &args.textfile) {
        (Some(address), _, _) => expose::to_port(*address, text),
        (_, Some(path), _) => expose::to_socket(path, text),
        (_, _, Some(path)) => expose::to_file(path, &text(Format::Text)),
        _ => print(&text(Format::Text)),
    })
}

/// `neap events`.
pub fn events(args: &EventsArgs) -> ExitCode {
    let follow = || {
        let job = Job::find(args.whom.job.as_deref())?;
        let mut client = job.connect()?;
        let fail = |refusal| Failure::of(&job.name, refusal);
        client.wait_for(None).map_err(|error| fail(error.into()))?;
        client.begin(&job.call(Request::Events)).map_err(fail)?;
        while let Some(event) = client.line().map_err(fail)? {
            if event["ok"] == false {
                return Err(Failure::Refused {
                    name: job.name.clone(),
                    message: event["error"]["message"]
                        .as_str()
                        .unwrap_or_default()
                        .to_owned(),
                });
            }
            let ends = event["event"] == "end" || job.is_left_by(&event);
            let read = match args.json {
                true => is_read(&format!("{event}\n"))?,
                false => is_read(&line(&event))?,
            };
            if ends || !read {
                return Ok(());
            }
        }
        Err(Failure::Silent {
            name: job.name.clone(),
            why: "neap itself has ended, and its job with it".to_owned(),
        })
    };
    done(follow())
}

/// An event in a line: seconds since 1970, what it is, the job of a service that it is about, and words.
fn line(event: &Value) -> String {
    let word = |name: &str| show::clean(event[name].as_str().unwrap_or_default());
    let bytes = |name: &str| Bytes(event[name].as_u64().unwrap_or(0));
    let job = match word("job") {
        job if job.is_empty() => job,
        job => format!("{job} "),
    };
    format!(
        "{:.3} {:<10} {job}{} of {}: {}\n",
        event["time_seconds"].as_f64().unwrap_or(0.0),
        word("event"),
        bytes("usage_bytes"),
        bytes("limit_bytes"),
        word("message")
    )
}

#[cfg(test)]
mod tests {
    use neap_units::Limit;

    use super::*;

    #[test]
    fn what_is_set_is_written_as_people_write_it() {
        let gib = |n| Limit::Bytes(Bytes::gib(n));
        assert_eq!(change("memory.max=3G").unwrap(), Change::MemoryMax(gib(3)));
        let percent = change("zswap.max_pool_percent=25%").unwrap();
        assert_eq!(percent, Change::MaxPoolPercent(25));
        let switch = change("zswap.writeback=0").unwrap();
        assert_eq!(switch, Change::Writeback(false));
        let no_limit = change("memory.max=max").unwrap();
        assert_eq!(no_limit, Change::MemoryMax(Limit::Max));
        let kernel = change("memory.swap.max=2G").unwrap();
        assert_eq!(kernel, Change::SwapMax(gib(2)));
        let all = change("memory.low=max").unwrap();
        assert_eq!(all, Change::MemoryLow(Limit::Max));
        let kernel = change("memory.zswap.writeback=1").unwrap();
        assert_eq!(kernel, Change::Writeback(true));
        assert_eq!(change("idle=90s").unwrap(), Change::Idle(90_000));
        assert_eq!(change("idle=off").unwrap(), Change::Idle(0));
        for bad in [
            "idle=90",
            "memory.max",
            "memory.max=3X",
            "memory.hihg=1G",
            "zswap.max_pool_percent=x",
            "zswap.writeback=2",
        ] {
            let failure = change(bad).unwrap_err();
            assert_eq!(failure.code(), "E0306", "{bad}");
        }
        let unknown = change("memory.hihg=1G").unwrap_err();
        assert_eq!(unknown.to_string().lines().count(), 1);
        assert!(unknown.to_string().contains("memory.max"), "{unknown}");
    }
}
