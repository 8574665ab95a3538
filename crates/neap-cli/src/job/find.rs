//! Finding a running job by what the user calls it.

use std::path::PathBuf;

use neap_control::{Client, Found, Request, jobs};
use serde_json::Value;

use super::failure::Failure;

/// A job that is asked.
#[derive(Debug)]
pub struct Job {
    /// What it is called.
    pub name: String,
    socket: PathBuf,
}

impl Job {
    fn of(found: &Found) -> Self {
        Self {
            name: found.name.to_string(),
            socket: found.socket.clone(),
        }
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
            return Ok(Self {
                name: path.to_owned(),
                socket: path.into(),
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
        let number = word.parse().ok();
        match number {
            Some(pid) => all.retain(|job| job.has(pid)),
            None => all.retain(|job| job.name.starts_with(word)),
        }
        match all.len() {
            0 => Err(Failure::NoJob(word.to_owned())),
            1 => Ok(all.remove(0)),
            _ => Err(several(&all)),
        }
    }

    fn has(&self, pid: u64) -> bool {
        let Ok(stat) = self.stat() else { return false };
        let its = stat["processes"].as_array().into_iter().flatten();
        let mut its = its.map(|process| &process["pid"]);
        stat["pid"] == pid || its.any(|its| *its == pid)
    }

    /// A connection to it.
    ///
    /// # Errors
    /// Nobody listens.
    pub fn connect(&self) -> Result<Client, Failure> {
        Client::connect(&self.socket).map_err(|error| Failure::Silent {
            name: self.name.clone(),
            why: error.to_string(),
        })
    }

    /// Asks it for something that is done at once.
    ///
    /// # Errors
    /// It says no, or nobody answers.
    pub fn ask(&self, request: &Request) -> Result<Value, Failure> {
        let answer = self.connect()?.ask(request);
        answer.map_err(|refusal| Failure::of(&self.name, refusal))
    }

    /// All its figures.
    ///
    /// # Errors
    /// Nobody answers.
    pub fn stat(&self) -> Result<Value, Failure> {
        self.ask(&Request::Stat)
    }
}

fn several(jobs: &[Job]) -> Failure {
    const MOST: usize = 8;
    let names: Vec<&str> = jobs.iter().take(MOST).map(|job| &*job.name).collect();
    let more = if jobs.len() > MOST { ", and more" } else { "" };
    Failure::Several(format!("{}{more}", names.join(", ")))
}
