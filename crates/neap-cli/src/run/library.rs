//! The preload library, which this binary carries, in a file that the dynamic linker takes.
//!
//! Each run has a file of its own, so none is of another version, and it is gone with the run. It lies in a folder
//! that nobody else may change, and which other users may look into: a process of the job may give up its user id and
//! must still find the library when it executes the next program. A folder on a file system that forbids code
//! (noexec) is no place. Where there is none at all, the file lives in memory and its path leads through neap itself.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Permissions};
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

use crate::env::Lookup;

/// Made by build.rs.
static BYTES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libneap_preload.so"));
/// Its name, by which a process that has it is known.
const FILE: &str = "libneap_preload.so";
/// The name it is preloaded by. AddressSanitizer ends a program in which another library comes before its own, and knows
/// its own by this part of a name. It may: the library calls on what comes behind it. A link, because a program
/// that has its sanitizer built in refuses to start where a *file* of such a name is mapped.
const LINK: &str = "neap-before-libasan.so";
/// The dynamic linker's variable.
const LD_PRELOAD: &str = "LD_PRELOAD";
const STICKY: u32 = 0o1000;

/// The library in its place, until it is dropped.
#[derive(Debug)]
pub struct Library {
    path: PathBuf,
    folder: Option<PathBuf>,
    /// Keeps the descriptor that the path names.
    _memory: Option<File>,
}

impl Library {
    /// Puts the library into the first of `folders` that will do, or into memory.
    ///
    /// # Errors
    /// Why not even there.
    pub fn place(folders: &[PathBuf]) -> io::Result<Self> {
        let mut fit: Vec<&PathBuf> = folders.iter().filter(|dir| is_private(dir)).collect();
        // Only the superuser's processes can become another's and keep their variables.
        if rustix::process::geteuid().is_root() {
            fit.sort_by_key(|dir| !is_open(dir));
        }
        let placed = fit.into_iter().find_map(|dir| Self::in_folder(dir).ok());
        placed.map_or_else(Self::in_memory, Ok)
    }

    fn in_folder(base: &Path) -> io::Result<Self> {
        let base = base.canonicalize()?;
        if base.as_os_str().as_bytes().iter().any(is_separator) {
            return Err(io::ErrorKind::InvalidFilename.into());
        }
        let dir = tempfile::Builder::new().prefix("neap-").tempdir_in(base)?;
        let dir = dir.keep();
        let (file, link) = (dir.join(FILE), dir.join(LINK));
        let library = Self {
            path: link.clone(),
            folder: Some(dir.clone()),
            _memory: None,
        };
        let mut open = File::create_new(&file)?;
        open.write_all(BYTES)?;
        open.set_permissions(Permissions::from_mode(0o444))?;
        drop(open);
        check(&mut File::open(&file)?)?;
        symlink(FILE, &link)?;
        fs::set_permissions(&dir, Permissions::from_mode(0o711))?;
        Ok(library)
    }

    fn in_memory() -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        // Linux before 6.3 knows no such flag, and one that demands it accepts no other.
        let sealed = memfd_create(FILE, flags | MemfdFlags::NOEXEC_SEAL);
        let mut file = File::from(sealed.or_else(|_| memfd_create(FILE, flags))?);
        file.write_all(BYTES)?;
        let all = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
        fcntl_add_seals(&file, all)?;
        file.rewind()?;
        check(&mut file)?;
        let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        Ok(Self {
            path: path.into(),
            folder: None,
            _memory: Some(file),
        })
    }

    /// Where the linker finds it.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it lies in a folder: only then every process of the job finds it.
    #[must_use]
    pub fn is_in_a_folder(&self) -> bool {
        self.folder.is_some()
    }

    /// The variable that brings it in: behind what the user preloads, and in the place of another run's.
    #[must_use]
    pub fn variable(&self, env: Lookup<'_>) -> (OsString, OsString) {
        let value = preload(env(LD_PRELOAD).as_deref(), &self.path);
        (LD_PRELOAD.into(), value)
    }
}

impl Drop for Library {
    /// Name by name: the language's own function for a whole folder panics where its last close fails.
    fn drop(&mut self) {
        if let Some(folder) = &self.folder {
            for name in [LINK, FILE] {
                let _ = fs::remove_file(folder.join(name));
            }
            let _ = fs::remove_dir(folder);
        }
    }
}

/// Folders to look at, in order.
#[must_use]
pub fn usual_folders(env: Lookup<'_>) -> Vec<PathBuf> {
    let usual = ["/tmp", "/var/tmp", "/dev/shm"].map(OsString::from);
    let own = ["XDG_RUNTIME_DIR", "HOME"];
    env("TMPDIR")
        .into_iter()
        .chain(usual)
        .chain(own.iter().filter_map(|name| env(name)))
        .map(PathBuf::from)
        .filter(|dir| dir.is_absolute())
        .collect()
}

/// Whether the file is the library, whole, and may be mapped as code.
fn check(file: &mut File) -> io::Result<()> {
    let mut there = Vec::with_capacity(BYTES.len() + 1);
    file.read_to_end(&mut there)?;
    if there != BYTES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    neap_sys::map_as_code(file.as_fd())
}

/// Whether nobody but this user and root can put another folder in the place of one in `dir`.
fn is_private(dir: &Path) -> bool {
    let own = rustix::process::geteuid().as_raw();
    // Root, who has another number in a user namespace.
    let root = fs::metadata("/").map_or(0, |meta| meta.uid());
    let keeps = |dir: &Path| {
        fs::metadata(dir).is_ok_and(|meta| {
            let ours = meta.uid() == root || meta.uid() == own;
            ours && (meta.mode() & 0o022 == 0 || meta.mode() & STICKY != 0)
        })
    };
    dir.canonicalize()
        .is_ok_and(|dir| dir.ancestors().all(keeps))
}

/// Whether every user may reach what is in `dir`.
fn is_open(dir: &Path) -> bool {
    let passes = |dir: &Path| fs::metadata(dir).is_ok_and(|meta| meta.mode() & 0o001 != 0);
    dir.canonicalize()
        .is_ok_and(|dir| dir.ancestors().all(passes))
}

/// The linker splits its list at these.
fn is_separator(byte: &u8) -> bool {
    matches!(byte, b' ' | b':')
}

/// The list with `library` at its end, and without the library of a run around this one.
fn preload(existing: Option<&OsStr>, library: &Path) -> OsString {
    let existing = existing.unwrap_or_default().as_bytes();
    let others = existing
        .split(is_separator)
        .filter(|entry| !entry.is_empty())
        .filter(|entry| !entry.ends_with(LINK.as_bytes()));
    let mut value = OsString::new();
    for entry in others {
        value.push(OsStr::from_bytes(entry));
        value.push(":");
    }
    value.push(library);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_comes_last_and_once() {
        let library = Path::new("/tmp/neap-2/neap-before-libasan.so");
        let with = |existing: &str| preload(Some(OsStr::new(existing)), library);
        let text = library.to_str().unwrap();
        assert_eq!(preload(None, library), text);
        assert_eq!(with(""), text);
        assert_eq!(with("/a.so b.so"), format!("/a.so:b.so:{text}").as_str());
        let outer = "/tmp/neap-1/neap-before-libasan.so:/a.so";
        assert_eq!(with(outer), format!("/a.so:{text}").as_str());
    }

    #[test]
    fn it_lies_where_all_may_read_it_and_nobody_may_change_it() {
        let base = tempfile::tempdir().unwrap();
        let library = Library::in_folder(base.path()).unwrap();
        let folder = library.path().parent().unwrap().to_owned();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
        assert_eq!((mode(&folder), mode(library.path())), (0o711, 0o444));
        assert_eq!(fs::read(library.path()).unwrap(), BYTES);
        drop(library);
        assert!(!folder.exists());
    }

    #[test]
    fn a_folder_that_others_may_change_is_no_place() {
        let base = tempfile::tempdir().unwrap();
        let inner = base.path().join("inner");
        fs::create_dir(&inner).unwrap();
        let set = |mode| fs::set_permissions(base.path(), Permissions::from_mode(mode)).unwrap();
        assert!(is_private(&inner));
        set(0o777);
        assert!(!is_private(&inner) && !is_private(base.path()));
        set(0o1777);
        assert!(is_private(&inner) && is_private(base.path()));
        assert!(!is_private(Path::new("/no/such/folder")));
    }

    #[test]
    fn without_a_folder_it_is_in_memory() {
        let library = Library::place(&["/no/such/folder".into()]).unwrap();
        assert!(!library.is_in_a_folder());
        assert_eq!(fs::read(library.path()).unwrap(), BYTES);
        let written = fs::OpenOptions::new().write(true).open(library.path());
        let change = written.and_then(|mut file| file.write_all(b"x"));
        assert!(change.is_err());
    }

    #[test]
    fn the_list_cannot_name_a_folder_with_a_space() {
        let base = tempfile::Builder::new().prefix("a b").tempdir().unwrap();
        assert!(Library::in_folder(base.path()).is_err());
    }

    /// What lies in it may be touched by a child that nobody serves yet (`neap-preload/src/lib.rs`).
    #[test]
    fn no_page_of_its_data_is_anonymous_memory() {
        let number = |at: usize, len: usize| {
            let bytes = BYTES[at..at + len].iter().rev();
            bytes.fold(0, |all, &byte| all << 8 | usize::from(byte))
        };
        const LOAD: usize = 1;
        const WRITABLE: usize = 2;
        let (first, each, count) = (number(0x20, 8), number(0x36, 2), number(0x38, 2));
        let headers = (0..count).map(|which| first + which * each);
        let loads =
            headers.filter(|&at| number(at, 4) == LOAD && number(at + 4, 4) & WRITABLE != 0);
        let (address, file, memory) = loads
            .map(|at| (number(at + 16, 8), number(at + 32, 8), number(at + 40, 8)))
            .max()
            .expect("it has data");
        assert_eq!(
            (address + file).div_ceil(4096),
            (address + memory).div_ceil(4096)
        );
    }

    #[test]
    fn a_relative_folder_is_not_looked_at() {
        let env = |name: &str| (name == "TMPDIR").then(|| OsString::from("tmp"));
        assert_eq!(usual_folders(&env).len(), 3);
    }
}
