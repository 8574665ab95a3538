//! What one operation needs for itself: a ring, and memory the disk may reach directly.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use neap_tuning::TUNING;

use super::plain;
use super::ring::{Ring, Transfer};
use crate::arena::Arena;

#[derive(Debug, Default)]
pub(super) struct Lane {
    ring: Option<Ring>,
    bounce: Option<Arena>,
}

/// Part of a request: which, from where in it, how much.
struct Part {
    request: usize,
    skip: usize,
    len: usize,
}

impl Lane {
    pub(super) fn read_many(
        &mut self,
        file: &File,
        requests: &mut [(u64, &mut [u8])],
        direct: bool,
        rings: &AtomicBool,
    ) -> io::Result<()> {
        if !direct {
            let work: Vec<Transfer> = requests
                .iter_mut()
                .map(|(offset, buffer)| Transfer {
                    offset: *offset,
                    addr: buffer.as_mut_ptr(),
                    len: buffer.len(),
                    write: false,
                })
                .collect();
            // SAFETY: `requests` borrows all buffers exclusively during the call.
            return unsafe { self.transfer(file, &work, rings) };
        }
        let lengths: Vec<usize> = requests.iter().map(|(_, b)| b.len()).collect();
        for batch in batches(&lengths) {
            let mut bounce = self.take_bounce()?;
            let base = bounce.bytes_mut().as_mut_ptr();
            let work = placed(&batch, base, false, |i| requests[i].0);
            // SAFETY: the parts lie one after another within the lane's own memory.
            let result = unsafe { self.transfer(file, &work, rings) };
            let mut at = 0;
            if result.is_ok() {
                for part in &batch {
                    let target = &mut requests[part.request].1[part.skip..part.skip + part.len];
                    target.copy_from_slice(&bounce.bytes()[at..at + part.len]);
                    at += part.len;
                }
            }
            self.bounce = Some(bounce);
            result?;
        }
        Ok(())
    }

    pub(super) fn write_many(
        &mut self,
        file: &File,
        requests: &[(u64, &[u8])],
        direct: bool,
        rings: &AtomicBool,
    ) -> io::Result<()> {
        if !direct {
            let work: Vec<Transfer> = requests
                .iter()
                .map(|(offset, bytes)| Transfer {
                    offset: *offset,
                    addr: bytes.as_ptr().cast_mut(),
                    len: bytes.len(),
                    write: true,
                })
                .collect();
            // SAFETY: `requests` borrows all bytes during the call; writes only read them.
            return unsafe { self.transfer(file, &work, rings) };
        }
        let lengths: Vec<usize> = requests.iter().map(|(_, b)| b.len()).collect();
        for batch in batches(&lengths) {
            let mut bounce = self.take_bounce()?;
            let mut at = 0;
            for part in &batch {
                let source = &requests[part.request].1[part.skip..part.skip + part.len];
                bounce.bytes_mut()[at..at + part.len].copy_from_slice(source);
                at += part.len;
            }
            let base = bounce.bytes_mut().as_mut_ptr();
            let work = placed(&batch, base, true, |i| requests[i].0);
            // SAFETY: the parts lie one after another within the lane's own memory.
            let result = unsafe { self.transfer(file, &work, rings) };
            self.bounce = Some(bounce);
            result?;
        }
        Ok(())
    }

    fn take_bounce(&mut self) -> io::Result<Arena> {
        match self.bounce.take() {
            Some(bounce) => Ok(bounce),
            None => Arena::new(TUNING.swap.extent.as_usize())
                .map_err(|e| io::Error::other(e.to_string())),
        }
    }

    /// Carries out all of `work`: the whole of each transfer, or an error.
    ///
    /// # Safety
    /// As [`Ring::run`].
    unsafe fn transfer(
        &mut self,
        file: &File,
        work: &[Transfer],
        rings: &AtomicBool,
    ) -> io::Result<()> {
        for chunk in work.chunks(TUNING.swap.requests) {
            // SAFETY: passed on from the caller.
            let done = unsafe { self.in_ring(file, chunk, rings) };
            for (transfer, done) in chunk.iter().zip(done) {
                // SAFETY: `done` is at most `len`, and the memory is the caller's, unused by the
                // kernel by now.
                unsafe { finish(file, transfer, done)? };
            }
        }
        Ok(())
    }

    /// Bytes done of each transfer; zero where the plain call must do it, which is also how an
    /// errno is reported: the plain call meets it again, or the disk has recovered.
    ///
    /// # Safety
    /// As [`Ring::run`].
    unsafe fn in_ring(&mut self, file: &File, work: &[Transfer], rings: &AtomicBool) -> Vec<usize> {
        let nothing = vec![0; work.len()];
        if work.len() < 2 || !rings.load(Ordering::Relaxed) {
            return nothing;
        }
        if self.ring.is_none() {
            self.ring = Ring::new();
        }
        let Some(ring) = &mut self.ring else {
            rings.store(false, Ordering::Relaxed);
            return nothing;
        };
        // SAFETY: passed on from the caller.
        match unsafe { ring.run(file, work) } {
            Ok(outcomes) => outcomes
                .into_iter()
                .zip(work)
                .map(|(outcome, transfer)| outcome.unwrap_or(0).min(transfer.len))
                .collect(),
            Err(_) => {
                self.ring = None;
                rings.store(false, Ordering::Relaxed);
                nothing
            }
        }
    }
}

/// Does what is left of a transfer with plain calls.
///
/// # Safety
/// The transfer's memory is valid for its length and borrowed as [`Ring::run`] asks.
unsafe fn finish(file: &File, transfer: &Transfer, done: usize) -> io::Result<()> {
    // A short transfer may end inside a block; direct I/O needs whole ones.
    let done = done - done % super::BLOCK;
    let left = transfer.len - done;
    if left == 0 {
        return Ok(());
    }
    let offset = transfer.offset + done as u64;
    if transfer.write {
        // SAFETY: within the transfer's memory, which nobody writes meanwhile.
        let bytes = unsafe { std::slice::from_raw_parts(transfer.addr.add(done), left) };
        plain::write_all(file, offset, bytes)
    } else {
        // SAFETY: within the transfer's memory, exclusively the caller's.
        let buffer = unsafe { std::slice::from_raw_parts_mut(transfer.addr.add(done), left) };
        plain::read_all(file, offset, buffer)
    }
}

/// Cuts requests of these lengths into batches that each fit the aligned memory.
fn batches(lengths: &[usize]) -> Vec<Vec<Part>> {
    let mut all = Vec::new();
    let mut batch = Vec::new();
    let mut room = TUNING.swap.extent.as_usize();
    for (request, &length) in lengths.iter().enumerate() {
        let mut skip = 0;
        while skip < length {
            if room == 0 {
                all.push(std::mem::take(&mut batch));
                room = TUNING.swap.extent.as_usize();
            }
            let len = room.min(length - skip);
            batch.push(Part { request, skip, len });
            skip += len;
            room -= len;
        }
    }
    if !batch.is_empty() {
        all.push(batch);
    }
    all
}

/// The transfers of a batch whose parts lie one after another from `base`.
fn placed(
    batch: &[Part],
    base: *mut u8,
    write: bool,
    offset_of: impl Fn(usize) -> u64,
) -> Vec<Transfer> {
    let mut at = 0;
    batch
        .iter()
        .map(|part| {
            let transfer = Transfer {
                offset: offset_of(part.request) + part.skip as u64,
                addr: base.wrapping_add(at),
                len: part.len,
                write,
            };
            at += part.len;
            transfer
        })
        .collect()
}
