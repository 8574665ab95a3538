//! Where metrics go: standard output, a file, or whoever asks by HTTP. A client that stalls costs a thread for four seconds at most.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use rustix::fs::{Mode, fchmod};
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::failure::Failure;
use super::metrics::Format;
use crate::machine::{Root, ignored_signals};

/// Callers that may wait to be answered.
const WAITING: i32 = 128;
/// Bytes of a request's head at most.
const HEAD: usize = 8 << 10;
/// Clients that are served at once; others are sent away.
const CLIENTS: usize = 8;
/// Longest that a client is waited for.
const PATIENCE: Duration = Duration::from_secs(2);
/// Pause after a connection that could not be taken.
const REST: Duration = Duration::from_millis(100);
/// What a client accepts that reads OpenMetrics.
const OPEN: &str = "application/openmetrics-text";

/// What makes the text.
pub type Source = fn(Format) -> String;

impl Format {
    /// The one for a client that sent this head.
    fn for_client(head: &[u8]) -> Self {
        let head = String::from_utf8_lossy(head).to_ascii_lowercase();
        let mut accepted = head.lines().filter_map(|line| line.strip_prefix("accept:"));
        match accepted.any(|line| line.contains(OPEN)) {
            true => Self::Open,
            false => Self::Text,
        }
    }

    fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::Open => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

fn fail(what: String) -> impl FnOnce(io::Error) -> Failure {
    move |source| Failure::Output { what, source }
}

/// Writes a file that readers find whole or not at all. A link stays one, and a device or a pipe is written to.
///
/// # Errors
/// It cannot be written.
pub fn to_file(path: &Path, text: &str) -> Result<(), Failure> {
    let what = || path.display().to_string();
    let found = fs::metadata(path);
    if found.as_ref().is_ok_and(fs::Metadata::is_dir) {
        return Err(fail(what())(io::ErrorKind::IsADirectory.into()));
    }
    if found.as_ref().is_ok_and(|found| !found.is_file()) {
        let opened = File::options().write(true).open(path);
        let wrote = opened.and_then(|mut file| file.write_all(text.as_bytes()));
        return wrote.map_err(fail(what()));
    }
    let real = fs::canonicalize(path);
    replace(real.as_deref().unwrap_or(path), text).map_err(fail(what()))
}

/// Puts a new file in the place of that.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}", std::process::id()));
    let write = || {
        let _ = fs::remove_file(&beside); // of one that had this number, and was killed
        File::create_new(&beside)?.write_all(text.as_bytes())?; // follows no link
        fs::rename(&beside, path)
    };
    write().inspect_err(|_| _ = fs::remove_file(&beside))
}

/// Answers HTTP on a loopback address until it is ended.
///
/// # Errors
/// It cannot listen there.
pub fn to_port(address: SocketAddr, source: Source) -> Result<(), Failure> {
    let what = address.to_string();
    if !address.ip().is_loopback() {
        let why = io::Error::other("only this machine may ask: an address such as 127.0.0.1:9464");
        return Err(fail(what)(why));
    }
    let listener = TcpListener::bind(address).map_err(fail(what))?;
    let timed = |stream: TcpStream| {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(stream)
    };
    serve_all(listener.incoming().map(|next| next.and_then(timed)), source);
    Ok(())
}

/// The same on a socket that only this user reaches. One that nobody listens on any more is replaced.
///
/// # Errors
/// It cannot listen there.
pub fn to_socket(path: &Path, source: Source) -> Result<(), Failure> {
    let what = || path.display().to_string();
    let is_socket = fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    if is_socket && UnixStream::connect(path).is_err_and(refused) {
        let _ = fs::remove_file(path);
    }
    let listener = bind_for_us(path).map_err(fail(what()))?;
    remove_at_end(path).map_err(fail(what()))?;
    let timed = |stream: UnixStream| {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(stream)
    };
    serve_all(listener.incoming().map(|next| next.and_then(timed)), source);
    Ok(())
}

/// A socket that is this user's alone from its first moment: its file takes the mode that the descriptor has when it is bound.
fn bind_for_us(path: &Path) -> io::Result<UnixListener> {
    let fd = net::socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    fchmod(&fd, Mode::RUSR | Mode::WUSR)?;
    net::bind(&fd, &SocketAddrUnix::new(path)?)?;
    net::listen(&fd, WAITING)?;
    Ok(UnixListener::from(fd))
}

/// Removes the socket when a signal ends this process. One that another has put in its place stays.
fn remove_at_end(path: &Path) -> io::Result<()> {
    let ignored = ignored_signals(&Root::real());
    let ends = [SIGTERM, SIGINT, SIGHUP].into_iter();
    let mut signals = Signals::new(ends.filter(|signal| ignored & (1 << (signal - 1)) == 0))?;
    let own = |found: &fs::Metadata| (found.dev(), found.ino());
    let (path, ours) = (path.to_owned(), own(&fs::symlink_metadata(path)?));
    let work = move || {
        for signal in signals.forever() {
            if fs::symlink_metadata(&path).is_ok_and(|found| own(&found) == ours) {
                let _ = fs::remove_file(&path);
            }
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
    };
    std::thread::Builder::new().spawn(work).map(drop)
}

/// Answers each that comes.
fn serve_all<S>(incoming: impl Iterator<Item = io::Result<S>>, source: Source)
where
    S: Read + Write + Send + 'static,
{
    let served = Arc::new(AtomicUsize::new(0));
    for next in incoming {
        match next {
            Ok(stream) => serve(stream, &served, source),
            Err(_) => std::thread::sleep(REST), // no descriptors, it may be
        }
    }
}

/// Answers one client in a thread, if there are not too many.
fn serve(
    mut stream: impl Read + Write + Send + 'static,
    served: &Arc<AtomicUsize>,
    source: Source,
) {
    if served.fetch_add(1, Relaxed) >= CLIENTS {
        served.fetch_sub(1, Relaxed);
        return;
    }
    let count = served.clone();
    let work = move || {
        let _ = answer(&mut stream, source);
        count.fetch_sub(1, Relaxed);
    };
    if std::thread::Builder::new().spawn(work).is_err() {
        served.fetch_sub(1, Relaxed);
    }
}

fn answer(stream: &mut (impl Read + Write), source: Source) -> io::Result<()> {
    let mut head = Vec::new();
    let mut bytes = [0; 1024];
    let end = neap_sys::monotonic_nanos() + PATIENCE.as_nanos() as u64; // each read has as long
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let count = stream.read(&mut bytes)?;
        if count == 0 || head.len() + count > HEAD || neap_sys::monotonic_nanos() > end {
            return Ok(());
        }
        head.extend_from_slice(&bytes[..count]);
    }
    let line = head.split(|&byte| byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|&byte| byte == b' ');
    let (method, path) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    );
    let path = path.split(|&byte| byte == b'?').next().unwrap_or_default();
    let format = Format::for_client(&head);
    let (status, body) = match (method, path) {
        (b"GET" | b"HEAD", b"/metrics") => ("200 OK", source(format)),
        (b"GET" | b"HEAD", _) => ("404 Not Found", "see /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", String::new()),
    };
    let kind = if status.starts_with("200") {
        format.content_type()
    } else {
        "text/plain"
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    match method {
        b"HEAD" => Ok(()),
        _ => stream.write_all(body.as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a client wrote, and what it gets.
    struct Talk(io::Cursor<Vec<u8>>, Vec<u8>);

    impl Read for Talk {
        fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
            self.0.read(bytes)
        }
    }

    impl Write for Talk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.1.write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn ask(request: &[u8]) -> String {
        let mut talk = Talk(io::Cursor::new(request.to_vec()), Vec::new());
        answer(&mut talk, |format| format!("{format:?} 1\n")).expect("no error");
        String::from_utf8(talk.1).expect("text")
    }

    #[test]
    fn metrics_are_had_by_http_and_nothing_else_is() {
        let got = ask(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(
            got.starts_with("HTTP/1.1 200 OK\r\n") && got.ends_with("\r\n\r\nText 1\n"),
            "{got}"
        );
        assert!(got.contains("Content-Length: 7\r\n") && got.contains("version=0.0.4"));
        let open =
            ask(b"GET /metrics HTTP/1.1\r\naccept: application/openmetrics-text;q=0.5,*/*\r\n\r\n");
        assert!(open.contains("openmetrics-text; version=1.0.0") && open.ends_with("Open 1\n"));
        assert!(ask(b"HEAD /metrics?x HTTP/1.1\r\n\r\n").ends_with("\r\n\r\n"));
        assert!(ask(b"GET /etc/passwd HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
        assert!(ask(b"POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
        assert_eq!(ask(b"GET /metrics"), "", "it never ended");
        assert_eq!(ask(&vec![b'x'; HEAD * 2]), "", "it was too long");
    }

    #[test]
    fn only_this_machine_may_ask() {
        let address = "0.0.0.0:0".parse().expect("an address");
        assert!(to_port(address, |_| String::new()).is_err());
    }

    #[test]
    fn a_socket_is_for_its_user_alone() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("metrics");
        let _listener = bind_for_us(&path).expect("it is bound");
        let mode = fs::metadata(&path).expect("it").mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_file_is_whole_or_as_before() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("neap.prom");
        to_file(&path, "a").expect("it is written");
        to_file(&path, "b").expect("it is written");
        assert_eq!(fs::read_to_string(&path).expect("it"), "b");
        assert_eq!(fs::read_dir(dir.path()).expect("it").count(), 1);
        assert!(to_file(&dir.path().join("no/such"), "c").is_err());
    }

    #[test]
    fn what_is_no_file_of_its_own_is_not_replaced() {
        let dir = tempfile::tempdir().expect("a directory");
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        std::os::unix::fs::symlink(&file, &link).expect("a link");
        fs::write(&file, "before").expect("a file");
        to_file(&link, "after").expect("it is written");
        assert_eq!(fs::read_to_string(&file).expect("it"), "after");
        assert!(fs::symlink_metadata(&link).expect("it").is_symlink());
        let failure = to_file(dir.path(), "c").expect_err("it is a directory");
        assert_eq!(failure.code(), "E0307");
        assert!(failure.to_string().ends_with("is a directory"), "{failure}");
        assert_eq!(fs::read_dir(dir.path()).expect("it").count(), 2);
        let before = fs::metadata("/dev/null").expect("a device").ino();
        to_file(Path::new("/dev/null"), "c").expect("it takes anything");
        assert_eq!(fs::metadata("/dev/null").expect("a device").ino(), before);
    }
}
