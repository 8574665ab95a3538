//! The writer's half.

use super::*;

impl Coder {
    /// Appends a call and its answer. An answer of another call's kind is a bug of the caller and
    /// written as nothing that a reader takes.
    pub(crate) fn write(&mut self, out: &mut Vec<u8>, call: &Call, answer: &Answer) {
        match (call, answer) {
            (Call::Apply(id, step), Answer::Effect(effect)) => {
                self.put_step(out, *id, *step, bits(*effect));
                self.put_freed(out, *effect);
            }
            (Call::Apply(id, step), Answer::Illegal(state)) => {
                out.push(ILLEGAL);
                self.put_step(out, *id, *step, 0);
                self.put_state(out, *state);
            }
            (Call::Ensure(space, page), Answer::Page(id)) => {
                out.push(ENSURE);
                self.put_space(out, *space);
                self.put_page(out, *page);
                self.put_record(out, *id);
            }
            (Call::Fault(space, page), _) => {
                out.push(FAULT);
                self.put_space(out, *space);
                self.put_page(out, *page);
            }
            (Call::Time(nanos), _) => {
                out.push(TIME);
                push(out, *nanos);
            }
            (Call::Want(id), _) => {
                out.push(WANT);
                self.put_record(out, *id);
            }
            (Call::TakeWanted(id), Answer::Flag(flag)) => {
                out.push(TAKE_WANTED | bit(*flag, FREED_ENTRY));
                self.put_record(out, *id);
            }
            _ => self.write_rare(out, call, answer),
        }
    }

    fn write_rare(&mut self, out: &mut Vec<u8>, call: &Call, answer: &Answer) {
        match (call, answer) {
            (Call::AddSpace, Answer::Space(space)) => {
                out.push(ADD_SPACE);
                self.put_space(out, *space);
            }
            (Call::DropSpace(space), Answer::Effects(effects)) => {
                out.push(DROP_SPACE);
                self.put_space(out, *space);
                self.put_effects(out, effects);
            }
            (Call::Choose(refused), Answer::Chosen(chosen)) => {
                out.push(CHOOSE | bit(chosen.is_some(), FREED_ENTRY));
                push(out, refused.len() as u64);
                for &space in refused.iter().chain(chosen) {
                    self.put_space(out, space);
                }
            }
            (Call::Pick(space, max), Answer::Picked(ids)) => {
                out.push(PICK);
                self.put_space(out, *space);
                push(out, *max);
                push(out, ids.len() as u64);
                for &id in ids {
                    self.put_record(out, id);
                }
            }
            (Call::Remove(space, range), Answer::Effects(effects)) => {
                out.push(REMOVE);
                self.put_space(out, *space);
                self.put_page(out, range.start);
                push(out, range.end.0);
                self.put_effects(out, effects);
            }
            (Call::Hint(space, range, hint), Answer::Changed(changed)) => {
                out.push(HINT);
                self.put_space(out, *space);
                self.put_page(out, range.start);
                push(out, range.end.0);
                out.push(hint_byte(*hint));
                push(out, changed.0);
            }
            (Call::Count, Answer::Counts(counts)) => {
                out.push(COUNT);
                push(out, counts.resident);
                put_numbers(out, &counts.vmstat);
            }
            _ => self.write_decider(out, call, answer),
        }
    }

    fn write_decider(&mut self, out: &mut Vec<u8>, call: &Call, answer: &Answer) {
        match (call, answer) {
            (Call::Make(who, made), _) => {
                out.push(MAKE);
                self.put_who(out, *who);
                put_numbers(out, made);
            }
            (Call::Decide(who, ask), Answer::Decided(_, answer)) => {
                out.push(DECIDE);
                self.put_who(out, *who);
                put_numbers(out, ask);
                put_numbers(out, answer);
            }
            (Call::Unmake(who), _) => {
                out.push(UNMAKE);
                self.put_who(out, *who);
            }
            _ => self.write_moves(out, call, answer),
        }
    }

    fn write_moves(&mut self, out: &mut Vec<u8>, call: &Call, answer: &Answer) {
        match (call, answer) {
            (
                Call::Remap {
                    space,
                    from,
                    to,
                    len,
                },
                Answer::Remapped(moved, effects),
            ) => {
                out.push(REMAP);
                self.put_space(out, *space);
                self.put_page(out, *from);
                self.put_page(out, *to);
                push(out, len.0);
                push(out, moved.len() as u64);
                for page in moved {
                    self.put_record(out, page.old);
                    self.put_record(out, page.new);
                    self.put_state(out, page.state);
                }
                self.put_effects(out, effects);
            }
            (
                Call::Fork {
                    parent,
                    child,
                    given,
                },
                Answer::Asked(asked),
            ) => {
                out.push(FORK);
                self.put_space(out, *parent);
                self.put_space(out, *child);
                push(out, asked.len() as u64);
                for ((page, state), given) in asked.iter().zip(given) {
                    self.put_page(out, *page);
                    self.put_state(out, *state);
                    let holds = Effect {
                        freed_entry: *given,
                        freed_slot: None,
                    };
                    out.push(bits(holds));
                    self.put_freed(out, holds);
                }
            }
            _ => {
                debug_assert!(false, "{answer:?} is no answer to {call:?}");
                out.push(u8::MAX);
            }
        }
    }
}
