//! Forks that the kernel does not announce, in random programs: the engine and the parent get on between any two of their steps, and
//! the parent may be killed once the child is there.

use std::sync::Arc;

use neap_imagined::{Act, Chance, SpaceNr, ThreadNr};

use super::program::next;
use super::scene::{Program, Scene};
use crate::space::{Ranges, Space, Unborn};

/// A fork that is under way.
pub(super) struct Passing {
    /// Its thread, which does nothing else.
    thread: ThreadNr,
    /// None: the engine has not answered yet.
    unborn: Option<Arc<Unborn>>,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// What the child is to have is taken down.
    Announced,
    /// The child is there.
    Made(SpaceNr),
    /// It is known what has changed meanwhile.
    Closed(SpaceNr),
}

impl Scene {
    /// Whether this thread of a program forks.
    pub(super) fn forks(&self, program: &Program, thread: ThreadNr) -> bool {
        let passing = program.passing.borrow();
        passing.as_ref().is_some_and(|fork| fork.thread == thread)
    }

    /// A thread begins to fork.
    pub(super) fn announce(&self, program: &Program, thread: ThreadNr) {
        let space = program.space.borrow().clone();
        let ready = neap_sys::holds_none() && !program.turns.borrow().is_advising();
        let Some(space) = space.filter(|space| ready && space.is_managed() && !space.is_dead())
        else {
            return;
        };
        let (job, nr) = (&self.job, program.nr);
        let begun = |unborn| Passing {
            thread,
            unborn,
            stage: Stage::Announced,
        };
        *program.passing.borrow_mut() = Some(begun(None));
        let unborn = space
            .window
            .begin(job, &*space.uffd)
            .then(|| self.expect(program, &space));
        *program.passing.borrow_mut() = unborn.flatten().map(|unborn| begun(Some(unborn)));
        if self.forks(program, thread) {
            self.note(|| format!("{nr:?} {thread:?} will fork"));
        }
    }

    fn expect(&self, program: &Program, space: &Arc<Space>) -> Option<Arc<Unborn>> {
        let job = &self.job;
        let unborn = {
            let _gate = space.gate.write();
            let settled = space.quiesce(job) && !space.expects() && !space.is_changing();
            let alone = self.machine.threads(program.nr) == 1;
            // Within these calls others may have got on.
            let ready = settled && !program.turns.borrow().is_advising();
            ready.then(|| space.expect_child(job, alone))
        };
        if unborn.is_none() {
            space.window.end(job);
        }
        unborn
    }

    /// A fork gets on. False: there is none.
    pub(super) fn pass_on(&self, program: &Program, chance: &mut Chance) -> bool {
        let (unborn, stage) = match &*program.passing.borrow() {
            Some(Passing {
                unborn: Some(unborn),
                stage,
                ..
            }) => (unborn.clone(), *stage),
            passing => return passing.is_some(),
        };
        let nr = program.nr;
        let next = match stage {
            Stage::Announced if chance.happens(200) => {
                self.note(|| format!("the fork of {nr:?} takes long"));
                unborn.read_on();
                Stage::Announced
            }
            Stage::Announced => {
                let child = self.machine.fork_untold(nr);
                self.note(|| format!("{nr:?} forks {child:?}"));
                Stage::Made(child)
            }
            Stage::Made(_) | Stage::Closed(_) if chance.happens(self.plan.killed) => {
                self.note(|| format!("{nr:?} is killed"));
                self.machine.kill(nr);
                program.turns.take();
                stage
            }
            stage if !neap_sys::holds_none() => stage,
            Stage::Made(child) => match unborn.try_close(&self.job) {
                true => Stage::Closed(child),
                false => stage,
            },
            Stage::Closed(child) => {
                *program.passing.borrow_mut() = None;
                self.bear(program, child, &unborn);
                return true;
            }
        };
        if let Some(passing) = &mut *program.passing.borrow_mut() {
            passing.stage = next;
        }
        true
    }

    /// The child asks to be served.
    fn bear(&self, program: &Program, child: SpaceNr, unborn: &Unborn) {
        let (machine, parent) = (&self.machine, &unborn.parent);
        let runs = machine.threads(program.nr) > 0;
        unborn.learn(runs);
        let space = self.job.add_named(
            (unborn.id, unborn.number),
            parent.group.clone(),
            Box::new(machine.uffd(child)),
            Ranges::default(),
            Some(parent.kin.family()),
        );
        space.inherit_from(parent);
        if space
            .be_born(&self.job, &machine.view(child), unborn)
            .is_some()
        {
            self.note(|| format!("{child:?} is served"));
            self.job.start_serving(&space);
            return self.take_born();
        }
        assert!(!runs || self.plan.odds.no_memory > 0, "a child is refused");
        self.note(|| format!("{child:?} does not begin"));
        machine.end(child);
        self.job.end_space(&space);
    }

    /// What a thread that is idle does next; none: it does nothing, or forks.
    pub(super) fn next_act(
        &self,
        program: &Program,
        thread: ThreadNr,
        chance: &mut Chance,
    ) -> Option<Act> {
        let act = next(&self.machine, program.nr, &self.plan, &program.walk, chance)?;
        let programs = self.programs.borrow().len();
        if act == Act::Fork && programs > 4 {
            return None;
        }
        if act == Act::Fork && self.plan.untold {
            if program.passing.borrow().is_none() {
                self.announce(program, thread);
            }
            return None;
        }
        let turns = program.turns.borrow();
        (!turns.keep(&act, self.plan.races)).then_some(act)
    }
}
