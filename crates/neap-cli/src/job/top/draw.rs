//! What `neap top` draws: as many columns as there is room for, in any size.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line as Text;
use ratatui::widgets::{Paragraph, Row as TableRow, Table, TableState};

use super::state::{Column, Line, Mode, State};
use crate::job::show::{short, short_time};

/// Columns that a terminal has at least.
const NARROW: u16 = 20;
/// Rows that it has at least.
const LOW: u16 = 4;

const HELP: [&str; 10] = [
    "q, Ctrl-C        end",
    "arrows, j, k     mark a job",
    "Enter            its processes",
    "<, >, F6         sort by another column",
    "/                only jobs with these letters; Esc: all",
    "m                set the limit of the marked job (3G, 50%)",
    "f                freeze the marked job, or thaw it",
    "p                hold the figures",
    "?                this help; Esc: back",
    "WAIT%: threads waited, of 10 s. LOADS/S: faults that loaded",
];

/// Draws it all.
pub fn draw(state: &State, colours: bool, frame: &mut Frame<'_>) {
    let area = frame.area();
    if area.width < NARROW || area.height < LOW {
        frame.render_widget(Paragraph::new("too small"), area);
        return;
    }
    let rows = [
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(1),
    ];
    let [head, body, foot] = Layout::vertical(rows).areas(area);
    frame.render_widget(Paragraph::new(title(state)), head);
    match (state.help, state.open) {
        (true, _) => frame.render_widget(Paragraph::new(HELP.map(Text::from).to_vec()), body),
        (_, true) => processes(state, frame, body),
        _ => jobs(state, colours, frame, body),
    }
    frame.render_widget(Paragraph::new(footer(state)), foot);
}

fn title(state: &State) -> String {
    let shown = state.shown().len();
    let jobs = if shown == 1 { "job" } else { "jobs" };
    let paused = if state.paused { ", held" } else { "" };
    let filter = match state.filter.is_empty() {
        true => String::new(),
        false => format!(" with \"{}\"", state.filter),
    };
    format!("neap top: {shown} {jobs}{filter}{paused}")
}

fn footer(state: &State) -> String {
    match &state.mode {
        Mode::Filter => format!("only names with: {}_", state.filter),
        Mode::Limit(job, text) => format!("memory.max of {job}: {text}_"),
        Mode::List => {
            let gone = state.gone.as_ref();
            let gone = gone.map(|job| format!("{job} has gone: mark another"));
            let message = Some(state.message.clone()).filter(|line| !line.is_empty());
            let lines: Vec<_> = gone.into_iter().chain(message).collect();
            match lines.is_empty() {
                true => "q end ? help Enter processes / filter m limit f freeze".to_owned(),
                false => lines.join("; "),
            }
        }
    }
}

/// A column: what it is sorted by, its head, its width, and what it has of a job.
type Cell = (Option<Column>, &'static str, u16, fn(&Line) -> String);

/// From left to right, as far as there is room.
const CELLS: [Cell; 12] = [
    (Some(Column::Current), "CURRENT", 7, |line| {
        short(line.row.current)
    }),
    (Some(Column::Limit), "LIMIT", 6, |line| {
        short(line.row.limit)
    }),
    (Some(Column::Used), "USED%", 5, |line| {
        format!("{:.0}", line.used())
    }),
    (Some(Column::Pool), "POOL", 5, |line| short(line.row.pool)),
    (Some(Column::Waits), "WAIT%", 6, |line| {
        line.row.waits_text(0)
    }),
    (Some(Column::Loads), "LOADS/S", 7, |line| {
        format!("{:.0}", line.loads)
    }),
    (Some(Column::Idle), "IDLE", 5, |line| {
        short_time(line.row.idle)
    }),
    (None, "RATIO", 5, |line| line.row.ratio_text()),
    (Some(Column::Resident), "RESIDENT", 8, |line| {
        short(line.row.resident)
    }),
    (Some(Column::Disk), "DISK", 6, |line| short(line.row.disk)),
    (None, "PID", 8, |line| line.row.pid.to_string()),
    (None, "LIMIT USED", 20, |line| bar(line.used(), 18)),
];

/// A bar of so many letters, for a share in percent.
fn bar(percent: f64, width: usize) -> String {
    let full = (percent.clamp(0.0, 100.0) / 100.0 * width as f64).round() as usize;
    format!("[{}{}]", "#".repeat(full), " ".repeat(width - full))
}

fn jobs(state: &State, colours: bool, frame: &mut Frame<'_>, area: Rect) {
    const NAME: u16 = 12;
    let shown = state.shown();
    let longest = shown.iter().map(|line| line.row.address.len()).max();
    let longest = u16::try_from(longest.unwrap_or(0)).unwrap_or(u16::MAX);
    let name = longest.clamp(NAME, (area.width / 3).max(NAME));
    let mut left = area.width.saturating_sub(name);
    let fits = |cell: &&Cell| match left.checked_sub(cell.2 + 1) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    };
    let cells: Vec<&Cell> = CELLS.iter().take_while(fits).collect();
    let mut widths = vec![Constraint::Min(name)];
    widths.extend(cells.iter().map(|cell| Constraint::Length(cell.2)));
    let marked = |column: Option<Column>, head: &str| match column == Some(state.sort) {
        true => format!("{head}*"),
        false => head.to_owned(),
    };
    let heads = cells.iter().map(|cell| {
        let head = marked(cell.0, cell.1);
        let width = usize::from(cell.2);
        // The star takes the place of the last letter where there is no room for both.
        let head = if head.len() > width {
            format!("{}*", &cell.1[..width - 1])
        } else {
            head
        };
        format!("{head:>width$}")
    });
    let head = TableRow::new(std::iter::once(marked(Some(Column::Name), "NAME")).chain(heads));
    let rows = shown.iter().map(|line| {
        let cells = cells
            .iter()
            .map(|cell| format!("{:>1$}", cell.3(line), usize::from(cell.2)));
        let row = TableRow::new(std::iter::once(line.row.address.clone()).chain(cells));
        match colours && line.row.current > line.row.limit {
            true => row.style(Style::new().fg(Color::Red)),
            false => row,
        }
    });
    let table = Table::new(rows, widths)
        .header(head.style(Style::new().add_modifier(Modifier::BOLD)))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut at = TableState::default().with_selected(state.marked_at());
    frame.render_stateful_widget(table, area, &mut at);
}

fn processes(state: &State, frame: &mut Frame<'_>, area: Rect) {
    let line = state.marked_line();
    let rows = line.into_iter().flat_map(|line| &line.processes);
    let rows = rows.map(|process| {
        TableRow::new([
            format!("{:>8}", process.pid),
            format!("{:>9}", short(process.resident)),
            format!("{:>6}", short(process.pool)),
            format!("{:>6}", short(process.disk)),
            format!("{:>9.1}", process.waited),
            process.name.clone(),
        ])
    });
    let widths = [8, 9, 6, 6, 9]
        .map(Constraint::Length)
        .into_iter()
        .chain([Constraint::Min(1)]);
    let head = TableRow::new([
        "     PID",
        " RESIDENT",
        "  POOL",
        "  DISK",
        " WAITED S",
        "PROCESS",
    ]);
    let head = head.style(Style::new().add_modifier(Modifier::BOLD));
    frame.render_widget(Table::new(rows, widths).header(head), area);
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::KeyCode;

    use super::*;
    use crate::job::top::state::tests::stat;

    fn screen(state: &State, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        terminal
            .draw(|frame| draw(state, false, frame))
            .expect("it draws");
        let buffer = terminal.backend().buffer().clone();
        let cells: Vec<&str> = buffer.content().iter().map(|cell| cell.symbol()).collect();
        cells
            .chunks(width.into())
            .map(|row| row.concat().trim_end().to_owned())
            .collect()
    }

    fn state() -> State {
        let mut state = State::default();
        let jobs: Vec<_> = (0..40)
            .map(|n| stat(&format!("job-{n}"), n << 20, n))
            .collect();
        state.take(&jobs, 1.0);
        state
    }

    #[test]
    fn sixty_columns_show_what_matters_and_wide_ones_more() {
        let screen60 = screen(&state(), 60, 15);
        assert_eq!(screen60[0], "neap top: 40 jobs");
        let head = "NAME           CURREN*  LIMIT USED%   POOL WAIT% LOADS/S IDLE";
        assert_eq!(
            screen60[1].split_whitespace().collect::<Vec<_>>(),
            head.split_whitespace().collect::<Vec<_>>()
        );
        assert!(screen60[2].starts_with("job-39"), "{screen60:?}");
        assert_eq!(screen60.len(), 15);
        let wide = screen(&state(), 120, 30);
        assert!(
            wide[1].ends_with("LIMIT USED") && wide[2].ends_with(']'),
            "{wide:?}"
        );
    }

    #[test]
    fn every_size_is_drawn_in_every_view() {
        for (help, open) in [(false, false), (true, false), (false, true)] {
            let mut state = state();
            (state.help, state.open) = (help, open);
            for width in [1, 7, 19, 20, 33, 60, 81, 300] {
                for height in [1, 3, 4, 5, 15, 60] {
                    let rows = screen(&state, width, height);
                    assert_eq!(rows.len(), usize::from(height));
                }
            }
        }
        let nothing = screen(&State::default(), 60, 15);
        assert_eq!(nothing[0], "neap top: 0 jobs");
        let mut state = state();
        state.open = true;
        let open = screen(&state, 60, 15);
        assert!(open[2].ends_with("a?b"), "{open:?}");
    }

    #[test]
    fn that_the_marked_job_has_gone_is_in_the_last_line_until_another_is_marked() {
        let mut state = state();
        state.message = "job-39 is frozen".to_owned();
        state.take(&[stat("job-1", 1, 0)], 2.0);
        let last = |state: &State| screen(state, 80, 15)[14].clone();
        assert_eq!(
            last(&state),
            "job-39 has gone: mark another; job-39 is frozen"
        );
        state.take(&[stat("job-1", 1, 0)], 3.0);
        assert!(last(&state).starts_with("job-39 has gone"));
        state.press(KeyCode::Down.into());
        assert_eq!(last(&state), "job-39 is frozen");
    }
}
