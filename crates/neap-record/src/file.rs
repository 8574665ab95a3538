//! The bytes of a record.
//!
//! | part | bytes |
//! | --- | --- |
//! | magic | `NEAPREC` and the version |
//! | header | varint: the limit in bytes |
//! | blocks | length, CRC-32C of the calls, CRC-32C of these two (4 bytes each, little endian); then calls with their answers |
//! | end | 12 bytes of ones where a block would begin: nothing is missing |
//!
//! Each block can be read by itself. A file that ends early is read up to the last whole call; a
//! block whose checksum is wrong ends it. A reader takes any bytes and never panics.

use std::io::{self, Read};

use thiserror::Error;

use crate::call::{Answer, Call};
use crate::code::Coder;
use crate::varint::{self, Fault};

/// The first bytes of every record.
pub const MAGIC: &[u8; 7] = b"NEAPREC";
/// The version that is written. Version 2 has no deciders beside the core, and is the same but for that.
pub const VERSION: u8 = 3;
/// The oldest version that is read.
pub const OLDEST: u8 = 2;
/// No writer makes a longer block.
const LONGEST: u32 = 1 << 30;
/// Length and checksums of a block.
const HEAD: usize = 12;

/// Why a file is not a record.
#[derive(Debug, Error)]
pub enum RecordFault {
    /// The first bytes are others.
    #[error("not a record of neap run")]
    Magic,
    /// Made by another version.
    #[error("record version {0} is not known: this program reads versions {OLDEST} to {VERSION}")]
    Version(u8),
    /// It ends within the header.
    #[error("nothing was recorded")]
    Empty,
    /// It cannot be read.
    #[error(transparent)]
    Read(#[from] io::Error),
}

/// Where a record ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// At its end mark.
    Whole,
    /// At this byte, without an end mark: the program was killed, or the disk was full.
    Cut(u64),
    /// In the block at this byte, whose bytes were changed.
    Damaged(u64),
    /// The file could not be read further.
    Unreadable(io::ErrorKind),
}

/// What is known of the run before it starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Header {
    /// The limit in bytes.
    pub limit: u64,
}

impl Header {
    /// The first bytes of a file.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.push(VERSION);
        varint::push(&mut bytes, self.limit);
        bytes
    }

    fn read(input: &mut impl Read) -> Result<(Header, u64), RecordFault> {
        let mut first = Vec::new();
        input.by_ref().take(8).read_to_end(&mut first)?;
        if !MAGIC.starts_with(&first[..first.len().min(7)]) {
            return Err(RecordFault::Magic);
        }
        match first.get(7) {
            None => return Err(RecordFault::Empty),
            Some(OLDEST..=VERSION) => {}
            Some(&other) => return Err(RecordFault::Version(other)),
        }
        let mut number = Vec::new();
        loop {
            let before = number.len();
            input.by_ref().take(1).read_to_end(&mut number)?;
            if number.len() == before {
                return Err(RecordFault::Empty);
            }
            match varint::pull(&number, &mut 0) {
                Ok(limit) => return Ok((Header { limit }, 8 + number.len() as u64)),
                Err(Fault::Short) => {}
                Err(Fault::Malformed) => return Err(RecordFault::Magic),
            }
        }
    }
}

/// A block with its head, from what a [`Sink`](crate::Sink) was given.
#[must_use]
pub fn block(payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD + payload.len());
    bytes.extend((payload.len() as u32).to_le_bytes());
    bytes.extend(crc32c::crc32c(payload).to_le_bytes());
    bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// What a [`Sink`](crate::Sink) is given of these calls.
#[must_use]
pub fn payload(calls: &[(Call, Answer)]) -> Vec<u8> {
    let (mut coder, mut bytes) = (Coder::default(), Vec::new());
    for (call, answer) in calls {
        coder.write(&mut bytes, call, answer);
    }
    bytes
}

/// The mark behind the last block.
#[must_use]
pub fn end_block() -> [u8; HEAD] {
    [u8::MAX; HEAD]
}

/// Reads a record call by call, one block in memory at a time.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    header: Header,
    coder: Coder,
    payload: Vec<u8>,
    at: usize,
    /// Where the block begins in the file.
    start: u64,
    /// Where the next one begins.
    next: u64,
    /// The file ends within this block.
    partial: bool,
    end: Option<End>,
}

impl<R: Read> Reader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// When the input is no record of a version that is read, or cannot be read.
    pub fn open(mut input: R) -> Result<Reader<R>, RecordFault> {
        let (header, next) = Header::read(&mut input)?;
        Ok(Reader {
            input,
            header,
            coder: Coder::default(),
            payload: Vec::new(),
            at: 0,
            start: next,
            next,
            partial: false,
            end: None,
        })
    }

    /// What the header says.
    #[must_use]
    pub fn header(&self) -> Header {
        self.header
    }

    /// Where it ended; `None` before the last call was read.
    #[must_use]
    pub fn end(&self) -> Option<End> {
        self.end
    }

    /// Bytes read so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.next
    }

    /// Takes in the next block, or says where the record ends.
    fn load(&mut self) -> Result<(), End> {
        self.start = self.next;
        let unread = |error: io::Error| End::Unreadable(error.kind());
        let mut head = Vec::with_capacity(HEAD);
        let taken = self.input.by_ref().take(HEAD as u64).read_to_end(&mut head);
        self.next += taken.map_err(unread)? as u64;
        let Ok(head) = <[u8; HEAD]>::try_from(head) else {
            return Err(End::Cut(self.next));
        };
        if head == end_block() {
            return Err(End::Whole);
        }
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| head[at + byte]));
        let (length, sum) = (word(0), word(4));
        if crc32c::crc32c(&head[..8]) != word(8) || length > LONGEST {
            return Err(End::Damaged(self.start));
        }
        self.payload.clear();
        let mut rest = self.input.by_ref().take(u64::from(length));
        let taken = rest.read_to_end(&mut self.payload).map_err(unread)?;
        self.next += taken as u64;
        self.partial = taken < length as usize;
        if !self.partial && crc32c::crc32c(&self.payload) != sum {
            return Err(End::Damaged(self.start));
        }
        self.at = 0;
        self.coder = Coder::default();
        Ok(())
    }

    fn step(&mut self) -> Result<(Call, Answer), End> {
        while self.at == self.payload.len() {
            if self.partial {
                return Err(End::Cut(self.next));
            }
            self.load()?;
        }
        self.coder
            .read(&self.payload, &mut self.at)
            .map_err(|fault| match fault {
                Fault::Short if self.partial => End::Cut(self.next),
                _ => End::Damaged(self.start),
            })
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = (Call, Answer);

    fn next(&mut self) -> Option<(Call, Answer)> {
        if self.end.is_some() {
            return None;
        }
        match self.step() {
            Ok(item) => Some(item),
            Err(end) => {
                self.end = Some(end);
                None
            }
        }
    }
}
