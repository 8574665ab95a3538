//! What the store asks of a swap file, with bodies that need no disk.

use std::io;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard};

/// A file of whole blocks of 4096 bytes: all offsets and lengths are multiples of that.
///
/// Reads of what was written and not punched since give the bytes written, or fail. A failed write
/// leaves any of its ranges undefined. The store checks what it reads, so a body may also lie.
pub trait BlockFile: Send + Sync {
    /// Fills every buffer from its offset, or fails as a whole.
    fn read_many(&self, requests: &mut [(u64, &mut [u8])]) -> io::Result<()>;

    /// Writes all bytes at their offsets, or fails as a whole. The file grows as needed.
    fn write_many(&self, requests: &[(u64, &[u8])]) -> io::Result<()>;

    /// Gives the disk space of a range of bytes back. May be refused; nothing depends on it.
    fn punch(&self, range: Range<u64>) -> io::Result<()>;

    /// Sets the length in bytes.
    fn set_len(&self, len: u64) -> io::Result<()>;
}

/// No swap file: everything is refused.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFile;

impl BlockFile for NoFile {
    fn read_many(&self, _: &mut [(u64, &mut [u8])]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn write_many(&self, _: &[(u64, &[u8])]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn punch(&self, _: Range<u64>) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// A swap file on the heap.
#[derive(Debug, Default)]
pub struct MemFile(Mutex<Vec<u8>>);

impl MemFile {
    /// An empty file.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    pub(super) fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().expect("a file on the heap")
    }
}

impl BlockFile for MemFile {
    fn read_many(&self, requests: &mut [(u64, &mut [u8])]) -> io::Result<()> {
        let bytes = self.bytes();
        for (offset, buffer) in requests {
            let start = *offset as usize;
            let source = bytes
                .get(start..start + buffer.len())
                .ok_or(io::ErrorKind::UnexpectedEof)?;
            buffer.copy_from_slice(source);
        }
        Ok(())
    }

    fn write_many(&self, requests: &[(u64, &[u8])]) -> io::Result<()> {
        let mut bytes = self.bytes();
        for (offset, data) in requests {
            let start = *offset as usize;
            if bytes.len() < start + data.len() {
                bytes.resize(start + data.len(), 0);
            }
            bytes[start..start + data.len()].copy_from_slice(data);
        }
        Ok(())
    }

    fn punch(&self, range: Range<u64>) -> io::Result<()> {
        let mut bytes = self.bytes();
        let end = (range.end as usize).min(bytes.len());
        if let Some(hole) = bytes.get_mut(range.start as usize..end) {
            hole.fill(0);
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.bytes().resize(len as usize, 0);
        Ok(())
    }
}
