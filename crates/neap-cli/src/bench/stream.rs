//! The standard streams of a run: the same input for each, a digest of the output, the end of what it
//! complained.

use std::fs::{File, FileType, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::process::Stdio;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use neap_tuning::TUNING;
use neap_units::Bytes;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};

use super::interrupt::{Interrupt, Stop};
use crate::failure::Failure;
use crate::talk;

/// Standard output as far as it matters here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Digest {
    /// How long it was.
    pub bytes: u64,
    /// SHA-256 in hexadecimal, as sha256sum(1) prints it.
    pub sha256: String,
}

/// Reads to the end in a thread, so that the command never waits long for a reader.
///
/// # Errors
/// When there is no thread to be had.
pub fn digest(stream: impl Read + Send + 'static) -> io::Result<JoinHandle<Digest>> {
    let mut hash = Sha256::new();
    let mut bytes = 0;
    thread(stream, move |chunk| match chunk {
        Some(chunk) => {
            hash.update(chunk);
            bytes += chunk.len() as u64;
            None
        }
        None => {
            let hex = hash
                .finalize_reset()
                .iter()
                .map(|b| format!("{b:02x}"))
                .collect();
            Some(Digest { bytes, sha256: hex })
        }
    })
}

/// Reads to the end in a thread and keeps the tail.
///
/// # Errors
/// When there is no thread to be had.
pub fn tail(stream: impl Read + Send + 'static) -> io::Result<JoinHandle<String>> {
    let mut kept = Vec::new();
    thread(stream, move |chunk| match chunk {
        Some(chunk) => {
            kept.extend_from_slice(chunk);
            let over = kept.len().saturating_sub(TUNING.bench.tail.as_usize());
            kept.drain(..over);
            None
        }
        None => Some(String::from_utf8_lossy(&kept).into_owned()),
    })
}

fn thread<T: Default + Send + 'static>(
    mut stream: impl Read + Send + 'static,
    mut take: impl FnMut(Option<&[u8]>) -> Option<T> + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    Builder::new()
        .name("neap-reader".to_owned())
        .spawn(move || {
            let mut chunk = vec![0; TUNING.bench.read.as_usize()];
            loop {
                match stream.read(&mut chunk) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Ok(0) | Err(_) => return take(None).unwrap_or_default(),
                    Ok(n) => {
                        take(Some(&chunk[..n]));
                    }
                }
            }
        })
}

/// Where the runs get their standard input from.
#[derive(Debug)]
pub enum Input {
    /// From a file, each from the same place on.
    File(u64),
    /// From what was copied of a pipe or socket, which can be read only once.
    Copy(File),
    /// From nowhere: a terminal or another device.
    Nothing,
}

impl Input {
    /// What this process was given; a pipe is read to its end first.
    ///
    /// # Errors
    /// A signal, or there is no room in the temporary folder.
    pub fn own(interrupt: &Interrupt) -> Result<Self, Stop> {
        let own = io::stdin().as_fd().try_clone_to_owned().map(File::from);
        // None that is open counts as empty.
        let Ok(mut file) = own else {
            return Ok(Input::Nothing);
        };
        let kind = file.metadata().map(|facts| facts.file_type());
        if kind.as_ref().is_ok_and(FileType::is_file) {
            let place = file.stream_position();
            return Ok(place.map_or(Input::Nothing, Input::File));
        }
        if !kind.is_ok_and(|kind| kind.is_fifo() || kind.is_socket()) {
            return Ok(Input::Nothing);
        }
        let dir = std::env::temp_dir();
        let hint = |line: &str| talk::note(line);
        copied(
            &file,
            &dir,
            interrupt,
            (TUNING.bench.input_hint.duration(), hint),
        )
        .map(Input::Copy)
    }

    /// For one run.
    ///
    /// # Errors
    /// When the file cannot be opened again.
    pub fn open(&self) -> io::Result<Stdio> {
        // Opened again, for what is inherited shares its place with the earlier runs.
        match self {
            Input::Nothing => Ok(Stdio::null()),
            Input::Copy(copy) => {
                Ok(File::open(format!("/proc/self/fd/{}", copy.as_raw_fd()))?.into())
            }
            Input::File(place) => {
                let mut file = File::open("/proc/self/fd/0")?;
                file.seek(SeekFrom::Start(*place))?;
                Ok(file.into())
            }
        }
    }
}

/// Everything that comes, in a file of `dir` that has no name any more. Says once, after a while, what it waits for
/// or fills the disk with.
fn copied(
    mut from: &File,
    dir: &Path,
    interrupt: &Interrupt,
    (after, mut hint): (Duration, impl FnMut(&str)),
) -> Result<File, Stop> {
    let refused = |source| Failure::Input {
        dir: dir.to_owned(),
        source,
    };
    let mut copy = nameless(dir).map_err(refused)?;
    let (mut chunk, mut told, mut bytes) =
        (vec![0; TUNING.bench.read.as_usize()], false, Bytes::ZERO);
    let start = neap_sys::monotonic_nanos();
    let pause = Timespec {
        tv_sec: 0,
        tv_nsec: TUNING.bench.input_looks.duration().subsec_nanos().into(),
    };
    loop {
        interrupt.check()?;
        let taken = Duration::from_nanos(neap_sys::monotonic_nanos() - start);
        if !told && taken >= after {
            told = true;
            hint(&format!(
                "reads standard input to its end, so that each run can read it, and keeps it in {}, {bytes} so far; \
                 try: < /dev/null",
                dir.display()
            ));
        }
        match poll(&mut [PollFd::new(from, PollFlags::IN)], Some(&pause)) {
            Ok(0) | Err(Errno::INTR) => continue,
            // A read says what is wrong.
            Ok(_) | Err(_) => {}
        }
        match from.read(&mut chunk) {
            Ok(0) => return Ok(copy),
            Ok(n) => {
                copy.write_all(&chunk[..n]).map_err(refused)?;
                bytes += Bytes(n as u64);
            }
            Err(error) => match error.kind() {
                io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock => {}
                _ => return Err(refused(error).into()),
            },
        }
    }
}

fn nameless(dir: &Path) -> io::Result<File> {
    let path = dir.join(format!("neap-bench-{}.stdin", std::process::id()));
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o600);
    let file = options.open(&path)?;
    std::fs::remove_file(path)?;
    Ok(file)
}

/// Data for stdout; a reader that went away has seen enough.
///
/// # Errors
/// A full disk.
pub fn print(text: &str) -> io::Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_that_of_sha256sum() {
        let digest = digest(&b"abc"[..]).unwrap().join().unwrap();
        let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!((digest.bytes, digest.sha256.as_str()), (3, known));
        let long = io::repeat(b'x').take(1_000_000);
        assert_eq!(
            super::digest(long).unwrap().join().unwrap().bytes,
            1_000_000
        );
    }

    #[test]
    fn of_complaints_the_end_is_kept() {
        let text = format!("{}the end", "x".repeat(10_000));
        let kept = tail(io::Cursor::new(text)).unwrap().join().unwrap();
        assert_eq!(kept.len(), TUNING.bench.tail.as_usize());
        assert!(kept.ends_with("xthe end"));
    }

    fn text(input: &File) -> String {
        let mut file = File::open(format!("/proc/self/fd/{}", input.as_raw_fd())).unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        text
    }

    /// A pipe whose reading end is a file.
    fn pipe() -> (File, io::PipeWriter) {
        let (reader, writer) = io::pipe().unwrap();
        (File::from(std::os::fd::OwnedFd::from(reader)), writer)
    }

    const NO_HINT: (Duration, fn(&str)) = (Duration::MAX, |_| {});

    #[test]
    fn a_pipe_is_copied_and_each_run_reads_all_of_it() {
        let (reader, mut writer) = pipe();
        let dir = tempfile::tempdir().unwrap();
        let long = "line\n".repeat(50_000);
        let sent = long.clone();
        let sender = std::thread::spawn(move || writer.write_all(sent.as_bytes()));
        let none = Interrupt::default();
        let copy = copied(&reader, dir.path(), &none, NO_HINT).unwrap();
        sender.join().unwrap().unwrap();
        assert!(text(&copy) == long && text(&copy) == long);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        let nowhere = copied(&reader, Path::new("/no/such"), &none, NO_HINT);
        let Stop::Failed(failure) = nowhere.unwrap_err() else {
            panic!("a failure");
        };
        assert!(failure.lines().contains("/no/such"), "{}", failure.lines());
    }

    #[test]
    fn that_input_is_still_read_is_said_once_whether_it_comes_or_not() {
        let dir = tempfile::tempdir().unwrap();
        let none = Interrupt::default();
        let (reader, writer) = pipe();
        let (mut said, mut idle) = (Vec::new(), Some(writer));
        let hint = |line: &str| {
            said.push(line.to_owned());
            // Its end comes only after that.
            drop(idle.take());
        };
        let after = Duration::from_millis(1);
        copied(&reader, dir.path(), &none, (after, hint)).unwrap();
        assert_eq!(said.len(), 1);
        assert!(said[0].contains("0B so far; try: <"), "{said:?}");

        let (reader, mut busy) = pipe();
        let heard = std::sync::atomic::AtomicU32::new(0);
        let times = || heard.load(std::sync::atomic::Ordering::SeqCst);
        std::thread::scope(|threads| {
            let writer = threads.spawn(|| {
                while times() == 0 {
                    busy.write_all(&[b'y'; 4096]).unwrap();
                }
                drop(busy);
            });
            let hint = |_: &str| {
                heard.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            };
            copied(&reader, dir.path(), &none, (after, hint)).unwrap();
            writer.join().unwrap();
        });
        assert_eq!(times(), 1);
    }

    #[test]
    fn a_signal_ends_the_reading_of_input_that_has_no_end() {
        let (reader, _writer) = pipe();
        let dir = tempfile::tempdir().unwrap();
        let interrupt = Interrupt::default();
        let hint = |_: &str| interrupt.catch(15);
        let stopped = copied(&reader, dir.path(), &interrupt, (Duration::ZERO, hint));
        assert!(matches!(stopped, Err(Stop::Signal(15))), "{stopped:?}");
    }
}
