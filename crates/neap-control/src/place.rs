//! Where the sockets of a user's jobs lie: in a folder that nobody else may enter.
//!
//! A job has two files there: `NAME.sock`, and `NAME.lock`, which it holds with flock(2). The kernel lets go of that with
//! the process, so what a killed engine left behind is known, whoever has its number by now. Both are made and removed
//! while the folder itself is locked.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use neap_tuning::TUNING;

use crate::name::Name;

const SOCKET: &str = "sock";
const LOCK: &str = "lock";

/// A folder for the sockets of one user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Folder(PathBuf);

/// A job's place in it, which goes with this value.
#[derive(Debug)]
pub struct Place {
    folder: Folder,
    name: Name,
    _lock: File,
}

/// A job that somebody found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// What it is called.
    pub name: Name,
    /// Where it listens.
    pub socket: PathBuf,
}

/// The folders in which jobs of this user may be, the best first.
#[must_use]
pub fn folders() -> Vec<Folder> {
    let user = neap_sys::own_user();
    let named = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let named = named
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join("neap"));
    let system = match user {
        0 => PathBuf::from("/run/neap"),
        user => PathBuf::from(format!("/run/user/{user}/neap")),
    };
    // Its name is none that the folders of runs have beside it.
    let common = PathBuf::from(format!("/tmp/neap-control-{user}"));
    let mut all: Vec<_> = named
        .into_iter()
        .chain([system, common])
        .map(Folder)
        .collect();
    all.dedup();
    all
}

/// All jobs of this user that seem to run, by name. Of what killed ones left behind it removes what it finds.
#[must_use]
pub fn jobs() -> Vec<Found> {
    let mut all: Vec<Found> = Vec::new();
    for folder in folders().iter().filter(|folder| folder.is_ours()) {
        folder.sweep();
        for found in folder.jobs() {
            if !all.iter().any(|known| known.name == found.name) {
                all.push(found);
            }
        }
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

impl Folder {
    /// A folder of this path, which need not be there.
    #[must_use]
    pub fn at(path: PathBuf) -> Self {
        Self(path)
    }

    /// Whether it is there, is no link, and nobody but this user may enter it.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        let user = neap_sys::own_user();
        fs::symlink_metadata(&self.0)
            .is_ok_and(|found| found.is_dir() && found.uid() == user && found.mode() & 0o077 == 0)
    }

    /// Whether nobody else can put another folder in its place.
    fn is_in_a_safe_place(&self) -> bool {
        const STICKY: u32 = 0o1000;
        let user = neap_sys::own_user();
        let parent = self.0.parent().and_then(|dir| fs::metadata(dir).ok());
        parent.is_some_and(|dir| {
            let owned = dir.uid() == user || dir.uid() == 0;
            owned && (dir.mode() & 0o022 == 0 || dir.mode() & STICKY != 0)
        })
    }

    fn make(&self) -> io::Result<()> {
        if !self.is_in_a_safe_place() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        match DirBuilder::new().mode(0o700).create(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ if self.is_ours() => Ok(()),
            _ => Err(io::ErrorKind::PermissionDenied.into()),
        }
    }

    fn file(&self, name: &Name, ending: &str) -> PathBuf {
        self.0.join(format!("{name}.{ending}"))
    }

    /// Takes a place for a job.
    ///
    /// # Errors
    /// `AddrInUse`: a job of that name runs. Others: there can be none here.
    pub fn take(&self, name: &Name) -> io::Result<(Place, UnixListener)> {
        self.make()?;
        let _turn = self.turn()?;
        let lock = self.open_lock(name)?;
        match lock.try_lock() {
            Err(TryLockError::WouldBlock) => return Err(io::ErrorKind::AddrInUse.into()),
            Err(TryLockError::Error(error)) => return Err(error),
            Ok(()) => {}
        }
        let socket = self.file(name, SOCKET);
        match fs::remove_file(&socket) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&socket)?;
        listener.set_nonblocking(true)?;
        let place = Place {
            folder: self.clone(),
            name: name.clone(),
            _lock: lock,
        };
        Ok((place, listener))
    }

    fn open_lock(&self, name: &Name) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        options.open(self.file(name, LOCK))
    }

    /// The folder's lock. Whoever has it holds it for some file operations only, and nobody is waited for for long.
    fn turn(&self) -> io::Result<File> {
        let folder = File::open(&self.0)?;
        for _ in 0..TUNING.control.turns {
            if folder.try_lock().is_ok() {
                return Ok(folder);
            }
            std::thread::sleep(TUNING.control.turn.duration());
        }
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn names(&self, ending: &str) -> Vec<Name> {
        let names = neap_sys::names_in(&self.0).into_iter();
        let names = names.filter_map(|file| {
            let stem = file.to_str()?.strip_suffix(ending)?.strip_suffix('.')?;
            Name::new(stem).ok()
        });
        names.collect()
    }

    /// The jobs that have a socket here.
    #[must_use]
    pub fn jobs(&self) -> Vec<Found> {
        let all = self.names(SOCKET).into_iter();
        let found = |name| Found {
            socket: self.file(&name, SOCKET),
            name,
        };
        all.map(found).collect()
    }

    /// Removes what is left of jobs that were killed.
    pub fn sweep(&self) {
        if !self.is_ours() {
            return;
        }
        let Ok(_turn) = self.turn() else { return };
        for name in self.names(LOCK) {
            let lock = self.open_lock(&name);
            if lock.is_ok_and(|lock| lock.try_lock().is_ok()) {
                self.remove(&name);
            }
        }
    }

    fn remove(&self, name: &Name) {
        let _ = fs::remove_file(self.file(name, SOCKET));
        let _ = fs::remove_file(self.file(name, LOCK));
    }
}

impl Place {
    /// What the job is called.
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Folder {
        &self.folder
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _turn = self.folder.turn(); // if it is not to be had: both are ours as long as the lock is
        self.folder.remove(&self.name);
    }
}

impl AsRef<Path> for Folder {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn folder() -> (tempfile::TempDir, Folder) {
        let dir = tempfile::tempdir().expect("a directory");
        let folder = Folder::at(dir.path().join("neap"));
        (dir, folder)
    }

    fn name(word: &str) -> Name {
        Name::new(word).expect("a name")
    }

    #[test]
    fn a_job_is_found_while_it_runs() {
        let (_dir, folder) = folder();
        assert!(folder.jobs().is_empty());
        let (place, _listener) = folder.take(&name("a")).expect("a place");
        assert_eq!(folder.jobs()[0].name, name("a"));
        let again = folder.take(&name("a")).expect_err("it is taken");
        assert_eq!(again.kind(), io::ErrorKind::AddrInUse);
        folder.sweep();
        assert_eq!(folder.jobs().len(), 1, "it runs");
        drop(place);
        assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 0);
    }

    #[test]
    fn what_a_killed_job_left_is_removed_and_its_name_is_free() {
        let (_dir, folder) = folder();
        folder.make().expect("a folder");
        for file in ["dead.sock", "dead.lock", "gone.sock", "gone.lock"] {
            fs::write(folder.0.join(file), "").expect("a file");
        }
        let taken = folder.take(&name("dead")).expect("its name is free");
        folder.sweep();
        let left: Vec<_> = folder.jobs().into_iter().map(|found| found.name).collect();
        assert_eq!(left, [name("dead")]);
        drop(taken);
    }

    #[test]
    fn a_folder_that_others_enter_or_put_there_is_not_used() {
        let (dir, folder) = folder();
        folder.make().expect("a folder");
        fs::set_permissions(&folder, Permissions::from_mode(0o750)).expect("a mode");
        assert!(!folder.is_ours() && folder.take(&name("a")).is_err());
        fs::set_permissions(&folder, Permissions::from_mode(0o700)).expect("a mode");
        let link = Folder::at(dir.path().join("link"));
        symlink(&folder, link.0.as_path()).expect("a link");
        assert!(!link.is_ours() && link.take(&name("a")).is_err());
        fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).expect("a mode");
        assert!(folder.take(&name("a")).is_err(), "anybody can replace it");
        fs::set_permissions(dir.path(), Permissions::from_mode(0o1777)).expect("a mode");
        assert!(folder.take(&name("a")).is_ok());
    }
}
