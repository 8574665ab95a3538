//! Files that the simulator's commands write. They are opened before the work, so that a path that
//! cannot be written does not cost an hour of it, and left as they were when the work fails.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::failure::Failure;
use super::print;

/// Whether the path stands for standard output.
pub fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// A file that a command reads or writes, and the flag or argument that names it.
pub type Named<'a> = (&'static str, Option<&'a Path>);

/// Refuses to write a file that is read, too, or that two flags name: one would destroy the other. To be asked
/// before anything is opened for writing.
///
/// # Errors
/// When there is such a file.
pub fn distinct(inputs: &[Named<'_>], outputs: &[Named<'_>]) -> Result<(), Failure> {
    let mut before: Vec<_> = placed(inputs, "/dev/stdin").collect();
    for (flag, path, place) in placed(outputs, "/dev/stdout") {
        let same = before.iter().find(|(_, other, at)| {
            *at == place && *at != Place::Elsewhere && !(is_stdout(path) && is_stdout(other))
        });
        if let Some(&(other, ..)) = same {
            return Err(Failure::Same {
                flag,
                path: path.to_owned(),
                other,
            });
        }
        before.push((flag, path, place));
    }
    Ok(())
}

/// Those that were given, and where they are; `-` stands for `dash`.
fn placed<'a>(
    named: &[Named<'a>],
    dash: &str,
) -> impl Iterator<Item = (&'static str, &'a Path, Place)> {
    named.iter().filter_map(move |&(flag, path)| {
        let path = path?;
        let place = match is_stdout(path) {
            true => Place::of(Path::new(dash)),
            false => Place::of(path),
        };
        Some((flag, path, place))
    })
}

/// Where content lies, however it is named.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Place {
    /// A file, by device and inode.
    File(u64, u64),
    /// No file yet.
    New(PathBuf),
    /// A pipe, a device or nowhere: nothing there can be destroyed.
    Elsewhere,
}

/// Links that are followed, as in the kernel (`include/linux/namei.h`, MAXSYMLINKS).
const MAX_LINKS: usize = 40;

impl Place {
    fn of(path: &Path) -> Place {
        match fs::metadata(path) {
            Ok(found) if found.is_file() => Place::File(found.dev(), found.ino()),
            Ok(_) => Place::Elsewhere,
            Err(_) => Place::yet_to_be(path.to_owned()).map_or(Place::Elsewhere, Place::New),
        }
    }

    /// Where a file of this name would be made: links to no file are followed, as open does.
    fn yet_to_be(mut path: PathBuf) -> Option<PathBuf> {
        for _ in 0..MAX_LINKS {
            let parent = match path.parent()? {
                here if here == Path::new("") => Path::new("."),
                parent => parent,
            };
            let parent = fs::canonicalize(parent).ok()?;
            path = match fs::read_link(&path) {
                Ok(to) => parent.join(to),
                Err(_) => return Some(parent.join(path.file_name()?)),
            };
        }
        None
    }
}

/// A file to write, or standard output where its name is `-`.
#[derive(Debug)]
pub struct Output {
    path: PathBuf,
    /// None of standard output, and of a file that was not there before: it is made when it is written, so that
    /// nothing is left of it if the work fails or is interrupted.
    file: Option<File>,
}

impl Output {
    /// Opens it; what it holds stays until it is written.
    ///
    /// # Errors
    /// When it cannot be opened for writing.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let mut output = Output {
            path: path.to_owned(),
            file: None,
        };
        if is_stdout(path) {
            return Ok(output);
        }
        let mut options = OpenOptions::new();
        let new = options.write(true).create_new(true).open(path);
        let file = match new {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                options.create_new(false).create(true).open(path).map(Some)
            }
            // Where nothing may be removed it stays, and is written.
            new => new.map(|file| fs::remove_file(path).is_err().then_some(file)),
        };
        output.file = file.map_err(|source| output.fault(source))?;
        Ok(output)
    }

    /// Opens it if it was asked for.
    ///
    /// # Errors
    /// As [`Output::open`].
    pub fn if_any(path: Option<&Path>) -> Result<Option<Self>, Failure> {
        path.map(Output::open).transpose()
    }

    /// Writes the content, once.
    ///
    /// # Errors
    /// The disk is full, or standard output cannot be written.
    pub fn write(mut self, content: &[u8]) -> Result<(), Failure> {
        if is_stdout(&self.path) {
            return print(content);
        }
        let fresh = self.file.is_none();
        let mut file = self.cut().map_err(|source| self.fault(source))?;
        let done = file.write_all(content);
        if done.is_err() && fresh {
            // Nothing more can be done about a file that stays.
            let _ = fs::remove_file(&self.path);
        }
        done.map_err(|source| self.fault(source))
    }

    /// What is written bit by bit. It stays as far as it was written, also when the work fails: the lines up to
    /// there are worth having.
    ///
    /// # Errors
    /// What the file held cannot be cut off.
    pub fn stream(mut self) -> Result<Box<dyn Write>, Failure> {
        if is_stdout(&self.path) {
            return Ok(Box::new(io::stdout().lock()));
        }
        let file = self.cut().map_err(|source| self.fault(source))?;
        Ok(Box::new(BufWriter::new(file)))
    }

    /// The file, with nothing in it.
    fn cut(&mut self) -> io::Result<File> {
        let Some(file) = self.file.take() else {
            return File::create(&self.path);
        };
        // A pipe or device has no length to be cut.
        if file.metadata().is_ok_and(|found| found.is_file()) {
            file.set_len(0)?;
        }
        Ok(file)
    }

    fn fault(&self, source: io::Error) -> Failure {
        Failure::Write {
            path: self.path.clone(),
            source,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_written_is_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let (old, new) = (dir.path().join("old"), dir.path().join("new"));
        fs::write(&old, "long ago").unwrap();
        for path in [&old, &new] {
            let kept = Output::open(path).unwrap();
            assert!(!new.exists(), "an interrupt would leave it");
            drop(kept);
        }
        assert_eq!(fs::read_to_string(&old).unwrap(), "long ago");
        assert!(!new.exists());
        for path in [&old, &new] {
            Output::open(path).unwrap().write(b"now").unwrap();
            assert_eq!(fs::read_to_string(path).unwrap(), "now");
        }
    }

    #[test]
    fn a_file_is_known_again_by_every_name() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("old"), "x").unwrap();
        fs::hard_link(at("old"), at("hard")).unwrap();
        std::os::unix::fs::symlink("old", at("soft")).unwrap();
        std::os::unix::fs::symlink("new", at("dangling")).unwrap();
        let check = |input: &str, a: &str, b: &str| {
            let (input, a, b) = (at(input), at(a), at(b));
            let outputs = [("--a", Some(&*a)), ("--b", Some(&*b)), ("--c", None)];
            distinct(&[("FILE", Some(&input))], &outputs)
        };
        for same in ["old", "hard", "soft", "./old"] {
            let fault = check("old", "new", same).unwrap_err();
            let told = format!("--b: {} is the file of FILE", at(same).display());
            assert!(fault.to_string().starts_with(&told), "{fault}");
        }
        for same in ["new", "dangling", "./new"] {
            let fault = check("old", "new", same).unwrap_err();
            assert!(fault.lines().contains("is the file of --a"), "{fault}");
        }
        assert!(check("old", "new", "newer").is_ok());
        let null = Some(Path::new("/dev/null"));
        assert!(distinct(&[], &[("--a", null), ("--b", null)]).is_ok());
    }

    #[test]
    fn a_path_that_cannot_be_written_is_known_at_once() {
        let fault = Output::open(Path::new("/no/such/dir/x")).unwrap_err();
        assert_eq!(fault.code(), "E0201");
        let full = Output::open(Path::new("/dev/full")).unwrap().write(b"x");
        assert!(full.unwrap_err().to_string().starts_with("/dev/full: "));
    }
}
