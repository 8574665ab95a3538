//! Running as a user without privileges, with or without a userfaultfd device of its own.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::{Neap, Need, neap_binary, require, skip, tool};

/// What the torture program does but for clone(2) by libc's `syscall`, of which the kernel tells nobody without CAP_SYS_PTRACE.
pub const WITHOUT_RAW_CLONE: &str = "map,unmap,punch,fixed,remap,protect,write,poke,verify,sweep,sleep,\
    affinity,dontneed,free,advise,forkflags,lock,rw,vec,direct,uring,splice,pvm,selfmem,futex,threads,\
    sharewrite,racezero,stack,fork,forkall,forkexec,vfork,spawn,clonevm,daemon,uffd,malloc,code";

/// A folder every user may use, with copies of neap and of test programs, and the words that turn
/// the superuser into nobody.
#[derive(Debug)]
pub struct OrdinaryUser {
    dir: TempDir,
}

/// Copies `file` into `dir`, readable and executable by all.
///
/// # Panics
/// If that fails.
pub fn install_for_everyone(file: &Path, dir: &Path) -> PathBuf {
    let to = dir.join(file.file_name().expect("a file has a name"));
    install(file, &to, "755");
    to
}

/// Copies `file` to `to` with `mode`, so that it can be executed at once: by a process of its own,
/// because one that this process forks meanwhile for another test would hold the copy open for
/// writing, and what is open for writing cannot be executed.
///
/// # Panics
/// If that fails.
pub fn install(file: &Path, to: &Path, mode: &str) {
    let status = Command::new("install")
        .args(["-m", mode])
        .args([file, to])
        .status();
    assert!(
        status.is_ok_and(|status| status.success()),
        "copying {} to {}",
        file.display(),
        to.display()
    );
}

impl OrdinaryUser {
    /// Prepares the folder, or says why this machine cannot.
    ///
    /// # Errors
    /// What is missing.
    pub fn new() -> Result<Self, String> {
        if tool("setpriv").is_none() {
            return Err("setpriv is not installed".to_owned());
        }
        let dir = tempfile::tempdir().map_err(|e| format!("a temporary folder: {e}"))?;
        fs::set_permissions(dir.path(), Permissions::from_mode(0o777))
            .map_err(|e| format!("its mode: {e}"))?;
        let binary = neap_binary()?;
        let copy = install_for_everyone(&binary, dir.path());
        // The binary may be called anything (`NEAP_BIN`); the copy is `neap`.
        fs::rename(copy, dir.path().join("neap")).map_err(|e| format!("renaming a copy: {e}"))?;
        Ok(OrdinaryUser { dir })
    }

    /// The user, or the reason why the test `name` is skipped, said aloud.
    #[must_use]
    pub fn for_test(name: &str) -> Option<Self> {
        let needs = [Need::Neap, Need::Root, Need::Userfaultfd];
        if !require(name, &needs) {
            return None;
        }
        Self::new().map_err(|reason| skip(name, &reason)).ok()
    }

    /// The same, with a device that it may open.
    #[must_use]
    pub fn with_device(name: &str) -> Option<(Self, PathBuf)> {
        let user = Self::for_test(name)?;
        let device = user.device().map_err(|reason| skip(name, &reason)).ok()?;
        Some((user, device))
    }

    /// `neap run -m LIMIT` by this user, within `words` (`prlimit` or the like), with that device.
    #[must_use]
    pub fn run(&self, limit: &str, device: &Path, words: &[&str]) -> Neap {
        let words = words.iter().map(OsString::from);
        Neap::limit(limit)
            .binary(self.neap())
            .wrapped(self.words().into_iter().chain(words))
            .env("TMPDIR", self.dir())
            .env("NEAP_UFFD_DEVICE", device)
    }

    /// The copy of neap.
    #[must_use]
    pub fn neap(&self) -> PathBuf {
        self.dir.path().join("neap")
    }

    /// The folder.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// A copy of a program.
    #[must_use]
    pub fn copy(&self, program: &Path) -> PathBuf {
        install_for_everyone(program, self.dir.path())
    }

    /// Words that run the command after them as a user that nobody else is: the kernel counts the threads of each.
    #[must_use]
    pub fn words(&self) -> Vec<OsString> {
        let number = 60_000 + std::process::id() % 5_000;
        [
            "setpriv".to_owned(),
            format!("--reuid={number}"),
            "--regid=65534".to_owned(),
            "--clear-groups".to_owned(),
            "--inh-caps=-all".to_owned(),
        ]
        .map(OsString::from)
        .into()
    }

    /// A device node like `/dev/userfaultfd` that everyone may open.
    ///
    /// # Errors
    /// Why there can be none.
    pub fn device(&self) -> Result<PathBuf, String> {
        let real =
            fs::metadata("/dev/userfaultfd").map_err(|e| format!("/dev/userfaultfd: {e}"))?;
        let rdev = real.rdev();
        // The kernel's new encoding of a device number: 12 bits of major from bit 8.
        let (major, minor) = (
            (rdev >> 8) & 0xfff,
            (rdev & 0xff) | ((rdev >> 12) & 0xf_ff00),
        );
        let path = self.dir.path().join("userfaultfd");
        let made = Command::new("mknod")
            .args(["-m", "0666"])
            .arg(&path)
            .args(["c", &major.to_string(), &minor.to_string()])
            .output()
            .map_err(|e| format!("mknod: {e}"))?;
        let opened = fs::OpenOptions::new().read(true).write(true).open(&path);
        match opened {
            Ok(_) => Ok(path),
            Err(e) => Err(format!(
                "a device of our own: {e} {}",
                String::from_utf8_lossy(&made.stderr).trim()
            )),
        }
    }
}
