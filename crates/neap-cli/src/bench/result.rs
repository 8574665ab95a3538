//! The file of `--json`: as it was until there is a whole new one.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, chown};
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// A file that can be written, and is not yet.
#[derive(Debug)]
pub struct ResultFile {
    path: PathBuf,
    way: Way,
}

#[derive(Debug)]
enum Way {
    /// By a new file beside this one, which then takes its name.
    Replace(PathBuf),
    /// A device, a pipe, one of several names, or a file in a directory that takes no other.
    InPlace(File),
}

impl ResultFile {
    /// Finds out whether the file can be written, without changing what is in it.
    ///
    /// # Errors
    /// It cannot; the path is named.
    pub fn check(path: &Path) -> Result<Self, Failure> {
        let way = way(path).map_err(|source| failure(path, source))?;
        Ok(Self {
            path: path.to_owned(),
            way,
        })
    }

    /// Writes it all, or leaves what was there.
    ///
    /// # Errors
    /// The disk is full, or the reader is gone.
    pub fn write(self, text: &str) -> Result<(), Failure> {
        let written = match self.way {
            Way::Replace(target) => replace(&target, text, |from, to| fs::rename(from, to)),
            Way::InPlace(mut file) => overwrite(&mut file, text),
        };
        written.map_err(|source| failure(&self.path, source))
    }
}

fn failure(path: &Path, source: io::Error) -> Failure {
    Failure::Output {
        flag: "--json",
        path: path.to_owned(),
        source,
    }
}

fn way(path: &Path) -> io::Result<Way> {
    let found = match fs::metadata(path) {
        Ok(found) => Some(found),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let target = match found {
        Some(_) => fs::canonicalize(path)?,
        None => path.to_owned(),
    };
    let dangling = found.is_none() && path.is_symlink();
    if found
        .as_ref()
        .is_some_and(|f| !f.is_file() || f.nlink() > 1)
        || dangling
    {
        return in_place(path).map(Way::InPlace);
    }
    if found.is_some() {
        // Who may not write the file may not replace it either.
        OpenOptions::new().write(true).open(&target)?;
    }
    let fresh = beside(&target);
    let given = create(&fresh, 0o600).and_then(|_| {
        let given = found.as_ref().map_or(Ok(()), |old| give(&fresh, old));
        fs::remove_file(&fresh).and(given)
    });
    match given {
        Ok(()) => Ok(Way::Replace(target)),
        Err(_) if found.is_some() => in_place(path).map(Way::InPlace),
        Err(error) => Err(error),
    }
}

fn in_place(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true);
    match options.open(path) {
        // A link whose target is to come. To create is not asked for otherwise: in a directory like /tmp it may be
        // forbidden for another's file (fs.protected_regular) that may be written.
        Err(error) if error.kind() == io::ErrorKind::NotFound => options.create(true).open(path),
        opened => opened,
    }
}

/// A name of our own in the same directory.
fn beside(target: &Path) -> PathBuf {
    target.with_file_name(format!(".neap-bench-{}.json", std::process::id()))
}

/// Gives `fresh` the owner and the group of the file that it replaces: another's, who only root can make its
/// owner, is written in place.
fn give(fresh: &Path, old: &Metadata) -> io::Result<()> {
    chown(fresh, Some(old.uid()), Some(old.gid()))
}

fn replace(
    target: &Path,
    text: &str,
    rename: impl FnOnce(&Path, &Path) -> io::Result<()>,
) -> io::Result<()> {
    let fresh = beside(target);
    let written = write(&fresh, target, text);
    if matches!(written, Ok(true)) && rename(&fresh, target).is_ok() {
        return Ok(());
    }
    let _ = fs::remove_file(&fresh); // the first error is what counts
    written?;
    // Nothing takes the place of a file that is mounted, or of another's in a directory like /tmp.
    overwrite(&mut in_place(target)?, text)
}

/// Whether it may take the other's place: not where the other became another's meanwhile.
fn write(fresh: &Path, target: &Path, text: &str) -> io::Result<bool> {
    let old = fs::metadata(target).ok();
    // What replaces a file is readable for those who could read that, and at no time for others.
    let mut file = create(fresh, if old.is_some() { 0o600 } else { 0o666 })?;
    file.write_all(text.as_bytes())?;
    if let Some(old) = old {
        if give(fresh, &old).is_err() {
            return Ok(false);
        }
        file.set_permissions(old.permissions())?;
    }
    file.sync_all().map(|()| true)
}

/// A file of our own, and nobody else's by a link.
fn create(path: &Path, mode: u32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(mode).open(path)
}

fn overwrite(file: &mut File, text: &str) -> io::Result<()> {
    if file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    file.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_file_is_as_it_was_until_it_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.json");
        fs::write(&path, "earlier").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let file = ResultFile::check(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "earlier");
        file.write("new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_nothing_can_replace_is_written_in_place() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.json");
        fs::write(&path, "earlier, and longer").unwrap();
        let inode = fs::metadata(&path).unwrap().ino();
        let mounted = |from: &Path, _: &Path| {
            assert_eq!(fs::read_to_string(from).unwrap(), "new");
            Err(io::Error::from(io::ErrorKind::ResourceBusy))
        };
        replace(&path, "new", mounted).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::metadata(&path).unwrap().ino(), inode);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        let fresh = beside(&path);
        fs::create_dir(&fresh).unwrap();
        let never = |_: &Path, _: &Path| panic!("there is nothing to rename");
        assert!(replace(&path, "newer", never).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    }

    #[test]
    fn links_are_followed_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let (path, soft) = (dir.path().join("r"), dir.path().join("soft"));
        let (hard, nowhere) = (dir.path().join("hard"), dir.path().join("nowhere"));
        fs::write(&path, "earlier, and longer").unwrap();
        symlink(&path, &soft).unwrap();
        ResultFile::check(&soft).unwrap().write("one").unwrap();
        assert!(soft.is_symlink());
        assert_eq!(fs::read_to_string(&path).unwrap(), "one");
        fs::hard_link(&path, &hard).unwrap();
        ResultFile::check(&hard).unwrap().write("2").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "2");
        symlink(dir.path().join("made"), &nowhere).unwrap();
        ResultFile::check(&nowhere).unwrap().write("3").unwrap();
        assert_eq!(fs::read_to_string(dir.path().join("made")).unwrap(), "3");
    }

    #[test]
    fn what_cannot_be_written_is_known_at_once() {
        let dir = tempfile::tempdir().unwrap();
        for bad in [dir.path().to_owned(), dir.path().join("no/such")] {
            let failure = ResultFile::check(&bad).unwrap_err();
            assert_eq!(failure.code(), "E0107");
        }
        let new = dir.path().join("new");
        let file = ResultFile::check(&new).unwrap();
        assert!(!new.exists());
        file.write("x").unwrap();
        assert_eq!(fs::read_to_string(new).unwrap(), "x");
        let full = ResultFile::check(Path::new("/dev/full")).unwrap();
        assert!(full.write("x").is_err());
    }
}
