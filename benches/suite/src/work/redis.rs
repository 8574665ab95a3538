//! A redis server of its own, filled with keys and then read and written by Zipf's law.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::mix;
use super::random::{Random, Zipf, shuffled};

/// Requests written before their answers are read.
const BATCH: usize = 64;
/// Of ten requests, those that write.
const WRITES: usize = 2;
/// What redis keeps for a key of ours, about: 2000 keys take a MiB.
const KEYS_OF_MIB: usize = 2000;
const PATIENCE: Duration = Duration::from_secs(300);

/// Fills about `mib` and makes `ops` requests; the checksum is that of the answers.
pub fn run(mib: usize, ops: usize, dir: &Path) -> Result<u64, String> {
    let dir = dir.join(format!("redis-{}", std::process::id()));
    fs::create_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let done = session(mib * KEYS_OF_MIB, ops, &dir).map_err(|e| format!("redis: {e}"));
    // Nothing of it is needed again.
    let _ = fs::remove_dir_all(&dir);
    done
}

fn session(keys: usize, ops: usize, dir: &Path) -> std::io::Result<u64> {
    let socket = dir.join("socket");
    let mut server = Server::start(&socket, dir)?;
    let mut client = server.client()?;
    let mut sum = 0;
    for first in (0..keys).step_by(BATCH) {
        let last = (first + BATCH).min(keys);
        (first..last).for_each(|key| client.set(key, 0));
        sum = client.answers(last - first, sum)?;
    }
    let (zipf, places) = (Zipf::new(keys.max(2), 0.99), shuffled(keys.max(2), 13));
    let mut random = Random::new(14);
    for first in (0..ops).step_by(BATCH) {
        let batch = BATCH.min(ops - first);
        for op in first..first + batch {
            let key = places[zipf.rank(&mut random)] as usize;
            match random.below(10) {
                n if n < WRITES => client.set(key, op),
                _ => client.get(key),
            }
        }
        sum = client.answers(batch, sum)?;
    }
    client.request(&["SHUTDOWN", "NOSAVE"]);
    client.to.write_all(client.out.as_bytes())?;
    server.child.wait()?;
    Ok(sum)
}

struct Server {
    child: Child,
    socket: PathBuf,
}

impl Server {
    fn start(socket: &Path, dir: &Path) -> std::io::Result<Self> {
        let child = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--appendonly", "no"])
            .arg("--unixsocket")
            .arg(socket)
            .arg("--dir")
            .arg(dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()?;
        Ok(Self {
            child,
            socket: socket.to_owned(),
        })
    }

    /// A client, once the server listens.
    fn client(&mut self) -> std::io::Result<Client> {
        loop {
            if let Ok(to) = UnixStream::connect(&self.socket) {
                to.set_read_timeout(Some(PATIENCE))?;
                let from = BufReader::new(to.try_clone()?);
                let out = String::new();
                return Ok(Client { to, from, out });
            }
            if let Some(status) = self.child.try_wait()? {
                return Err(std::io::Error::other(format!(
                    "redis-server ended: {status}"
                )));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Gone already when all went well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Client {
    to: UnixStream,
    from: BufReader<UnixStream>,
    out: String,
}

impl Client {
    fn request(&mut self, words: &[&str]) {
        let _ = write!(self.out, "*{}\r\n", words.len());
        for word in words {
            let _ = write!(self.out, "${}\r\n{word}\r\n", word.len());
        }
    }

    fn get(&mut self, key: usize) {
        self.request(&["GET", &format!("key:{key:08}")]);
    }

    fn set(&mut self, key: usize, round: usize) {
        self.request(&["SET", &format!("key:{key:08}"), &value(key, round)]);
    }

    /// Sends what was asked for and reads `count` answers.
    fn answers(&mut self, count: usize, mut sum: u64) -> std::io::Result<u64> {
        self.to.write_all(self.out.as_bytes())?;
        self.out.clear();
        let mut line = String::new();
        let mut body = Vec::new();
        for _ in 0..count {
            line.clear();
            self.from.read_line(&mut line)?;
            if line.is_empty() || line.starts_with('-') {
                return Err(std::io::Error::other(format!("it answers {line:?}")));
            }
            sum = line.bytes().fold(sum, |sum, byte| mix(sum, byte.into()));
            let length = line
                .strip_prefix('$')
                .and_then(|n| n.trim().parse::<usize>().ok());
            if let Some(length) = length {
                body.resize(length + 2, 0);
                self.from.read_exact(&mut body)?;
                sum = body.iter().fold(sum, |sum, byte| mix(sum, (*byte).into()));
            }
        }
        Ok(sum)
    }
}

/// A record as applications keep them: 200 to 550 bytes, of which the numbers are new.
fn value(key: usize, round: usize) -> String {
    let mut random = Random::new((key as u64) << 32 | round as u64);
    let mut text = format!("{{\"id\":{key},\"state\":\"open\"");
    for _ in 0..4 + key % 8 {
        let bits = random.bits();
        let _ = write!(
            text,
            ",\"amount\":{},\"currency\":\"EUR\"",
            bits % 1_000_000
        );
    }
    text.push('}');
    text
}
