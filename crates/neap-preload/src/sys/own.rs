//! Whether a descriptor of a process is of the calling one.

use super::{close, getpid, open, read};

/// Whether a descriptor that stands for a process, or a number in its place, is of the calling one.
pub fn is_self(process: i32) -> bool {
    // PIDFD_SELF_THREAD and PIDFD_SELF_THREAD_GROUP
    if (-10_001..=-10_000).contains(&process) {
        return true;
    }
    let mut path = *b"/proc/self/fdinfo/0000000000\0";
    let (mut rest, digits) = (process.max(0), 18..28);
    for at in digits.clone().rev() {
        path[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    // The kernel's names of descriptors have no zeros before them.
    let zeros = path[digits]
        .iter()
        .take(9)
        .take_while(|&&digit| digit == b'0');
    let zeros = zeros.count();
    path.copy_within(18 + zeros.., 18);
    path[28 - zeros] = 0;
    let Some(fd) = open(&path, 0) else {
        return false;
    };
    let mut text = [0; 512];
    let got = read(fd, &mut text);
    close(fd);
    let text = &text[..got];
    let line = |text: &[u8]| text.starts_with(b"Pid:\t");
    let Some(pid) = text.split(|&byte| byte == b'\n').find(|text| line(text)) else {
        return false;
    };
    let number = pid[5..].iter().fold(0, |number: u32, digit| {
        number
            .wrapping_mul(10)
            .wrapping_add(u32::from(digit.wrapping_sub(b'0')))
    });
    number == getpid()
}
