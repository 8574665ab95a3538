//! What a bench has changed on the machine, on disk before it is changed, so that it is undone whatever
//! happens: at the end, after a signal, in a panic, and by the next start after SIGKILL.
//!
//! The journal lies in a directory that only root can write, for who can write it chooses what root
//! removes. The lock beside it is the kernel's and ends with its holder.

use std::fs::{self, File, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use neap_tuning::TUNING;
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

use super::kernel::{Kernel, Off};
use super::missing::Missing;
use crate::machine::Root;

/// Where the journal lies: cleared at boot on most machines, and root's alone on all.
const DIR: &str = "/run/neap-bench";
/// The journal.
const FILE: &str = "/run/neap-bench/journal.json";
/// The journal while it is written, so that the old one is whole until the new one is.
const FRESH: &str = "/run/neap-bench/journal.fresh";
/// Locked by the bench that is at work.
const LOCK: &str = "/run/neap-bench/lock";
/// Differs after each boot (random(4)).
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// A kernel setting as it was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// The file.
    pub file: PathBuf,
    /// What must be written to have it as it was.
    pub before: String,
}

/// Everything of ours that the machine holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Left {
    boot: String,
    groups: Vec<PathBuf>,
    swaps: Vec<PathBuf>,
    zrams: Vec<u32>,
    files: Vec<PathBuf>,
    settings: Vec<Setting>,
    /// Settings that hold for the whole bench.
    lasting: Vec<Setting>,
}

impl Left {
    /// Whether nothing is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let bare = Left {
            boot: self.boot.clone(),
            ..Left::default()
        };
        *self == bare
    }

    /// What of it is there still since boot `now`, in a line.
    fn list(&self, now: &str) -> String {
        let mut all: Vec<String> = Vec::new();
        if self.boot == now {
            let paths = |what, paths: &[PathBuf]| {
                let one = move |path: &PathBuf| format!("{what} {}", path.display());
                paths.iter().map(one).collect::<Vec<_>>()
            };
            all.extend(paths("control group", &self.groups));
            all.extend(paths("swap area", &self.swaps));
            all.extend(self.zrams.iter().map(|n| format!("device zram{n}")));
            let settings = self.settings.iter().chain(&self.lasting);
            all.extend(settings.map(|s| format!("{} (before: {})", s.file.display(), s.before)));
        }
        all.extend(self.files.iter().map(|f| format!("file {}", f.display())));
        all.join(", ")
    }
}

/// The journal of the bench at work.
#[derive(Debug)]
pub struct Journal {
    root: Root,
    left: Left,
    /// Held for the lock on it.
    _lock: File,
}

impl Journal {
    /// Takes the lock, and undoes what an earlier bench left: the second value says whether there was
    /// anything, and what of it could not be undone and stays in the journal.
    ///
    /// # Errors
    /// Why this process may not change the kernel's settings now.
    pub fn open(root: &Root, kernel: &dyn Kernel) -> Result<(Self, Option<Vec<String>>), Missing> {
        if !geteuid().is_root() {
            return Err(Missing::new("only root may make swap and control groups")
                .remedy("run neap bench as root"));
        }
        let refused = |error: io::Error| Missing::new(format!("{DIR}: {error}"));
        let dir = root.path(DIR);
        fs::create_dir_all(&dir).map_err(refused)?;
        fs::set_permissions(&dir, Permissions::from_mode(0o700)).map_err(refused)?;
        let lock = File::create(root.path(LOCK)).map_err(refused)?;
        match locked(&lock, kernel) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(
                    Missing::new("another neap bench is at work").remedy("wait for its end")
                );
            }
            Err(TryLockError::Error(error)) => return Err(refused(error)),
        }
        let mut journal = Self {
            root: root.clone(),
            left: Left::default(),
            _lock: lock,
        };
        let mut faults = None;
        if let Some(left) = read(root) {
            journal.left = left.map_err(|fault| Missing::new(fault).remedy("remove it"))?;
            faults = Some(journal.undo(kernel, Keep::Nothing));
        }
        journal.left.boot = boot(root);
        Ok((journal, faults))
    }

    /// Writes down a control group that is about to be made.
    ///
    /// # Errors
    /// Those of writing the journal.
    pub fn group(&mut self, dir: &Path) -> io::Result<()> {
        self.left.groups.push(dir.to_owned());
        self.save()
    }

    /// Writes down a swap area that is about to be used.
    ///
    /// # Errors
    /// Those of writing the journal.
    pub fn swap(&mut self, path: &Path) -> io::Result<()> {
        self.left.swaps.push(path.to_owned());
        self.save()
    }

    /// Writes down a zram device.
    ///
    /// # Errors
    /// Those of writing the journal.
    pub fn zram(&mut self, number: u32) -> io::Result<()> {
        self.left.zrams.push(number);
        self.save()
    }

    /// Writes down a file that is about to be made.
    ///
    /// # Errors
    /// Those of writing the journal.
    pub fn file(&mut self, path: &Path) -> io::Result<()> {
        self.left.files.push(path.to_owned());
        self.save()
    }

    /// Changes a kernel setting, after its value was written down; does nothing where it has the value.
    ///
    /// # Errors
    /// Those of reading and writing it, and of writing the journal.
    pub fn set(&mut self, file: &str, value: &str) -> io::Result<()> {
        let before = self.root.read(file)?.trim().to_owned();
        if before == value {
            return Ok(());
        }
        let known = self.left.settings.iter().any(|s| s.file == Path::new(file));
        if !known {
            self.left.settings.push(Setting {
                file: file.into(),
                before,
            });
            self.save()?;
        }
        fs::write(self.root.path(file), value)
    }

    /// Changes a kernel setting for the whole bench; `before` undoes it, for a file that is not read as it
    /// is written.
    ///
    /// # Errors
    /// Those of writing it and the journal.
    pub fn set_for_all(&mut self, file: &str, value: &str, before: &str) -> io::Result<()> {
        self.left.lasting.push(Setting {
            file: file.into(),
            before: before.to_owned(),
        });
        self.save()?;
        fs::write(self.root.path(file), value)
    }

    /// Undoes everything but what `keep` says, and returns what could not be undone.
    pub fn undo(&mut self, kernel: &dyn Kernel, keep: Keep) -> Vec<String> {
        let kept = match keep {
            Keep::Nothing => Left::default(),
            Keep::Bench => Left {
                files: std::mem::take(&mut self.left.files),
                lasting: std::mem::take(&mut self.left.lasting),
                ..Left::default()
            },
        };
        let faults = undo(&self.root, kernel, &mut self.left);
        self.left.files.extend(kept.files);
        self.left.lasting.extend(kept.lasting);
        match self.save() {
            Ok(()) => faults,
            Err(error) => faults
                .into_iter()
                .chain([format!("{FILE}: {error}")])
                .collect(),
        }
    }

    fn save(&self) -> io::Result<()> {
        save(&self.root, &self.left)
    }
}

/// What stays when a run has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The bench is over.
    Nothing,
    /// What serves the next run too: the swap file, and settings for the whole bench.
    Bench,
}

/// Undoes what the journal on disk says; `None` when there is none. Returns what could not be undone.
pub fn sweep(root: &Root, kernel: &dyn Kernel) -> Option<Vec<String>> {
    let mut left = match read(root)? {
        Ok(left) => left,
        Err(fault) => return Some(vec![fault]),
    };
    let mut faults = undo(root, kernel, &mut left);
    if let Err(error) = save(root, &left) {
        faults.push(format!("{FILE}: {error}"));
    }
    Some(faults)
}

/// What an interrupted bench left and the next one undoes; `None` where there is nothing, where a bench is
/// at work, and for who may not read the journal.
pub fn left_behind(root: &Root) -> Option<String> {
    // Held until the journal is read, for a bench may begin.
    let lock = File::open(root.path(LOCK)).ok();
    let shared = lock.as_ref().map(File::try_lock_shared);
    if matches!(shared, Some(Err(TryLockError::WouldBlock))) {
        return None;
    }
    let left = match read(root)? {
        Ok(left) => left,
        Err(fault) => return Some(fault),
    };
    Some(left.list(&boot(root))).filter(|list| !list.is_empty())
}

/// Takes the lock. Whoever only reads the journal holds it for an instant, and is waited for.
fn locked(lock: &File, kernel: &dyn Kernel) -> Result<(), TryLockError> {
    for _ in 1..TUNING.bench.locks {
        match lock.try_lock() {
            Err(TryLockError::WouldBlock) => kernel.wait(TUNING.bench.between_tries.duration()),
            done => return done,
        }
    }
    lock.try_lock()
}

fn read(root: &Root) -> Option<Result<Left, String>> {
    let text = root.read(FILE).ok()?;
    let left = serde_json::from_str(&text);
    Some(left.map_err(|error| format!("{FILE} cannot be understood: {error}")))
}

fn boot(root: &Root) -> String {
    root.read(BOOT_ID).unwrap_or_default().trim().to_owned()
}

fn save(root: &Root, left: &Left) -> io::Result<()> {
    if left.is_empty() {
        return absent_is_fine(fs::remove_file(root.path(FILE)));
    }
    let fresh = root.path(FRESH);
    fs::write(&fresh, serde_json::to_string(left)?)?;
    fs::rename(fresh, root.path(FILE))
}

fn absent_is_fine(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Undoes all of `left`, in the order that lets each step succeed; what fails stays in it.
fn undo(root: &Root, kernel: &dyn Kernel, left: &mut Left) -> Vec<String> {
    let mut faults = Vec::new();
    if left.boot != boot(root) {
        // Only files outlive a boot.
        let files = std::mem::take(&mut left.files);
        *left = Left {
            files,
            ..Left::default()
        };
    }
    // Pages of the dead need not be read back.
    for group in &left.groups {
        kill_all(root, kernel, group);
    }
    left.groups.retain(|group| {
        let done = remove_group(root, kernel, group);
        keep_failed(done, group.display(), &mut faults)
    });
    left.swaps.retain(|path| {
        let done = match kernel.swap_off(&root.path(path)) {
            Off::Done | Off::WasNotOn => Ok(()),
            Off::Failed(why) => Err(why),
        };
        keep_failed(done, path.display(), &mut faults)
    });
    left.zrams
        .retain(|n| keep_failed(remove_zram(root, *n), format!("zram{n}"), &mut faults));
    for settings in [&mut left.settings, &mut left.lasting] {
        // The last first, and what fails keeps its place.
        settings.reverse();
        settings.retain(|setting| {
            let done = fs::write(root.path(&setting.file), &setting.before);
            let done = done.map_err(|error| error.to_string());
            keep_failed(done, setting.file.display(), &mut faults)
        });
        settings.reverse();
    }
    // A file that the kernel still swaps to must not lose its name.
    let busy = left.swaps.clone();
    left.files.retain(|path| {
        let done = match busy.contains(path) {
            true => Err("still in use for swap".to_owned()),
            false => absent_is_fine(fs::remove_file(root.path(path))).map_err(|e| e.to_string()),
        };
        keep_failed(done, path.display(), &mut faults)
    });
    faults
}

fn keep_failed(
    done: Result<(), String>,
    what: impl std::fmt::Display,
    faults: &mut Vec<String>,
) -> bool {
    if let Err(why) = &done {
        faults.push(format!("{what}: {why}"));
    }
    done.is_err()
}

/// Ends every process of a group.
pub fn kill_all(root: &Root, kernel: &dyn Kernel, group: &Path) {
    for pid in members(root, group) {
        kernel.kill(pid);
    }
}

/// The processes of a group.
pub fn members(root: &Root, group: &Path) -> Vec<i32> {
    let list = root.read(group.join("cgroup.procs")).unwrap_or_default();
    list.lines().filter_map(|line| line.parse().ok()).collect()
}

fn remove_group(root: &Root, kernel: &dyn Kernel, group: &Path) -> Result<(), String> {
    let mut last = String::new();
    for _ in 0..TUNING.bench.removals {
        match absent_is_fine(kernel.remove_group(&root.path(group))) {
            Ok(()) => return Ok(()),
            Err(error) => last = error.to_string(),
        }
        kill_all(root, kernel, group);
        kernel.wait(TUNING.bench.between_tries.duration());
    }
    Err(last)
}

fn remove_zram(root: &Root, number: u32) -> Result<(), String> {
    let device = PathBuf::from(format!("/sys/block/zram{number}"));
    if !root.path(&device).exists() {
        return Ok(());
    }
    let write = |file: &Path, value: &str| {
        fs::write(root.path(file), value).map_err(|error| format!("{}: {error}", file.display()))
    };
    write(&device.join("reset"), "1")?;
    write(
        Path::new("/sys/class/zram-control/hot_remove"),
        &number.to_string(),
    )
}

#[cfg(test)]
pub mod tests;
