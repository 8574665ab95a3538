//! How far neap is with an address space.
//!
//! ```text
//! Due ── BeginLook ──> Looking ── EndLook ──> Managed
//!  └───────────── Inherit (a fork) ─────────────^
//! each of these ── StayNative ──> Native,  and each ── End ──> Ended
//! ```
//!
//! Beside that, a thread serves its faults or none does yet. All of it is one byte, which only [`Standing::step`] changes.

use std::sync::atomic::{AtomicU8, Ordering::AcqRel, Ordering::Acquire};

/// Whether its memory is registered, and may leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Phase {
    /// Nothing of it is registered.
    Due,
    /// One thread registers what it has, for the first time. Nobody else looks for memory before that is done.
    Looking,
    /// What it had then is registered. Later looks are the sampler's.
    Managed,
    /// Its agent said that no page may ever leave: the kernel serves it.
    Native,
    /// The memory is gone. Its threads stop at their next look.
    Ended,
}

/// What happens to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Advance {
    /// A thread serves its faults from now on.
    Serve,
    /// The same of a forked child. Its memory is registered: its parent's was.
    Inherit,
    BeginLook,
    EndLook,
    StayNative,
    End,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct State {
    phase: Phase,
    served: bool,
}

impl State {
    /// What it becomes. `None`: that cannot happen now. An advance that comes after the end, or after the agent's no,
    /// changes nothing.
    fn after(self, by: Advance) -> Option<Self> {
        let Self { phase, served } = self;
        let phase = match (phase, by) {
            (_, Advance::Serve | Advance::Inherit) if served => return None,
            (Phase::Due, Advance::Inherit) | (Phase::Looking, Advance::EndLook) => Phase::Managed,
            (Phase::Due, Advance::BeginLook) if served => Phase::Looking,
            (Phase::Due | Phase::Looking | Phase::Managed, Advance::StayNative) => Phase::Native,
            (_, Advance::End) => Phase::Ended,
            (Phase::Native | Phase::Ended, Advance::EndLook | Advance::StayNative)
            | (Phase::Native | Phase::Ended, Advance::Inherit)
            | (_, Advance::Serve) => phase,
            _ => return None,
        };
        let served = served || matches!(by, Advance::Serve | Advance::Inherit);
        Some(Self { phase, served })
    }

    fn byte(self) -> u8 {
        self.phase as u8 | u8::from(self.served) << 7
    }

    fn of(byte: u8) -> Self {
        const PHASES: [Phase; 5] = [
            Phase::Due,
            Phase::Looking,
            Phase::Managed,
            Phase::Native,
            Phase::Ended,
        ];
        let phase = PHASES[usize::from(byte & 0x7f)];
        let served = byte >> 7 == 1;
        Self { phase, served }
    }
}

pub(crate) struct Standing(AtomicU8);

impl Default for Standing {
    fn default() -> Self {
        let (phase, served) = (Phase::Due, false);
        Self(AtomicU8::new(State { phase, served }.byte()))
    }
}

impl Standing {
    fn state(&self) -> State {
        State::of(self.0.load(Acquire))
    }

    pub fn phase(&self) -> Phase {
        self.state().phase
    }

    /// Whether a thread serves its faults.
    pub fn is_served(&self) -> bool {
        self.state().served
    }

    /// Goes on. False: that cannot happen now, as another has done it.
    pub fn step(&self, by: Advance) -> bool {
        let next = |byte| Some(State::of(byte).after(by)?.byte());
        self.0.fetch_update(AcqRel, Acquire, next).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::{Advance::*, Phase::*, *};

    const PHASES: [Phase; 5] = [Due, Looking, Managed, Native, Ended];
    const ADVANCES: [Advance; 6] = [Serve, Inherit, BeginLook, EndLook, StayNative, End];

    /// What each makes of each phase, without and with a thread; `None`: refused.
    fn expected(phase: Phase, served: bool, by: Advance) -> Option<(Phase, bool)> {
        let kept = Some((phase, served));
        match by {
            Serve | Inherit if served => None,
            Serve => Some((phase, true)),
            Inherit => match phase {
                Due => Some((Managed, true)),
                Native | Ended => Some((phase, true)),
                Looking | Managed => None,
            },
            BeginLook => (phase == Due && served).then_some((Looking, true)),
            EndLook => match phase {
                Looking => Some((Managed, served)),
                Native | Ended => kept,
                Due | Managed => None,
            },
            StayNative => match phase {
                Ended => kept,
                _ => Some((Native, served)),
            },
            End => Some((Ended, served)),
        }
    }

    #[test]
    fn each_advance_of_each_state_is_as_the_table_says() {
        for phase in PHASES {
            for served in [false, true] {
                let state = State { phase, served };
                assert_eq!(State::of(state.byte()), state);
                for by in ADVANCES {
                    let after = state.after(by).map(|next| (next.phase, next.served));
                    assert_eq!(after, expected(phase, served, by), "{state:?} {by:?}");
                }
            }
        }
    }

    #[test]
    fn no_way_leads_back() {
        let rank = |phase: Phase| phase as u8;
        for phase in PHASES {
            for (served, by) in [false, true]
                .into_iter()
                .flat_map(|s| ADVANCES.map(|c| (s, c)))
            {
                let before = State { phase, served };
                let Some(after) = before.after(by) else {
                    continue;
                };
                assert!(rank(after.phase) >= rank(phase), "{before:?} {by:?}");
                assert!(after.served >= served, "{before:?} {by:?}");
            }
        }
    }

    #[test]
    fn of_many_that_begin_to_look_one_does() {
        let standing = Standing::default();
        assert!(!standing.step(BeginLook), "nobody serves its faults");
        assert!(standing.step(Serve) && !standing.step(Serve));
        let began = std::thread::scope(|scope| {
            let each: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| standing.step(BeginLook)))
                .collect();
            each.into_iter()
                .map(|one| one.join().unwrap())
                .filter(|&did| did)
                .count()
        });
        assert_eq!(began, 1);
        assert!(standing.step(StayNative) && standing.step(EndLook));
        assert_eq!(standing.phase(), Native);
    }
}
