//! Whether one process of a job works alone: others wait for it, as a shell does.

use std::collections::HashMap;
use std::sync::Arc;

use neap_tuning::TUNING;
use neap_units::SpaceId;

use crate::space::Space;

/// Who was at work lately.
#[derive(Default)]
pub(super) struct Company {
    looked: u64,
    /// Processor time so far, in nanoseconds, by space.
    taken: HashMap<SpaceId, u64>,
    alone: bool,
}

impl Company {
    /// Whether at most one of the spaces is at work. Who cannot be asked is taken to be.
    pub fn is_alone(&mut self, spaces: &[Arc<Space>]) -> bool {
        if spaces.len() <= 1 {
            return true;
        }
        let now = neap_sys::monotonic_nanos();
        if now - self.looked > TUNING.reclaim.company.0 {
            let taken = |space: &Arc<Space>| {
                let body = space.body.get().filter(|body| body.same_pids)?;
                body.process.cpu_nanos()
            };
            self.look(now, spaces.iter().map(|space| (space.id, taken(space))));
        }
        self.alone
    }

    fn look(&mut self, now: u64, taken: impl Iterator<Item = (SpaceId, Option<u64>)>) {
        let idle = TUNING.reclaim.idle.of(now - self.looked);
        let mut before = std::mem::take(&mut self.taken);
        let mut active = 0;
        for (space, taken) in taken {
            let spent = taken.zip(before.remove(&space));
            active += usize::from(spent.is_none_or(|(now, then)| now.saturating_sub(then) > idle));
            self.taken.extend(taken.map(|taken| (space, taken)));
        }
        self.looked = now;
        self.alone = active <= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Looks 50 ms apart at processor times in milliseconds.
    fn looks(times: &[[Option<u64>; 2]]) -> Vec<bool> {
        let mut company = Company::default();
        let mut now = 0;
        let look = |pair: &[Option<u64>; 2]| {
            now += 50 * MS;
            let spaces = [SpaceId(0), SpaceId(1)].into_iter();
            company.look(now, spaces.zip(pair.map(|ms| ms.map(|ms| ms * MS))));
            company.alone
        };
        times.iter().map(look).collect()
    }

    #[test]
    fn who_waits_is_no_company() {
        let seen = looks(&[
            [Some(10), Some(0)],
            [Some(10), Some(45)],
            [Some(11), Some(90)],
            [Some(11), Some(90)],
        ]);
        assert_eq!(seen, [false, true, false, true]);
    }

    #[test]
    fn who_is_new_or_cannot_be_asked_is_company() {
        let seen = looks(&[
            [Some(10), Some(0)],
            [Some(10), None],
            [Some(10), None],
            [Some(10), Some(90)],
            [Some(10), Some(99)],
        ]);
        assert_eq!(seen, [false, true, true, true, true]);
    }
}
