//! A swap file on the heap, of which some transfers fail.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use neap_imagined::Chance;
use neap_store::{BlockFile, MemFile};

pub(super) struct Disk {
    file: MemFile,
    errs: u32,
    chance: Mutex<Chance>,
    /// Some transfer has failed.
    has_erred: Arc<AtomicBool>,
}

impl Disk {
    pub fn new(errs: u32, has_erred: Arc<AtomicBool>) -> Self {
        Self {
            file: MemFile::new(),
            errs,
            chance: Mutex::new(Chance::new(1)),
            has_erred,
        }
    }

    fn try_it(&self) -> io::Result<()> {
        let mut chance = self.chance.lock().expect("chance");
        if chance.happens(self.errs) {
            self.has_erred.store(true, Relaxed);
            return Err(io::Error::from_raw_os_error(5)); // EIO
        }
        Ok(())
    }
}

impl BlockFile for Disk {
    fn read_many(&self, requests: &mut [(u64, &mut [u8])]) -> io::Result<()> {
        super::scene::at_io();
        self.try_it()?;
        self.file.read_many(requests)
    }

    fn write_many(&self, requests: &[(u64, &[u8])]) -> io::Result<()> {
        super::scene::at_io();
        self.try_it()?;
        self.file.write_many(requests)
    }

    fn punch(&self, range: Range<u64>) -> io::Result<()> {
        self.file.punch(range)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }
}
