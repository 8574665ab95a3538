//! The dictionaries in use, by number.
//!
//! A dictionary is held by each entry compressed with it, by the owners whose pages it is used
//! for, and by whoever had it trained; it goes with the last of them. Numbers take a byte of an
//! entry, so there are at most 255.

use std::sync::Arc;

use crate::compress::Dictionary;

#[derive(Debug)]
enum Slot {
    Free,
    /// Being trained.
    Taken,
    Used {
        dict: Arc<Dictionary>,
        holders: u64,
        /// One holder is who had it trained.
        on_offer: bool,
    },
}

#[derive(Debug)]
pub(super) struct Dicts {
    /// Slot of number 1 first.
    slots: Vec<Slot>,
}

impl Dicts {
    pub fn new() -> Self {
        Self { slots: Vec::new() }
    }

    /// The dictionary of that number, held once more; `None` for 0.
    pub fn get(&mut self, number: u8) -> Option<Arc<Dictionary>> {
        match self.slot(number)? {
            Slot::Used { dict, holders, .. } => {
                *holders += 1;
                Some(Arc::clone(dict))
            }
            slot => panic!("dictionary {number} is {slot:?}"),
        }
    }

    /// The dictionary of that number, not held: for the time an entry that holds it is read.
    pub fn peek(&self, number: u8) -> Option<Arc<Dictionary>> {
        match self.slots.get(usize::from(number).checked_sub(1)?) {
            Some(Slot::Used { dict, .. }) => Some(Arc::clone(dict)),
            slot => panic!("dictionary {number} is {slot:?}"),
        }
    }

    /// Drops a hold; nothing for 0.
    pub fn put(&mut self, number: u8) {
        let Some(slot) = self.slot(number) else {
            return;
        };
        match slot {
            Slot::Used { holders: 1, .. } => *slot = Slot::Free,
            Slot::Used { holders, .. } => *holders -= 1,
            _ => panic!("dictionary {number} is {slot:?}"),
        }
    }

    /// Sets a number aside for training.
    pub fn reserve(&mut self) -> Option<u8> {
        let at = match self
            .slots
            .iter()
            .position(|slot| matches!(slot, Slot::Free))
        {
            Some(at) => at,
            None if self.slots.len() < usize::from(u8::MAX) => {
                self.slots.push(Slot::Free);
                self.slots.len() - 1
            }
            None => return None,
        };
        self.slots[at] = Slot::Taken;
        Some(at as u8 + 1)
    }

    /// Ends a reservation, with a dictionary on offer, or without.
    pub fn settle(&mut self, number: u8, dict: Option<Dictionary>) {
        if let Some(slot) = self.slot(number) {
            *slot = dict.map_or(Slot::Free, |dict| Slot::Used {
                dict: Arc::new(dict),
                holders: 1,
                on_offer: true,
            });
        }
    }

    /// Nobody else is to use it.
    pub fn withdraw(&mut self, number: u8) {
        if let Some(Slot::Used { on_offer, .. }) = self.slot(number) {
            *on_offer = false;
            self.put(number);
        }
    }

    fn slot(&mut self, number: u8) -> Option<&mut Slot> {
        self.slots.get_mut(usize::from(number).checked_sub(1)?)
    }

    /// Dictionaries in use, and their bytes.
    pub fn usage(&self) -> (u64, u64) {
        self.slots
            .iter()
            .filter_map(|slot| match slot {
                Slot::Used { dict, .. } => Some(dict.memory_bytes().0),
                _ => None,
            })
            .fold((0, 0), |(count, bytes), len| (count + 1, bytes + len))
    }

    pub fn metadata_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>() + self.usage().1 as usize
    }

    /// Panics unless each dictionary is held as often as `holders` (by number) says.
    pub fn check(&self, holders: &[u64; 256]) {
        for (at, slot) in self.slots.iter().enumerate() {
            let (counted, offered) = match slot {
                Slot::Used {
                    holders, on_offer, ..
                } => (*holders, u64::from(*on_offer)),
                _ => (0, 0),
            };
            let held = holders[at + 1] + offered;
            assert_eq!(counted, held, "holders of dictionary {}", at + 1);
        }
    }
}
