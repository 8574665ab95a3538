//! The machine as the kernel's contenders need it: control groups, a swap file, zswap's settings, a
//! zram device; each written down before it is made, and undone after each run.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use neap_tuning::TUNING;
use neap_units::{Bytes, PAGE_SIZE};
use rustix::fs::{FallocateFlags, fallocate};

use super::group::{Group, Hierarchy};
use super::journal::{Journal, Keep, sweep};
use super::kernel::{Kernel, Linux};
use super::missing::Missing;
use crate::choice::Contender;
use crate::machine::{Root, filesystem_of};
use crate::talk;

/// Where zswap's settings are.
const ZSWAP: &str = "/sys/module/zswap/parameters";
/// Compressors of the kernel, the best first: zstd is the densest; of the fast ones lz4 decompresses
/// fastest, and lzo-rle is lzo that skips runs (Documentation/admin-guide/blockdev/zram.rst).
const COMPRESSORS: [&str; 5] = ["zstd", "lz4", "lzo-rle", "lzo", "deflate"];
/// The highest priority of a swap area (linux/swap.h, SWAP_FLAG_PRIO_MASK): ours is used first.
const PRIORITY: u16 = 0x7fff;
/// Where the signature of a swap area ends: at the end of its first page (linux/swap.h, union
/// swap_header).
const SIGNATURE: &[u8; 10] = b"SWAPSPACE2";
/// Where version and last page stand in that page, after 1024 bytes for a boot loader (ibid.).
const INFO: usize = 1024;

/// The machine, while a bench may change it.
#[derive(Debug)]
pub struct Lab {
    root: Root,
    kernel: Box<dyn Kernel>,
    journal: Journal,
    hierarchy: Hierarchy,
    dir: Option<PathBuf>,
    /// The swap file, or why there is none.
    swap: Result<PathBuf, Missing>,
    /// How much an area of ours may hold.
    size: Bytes,
    groups: u32,
}

/// What a contender of the kernel's runs on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Backing {
    /// What compresses.
    pub compressor: Option<String>,
    /// The number of the zram device.
    pub zram: Option<u32>,
    /// The settings that must still hold at the end of the run; without a value where the kernel has no such file.
    settings: BTreeMap<String, Option<String>>,
}

impl Backing {
    /// The settings that were made, and the shrinker's also where the kernel has none.
    #[must_use]
    pub fn settings_set(&self) -> BTreeMap<String, Option<String>> {
        self.settings.clone()
    }

    /// Whether zswap's shrinker is on, or that the kernel has none; `None` where it was not set.
    #[must_use]
    pub fn shrinker(&self) -> Option<&'static str> {
        let set = self.settings.get(&shrinker_file())?;
        Some(match set {
            Some(_) => "on",
            None => "not in this kernel",
        })
    }
}

fn shrinker_file() -> String {
    format!("{ZSWAP}/shrinker_enabled")
}

impl Lab {
    /// Opens the lab, and cleans what an earlier bench left.
    ///
    /// # Errors
    /// Why the kernel's contenders cannot be had.
    pub fn open(root: &Root, dir: Option<PathBuf>) -> Result<Self, Missing> {
        Self::open_with(root, dir, Box::new(Linux))
    }

    fn open_with(
        root: &Root,
        dir: Option<PathBuf>,
        kernel: Box<dyn Kernel>,
    ) -> Result<Self, Missing> {
        let (mut journal, earlier) = Journal::open(root, &*kernel)?;
        match earlier {
            Some(faults) if faults.is_empty() => {
                talk::note("removed what an earlier bench had left");
            }
            faults => faults.unwrap_or_default().iter().for_each(|fault| {
                talk::warn(&format!("left by an earlier bench: {fault}"));
            }),
        }
        let hierarchy = match Hierarchy::find(root, &mut journal) {
            Ok(hierarchy) => hierarchy,
            Err(missing) => {
                let faults = journal.undo(&*kernel, Keep::Nothing);
                faults.iter().for_each(|fault| talk::warn(fault));
                return Err(missing);
            }
        };
        Ok(Self {
            root: root.clone(),
            kernel,
            journal,
            hierarchy,
            dir,
            swap: Err(Missing::new("there is no swap file")),
            size: Bytes::ZERO,
            groups: 0,
        })
    }

    /// 1 or 2.
    #[must_use]
    pub fn cgroup_version(&self) -> u8 {
        self.hierarchy.version
    }

    /// Whether the kernel charges a contender's pool to the group that fills it: only zswap's, only in
    /// version 2 (mm/memcontrol.c, `obj_cgroup_charge_zswap`).
    #[must_use]
    pub fn charges_pool(&self, contender: Contender) -> bool {
        contender == Contender::Zswap && self.hierarchy.version == 2
    }

    /// A group for one run.
    ///
    /// # Errors
    /// The kernel's word.
    pub fn group(&mut self, limit: Option<Bytes>) -> Result<Group, Missing> {
        let name = format!("neap-bench-{}-{}", std::process::id(), self.groups);
        self.groups += 1;
        Group::make(&self.root, &mut self.journal, &self.hierarchy, &name, limit)
    }

    /// Makes the swap file of the first of `sizes` that can be had. Where there can be none, those that need
    /// one say why, and a zram device is still as large.
    pub fn make_swap(&mut self, [first, second]: [Bytes; 2]) {
        self.size = first;
        let Some(dir) = self.dir.clone() else {
            self.swap = Err(
                Missing::new("no directory for a swap file is on a local disk")
                    .remedy("--swap-dir DIR"),
            );
            return;
        };
        self.swap = self.swap_file(&dir, first);
        if self.swap.is_err() && second != first {
            self.size = second;
            self.swap = self.swap_file(&dir, second);
        }
    }

    fn swap_file(&mut self, dir: &Path, size: Bytes) -> Result<PathBuf, Missing> {
        let path = dir.join(format!("neap-bench-{}.swap", std::process::id()));
        let refused = |error: io::Error| {
            Missing::new(format!("{}: {error}", path.display())).remedy("another --swap-dir")
        };
        let free = filesystem_of(&self.root.path(dir)).map(|found| found.free);
        let spare = TUNING.bench.spare;
        if let Ok(free) = free
            && free < size + spare
        {
            let text = format!(
                "{}: a swap file of {size} leaves less than {spare} of the {free} that are free",
                dir.display()
            );
            return Err(Missing::new(text).remedy("another --swap-dir"));
        }
        self.journal.file(&path).map_err(refused)?;
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let file = options.open(self.root.path(&path)).map_err(refused)?;
        let filled = fallocate(&file, FallocateFlags::empty(), 0, size.0)
            .map_err(io::Error::from)
            .and_then(|()| write_header(&file, size))
            .and_then(|()| file.sync_all());
        if filled.is_err() {
            // What it took is needed elsewhere; if it stays, the journal has it.
            let _ = std::fs::remove_file(self.root.path(&path));
        }
        filled.map_err(refused)?;
        Ok(path)
    }

    /// Prepares the machine for one run of `contender`.
    ///
    /// # Errors
    /// Why that contender cannot be had; nothing of it is left then.
    pub fn prepare(&mut self, contender: Contender) -> Result<Backing, Missing> {
        let done = match contender {
            Contender::Plain | Contender::Neap => Ok(Backing::default()),
            Contender::Swap => self.no_zswap().and_then(|backing| self.swap_on(backing)),
            Contender::Zswap => self.zswap().and_then(|backing| self.swap_on(backing)),
            Contender::Zram => self.no_zswap().and_then(|backing| self.zram(backing)),
        };
        if done.is_err() {
            self.tidy().iter().for_each(|fault| talk::warn(fault));
        }
        done
    }

    /// Settings that somebody else changed since [`prepare`](Self::prepare).
    #[must_use]
    pub fn disturbed(&self, backing: &Backing) -> Option<String> {
        let set = backing.settings.iter();
        let mut set = set.filter_map(|(file, value)| Some((file, value.as_ref()?)));
        let (file, value) = set.find(|(file, value)| {
            self.root
                .read(file)
                .is_ok_and(|now| now.trim() != value.as_str())
        })?;
        Some(format!(
            "{file} was {value} and was changed by somebody else"
        ))
    }

    /// Undoes what one run needed; returns what could not be undone.
    pub fn tidy(&mut self) -> Vec<String> {
        self.journal.undo(&*self.kernel, Keep::Bench)
    }

    /// Undoes everything; returns what could not be undone.
    pub fn close(mut self) -> Vec<String> {
        self.journal.undo(&*self.kernel, Keep::Nothing)
    }

    /// A compressed swap device would otherwise have a second compressed cache before it.
    fn no_zswap(&mut self) -> Result<Backing, Missing> {
        let file = format!("{ZSWAP}/enabled");
        let mut backing = Backing::default();
        if self.root.path(&file).exists() {
            self.set(&mut backing, file, "N")?;
        }
        Ok(backing)
    }

    fn zswap(&mut self) -> Result<Backing, Missing> {
        if !self.root.path(ZSWAP).is_dir() {
            return Err(Missing::new("this kernel was built without zswap"));
        }
        let mut backing = Backing::default();
        // First, for a zswap that was never enabled takes any word for a compressor.
        self.set(&mut backing, format!("{ZSWAP}/enabled"), "Y")?;
        let file = format!("{ZSWAP}/compressor");
        let best = COMPRESSORS
            .into_iter()
            .find(|name| self.accepts(&file, name))
            .ok_or_else(|| Missing::new("zswap accepts no compressor known to neap"))?;
        backing.settings.insert(file, Some(best.to_owned()));
        backing.compressor = Some(best.to_owned());
        let shrinker = shrinker_file();
        if self.root.path(&shrinker).exists() {
            self.set(&mut backing, shrinker, "Y")?;
        } else {
            backing.settings.insert(shrinker, None);
        }
        Ok(backing)
    }

    fn set(&mut self, backing: &mut Backing, file: String, value: &str) -> Result<(), Missing> {
        self.journal
            .set(&file, value)
            .map_err(|error| Missing::new(format!("{file}: {error}")))?;
        backing.settings.insert(file, Some(value.to_owned()));
        Ok(())
    }

    /// The kernel refuses a compressor it does not have.
    fn accepts(&mut self, file: &str, value: &str) -> bool {
        let set = self.journal.set(file, value);
        set.is_ok() && self.root.read(file).is_ok_and(|now| now.trim() == value)
    }

    fn swap_on(&mut self, backing: Backing) -> Result<Backing, Missing> {
        let path = self.swap.clone()?;
        self.swap_to(&path)?;
        Ok(backing)
    }

    fn swap_to(&mut self, path: &Path) -> Result<(), Missing> {
        self.journal
            .swap(path)
            .map_err(|error| Missing::new(error.to_string()))?;
        let on = self.kernel.swap_on(&self.root.path(path), PRIORITY);
        on.map_err(|error| Missing::new(error).remedy("a --swap-dir on ext4, xfs or btrfs"))
    }

    fn zram(&mut self, mut backing: Backing) -> Result<Backing, Missing> {
        const CONTROL: &str = "/sys/class/zram-control/hot_add";
        let size = self.size;
        let answer = self
            .root
            .read(CONTROL)
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => {
                    Missing::new("this kernel has no zram").remedy("modprobe zram")
                }
                _ => Missing::new(format!("{CONTROL}: {error}")),
            })?;
        let refused = |error: io::Error| Missing::new(format!("zram: {error}"));
        let number = answer
            .trim()
            .parse()
            .map_err(|_| Missing::new(format!("{CONTROL} answers {answer:?}")))?;
        self.journal.zram(number).map_err(refused)?;
        let device = format!("/sys/block/zram{number}");
        let algorithms = format!("{device}/comp_algorithm");
        let offered = self.root.read(&algorithms).map_err(refused)?;
        let best = best_of(&offered);
        let write = |file: &str, value: &str| std::fs::write(self.root.path(file), value);
        if let Some(best) = best {
            write(&algorithms, best).map_err(refused)?;
        }
        write(&format!("{device}/disksize"), &size.0.to_string()).map_err(refused)?;
        let path = PathBuf::from(format!("/dev/zram{number}"));
        let file = OpenOptions::new().write(true).open(self.root.path(&path));
        write_header(&file.map_err(refused)?, size).map_err(refused)?;
        backing.compressor = best.map(str::to_owned);
        backing.zram = Some(number);
        self.swap_to(&path)?;
        Ok(backing)
    }
}

/// The best of the algorithms a zram device offers; the one in use is in brackets.
fn best_of(offered: &str) -> Option<&'static str> {
    let has = |name: &&str| {
        let mut words = offered.split_whitespace();
        words.any(|word| word.trim_matches(['[', ']']) == *name)
    };
    COMPRESSORS.into_iter().find(has)
}

/// What mkswap(8) writes: the first page says that the rest is for swapping.
fn write_header(mut file: &File, size: Bytes) -> io::Result<()> {
    let mut page = [0u8; PAGE_SIZE];
    let pages = u32::try_from(size.whole_pages().0).unwrap_or(u32::MAX);
    let last = pages.saturating_sub(1);
    page[INFO..INFO + 4].copy_from_slice(&1u32.to_ne_bytes());
    page[INFO + 4..INFO + 8].copy_from_slice(&last.to_ne_bytes());
    page[PAGE_SIZE - SIGNATURE.len()..].copy_from_slice(SIGNATURE);
    file.write_all_at(&page, 0)?;
    file.flush()
}

/// Cleans up when this program panics, which ends it at once: after the usual message, by the journal.
pub fn clean_in_panic(root: &Root) {
    let before = std::panic::take_hook();
    let root = root.clone();
    std::panic::set_hook(Box::new(move |info| {
        before(info);
        for fault in sweep(&root, &Linux).unwrap_or_default() {
            talk::warn(&fault);
        }
    }));
}

#[cfg(test)]
mod tests;
