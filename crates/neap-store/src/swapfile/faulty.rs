//! A swap file that goes wrong on demand.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{BLOCK, BlockFile, MemFile};

/// What goes wrong with a [`FaultyFile`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// The write fails: the disk is full (ENOSPC).
    NoSpace,
    /// The transfer fails (EIO).
    Io,
    /// A write claims success and does nothing: what was there before stays.
    LostWrite,
    /// One byte of what is read or written is changed.
    Corrupt,
}

/// A file on the heap that misbehaves on demand.
///
/// A schedule decides for each request, in order, whether it goes wrong and how.
pub(crate) struct FaultyFile {
    inner: MemFile,
    count: AtomicU64,
    schedule: Box<dyn Fn(u64, Direction) -> Option<Fault> + Send + Sync>,
}

/// Which way a request goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Direction {
    /// From the file.
    Read,
    /// To the file.
    Write,
}

impl FaultyFile {
    /// A file whose `n`th call (counted from 0 over reads and writes) meets `schedule(n, ..)`.
    pub fn new(schedule: impl Fn(u64, Direction) -> Option<Fault> + Send + Sync + 'static) -> Self {
        Self {
            inner: MemFile::new(),
            count: AtomicU64::new(0),
            schedule: Box::new(schedule),
        }
    }

    fn next(&self, direction: Direction) -> (u64, Option<Fault>) {
        let n = self.count.fetch_add(1, Ordering::Relaxed);
        (n, (self.schedule)(n, direction))
    }
}

impl std::fmt::Debug for FaultyFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FaultyFile")
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}

/// errno values of Linux; this crate has no system call layer to take them from.
const ENOSPC: i32 = 28;
const EIO: i32 = 5;

fn refusal(fault: Fault) -> Option<io::Error> {
    match fault {
        Fault::NoSpace => Some(io::Error::from_raw_os_error(ENOSPC)),
        Fault::Io => Some(io::Error::from_raw_os_error(EIO)),
        Fault::LostWrite | Fault::Corrupt => None,
    }
}

impl BlockFile for FaultyFile {
    fn read_many(&self, requests: &mut [(u64, &mut [u8])]) -> io::Result<()> {
        let (n, fault) = self.next(Direction::Read);
        if let Some(error) = fault.and_then(refusal) {
            return Err(error);
        }
        self.inner.read_many(requests)?;
        if fault == Some(Fault::Corrupt) {
            for (_, buffer) in requests {
                // Every 32 bytes, so that each record is hit.
                buffer
                    .iter_mut()
                    .step_by(32)
                    .for_each(|byte| *byte ^= n as u8 | 1);
            }
        }
        Ok(())
    }

    fn write_many(&self, requests: &[(u64, &[u8])]) -> io::Result<()> {
        let (_, fault) = self.next(Direction::Write);
        match fault {
            Some(Fault::LostWrite) => {
                // The file still grows, as it does when a later write arrives.
                let end = requests
                    .iter()
                    .map(|(o, b)| o + b.len() as u64)
                    .max()
                    .unwrap_or(0);
                let mut bytes = self.inner.bytes();
                let len = bytes.len().max(end as usize);
                bytes.resize(len, 0);
                Ok(())
            }
            Some(Fault::Corrupt) => {
                let spoilt: Vec<(u64, Vec<u8>)> = requests
                    .iter()
                    .map(|(offset, data)| {
                        let mut data = data.to_vec();
                        data.iter_mut().step_by(32).for_each(|byte| *byte ^= 0x40);
                        (*offset, data)
                    })
                    .collect();
                let spoilt: Vec<(u64, &[u8])> = spoilt
                    .iter()
                    .map(|(offset, data)| (*offset, data.as_slice()))
                    .collect();
                self.inner.write_many(&spoilt)
            }
            Some(fault) => {
                // A failed write leaves some of the range changed.
                if let Some((offset, data)) = requests.first() {
                    let half = data.len() / 2 / BLOCK * BLOCK;
                    self.inner.write_many(&[(*offset, &data[..half])])?;
                }
                Err(refusal(fault).unwrap_or_else(|| io::ErrorKind::Other.into()))
            }
            None => self.inner.write_many(requests),
        }
    }

    fn punch(&self, range: Range<u64>) -> io::Result<()> {
        self.inner.punch(range)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.inner.set_len(len)
    }
}
