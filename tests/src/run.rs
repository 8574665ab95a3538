//! One run of a command with a time limit that ends its whole tree.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::process::{Marker, leftovers};
use crate::sample::{Peak, Sampler};

/// A command, and how long all it starts may live.
#[derive(Clone, Debug)]
pub struct Run {
    argv: Vec<OsString>,
    env: Vec<(OsString, Option<OsString>)>,
    dir: Option<PathBuf>,
    stdin: Option<Vec<u8>>,
    limit: Duration,
    sample: bool,
    may_leave: bool,
}

/// What came of a run.
#[derive(Debug)]
pub struct Outcome {
    /// What was run, for messages.
    pub command: String,
    /// How the first process ended.
    pub status: ExitStatus,
    /// All of its standard output.
    pub stdout: Vec<u8>,
    /// All of its standard error.
    pub stderr: String,
    /// Anonymous memory of the tree, if asked for.
    pub peak: Option<Peak>,
    /// How long it took, to be printed.
    pub seconds: f64,
    /// Set if the run was ended by its time limit: what its threads were doing.
    pub hung: Option<String>,
}

impl Run {
    /// The command itself.
    pub fn new(argv: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        Run {
            argv: argv.into_iter().map(|a| a.as_ref().to_owned()).collect(),
            env: Vec::new(),
            dir: None,
            stdin: None,
            limit: Duration::from_secs(300),
            sample: false,
            may_leave: false,
        }
    }

    /// Sets a variable of its environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.env
            .push((name.into(), Some(value.as_ref().to_owned())));
        self
    }

    /// Removes a variable.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.env.push((name.into(), None));
        self
    }

    /// Its working directory.
    #[must_use]
    pub fn dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.dir = Some(dir.into());
        self
    }

    /// Its standard input; the null device unless given.
    #[must_use]
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = Some(bytes.into());
        self
    }

    /// After how long the whole tree is killed and the run counts as hung.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Samples the anonymous memory of the tree each millisecond.
    #[must_use]
    pub fn sampled(mut self) -> Self {
        self.sample = true;
        self
    }

    /// Processes may outlive the first one (they are killed then, without complaint).
    #[must_use]
    pub fn may_leave_processes(mut self) -> Self {
        self.may_leave = true;
        self
    }

    /// The words of the command.
    #[must_use]
    pub fn argv(&self) -> &[OsString] {
        &self.argv
    }

    /// Puts words before the command: a wrapper.
    #[must_use]
    pub fn wrapped(mut self, words: impl IntoIterator<Item = OsString>) -> Self {
        let mut argv: Vec<OsString> = words.into_iter().collect();
        argv.append(&mut self.argv);
        self.argv = argv;
        self
    }

    /// Runs it to its end.
    ///
    /// # Panics
    /// If it cannot be started at all, or leaves processes behind.
    #[must_use]
    pub fn go(&self) -> Outcome {
        self.go_with(|_| ())
    }

    /// As [`Run::go`]; `meanwhile` is called with the first process's id once it runs.
    ///
    /// # Panics
    /// As [`Run::go`].
    #[must_use]
    pub fn go_with(&self, meanwhile: impl FnOnce(u32)) -> Outcome {
        let marker = Marker::new();
        // Files, not pipes: a daemon that keeps its standard output open must not keep us waiting.
        let mut files =
            [tempfile::tempfile(), tempfile::tempfile()].map(|f| f.expect("a temporary file"));
        let mut child = marker
            .spawn(&mut self.command(&files))
            .unwrap_or_else(|e| panic!("starting {:?}: {e}", self.argv));
        let sampler = self.sample.then(|| Sampler::start(child.id()));
        let from = Instant::now();
        let end = from + self.limit;
        let ends = EndsAll(&marker);
        meanwhile(child.id());
        let mut hung = None;
        let status = loop {
            if let Some(status) = child.try_wait().expect("waiting for our own child") {
                break status;
            }
            if hung.is_none() && Instant::now() > end {
                hung = Some(marker.describe());
                marker.kill();
                let _ = child.kill();
            }
            sleep(Duration::from_millis(2));
        };
        drop(ends);
        let seconds = from.elapsed().as_secs_f64();
        let peak = sampler.map(Sampler::stop);
        let left = if self.may_leave {
            marker.kill();
            Vec::new()
        } else {
            leftovers(&marker)
        };
        let [stdout, stderr] = files.each_mut().map(contents);
        let stderr = String::from_utf8_lossy(&stderr).into_owned();
        let command = self
            .argv
            .iter()
            .map(|a| a.to_string_lossy())
            .collect::<Vec<_>>()
            .join(" ");
        assert!(
            left.is_empty(),
            "{command}\nleft processes behind:\n{}\n{stderr}",
            left.join("\n")
        );
        Outcome {
            command,
            status,
            stdout,
            stderr,
            peak,
            hung,
            seconds,
        }
    }

    fn command(&self, files: &[File; 2]) -> Command {
        let mut command = Command::new(&self.argv[0]);
        command.args(&self.argv[1..]);
        for (name, value) in &self.env {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        if let Some(dir) = &self.dir {
            command.current_dir(dir);
        }
        let stdin = self.stdin.as_ref().map_or_else(Stdio::null, |bytes| {
            let mut file = tempfile::tempfile().expect("a temporary file");
            std::io::Write::write_all(&mut file, bytes).expect("writing a temporary file");
            file.seek(SeekFrom::Start(0)).expect("a file can seek");
            file.into()
        });
        let copy = |f: &File| Stdio::from(f.try_clone().expect("a descriptor"));
        command
            .stdin(stdin)
            .stdout(copy(&files[0]))
            .stderr(copy(&files[1]));
        command
    }
}

/// Ends the whole run if the test gives up while it goes on.
struct EndsAll<'a>(&'a Marker);

impl Drop for EndsAll<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.kill();
        }
    }
}

fn contents(file: &mut File) -> Vec<u8> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0)).expect("a file can seek");
    file.read_to_end(&mut bytes)
        .expect("reading a temporary file");
    bytes
}

impl Outcome {
    /// Exit status as a shell shows it: 128+N if a signal ended it.
    #[must_use]
    pub fn code(&self) -> i32 {
        self.status
            .code()
            .unwrap_or_else(|| 128 + self.status.signal().unwrap_or(0))
    }

    /// Standard output as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Fails the test with everything that was said, unless it ended with `code` in time.
    ///
    /// # Panics
    /// If not.
    #[track_caller]
    pub fn must_exit(&self, code: i32) -> &Self {
        if let Some(threads) = &self.hung {
            panic!(
                "{}\nhung:\n{threads}stdout: {}\nstderr: {}",
                self.command,
                self.text(),
                self.stderr
            );
        }
        assert!(
            self.code() == code,
            "{}\nended with {} ({}), must end with {code}\nstdout: {}\nstderr: {}",
            self.command,
            self.code(),
            self.status,
            self.text(),
            self.stderr
        );
        self
    }
}
