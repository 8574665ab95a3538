//! What `neap top` shows and what it is at: figures and keys in, no terminal.

use std::cmp::Ordering;
use std::collections::HashMap;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use serde_json::Value;

use super::processes::{Process, processes};
use crate::job::show::Row;

/// Most letters that somebody types here.
const LONGEST: usize = 48;

/// By what the list is in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Column {
    /// By letters.
    Name,
    /// What counts against the limit.
    Current,
    /// That as a share of the limit.
    Used,
    /// The limit.
    Limit,
    /// The programs' memory.
    Resident,
    /// The pool.
    Pool,
    /// The swap file.
    Disk,
    /// Time that threads waited.
    Waits,
    /// Faults a second that load something.
    Loads,
    /// Time for which no process has done anything.
    Idle,
}

impl Column {
    /// From left to right.
    pub const ALL: [Self; 10] = [
        Self::Name,
        Self::Current,
        Self::Limit,
        Self::Used,
        Self::Pool,
        Self::Waits,
        Self::Loads,
        Self::Idle,
        Self::Resident,
        Self::Disk,
    ];

    fn step(self, by: usize) -> Self {
        let at = Self::ALL.iter().position(|column| *column == self);
        Self::ALL[(at.unwrap_or(0) + by) % Self::ALL.len()]
    }
}

/// A job in the list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Line {
    /// Its figures.
    pub row: Row,
    /// Faults a second that loaded something, since the figures before.
    pub loads: f64,
    /// Its processes.
    pub processes: Vec<Process>,
}

impl Line {
    /// Share of the limit that is used, in percent.
    #[must_use]
    pub fn used(&self) -> f64 {
        self.row.current as f64 * 100.0 / self.row.limit.max(1) as f64
    }
}

/// What keys mean just now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Mode {
    /// They go through the list.
    List,
    /// They are letters of the filter.
    Filter,
    /// They are letters of a limit for this job.
    Limit(String, String),
}

/// What is to be done for the user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wish {
    /// End.
    Quit,
    /// Set this job's limit to what was typed.
    SetLimit(String, String),
    /// Stop all processes of this job, and take its memory out; or let it go on, if it is frozen.
    Freeze(String),
}

/// All of it.
#[derive(Debug)]
pub struct State {
    lines: Vec<Line>,
    /// Faults of each job by the figures before, and when those were, in seconds.
    before: HashMap<String, u64>,
    at: f64,
    /// The job that is marked.
    pub marked: Option<String>,
    /// The job that was marked and has gone, until another is marked.
    pub gone: Option<String>,
    /// By what the list is in order.
    pub sort: Column,
    /// Only jobs with these letters in their name.
    pub filter: String,
    /// What keys mean.
    pub mode: Mode,
    /// The figures stay as they are.
    pub paused: bool,
    /// The processes of the marked job are shown.
    pub open: bool,
    /// Help is shown.
    pub help: bool,
    /// What was done last.
    pub message: String,
}

impl Default for State {
    fn default() -> Self {
        Self {
            lines: Vec::new(),
            before: HashMap::new(),
            at: 0.0,
            marked: None,
            gone: None,
            sort: Column::Current,
            filter: String::new(),
            mode: Mode::List,
            paused: false,
            open: false,
            help: false,
            message: String::new(),
        }
    }
}

impl State {
    /// New figures of all jobs, as they answered to `stat`; `at`: when, in seconds.
    pub fn take(&mut self, stats: &[Value], at: f64) {
        if self.paused {
            return;
        }
        let elapsed = at - self.at;
        let before = std::mem::take(&mut self.before);
        let line = |row: Row, processes: Vec<Process>| {
            let loads = match before.get(&row.address) {
                Some(before) if elapsed > 0.0 => row.major.saturating_sub(*before) as f64 / elapsed,
                _ => 0.0,
            };
            Line {
                row,
                loads,
                processes,
            }
        };
        let lines = stats.iter().flat_map(|stat| {
            let rows = Row::with_jobs(stat);
            let its = processes(stat, &rows);
            rows.into_iter().zip(its)
        });
        let lines = lines.map(|(row, processes)| line(row, processes));
        self.lines = lines.collect();
        let known = self
            .lines
            .iter()
            .map(|line| (line.row.address.clone(), line.row.major));
        self.before = known.collect();
        self.at = at;
        self.keep_mark();
    }

    /// The mark goes with its job. The first figures mark the first; after that it is a key that marks, and nothing else.
    fn keep_mark(&mut self) {
        let is_there = |job: &String| self.lines.iter().any(|line| line.row.address == *job);
        match &self.marked {
            Some(job) if !is_there(job) => {
                self.gone = self.marked.take();
                self.open = false;
            }
            None if self.gone.is_none() => self.mark(0),
            _ => {}
        }
    }

    /// Marks the job at this place in the list, if there is one.
    fn mark(&mut self, at: usize) {
        let job = self.shown().get(at).map(|line| line.row.address.clone());
        if job.is_some() {
            (self.marked, self.gone) = (job, None);
        }
    }

    /// The jobs that are shown, in order.
    #[must_use]
    pub fn shown(&self) -> Vec<&Line> {
        let lines = self
            .lines
            .iter()
            .filter(|line| line.row.address.contains(&self.filter));
        let mut lines: Vec<&Line> = lines.collect();
        lines.sort_by(|a, b| {
            let by_name = || a.row.address.cmp(&b.row.address);
            self.compare(a, b).then_with(by_name)
        });
        lines
    }

    /// The largest first.
    fn compare(&self, a: &Line, b: &Line) -> Ordering {
        match self.sort {
            Column::Name => Ordering::Equal,
            Column::Current => b.row.current.cmp(&a.row.current),
            Column::Used => b.used().total_cmp(&a.used()),
            Column::Limit => b.row.limit.cmp(&a.row.limit),
            Column::Resident => b.row.resident.cmp(&a.row.resident),
            Column::Pool => b.row.pool.cmp(&a.row.pool),
            Column::Disk => b.row.disk.cmp(&a.row.disk),
            Column::Waits => b.row.some.total_cmp(&a.row.some),
            Column::Loads => b.loads.total_cmp(&a.loads),
            Column::Idle => b.row.idle.total_cmp(&a.row.idle),
        }
    }

    /// Where the marked job is in the list, if it is shown.
    #[must_use]
    pub fn marked_at(&self) -> Option<usize> {
        let marked = self.marked.as_deref()?;
        let shown = self.shown();
        shown.iter().position(|line| line.row.address == marked)
    }

    /// The marked job, if it is shown.
    #[must_use]
    pub fn marked_line(&self) -> Option<&Line> {
        let marked = self.marked.as_deref()?;
        let shown = self.shown();
        shown.into_iter().find(|line| line.row.address == marked)
    }

    /// Moves the mark. One that is nowhere comes from before the first.
    fn move_by(&mut self, by: isize) {
        let last = self.shown().len().saturating_sub(1);
        let to = match self.marked_at() {
            Some(at) => at.saturating_add_signed(by),
            None => 0_usize.saturating_add_signed(by.saturating_sub(1)),
        };
        self.mark(to.min(last));
    }

    /// A key was pressed.
    pub fn press(&mut self, key: KeyEvent) -> Option<Wish> {
        if key.kind == KeyEventKind::Release {
            return None;
        }
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return Some(Wish::Quit);
        }
        match self.mode.clone() {
            Mode::List => self.press_in_list(key.code),
            Mode::Filter => {
                match key.code {
                    KeyCode::Enter => {
                        self.mode = Mode::List;
                        if self.marked_at().is_none() {
                            self.mark(0);
                        }
                    }
                    KeyCode::Esc => (self.mode, self.filter) = (Mode::List, String::new()),
                    code => edit(&mut self.filter, code),
                }
                None
            }
            Mode::Limit(job, mut text) => match key.code {
                KeyCode::Enter => {
                    self.mode = Mode::List;
                    (!text.is_empty()).then_some(Wish::SetLimit(job, text))
                }
                KeyCode::Esc => {
                    self.mode = Mode::List;
                    None
                }
                code => {
                    edit(&mut text, code);
                    self.mode = Mode::Limit(job, text);
                    None
                }
            },
        }
    }

    fn press_in_list(&mut self, code: KeyCode) -> Option<Wish> {
        const PAGE: isize = 10;
        match code {
            KeyCode::Char('q') => return Some(Wish::Quit),
            KeyCode::Esc => (self.help, self.open) = (false, false),
            KeyCode::Char('?' | 'h') => self.help = !self.help,
            KeyCode::Char('p') => self.paused = !self.paused,
            KeyCode::Char('/') => self.mode = Mode::Filter,
            KeyCode::Char('>') | KeyCode::F(6) => self.sort = self.sort.step(1),
            KeyCode::Char('<') => self.sort = self.sort.step(Column::ALL.len() - 1),
            KeyCode::Char('m') => {
                let job = self.marked_line().map(|line| line.row.address.clone());
                self.mode = job.map_or(Mode::List, |job| Mode::Limit(job, String::new()));
            }
            KeyCode::Char('f') => {
                let job = self.marked_line().map(|line| line.row.address.clone());
                return job.map(Wish::Freeze);
            }
            KeyCode::Enter => self.open = !self.open,
            KeyCode::Down | KeyCode::Char('j') => self.move_by(1),
            KeyCode::Up | KeyCode::Char('k') => self.move_by(-1),
            KeyCode::PageDown => self.move_by(PAGE),
            KeyCode::PageUp => self.move_by(-PAGE),
            KeyCode::Home => self.move_by(isize::MIN),
            KeyCode::End => self.move_by(isize::MAX),
            _ => {}
        }
        None
    }
}

fn edit(text: &mut String, code: KeyCode) {
    match code {
        KeyCode::Backspace => _ = text.pop(),
        KeyCode::Char(letter) if text.len() < LONGEST && !letter.is_control() => text.push(letter),
        _ => {}
    }
}

#[cfg(test)]
pub mod tests {
    use serde_json::json;

    use super::*;

    /// Figures of a job.
    pub fn stat(name: &str, current: u64, major: u64) -> Value {
        json!({"name": name, "pid": 7, "neap": {"processes": 1}, "vmstat": {"pgmajfault": major},
            "memory": {"current_bytes": current, "limit_bytes": 64 << 20, "resident_bytes": current},
            "zswap": {"stored_pages": 9, "compressed_bytes": 4096, "pool_bytes": 8192},
            "processes": [{"pid": 8, "comm": "a\u{1b}b", "resident_bytes": 5, "stalled_seconds": 0.25}]})
    }

    fn press(state: &mut State, keys: &str) -> Option<Wish> {
        let mut wish = None;
        for key in keys.chars() {
            let code = match key {
                '\n' => KeyCode::Enter,
                '\u{1b}' => KeyCode::Esc,
                key => KeyCode::Char(key),
            };
            wish = state.press(KeyEvent::new(code, KeyModifiers::NONE));
        }
        wish
    }

    fn names(state: &State) -> Vec<&str> {
        let shown = state.shown().into_iter();
        shown.map(|line| &*line.row.address).collect()
    }

    #[test]
    fn the_list_is_sorted_and_filtered_and_the_mark_stays_on_its_job() {
        let mut state = State::default();
        state.take(&[stat("a", 1, 0), stat("b", 3, 10), stat("ab", 2, 0)], 1.0);
        assert_eq!(names(&state), ["b", "ab", "a"]);
        press(&mut state, "jj");
        assert_eq!(state.marked.as_deref(), Some("a"));
        state.take(&[stat("a", 9, 0), stat("b", 3, 30), stat("ab", 2, 0)], 3.0);
        assert_eq!((names(&state)[0], state.marked_at()), ("a", Some(0)));
        assert_eq!(state.shown()[1].loads, 10.0);
        press(&mut state, "<");
        assert_eq!(
            (state.sort, names(&state)),
            (Column::Name, vec!["a", "ab", "b"])
        );
        press(&mut state, "/b\n");
        assert_eq!(names(&state), ["ab", "b"]);
        press(&mut state, "/\u{1b}");
        assert_eq!(names(&state).len(), 3);
        press(&mut state, "p");
        state.take(&[], 4.0);
        assert_eq!(names(&state).len(), 3, "paused");
    }

    #[test]
    fn a_limit_is_typed_and_wished_for() {
        let mut state = State::default();
        assert_eq!(press(&mut state, "m\n"), None, "no job");
        state.take(&[stat("a", 1, 0)], 1.0);
        assert_eq!(press(&mut state, "m\u{1b}"), None);
        let wish = press(&mut state, "m3G\n");
        assert_eq!(wish, Some(Wish::SetLimit("a".to_owned(), "3G".to_owned())));
        assert_eq!(press(&mut state, "q"), Some(Wish::Quit));
        assert_eq!(state.shown()[0].processes[0].name, "a?b");
    }

    #[test]
    fn jobs_of_a_service_are_lines_by_what_commands_call_them() {
        let mut state = State::default();
        let service = |major: u64| {
            json!({"name": "all", "memory": {"current_bytes": 9},
            "jobs": [{"name": "one", "current_bytes": 5, "pgmajfault": major, "idle_seconds": 2},
                {"name": "two", "current_bytes": 4, "idle_seconds": 3}],
            "processes": [{"pid": 8, "job": "one", "pool_bytes": 7}, {"pid": 9, "job": "two"}]})
        };
        state.take(&[service(0), stat("web", 7, 0)], 1.0);
        state.take(&[service(10), stat("web", 7, 0)], 2.0);
        assert_eq!(names(&state), ["all", "web", "all/one", "all/two"]);
        let pids = |line: &Line| line.processes.iter().map(|p| p.pid).collect::<Vec<_>>();
        let shown = state.shown();
        assert_eq!((pids(shown[0]), pids(shown[2])), (vec![8, 9], vec![8]));
        assert_eq!((shown[2].loads, shown[2].processes[0].pool), (10.0, 7));
        press(&mut state, "/one\n");
        assert_eq!(names(&state), ["all/one"]);
        let wish = press(&mut state, "m8M\n");
        let limit = Wish::SetLimit("all/one".to_owned(), "8M".to_owned());
        assert_eq!(wish, Some(limit));
        let wish = press(&mut state, "f");
        assert_eq!(wish, Some(Wish::Freeze("all/one".to_owned())));
        press(&mut state, "/\u{1b}");
        state.sort = Column::Idle;
        assert_eq!(names(&state)[0], "all/two");
    }

    #[test]
    fn a_key_acts_on_the_marked_job_only_and_on_no_other_once_it_has_gone() {
        let mut state = State::default();
        state.take(&[stat("a", 9, 0), stat("b", 3, 0)], 1.0);
        state.take(&[stat("a", 1, 0), stat("b", 3, 0)], 2.0);
        let freeze = |job: &str| Some(Wish::Freeze(job.to_owned()));
        assert_eq!(
            press(&mut state, "f"),
            freeze("a"),
            "the first of the first figures"
        );
        press(&mut state, "m8M");
        state.take(&[stat("b", 3, 0), stat("c", 4, 0)], 3.0);
        let wish = press(&mut state, "\n");
        let limit = Wish::SetLimit("a".to_owned(), "8M".to_owned());
        assert_eq!(wish, Some(limit), "the job that it was begun for");
        state.take(&[stat("b", 3, 0), stat("c", 4, 0)], 4.0);
        assert_eq!(
            (press(&mut state, "f"), state.marked.as_deref()),
            (None, None)
        );
        assert_eq!(
            (press(&mut state, "m8M\n"), &state.mode),
            (None, &Mode::List)
        );
        press(&mut state, "j");
        assert_eq!(press(&mut state, "f"), freeze("c"));
        // A filter that hides it marks the first of those that are left, at its end.
        press(&mut state, "/b");
        assert_eq!(state.marked.as_deref(), Some("c"));
        press(&mut state, "\n");
        assert_eq!(press(&mut state, "f"), freeze("b"));
        press(&mut state, "/no such\n");
        assert_eq!(press(&mut state, "f"), None);
    }
}
