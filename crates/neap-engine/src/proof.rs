//! What a process hands over is what it says: three files of one address space, and that the one of the userfaultfd.
//!
//! The engine puts bytes that nobody guesses into a page of the space, through the userfaultfd, and finds them through the
//! file `mem`: so both are of one space. `pagemap` says that there was nothing before and that there is something
//! now, and `maps` that memory of the process's own is mapped there. The bytes stay. As long as what the process runs
//! has them, it runs in that space: so a process that has become another program by exec is not taken for the old one.

use std::fs::File;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use neap_sys::{Files, Maps, Pagemap, Piece, Process, Remote, Stop, Userfault, View, Wake};
use neap_tuning::TUNING;
use neap_units::PAGE_SIZE;

/// Bytes that were put into one address space, and nowhere else.
#[derive(Clone)]
pub(crate) struct Token {
    address: u64,
    bytes: [u8; TUNING.talk.proof.as_usize()],
}

/// The files of an address space that were proven to be of it.
pub(crate) struct Proven {
    pub files: Files,
    pub token: Token,
}

impl Token {
    /// Whether the process runs in the space now. `None`: we may not look, or it has ended.
    pub fn is_in(&self, process: &Process) -> Option<bool> {
        process.memory().ok().map(|memory| self.is_behind(&memory))
    }

    /// The same of memory that an open file is of.
    pub fn is_behind(&self, memory: &impl FileExt) -> bool {
        let mut found = [0; TUNING.talk.proof.as_usize()];
        let read = memory.read_exact_at(&mut found, self.address);
        read.is_ok() && found == self.bytes
    }

    fn make(address: u64) -> Option<Self> {
        let mut bytes = [0; TUNING.talk.proof.as_usize()];
        neap_sys::random(&mut bytes).ok()?;
        Some(Self { address, bytes })
    }

    /// Of a space that no process runs in.
    pub fn of_nobody() -> Self {
        let bytes = [0; TUNING.talk.proof.as_usize()];
        Self { address: 0, bytes }
    }

    fn put(&self, uffd: &dyn Userfault) -> bool {
        let mut page = [0; PAGE_SIZE];
        page[..TUNING.talk.proof.as_usize()].copy_from_slice(&self.bytes);
        let mut tries = std::iter::repeat_with(|| uffd.copy(self.address, &page, Wake::Now).stop);
        let last = tries
            .by_ref()
            .take(TUNING.talk.proofs)
            .find(|stop| *stop != Some(Stop::Retry));
        last.is_some_and(|stop| stop.is_none())
    }

    fn is_seen_by(&self, view: &dyn View) -> bool {
        let mut found = [0; TUNING.talk.proof.as_usize()];
        let piece = Piece {
            from: self.address,
            to: &mut found,
        };
        view.read(&mut [piece]).is_ok() && found == self.bytes
    }
}

/// Proves that `files` (mem, pagemap, maps) are of the space of `uffd`, in which `page` is registered and empty, and that
/// the process runs in it, as far as we may look.
pub(crate) fn prove(
    uffd: &dyn Userfault,
    process: &Process,
    files: [OwnedFd; 3],
    page: &Range<u64>,
) -> Option<Proven> {
    let names = ["mem", "pagemap", "maps"];
    let mut kinds = files.iter().zip(names);
    if !kinds.all(|(file, name)| neap_sys::is_proc_file(file, name)) {
        return None;
    }
    let [mem, pagemap, maps] = files.map(File::from);
    let proven = Proven {
        files: Files {
            remote: Remote::new(mem),
            pagemap: Pagemap::adopt(pagemap),
            maps: Maps::adopt(maps),
        },
        token: Token::make(page.start)?,
    };
    let held_nothing = !proven.files.holds(page.start).ok()?;
    let put = held_nothing && proven.token.put(uffd);
    let one =
        put && proven.token.is_seen_by(&proven.files) && proven.files.holds(page.start).ok()?;
    let mapping = proven.files.at(page.start).ok()??;
    let its_own = mapping.anonymous && !mapping.shared && mapping.range.end >= page.end;
    let runs_in_it = proven.token.is_in(process) != Some(false);
    (one && its_own && runs_in_it).then_some(proven)
}
