//! The standard streams of a run: the same input for each, a digest of the output, the end of what it
//! complained.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::process::Stdio;
use std::thread::{Builder, JoinHandle};

use sha2::{Digest as _, Sha256};

/// How much of standard error is kept, in bytes: its last lines.
const TAIL: usize = 4096;
/// How much is read at once, in bytes: what a pipe holds (pipe(7)).
const CHUNK: usize = 65536;

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
            let over = kept.len().saturating_sub(TAIL);
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
            let mut chunk = vec![0; CHUNK];
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
    /// From nowhere: what is not a file can be read only once.
    Nothing,
}

impl Input {
    /// What this process was given.
    #[must_use]
    pub fn own() -> Self {
        let file = io::stdin().as_fd().try_clone_to_owned().map(File::from);
        let place = file.and_then(|mut file| match file.metadata()?.is_file() {
            true => file.stream_position().map(Some),
            false => Ok(None),
        });
        match place {
            Ok(Some(place)) => Input::File(place),
            _ => Input::Nothing,
        }
    }

    /// For one run.
    ///
    /// # Errors
    /// When the file cannot be opened again.
    pub fn open(&self) -> io::Result<Stdio> {
        let Input::File(place) = self else {
            return Ok(Stdio::null());
        };
        // Opened again, for what is inherited shares its place with the earlier runs.
        let mut file = File::open("/proc/self/fd/0")?;
        file.seek(SeekFrom::Start(*place))?;
        Ok(file.into())
    }
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
        assert_eq!(kept.len(), TAIL);
        assert!(kept.ends_with("xthe end"));
    }
}
