//! A job in a service: `neap run --in NAME` and `--budget NAME[:SIZE]`.
//!
//! The service has the engine. This process starts the command, passes signals on and waits, as a plain `neap run` does. It keeps a
//! connection to the service as long as the job lives: by that the service knows the job's processes, which descend from this one, and
//! that they are to end with it if it is killed.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use neap_control::{Call, Client, Found, Join, Name, Refusal, Request, Sender, jobs};
use neap_tuning::TUNING;
use neap_units::{Bytes, parse_size};
use rustix::process::{Signal, getpid, kill_process};
use serde_json::{Map, Value};

use crate::env::Lookup;
use crate::failure::Failure;
use crate::talk;

/// The service that a run wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// What it is called.
    pub name: Name,
    /// With which limit it is started if there is none; `None`: then the run fails.
    pub budget: Option<String>,
    /// It is that of the run which this one was started by: where it cannot be joined this run has an engine of its own.
    pub is_around: bool,
}

impl Wanted {
    /// What `--budget` names: NAME:SIZE, or NAME alone for a service that is there.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn parse(word: &str) -> Result<Self, Failure> {
        let (name, size) = match word.split_once(':') {
            Some((name, size)) => (name, Some(size.to_owned())),
            None => (word, None),
        };
        let name =
            Name::new(name).map_err(|fault| Failure::Service(format!("--budget: {fault}")))?;
        if let Some(size) = &size {
            parse_size(size).map_err(|source| Failure::Size {
                flag: "--budget",
                source,
            })?;
        }
        let budget = size;
        Ok(Self {
            name,
            budget,
            is_around: false,
        })
    }

    /// That of the run which this one was started by.
    pub fn around(env: Lookup<'_>) -> Option<Self> {
        env(neap_wire::SOCKET_ENV)?;
        let name = Name::new(env(neap_wire::JOB_ENV)?.to_str()?).ok()?;
        let wanted = Self {
            name,
            budget: None,
            is_around: true,
        };
        wanted.find().is_some().then_some(wanted)
    }

    fn find(&self) -> Option<Found> {
        jobs().into_iter().find(|found| found.name == self.name)
    }

    /// Joins it, and starts it first if that is wanted.
    ///
    /// # Errors
    /// There is none, or it says no.
    pub fn join(&self, join: &Join) -> Result<Member, Failure> {
        let end = neap_sys::monotonic_nanos() + TUNING.control.answer.0;
        loop {
            let late = neap_sys::monotonic_nanos() > end;
            let Some(found) = self.find() else {
                if late {
                    return Err(self.missing());
                }
                self.start()?;
                continue;
            };
            match Member::join(&found.socket, join) {
                Ok(member) => return Ok(member),
                // It has just ended, or is about to: then another can be started.
                Err(refusal) if self.budget.is_some() && !late && ends(&refusal) => {
                    std::thread::sleep(TUNING.control.look.duration());
                }
                Err(refusal) => return Err(self.no(&refusal)),
            }
        }
    }

    fn no(&self, refusal: &Refusal) -> Failure {
        Failure::Service(format!("service {}: {refusal}", self.name))
    }

    fn missing(&self) -> Failure {
        Failure::NoService(self.name.to_string())
    }

    /// Starts it in the background, for as long as it has jobs, or at least until this process ends.
    fn start(&self) -> Result<(), Failure> {
        let size = self.budget.as_ref().ok_or_else(|| self.missing())?;
        let mut command = Command::new("/proc/self/exe");
        command.args([
            "serve",
            self.name.as_str(),
            "-m",
            size,
            "--detach",
            "--until-idle",
            "--starter",
            &std::process::id().to_string(),
        ]);
        command.env_remove(neap_wire::SOCKET_ENV);
        command.env_remove(neap_wire::JOB_ENV);
        let output = command.output().map_err(Failure::Spawn)?;
        let text = String::from_utf8_lossy(&output.stderr);
        if output.status.success() {
            talk::raw(&text); // what its user should know
            return Ok(());
        }
        let taken = Failure::Taken(String::new()).code();
        match refusal(&text) {
            // By another that starts, or by one that ends: to be looked at again.
            Some((code, _)) if code == taken => {
                std::thread::sleep(TUNING.control.look.duration());
                Ok(())
            }
            why => Err(self.does_not_start(why, &text)),
        }
    }

    /// Where this machine lets nobody manage programs, the command runs without a limit, as with a plain `neap run`.
    fn does_not_start(&self, why: Option<(&str, String)>, text: &str) -> Failure {
        let unmanaged = Failure::NoEngine(String::new()).code();
        match why {
            Some((code, line)) if code == unmanaged => Failure::Unmanaged(line),
            Some((_, line)) => self.start_failed(&line),
            None => self.start_failed(text.trim()),
        }
    }

    fn start_failed(&self, why: &str) -> Failure {
        Failure::Service(format!("service {} does not start: {why}", self.name))
    }
}

/// Why a neap ended, by what it has said: the code, and the cause with the remedy in one line.
fn refusal(text: &str) -> Option<(&str, String)> {
    let mut lines = text.lines();
    let rest = lines.find_map(|line| line.strip_prefix("neap: error["))?;
    let (code, cause) = rest.split_once("]: ")?;
    let remedy = lines
        .map(str::trim_start)
        .find(|line| line.starts_with("try: "));
    let remedy = remedy.map(|line| format!("; {line}")).unwrap_or_default();
    Some((code, format!("{cause}{remedy}")))
}

/// Whether a service says no because it ends.
fn ends(refusal: &Refusal) -> bool {
    match refusal {
        Refusal::Silent(_) => true,
        Refusal::No { code, .. } => code == "ESHUTDOWN",
        Refusal::Nonsense => false,
    }
}

/// A job that has joined.
pub struct Member {
    service: String,
    /// What it is called there.
    name: String,
    socket: PathBuf,
    door: OsString,
    limit: Bytes,
    sender: Sender,
    answers: Receiver<Value>,
    /// The job ends by itself: that the connection does is no news.
    leaves: Arc<AtomicBool>,
    /// What the user was told.
    warnings: Arc<Mutex<Vec<String>>>,
}

impl Member {
    fn join(socket: &Path, join: &Join) -> Result<Self, Refusal> {
        let mut client = Client::connect(socket, TUNING.control.answer.duration())?;
        let said = client.ask(&Call::new(Request::Join(join.clone())))?;
        let word = |name: &str| {
            said[name]
                .as_str()
                .map(str::to_owned)
                .ok_or(Refusal::Nonsense)
        };
        let (say, answers) = channel();
        let member = Self {
            service: word("service")?,
            name: word("name")?,
            socket: socket.to_owned(),
            door: word("socket")?.into(),
            limit: Bytes(said["limit_bytes"].as_u64().ok_or(Refusal::Nonsense)?),
            sender: client.sender()?,
            answers,
            leaves: Arc::default(),
            warnings: Arc::default(),
        };
        client.wait_for(None)?;
        let (service, leaves) = (member.service.clone(), member.leaves.clone());
        let warnings = member.warnings.clone();
        let hear = move || {
            neap_sys::block_signals();
            while let Ok(Some(line)) = client.line() {
                if line.get("event").is_none() {
                    let _ = say.send(line);
                } else if let Some(warning) = heard(&line) {
                    talk::warn(&warning);
                    warnings
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push(warning);
                }
            }
            if !leaves.load(Relaxed) {
                talk::warn(&format!(
                    "service {service} has ended: programs that depend on it end with it, and others run on without a limit"
                ));
                // It may have frozen the job, and is not there to let it go on.
                neap_sys::Root::own().let_family_go_on();
            }
        };
        std::thread::Builder::new()
            .name("neap-service".into())
            .spawn(hear)?;
        Ok(member)
    }

    /// What leads the library to the service.
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        let name = self.service.clone().into();
        vec![
            (neap_wire::SOCKET_ENV.into(), self.door.clone()),
            (neap_wire::JOB_ENV.into(), name),
        ]
    }

    /// Whether programs that are led to this socket are of the same service.
    pub fn is_at(&self, door: &OsStr) -> bool {
        let folder = Path::new(&self.door).parent();
        folder.is_some() && folder == Path::new(door).parent()
    }

    /// The limit of the service.
    pub fn limit(&self) -> Bytes {
        self.limit
    }

    /// Asks for all figures as they are, from any thread.
    pub fn viewer(&self) -> impl Fn() -> Value + Send + 'static {
        let ask = self.asker();
        move || ask(Request::Stat).unwrap_or_default()
    }

    /// Lets the job go on if it is frozen, from any thread.
    pub fn thawer(&self) -> impl Fn() + Send + 'static {
        let ask = self.asker();
        move || _ = ask(Request::Thaw { prefetch: false })
    }

    /// Asks something about the job, by a connection of its own.
    fn asker(&self) -> impl Fn(Request) -> Option<Value> + Send + 'static {
        let (socket, job) = (self.socket.clone(), Name::new(&self.name).ok());
        move |request| {
            let job = job.clone();
            let mut client = Client::connect(&socket, TUNING.control.glance.duration()).ok()?;
            client.ask(&Call { job, request }).ok()
        }
    }

    /// Leaves the service. The report.
    pub fn leave(mut self) -> Map<String, Value> {
        self.leaves.store(true, Relaxed);
        let sent = self.sender.send(&Call::new(Request::Leave)).is_ok();
        let patience = if sent {
            TUNING.control.answer.duration()
        } else {
            Duration::ZERO
        };
        let answer = self.answers.recv_timeout(patience).ok();
        let report = answer.and_then(|mut answer| answer.get_mut("result").map(Value::take));
        let mut report = match report {
            Some(Value::Object(report)) => report,
            _ => Map::new(),
        };
        let warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        report.insert("warnings".to_owned(), warnings.clone().into());
        report
    }
}

/// What the user is to be told of an event. A service that is to end asks this process to end its job.
fn heard(event: &Value) -> Option<String> {
    let message = event["message"].as_str().unwrap_or_default();
    match event["event"].as_str()? {
        "stop" => {
            // As if somebody had sent it: it is passed on.
            let _ = kill_process(getpid(), Signal::TERM);
            None
        }
        "warning" | "unmanaged" | "exhausted" => Some(message.to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_a_service_does_not_start_is_told_and_no_warning_before_it() {
        let text =
            "neap: warning: something\nneap: error[E0110]: too small\n  try: a larger --memory\n";
        let told = refusal(text);
        assert_eq!(
            told,
            Some(("E0110", "too small; try: a larger --memory".to_owned()))
        );
        let own = Failure::Taken("a".to_owned());
        let text = own.lines();
        assert_eq!(refusal(&text).map(|(code, _)| code), Some(own.code()));
        assert_eq!(refusal("neap: warning: something\n"), None);
    }

    #[test]
    fn a_budget_is_a_name_and_a_size() {
        let wanted = Wanted::parse("build:2G").unwrap();
        assert_eq!(wanted.name.as_str(), "build");
        assert_eq!(wanted.budget.as_deref(), Some("2G"));
        assert_eq!(Wanted::parse("build").unwrap().budget, None);
        for bad in ["", ":2G", "a b:2G", "build:2Q", "build:"] {
            assert!(Wanted::parse(bad).is_err(), "{bad}");
        }
    }
}
