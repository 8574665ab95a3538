//! The end of who asks. It waits for an answer, but not for ever.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use neap_tuning::TUNING;
use serde_json::{Value, json};
use thiserror::Error;

use crate::request::Request;

/// A connection to a job.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<UnixStream>,
}

/// Why a request was not done.
#[derive(Debug, Error)]
pub enum Refusal {
    /// Nobody answers.
    #[error("it does not answer: {}", in_words(.0))]
    Silent(#[from] io::Error),
    /// The answer is none.
    #[error("its answer is no JSON of this version")]
    Nonsense,
    /// The job said no.
    #[error("{message}")]
    No {
        /// As errno(3) names it.
        code: String,
        /// For people.
        message: String,
        /// What was achieved all the same.
        result: Value,
    },
}

/// The kernel's word for a wait that was too long would not be understood.
fn in_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            let seconds = TUNING.control.answer.duration().as_secs();
            format!("nothing came for {seconds} s; is neap stopped?")
        }
        _ => error.to_string(),
    }
}

impl Client {
    /// Connects to the socket of a job.
    ///
    /// # Errors
    /// Nobody listens there.
    pub fn connect(socket: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(socket)?;
        let patience = Some(TUNING.control.answer.duration());
        stream.set_read_timeout(patience)?;
        stream.set_write_timeout(patience)?;
        Ok(Self {
            stream: BufReader::new(stream),
        })
    }

    /// Waits so long for each line from now on; `None`: for ever.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn wait_for(&self, patience: Option<Duration>) -> io::Result<()> {
        self.stream.get_ref().set_read_timeout(patience)
    }

    /// Asks for lines that come when there is something to tell.
    ///
    /// # Errors
    /// Nobody listens any more.
    pub fn begin(&mut self, request: &Request) -> Result<(), Refusal> {
        self.stream.get_mut().write_all(request.line().as_bytes())?;
        Ok(())
    }

    /// Asks, and returns what was achieved.
    ///
    /// # Errors
    /// It was not done, or nobody answers.
    pub fn ask(&mut self, request: &Request) -> Result<Value, Refusal> {
        self.begin(request)?;
        let answer = self.line()?.ok_or(io::ErrorKind::UnexpectedEof);
        let mut answer = answer.map_err(io::Error::from)?;
        let result = answer.get_mut("result").map(Value::take);
        match answer["ok"].as_bool() {
            Some(true) => Ok(result.unwrap_or_default()),
            Some(false) => {
                let word = |name: &str| answer["error"][name].as_str().unwrap_or("").to_owned();
                Err(Refusal::No {
                    code: word("code"),
                    message: word("message"),
                    result: result.unwrap_or(json!(null)),
                })
            }
            None => Err(Refusal::Nonsense),
        }
    }

    /// The next line; `None`: there will be no other.
    ///
    /// # Errors
    /// There is none in time, or it is no JSON.
    pub fn line(&mut self) -> Result<Option<Value>, Refusal> {
        let mut line = Vec::new();
        let most = TUNING.control.answer_most.0;
        let stream = Read::by_ref(&mut self.stream);
        if stream.take(most).read_until(b'\n', &mut line)? == 0 {
            return Ok(None);
        }
        serde_json::from_slice(&line)
            .map(Some)
            .map_err(|_| Refusal::Nonsense)
    }
}
