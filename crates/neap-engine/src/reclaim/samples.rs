//! Compression dictionaries: one for each program, made of its pages, whichever of its processes they come from.
//!
//! Processes that run the same file have much in common, but need not: all scripts of an interpreter run the same. So a process tries
//! the dictionary of its program on its first pages, and goes on trying it. One that gains too little by it counts as a
//! program of its own, and so does one that has stored enough for a dictionary of its own. Samples are collected for one program at
//! a time.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use neap_store::Trained;
use neap_sys::Program;
use neap_tuning::TUNING;
use neap_units::PAGE_SIZE;

/// Processes that have a dictionary in common.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Kind {
    Program(Program),
    /// One process, by the cookie of its space.
    Alone(u64),
}

/// A process that has stored pages.
struct Process {
    kind: Kind,
    /// Pages that it stored, but for those of one word.
    stored: u64,
    /// How the dictionary of its kind does.
    trial: Trial,
    uses: Uses,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Uses {
    Nothing,
    /// The dictionary of its kind, as long as that suits it.
    Shared,
    /// One of its own, or none for good.
    Settled,
}

/// So many pages were tried, of so many bytes without the dictionary and with it.
#[derive(Clone, Copy, Default)]
struct Trial {
    pages: u64,
    bytes: [usize; 2],
}

/// What a process is to do with a dictionary that it has tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Begin,
    End,
}

/// Sample pages of one kind.
pub(super) struct Collection {
    kind: Kind,
    /// The processes that they come from.
    of: Vec<u64>,
    pub pages: Vec<u8>,
}

impl Collection {
    fn is_whole(&self) -> bool {
        self.pages.len() == TUNING.dictionaries.samples().bytes().as_usize()
    }
}

#[derive(Default)]
pub(super) struct Samples {
    at_hand: Option<Collection>,
    /// A dictionary of this kind is being made.
    training: Option<Kind>,
    /// The dictionaries of the kinds that have one.
    made: HashMap<Kind, Arc<Trained>>,
    /// By the cookie of its space.
    processes: HashMap<u64, Process>,
    /// Pages stored.
    seen: u64,
    /// When the last sample came, in pages stored.
    last: u64,
}

impl Samples {
    /// A page of a process was compressed, which runs this. The dictionary that is to be tried on it, if there is one.
    pub fn note(
        &mut self,
        cookie: u64,
        program: Option<Program>,
        page: &[u8; PAGE_SIZE],
    ) -> Option<Arc<Trained>> {
        let process = self.processes.entry(cookie).or_insert_with(|| Process {
            kind: program.map_or(Kind::Alone(cookie), Kind::Program),
            stored: 0,
            trial: Trial::default(),
            uses: Uses::Nothing,
        });
        let same_filled = page[8..] == page[..PAGE_SIZE - 8];
        if same_filled || process.uses == Uses::Settled {
            return None;
        }
        self.seen += 1;
        process.stored += 1;
        let now_and_then = process
            .stored
            .is_multiple_of(TUNING.dictionaries.sample_every);
        let shared = self.made.get(&process.kind).cloned();
        let is_large = process.stored > TUNING.dictionaries.stored_before().0;
        if now_and_then && (shared.is_none() || is_large) {
            let own = Kind::Alone(cookie);
            let kind = shared.as_ref().map_or(process.kind, |_| own);
            self.collect(kind, cookie, page);
        }
        shared.filter(|_| now_and_then || self.processes[&cookie].uses == Uses::Nothing)
    }

    fn collect(&mut self, kind: Kind, cookie: u64, page: &[u8; PAGE_SIZE]) {
        let patient = self.seen - self.last < TUNING.dictionaries.stored_before().0;
        let begun = Collection {
            kind,
            of: Vec::new(),
            pages: Vec::new(),
        };
        let at_hand = match &mut self.at_hand {
            _ if self.training == Some(kind) => return,
            Some(other) if other.kind != kind && patient => return,
            Some(same) if same.kind == kind => same,
            at_hand => at_hand.insert(begun),
        };
        if !at_hand.is_whole() {
            at_hand.pages.extend_from_slice(page);
            if !at_hand.of.contains(&cookie) {
                at_hand.of.push(cookie);
            }
        }
        self.last = self.seen;
    }

    /// What a page came to, without a dictionary that was to be tried and with it.
    pub fn judge(&mut self, cookie: u64, page: [usize; 2]) -> Option<Verdict> {
        let process = self.processes.get_mut(&cookie)?;
        let trial = &mut process.trial;
        trial.pages += 1;
        (0..2).for_each(|way| trial.bytes[way] += page[way]);
        if trial.pages < TUNING.dictionaries.trial.0 {
            return None;
        }
        let [without, with] = std::mem::take(trial).bytes;
        match (process.uses, TUNING.dictionaries.pays(without, with)) {
            (Uses::Nothing, true) => {
                process.uses = Uses::Shared;
                Some(Verdict::Begin)
            }
            (Uses::Nothing | Uses::Shared, false) => {
                process.kind = Kind::Alone(cookie);
                let used = std::mem::replace(&mut process.uses, Uses::Nothing);
                (used == Uses::Shared).then_some(Verdict::End)
            }
            _ => None,
        }
    }

    /// A kind of which there are pages enough, with these pages.
    pub fn take_whole(&mut self) -> Option<Collection> {
        let whole = self.at_hand.take_if(|collection| collection.is_whole())?;
        self.training = Some(whole.kind);
        Some(whole)
    }

    /// Takes the dictionary that was made of these pages; `None`: they gain too little. If all are of one process, that is to use it at once.
    pub fn settle(
        &mut self,
        of: &Collection,
        trained: Option<Trained>,
    ) -> Option<(u64, Arc<Trained>)> {
        self.training = None;
        let trained = trained.map(Arc::new);
        let alone = of.of.len() == 1;
        for cookie in &of.of {
            let Some(process) = self.processes.get_mut(cookie) else {
                continue;
            };
            // Others of its program may be unlike it, and they unlike each other.
            if trained.is_none() {
                process.kind = Kind::Alone(*cookie);
            }
            if alone {
                process.uses = Uses::Settled;
            }
        }
        let trained = trained?;
        self.made.insert(of.kind, trained.clone());
        alone.then(|| (of.of[0], trained))
    }

    /// Forgets processes that are gone. The dictionaries of which no process is left.
    pub fn forget_gone(&mut self, living: &HashSet<u64>) -> Vec<Trained> {
        self.processes.retain(|cookie, _| living.contains(cookie));
        let kinds: HashSet<Kind> = self.processes.values().map(|it| it.kind).collect();
        self.at_hand
            .take_if(|at_hand| !kinds.contains(&at_hand.kind));
        let (made, gone) = std::mem::take(&mut self.made)
            .into_iter()
            // One that is being tried goes next time.
            .partition(|(kind, made)| kinds.contains(kind) || Arc::strong_count(made) > 1);
        self.made = made;
        let gone: HashMap<_, _> = gone;
        gone.into_values().filter_map(Arc::into_inner).collect()
    }
}

#[cfg(test)]
mod tests;
