//! A directory of the run's own, where strangers find nothing: only who was told its secret name enters it.
//!
//! `BASE/neap-XXXXXXXX/TUNING.talk.secret.as_usize()/`: everyone may pass through both (0711), and nobody but this user may list them, or put
//! anything there. So processes of the job that have become another user, or live in another network namespace, come in
//! by the path that they were given, and nobody else does. Whoever finds something there has it from this user.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use neap_tuning::TUNING;

const PREFIX: &str = "neap-";
/// Others pass, and see nothing.
const PASSAGE: u32 = 0o711;
/// Room that is left for the name of a file there, in bytes.
const NAME: usize = 16;

/// A directory that lives as long as this does.
pub struct Shelter {
    top: PathBuf,
    inner: PathBuf,
    /// Says to later runs that this one lives: the kernel lets go of it with the process.
    _lock: File,
}

impl Shelter {
    /// Makes one at the first place that can hold it.
    pub fn make() -> io::Result<Self> {
        let mut failed = io::Error::new(
            io::ErrorKind::NotFound,
            "no safe place in /run, /tmp, /dev/shm, or TMPDIR",
        );
        for base in bases() {
            match Self::make_in(&base) {
                Ok(shelter) => return Ok(shelter),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    fn make_in(base: &Path) -> io::Result<Self> {
        for _ in 0..TUNING.talk.names {
            let top = base.join(format!("{PREFIX}{}", digits(4)?));
            let inner = top.join(digits(TUNING.talk.secret.as_usize())?);
            if inner.as_os_str().len() + NAME > neap_wire::LONGEST_PATH {
                return Err(io::ErrorKind::InvalidFilename.into());
            }
            match mkdir(&top) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                made => made?,
            }
            // A run that sweeps may have taken it for a leftover.
            let lock = File::open(&top).ok().filter(|dir| dir.try_lock().is_ok());
            let Some(lock) = lock.filter(|_| mkdir(&inner).is_ok()) else {
                continue;
            };
            let shelter = Self {
                top,
                inner,
                _lock: lock,
            };
            for dir in [&shelter.inner, &shelter.top] {
                fs::set_permissions(dir, Permissions::from_mode(PASSAGE))?;
            }
            return Ok(shelter);
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// The directory that nobody finds who is not told.
    pub fn path(&self) -> &Path {
        &self.inner
    }

    /// What removes the leftovers of this user's runs that were killed.
    pub(crate) fn sweeper(&self) -> impl FnOnce() + Send + 'static {
        let base = self.top.parent().map(Path::to_owned);
        move || {
            if let Some(base) = base {
                sweep(&base);
            }
        }
    }
}

impl Drop for Shelter {
    fn drop(&mut self) {
        remove(&self.top); // else a later run does it
    }
}

fn mkdir(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

fn digits(bytes: usize) -> io::Result<String> {
    let mut random = [0; TUNING.talk.secret.as_usize()];
    let random = &mut random[..bytes];
    neap_sys::random(random)?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Where it may lie, best first.
fn bases() -> Vec<PathBuf> {
    let user = neap_sys::own_user();
    let named = |name| std::env::var_os(name).map(PathBuf::from);
    let own = match user {
        0 => Some("/run".into()),
        _ => named("XDG_RUNTIME_DIR")
            .filter(|dir| fs::metadata(dir).is_ok_and(|dir| dir.uid() == user)),
    };
    let common = ["/tmp", "/dev/shm"].map(PathBuf::from);
    let all = own.into_iter().chain(common).chain(named("TMPDIR"));
    let real = all.filter_map(|dir| fs::canonicalize(dir).ok());
    real.filter(|dir| is_safe(dir, user)).collect()
}

/// Directories of the system, whoever seems to own them: in a user namespace without a superuser that is nobody.
const SYSTEM: [&str; 5] = ["/", "/run", "/tmp", "/dev", "/dev/shm"];
/// `kernel.overflowuid`, which nobody changes.
const NO_USER: u32 = 65_534;

/// Whether nobody but this user and the superuser can put another directory in the place of one there.
fn is_safe(base: &Path, user: u32) -> bool {
    const STICKY: u32 = 0o1000;
    const OTHERS_WRITE: u32 = 0o022;
    base.ancestors().all(|dir| {
        fs::symlink_metadata(dir).is_ok_and(|found| {
            let system = found.uid() == NO_USER && SYSTEM.iter().any(|name| dir == Path::new(name));
            let owned = found.uid() == 0 || found.uid() == user || system;
            owned && (found.mode() & OTHERS_WRITE == 0 || found.mode() & STICKY != 0)
        })
    })
}

/// Removes what is left of this user's runs that have ended.
fn sweep(base: &Path) {
    let user = neap_sys::own_user();
    for name in neap_sys::names_in(base) {
        let path = base.join(&name);
        let named = name.to_str().is_some_and(|name| name.starts_with(PREFIX));
        let ours =
            || fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir() && found.uid() == user);
        if named && ours() && is_left(&path) {
            remove(&path);
        }
    }
}

/// Removes what [`Shelter`] makes: two directories, and files in the inner one. The language's own function for a whole
/// tree panics where the last close of a directory fails.
fn remove(top: &Path) {
    for inner in neap_sys::names_in(top) {
        let inner = top.join(inner);
        if fs::symlink_metadata(&inner).is_ok_and(|found| found.is_dir()) {
            for file in neap_sys::names_in(&inner) {
                let _ = fs::remove_file(inner.join(file));
            }
        }
        let _ = fs::remove_dir(&inner);
    }
    let _ = fs::remove_dir(top);
}

/// Whether nobody holds it; it looks as [`Shelter`] makes them.
fn is_left(path: &Path) -> bool {
    let dir = File::open(path);
    let locked = |dir: &File| dir.try_lock().is_ok();
    let digits = path
        .file_name()
        .is_some_and(|name| name.len() == PREFIX.len() + 8);
    digits && dir.is_ok_and(|dir| locked(&dir))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A base that only this user writes to.
    fn base() -> tempfile::TempDir {
        tempfile::tempdir().expect("a directory")
    }

    #[test]
    fn others_pass_and_see_nothing() {
        let base = base();
        let shelter = Shelter::make_in(base.path()).expect("a shelter");
        for dir in [&shelter.top, &shelter.inner] {
            let mode = fs::metadata(dir).expect("a directory").mode() & 0o7777;
            assert_eq!(mode, PASSAGE, "{}", dir.display());
        }
        let secret = shelter.path().file_name().expect("a name");
        assert_eq!(secret.len(), 2 * TUNING.talk.secret.as_usize());
        fs::write(shelter.path().join("s"), "").expect("a file");
        drop(shelter);
        assert_eq!(fs::read_dir(base.path()).expect("the base").count(), 0);
    }

    #[test]
    fn leftovers_are_swept_and_the_living_are_not() {
        let base = base();
        let living = Shelter::make_in(base.path()).expect("a shelter");
        let left = base.path().join("neap-0123abcd");
        fs::create_dir_all(left.join("secret")).expect("a leftover");
        for other in ["neap-of-somebody", "other"] {
            fs::create_dir(base.path().join(other)).expect("a directory");
        }
        living.sweeper()();
        assert!(!left.exists());
        assert!(living.path().exists());
        assert_eq!(fs::read_dir(base.path()).expect("the base").count(), 3);
    }

    #[test]
    fn a_place_that_others_may_change_is_not_safe() {
        let base = base();
        let user = neap_sys::own_user();
        assert!(is_safe(&fs::canonicalize(base.path()).expect("it"), user));
        let open = base.path().join("open");
        fs::create_dir(&open).expect("a directory");
        for (mode, safe) in [
            (0o777, false),
            (0o1777, true),
            (0o755, true),
            (0o775, false),
        ] {
            fs::set_permissions(&open, Permissions::from_mode(mode)).expect("a mode");
            assert_eq!(
                is_safe(&fs::canonicalize(&open).expect("it"), user),
                safe,
                "{mode:o}"
            );
        }
    }
}
