//! The descendants of this process as one look at /proc saw them, and which of their threads run.

use std::collections::HashMap;
use std::fs;

use crate::descent::Root;
use crate::errno::Result;
use crate::numbers::each_number;
use crate::process::Pidfd;

/// A process that descends from this one, by a look at /proc.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Member {
    /// Its number.
    pub pid: i32,
    /// The number of its parent.
    pub parent: i32,
    /// When it was started, in the kernel's ticks: a later process of that number has another time.
    pub born: u64,
}

/// Whether a process runs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stand {
    /// It has ended.
    Ended,
    /// Each of its threads is stopped.
    Stopped,
    /// Those that are not stopped wait in the kernel for something that no signal ends.
    Waits,
    /// Some thread runs, or may.
    Runs,
}

impl Stand {
    /// Of one thread, by the letter that the kernel has for its state.
    fn of(letter: &str) -> Self {
        match letter {
            "Z" | "X" | "x" => Self::Ended,
            "T" | "t" => Self::Stopped,
            "D" => Self::Waits,
            _ => Self::Runs,
        }
    }
}

/// What /proc/PID/stat says of a process or thread.
struct Line<'a> {
    state: &'a str,
    parent: i32,
    threads: u32,
    born: u64,
}

impl<'a> Line<'a> {
    /// The name is in brackets and may hold anything.
    fn read(text: &'a str) -> Option<Self> {
        let (_, rest) = text.rsplit_once(')')?;
        let mut words = rest.split_ascii_whitespace();
        let state = words.next()?;
        let parent = words.next()?.parse().ok()?;
        let threads = words.nth(15)?.parse().ok()?; // the 20th field of all
        let born = words.nth(1)?.parse().ok()?; // the 22nd
        Some(Self {
            state,
            parent,
            threads,
            born,
        })
    }

    /// A process goes on when its first thread has ended.
    fn has_ended(&self) -> bool {
        Stand::of(self.state) == Stand::Ended && self.threads <= 1
    }
}

/// All processes by their parents, and whether each has ended.
type Children = HashMap<i32, Vec<(Member, bool)>>;

/// One look at all processes of the machine.
fn children() -> Children {
    let mut children = Children::new();
    each_number(c"/proc", |pid| {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        if let Some(line) = Line::read(&text) {
            let (parent, born) = (line.parent, line.born);
            let member = Member { pid, parent, born };
            let its = children.entry(parent).or_default();
            its.push((member, line.has_ended()));
        }
    });
    children
}

/// All processes below `top`, if they have not ended. Parents come before children. They are taken out.
fn below(top: i32, children: &mut Children) -> Vec<Member> {
    let mut family = Vec::new();
    let mut above = vec![top];
    while let Some(parent) = above.pop() {
        for (member, ended) in children.remove(&parent).unwrap_or_default() {
            above.push(member.pid);
            if !ended {
                family.push(member);
            }
        }
    }
    family
}

/// The number of the newest process or thread of the machine, or of this container. `None`: /proc does not say.
#[must_use]
pub fn newest_task() -> Option<u32> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    text.trim_end().rsplit(' ').next()?.parse().ok()
}

/// All processes that some of these have started, and those that they did, if they have not ended: each once, by one look
/// whatever their number. None of a root that has ended itself.
#[must_use]
pub fn descendants_of<'a>(roots: impl IntoIterator<Item = &'a Root>) -> Vec<i32> {
    let mut children = children();
    let roots = roots.into_iter().filter(|root| root.lives());
    let families = roots.flat_map(|root| below(root.pid(), &mut children));
    families.map(|member| member.pid).collect()
}

impl Root {
    /// All processes that the process started and those that they did, if they have not ended. Parents come before children.
    /// None once it has ended itself.
    #[must_use]
    pub fn family(&self) -> Vec<Member> {
        let family = below(self.pid(), &mut children());
        if self.lives() { family } else { Vec::new() }
    }

    /// Sends SIGCONT to all of them that are stopped, children before their parents.
    pub fn let_family_go_on(&self) {
        let family = self.family();
        let stopped = |member: &&Member| member.stand() == Stand::Stopped;
        for member in family.iter().rev().filter(stopped) {
            let _ = member.signal(self, libc::SIGCONT);
        }
    }
}

impl Member {
    /// Sends `signal` to it; false: it has ended, or is no descendant of `root` any more.
    ///
    /// # Errors
    /// We may not, or there is no descriptor to do it with.
    pub fn signal(&self, root: &Root, signal: i32) -> Result<bool> {
        self.signal_if(signal, |pidfd| root.has_descendant(self.pid, pidfd))
    }

    /// The same to one that was proven to be a descendant when it was stopped, whoever is above it by now; false: it has ended.
    ///
    /// # Errors
    /// We may not, or there is no descriptor to do it with.
    pub fn signal_again(&self, signal: i32) -> Result<bool> {
        self.signal_if(signal, |_| true)
    }

    fn signal_if(&self, signal: i32, may: impl FnOnce(&Pidfd) -> bool) -> Result<bool> {
        let pidfd = match Pidfd::open(self.pid) {
            Err(error) if error.errno() == libc::ESRCH => return Ok(false),
            opened => opened?,
        };
        let text = fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        let same = Line::read(&text).is_some_and(|line| line.born == self.born);
        if !same || !may(&pidfd) {
            return Ok(false);
        }
        match pidfd.signal(signal) {
            Err(error) if error.errno() == libc::ESRCH => Ok(false),
            sent => sent.map(|()| true),
        }
    }

    /// Whether it runs, by a look at each of its threads.
    #[must_use]
    pub fn stand(&self) -> Stand {
        let mut stand = Stand::Ended;
        let Ok(folder) = std::ffi::CString::new(format!("/proc/{}/task", self.pid)) else {
            return stand;
        };
        each_number(&folder, |tid| {
            let path = format!("/proc/{}/task/{tid}/stat", self.pid);
            let text = fs::read_to_string(path).unwrap_or_default();
            if let Some(line) = Line::read(&text) {
                stand = stand.max(Stand::of(line.state));
            }
        });
        stand
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// A child, its number, and that of a child of its own.
    fn shell_with_a_child() -> (Child, i32, i32) {
        let mut shell = Command::new("sh")
            .args(["-c", "sh -c 'echo $$; exec sleep 60'; :"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("sh");
        let mut line = String::new();
        BufReader::new(shell.stdout.take().expect("a pipe"))
            .read_line(&mut line)
            .expect("a line");
        let (child, grandchild) = (shell.id().cast_signed(), line.trim().parse());
        (shell, child, grandchild.expect("pid"))
    }

    #[test]
    fn a_line_is_read_behind_a_name_that_holds_anything() {
        let text = "7 (a) R 1) D 42 7 7 0 -1 1 2 3 4 5 6 7 8 9 20 0 3 0 777 8 9\n";
        let line = Line::read(text).expect("a line");
        assert_eq!((line.state, line.parent), ("D", 42));
        assert_eq!((line.threads, line.born), (3, 777));
        assert!(Line::read("7 (a) S 1").is_none() && Line::read("").is_none());
    }

    #[test]
    fn who_runs_counts_before_who_is_stopped() {
        assert!(Stand::of("S") > Stand::of("D") && Stand::of("D") > Stand::of("T"));
        assert!(Stand::of("t") > Stand::of("Z") && Stand::of("R") == Stand::Runs);
    }

    #[test]
    fn a_new_process_is_newer_than_those_before() {
        let before = newest_task().expect("/proc/loadavg");
        Command::new("true").status().expect("true");
        assert_ne!(newest_task(), Some(before));
    }

    #[test]
    fn the_descendants_of_several_are_found_once_each_by_one_look() {
        let (mut shell, child, grandchild) = shell_with_a_child();
        let pidfd = || Pidfd::open(child).expect("it lives");
        let (own, inner) = (Root::own(), Root::of(child, pidfd()));
        for roots in [[&own, &inner], [&inner, &own]] {
            let all = descendants_of(roots);
            let count = |pid| all.iter().filter(|&&other| other == pid).count();
            assert_eq!((count(child), count(grandchild)), (1, 1), "{all:?}");
        }
        assert_eq!(descendants_of([&inner]), [grandchild]);
        for pid in [child, grandchild] {
            let _ = crate::signal(pid, libc::SIGKILL);
        }
        shell.wait().expect("it ends");
        assert_eq!(descendants_of([&inner]), [], "it has ended itself");
    }

    fn until(member: Member, stand: Stand) {
        while member.stand() != stand {
            std::thread::yield_now();
        }
    }

    #[test]
    fn descendants_are_stopped_and_continued_and_a_later_process_of_that_number_is_left_alone() {
        let (mut shell, child, grandchild) = shell_with_a_child();
        let all = Root::own().family();
        let at = |pid| all.iter().position(|member| member.pid == pid);
        assert!(at(child).expect("it") < at(grandchild).expect("its child"));
        let member = all[at(grandchild).expect("it")];
        assert_eq!(member.parent, child);
        assert!(
            member
                .signal(&Root::own(), libc::SIGSTOP)
                .expect("it is ours")
        );
        until(member, Stand::Stopped);
        let other = Member {
            born: member.born + 1,
            ..member
        };
        assert!(
            !other
                .signal(&Root::own(), libc::SIGKILL)
                .expect("nothing was sent")
        );
        assert!(
            member
                .signal(&Root::own(), libc::SIGCONT)
                .expect("it is ours")
        );
        until(member, Stand::Runs);
        assert!(
            member
                .signal(&Root::own(), libc::SIGKILL)
                .expect("it is ours")
        );
        shell.wait().expect("it ends with its child");
        assert!(
            !member
                .signal(&Root::own(), libc::SIGKILL)
                .expect("it has ended")
        );
        assert_eq!(member.stand(), Stand::Ended);
    }

    #[test]
    fn nobody_elses_process_is_signalled() {
        let init = Member {
            pid: 1,
            parent: 0,
            born: 0,
        };
        assert!(!init.signal(&Root::own(), 0).unwrap_or(false));
    }
}
