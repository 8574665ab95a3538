//! Who runs under which limit, so that like is compared with like.
//!
//! Two accountings, for the kernel does not always charge a pool to the group that fills it. By the first, all
//! get the same resident memory and the pool is nobody's cost: neap's limit leaves it out, and where the kernel
//! charges a pool the group gets it added. By the second, resident memory and pool together have the same limit.
//! What has to be given or taken is the pool that a first run used.

use std::fmt;

use neap_tuning::TUNING;
use neap_units::Bytes;

use super::figures::{left_behind, too_long};
use super::missing::Missing;
use crate::choice::Contender;

/// Whose cost the pool is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accounting {
    /// Nobody's.
    Resident,
    /// Everybody's own.
    Pooled,
}

impl Accounting {
    /// Its name in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Accounting::Resident => "resident",
            Accounting::Pooled => "pooled",
        }
    }

    /// Its name in tables and in what is said of them.
    #[must_use]
    pub fn letter(self) -> &'static str {
        match self {
            Accounting::Resident => "(a)",
            Accounting::Pooled => "(b)",
        }
    }
}

/// What a run is held to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bound {
    /// `None` for plain.
    pub limit: Option<Bytes>,
    /// Neap's limit leaves its pool out.
    pub pool_beside: bool,
}

impl From<Bytes> for Bound {
    fn from(limit: Bytes) -> Bound {
        Bound {
            limit: Some(limit),
            pool_beside: false,
        }
    }
}

/// One contender under one limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entrant {
    /// What it runs under.
    pub contender: Contender,
    /// Its limit.
    pub bound: Bound,
    /// The patience in seconds, when its first run under this limit took longer; it has no other.
    pub given_up: Option<u64>,
    /// Where it stands, and how its limit came about there.
    pub stands: Vec<(Accounting, String)>,
}

impl Entrant {
    /// How its limit came about by `accounting`; `None` if it does not stand there.
    #[must_use]
    pub fn label(&self, accounting: Accounting) -> Option<&str> {
        let (_, label) = self.stands.iter().find(|(a, _)| *a == accounting)?;
        Some(label)
    }

    /// Its name, and by which accounting, where it has runs for each.
    #[must_use]
    pub fn name(&self) -> String {
        match self.stands[..] {
            [(accounting, _)] => format!("{} {}", self.contender, accounting.letter()),
            _ => self.contender.to_string(),
        }
    }
}

/// What cannot be measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Absent {
    /// Which contender.
    pub contender: Contender,
    /// By one accounting only, or by none.
    pub accounting: Option<Accounting>,
    /// Why.
    pub missing: Missing,
}

impl fmt::Display for Absent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.contender)?;
        if let Some(accounting) = self.accounting {
            write!(f, " {}", accounting.letter())?;
        }
        write!(f, ": {}", self.missing)
    }
}

/// What a first run showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct First {
    /// Of which contender.
    pub contender: Contender,
    /// The pool it used at the limit that was asked for.
    pub pool: Bytes,
    /// Whether that limit held the pool too.
    pub charged: bool,
    /// The patience in seconds, when the run took longer and was ended.
    pub late: Option<u64>,
    /// It was late for what the command left running.
    pub left_running: bool,
}

/// The entrants, in the order of their turns, and who cannot stand by one of the accountings.
#[must_use]
pub fn entrants(size: Bytes, firsts: &[First]) -> (Vec<Entrant>, Vec<Absent>) {
    let no_limit = "no limit".to_owned();
    let mut entrants = vec![Entrant {
        contender: Contender::Plain,
        bound: Bound::default(),
        given_up: None,
        stands: vec![
            (Accounting::Resident, no_limit.clone()),
            (Accounting::Pooled, no_limit),
        ],
    }];
    let mut absent = Vec::new();
    for first in firsts {
        let (resident, pooled) = first.limits(size);
        for limit in [resident, pooled] {
            match limit {
                Ok(limit) => first.stand(size, limit, &mut entrants),
                Err(gone) => absent.push(gone),
            }
        }
    }
    (entrants, absent)
}

struct Limit {
    accounting: Accounting,
    bound: Bound,
    label: String,
}

impl First {
    /// Adds who stands by `limit`: who has the same for the other accounting stands there with the same runs.
    fn stand(&self, size: Bytes, limit: Limit, entrants: &mut Vec<Entrant>) {
        let stand = (limit.accounting, limit.label);
        match entrants.last_mut() {
            Some(last) if last.contender == self.contender && last.bound == limit.bound => {
                last.stands.push(stand);
            }
            _ => entrants.push(Entrant {
                contender: self.contender,
                bound: limit.bound,
                given_up: self.late.filter(|_| limit.bound == size.into()),
                stands: vec![stand],
            }),
        }
    }

    /// The limits by both accountings.
    fn limits(&self, size: Bytes) -> (Result<Limit, Absent>, Result<Limit, Absent>) {
        let pool = self.pool;
        let as_given = |accounting, why: &str| Limit {
            accounting,
            bound: size.into(),
            label: format!("limit {size}, {why}"),
        };
        let within = as_given(Accounting::Pooled, "which holds its pool too");
        if self.leaves_out() && (self.pool != Bytes::ZERO || self.late.is_some()) {
            let beside = Limit {
                bound: Bound {
                    pool_beside: true,
                    ..size.into()
                },
                ..as_given(Accounting::Resident, "its pool beside it")
            };
            return (Ok(beside), Ok(within));
        }
        if let Some(gone) = self.unknown_pool() {
            return (Err(gone), Ok(within));
        }
        if pool == Bytes::ZERO {
            let why = match self.contender {
                Contender::Swap => "there is no pool",
                _ => "its pool was never used",
            };
            return (
                Ok(as_given(Accounting::Resident, why)),
                Ok(as_given(Accounting::Pooled, why)),
            );
        }
        if self.charged {
            return (Ok(self.more(size)), Ok(within));
        }
        let beside = as_given(Accounting::Resident, "its pool beside it");
        let left = size.saturating_sub(pool);
        let least = TUNING.limit.least;
        let less = match left < least {
            false => Ok(Limit {
                accounting: Accounting::Pooled,
                bound: left.into(),
                label: format!("limit {left} = {size} less {pool}, the pool of its first run"),
            }),
            true => Err(Absent {
                contender: self.contender,
                accounting: Some(Accounting::Pooled),
                missing: Missing::new(format!(
                    "its pool alone took {pool} in its first run, which leaves less than {least} of {size}"
                )),
            }),
        };
        (Ok(beside), less)
    }
}

impl First {
    /// The limit of a group that is charged for its pool.
    fn more(&self, size: Bytes) -> Limit {
        let (pool, more) = (self.pool, size + self.pool);
        Limit {
            accounting: Accounting::Resident,
            bound: more.into(),
            label: format!("limit {more} = {size} and {pool}, the pool of its first run"),
        }
    }

    /// Whether its limit can leave the pool out.
    fn leaves_out(&self) -> bool {
        self.contender == Contender::Neap
    }

    /// Who would get its pool added, and was ended before it told its size or before it had any.
    fn unknown_pool(&self) -> Option<Absent> {
        let seconds = self.late?;
        let (why, remedy) = match self.left_running {
            true => (
                left_behind(seconds),
                "a command that waits for what it starts",
            ),
            false => (too_long(seconds), "a longer --patience"),
        };
        (self.charged && self.pool == Bytes::ZERO).then(|| Absent {
            contender: self.contender,
            accounting: Some(Accounting::Resident),
            missing: Missing::new(format!("its first run {why}, so its pool is not known"))
                .remedy(remedy),
        })
    }
}

/// The pool that a first run used, in whole pages; one that held nothing is none.
#[must_use]
pub fn pool_used(peak: Bytes) -> Bytes {
    match peak > TUNING.bench.empty_pool {
        true => peak.pages_up().into(),
        false => Bytes::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(contender: Contender, mib: u64, charged: bool) -> First {
        First {
            contender,
            pool: Bytes::mib(mib),
            charged,
            late: None,
            left_running: false,
        }
    }

    fn limits(entrants: &[Entrant], accounting: Accounting) -> Vec<(Contender, Option<u64>)> {
        let stands = entrants.iter().filter(|e| e.label(accounting).is_some());
        stands
            .map(|e| (e.contender, e.bound.limit.map(|l| l.0 >> 20)))
            .collect()
    }

    #[test]
    fn what_holds_its_pool_gets_it_added_and_what_does_not_gets_it_taken() {
        let firsts = [
            first(Contender::Neap, 10, true),
            first(Contender::Zswap, 20, false),
            first(Contender::Swap, 0, false),
        ];
        let (entrants, absent) = entrants(Bytes::mib(64), &firsts);
        assert!(absent.is_empty());
        let resident = [
            (Contender::Plain, None),
            (Contender::Neap, Some(64)),
            (Contender::Zswap, Some(64)),
            (Contender::Swap, Some(64)),
        ];
        assert_eq!(limits(&entrants, Accounting::Resident), resident);
        let pooled = [
            (Contender::Plain, None),
            (Contender::Neap, Some(64)),
            (Contender::Zswap, Some(44)),
            (Contender::Swap, Some(64)),
        ];
        assert_eq!(limits(&entrants, Accounting::Pooled), pooled);
        // Swap without a pool stands in both with the same runs.
        assert_eq!(entrants.len(), 6);
        let label = entrants[1].label(Accounting::Resident).unwrap();
        assert_eq!(label, "limit 64MiB, its pool beside it");
        let label = entrants[4].label(Accounting::Pooled).unwrap();
        assert_eq!(
            label,
            "limit 44MiB = 64MiB less 20MiB, the pool of its first run"
        );
    }

    #[test]
    fn a_pool_that_leaves_nothing_is_named() {
        let firsts = [first(Contender::Zram, 62, false)];
        let (entrants, absent) = entrants(Bytes::mib(64), &firsts);
        assert_eq!(entrants.len(), 2);
        let text = absent[0].to_string();
        assert!(
            text.starts_with("zram (b): its pool alone took 62MiB"),
            "{text}"
        );
    }

    #[test]
    fn who_took_too_long_is_given_up_under_that_limit_only() {
        let late = |contender, mib, charged| First {
            late: Some(30),
            ..first(contender, mib, charged)
        };
        let firsts = [
            late(Contender::Zswap, 20, false),
            late(Contender::Swap, 0, false),
            late(Contender::Neap, 0, true),
            late(Contender::Zram, 0, true),
        ];
        let (entrants, absent) = entrants(Bytes::mib(64), &firsts);
        let given_up: Vec<_> = entrants
            .iter()
            .map(|e| (e.contender, e.bound.limit.map(|l| l.0 >> 20), e.given_up))
            .collect();
        let want = [
            (Contender::Plain, None, None),
            (Contender::Zswap, Some(64), Some(30)),
            (Contender::Zswap, Some(44), None),
            (Contender::Swap, Some(64), Some(30)),
            (Contender::Neap, Some(64), None),
            (Contender::Neap, Some(64), Some(30)),
            (Contender::Zram, Some(64), Some(30)),
        ];
        assert_eq!(given_up, want);
        assert_eq!(entrants[3].stands.len(), 2);
        assert!(entrants[4].bound.pool_beside && !entrants[5].bound.pool_beside);
        assert_eq!(entrants[5].label(Accounting::Resident), None);
        assert_eq!(entrants[6].label(Accounting::Resident), None);
        assert!(
            absent[0]
                .to_string()
                .starts_with("zram (a): its first run did not end within 30 s")
        );
    }

    #[test]
    fn a_pool_of_its_own_pages_alone_was_not_used() {
        assert_eq!(pool_used(Bytes(4096)), Bytes::ZERO);
        assert_eq!(pool_used(Bytes::kib(16)), Bytes::ZERO);
        assert_eq!(pool_used(Bytes(16385)), Bytes::kib(20));
    }
}
