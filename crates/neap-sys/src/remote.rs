//! Reading the memory of another address space, through a `/proc/self/mem` that one of its processes opened.
//!
//! Such a file belongs to the address space and not to the process: an exec or another process of the same number changes
//! nothing, and once the address space is gone nothing can be read. Nor does it ask for any right of the reader.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::errno::{Result, SysError};

/// One run of foreign memory and where it goes.
#[derive(Debug)]
pub struct Piece<'a> {
    /// Foreign address, in bytes.
    pub from: u64,
    /// Filled whole.
    pub to: &'a mut [u8],
}

/// A way to read one address space.
#[derive(Debug)]
pub struct Remote(File);

impl Remote {
    /// `mem` is the `/proc/self/mem` that a process opened.
    pub fn new(mem: File) -> Self {
        Self(mem)
    }

    /// Reads every piece whole, or fails: where nothing is mapped, and at a page that is absent and registered.
    pub fn read(&self, pieces: &mut [Piece<'_>]) -> Result<()> {
        for piece in pieces {
            self.0
                .read_exact_at(piece.to, piece.from)
                .map_err(|error| SysError::new("read", "/proc/PID/mem", error))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_is_read_whole_or_the_call_fails() {
        let data: Vec<u8> = (0..20_000u32).map(|i| i as u8).collect();
        let remote = Remote::new(File::open("/proc/self/mem").expect("mem"));
        let (mut one, mut two) = (vec![0; 5000], vec![0; 7000]);
        let base = data.as_ptr() as u64;
        let mut pieces = [
            Piece {
                from: base,
                to: &mut one,
            },
            Piece {
                from: base + 9000,
                to: &mut two,
            },
        ];
        remote.read(&mut pieces).expect("read");
        assert_eq!(one, data[..5000]);
        assert_eq!(two, data[9000..16_000]);
        let nothing = Piece {
            from: 0,
            to: &mut [0; 8],
        };
        assert!(remote.read(&mut [nothing]).is_err());
    }
}
