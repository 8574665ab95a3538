//! A service of neap's and its jobs, of whoever runs the test or of an ordinary user.

use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::{Marker, Need, OrdinaryUser, leftovers, neap_binary, program, require};

/// Longest that anything here is waited for.
const LONGEST: Duration = Duration::from_secs(60);

/// A folder for sockets and files, and the user to whom it belongs.
pub struct Place {
    /// The folder.
    pub dir: TempDir,
    /// Words before each command.
    as_user: Vec<OsString>,
    /// The binary.
    pub neap: PathBuf,
    device: Option<PathBuf>,
    /// The program `waits`.
    pub waits: PathBuf,
    user: Option<OrdinaryUser>,
    /// What all processes of the place have, also those that left everything else behind.
    marker: Marker,
}

/// A process that is killed if a test ends before it.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    /// Waits for its end: how that was, and what it printed.
    ///
    /// # Panics
    /// If that is no text.
    #[must_use]
    pub fn wait(mut self) -> (ExitStatus, String, String) {
        let (mut out, mut err) = (String::new(), String::new());
        if let Some(mut stdout) = self.0.stdout.take() {
            stdout.read_to_string(&mut out).expect("text");
        }
        if let Some(mut stderr) = self.0.stderr.take() {
            stderr.read_to_string(&mut err).expect("text");
        }
        (self.0.wait().expect("it ends"), out, err)
    }
}

/// A process whose words go into files, so that it never waits for a reader.
pub struct Told {
    /// Its command.
    pub what: String,
    /// When it was started.
    pub begun: Instant,
    process: Running,
    out: PathBuf,
    err: PathBuf,
}

impl Told {
    /// What it wrote so far, to both streams.
    ///
    /// # Panics
    /// If the files are gone.
    #[must_use]
    pub fn said(&self) -> (String, String) {
        let text = |path| String::from_utf8_lossy(&fs::read(path).expect("a file")).into_owned();
        (text(&self.out), text(&self.err))
    }

    /// How it ended, if it has.
    ///
    /// # Panics
    /// If it is none of ours.
    pub fn has_ended(&mut self) -> Option<ExitStatus> {
        self.process.0.try_wait().expect("ours")
    }

    /// Sends a signal to it, if it has not been waited for.
    pub fn signal(&mut self, signal: i32) {
        if self.has_ended().is_none() {
            let pid = self.process.0.id().try_into();
            let _ = neap_sys::signal(pid.expect("a number"), signal);
        }
    }

    /// The processes that its first thread started and that live.
    #[must_use]
    pub fn children(&self) -> Vec<i32> {
        let id = self.process.0.id();
        let text = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
        let words = text.split_whitespace();
        words.filter_map(|word| word.parse().ok()).collect()
    }
}

/// Waits until something is so.
///
/// # Panics
/// If that lasts too long.
pub fn wait_until(what: &str, mut is: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < LONGEST, "waited in vain: {what}");
        sleep(Duration::from_millis(10));
    }
}

impl Place {
    /// Of the user who runs the test.
    ///
    /// # Panics
    /// If the machine does not do its part.
    #[must_use]
    pub fn own() -> Self {
        Self {
            dir: tempfile::tempdir().expect("a folder"),
            as_user: Vec::new(),
            neap: neap_binary().expect("the binary of neap"),
            device: None,
            waits: program("waits"),
            user: None,
            marker: Marker::new(),
        }
    }

    /// Of an ordinary user; none if there can be none here.
    ///
    /// # Panics
    /// If the machine does not do its part.
    #[must_use]
    pub fn of_user(test: &str) -> Option<Self> {
        let (user, device) = OrdinaryUser::with_device(test)?;
        let dir = tempfile::Builder::new()
            .prefix("serve")
            .tempdir_in(user.dir())
            .expect("a folder");
        let words = user.words();
        let id = words[1]
            .to_str()
            .and_then(|word| word.strip_prefix("--reuid="));
        let id = id.and_then(|id| id.parse().ok()).expect("a number");
        std::os::unix::fs::chown(dir.path(), Some(id), Some(65534)).expect("a folder of theirs");
        fs::set_permissions(dir.path(), Permissions::from_mode(0o700)).expect("a mode");
        Some(Self {
            dir,
            as_user: words,
            neap: user.neap(),
            device: Some(device),
            waits: user.copy(&program("waits")),
            user: Some(user),
            marker: Marker::new(),
        })
    }

    /// With words before each command, such as those that enter a cgroup.
    #[must_use]
    pub fn within(mut self, words: Vec<OsString>) -> Self {
        self.as_user.splice(0..0, words);
        self
    }

    /// A file in the folder.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut all = self.as_user.clone();
        all.push(self.neap.clone().into());
        all.extend(words.iter().map(OsString::from));
        let mut command = Command::new(&all[0]);
        command
            .args(&all[1..])
            .env("XDG_RUNTIME_DIR", self.dir.path())
            .current_dir("/");
        command.env("TMPDIR", self.dir.path()).stdin(Stdio::null());
        if let Some(device) = &self.device {
            command.env("NEAP_UFFD_DEVICE", device);
        }
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Starts a command of neap's.
    ///
    /// # Panics
    /// If the machine does not do its part.
    #[must_use]
    pub fn start(&self, words: &[&str]) -> Running {
        self.start_as(words, |_| ())
    }

    fn start_as(&self, words: &[&str], change: impl FnOnce(&mut Command)) -> Running {
        let mut command = self.command(words);
        change(&mut command);
        Running(self.marker.spawn(&mut command).expect("neap starts"))
    }

    /// Starts one that writes into `NAME.out` and `NAME.err` of a folder, and checks itself.
    ///
    /// # Panics
    /// If the machine does not do its part.
    #[must_use]
    pub fn told(&self, words: &[&str], folder: &Path, name: &str) -> Told {
        let file = |end: &str| folder.join(format!("{name}.{end}"));
        let (out, err) = (file("out"), file("err"));
        let create = |path| File::create(path).expect("a file");
        let process = self.start_as(words, |command| {
            let command = command.stdout(create(&out)).stderr(create(&err));
            command.env("NEAP_CHECK", "1");
        });
        let (what, begun) = (words.join(" "), Instant::now());
        Told {
            what,
            begun,
            process,
            out,
            err,
        }
    }

    /// A program that its user may run.
    #[must_use]
    pub fn copy(&self, program: &Path) -> PathBuf {
        let own = || program.to_owned();
        self.user
            .as_ref()
            .map_or_else(own, |user| user.copy(program))
    }

    /// Whether it is that of an ordinary user.
    #[must_use]
    pub fn is_of_user(&self) -> bool {
        self.user.is_some()
    }

    /// What each thread does of all that was started here and lives.
    #[must_use]
    pub fn describe(&self) -> String {
        self.marker.describe()
    }

    /// The processes that are left some time after all should have ended, which are killed.
    #[must_use]
    pub fn leftovers(&self) -> Vec<String> {
        leftovers(&self.marker)
    }

    /// Runs one.
    ///
    /// # Panics
    /// If the machine does not do its part.
    #[must_use]
    pub fn ask(&self, words: &[&str]) -> Output {
        self.command(words).output().expect("neap runs")
    }

    /// The service `all`.
    ///
    /// # Panics
    /// If the machine does not do its part.
    #[must_use]
    pub fn serve(&self, words: &[&str]) -> Running {
        let running = self.start(&[&["serve", "all"], words].concat());
        wait_until("the service is there", || {
            self.file("neap/all.sock").exists()
        });
        running
    }

    /// A job that fills so many MiB, and waits until it is to end.
    ///
    /// # Panics
    /// If the machine does not do its part.
    #[must_use]
    pub fn job(&self, name: &str, mib: u64, options: &[&str], busy: bool) -> Running {
        let (stop, size) = (self.file(&format!("{name}.stop")), mib.to_string());
        let mut words = vec!["run", "--in", "all", "--name", name];
        words.extend(options);
        words.extend(["--", path(&self.waits), &size, path(&stop)]);
        words.extend(busy.then_some("busy"));
        let running = self.start(&words);
        let ready = self.file(&format!("{name}.stop.ready"));
        wait_until("a job waits", || ready.exists());
        running
    }

    /// Has a job end, which must be whole.
    ///
    /// # Panics
    /// If the machine does not do its part.
    pub fn end(&self, name: &str, job: Running) -> String {
        fs::write(self.file(&format!("{name}.stop")), "").expect("a file");
        let (status, out, err) = job.wait();
        assert!(
            status.success() && out == "whole\n",
            "{name}: {status} {out} {err}"
        );
        err
    }

    /// The figures of a job, or of the service.
    ///
    /// # Panics
    /// If the machine does not do its part.
    #[must_use]
    pub fn stat(&self, name: &str) -> Value {
        let output = self.ask(&["stat", "--json", name]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {said}");
        serde_json::from_slice(&output.stdout).expect("an object")
    }

    /// One of them.
    ///
    /// # Panics
    /// If the machine does not do its part.
    #[must_use]
    pub fn number(&self, name: &str, pointer: &str) -> u64 {
        let stat = self.stat(name);
        stat.pointer(pointer)
            .and_then(Value::as_u64)
            .unwrap_or_else(|| panic!("{pointer}: {stat}"))
    }

    /// What is said by a command that must fail with this status.
    ///
    /// # Panics
    /// If the machine does not do its part.
    #[must_use]
    pub fn refusal(&self, words: &[&str], status: i32) -> String {
        let output = self.ask(words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(status), "{words:?}: {said}");
        said
    }
}

/// A path as text.
///
/// # Panics
/// If it has other letters.
#[must_use]
pub fn path(path: &Path) -> &str {
    path.to_str().expect("a path of letters")
}

/// As root, and as an ordinary user as far as there may be one.
#[must_use]
pub fn places(test: &str) -> Vec<Place> {
    let needs = [Need::Neap, Need::Userfaultfd];
    let own = require(test, &needs).then(Place::own);
    let user = format!("{test}_as_a_user");
    own.into_iter().chain(Place::of_user(&user)).collect()
}
