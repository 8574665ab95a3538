//! A reader that goes through a file once, page after page, as a decoder or an encoder reads its input.

use neap_units::{Nanos, PageNr};

use super::{BATCH, put_run};
use crate::clock::{Context, Program, Step};
use crate::kernel::{Area, MemcgId};

/// Reads a mapped area once, frame after frame.
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
    /// Shared number that counts frames.
    pub frames: usize,
}

impl Stream {
    /// The task.
    #[must_use]
    pub fn program(self) -> Box<dyn Program> {
        Box::new(Reading {
            stream: self,
            start: None,
            frame: 0,
            pass: 0,
            at: 0,
        })
    }
}

struct Reading {
    stream: Stream,
    start: Option<PageNr>,
    /// The frame being read, its pass, and the page within it.
    frame: u64,
    pass: u64,
    at: u64,
}

impl Program for Reading {
    fn step(&mut self, cx: &mut Context<'_>) -> Step {
        let stream = &self.stream;
        let start = *self.start.get_or_insert_with(|| {
            let space = cx.kernel.create_space(stream.memcg);
            *cx.space = Some(space);
            cx.kernel.map(space, stream.area)
        });
        let first = self.frame * stream.frame;
        let end = stream.area.len.0.min(first + stream.frame.max(1));
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
        self.at = 0;
        self.pass += 1;
        if self.pass >= stream.passes.max(1) {
            self.pass = 0;
            self.frame += 1;
            cx.shared.add(stream.frames, 1);
        }
        Step::Compute(stream.work / stream.passes.max(1))
    }
}
