//! Shared helpers of the end-to-end tests: C programs compiled once, the real `neap` binary run with a
//! time limit on its whole tree, and a place where what was skipped is told.
//!
//! The tests compare bytes that unmodified programs produce with and without neap; no test asserts a time.
#![forbid(unsafe_code)]

mod bench;
mod cgroup;
mod dice;
mod failing;
mod fuzz;
mod neap;
mod peak;
mod place;
mod process;
mod program;
mod root;
mod run;
mod sample;
mod schema;
pub mod service;
mod skip;
mod terminal;
mod user;

pub use bench::{
    LIMIT, LIMIT_BYTES, MIB, PATIENCE, SWAPPING, allowed, bench, disk, json, leavings, names,
};
pub use cgroup::MemoryGroup;
pub use dice::Dice;
pub use failing::{Calls, End, Failing, Failure, judge};
pub use fuzz::{TARGETS, Target};
pub use neap::{Managed, Neap, neap_binary};
pub use peak::peak_of;
pub use place::{Place, Said};
pub use process::{Marker, leftovers, spawn_unmarked};
pub use program::{
    Program, library, musl_program, program, program_with, static_program, target_dir,
};
pub use root::{Root, interpreter};
pub use run::{Outcome, Run};
pub use sample::{Peak, Sampler};
pub use schema::Schema;
pub use skip::{Need, exclusive, pages, paging, require, skip, tool};
pub use terminal::Terminal;
pub use user::{OrdinaryUser, WITHOUT_RAW_CLONE, install, install_for_everyone};
