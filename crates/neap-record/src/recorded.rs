//! The core with a recorder around it.

use std::ops::{Deref, Range};

use neap_policy::{Core, Effect, Hint, Illegal, State, Step};
use neap_tuning::TUNING;
use neap_units::{EntryId, PageId, PageNr, Pages, SpaceId};

use crate::call::{Answer, Call, Counts, Moved};
use crate::recorder::{Recorder, Sink};

/// A [`Core`] that records each call that may change it, and what it answered, in the order of the
/// calls. Without a record it is the core and one branch for each call.
///
/// What only looks at the core is called through [`Deref`].
#[derive(Default)]
pub struct Recorded {
    core: Core,
    recorder: Recorder,
    /// Calls since the counters were recorded.
    uncounted: u32,
}

impl Deref for Recorded {
    type Target = Core;

    fn deref(&self) -> &Core {
        &self.core
    }
}

impl Recorded {
    /// A core without spaces that records nothing.
    #[must_use]
    pub fn new() -> Recorded {
        Recorded::default()
    }

    /// What records it, for other deciders of its job.
    #[must_use]
    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Begins to record. The core must be as new: a replay starts with an empty one.
    pub fn start(&mut self, sink: Box<dyn Sink>) {
        self.recorder.start(sink);
    }

    /// Hands on what is recorded so far.
    pub fn flush(&mut self) {
        self.recorder.flush();
    }

    /// Records the counters and ends the record. False: it had ended before, or there was none.
    pub fn finish(&mut self) -> bool {
        self.note(|| (Call::Count, Answer::Nothing));
        self.recorder.finish()
    }

    #[inline]
    fn note(&mut self, entry: impl FnOnce() -> (Call, Answer)) {
        if self.recorder.is_on() {
            let (call, answer) = entry();
            self.write(&call, &answer);
        }
    }

    #[inline(never)]
    fn write(&mut self, call: &Call, answer: &Answer) {
        self.uncounted += 1;
        let counts = *call == Call::Count || self.uncounted == TUNING.report.record_counts;
        if counts {
            self.uncounted = 0;
        }
        self.recorder.write(|tape| {
            if *call != Call::Count {
                tape.write(call, answer);
            }
            if counts {
                tape.write(&Call::Count, &Answer::Counts(Counts::of(&self.core)));
            }
        });
    }

    /// A fault came in: recorded, and no business of the core.
    pub fn fault(&mut self, space: SpaceId, page: PageNr) {
        self.note(|| (Call::Fault(space, page), Answer::Nothing));
    }

    /// [`Core::add_space`].
    pub fn add_space(&mut self) -> SpaceId {
        let space = self.core.add_space();
        self.note(|| (Call::AddSpace, Answer::Space(space)));
        space
    }

    /// [`Core::drop_space`].
    pub fn drop_space(&mut self, space: SpaceId) -> Vec<Effect> {
        let effects = self.core.drop_space(space);
        self.note(|| (Call::DropSpace(space), Answer::Effects(effects.clone())));
        effects
    }

    /// [`Core::ensure`].
    #[inline]
    pub fn ensure(&mut self, space: SpaceId, page: PageNr) -> PageId {
        let id = self.core.ensure(space, page);
        self.note(|| (Call::Ensure(space, page), Answer::Page(id)));
        id
    }

    /// [`Core::apply`].
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn apply(&mut self, id: PageId, step: Step) -> Result<Effect, Illegal> {
        let result = self.core.apply(id, step);
        self.note(|| (Call::Apply(id, step), Answer::from(result)));
        result
    }

    /// [`Core::want`].
    pub fn want(&mut self, id: PageId) {
        self.core.want(id);
        self.note(|| (Call::Want(id), Answer::Nothing));
    }

    /// [`Core::take_wanted`].
    #[inline]
    pub fn take_wanted(&mut self, id: PageId) -> bool {
        let wanted = self.core.take_wanted(id);
        self.note(|| (Call::TakeWanted(id), Answer::Flag(wanted)));
        wanted
    }

    /// [`Core::choose_space`].
    pub fn choose_space(&mut self, among: &[SpaceId]) -> Option<SpaceId> {
        let chosen = self.core.choose_space(among);
        self.note(|| (Call::Choose(among.to_vec()), Answer::Chosen(chosen)));
        chosen
    }

    /// [`Core::pick`].
    pub fn pick(&mut self, space: SpaceId, max: usize, out: &mut Vec<PageId>) {
        let first = out.len();
        self.core.pick(space, max, out);
        self.note(|| {
            let picked = out[first..].to_vec();
            (Call::Pick(space, max as u64), Answer::Picked(picked))
        });
    }

    /// [`Core::remove_range`].
    pub fn remove_range(&mut self, space: SpaceId, range: Range<PageNr>) -> Vec<Effect> {
        let effects = self.core.remove_range(space, range.clone());
        self.note(|| (Call::Remove(space, range), Answer::Effects(effects.clone())));
        effects
    }

    /// [`Core::hint`].
    pub fn hint(&mut self, space: SpaceId, range: Range<PageNr>, hint: Hint) -> Pages {
        let changed = self.core.hint(space, range.clone(), hint);
        self.note(|| (Call::Hint(space, range, hint), Answer::Changed(changed)));
        changed
    }

    /// [`Core::remap_with`].
    pub fn remap_with(
        &mut self,
        space: SpaceId,
        from: PageNr,
        to: PageNr,
        len: Pages,
        mut moved: impl FnMut(PageId, PageId, State),
    ) -> Vec<Effect> {
        if !self.recorder.is_on() {
            return self.core.remap_with(space, from, to, len, moved);
        }
        let mut all = Vec::new();
        let effects = self
            .core
            .remap_with(space, from, to, len, |old, new, state| {
                all.push(Moved { old, new, state });
                moved(old, new, state);
            });
        let call = Call::Remap {
            space,
            from,
            to,
            len,
        };
        self.note(|| (call, Answer::Remapped(all, effects.clone())));
        effects
    }

    /// [`Core::fork`].
    pub fn fork(
        &mut self,
        parent: SpaceId,
        child: SpaceId,
        mut visit: impl FnMut(PageNr, State) -> Option<EntryId>,
    ) {
        if !self.recorder.is_on() {
            return self.core.fork(parent, child, visit);
        }
        let (mut asked, mut given) = (Vec::new(), Vec::new());
        self.core.fork(parent, child, |page, state| {
            let entry = visit(page, state);
            asked.push((page, state));
            given.push(entry);
            entry
        });
        let call = Call::Fork {
            parent,
            child,
            given,
        };
        self.note(|| (call, Answer::Asked(asked)));
    }
}
