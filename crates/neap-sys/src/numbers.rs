//! The names in a folder. In the folders of /proc numbers are names: of processes, and of threads of a process.
//!
//! By the plain call, without memory from the heap: it serves a process that has none left, and no error of the last
//! close is more than that, where the language's own reader panics.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Room for the names of one call.
const ROOM: usize = 4096;
/// Where `struct linux_dirent64` has the length of a record, and its name.
const LENGTH_AT: usize = 16;
const NAME_AT: usize = 19;

#[repr(align(8))]
struct Records([u8; ROOM]);

/// The names in a folder, without those of itself and of the one above; none if it cannot be read.
#[must_use]
pub fn names_in(folder: &Path) -> Vec<OsString> {
    let mut names = Vec::new();
    if let Ok(folder) = CString::new(folder.as_os_str().as_bytes()) {
        each_name(&folder, |name| {
            if name != b"." && name != b".." {
                names.push(OsStr::from_bytes(name).to_owned());
            }
        });
    }
    names
}

/// Calls `each` for every number among the names in a folder; none if it cannot be read.
pub(crate) fn each_number(folder: &CStr, mut each: impl FnMut(i32)) {
    each_name(folder, |name| {
        if let Some(number) = number(name) {
            each(number);
        }
    });
}

fn each_name(folder: &CStr, mut each: impl FnMut(&[u8])) {
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
    // SAFETY: the path ends in 0.
    let fd = unsafe { libc::open(folder.as_ptr(), flags) };
    if fd < 0 {
        return;
    }
    let mut records = Records([0; ROOM]);
    loop {
        // SAFETY: the kernel writes at most ROOM bytes.
        let got = unsafe { libc::syscall(libc::SYS_getdents64, fd, records.0.as_mut_ptr(), ROOM) };
        let Ok(got @ 1..) = usize::try_from(got) else {
            break; // the end, or an error
        };
        let mut rest = &records.0[..got.min(ROOM)];
        while let Some((name, next)) = first_name(rest) {
            each(name);
            rest = next;
        }
    }
    // SAFETY: opened above; nobody else has it.
    unsafe { libc::close(fd) };
}

/// The name of the first record, and the records after it.
fn first_name(records: &[u8]) -> Option<(&[u8], &[u8])> {
    let len = records.get(LENGTH_AT..LENGTH_AT + 2)?;
    let len = usize::from(u16::from_ne_bytes([len[0], len[1]]));
    let name = records.get(NAME_AT..len)?;
    let end = name.iter().position(|&byte| byte == 0)?;
    Some((&name[..end], &records[len..]))
}

fn number(name: &[u8]) -> Option<i32> {
    str::from_utf8(name).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_and_its_thread_are_found() {
        let mut found = Vec::new();
        each_number(c"/proc", |pid| found.push(pid));
        assert!(found.contains(&std::process::id().cast_signed()));
        found.clear();
        each_number(c"/proc/self/task", |tid| found.push(tid));
        assert!(found.contains(&crate::own_tid()));
    }

    #[test]
    fn a_folder_that_is_not_there_has_no_numbers() {
        each_number(c"/proc/no/such", |_| unreachable!());
    }

    #[test]
    fn many_names_are_all_found() {
        let dir = tempfile::tempdir().unwrap();
        for name in 0..500 {
            std::fs::write(dir.path().join(name.to_string()), "").unwrap();
        }
        std::fs::write(dir.path().join("name"), "").unwrap();
        let path = std::ffi::CString::new(dir.path().to_str().unwrap()).unwrap();
        let mut found = Vec::new();
        each_number(&path, |number| found.push(number));
        found.sort_unstable();
        assert_eq!(found, (0..500).collect::<Vec<_>>());
        assert_eq!(names_in(dir.path()).len(), 501);
    }
}
