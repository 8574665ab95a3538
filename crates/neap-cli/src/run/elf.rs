//! Looks at the command's file before it starts: can the preload library get into it?
//!
//! The library enters through the dynamic linker, so a program without one stays unmanaged; so does a
//! program that gains privileges, for the linker ignores LD_PRELOAD there (ld.so(8), "secure-execution
//! mode"). A script is as manageable as its interpreter. Nothing is guessed: what cannot be read is
//! left alone.

use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, ReadCache};
use thiserror::Error;

use crate::failure::is_missing;

/// Why a program stays unmanaged.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Reason {
    /// No dynamic linker, so nothing loads the library.
    #[error("it is statically linked")]
    Static,
    /// The same, built by Go.
    #[error(
        "it is a statically linked Go program (build it with CGO_ENABLED=1 go build -ldflags=-linkmode=external)"
    )]
    StaticGo,
    /// The set-user-ID or set-group-ID bit takes effect.
    #[error("it is setuid or setgid, so the dynamic linker ignores LD_PRELOAD")]
    SetId,
    /// File capabilities take effect.
    #[error("it has file capabilities, so the dynamic linker ignores LD_PRELOAD")]
    Capabilities,
    /// Another machine or word size.
    #[error("it is built for another architecture than neap")]
    Foreign,
    /// Neither ELF nor a script.
    #[error("it is neither an ELF program nor a script")]
    Unknown,
    /// May be executed and not read.
    #[error("its file cannot be read")]
    Unreadable,
    /// A script of a script of a script...
    #[error("its interpreters are nested too deeply")]
    TooDeep,
}

/// Who would run the program: decides whether its privileges would be new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Real user id.
    pub uid: u32,
    /// Real group id.
    pub gid: u32,
}

impl Caller {
    /// This process.
    #[must_use]
    pub fn own() -> Self {
        Self {
            uid: rustix::process::getuid().as_raw(),
            gid: rustix::process::getgid().as_raw(),
        }
    }
}

/// Interpreters of interpreters that the kernel follows (fs/exec.c, `exec_binprm`).
const DEPTH: usize = 5;
/// What the kernel reads of a script's first line (`BINPRM_BUF_SIZE`).
const FIRST_LINE: u64 = 256;

#[cfg(target_arch = "x86_64")]
const NATIVE: elf::Machine = elf::EM_X86_64;
#[cfg(target_arch = "aarch64")]
const NATIVE: elf::Machine = elf::EM_AARCH64;

/// Whether the library can get into the program in `file` when `caller` runs it.
///
/// # Errors
/// The reason why it cannot.
pub fn manageable(file: &Path, caller: Caller) -> Result<(), Reason> {
    let mut file = file.to_owned();
    for depth in 0..=DEPTH {
        let mut open = match File::open(&file) {
            Ok(open) => open,
            // An interpreter: the command itself was found. Executing it will fail, and say so.
            Err(error) if depth > 0 && is_missing(&error) => return Ok(()),
            Err(_) => return Err(Reason::Unreadable),
        };
        let mut start = Vec::new();
        (&mut open)
            .take(FIRST_LINE)
            .read_to_end(&mut start)
            .map_err(|_| Reason::Unreadable)?;
        if start.starts_with(b"\x7fELF") {
            return program(&file, open, caller);
        }
        file = interpreter(&start).ok_or(Reason::Unknown)?;
    }
    Err(Reason::TooDeep)
}

/// The interpreter that the first bytes of a script name; execvp(3) gives text without one to the
/// shell.
fn interpreter(start: &[u8]) -> Option<PathBuf> {
    let Some(line) = start.strip_prefix(b"#!") else {
        return is_text(start).then(|| PathBuf::from("/bin/sh"));
    };
    let line = line.split(|&byte| byte == b'\n').next()?;
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let word = line.split(blank).find(|word| !word.is_empty())?;
    Some(PathBuf::from(std::ffi::OsStr::from_bytes(word)))
}

/// Whether a shell would take the file for a script: no zero byte in the first line.
fn is_text(start: &[u8]) -> bool {
    let line = start.split(|&byte| byte == b'\n').next().unwrap_or(start);
    !line.contains(&0)
}

fn program(path: &Path, file: File, caller: Caller) -> Result<(), Reason> {
    gains_privileges(path, &file, caller)?;
    let cache = ReadCache::new(file);
    let header = FileHeader64::<Endianness>::parse(&cache).map_err(|_| Reason::Foreign)?;
    let endian = header.endian().map_err(|_| Reason::Foreign)?;
    let native_order = header.is_little_endian() == cfg!(target_endian = "little");
    if header.e_machine(endian) != NATIVE || !native_order {
        return Err(Reason::Foreign);
    }
    let segments = header
        .program_headers(endian, &cache)
        .map_err(|_| Reason::Unknown)?;
    let linker = segments
        .iter()
        .find_map(|segment| segment.interpreter(endian, &cache).ok().flatten());
    match linker {
        None if is_go(header, endian, &cache) => Err(Reason::StaticGo),
        None => Err(Reason::Static),
        Some(_) => Ok(()),
    }
}

fn is_go(header: &FileHeader64<Endianness>, endian: Endianness, cache: &ReadCache<File>) -> bool {
    header.sections(endian, cache).is_ok_and(|sections| {
        sections
            .section_by_name(endian, b".note.go.buildid")
            .is_some()
    })
}

/// The kernel's rule for secure execution (security/commoncap.c, `cap_bprm_creds_from_file`): ids that
/// change by the file's bits, or capabilities that a caller other than root gains.
fn gains_privileges(path: &Path, file: &File, caller: Caller) -> Result<(), Reason> {
    /// The set-group-ID bit means something else without the group's execute bit.
    const SETGID_EXECUTABLE: u32 = 0o2010;
    let meta = file.metadata().map_err(|_| Reason::Unreadable)?;
    let setuid = meta.mode() & 0o4000 != 0 && meta.uid() != caller.uid;
    let setgid = meta.mode() & SETGID_EXECUTABLE == SETGID_EXECUTABLE && meta.gid() != caller.gid;
    if setuid || setgid {
        return Err(Reason::SetId);
    }
    let mut value = [0u8; 64];
    let has_capabilities =
        rustix::fs::getxattr(path, "security.capability", &mut value[..]).is_ok();
    if has_capabilities && caller.uid != 0 {
        return Err(Reason::Capabilities);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const ROOT: Caller = Caller { uid: 0, gid: 0 };
    const USER: Caller = Caller {
        uid: 4_000_000,
        gid: 4_000_000,
    };

    /// The test program itself: dynamic, native, and may be copied.
    fn itself() -> PathBuf {
        std::env::current_exe().unwrap()
    }

    fn write(dir: &Path, name: &str, bytes: &[u8]) -> PathBuf {
        let path = dir.join(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    /// A copy of the test program with its first bytes changed.
    fn changed(dir: &Path, change: impl FnOnce(&mut Vec<u8>)) -> PathBuf {
        let mut bytes = fs::read(itself()).unwrap();
        change(&mut bytes);
        write(dir, "changed", &bytes)
    }

    #[test]
    fn a_dynamic_native_program_is_manageable() {
        assert_eq!(manageable(&itself(), USER), Ok(()));
        assert_eq!(manageable(Path::new("/bin/sh"), ROOT), Ok(()));
    }

    #[test]
    fn a_program_without_linker_is_static() {
        let dir = tempfile::tempdir().unwrap();
        // Rename the PT_INTERP segment in a copy: program headers follow the 64-byte header, 56 each.
        let copy = changed(dir.path(), |bytes| {
            let count = usize::from(bytes[56]);
            for at in (0..count).map(|i| 64 + i * 56) {
                if bytes[at..at + 4] == 3u32.to_le_bytes() {
                    bytes[at..at + 4].copy_from_slice(&0u32.to_le_bytes());
                }
            }
        });
        assert_eq!(manageable(&copy, USER), Err(Reason::Static));
    }

    #[test]
    fn other_machines_and_word_sizes_are_foreign() {
        let dir = tempfile::tempdir().unwrap();
        let arm = changed(dir.path(), |bytes| bytes[18] = 40);
        assert_eq!(manageable(&arm, USER), Err(Reason::Foreign));
        let narrow = changed(dir.path(), |bytes| bytes[4] = 1);
        assert_eq!(manageable(&narrow, USER), Err(Reason::Foreign));
    }

    #[test]
    fn a_truncated_program_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let short = write(dir.path(), "short", b"\x7fELF\x02\x01");
        assert!(manageable(&short, USER).is_err());
    }

    #[test]
    fn a_script_is_as_manageable_as_its_interpreter() {
        let dir = tempfile::tempdir().unwrap();
        let shell = write(dir.path(), "a", b"#! /bin/sh -e\nexit\n");
        assert_eq!(manageable(&shell, USER), Ok(()));
        let second = format!("#!{}\n", shell.display());
        let nested = write(dir.path(), "b", second.as_bytes());
        assert_eq!(manageable(&nested, USER), Ok(()));
        let plain = write(dir.path(), "c", b"echo hello\n");
        assert_eq!(manageable(&plain, USER), Ok(()));
        let loops = dir.path().join("d");
        fs::write(&loops, format!("#!{}\n", loops.display())).unwrap();
        assert_eq!(manageable(&loops, USER), Err(Reason::TooDeep));
    }

    #[test]
    fn binary_rubbish_and_missing_files_are_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let rubbish = write(dir.path(), "r", b"\x00\x01\x02");
        assert_eq!(manageable(&rubbish, USER), Err(Reason::Unknown));
        let none = dir.path().join("none");
        assert_eq!(manageable(&none, USER), Err(Reason::Unreadable));
    }

    #[test]
    fn a_setuid_program_is_left_alone_unless_it_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let copy = changed(dir.path(), |_| ());
        fs::set_permissions(&copy, Permissions::from_mode(0o4755)).unwrap();
        let owner = fs::metadata(&copy).unwrap();
        let same = Caller {
            uid: owner.uid(),
            gid: owner.gid(),
        };
        assert_eq!(manageable(&copy, USER), Err(Reason::SetId));
        assert_eq!(manageable(&copy, same), Ok(()));
        fs::set_permissions(&copy, Permissions::from_mode(0o2755)).unwrap();
        assert_eq!(manageable(&copy, USER), Err(Reason::SetId));
        fs::set_permissions(&copy, Permissions::from_mode(0o2745)).unwrap();
        assert_eq!(manageable(&copy, USER), Ok(()));
    }
}
