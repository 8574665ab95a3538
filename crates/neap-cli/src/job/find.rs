//! Finding a running job by what the user calls it.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use neap_control::{Call, Client, Found, Name, Refusal, Request, jobs};
use neap_tuning::TUNING;
use serde_json::Value;

use super::failure::Failure;

/// A job that is asked.
#[derive(Clone, Debug)]
pub struct Job {
    /// What it is called.
    pub name: String,
    socket: PathBuf,
    /// It is a job of the service that listens there.
    member: Option<Name>,
    /// What that is called.
    service: Option<String>,
}

impl Job {
    fn of(found: &Found) -> Self {
        Self {
            name: found.name.to_string(),
            socket: found.socket.clone(),
            member: None,
            service: None,
        }
    }

    /// What it is called among all: a job of a service by that, too.
    fn called(&self) -> String {
        match &self.service {
            Some(service) => format!("{service}/{}", self.name),
            None => self.name.clone(),
        }
    }

    /// A request about it.
    #[must_use]
    pub fn call(&self, request: Request) -> Call {
        Call {
            job: self.member.clone(),
            request,
        }
    }

    /// Whether this is the last event of it: a job of a service has left that.
    #[must_use]
    pub fn is_left_by(&self, event: &Value) -> bool {
        let its = |name: &Name| event["job"] == name.as_str();
        event["event"] == "leave" && self.member.as_ref().is_some_and(its)
    }

    /// All jobs of this user.
    #[must_use]
    pub fn all() -> Vec<Self> {
        jobs().iter().map(Self::of).collect()
    }

    /// The job that is called so; the only one, if nothing is said.
    ///
    /// # Errors
    /// There is none, or more than one.
    pub fn find(word: Option<&str>) -> Result<Self, Failure> {
        if let Some(path) = word.filter(|word| word.contains('/')) {
            if let (Some(job), false) = (Self::of_service(path), Path::new(path).exists()) {
                return Ok(job);
            }
            can_listen(path)?;
            return Ok(Self {
                name: path.to_owned(),
                socket: path.into(),
                member: None,
                service: None,
            });
        }
        let mut all = Self::all();
        if all.is_empty() {
            return Err(Failure::NoJobs);
        }
        let Some(word) = word else {
            return match all.len() {
                1 => Ok(all.remove(0)),
                _ => Err(several(&all)),
            };
        };
        if let Some(at) = all.iter().position(|job| job.name == word) {
            return Ok(all.swap_remove(at));
        }
        let mut called = called(&all, word);
        match called.len() {
            0 => {}
            1 => return Ok(called.remove(0)),
            _ => return Err(several(&called)),
        }
        let stats = stats_of(&all);
        let members = members(&all, &stats);
        match word.parse().ok() {
            Some(pid) => all = with_process(&all, &stats, pid),
            None => {
                all.extend(members);
                all.retain(|job| job.name.starts_with(word));
            }
        }
        match all.len() {
            0 => Err(Failure::NoJob(word.to_owned())),
            1 => Ok(all.remove(0)),
            _ => Err(several(&all)),
        }
    }

    /// SERVICE/JOB: of a service that is there, by its whole name.
    fn of_service(word: &str) -> Option<Self> {
        let (service, job) = word.split_once('/')?;
        let member = Name::new(job).ok()?;
        let service = Self::all().into_iter().find(|job| job.name == service)?;
        Some(service.member(member))
    }

    /// The job of that name below it, if there is one.
    fn member(self, name: Name) -> Self {
        Self {
            name: name.to_string(),
            member: Some(name),
            socket: self.socket,
            service: Some(self.name),
        }
    }

    /// A connection to it.
    ///
    /// # Errors
    /// Nobody listens.
    pub fn connect(&self) -> Result<Client, Failure> {
        self.connect_within(TUNING.control.answer.duration())
    }

    fn connect_within(&self, patience: Duration) -> Result<Client, Failure> {
        let client = Client::connect(&self.socket, patience);
        client.map_err(|error| Failure::of(&self.name, error.into()))
    }

    /// Asks it for something that is done at once.
    ///
    /// # Errors
    /// It says no, or nobody answers.
    pub fn ask(&self, request: Request) -> Result<Value, Failure> {
        let answer = self.connect()?.ask(&self.call(request));
        answer.map_err(|refusal| Failure::of(&self.name, refusal))
    }

    /// All its figures.
    ///
    /// # Errors
    /// Nobody answers.
    pub fn stat(&self) -> Result<Value, Failure> {
        self.ask(Request::Stat)
    }
}

/// Whether a job can listen at this path.
fn can_listen(path: &str) -> Result<(), Failure> {
    let fault = match fs::metadata(path) {
        Ok(found) if found.file_type().is_socket() => return Ok(()),
        Ok(_) => "it is no socket",
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            "this user may not look there"
        }
        Err(_) => "there is no such file",
    };
    Err(Failure::NoSocket(path.to_owned(), fault))
}

/// All figures of each, in the order of the jobs. They are asked side by side, and within one limit for all.
pub fn stats_of(jobs: &[Job]) -> Vec<Result<Value, Failure>> {
    let patience = TUNING.control.glance.duration();
    let end = neap_sys::monotonic_nanos() + TUNING.control.glance.0;
    let silent =
        |job: &Job| Failure::of(&job.name, io::Error::from(io::ErrorKind::TimedOut).into());
    let mut stats: Vec<_> = jobs.iter().map(|job| Err(silent(job))).collect();
    let (say, heard) = channel();
    for (at, job) in jobs.iter().cloned().enumerate() {
        let say = say.clone();
        let ask = move || {
            let answer = job.connect_within(patience).and_then(|mut client| {
                let answer = client.ask(&job.call(Request::Stat));
                answer.map_err(|refusal| Failure::of(&job.name, refusal))
            });
            let _ = say.send((at, answer));
        };
        let _ = thread::Builder::new().spawn(ask); // one that cannot be asked has said nothing
    }
    drop(say);
    let left = || Duration::from_nanos(end.saturating_sub(neap_sys::monotonic_nanos()));
    while let Ok((at, answer)) = heard.recv_timeout(left()) {
        stats[at] = answer;
    }
    stats
}

/// All figures of the jobs of services, named SERVICE/JOB, within one limit for all.
pub fn stats_below(jobs: &[Job], stats: &[Result<Value, Failure>]) -> Vec<Result<Value, Failure>> {
    let end = neap_sys::monotonic_nanos() + TUNING.control.glance.0;
    let all = members(jobs, stats);
    let services = all.chunk_by(|one, other| one.socket == other.socket);
    services.flat_map(|its| ask_each(its, end)).collect()
}

/// Asks jobs of one service over one connection, since a process may have few. A job that has left meanwhile is left out.
fn ask_each(jobs: &[Job], end: u64) -> Vec<Result<Value, Failure>> {
    let left = || Duration::from_nanos(end.saturating_sub(neap_sys::monotonic_nanos()));
    let late = |job: &Job| {
        Failure::of(
            &job.called(),
            io::Error::from(io::ErrorKind::TimedOut).into(),
        )
    };
    let mut client = match jobs[0].connect_within(left().max(Duration::from_millis(1))) {
        Ok(client) => client,
        Err(failure) => return vec![Err(failure)],
    };
    let mut stats = Vec::new();
    for job in jobs {
        if left().is_zero() {
            stats.push(Err(late(job)));
            break;
        }
        match client.ask(&job.call(Request::Stat)) {
            Ok(mut stat) => {
                stat["name"] = job.called().into();
                stats.push(Ok(stat));
            }
            Err(Refusal::No { .. }) => {}
            Err(refusal) => {
                stats.push(Err(Failure::of(&job.called(), refusal)));
                break;
            }
        }
    }
    stats
}

/// The jobs of services that are called so. Each service is asked for that one: the figures of all its jobs take long.
fn called(jobs: &[Job], word: &str) -> Vec<Job> {
    let Ok(name) = Name::new(word) else {
        return Vec::new();
    };
    let members = jobs.iter().map(|job| job.clone().member(name.clone()));
    let members: Vec<Job> = members.collect();
    let stats = stats_of(&members);
    let there = members.into_iter().zip(stats);
    there
        .filter(|(_, stat)| stat.as_ref().is_ok_and(|stat| stat["name"] == word))
        .map(|(job, _)| job)
        .collect()
}

/// The jobs of those that are services.
fn members(jobs: &[Job], stats: &[Result<Value, Failure>]) -> Vec<Job> {
    let of = |(job, stat): (&Job, &Result<Value, Failure>)| {
        let stat = stat.as_ref().ok();
        let its = stat.and_then(|stat| stat["jobs"].as_array()).cloned();
        let member = |line: &Value| {
            let name = Name::new(line["name"].as_str()?).ok()?;
            Some(job.clone().member(name))
        };
        its.unwrap_or_default()
            .iter()
            .filter_map(member)
            .collect::<Vec<_>>()
    };
    jobs.iter().zip(stats).flat_map(of).collect()
}

/// Those that have this process; of a service the job that does, if one of its own does.
fn with_process(jobs: &[Job], stats: &[Result<Value, Failure>], pid: u64) -> Vec<Job> {
    let has = |stat: &Value| {
        let its = stat["processes"].as_array().into_iter().flatten();
        let mut its = its.map(|process| &process["pid"]);
        stat["pid"] == pid || its.any(|its| *its == pid)
    };
    let all = members(jobs, stats);
    let owns = |job: &&Job| job.stat().is_ok_and(|stat| has(&stat));
    if let Some(member) = all.iter().find(owns) {
        return vec![member.clone()];
    }
    let all = jobs.iter().zip(stats);
    all.filter(|(_, stat)| stat.as_ref().is_ok_and(has))
        .map(|(job, _)| job.clone())
        .collect()
}

fn several(jobs: &[Job]) -> Failure {
    const MOST: usize = 8;
    let names: Vec<_> = jobs.iter().take(MOST).map(Job::called).collect();
    let more = if jobs.len() > MOST { ", and more" } else { "" };
    Failure::Several(format!("{}{more}", names.join(", ")))
}
