//! One space as hash maps and vectors, that does what the table does without packing, links
//! or indices.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::*;
use crate::page::step;
use crate::recency::Advice;

#[derive(Clone, Copy, Debug)]
pub(super) struct Page {
    pub(super) state: State,
    pub(super) stamp: u64,
    pub(super) workingset: bool,
    /// It left from probation.
    pub(super) tried: bool,
    /// It is to be passed over.
    pub(super) referenced: bool,
    pub(super) wanted: bool,
}

/// One space: states by page, for each generation its pages, oldest first, and those on probation.
#[derive(Debug)]
pub(super) struct ModelSpace {
    pub(super) pages: HashMap<u64, Page>,
    pub(super) lists: BTreeMap<u64, Vec<u64>>,
    pub(super) probation: Vec<u64>,
    /// Pages of mappings without recency.
    pub(super) unhurried: BTreeSet<u64>,
    pub(super) late: u64,
    /// Of the pages that left generations lately, and of those that came back.
    pub(super) went: u32,
    pub(super) came_back: u32,
    /// Pages kept out of generations since the last trial, and evictions until it ends.
    pub(super) kept_out: u64,
    pub(super) trial: u64,
    pub(super) max_seq: u64,
    pub(super) min_seq: u64,
    pub(super) age: u64,
    pub(super) counted: Vmstat,
}

impl ModelSpace {
    pub(super) fn new() -> ModelSpace {
        let (pages, lists) = (HashMap::new(), BTreeMap::new());
        ModelSpace {
            pages,
            lists,
            probation: Vec::new(),
            unhurried: BTreeSet::new(),
            late: 0,
            went: 0,
            came_back: 0,
            kept_out: 0,
            trial: 0,
            max_seq: 3,
            min_seq: 0,
            age: 0,
            counted: Vmstat::default(),
        }
    }

    pub(super) fn len(&self, seq: u64) -> u64 {
        self.lists.get(&seq).map_or(0, |list| list.len() as u64)
    }

    /// Pages of all generations.
    pub(super) fn settled(&self) -> u64 {
        self.lists.values().map(|list| list.len() as u64).sum()
    }

    pub(super) fn resident(&self) -> u64 {
        self.settled() + self.probation.len() as u64
    }

    pub(super) fn state(&self, page: u64) -> State {
        self.pages
            .get(&page)
            .map_or(State::Absent, |page| page.state)
    }

    pub(super) fn unlist(&mut self, page: u64) {
        for list in self.lists.values_mut().chain([&mut self.probation]) {
            list.retain(|&other| other != page);
        }
    }

    pub(super) fn enlist(&mut self, page: u64, heat: Heat) {
        let seq = if heat == Heat::Hot {
            self.max_seq
        } else {
            self.max_seq - 1
        };
        self.lists.entry(seq).or_default().push(page);
    }

    pub(super) fn apply(&mut self, page: u64, taken: Step) -> Result<Effect, Illegal> {
        let before = self.state(page);
        let (after, effect) = step(before, taken)?;
        let was_on_probation = self.probation.contains(&page);
        if before.is_resident() && !after.is_resident() {
            self.unlist(page);
        }
        let fresh = Page {
            state: before,
            stamp: 0,
            workingset: false,
            tried: false,
            referenced: false,
            wanted: false,
        };
        let mut record = *self.pages.entry(page).or_insert(fresh);
        record.state = after;
        if before.is_resident() && !after.is_resident() {
            record.tried = was_on_probation;
            record.referenced = false;
        }
        let mut heat = match taken {
            Step::Adopt(heat) | Step::Putback(heat) | Step::EndReturn(heat) => heat,
            _ => Heat::Hot,
        };
        let mut on_probation = taken == Step::Putback(Heat::Warm) && record.tried;
        let unhurried = self.unhurried.contains(&page);
        if let Step::EndLoad { heat: asked, .. } = taken {
            (heat, on_probation) = match unhurried {
                true => self.refault_unhurried(&mut record),
                false => self.refault(&mut record, asked),
            };
        }
        on_probation |= unhurried && taken != Step::Putback(Heat::Hot);
        if matches!(taken, Step::CommitStore(_)) {
            self.note_stored(&mut record);
        }
        self.counted.pgrotated += u64::from(taken == Step::Putback(Heat::Warm));
        let touched = matches!(taken, Step::Putback(Heat::Hot) | Step::EndReturn(Heat::Hot));
        self.counted.pgactivate += u64::from(touched && !on_probation);
        record.referenced |= taken == Step::EndReturn(Heat::Hot) && !on_probation;
        self.pages.insert(page, record);
        if after == State::Absent {
            self.pages.remove(&page);
        }
        if after.is_resident() && !before.is_resident() {
            match on_probation {
                true => self.probation.push(page),
                false => self.enlist(page, heat),
            }
        }
        Ok(effect)
    }

    fn note_stored(&mut self, record: &mut Page) {
        record.stamp = self.age;
        self.age += 1;
        self.counted.pgsteal += 1;
        if record.tried {
            return;
        }
        self.trial = self.trial.saturating_sub(1);
        self.went += 1;
        if self.went == 256 {
            (self.went, self.came_back) = (128, self.came_back / 2);
        }
    }

    /// How hot a page is that comes back, and whether it is on probation.
    fn refault(&mut self, record: &mut Page, asked: Heat) -> (Heat, bool) {
        let kept = if record.tried {
            self.settled()
        } else {
            self.settled() / 4
        };
        let recent = self.age - record.stamp <= kept;
        self.late += u64::from(!recent);
        if !record.tried && self.age - record.stamp <= self.settled() {
            self.came_back = self.went.min(self.came_back + 1);
        }
        let heat = if recent { asked } else { Heat::Warm };
        self.counted.workingset_refault_anon += 1;
        self.counted.workingset_activate_anon += u64::from(heat == Heat::Hot);
        self.counted.pgactivate += u64::from(heat == Heat::Hot);
        self.counted.workingset_restore_anon += u64::from(recent && record.workingset);
        record.workingset = recent && (asked == Heat::Hot || record.workingset);
        record.referenced = recent && asked == Heat::Hot && !record.tried;
        let joins = if recent {
            heat == Heat::Hot || !self.keeps_out()
        } else {
            self.late.is_multiple_of(32)
        };
        (heat, !joins)
    }

    fn refault_unhurried(&mut self, record: &mut Page) -> (Heat, bool) {
        let recent = self.age - record.stamp <= self.settled();
        self.counted.workingset_refault_anon += 1;
        self.counted.workingset_restore_anon += u64::from(recent && record.workingset);
        record.workingset = recent && record.workingset;
        record.referenced = false;
        (Heat::Warm, true)
    }

    /// Takes a hint. How many pages changed their place.
    pub(super) fn hint(&mut self, range: std::ops::Range<u64>, hint: Hint) -> u64 {
        let mut changed = 0;
        match hint {
            Hint::Use(Advice::Normal) => {
                self.unhurried.retain(|page| !range.contains(page));
                return 0;
            }
            Hint::Use(_) => self.unhurried.extend(range.clone()),
            Hint::Cold | Hint::Soon => {}
        }
        let mut pages = self.inside(range);
        if hint == Hint::Cold {
            pages.reverse();
        }
        for page in pages {
            let unhurried = self.unhurried.contains(&page);
            if !self.state(page).is_resident() || unhurried && !matches!(hint, Hint::Use(_)) {
                continue;
            }
            self.unlist(page);
            self.pages.get_mut(&page).unwrap().referenced = false;
            match hint {
                Hint::Use(_) => self.probation.push(page),
                Hint::Cold => self.lists.entry(self.min_seq).or_default().insert(0, page),
                Hint::Soon => self.enlist(page, Heat::Hot),
            }
            changed += 1;
        }
        match hint {
            Hint::Soon => self.counted.pgactivate += changed,
            _ => self.counted.pgdeactivate += changed,
        }
        changed
    }

    /// Most of those that left generations came back, and it is not the time to try whether they still would.
    fn keeps_out(&mut self) -> bool {
        self.trial = self.trial.min(self.settled());
        let keeps = self.trial == 0 && 2 * self.came_back > self.went;
        self.kept_out += u64::from(keeps);
        if keeps && self.kept_out > 2 * self.settled() {
            (self.kept_out, self.trial) = (0, self.settled());
        }
        keeps
    }

    pub(super) fn advance(&mut self) {
        while self.max_seq - self.min_seq >= 2 && self.len(self.min_seq) == 0 {
            self.min_seq += 1;
        }
    }

    /// The list to evict from.
    pub(super) fn oldest(&mut self) -> Option<(u64, u64)> {
        let newcomer = self.probation.first().map(|&page| (page, 0));
        let len = self.probation.len() as u64;
        if len > 64 && len > self.resident() / 16 {
            return newcomer;
        }
        self.advance();
        let seq = self.min_seq;
        let evictable = seq + 2 <= self.max_seq && self.len(seq) > 0;
        match evictable {
            true => Some((self.lists[&seq][0], seq + 1)),
            false => newcomer,
        }
    }

    pub(super) fn pick(&mut self, max: usize) -> Vec<u64> {
        let mut out = Vec::new();
        let mut limit = self.max_seq - 1; // the rank of the youngest inactive one
        self.grow_old();
        let mut left = 4 * max;
        while out.len() < max {
            let Some((oldest, rank)) = self.oldest() else {
                if !out.is_empty() || self.resident() == 0 {
                    break;
                }
                self.grow_old();
                continue;
            };
            if out.is_empty() {
                limit = limit.max(rank);
            } else if rank > limit {
                break;
            }
            let record = self.pages.get_mut(&oldest).unwrap();
            if left > 0 && std::mem::take(&mut record.referenced) {
                left -= 1;
                self.counted.passed_over += 1;
                self.unlist(oldest);
                self.enlist(oldest, Heat::Hot);
                continue;
            }
            self.apply(oldest, Step::Isolate).unwrap();
            out.push(oldest);
        }
        self.counted.pgscan += out.len() as u64;
        out.sort_unstable();
        out
    }

    fn grow_old(&mut self) {
        if self.settled() > 0 {
            self.advance();
            while self.min_seq + 2 >= self.max_seq {
                self.max_seq += 1;
                self.counted.aged_generations += 1;
                self.counted.pgrefill += self.len(self.max_seq - 2);
                self.advance();
            }
        }
    }

    pub(super) fn inside(&self, range: std::ops::Range<u64>) -> Vec<u64> {
        let mut pages: Vec<u64> = self
            .pages
            .keys()
            .copied()
            .filter(|page| range.contains(page))
            .collect();
        pages.sort_unstable();
        pages
    }

    pub(super) fn remove(&mut self, range: std::ops::Range<u64>) -> Vec<Effect> {
        let pages = self.inside(range);
        let effects = pages
            .into_iter()
            .map(|page| self.apply(page, Step::Drop).unwrap());
        effects.filter(|effect| !effect.is_none()).collect()
    }

    pub(super) fn remap(&mut self, from: u64, to: u64, len: u64) -> Vec<Effect> {
        let effects = self.remove(to..to + len);
        let goes = |page: &u64| (from..from + len).contains(page);
        let went: Vec<u64> = self.unhurried.iter().copied().filter(goes).collect();
        self.unhurried
            .retain(|page| !goes(page) && !(to..to + len).contains(page));
        self.unhurried
            .extend(went.into_iter().map(|page| page - from + to));
        for page in self.inside(from..from + len) {
            let record = self.pages.remove(&page).unwrap();
            self.pages.insert(page - from + to, record);
            for listed in self
                .lists
                .values_mut()
                .chain([&mut self.probation])
                .flatten()
            {
                if *listed == page {
                    *listed = page - from + to;
                }
            }
        }
        effects
    }
}
