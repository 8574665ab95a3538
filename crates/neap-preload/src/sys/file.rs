//! What a file has.

use super::{Fd, call, nr};

/// Words of the kernel's `struct stat`. The mode is the lower half of one.
#[cfg(target_arch = "x86_64")]
const MODE: usize = 3;
#[cfg(target_arch = "aarch64")]
const MODE: usize = 2;
const SIZE: usize = 6;

/// Bytes that a file has behind a place, or behind where its descriptor stands; 0 of what is no file on a disk.
pub fn bytes_behind(fd: Fd, place: Option<i64>) -> usize {
    const SEEK_CUR: usize = 1;
    const REGULAR: u64 = 0o100_000;
    let mut stat = [0u64; 18];
    let at = (&raw mut stat) as usize;
    if call(nr::FSTAT, [fd.0 as usize, at, 0, 0, 0, 0]) < 0 {
        return 0;
    }
    // SAFETY: the kernel wrote through the address, so it is read anew.
    let stat = unsafe { (&raw const stat).read_volatile() };
    if stat[MODE] & 0o170_000 != REGULAR {
        return 0;
    }
    let place = place.unwrap_or_else(|| call(nr::LSEEK, [fd.0 as usize, 0, SEEK_CUR, 0, 0, 0]));
    u64::try_from(place).map_or(0, |place| stat[SIZE].saturating_sub(place) as usize)
}

/// Reads what is there from a place on; 0 at the end, or on failure.
#[cfg(target_arch = "x86_64")]
pub fn read_at(fd: Fd, into: &mut [u8], place: usize) -> usize {
    let at = into.as_mut_ptr() as usize;
    let got = call(nr::PREAD, [fd.0 as usize, at, into.len(), place, 0, 0]);
    got.max(0) as usize
}

#[cfg(target_arch = "x86_64")]
pub fn write_at(fd: Fd, bytes: &[u8], place: usize) {
    let at = bytes.as_ptr() as usize;
    call(nr::PWRITE, [fd.0 as usize, at, bytes.len(), place, 0, 0]);
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, SeekFrom, Write};
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn what_a_file_has_behind_a_place_is_known_and_of_others_nothing() {
        let mut file = tempfile();
        file.write_all(&[1; 5000]).expect("bytes");
        let fd = Fd(file.as_raw_fd());
        assert_eq!(bytes_behind(fd, None), 0);
        file.seek(SeekFrom::Start(100)).expect("a place");
        assert_eq!(bytes_behind(fd, None), 4900);
        assert_eq!(bytes_behind(fd, Some(4000)), 1000);
        assert_eq!(bytes_behind(fd, Some(6000)), 0);
        assert_eq!(bytes_behind(fd, Some(-1)), 0);
        let folder = std::fs::File::open("/").expect("a folder");
        assert_eq!(bytes_behind(Fd(folder.as_raw_fd()), None), 0);
        assert_eq!(bytes_behind(Fd(-1), None), 0);
    }

    fn tempfile() -> std::fs::File {
        let path = std::env::temp_dir().join(format!("neap-file-{}", std::process::id()));
        let file = std::fs::File::create_new(&path).expect("a file");
        std::fs::remove_file(path).expect("its name");
        file
    }
}
