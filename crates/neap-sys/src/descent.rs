//! Whether a process descends from this one, by what the kernel says of parents.
//!
//! A number may come to mean another process between two looks. So the chain of parents is read upwards, and then once more
//! from its upper end downwards. The process itself lives at the end (its pidfd says so), and a parent that has ended
//! is replaced for good by one that was there before: a process that names the same parent twice has had it all the
//! while. So each link held from its first look to its second, and each look from one's child up to it lies between.

use std::fs::File;
use std::io::{Read, Write};

use neap_tuning::TUNING;

use crate::process::Pidfd;

/// Whether the process `pid`, which `pidfd` is, was started by this one, or by one that was, and so on.
pub fn descends_from_us(pid: i32, pidfd: &Pidfd) -> bool {
    let own = std::process::id().cast_signed();
    for chain in std::iter::repeat_with(|| chain(pid, own))
        .take(TUNING.system.chains)
        .flatten()
    {
        if chain.is_empty() {
            return false;
        }
        let mut links = chain.windows(2).rev();
        if links.all(|link| parent_of(link[0]) == Some(link[1])) {
            return pidfd.lives();
        }
    }
    false
}

/// The process and those above it, up to `top`. Empty: `top` is not above it. `None`: one of them has ended meanwhile.
fn chain(pid: i32, top: i32) -> Option<Vec<i32>> {
    let mut chain = vec![pid];
    let mut next = pid;
    while next != top || chain.len() == 1 {
        if next <= 0 || chain.len() == TUNING.system.parents {
            return Some(Vec::new());
        }
        next = parent_of(next)?;
        chain.push(next);
    }
    Some(chain)
}

/// The parent of process `pid`; 0: it is none of our pid namespace.
fn parent_of(pid: i32) -> Option<i32> {
    let mut stat = [0; 256];
    let mut path = [0; 48];
    let mut rest = &mut path[..];
    // That of the thread: that of the process adds up all its threads.
    write!(rest, "/proc/{pid}/task/{pid}/stat").ok()?;
    let left = rest.len();
    let path = std::str::from_utf8(&path[..path.len() - left]).ok()?;
    let len = File::open(path)
        .and_then(|mut file| file.read(&mut stat))
        .ok()?;
    parent_in(&stat[..len])
}

/// The second field after the name, which is in brackets and may hold anything.
fn parent_in(stat: &[u8]) -> Option<i32> {
    let name = stat.iter().rposition(|&byte| byte == b')')?;
    let rest = std::str::from_utf8(&stat[name + 1..]).ok()?;
    rest.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_name_with_brackets_hides_nothing() {
        assert_eq!(parent_in(b"7 (a) R 1) S 42 7 7"), Some(42));
        assert_eq!(parent_in(b"7 (a"), None);
        assert_eq!(parent_in(b"7 (a) S"), None);
    }

    #[test]
    fn children_and_theirs_are_ours_and_no_others_are() {
        use std::io::{BufRead, BufReader};
        let proven = |pid: i32| Pidfd::open(pid).is_ok_and(|pidfd| descends_from_us(pid, &pidfd));
        let script = "sh -c 'echo $$; echo $PPID; exec sleep 60'; :";
        let mut shell = Command::new("sh")
            .args(["-c", script])
            .stdout(Stdio::piped())
            .spawn()
            .expect("sh");
        let mut lines = BufReader::new(shell.stdout.take().expect("a pipe")).lines();
        let mut number = || -> i32 {
            lines
                .next()
                .expect("a line")
                .expect("text")
                .parse()
                .expect("a pid")
        };
        let (grandchild, child) = (number(), number());
        assert_eq!(child, shell.id().cast_signed());
        assert!(proven(child) && proven(grandchild));
        let own = std::process::id().cast_signed();
        assert!(!proven(own), "nobody descends from itself");
        assert!(!proven(std::os::unix::process::parent_id().cast_signed()));
        assert!(!proven(1));
        let pidfd = Pidfd::open(grandchild).expect("it lives");
        assert!(pidfd.signal(9).is_ok());
        let _ = shell.wait();
        assert!(!descends_from_us(grandchild, &pidfd), "it has ended");
    }
}
