//! The reader's half. It takes any bytes.

use super::*;

impl Coder {
    /// The call and answer at `at`, which moves behind them.
    pub(crate) fn read(&mut self, bytes: &[u8], at: &mut usize) -> Result<(Call, Answer)> {
        let mut from = Cursor { bytes, at };
        let from = &mut from;
        let first = from.byte()?;
        let kind = first & 0x3f;
        if kind < ILLEGAL {
            let (id, step) = self.step(from, kind)?;
            let effect = self.freed(from, first)?;
            return Ok((Call::Apply(id, step), Answer::Effect(effect)));
        }
        let flag = first & FREED_ENTRY != 0;
        let may_flag = matches!(kind, TAKE_WANTED | CHOOSE);
        if first & FREED_SLOT != 0 || (flag && !may_flag) {
            return Err(Fault::Malformed);
        }
        match kind {
            ILLEGAL => {
                let kind = from.byte()?;
                let (id, step) = self.step(from, kind)?;
                let state = self.state(from)?;
                Ok((Call::Apply(id, step), Answer::Illegal(state)))
            }
            ENSURE => {
                let (space, page) = (self.space(from)?, self.page(from)?);
                let id = self.record(from)?;
                Ok((Call::Ensure(space, page), Answer::Page(id)))
            }
            FAULT => {
                let (space, page) = (self.space(from)?, self.page(from)?);
                Ok((Call::Fault(space, page), Answer::Nothing))
            }
            TIME => Ok((Call::Time(from.number()?), Answer::Nothing)),
            WANT => Ok((Call::Want(self.record(from)?), Answer::Nothing)),
            TAKE_WANTED => {
                let id = self.record(from)?;
                Ok((Call::TakeWanted(id), Answer::Flag(flag)))
            }
            _ => self.read_rare(from, kind, flag),
        }
    }

    fn read_rare(&mut self, from: &mut Cursor<'_>, kind: u8, flag: bool) -> Result<(Call, Answer)> {
        match kind {
            ADD_SPACE => Ok((Call::AddSpace, Answer::Space(self.space(from)?))),
            DROP_SPACE => {
                let space = self.space(from)?;
                let effects = self.effects(from)?;
                Ok((Call::DropSpace(space), Answer::Effects(effects)))
            }
            CHOOSE => {
                let refused = from.list(|from| self.space(from))?;
                let chosen = flag.then(|| self.space(from)).transpose()?;
                Ok((Call::Choose(refused), Answer::Chosen(chosen)))
            }
            PICK => {
                let (space, max) = (self.space(from)?, from.number()?);
                let ids = from.list(|from| self.record(from))?;
                Ok((Call::Pick(space, max), Answer::Picked(ids)))
            }
            REMOVE => {
                let (space, start) = (self.space(from)?, self.page(from)?);
                let end = PageNr(from.number()?);
                let effects = self.effects(from)?;
                Ok((Call::Remove(space, start..end), Answer::Effects(effects)))
            }
            COUNT => {
                let resident = from.number()?;
                let vmstat = from.list(Cursor::number)?;
                let counts = Counts { resident, vmstat };
                Ok((Call::Count, Answer::Counts(counts)))
            }
            HINT => {
                let (space, start) = (self.space(from)?, self.page(from)?);
                let end = PageNr(from.number()?);
                let hint = hint_of(from.byte()?)?;
                let changed = Pages(from.number()?);
                Ok((
                    Call::Hint(space, start..end, hint),
                    Answer::Changed(changed),
                ))
            }
            MAKE => {
                let (who, made) = (self.who(from)?, from.list(Cursor::number)?);
                Ok((Call::Make(who, made), Answer::Nothing))
            }
            DECIDE => {
                let who = self.who(from)?;
                let ask = from.list(Cursor::number)?;
                let answer = from.list(Cursor::number)?;
                Ok((Call::Decide(who, ask), Answer::Decided(who, answer)))
            }
            UNMAKE => Ok((Call::Unmake(self.who(from)?), Answer::Nothing)),
            REMAP => self.read_remap(from),
            FORK => self.read_fork(from),
            _ => Err(Fault::Malformed),
        }
    }

    fn read_remap(&mut self, cursor: &mut Cursor<'_>) -> Result<(Call, Answer)> {
        let space = self.space(cursor)?;
        let (from, to) = (self.page(cursor)?, self.page(cursor)?);
        let len = cursor.number()?;
        if len > PAGES {
            return Err(Fault::Malformed);
        }
        let moved = cursor.list(|cursor| {
            Ok(Moved {
                old: self.record(cursor)?,
                new: self.record(cursor)?,
                state: self.state(cursor)?,
            })
        })?;
        let effects = self.effects(cursor)?;
        let call = Call::Remap {
            space,
            from,
            to,
            len: Pages(len),
        };
        Ok((call, Answer::Remapped(moved, effects)))
    }

    fn read_fork(&mut self, from: &mut Cursor<'_>) -> Result<(Call, Answer)> {
        let (parent, child) = (self.space(from)?, self.space(from)?);
        let mut given = Vec::new();
        let asked = from.list(|from| {
            let page = self.page(from)?;
            let state = self.state(from)?;
            let bits = from.byte()?;
            if bits & !FREED_ENTRY != 0 {
                return Err(Fault::Malformed);
            }
            given.push(self.freed(from, bits)?.freed_entry);
            Ok((page, state))
        })?;
        let call = Call::Fork {
            parent,
            child,
            given,
        };
        Ok((call, Answer::Asked(asked)))
    }
}
