//! A pseudo-terminal, for what only shows itself on a real one.

use crate::spawn_unmarked;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// Whether something is there to be read, or soon comes.
fn has_something(screen: &File) -> bool {
    let wait = Timespec {
        tv_sec: 0,
        tv_nsec: 50_000_000,
    };
    let mut polled = [PollFd::new(screen, PollFlags::IN)];
    poll(&mut polled, Some(&wait)).is_ok_and(|count| count > 0)
}

/// A terminal with a command in it.
#[derive(Debug)]
pub struct Terminal {
    child: Child,
    keys: File,
    seen: Arc<Mutex<Vec<u8>>>,
    /// Nobody looks at it any more.
    left: Arc<AtomicBool>,
    size: (usize, usize),
    reader: Option<JoinHandle<()>>,
}

impl Terminal {
    /// Runs a command in a terminal of this size, as a session of its own.
    ///
    /// # Panics
    /// If there is no terminal to be had, or the command does not start.
    #[must_use]
    pub fn run(command: &Command, columns: u16, rows: u16) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
            .expect("a pseudo-terminal");
        grantpt(&master).expect("granted");
        unlockpt(&master).expect("unlocked");
        let size = Winsize {
            ws_row: rows,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(master.as_fd(), size).expect("a size");
        let name = ptsname(&master, Vec::new()).expect("its name");
        let path = name.to_string_lossy().into_owned();
        let end = || {
            let file = OpenOptions::new().read(true).write(true).open(&path);
            Stdio::from(file.expect("its other end"))
        };
        let mut all = Command::new("setsid");
        all.arg("--ctty")
            .arg(command.get_program())
            .args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => all.env(name, value),
                None => all.env_remove(name),
            };
        }
        all.stdin(end()).stdout(end()).stderr(end());
        let child = spawn_unmarked(&mut all).expect("setsid runs");
        drop(all); // and its ends
        let mut screen = File::from(master);
        let keys = screen.try_clone().expect("a descriptor");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let into = seen.clone();
        let left = Arc::new(AtomicBool::new(false));
        let leaves = left.clone();
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while !leaves.load(Relaxed) {
                if !has_something(&screen) {
                    continue;
                }
                // EIO at the end of the last program there.
                let Ok(count @ 1..) = std::io::Read::read(&mut screen, &mut bytes) else {
                    return;
                };
                into.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .extend_from_slice(&bytes[..count]);
            }
        });
        Self {
            child,
            keys,
            seen,
            left,
            size: (columns.into(), rows.into()),
            reader: Some(reader),
        }
    }

    /// All that was drawn so far.
    #[must_use]
    pub fn seen(&self) -> String {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&seen).into_owned()
    }

    /// The rows as they are on the screen now.
    #[must_use]
    pub fn screen(&self) -> Vec<String> {
        drawn(&self.seen(), self.size)
    }

    /// Waits until some row of the screen has these words.
    ///
    /// # Panics
    /// If that takes a minute.
    pub fn wait_for(&self, words: &str) {
        let begun = Instant::now();
        while !self.screen().iter().any(|row| row.contains(words)) {
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "no {words:?} in {:#?}",
                self.screen()
            );
            sleep(Duration::from_millis(20));
        }
    }

    /// Types.
    ///
    /// # Panics
    /// If nobody is there.
    pub fn keys(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("a terminal");
    }

    /// Waits for the end of the command, and returns its status and all that was drawn.
    ///
    /// # Panics
    /// If that takes a minute.
    #[must_use]
    pub fn end(mut self) -> (Option<i32>, String) {
        let status = self.wait();
        self.join();
        (status, self.seen())
    }

    /// Closes it, as a window is closed, and waits for the end of the command.
    ///
    /// # Panics
    /// If that takes a minute.
    pub fn hang_up(mut self) {
        self.left.store(true, Relaxed);
        self.join();
        let null = File::open("/dev/null").expect("it is there");
        drop(std::mem::replace(&mut self.keys, null));
        self.wait();
    }

    fn wait(&mut self) -> Option<i32> {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("our child") {
                return status.code();
            }
            if begun.elapsed() > Duration::from_secs(60) {
                let _ = self.child.kill();
                panic!("it does not end: {:?}", self.seen());
            }
            sleep(Duration::from_millis(20));
        }
    }

    fn join(&mut self) {
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

/// What a terminal of so many columns and rows shows after all this. Of its codes those count that move the cursor or clear all.
fn drawn(text: &str, (columns, rows): (usize, usize)) -> Vec<String> {
    let mut screen = vec![vec![' '; columns]; rows];
    let (mut row, mut column) = (0, 0);
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\r' => column = 0,
            '\n' => row += 1,
            '\u{1b}' if letters.next() == Some('[') => {
                let is_end = |letter: &char| ('@'..='~').contains(letter);
                let mut words = String::new();
                let end = letters.find(|letter| {
                    words.push(*letter);
                    is_end(letter)
                });
                let mut numbers = words.split([';', 'H']).map(str::parse::<usize>);
                let mut number = || numbers.next().and_then(Result::ok).unwrap_or(1) - 1;
                match end {
                    Some('H') => (row, column) = (number(), number()),
                    Some('J') => screen.iter_mut().for_each(|row| row.fill(' ')),
                    _ => {}
                }
            }
            letter => {
                if let Some(cell) = screen.get_mut(row).and_then(|row| row.get_mut(column)) {
                    *cell = letter;
                }
                column += 1;
            }
        }
    }
    screen.iter().map(|row| row.iter().collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_drawn_over_is_not_on_the_screen_any_more() {
        let text = "\u{1b}[?25lold\u{1b}[2;3Hnew\u{1b}[7m\u{1b}[1;1HO\r\nx";
        assert_eq!(drawn(text, (6, 2)), ["Old   ", "x new "]);
        assert_eq!(drawn("ab\u{1b}[2J", (2, 1)), ["  "]);
    }
}
