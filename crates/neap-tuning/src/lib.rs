//! What neap chose: sizes, shares, times and counts, in one list.
//!
//! [`TUNING`] is a constant, so reading a value costs nothing. `neap doctor --tuning` prints [`Tuning::list`], which comes
//! from the same definitions. The first line of a field's comment says what it is; the lines below say why it has this value,
//! or "Chosen." where nobody measured it. What the kernel, an ABI or a format gives is not here: that stands where it is used.
#![forbid(unsafe_code)]

mod agents;
mod bench;
mod changes;
mod command;
mod control;
mod dictionaries;
mod faults;
mod forecast;
mod freeze;
mod hints;
mod idle;
mod library;
mod limit;
mod loads;
mod looks;
mod picking;
mod pool;
mod reclaim;
mod report;
mod swap;
mod system;
mod talk;
mod value;

pub use agents::Agents;
pub use bench::Bench;
pub use changes::Changes;
pub use command::Command;
pub use control::Control;
pub use dictionaries::Dictionaries;
pub use faults::Faults;
pub use forecast::Forecast;
pub use freeze::Freeze;
pub use hints::Hints;
pub use idle::Idle;
pub use library::Library;
pub use limit::Limit;
pub use loads::Loads;
pub use looks::Looks;
pub use picking::Picking;
pub use pool::Pool;
pub use reclaim::Reclaim;
pub use report::Report;
pub use swap::Swap;
pub use system::System;
pub use talk::Talk;
pub use value::{Share, Value};

/// A value, with the words on it.
#[derive(Clone, Copy, Debug)]
pub struct Tunable {
    /// Its group and its own name.
    pub name: &'static str,
    /// What it is.
    pub value: Value,
    /// The comment at its definition.
    comment: &'static str,
}

impl Tunable {
    /// What it is, in a line.
    #[must_use]
    pub fn meaning(&self) -> &'static str {
        self.comment.lines().next().unwrap_or_default().trim()
    }

    /// Why it has this value.
    #[must_use]
    pub fn reason(&self) -> String {
        let lines = self.comment.lines().skip(1).map(str::trim);
        lines.collect::<Vec<_>>().join(" ")
    }
}

/// One group: the struct, its values, and the list of them.
macro_rules! group {
    ($(#[doc = $about:literal])+ $path:ident: $group:ident {
        $($(#[doc = $comment:literal])+ $field:ident: $kind:ty = $value:expr;)+
    }) => {
        $(#[doc = $about])+
        #[derive(Clone, Copy, Debug)]
        pub struct $group {
            $($(#[doc = $comment])+ pub $field: $kind,)+
        }

        impl $group {
            pub(crate) const CHOSEN: Self = Self { $($field: $value,)+ };

            fn list(&self) -> Vec<$crate::Tunable> {
                vec![$($crate::Tunable {
                    name: concat!(stringify!($path), ".", stringify!($field)),
                    value: self.$field.into(),
                    comment: concat!($($comment, "\n"),+),
                },)+]
            }
        }

        impl $crate::Tuning {
            pub(crate) fn $path(&self) -> Vec<$crate::Tunable> {
                self.$path.list()
            }
        }
    };
}
pub(crate) use group;

macro_rules! tuning {
    ($($(#[doc = $about:literal])+ $path:ident: $group:ident;)+) => {
        /// All groups.
        #[derive(Clone, Copy, Debug)]
        pub struct Tuning {
            $($(#[doc = $about])+ pub $path: $group,)+
        }

        /// What neap chose.
        pub const TUNING: Tuning = Tuning {
            $($path: $group::CHOSEN,)+
        };

        impl Tuning {
            /// Every value, by group.
            #[must_use]
            pub fn list(&self) -> Vec<Tunable> {
                [$(self.$path()),+].concat()
            }
        }
    };
}

tuning! {
    /// How the limit of a job is held.
    limit: Limit;
    /// How often neap looks at the job, its mappings, and what its processes share.
    looks: Looks;
    /// Changes of address spaces.
    changes: Changes;
    /// Which pages leave, where neap learns of accesses by faults only.
    picking: Picking;
    /// Picking pages, staging and storing them, and when that is in vain.
    reclaim: Reclaim;
    /// Agents: how long they are waited for, and what each takes.
    agents: Agents;
    /// Serving faults: what is filled, and where the thread that serves runs.
    faults: Faults;
    /// Loading pages: readahead, and copies that stay in the pool.
    loads: Loads;
    /// Dictionaries of a program's own pages.
    dictionaries: Dictionaries;
    /// Meeting processes, and doing what their libraries ask for.
    talk: Talk;
    /// The pool of compressed pages, and the tables of what is stored.
    pool: Pool;
    /// The swap file.
    swap: Swap;
    /// Calls into the kernel: batches, and how often what fails is tried.
    system: System;
    /// The library in each program.
    library: Library;
    /// What neap says, and what it records.
    report: Report;
    /// Looking at a job and steering it while it runs.
    control: Control;
    /// Stopping a job and taking its memory out.
    freeze: Freeze;
    /// Taking memory out of processes that do nothing, before any limit is met.
    idle: Idle;
    /// What programs say of their memory (madvise).
    hints: Hints;
    /// The command: `neap run` and `neap doctor`.
    command: Command;
    /// `neap bench`.
    bench: Bench;
    /// What the forecast of `neap sim` takes neap to cost.
    forecast: Forecast;
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_value_is_listed_once_with_its_meaning_and_its_reason() {
        let list = TUNING.list();
        let names: BTreeSet<_> = list.iter().map(|tunable| tunable.name).collect();
        assert_eq!(names.len(), list.len(), "a name is there twice");
        for tunable in list {
            let (meaning, reason) = (tunable.meaning(), tunable.reason());
            assert!(meaning.ends_with('.'), "{}: {meaning:?}", tunable.name);
            assert!(reason.ends_with('.'), "{}: {reason:?}", tunable.name);
        }
    }
}
