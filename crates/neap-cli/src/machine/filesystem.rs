//! What kind of file system a directory lies on: a swap file wants a local disk.

use std::fs::File;
use std::io;
use std::path::Path;

use neap_units::Bytes;
use rustix::fs::{IFlags, ioctl_getflags, statfs};

/// A file system as far as a swap file cares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filesystem {
    /// What it is to a swap file.
    pub kind: Kind,
    /// Its usual name, or its number in hex.
    pub name: String,
    /// Bytes an unprivileged program may still write.
    pub free: Bytes,
}

/// What a file system is to a swap file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Local storage, or something layered over it.
    Disk,
    /// Its files are memory: swapping there frees nothing.
    Memory,
    /// Another machine has to answer before a page comes back.
    Network,
    /// btrfs with copy on write: each rewrite moves the extent and fragments the file.
    CopyOnWrite,
}

impl Kind {
    /// Why a swap file should not be there; `None` when it may.
    #[must_use]
    pub fn objection(self) -> Option<&'static str> {
        match self {
            Kind::Disk => None,
            Kind::Memory => Some("its files live in memory, so swapping there frees none"),
            Kind::Network => Some("it is on the network, so each page brought back waits for it"),
            Kind::CopyOnWrite => {
                Some("btrfs copies on write; make a directory with `chattr +C` for it")
            }
        }
    }
}

/// File system numbers of linux/magic.h, and CIFS's from fs/smb/client/cifsfs.h.
const KNOWN: &[(u64, &str, Kind)] = &[
    (0x0102_1994, "tmpfs", Kind::Memory),
    (0x8584_58f6, "ramfs", Kind::Memory),
    (0x9584_58f6, "hugetlbfs", Kind::Memory),
    (0x6969, "nfs", Kind::Network),
    (0xff53_4d42, "cifs", Kind::Network),
    (0xfe53_4d42, "smb2", Kind::Network),
    (0x517b, "smb", Kind::Network),
    (0x0102_1997, "9p", Kind::Network),
    (0x00c3_6400, "ceph", Kind::Network),
    (0x5346_414f, "afs", Kind::Network),
    (0x6573_5546, "fuse", Kind::Network),
    (0x9123_683e, "btrfs", Kind::CopyOnWrite),
    (0xef53, "ext4", Kind::Disk),
    (0x5846_5342, "xfs", Kind::Disk),
    (0xf2f5_2010, "f2fs", Kind::Disk),
    (0x794c_7630, "overlayfs", Kind::Disk),
    (0x2fc1_2fc1, "zfs", Kind::Disk),
    (0xca45_1a4e, "bcachefs", Kind::Disk),
];

/// The file system that `dir` lies on.
///
/// # Errors
/// Those of statfs(2): the directory is missing or may not be searched.
pub fn filesystem_of(dir: &Path) -> io::Result<Filesystem> {
    let answer = statfs(dir)?;
    let (name, mut kind) = classify(answer.f_type as u64);
    if kind == Kind::CopyOnWrite && has_nocow(dir) {
        kind = Kind::Disk;
    }
    let block = u64::try_from(answer.f_bsize).unwrap_or(0);
    Ok(Filesystem {
        kind,
        name,
        free: Bytes(answer.f_bavail.saturating_mul(block)),
    })
}

fn classify(magic: u64) -> (String, Kind) {
    // Some numbers have the top bit of 32 set and come sign-extended.
    let magic = magic & 0xffff_ffff;
    match KNOWN.iter().find(|(number, ..)| *number == magic) {
        Some((_, name, kind)) => ((*name).to_owned(), *kind),
        None => (format!("{magic:#x}"), Kind::Disk),
    }
}

/// New files of a directory with the NOCOW attribute inherit it.
fn has_nocow(dir: &Path) -> bool {
    File::open(dir)
        .ok()
        .and_then(|dir| ioctl_getflags(dir).ok())
        .is_some_and(|flags| flags.contains(IFlags::NOCOW))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_named_even_when_sign_extended() {
        assert_eq!(classify(0xef53), ("ext4".to_owned(), Kind::Disk));
        assert_eq!(
            classify(0xffff_ffff_ff53_4d42),
            ("cifs".to_owned(), Kind::Network)
        );
        assert!(classify(0x0102_1994).1.objection().is_some());
        assert_eq!(classify(0x1234), ("0x1234".to_owned(), Kind::Disk));
    }

    #[test]
    fn a_directory_that_is_there_has_a_file_system() {
        let dir = tempfile::tempdir().unwrap();
        assert!(filesystem_of(dir.path()).is_ok());
        assert!(filesystem_of(&dir.path().join("none")).is_err());
    }
}
