//! redis-server, talked to by a client of our own: every key must come back, also while a forked child
//! saves them, and the file that child wrote must hold what was there when it was forked.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use neap_tests::{Neap, Need, Outcome, Run, exclusive, require};
use tempfile::TempDir;

/// Requests written before their answers are read.
const BATCH: u64 = 500;

/// With `NEAP_REAL=full` it takes long.
fn full() -> bool {
    std::env::var_os("NEAP_REAL").is_some_and(|value| value == "full")
}

fn keys() -> u64 {
    if full() { 1_500_000 } else { 40_000 }
}

/// The value of a key in a round: 100 to 600 bytes, half of them repeating.
fn value(key: u64, round: u64) -> String {
    let mut text = String::new();
    let mut state = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ round;
    for _ in 0..(4 + key % 21) {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let _ = write!(text, "{:012x} of the value ", state >> 16);
    }
    text
}

struct Client {
    to: UnixStream,
    from: BufReader<UnixStream>,
}

impl Client {
    /// Connects once the server listens.
    fn connect(socket: &Path) -> Option<Self> {
        let end = Instant::now() + Duration::from_secs(60);
        while Instant::now() < end {
            if let Ok(to) = UnixStream::connect(socket) {
                let _ = to.set_read_timeout(Some(Duration::from_secs(120)));
                let from = BufReader::new(to.try_clone().ok()?);
                return Some(Client { to, from });
            }
            sleep(Duration::from_millis(10));
        }
        None
    }

    fn send(&mut self, words: &[&str]) {
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            let _ = write!(request, "${}\r\n{word}\r\n", word.len());
        }
        self.to
            .write_all(request.as_bytes())
            .expect("the server reads");
    }

    /// One answer: a line, a number or a string.
    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.from.read_line(&mut line).expect("the server answers");
        let line = line.trim_end();
        assert!(!line.starts_with('-'), "the server says {line}");
        let Some(length) = line.strip_prefix('$') else {
            return line.get(1..).unwrap_or_default().to_owned();
        };
        let length: usize = length
            .parse()
            .unwrap_or_else(|_| panic!("an answer of {line}"));
        let mut bytes = vec![0; length + 2];
        self.from
            .read_exact(&mut bytes)
            .expect("the server answers");
        bytes.truncate(length);
        String::from_utf8(bytes).expect("values are text")
    }

    fn ask(&mut self, words: &[&str]) -> String {
        self.send(words);
        self.answer()
    }

    fn set_all(&mut self, count: u64, round: u64) {
        for first in (0..count).step_by(BATCH as usize) {
            let batch = first..(first + BATCH).min(count);
            for key in batch.clone() {
                self.send(&["SET", &format!("key:{key}"), &value(key, round)]);
            }
            for _ in batch {
                assert_eq!(self.answer(), "OK");
            }
        }
    }

    fn check_all(&mut self, count: u64, round: u64, what: &str) {
        for first in (0..count).step_by(BATCH as usize) {
            let batch = first..(first + BATCH).min(count);
            for key in batch.clone() {
                self.send(&["GET", &format!("key:{key}")]);
            }
            for key in batch {
                assert_eq!(self.answer(), value(key, round), "{what}: key {key}");
            }
        }
    }

    fn wait_for_save(&mut self) {
        loop {
            let info = self.ask(&["INFO", "persistence"]);
            if info.contains("rdb_bgsave_in_progress:0") {
                assert!(
                    info.contains("rdb_last_bgsave_status:ok"),
                    "the save failed: {info}"
                );
                return;
            }
            sleep(Duration::from_millis(20));
        }
    }
}

fn server(dir: &Path) -> (Run, PathBuf) {
    let socket = dir.join("socket");
    let words = [
        "redis-server",
        "--port",
        "0",
        "--save",
        "",
        "--appendonly",
        "no",
        "--unixsocket",
    ];
    let run = Run::new(words.map(std::ffi::OsString::from).into_iter().chain([
        socket.clone().into(),
        "--dir".into(),
        dir.into(),
    ]));
    (run.limit(Duration::from_secs(600)), socket)
}

/// The life of a server: filled, saved by a child while everything is overwritten, read back.
fn life(socket: &Path) {
    let mut client = Client::connect(socket).expect("a server that listens");
    let count = keys();
    client.set_all(count, 1);
    client.check_all(count, 1, "after filling");
    assert!(client.ask(&["BGSAVE"]).contains("saving"));
    client.set_all(count, 2);
    client.wait_for_save();
    client.check_all(count, 2, "after overwriting during a save");
    client.send(&["SHUTDOWN", "NOSAVE"]);
}

/// Runs `drive` against the server; what it finds wrong is told with the server's own messages.
fn serve(
    run: impl FnOnce(Box<dyn FnOnce()>) -> Outcome,
    socket: PathBuf,
    drive: fn(&Path),
) -> Outcome {
    let (done, result) = mpsc::channel();
    let driver = move || {
        spawn(move || {
            let outcome = std::panic::catch_unwind(|| drive(&socket));
            if outcome.is_err() {
                // A server that lost its client would serve until its time is over.
                if let Some(mut client) = Client::connect(&socket) {
                    client.send(&["SHUTDOWN", "NOSAVE"]);
                }
            }
            let _ = done.send(outcome.is_ok());
        });
    };
    let outcome = run(Box::new(driver));
    let fine = result
        .recv_timeout(Duration::from_secs(130))
        .unwrap_or(false);
    outcome.must_exit(0);
    assert!(
        fine,
        "the client found something wrong (see above)\n{}\n{}",
        outcome.text(),
        outcome.stderr
    );
    outcome
}

/// A plain server, given the file that the managed one's child wrote.
fn saved_file_holds_round_one(dir: &TempDir) {
    let (run, socket) = server(dir.path());
    serve(
        |driver| run.go_with(|_| driver()),
        socket,
        |socket| {
            let mut client = Client::connect(socket).expect("a server that listens");
            while client.ask_until_loaded() {}
            client.check_all(keys(), 1, "in the saved file");
            client.send(&["SHUTDOWN", "NOSAVE"]);
        },
    );
}

impl Client {
    /// Whether the server is still reading its file.
    fn ask_until_loaded(&mut self) -> bool {
        let loading = self.ask(&["INFO", "persistence"]).contains("\r\nloading:1");
        if loading {
            sleep(Duration::from_millis(20));
        }
        loading
    }
}

#[test]
fn redis_keeps_every_key_also_while_it_saves() {
    let name = "redis_keeps_every_key_also_while_it_saves";
    if !require(
        name,
        &[Need::Neap, Need::Userfaultfd, Need::Tool("redis-server")],
    ) {
        return;
    }
    let _alone = exclusive();
    let dir = tempfile::tempdir().expect("a temporary folder");
    let (run, socket) = server(dir.path());
    let run = run.sampled();
    let plain = serve(|driver| run.go_with(|_| driver()), socket, life);
    // The child of a save doubles what is shared; the server alone has about half of the peak.
    let peak = plain.peak.map_or(0, |p| p.anon_bytes) / 2;
    let parts: &[u64] = if full() { &[2, 4] } else { &[3] };
    for part in parts {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let (run, socket) = server(dir.path());
        let neap = Neap::limit_bytes((peak / part).max(24 << 20));
        let mut paged = 0;
        serve(
            |driver| {
                let managed = neap.run_with(&run, |_| driver());
                paged = managed.pages_out();
                managed.into_outcome()
            },
            socket,
            life,
        );
        assert!(paged > 0, "no page went out at 1/{part}");
        saved_file_holds_round_one(&dir);
    }
}
