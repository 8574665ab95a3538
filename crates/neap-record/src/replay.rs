//! The calls made again on a new core and new deciders, and their answers compared with those of then.

use std::collections::BTreeMap;

use neap_policy::Core;
use neap_units::SpaceId;

use crate::call::{Answer, Call, Counts, Moved, Place};
use crate::decide::{Again, Who};

/// Spaces that one core can have.
const MAX_SPACES: usize = u16::MAX as usize;

/// A core and deciders that are asked again what others were asked.
#[derive(Default)]
pub struct Replay {
    core: Core,
    spaces: usize,
    deciders: BTreeMap<Who, Again>,
}

/// What came of a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Replayed {
    /// What the core says now; `None`: it cannot be asked that, so the record is of another core.
    pub answer: Option<Answer>,
    /// Where the page of the record that was named was before the call.
    pub place: Place,
}

impl Replay {
    /// With an empty core.
    #[must_use]
    pub fn new() -> Replay {
        Replay::default()
    }

    /// The core as it is now.
    #[must_use]
    pub fn core(&self) -> &Core {
        &self.core
    }

    /// Makes a call. Any call: one that the core would take for a bug of its caller is not made.
    pub fn step(&mut self, call: &Call) -> Replayed {
        let place = Place(call.record().and_then(|id| self.core.try_locate(id)));
        let answer = self.ask(call);
        Replayed { answer, place }
    }

    fn live(&self, space: SpaceId) -> Option<SpaceId> {
        self.core.is_live(space).then_some(space)
    }

    fn ask(&mut self, call: &Call) -> Option<Answer> {
        match call {
            Call::Time(_) | Call::Fault(..) => Some(Answer::Nothing),
            Call::Count => Some(Answer::Counts(Counts::of(&self.core))),
            Call::AddSpace => {
                self.spaces += 1;
                (self.spaces <= MAX_SPACES).then(|| Answer::Space(self.core.add_space()))
            }
            Call::DropSpace(space) => {
                let effects = self.live(*space).map(|space| self.core.drop_space(space))?;
                self.spaces -= 1;
                Some(Answer::Effects(effects))
            }
            Call::Ensure(space, page) => {
                let space = self.live(*space)?;
                Some(Answer::Page(self.core.ensure(space, *page)))
            }
            Call::Apply(id, step) => Some(Answer::from(self.core.apply(*id, *step))),
            Call::Want(id) => {
                self.core.knows(*id).then(|| self.core.want(*id))?;
                Some(Answer::Nothing)
            }
            Call::TakeWanted(id) => {
                let known = self.core.knows(*id);
                known.then(|| Answer::Flag(self.core.take_wanted(*id)))
            }
            Call::Choose(among) => {
                let among: Vec<_> = among.iter().filter_map(|&id| self.live(id)).collect();
                Some(Answer::Chosen(self.core.choose_space(&among)))
            }
            Call::Pick(space, max) => {
                let space = self.live(*space)?;
                let mut picked = Vec::new();
                let max = usize::try_from(*max).unwrap_or(usize::MAX);
                self.core.pick(space, max, &mut picked);
                Some(Answer::Picked(picked))
            }
            Call::Remove(space, range) => {
                let space = self.live(*space)?;
                let effects = self.core.remove_range(space, range.clone());
                Some(Answer::Effects(effects))
            }
            Call::Make(..) | Call::Decide(..) | Call::Unmake(_) => self.ask_decider(call),
            Call::Hint(..) | Call::Remap { .. } | Call::Fork { .. } => self.ask_many(call),
        }
    }

    fn ask_decider(&mut self, call: &Call) -> Option<Answer> {
        match call {
            Call::Make(who, made) => {
                self.deciders.insert(*who, who.make(made)?);
                Some(Answer::Nothing)
            }
            Call::Decide(who, ask) => {
                let answer = self.deciders.get_mut(who)?.ask(ask)?;
                Some(Answer::Decided(*who, answer))
            }
            Call::Unmake(who) => {
                self.deciders.remove(who)?;
                Some(Answer::Nothing)
            }
            _ => None,
        }
    }

    fn ask_many(&mut self, call: &Call) -> Option<Answer> {
        match call {
            Call::Hint(space, range, hint) => {
                let space = self.live(*space)?;
                let changed = self.core.hint(space, range.clone(), *hint);
                Some(Answer::Changed(changed))
            }
            Call::Remap {
                space,
                from,
                to,
                len,
            } => {
                let apart = from.0.abs_diff(to.0) >= len.0;
                let space = self.live(*space).filter(|_| apart)?;
                let mut moved = Vec::new();
                let effects = self
                    .core
                    .remap_with(space, *from, *to, *len, |old, new, state| {
                        moved.push(Moved { old, new, state });
                    });
                Some(Answer::Remapped(moved, effects))
            }
            Call::Fork {
                parent,
                child,
                given,
            } => {
                let (parent, child) = (self.live(*parent)?, self.live(*child)?);
                let mut asked = Vec::new();
                self.core.fork(parent, child, |page, state| {
                    let entry = given.get(asked.len()).copied().flatten();
                    asked.push((page, state));
                    entry
                });
                Some(Answer::Asked(asked))
            }
            _ => None,
        }
    }
}
