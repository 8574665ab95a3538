//! Recording: the core's calls go to a file, by way of a thread that alone waits for the disk.

use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};

use neap_record::{Header, Sink, block, end_block};
use neap_sys::Thread;
use neap_tuning::TUNING;

use crate::job::Job;
use crate::spawn::try_spawn;

/// What the recorder and the writer share.
#[derive(Default)]
struct Queue {
    /// Bytes handed on and not written yet.
    waiting: AtomicUsize,
    /// More came than the disk took.
    overrun: AtomicBool,
}

/// The recorder's end. It never waits: what does not fit ends the record.
struct Blocks {
    queue: Arc<Queue>,
    to: Sender<Vec<u8>>,
}

impl Sink for Blocks {
    fn now(&self) -> u64 {
        neap_sys::monotonic_nanos()
    }

    fn take(&mut self, payload: Vec<u8>) -> bool {
        let waiting = self.queue.waiting.load(Relaxed);
        if waiting > 0 && waiting + payload.len() > TUNING.report.record_waiting.as_usize() {
            self.queue.overrun.store(true, Relaxed);
            return false;
        }
        self.queue.waiting.fetch_add(payload.len(), Relaxed);
        self.to.send(payload).is_ok()
    }
}

/// A record being written.
pub(crate) struct Recording {
    queue: Arc<Queue>,
    writer: Thread,
}

impl Recording {
    /// Records from now on, if the user wants it. Before anything is asked of the core.
    pub fn start(job: &Arc<Job>) -> Option<Recording> {
        let file = job.options.record.clone()?;
        let queue = Arc::new(Queue::default());
        let (to, from) = channel();
        job.core().start(Box::new(Blocks {
            queue: queue.clone(),
            to,
        }));
        let (shared, its_queue) = (job.clone(), queue.clone());
        let writer = try_spawn("neap-record", move || {
            neap_sys::block_signals();
            if let Err(error) = write(&shared, &file, &its_queue, &from) {
                shared.warn(format!("recording stopped: {error}"));
            }
        });
        match writer {
            Ok(writer) => Some(Recording { queue, writer }),
            Err(error) => {
                job.warn(format!("recording stopped: no thread for it: {error}"));
                None
            }
        }
    }

    /// Writes the rest. No other thread works on the core any more.
    pub fn finish(self, job: &Job) {
        while !self.writer.is_finished()
            && self.queue.waiting.load(Relaxed) > TUNING.report.record_waiting.as_usize()
        {
            std::thread::sleep(TUNING.report.record_look.duration());
        }
        job.core().finish();
        self.writer.join();
    }
}

/// Writes blocks as they come, and the end mark behind the last.
fn write(job: &Job, mut file: &File, queue: &Queue, from: &Receiver<Vec<u8>>) -> io::Result<()> {
    let limit = job.options.limit.0;
    file.write_all(&Header { limit }.encode())?;
    loop {
        match from.recv_timeout(TUNING.report.record_flush.duration()) {
            Ok(payload) => {
                file.write_all(&block(&payload))?;
                queue.waiting.fetch_sub(payload.len(), Relaxed);
            }
            Err(RecvTimeoutError::Timeout) => job.core().flush(),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    if queue.overrun.load(Relaxed) {
        return Err(io::Error::other("the disk is slower than the program"));
    }
    file.write_all(&end_block())
}
