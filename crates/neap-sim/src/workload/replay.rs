//! A task that does what a trace says.

use std::sync::Arc;

use neap_units::{Nanos, PageNr, Pages};

use super::put_run;
use crate::clock::{Context, Program, Step};
use crate::kernel::{Area, AreaKind, Kernel, MemcgId, SpaceId};
use crate::trace::{Backing, Event, Trace, TraceArea};

/// A trace being replayed in one space.
#[derive(Clone, Debug)]
pub(super) struct Player {
    trace: Arc<Trace>,
    /// Private pages for each private page of the trace.
    repeat: u32,
    /// Pages for each page of a file of the trace, at most 1.
    text: f64,
    /// Where the reader is.
    position: (usize, i64),
    /// First page of each area in the space.
    starts: Vec<PageNr>,
    /// A touch that did not fit in the last batch: page, count, kind.
    rest: Option<(u32, u32, bool)>,
}

impl Player {
    /// Maps the areas of a trace in a space. Each private page stands for `repeat` pages, for programs
    /// that do the same with more memory.
    pub(super) fn new(
        trace: &Arc<Trace>,
        kinds: &[AreaKind],
        (repeat, text): (u32, f64),
        content: u32,
        kernel: &mut Kernel,
        space: SpaceId,
    ) -> Player {
        let repeat = repeat.max(1);
        let mut starts = Vec::new();
        for (area, &kind) in trace.areas().iter().zip(kinds) {
            let mapped = Area {
                kind,
                exec: area.backing == Backing::File,
                content,
                ..Area::anon(length(area, repeat, text))
            };
            starts.push(kernel.map(space, mapped));
        }
        Player {
            repeat,
            text,
            trace: Arc::clone(trace),
            position: trace.events().position(),
            starts,
            rest: None,
        }
    }

    /// Where pages of the trace lie, for how many they stand, and how many of the trace these are: those of the area of
    /// the first.
    fn place(&self, page: u32, count: u32) -> Option<(PageNr, u64, u32)> {
        let mut first = 0;
        for (area, start) in self.trace.areas().iter().zip(&self.starts) {
            if page < first + area.pages {
                let at = page - first;
                let count = count.min(area.pages - at);
                let begin = length_of(area, at, self.repeat, self.text);
                let last = length_of(area, at + count - 1, self.repeat, self.text);
                let pages = match area.backing {
                    Backing::Anon => u64::from(count) * u64::from(self.repeat),
                    _ => last - begin + 1,
                };
                return Some((PageNr(start.0 + begin), pages, count));
            }
            first += area.pages;
        }
        None
    }

    /// Pages of each area that its last page of the trace reaches.
    #[cfg(test)]
    pub(super) fn lengths(&self) -> Vec<u64> {
        let mut first = 0;
        let reach = |(area, start): (&TraceArea, &PageNr)| {
            first += area.pages;
            let (page, pages, _) = self.place(first - 1, 1).unwrap_or((PageNr(0), 0, 0));
            page.0 + pages - start.0
        };
        self.trace
            .areas()
            .iter()
            .zip(&self.starts)
            .map(reach)
            .collect()
    }

    /// Puts down touches until time passes, and returns how much; `None` at the end.
    pub(super) fn next(&mut self, cx: &mut Context<'_>) -> Option<Nanos> {
        loop {
            while let Some((page, count, write)) = self.rest.take() {
                let (start, pages, now) = self.place(page, count)?;
                put_run(cx.touches, start, pages, write);
                if now < count {
                    self.rest = Some((page + now, count - now, write));
                }
            }
            let mut events = self.trace.events().resume(self.position);
            let event = events.next();
            self.position = events.position();
            match event {
                Some(Event::Touch {
                    first,
                    count,
                    write,
                }) => {
                    self.rest = Some((first, count, write));
                }
                // What is freed is not looked at again; the space's end frees it here.
                Some(Event::Free { .. }) => {}
                // Brought ahead of its use: what it was brought for followed, as far as is known.
                Some(Event::Watch {
                    first,
                    count,
                    on: false,
                }) => self.rest = Some((first, count, false)),
                Some(Event::Watch { on: true, .. }) => {}
                Some(Event::Time(span)) => return Some(span),
                None => return (!cx.touches.is_empty()).then_some(Nanos::ZERO),
            }
        }
    }
}

/// How many pages lie before so many pages of an area of the trace.
fn length_of(area: &TraceArea, pages: u32, repeat: u32, text: f64) -> u64 {
    match area.backing {
        Backing::Anon => u64::from(pages) * u64::from(repeat),
        Backing::File => (f64::from(pages) * text.min(1.0)) as u64,
        Backing::Shmem => u64::from(pages),
    }
}

/// Pages for all of an area.
fn length(area: &TraceArea, repeat: u32, text: f64) -> Pages {
    match area.backing {
        Backing::File => Pages((f64::from(area.pages) * text.min(1.0)).ceil() as u64),
        _ => Pages(length_of(area, area.pages, repeat, text)),
    }
}

/// Replays a trace once, in a cgroup.
#[derive(Clone, Debug)]
pub struct Replay {
    memcg: MemcgId,
    trace: Arc<Trace>,
    player: Option<Player>,
    /// Time to pass after the touches put down.
    work: Option<Nanos>,
}

impl Replay {
    /// Of this trace, charged to this cgroup.
    #[must_use]
    pub fn new(memcg: MemcgId, trace: Arc<Trace>) -> Replay {
        Replay {
            memcg,
            trace,
            player: None,
            work: None,
        }
    }
}

/// Makes the files and shared memory behind a trace's areas.
/// `text`: pages for each page of a file, at most 1.
pub(super) fn objects(trace: &Trace, text: f64, kernel: &mut Kernel) -> Vec<AreaKind> {
    let kind = |area: &TraceArea| {
        let pages = length(area, 1, text);
        match area.backing {
            Backing::Anon => AreaKind::Anon,
            Backing::File => AreaKind::File(kernel.create_file(pages)),
            Backing::Shmem => AreaKind::Shmem(kernel.create_shmem(pages)),
        }
    };
    trace.areas().iter().map(kind).collect()
}

impl Program for Replay {
    fn step(&mut self, cx: &mut Context<'_>) -> Step {
        if let Some(work) = self.work.take() {
            return Step::Compute(work);
        }
        if self.player.is_none() {
            let space = cx.kernel.create_space(self.memcg);
            *cx.space = Some(space);
            let made = objects(&self.trace, 1.0, cx.kernel);
            let trace = Arc::clone(&self.trace);
            self.player = Some(Player::new(&trace, &made, (1, 1.0), 0, cx.kernel, space));
        }
        let Some(player) = &mut self.player else {
            return Step::Exit;
        };
        match player.next(cx) {
            Some(work) => {
                self.work = Some(work);
                Step::Touches
            }
            None => {
                if let Some(space) = cx.space.take() {
                    cx.kernel.exit_space(space);
                }
                Step::Exit
            }
        }
    }
}
