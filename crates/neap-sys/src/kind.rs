//! What a descriptor is, whoever sent it.

use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};

/// Whether this is the file of that name of some process, in `/proc`: nothing else is so called there, and no read of it
/// waits for anyone. (Files of a process's own making, in memory or on disk, are of another file system.)
pub fn is_proc_file(fd: &OwnedFd, name: &str) -> bool {
    let mut about = MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the kernel writes one statfs, which is read only if it did.
    let kind = unsafe {
        match libc::fstatfs(fd.as_raw_fd(), about.as_mut_ptr()) {
            0 => about.assume_init().f_type,
            _ => 0,
        }
    };
    kind == libc::PROC_SUPER_MAGIC
        && target(fd).is_some_and(|path| path.ends_with(&format!("/{name}")))
}

/// Whether this is a userfaultfd that does not let its reader wait.
pub fn is_userfaultfd(fd: &OwnedFd) -> bool {
    // SAFETY: integers only.
    let flags = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) };
    let waits = flags < 0 || flags & libc::O_NONBLOCK == 0;
    !waits && target(fd).is_some_and(|name| name == "anon_inode:[userfaultfd]")
}

/// What the kernel calls it.
fn target(fd: &OwnedFd) -> Option<String> {
    let link = fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).ok()?;
    link.into_os_string().into_string().ok()
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    fn open(path: &str) -> OwnedFd {
        File::open(path).expect(path).into()
    }

    #[test]
    fn a_file_is_what_the_kernel_calls_it() {
        assert!(is_proc_file(&open("/proc/self/maps"), "maps"));
        assert!(is_proc_file(&open("/proc/self/mem"), "mem"));
        assert!(!is_proc_file(&open("/proc/self/maps"), "mem"));
        assert!(!is_proc_file(&open("/proc/self/smaps"), "maps"));
        assert!(!is_proc_file(&open("/dev/zero"), "zero"));
        let dir = tempfile::tempdir().expect("a directory");
        let fake = dir.path().join("maps");
        fs::write(&fake, "").expect("a file");
        assert!(!is_proc_file(&open(fake.to_str().expect("a name")), "maps"));
        assert!(!is_userfaultfd(&open("/dev/null")));
    }

    #[test]
    fn a_userfaultfd_is_known_by_its_name() {
        let Ok(uffd) = crate::Uffd::create(None) else {
            return; // not allowed here
        };
        assert!(is_userfaultfd(&uffd.into()));
    }
}
