//! The end of who asks. It waits for an answer, but not for ever.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use neap_tuning::TUNING;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketType};
use serde_json::{Value, json};
use thiserror::Error;

use crate::request::Call;

/// A connection to a job.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<UnixStream>,
}

/// The end of a connection that asks.
#[derive(Debug)]
pub struct Sender(UnixStream);

impl Sender {
    /// Asks; the answer comes where lines are waited for.
    ///
    /// # Errors
    /// Nobody listens any more.
    pub fn send(&mut self, call: &Call) -> io::Result<()> {
        self.0.write_all(call.line().as_bytes())
    }
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
            "nothing came in time; is neap stopped?".to_owned()
        }
        _ => error.to_string(),
    }
}

impl Client {
    /// Connects to the socket of a job; no step waits longer than this. A job that is stopped takes no connection once as many
    /// wait for it as may.
    ///
    /// # Errors
    /// Nobody listens there.
    pub fn connect(socket: &Path, patience: Duration) -> io::Result<Self> {
        let kind = net::SocketFlags::CLOEXEC;
        let fd = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, kind, None)?;
        set_socket_timeout(&fd, Timeout::Send, Some(patience))?; // of connect(2) as well
        set_socket_timeout(&fd, Timeout::Recv, Some(patience))?;
        net::connect(&fd, &SocketAddrUnix::new(socket)?)?;
        Ok(Self {
            stream: BufReader::new(UnixStream::from(fd)),
        })
    }

    /// Another end of the connection, to ask by while somebody waits for lines.
    ///
    /// # Errors
    /// There is no descriptor left.
    pub fn sender(&self) -> io::Result<Sender> {
        self.stream.get_ref().try_clone().map(Sender)
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
    pub fn begin(&mut self, call: &Call) -> Result<(), Refusal> {
        self.stream.get_mut().write_all(call.line().as_bytes())?;
        Ok(())
    }

    /// Asks, and returns what was achieved.
    ///
    /// # Errors
    /// It was not done, or nobody answers.
    pub fn ask(&mut self, call: &Call) -> Result<Value, Refusal> {
        self.begin(call)?;
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

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::request::Request;

    #[test]
    fn a_job_that_takes_no_connection_is_waited_for_no_longer_than_is_said() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("job.sock");
        let _silent = UnixListener::bind(&path).expect("a socket");
        let patience = Duration::from_millis(20);
        let mut waiting = Vec::new();
        let error = loop {
            match Client::connect(&path, patience) {
                Ok(client) => waiting.push(client),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        assert!(Refusal::from(error).to_string().contains("in time"));
        let refusal = waiting[0]
            .ask(&Call::new(Request::Stat))
            .expect_err("nobody answers");
        assert!(refusal.to_string().contains("in time"), "{refusal}");
    }
}
