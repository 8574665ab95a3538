//! `neap run --watch`: one line on the terminal while the command runs, and nothing elsewhere.

use std::io::{IsTerminal, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use serde_json::Value;

use super::show::{Row, short};

/// Time between two lines.
const EACH: Duration = Duration::from_secs(1);
/// Longest wait for a terminal that takes nothing.
const PATIENCE: Duration = Duration::from_millis(200);
/// Back to the first column, and the rest of the line away.
const CLEAR: &str = "\r\x1b[2K";

/// The line, as long as this lives.
pub struct Watch {
    stop: Option<Sender<()>>,
    stopped: Receiver<()>,
}

impl Watch {
    /// Begins, if standard error is a terminal.
    pub fn begin(stat: impl Fn() -> Value + Send + 'static) -> Option<Self> {
        if !std::io::stderr().is_terminal() {
            return None;
        }
        let (stop, wait) = channel::<()>();
        let (say, stopped) = channel();
        let work = move || {
            neap_sys::block_signals();
            draw(&stat, &wait);
            drop(say);
        };
        std::thread::Builder::new()
            .name("neap-line".into())
            .spawn(work)
            .ok()?;
        Some(Self {
            stop: Some(stop),
            stopped,
        })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.stop.take());
        // It removes its line; a terminal that is held (Ctrl-S) is not waited for.
        let _ = self.stopped.recv_timeout(PATIENCE);
    }
}

fn draw(stat: &impl Fn() -> Value, wait: &Receiver<()>) {
    let mut before: Option<Row> = None;
    let mut drawn = false;
    while let Err(RecvTimeoutError::Timeout) = wait.recv_timeout(EACH) {
        if !is_ours() {
            continue; // a background job that writes would be stopped
        }
        let row = Row::of(&stat());
        let width = width().saturating_sub(1);
        let text: String = line(&row, before.as_ref()).chars().take(width).collect();
        let _ = std::io::stderr().write_all(format!("{CLEAR}{text}").as_bytes());
        (before, drawn) = (Some(row), true);
    }
    if drawn && is_ours() {
        let _ = std::io::stderr().write_all(CLEAR.as_bytes());
    }
}

/// Whether this process is in the foreground of its terminal.
fn is_ours() -> bool {
    let foreground = rustix::termios::tcgetpgrp(std::io::stderr());
    foreground.is_ok_and(|group| group == rustix::process::getpgrp())
}

fn width() -> usize {
    const USUAL: usize = 80;
    let size = rustix::termios::tcgetwinsize(std::io::stderr());
    size.ok()
        .map(|size| usize::from(size.ws_col))
        .filter(|&columns| columns > 0)
        .unwrap_or(USUAL)
}

fn line(row: &Row, before: Option<&Row>) -> String {
    let loads = before.map_or(0, |before| row.major.saturating_sub(before.major));
    let percent = row.current * 100 / row.limit.max(1);
    format!(
        "neap: {} of {} ({percent} %), resident {}, pool {} ({}:1), disk {}, waiting {:.0} %, {loads} loads/s",
        short(row.current),
        short(row.limit),
        short(row.resident),
        short(row.pool),
        row.ratio_text(),
        short(row.disk),
        row.some
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_how_the_job_does() {
        let before = Row {
            major: 5,
            ..Row::default()
        };
        let row = Row {
            current: 512 << 20,
            limit: 1 << 30,
            major: 12,
            some: 3.4,
            ..Row::default()
        };
        let text = line(&row, Some(&before));
        assert!(text.starts_with("neap: 512M of 1.0G (50 %)"), "{text}");
        assert!(text.ends_with("waiting 3 %, 7 loads/s"), "{text}");
    }
}
