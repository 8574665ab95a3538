//! Whether a process descends from another, by what the kernel says of parents.
//!
//! A number may come to mean another process between two looks. So the chain of parents is read upwards, and then once more
//! from its upper end downwards. The process itself lives at the end (its pidfd says so), and a parent that has ended
//! is replaced for good by one that was there before: a process that names the same parent twice has had it all the
//! while. So each link held from its first look to its second, and each look from one's child up to it lies between.

use std::fs::File;
use std::io::{Read, Write};

use neap_tuning::TUNING;

use crate::process::Pidfd;

/// The process that others descend from. It cannot be confused with a later one of the same number.
#[derive(Debug)]
pub struct Root {
    pid: i32,
    /// `None`: it is this process, which lives.
    pidfd: Option<Pidfd>,
}

impl Root {
    /// This process.
    #[must_use]
    pub fn own() -> Self {
        let pid = std::process::id().cast_signed();
        Self { pid, pidfd: None }
    }

    /// The process `pid`, which `pidfd` is.
    #[must_use]
    pub fn of(pid: i32, pidfd: Pidfd) -> Self {
        let pidfd = Some(pidfd);
        Self { pid, pidfd }
    }

    /// Its number.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// What it is held by, if it is not this process.
    #[must_use]
    pub fn pidfd(&self) -> Option<&Pidfd> {
        self.pidfd.as_ref()
    }

    /// Whether it has not ended.
    #[must_use]
    pub fn lives(&self) -> bool {
        self.pidfd.as_ref().is_none_or(Pidfd::lives)
    }

    /// Whether the process `pid`, which `pidfd` is, was started by this one, or by one that was, and so on.
    #[must_use]
    pub fn has_descendant(&self, pid: i32, pidfd: &Pidfd) -> bool {
        nearest_above(pid, pidfd, |other| other == self.pid).is_some() && self.lives()
    }
}

/// The number of the nearest process above `pid`, which `pidfd` is, for which `is_top` holds. That number means the process
/// that had it all the while only if that one has not ended by now.
#[must_use]
pub fn nearest_above(pid: i32, pidfd: &Pidfd, is_top: impl Fn(i32) -> bool) -> Option<i32> {
    for chain in std::iter::repeat_with(|| chain(pid, &is_top))
        .take(TUNING.system.chains)
        .flatten()
    {
        let top = *chain.last()?;
        let mut links = chain.windows(2).rev();
        if links.all(|link| parent_of(link[0]) == Some(link[1])) {
            return pidfd.lives().then_some(top);
        }
    }
    None
}

/// The process and those above it, up to the first that is one of the top. Empty: none of them is above it. `None`: one of
/// them has ended meanwhile.
fn chain(pid: i32, is_top: impl Fn(i32) -> bool) -> Option<Vec<i32>> {
    let mut chain = vec![pid];
    let mut next = pid;
    while chain.len() == 1 || !is_top(next) {
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
        let us = Root::own();
        let proven = |pid: i32| Pidfd::open(pid).is_ok_and(|pidfd| us.has_descendant(pid, &pidfd));
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
        let root = Root::of(child, Pidfd::open(child).expect("it lives"));
        assert!(root.has_descendant(grandchild, &pidfd));
        let nearest = |tops: &[i32]| nearest_above(grandchild, &pidfd, |pid| tops.contains(&pid));
        assert_eq!(nearest(&[own, child]), Some(child), "the nearest");
        assert_eq!(nearest(&[own]), Some(own));
        assert_eq!(nearest(&[grandchild]), None, "it is not above itself");
        assert!(pidfd.signal(9).is_ok());
        let _ = shell.wait();
        assert!(!us.has_descendant(grandchild, &pidfd), "it has ended");
        assert!(!root.lives(), "and so has that");
    }
}
