//! `neap top`: all jobs of this user on a terminal, and their limits.
//!
//! One thread asks the jobs each second, so that one that does not answer keeps no key waiting. [`state`] has what is
//! shown, [`draw`] puts it on the terminal.

mod draw;
mod processes;
mod state;

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use neap_control::Request;
use neap_sys::{Epoll, Interest};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};
use serde_json::Value;

use super::failure::Failure;
use super::find::{Job, stats_of};
use super::freeze::{freeze_job, what_stays};
use super::{ask_for_long, change};
use state::{State, Wish};

/// Time between two looks at the jobs.
const EACH: Duration = Duration::from_secs(1);
/// Longest wait for a key before what has come is drawn.
const LOOK: Duration = Duration::from_millis(100);

/// A message from another thread.
enum News {
    /// The figures of all jobs.
    Figures(Vec<Value>),
    /// The outcome of a wish.
    Said(String),
}

/// Runs it until the user ends it.
///
/// # Errors
/// There is no terminal, or it is gone.
pub fn run() -> Result<(), Failure> {
    let fail = |source| Failure::Output {
        what: "the terminal".to_owned(),
        source,
    };
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        let why =
            io::Error::other("standard input and output are none; neap top --once needs none");
        return Err(fail(why));
    }
    let ended = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register(signal, ended.clone()).map_err(fail)?;
    }
    thread::spawn(end_with_the_terminal);
    let (say, news) = channel();
    let teller = say.clone();
    thread::spawn(move || ask_all(&teller));
    let mut terminal = ratatui::try_init().map_err(fail)?;
    let result = show(&mut terminal, &news, &say, &ended);
    let restored = ratatui::try_restore();
    result.and(restored).map_err(fail)
}

/// Ends all once the terminal is gone, also where no SIGHUP comes. Who waits for keys reads its end again and again, without end.
fn end_with_the_terminal() {
    let Ok(epoll) = Epoll::new() else { return };
    while epoll.watch(&io::stdin(), Interest::End, 0).is_ok() {
        if epoll.wait(None).is_ok_and(|ends| !ends.is_empty()) {
            std::process::exit(0);
        }
    }
}

/// Asks all jobs again and again, as long as somebody listens.
fn ask_all(say: &Sender<News>) {
    loop {
        let stats = stats_of(&Job::all()).into_iter().flatten().collect();
        if say.send(News::Figures(stats)).is_err() {
            return;
        }
        thread::sleep(EACH);
    }
}

fn show(
    terminal: &mut DefaultTerminal,
    news: &Receiver<News>,
    say: &Sender<News>,
    ended: &AtomicBool,
) -> io::Result<()> {
    let colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let mut state = State::default();
    while !ended.load(Relaxed) {
        for news in news.try_iter() {
            match news {
                News::Figures(stats) => {
                    state.take(&stats, neap_sys::monotonic_nanos() as f64 / 1e9)
                }
                News::Said(line) => state.message = line,
            }
        }
        terminal.draw(|frame| draw::draw(&state, colours, frame))?;
        if !event::poll(LOOK)? {
            continue;
        }
        if let Event::Key(key) = event::read()? {
            match state.press(key) {
                Some(Wish::Quit) => break,
                Some(Wish::SetLimit(job, text)) => {
                    state.message = format!("{job}: memory.max={text} ...");
                    begin(say, move || set_limit(&job, &text));
                }
                Some(Wish::Freeze(job)) => {
                    state.message = format!("{job} ...");
                    begin(say, move || freeze_or_thaw(&job));
                }
                None => {}
            }
        }
    }
    Ok(())
}

/// Does something that may last, and says then what became of it. No key waits for it.
fn begin(say: &Sender<News>, work: impl FnOnce() -> String + Send + 'static) {
    let say = say.clone();
    thread::spawn(move || say.send(News::Said(work())));
}

/// Freezes a job that is not frozen. It is asked whether it is: the figures that are shown may be older than the key before.
fn freeze_or_thaw(name: &str) -> String {
    let stat = Job::find(Some(name)).and_then(|job| job.stat());
    match stat {
        Ok(stat) if stat["neap"]["frozen"] == 1 => thaw(name),
        Ok(_) => freeze(name),
        Err(failure) => failure.to_string(),
    }
}

/// Freezes a job.
fn freeze(name: &str) -> String {
    match Job::find(Some(name)).and_then(|job| freeze_job(&job, false)) {
        Ok(now) => {
            let got = neap_units::Bytes(now["reclaimed_bytes"].as_u64().unwrap_or(0));
            let stays = what_stays(&now).into_iter();
            let lines = std::iter::once(format!("{name} is frozen: it takes {got} less"));
            lines.chain(stays).collect::<Vec<_>>().join("; ")
        }
        Err(failure) => failure.to_string(),
    }
}

/// Lets it go on.
fn thaw(name: &str) -> String {
    let prefetch = false;
    let thaw = |job: Job| ask_for_long(&job, Request::Thaw { prefetch });
    match Job::find(Some(name)).and_then(thaw) {
        Ok(_) => format!("{name} goes on"),
        Err(failure) => failure.to_string(),
    }
}

/// Sets a limit, and says in a line what became of it.
fn set_limit(name: &str, text: &str) -> String {
    let set = || {
        let change = change(&format!("memory.max={text}"))?;
        ask_for_long(&Job::find(Some(name))?, Request::Set(vec![change]))
    };
    match set() {
        Ok(now) => match now["over_bytes"].as_u64().unwrap_or(0) {
            0 => format!("{name}: the limit is {text}"),
            over => format!(
                "{name}: the limit is {text}, and {} more are used",
                neap_units::Bytes(over)
            ),
        },
        Err(failure) => failure.to_string(),
    }
}
