//! From isolated folios to free pages (SPEC 3.2, 3.7 step 5; kernel: shrink_folio_list).

use super::{Host, Pageout, Reclaim};
use crate::folio::{Flags, FolioId, Kind};
use crate::lru::Mm;
use crate::switches::Lru;

/// What a batch came to, in pages.
#[derive(Clone, Copy, Default)]
pub(super) struct Batch {
    pub(super) freed: u64,
    pub(super) written: u64,
}

/// What the references of a folio call for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Reclaim,
    /// Only if it need not be written.
    ReclaimClean,
    Keep,
    Activate,
}

impl Reclaim {
    /// Tries folios one by one. Those that stay are left in `batch`, in the same order.
    pub(super) fn shrink_folios(
        &mut self,
        batch: &mut Vec<FolioId>,
        judge: bool,
        mm: &mut Mm,
        host: &mut dyn Host,
    ) -> Batch {
        let mut done = Batch::default();
        let mut kept = 0;
        let mut at = 0;
        while at < batch.len() {
            let id = batch[at];
            at += 1;
            let pages = mm.folios.pages(id);
            let outcome = self.try_folio(id, judge, mm, host);
            match outcome {
                Pageout::Freed { wrote } => {
                    done.freed += pages;
                    done.written += if wrote { pages } else { 0 };
                    continue;
                }
                Pageout::Split => {
                    host.take_parts(batch);
                    continue;
                }
                Pageout::Writing => done.written += pages,
                Pageout::Activate => activate(id, pages, mm),
                Pageout::Keep => {}
            }
            batch[kept] = id;
            kept += 1;
        }
        batch.truncate(kept);
        done
    }

    fn try_folio(&mut self, id: FolioId, judge: bool, mm: &mut Mm, host: &mut dyn Host) -> Pageout {
        let flags = mm.folios.flags(id);
        if flags.has(Flags::LOCKED) {
            return Pageout::Keep;
        }
        if flags.has(Flags::WRITEBACK) {
            // It is wanted when the write ends; until then it is out of the way.
            mm.folios.flags_mut(id).set(Flags::RECLAIM, true);
            return Pageout::Activate;
        }
        // A look at the neighbourhood of another folio found this one accessed, after it was
        // isolated. Since the rework that is forgotten.
        if judge && mm.switches.lru == Lru::Mglru63 && flags.has(Flags::REFERENCED) {
            return Pageout::Keep;
        }
        let verdict = if judge {
            self.judge(id, mm, host)
        } else {
            Verdict::Reclaim
        };
        match verdict {
            Verdict::Activate => return Pageout::Activate,
            Verdict::Keep => return Pageout::Keep,
            _ => {}
        }
        let flags = mm.folios.flags_mut(id);
        if Kind::of(*flags) == Kind::File && flags.has(Flags::DIRTY) {
            // Flushers write file pages, reclaim does not.
            flags.set(Flags::RECLAIM, true);
            host.flush(mm, id);
            return Pageout::Activate;
        }
        if verdict == Verdict::ReclaimClean && flags.has(Flags::DIRTY) {
            return Pageout::Keep;
        }
        let target = mm.lruvec_of(self.request.target, mm.node_of(mm.folios.lruvec(id)));
        host.pageout(mm, id, target)
    }

    /// Looks at the references (kernel: folio_check_references).
    fn judge(&mut self, id: FolioId, mm: &mut Mm, host: &mut dyn Host) -> Verdict {
        let target = self.request.target;
        if mm.switches.lru == Lru::Mglru614 {
            let found = host.referenced(mm, id, target);
            if found.ptes == 0 {
                return Verdict::Reclaim;
            }
            let flags = mm.folios.flags_mut(id);
            let again = flags.any(Flags::REFERENCED.with(Flags::WORKINGSET));
            flags.set_refs(0);
            flags.set(Flags::REFERENCED, !again);
            flags.set(Flags::WORKINGSET, again);
            return if again {
                Verdict::Activate
            } else {
                Verdict::Keep
            };
        }
        // Before the rework, the neighbourhood scan marks the folio that it was called for,
        // too, which makes any access enough.
        let marked = mm.folios.flags(id).has(Flags::REFERENCED) || mm.generational();
        let found = host.referenced(mm, id, target);
        let flags = mm.folios.flags_mut(id);
        let file = Kind::of(*flags) == Kind::File;
        flags.set(Flags::REFERENCED, found.ptes > 0);
        match found.ptes {
            0 if marked && file && !mm.generational() => Verdict::ReclaimClean,
            0 => Verdict::Reclaim,
            1 if marked || found.exec && file => Verdict::Activate,
            1 => Verdict::Keep,
            _ => Verdict::Activate,
        }
    }
}

fn activate(id: FolioId, pages: u64, mm: &mut Mm) {
    mm.folios.flags_mut(id).set(Flags::ACTIVE, true);
    let memcg = mm.folio_memcg(id);
    mm.memcgs
        .count(memcg, crate::counters::Counter::Pgactivate, pages);
}
