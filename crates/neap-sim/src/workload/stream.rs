//! A reader that goes through a file once, frame after frame, as a decoder or an encoder reads its input;
//! with memory of its own that it works on between frames, if it has any.

use neap_units::{Nanos, PageNr};

use super::pattern::Walker;
use super::{BATCH, put_run};
use crate::clock::{Context, Program, Step, Touch};
use crate::kernel::{Area, MemcgId};

/// Memory that a reader works on.
#[derive(Clone, Debug)]
pub struct Arena {
    /// What it maps; written once before the first frame.
    pub area: Area,
    /// Which of its pages come next.
    pub walker: Walker,
    /// Touches for each frame.
    pub touches: u64,
}

/// Reads a mapped area once, frame after frame. Several readers that share `frames` share the work.
#[derive(Clone, Debug)]
pub struct Stream {
    /// Whose memory.
    pub memcg: MemcgId,
    /// The file, with its hint.
    pub area: Area,
    /// Pages of a frame.
    pub frame: u64,
    /// Times each page of a frame is touched while the frame is worked on: a mapped page is read line
    /// by line, so that its accessed bit is set again after it was cleared.
    pub passes: u64,
    /// Work for each frame.
    pub work: Nanos,
    /// What it works on besides.
    pub arena: Option<Arena>,
    /// Shared number of the next frame.
    pub next: usize,
    /// Shared number that counts frames that are done.
    pub frames: usize,
}

impl Stream {
    /// The task.
    #[must_use]
    pub fn program(self) -> Box<dyn Program> {
        Box::new(Reading {
            stream: self,
            starts: None,
            populated: 0,
            frame: None,
            pass: 0,
            at: 0,
            touched: 0,
        })
    }
}

struct Reading {
    stream: Stream,
    /// Where the file and the arena are mapped.
    starts: Option<(PageNr, PageNr)>,
    populated: u64,
    /// The frame being read, its pass, the page within it, and touches of the arena for it.
    frame: Option<u64>,
    pass: u64,
    at: u64,
    touched: u64,
}

impl Reading {
    fn map(&mut self, cx: &mut Context<'_>) -> (PageNr, PageNr) {
        let stream = &self.stream;
        *self.starts.get_or_insert_with(|| {
            let space = cx.kernel.create_space(stream.memcg);
            *cx.space = Some(space);
            let file = cx.kernel.map(space, stream.area);
            let arena = stream.arena.as_ref();
            (
                file,
                arena.map_or(PageNr(0), |arena| cx.kernel.map(space, arena.area)),
            )
        })
    }

    /// Writes the arena once, batch by batch.
    fn populate(&mut self, cx: &mut Context<'_>, start: PageNr) -> Option<Step> {
        let pages = self.stream.arena.as_ref()?.area.len.0;
        let count = BATCH.min(pages - self.populated);
        put_run(cx.touches, PageNr(start.0 + self.populated), count, true);
        self.populated += count;
        (count > 0).then_some(Step::Touches)
    }

    /// Works on the arena for this frame, batch by batch.
    fn work(&mut self, cx: &mut Context<'_>, start: PageNr) -> Option<Step> {
        let arena = self.stream.arena.as_mut()?;
        let count = BATCH.min(arena.touches - self.touched);
        for i in 0..count {
            let page = PageNr(start.0 + arena.walker.next(cx.rng));
            cx.touches.push(Touch::new(page, i % 2 == 0));
        }
        self.touched += count;
        (count > 0).then_some(Step::Touches)
    }
}

impl Program for Reading {
    fn step(&mut self, cx: &mut Context<'_>) -> Step {
        let (start, arena) = self.map(cx);
        if let Some(step) = self.populate(cx, arena) {
            return step;
        }
        let next = self.stream.next;
        let frame = *self.frame.get_or_insert_with(|| cx.shared.add(next, 1));
        let size = self.stream.frame.max(1);
        let end = self.stream.area.len.0.min((frame + 1).saturating_mul(size));
        let first = frame.saturating_mul(size);
        if first >= end {
            if let Some(space) = cx.space.take() {
                cx.kernel.exit_space(space);
            }
            return Step::Exit;
        }
        if first + self.at < end {
            let count = BATCH.min(end - first - self.at);
            put_run(cx.touches, PageNr(start.0 + first + self.at), count, false);
            self.at += count;
            return Step::Touches;
        }
        let passes = self.stream.passes.max(1);
        if self.pass + 1 == passes
            && let Some(step) = self.work(cx, arena)
        {
            return step;
        }
        (self.at, self.pass) = (0, self.pass + 1);
        if self.pass == passes {
            (self.pass, self.touched, self.frame) = (0, 0, None);
            cx.shared.add(self.stream.frames, 1);
        }
        Step::Compute(self.stream.work / passes)
    }
}
