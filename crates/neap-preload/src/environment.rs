//! The environment the program was started with, as the kernel keeps it.
//!
//! glibc hands its constructors the environment, musl does not; the kernel's copy is there for both.

use crate::sys;

const CHUNK: usize = 512;

/// Writes the value of `key` to `value`; returns its length, 0 if there is none or it does not fit.
pub fn find(key: &[u8], value: &mut [u8]) -> usize {
    let Some(file) = sys::open(b"/proc/self/environ\0", 0) else {
        return 0;
    };
    let mut search = Search::new(key);
    let mut chunk = [0u8; CHUNK];
    loop {
        let got = sys::read(file, &mut chunk);
        if got == 0 || !search.feed(&chunk[..got], value) {
            break;
        }
    }
    sys::close(file);
    search.found()
}

/// Looks through `KEY=value` strings, each ended by a zero, that come in pieces.
struct Search<'a> {
    key: &'a [u8],
    /// Place in the string at hand; `None`: it is another variable.
    at: Option<usize>,
    done: bool,
    fits: bool,
}

impl<'a> Search<'a> {
    const fn new(key: &'a [u8]) -> Self {
        Self {
            key,
            at: Some(0),
            done: false,
            fits: true,
        }
    }

    /// False once the value is complete.
    fn feed(&mut self, piece: &[u8], value: &mut [u8]) -> bool {
        for &byte in piece {
            let name = self.key.len();
            match (byte, self.at) {
                (0, Some(at)) if at > name => {
                    self.done = true;
                    return false;
                }
                (0, _) => self.at = Some(0),
                (_, None) => {}
                (_, Some(at)) if at < name => self.at = (byte == self.key[at]).then_some(at + 1),
                (_, Some(at)) if at == name => self.at = (byte == b'=').then_some(at + 1),
                (_, Some(at)) => {
                    match value.get_mut(at - name - 1) {
                        Some(place) => *place = byte,
                        None => self.fits = false,
                    }
                    self.at = Some(at + 1);
                }
            }
        }
        true
    }

    fn found(&self) -> usize {
        match self.at {
            Some(at) if self.done && self.fits => at - self.key.len() - 1,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(text: &[u8], piece: usize) -> Vec<u8> {
        let mut value = [0u8; 8];
        let mut search = Search::new(b"NEAP");
        for part in text.chunks(piece) {
            if !search.feed(part, &mut value) {
                break;
            }
        }
        value[..search.found()].to_vec()
    }

    #[test]
    fn the_variable_is_found_in_pieces_of_any_size() {
        let text = b"A=1\0XNEAP=no\0NEAPX=no\0NEAP=yes\0B=\0";
        for piece in 1..text.len() {
            assert_eq!(search(text, piece), b"yes", "pieces of {piece}");
        }
    }

    #[test]
    fn nothing_is_found_where_nothing_is() {
        for text in [
            &b""[..],
            b"NEAP",
            b"NEA=x\0",
            b"NEAP=\0",
            b"NEAP=much too long\0",
        ] {
            assert_eq!(search(text, 3), b"");
        }
    }
}
