//! What is seen of an imagined address space from outside.

use std::ops::Range;

use neap_sys::{Found, Mapping, Piece, Result, SysError, View, Word};

use crate::PAGE;
use crate::areas::Area;
use crate::errno::{EIO, ESRCH};
use crate::machine::{Call, Core, Machine, SpaceNr};
use crate::pages::{Bytes, Pte};

/// The files that a process hands over: mem, pagemap, maps.
#[derive(Clone, Debug)]
pub struct ImaginedView {
    machine: Machine,
    space: SpaceNr,
}

impl ImaginedView {
    pub(crate) fn new(machine: Machine, space: SpaceNr) -> Self {
        Self { machine, space }
    }

    fn mappings(&self, place: &Range<u64>) -> Vec<Mapping> {
        let areas = self.machine.core().mm(self.space).areas.within(place);
        areas.into_iter().map(mapping).collect()
    }
}

fn mapping((start, area): (u64, Area)) -> Mapping {
    Mapping {
        range: start..area.end,
        read: area.prot.read,
        write: area.prot.write,
        exec: false,
        shared: false,
        anonymous: true,
        special: false,
    }
}

impl Core {
    /// Reads a page as a stranger does, whatever its protection. It does not wait for one that is absent and
    /// registered; where it is absent and not, the page of zeros comes.
    fn peek(&mut self, nr: SpaceNr, page: u64) -> Option<Bytes> {
        let mm = &mut self.mms[nr.0];
        let (_, area) = mm.areas.at(page * PAGE)?;
        match mm.ptes.get(&page) {
            Some(Pte::Frame { frame, .. }) => Some(*self.frames.bytes(*frame)),
            Some(Pte::Zero { .. }) => Some([0; PAGE as usize]),
            Some(Pte::Guard | Pte::Poison) => None,
            None if area.traps_absent() => None,
            None => {
                mm.ptes.insert(page, Pte::Zero { protected: false });
                Some([0; PAGE as usize])
            }
        }
    }
}

impl View for ImaginedView {
    fn read(&self, pieces: &mut [Piece<'_>]) -> Result<()> {
        self.machine.enter(Call::Look);
        let mut core = self.machine.core();
        for piece in pieces {
            let mut at = piece.from;
            let mut to = &mut *piece.to;
            while !to.is_empty() {
                let from = (at % PAGE) as usize;
                let some = (PAGE as usize - from).min(to.len());
                let bytes = core
                    .peek(self.space, at / PAGE)
                    .ok_or_else(|| SysError::of("read", EIO))?;
                let (now, rest) = to.split_at_mut(some);
                now.copy_from_slice(&bytes[from..from + some]);
                at += some as u64;
                to = rest;
            }
        }
        Ok(())
    }

    fn present(&self, range: Range<u64>, each: &mut dyn FnMut(Range<u64>, Found)) -> Result<()> {
        self.machine.enter(Call::Look);
        let mut runs: Vec<(Range<u64>, Found)> = Vec::new();
        {
            let mut core = self.machine.core();
            let pages = range.start / PAGE..range.end / PAGE;
            for (&page, pte) in core.mm(self.space).ptes.range(pages) {
                let found = match pte {
                    Pte::Frame { .. } => Found::Pages,
                    Pte::Zero { .. } => Found::Zeros,
                    Pte::Guard | Pte::Poison => continue,
                };
                let at = page * PAGE;
                match runs.last_mut() {
                    Some((run, of)) if run.end == at && *of == found => run.end += PAGE,
                    _ => runs.push((at..at + PAGE, found)),
                }
            }
        }
        runs.into_iter().for_each(|(run, found)| each(run, found));
        Ok(())
    }

    fn words(&self, address: u64, words: &mut [Word]) -> Result<()> {
        self.machine.enter(Call::Look);
        let mut core = self.machine.core();
        let mm = core.mm(self.space);
        if !mm.alive {
            return Err(SysError::of("read", ESRCH));
        }
        for (page, word) in (address / PAGE..).zip(words) {
            let pte = core.mm(self.space).ptes.get(&page).copied();
            *word = match pte {
                None => Word::default(),
                Some(pte) if pte.is_protected() => Word::PROTECTED,
                Some(Pte::Guard | Pte::Poison) => Word::GUARD,
                Some(Pte::Frame { frame, .. }) if core.frames.users(frame) == 1 => Word::ALONE,
                Some(_) => Word::PAGE,
            };
        }
        Ok(())
    }

    fn has_scan(&self) -> bool {
        true
    }

    fn survey(
        &self,
        place: Range<u64>,
        known: &mut dyn FnMut(u64) -> Option<u64>,
    ) -> Result<Vec<Mapping>> {
        self.machine.enter(Call::Look);
        let (mut found, mut at) = (Vec::new(), place.start);
        for mapping in self.mappings(&place) {
            at = at.max(mapping.range.start);
            while at < mapping.range.end
                && let Some(end) = known(at).filter(|&end| end > at)
            {
                at = end;
            }
            if at < mapping.range.end {
                at = mapping.range.end;
                found.push(mapping);
            }
        }
        Ok(found)
    }

    fn extents(&self, place: Range<u64>) -> Result<Vec<Range<u64>>> {
        self.machine.enter(Call::Look);
        let found = self.mappings(&place);
        Ok(found.into_iter().map(|mapping| mapping.range).collect())
    }

    fn count(&self, address: u64, most: usize) -> Result<(usize, Option<u64>)> {
        self.machine.enter(Call::Look);
        let all = self.mappings(&(address..u64::MAX));
        let last = all.get(most.wrapping_sub(1)).filter(|_| all.len() > most);
        Ok((all.len().min(most), last.map(|last| last.range.end)))
    }

    fn from(&self, address: u64) -> Result<Option<Mapping>> {
        self.machine.enter(Call::Look);
        Ok(self.mappings(&(address..u64::MAX)).into_iter().next())
    }

    fn has_query(&self) -> bool {
        true
    }
}
