//! Compression dictionaries: one for each program, made of its pages, whichever of its processes they come from.
//!
//! Processes that run the same file have much in common, but need not: all scripts of an interpreter run the same. So a process tries
//! the dictionary of its program on its own pages, and one that gains too little counts as a program of its own. Samples
//! are collected for one program at a time.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use neap_store::Trained;
use neap_sys::Program;
use neap_tuning::TUNING;
use neap_units::PAGE_SIZE;

/// Who has a dictionary in common.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Kind {
    Program(Program),
    /// One process, by the cookie of its space.
    Alone(u64),
}

/// A process that has stored pages.
struct Process {
    kind: Kind,
    /// How the dictionary of its kind does; `None`: it uses that, or does without for good.
    trial: Option<Trial>,
}

/// So many pages were tried, of so many bytes without the dictionary and with it.
#[derive(Clone, Copy, Default)]
struct Trial {
    pages: u64,
    bytes: [usize; 2],
}

/// Sample pages of one kind.
pub(super) struct Collection {
    kind: Kind,
    /// The one process that they all come from.
    of_one: Option<u64>,
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
    /// The kinds whose pages were taken; those that gained by it have a dictionary.
    made: HashMap<Kind, Option<Arc<Trained>>>,
    /// By the cookie of its space.
    processes: HashMap<u64, Process>,
    /// Pages stored.
    seen: u64,
    /// When the last sample came, in pages stored.
    last: u64,
}

impl Samples {
    /// Whether this process has stored a page before.
    pub fn knows(&self, cookie: u64) -> bool {
        self.processes.contains_key(&cookie)
    }

    /// A process has stored its first page, and runs this.
    pub fn meet(&mut self, cookie: u64, program: Option<Program>) {
        let process = Process {
            kind: program.map_or(Kind::Alone(cookie), Kind::Program),
            trial: Some(Trial::default()),
        };
        self.processes.insert(cookie, process);
    }

    /// A page was compressed. The dictionary that is to be tried on it, if there is one.
    pub fn note(&mut self, cookie: u64, page: &[u8; PAGE_SIZE]) -> Option<Arc<Trained>> {
        let same_filled = page[8..] == page[..PAGE_SIZE - 8];
        let process = self.processes.get_mut(&cookie)?;
        if same_filled {
            return None;
        }
        self.seen += 1;
        process.trial?;
        if let Some(made) = self.made.get(&process.kind) {
            return made.clone();
        }
        if self.seen.is_multiple_of(TUNING.dictionaries.sample_every) {
            let kind = process.kind;
            self.collect(kind, cookie, page);
        }
        None
    }

    fn collect(&mut self, kind: Kind, cookie: u64, page: &[u8; PAGE_SIZE]) {
        let patient = self.seen - self.last < TUNING.dictionaries.stored_before().0;
        let begun = Collection {
            kind,
            of_one: Some(cookie),
            pages: Vec::new(),
        };
        let at_hand = match &mut self.at_hand {
            Some(other) if other.kind != kind && patient => return,
            Some(same) if same.kind == kind => same,
            at_hand => at_hand.insert(begun),
        };
        if !at_hand.is_whole() {
            at_hand.pages.extend_from_slice(page);
            at_hand.of_one = at_hand.of_one.filter(|&one| one == cookie);
        }
        self.last = self.seen;
    }

    /// What a page came to, without a dictionary that was to be tried and with it. Whether the process is to use it from now on.
    pub fn judge(&mut self, cookie: u64, page: [usize; 2]) -> bool {
        let Some(process) = self.processes.get_mut(&cookie) else {
            return false;
        };
        let Some(trial) = &mut process.trial else {
            return false; // another page has decided it
        };
        trial.pages += 1;
        (0..2).for_each(|way| trial.bytes[way] += page[way]);
        if trial.pages < TUNING.dictionaries.trial.0 {
            return false;
        }
        let suits = TUNING.dictionaries.pays(trial.bytes[0], trial.bytes[1]);
        let alone = Kind::Alone(cookie);
        process.trial = (!suits && process.kind != alone).then(Trial::default);
        if !suits {
            process.kind = alone;
        }
        suits
    }

    /// A kind of which there are pages enough, with these pages.
    pub fn take_whole(&mut self) -> Option<Collection> {
        self.at_hand.take_if(|collection| collection.is_whole())
    }

    /// What was made of these pages; `None`: they gain too little. The process that is to use it without a trial, which was one.
    pub fn settle(
        &mut self,
        collection: &Collection,
        trained: Option<Trained>,
    ) -> Option<(u64, Arc<Trained>)> {
        let trained = trained.map(Arc::new);
        let one = collection
            .of_one
            .and_then(|one| Some((one, self.processes.get_mut(&one)?)));
        let mut kind = collection.kind;
        let mut user = None;
        if let Some((cookie, process)) = one {
            process.trial = None;
            match &trained {
                Some(trained) => user = Some((cookie, trained.clone())),
                // Others of its program may be unlike it.
                None => process.kind = Kind::Alone(cookie),
            }
            kind = process.kind;
        }
        self.made.insert(kind, trained);
        user
    }

    /// Forgets processes that are gone. The dictionaries of which no process is left.
    pub fn forget_gone(&mut self, living: &HashSet<u64>) -> Vec<Trained> {
        self.processes.retain(|cookie, _| living.contains(cookie));
        let kinds: HashSet<Kind> = self.processes.values().map(|it| it.kind).collect();
        self.at_hand
            .take_if(|at_hand| !kinds.contains(&at_hand.kind));
        let mut gone = Vec::new();
        self.made.retain(|kind, made| {
            // One that is being tried goes next time.
            let stays =
                kinds.contains(kind) || made.as_ref().is_some_and(|it| Arc::strong_count(it) > 1);
            if !stays {
                gone.extend(made.take().and_then(Arc::into_inner));
            }
            stays
        });
        gone
    }
}

#[cfg(test)]
mod tests;
