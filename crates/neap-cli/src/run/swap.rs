//! Where the swap file goes and how much it may hold.

use std::path::{Path, PathBuf};

use neap_engine::Swap;
use neap_tuning::TUNING;
use neap_units::{Bytes, Size, parse_size};

use crate::env::{Lookup, SWAP_DIR};
use crate::failure::Failure;
use crate::machine::{Filesystem, Kind, filesystem_of};

/// What was decided, and what the user should hear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The decision.
    pub swap: Swap,
    /// A line when the directory the user chose is a poor place.
    pub warning: Option<String>,
}

/// A directory the user named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The flag or variable it was named by.
    pub by: &'static str,
    /// The directory.
    pub dir: PathBuf,
}

/// The directory of the flag, else that of the variable.
#[must_use]
pub fn named(flag: Option<&Path>, env: Lookup<'_>) -> Option<Named> {
    let by = |by| move |dir| Named { by, dir };
    flag.map(Path::to_owned)
        .map(by("--swap-dir"))
        .or_else(|| env(SWAP_DIR).map(PathBuf::from).map(by(SWAP_DIR)))
}

/// What the user asked for.
#[derive(Clone, Copy, Debug)]
pub struct Wish<'a> {
    /// No swap file.
    pub off: bool,
    /// This directory.
    pub dir: Option<&'a Named>,
    /// This size, and the flag or variable it was written at.
    pub size: Option<(&'static str, &'a str)>,
}

/// How a directory's file system is found: [`filesystem_of`], or a list in tests.
pub type Inspect<'a> = &'a dyn Fn(&Path) -> std::io::Result<Filesystem>;

/// Decides on the swap file; `fallbacks` are tried in order when the user named no directory, and the
/// first on a local disk where a file can be made is taken. With none, there is no swap file.
///
/// # Errors
/// When the directory given cannot be used or the size cannot be read.
pub fn choose(
    wish: Wish<'_>,
    fallbacks: &[PathBuf],
    inspect: Inspect<'_>,
) -> Result<Choice, Failure> {
    let size = wish
        .size
        .map(|(flag, text)| size_of(flag, text))
        .transpose()?;
    let quiet = |swap| Choice {
        swap,
        warning: None,
    };
    if wish.off || size == Some(Bytes(0)) {
        return Ok(quiet(Swap::Off));
    }
    let swap = |dir: &Path, filesystem: &Filesystem| Swap::Dir {
        dir: dir.to_owned(),
        size: size.unwrap_or(filesystem.free / 2),
    };
    let Some(Named { by, dir }) = wish.dir else {
        return Ok(quiet(
            first_on_disk(fallbacks, inspect)
                .map_or(Swap::Off, |(dir, filesystem)| swap(dir, &filesystem)),
        ));
    };
    let filesystem = inspect(dir)
        .and_then(|found| match dir.is_dir() {
            true => Ok(found),
            false => Err(std::io::ErrorKind::NotADirectory.into()),
        })
        .map_err(|source| Failure::SwapDir {
            by,
            path: dir.clone(),
            source,
        })?;
    let warning = objection(&filesystem)
        .map(|why| format!("{by} {} is on {}: {why}", dir.display(), filesystem.name));
    Ok(Choice {
        swap: swap(dir, &filesystem),
        warning,
    })
}

/// Why a swap file is not at its best there.
#[must_use]
pub fn objection(filesystem: &Filesystem) -> Option<String> {
    let full = || {
        let free = filesystem.free;
        (free < TUNING.swap.least_free).then(|| format!("{free} free is hardly any room for pages"))
    };
    let kind = filesystem.kind.objection();
    kind.map(str::to_owned).or_else(full)
}

/// The first directory that lies on a local disk with some room.
pub fn first_on_disk<'a>(
    dirs: &'a [PathBuf],
    inspect: Inspect<'_>,
) -> Option<(&'a PathBuf, Filesystem)> {
    dirs.iter()
        .filter_map(|dir| Some((dir, inspect(dir).ok()?)))
        .find(|(_, filesystem)| {
            filesystem.kind == Kind::Disk && filesystem.free >= TUNING.swap.least_free
        })
}

/// Where a swap file goes when nothing is said: TMPDIR, /var/tmp, /tmp.
#[must_use]
pub fn usual_dirs(tmpdir: Option<PathBuf>) -> Vec<PathBuf> {
    tmpdir
        .into_iter()
        .chain(["/var/tmp".into(), "/tmp".into()])
        .collect()
}

/// The usual inspection: the file system, and whether a swap file can be made there. The one made to
/// find out is gone at once.
///
/// # Errors
/// Those of [`filesystem_of`], and those of making the file.
pub fn inspect_really(dir: &Path) -> std::io::Result<Filesystem> {
    let found = filesystem_of(dir)?;
    neap_sys::SwapFile::create(dir)
        .map_err(|error| std::io::Error::other(format!("no swap file can be made: {error}")))?;
    Ok(found)
}

fn size_of(flag: &'static str, text: &str) -> Result<Bytes, Failure> {
    match parse_size(text).map_err(|source| Failure::Size { flag, source })? {
        Size::Bytes(bytes) => Ok(bytes),
        Size::Percent(_) => Err(Failure::Share(flag)),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    fn inspect(dir: &Path) -> io::Result<Filesystem> {
        let full = dir == Path::new("/full");
        let kind = match dir.to_str() {
            Some("/ram") => Kind::Memory,
            Some("/net") => Kind::Network,
            Some("/none") => return Err(io::ErrorKind::NotFound.into()),
            _ => Kind::Disk,
        };
        Ok(Filesystem {
            kind,
            name: "fs".to_owned(),
            free: if full { Bytes::mib(3) } else { Bytes::gib(10) },
        })
    }

    fn named(dir: &Path) -> Named {
        Named {
            by: "--swap-dir",
            dir: dir.to_owned(),
        }
    }

    fn wish<'a>(dir: Option<&'a Named>, size: Option<&'a str>) -> Wish<'a> {
        Wish {
            off: false,
            dir,
            size: size.map(|size| ("--swap-size", size)),
        }
    }

    #[test]
    fn the_first_directory_on_a_disk_is_taken() {
        let dirs = [
            "/none".into(),
            "/ram".into(),
            "/full".into(),
            "/disk".into(),
            "/other".into(),
        ];
        let choice = choose(wish(None, None), &dirs, &inspect).unwrap();
        let want = Swap::Dir {
            dir: "/disk".into(),
            size: Bytes::gib(5),
        };
        assert_eq!((choice.swap, choice.warning), (want, None));
    }

    #[test]
    fn with_no_disk_there_is_no_swap() {
        let dirs = ["/ram".into(), "/net".into()];
        let choice = choose(wish(None, None), &dirs, &inspect).unwrap();
        assert_eq!(choice.swap, Swap::Off);
    }

    #[test]
    fn a_poor_directory_is_used_when_asked_for_and_warned_of() {
        let dir = tempfile::tempdir().unwrap();
        let memory = |_: &Path| inspect(Path::new("/ram"));
        let choice = choose(wish(Some(&named(dir.path())), Some("1G")), &[], &memory).unwrap();
        assert!(choice.warning.unwrap().contains("live in memory"));
        let Swap::Dir { size, .. } = choice.swap else {
            panic!("no swap");
        };
        assert_eq!(size, Bytes::gib(1));
    }

    #[test]
    fn a_full_directory_is_warned_of_and_a_size_of_nothing_is_no_swap() {
        let dir = tempfile::tempdir().unwrap();
        let full = |_: &Path| inspect(Path::new("/full"));
        let named = named(dir.path());
        let choice = choose(wish(Some(&named), None), &[], &full).unwrap();
        assert!(choice.warning.unwrap().contains("3MiB free"));
        let choice = choose(wish(Some(&named), Some("0")), &[], &full).unwrap();
        assert_eq!((choice.swap, choice.warning), (Swap::Off, None));
    }

    #[test]
    fn a_missing_directory_and_a_file_are_refused() {
        let none = named(Path::new("/none"));
        assert!(choose(wish(Some(&none), None), &[], &inspect).is_err());
        let file = tempfile::NamedTempFile::new().unwrap();
        let file = named(file.path());
        let failure = choose(wish(Some(&file), None), &[], &inspect).unwrap_err();
        assert_eq!(failure.code(), "E0108");
    }

    #[test]
    fn a_size_is_checked_even_when_it_is_not_used() {
        let off = Wish {
            off: true,
            ..wish(None, Some("5x"))
        };
        assert_eq!(choose(off, &[], &inspect).unwrap_err().code(), "E0102");
        let share = wish(None, Some("5%"));
        assert!(matches!(
            choose(share, &[], &inspect),
            Err(Failure::Share(_))
        ));
    }

    #[test]
    fn a_directory_where_no_file_can_be_made_is_skipped_or_refused() {
        let proc = PathBuf::from("/proc");
        assert_eq!(
            first_on_disk(std::slice::from_ref(&proc), &inspect_really),
            None
        );
        let failure = choose(wish(Some(&named(&proc)), None), &[], &inspect_really).unwrap_err();
        assert_eq!((failure.code(), failure.exit()), ("E0108", 125));
        let dir = tempfile::tempdir().unwrap();
        assert!(inspect_really(dir.path()).is_ok());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn tmpdir_comes_first() {
        assert_eq!(usual_dirs(Some("/x".into()))[0], Path::new("/x"));
        assert_eq!(usual_dirs(None).len(), 2);
    }
}
