//! `neap serve`: one limit for many jobs.
//!
//! It holds the engine, the pool and the swap file. Jobs join by `neap run --in NAME`. It ends on SIGTERM or SIGINT, once the jobs that
//! it asked to end have ended or a while has passed, or with its last job if that is wanted.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixDatagram;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;

use neap_engine::Control;
use neap_sys::Pidfd;
use neap_tuning::TUNING;
use rustix::process::Signal;
use signal_hook::iterator::Signals;

use crate::failure::Failure;
use crate::flags::ServeArgs;
use crate::machine::{Root, ignored_signals};
use crate::run::engine::Engine;
use crate::run::plan::{Plan, Sources};
use crate::run::swap;
use crate::{env, talk};

/// Said by the one in the background once jobs can join.
const READY: &str = "ready";

/// Why the service ends.
enum Why {
    /// Its last job has ended, or none will join.
    Idle,
    /// Somebody wants it to.
    Asked,
}

/// Serves until somebody ends it.
pub fn run(args: &ServeArgs) -> ExitCode {
    let done = match args.detach {
        true => detach(),
        false => serve(args),
    };
    match done {
        Ok(code) => code,
        Err(failure) => {
            talk::say(&failure.lines());
            ExitCode::from(failure.exit())
        }
    }
}

fn serve(args: &ServeArgs) -> Result<ExitCode, Failure> {
    let root = Root::real();
    let sources = Sources {
        root: &root,
        env: &env::own,
        inspect: &swap::inspect_really,
    };
    let mut plan = Plan::make(&args.engine, sources)?;
    if args.engine.idle.is_none() {
        plan.idle = Some(TUNING.idle.service);
    }
    plan.warnings.iter().for_each(|warning| talk::warn(warning));
    if plan.verbose {
        plan.describe().iter().for_each(|line| talk::note(line));
    }
    neap_sys::raise_descriptor_limit();
    neap_sys::keep_heap_small();
    let (say, heard) = channel();
    listen(&root, say.clone())?;
    let until_idle = args.until_idle;
    let idle = move || {
        if until_idle {
            let _ = say.send(Why::Idle);
        }
    };
    let control = Control {
        name: Some(args.name.clone()),
        command: vec!["neap".into(), "serve".into(), args.name.to_string()],
        follow: None,
        idle: Some(Arc::new(idle)),
    };
    let mut engine = Engine::serve(&plan, args.walk, control).map_err(|failure| match failure {
        Failure::Unmanaged(why) => Failure::NoEngine(why),
        failure => failure,
    })?;
    engine.open();
    let mut starter = args.starter.map(|pid| Pidfd::open(pid).ok());
    ready(args)?;
    loop {
        match hear(&heard, &mut starter, &engine) {
            Why::Idle if engine.close_if_idle() => break,
            Why::Idle => {} // one more has come since
            Why::Asked => {
                engine.ask_to_stop();
                let end = neap_sys::monotonic_nanos() + TUNING.control.stop.0;
                while engine.jobs() > 0 && neap_sys::monotonic_nanos() < end {
                    // Asked twice.
                    if let Ok(Why::Asked) = heard.recv_timeout(TUNING.control.look.duration()) {
                        break;
                    }
                }
                break;
            }
        }
    }
    engine.finish();
    Ok(ExitCode::SUCCESS)
}

/// Waits until there is a reason to end. `starter`: who had it started, until a job has joined; if that process ends before, none will.
fn hear(heard: &Receiver<Why>, starter: &mut Option<Option<Pidfd>>, engine: &Engine) -> Why {
    while let Some(process) = starter {
        match heard.recv_timeout(TUNING.control.starter.duration()) {
            Ok(why) => return why,
            Err(RecvTimeoutError::Disconnected) => return Why::Asked,
            Err(RecvTimeoutError::Timeout) if engine.jobs() > 0 => *starter = None,
            Err(RecvTimeoutError::Timeout) if process.as_ref().is_some_and(Pidfd::lives) => {}
            Err(RecvTimeoutError::Timeout) => {
                *starter = None;
                return Why::Idle;
            }
        }
    }
    heard.recv().unwrap_or(Why::Asked)
}

/// Hears signals from here on. What was ignored before stays so: by nohup, or by a shell that starts it beside a script.
fn listen(root: &Root, say: Sender<Why>) -> Result<(), Failure> {
    let machine = |source| Failure::Machine {
        what: "signals",
        source,
    };
    let wanted = [Signal::TERM, Signal::INT, Signal::HUP].map(Signal::as_raw);
    let ignored = ignored_signals(root);
    let is_heard = |signal: &i32| ignored >> (signal - 1) & 1 == 0;
    let mut signals =
        Signals::new(wanted.iter().filter(|signal| is_heard(signal))).map_err(machine)?;
    let hear = move || {
        for _ in signals.forever() {
            let _ = say.send(Why::Asked);
        }
    };
    let started = thread::Builder::new()
        .name("neap-signals".into())
        .spawn(hear);
    started.map(drop).map_err(machine)
}

/// Tells those who wait that jobs can join: the user, the one that it was started by, or systemd.
fn ready(args: &ServeArgs) -> Result<(), Failure> {
    let name = &args.name;
    if args.tell_ready {
        let told = writeln!(io::stdout(), "{READY}").and_then(|()| let_go_of_streams());
        return told.map_err(Failure::Stdout);
    }
    talk::note(&format!(
        "{name} serves; a job joins it by: neap run --in {name} -- COMMAND"
    ));
    if let Some(socket) = env::own("NOTIFY_SOCKET") {
        // An abstract name begins with @. That nobody hears changes nothing.
        if let (Ok(from), Some(path)) = (UnixDatagram::unbound(), socket.to_str())
            && !path.starts_with('@')
        {
            let _ = from.send_to(b"READY=1", path);
        }
    }
    Ok(())
}

/// In the background: whoever reads what this process writes is not to wait for its end.
fn let_go_of_streams() -> io::Result<()> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    std::env::set_current_dir("/")
}

/// Starts another that serves, and ends once jobs can join that.
fn detach() -> Result<ExitCode, Failure> {
    use std::os::unix::process::CommandExt;
    let words = std::env::args_os()
        .skip(1)
        .filter(|word| word != "--detach");
    let mut command = Command::new("/proc/self/exe");
    command.args(words).arg("--tell-ready");
    // No signal of the terminal's reaches it.
    command
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    let mut child = command.spawn().map_err(Failure::Spawn)?;
    let mut line = String::new();
    if let Some(stdout) = child.stdout.take() {
        let _ = BufReader::new(stdout).read_line(&mut line);
    }
    if line.trim_end() == READY {
        return Ok(ExitCode::SUCCESS);
    }
    let status = child.wait().map_err(Failure::Spawn)?;
    Ok(ExitCode::from(
        status
            .code()
            .and_then(|code| u8::try_from(code).ok())
            .unwrap_or(crate::exit::FAILED),
    ))
}
