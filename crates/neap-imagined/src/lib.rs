//! An imagined kernel, so that the engine's flow can be tested without one.
//!
//! It has address spaces of mappings and pages (real bytes), userfaultfd with its events and errors, forks with copy on
//! write, and an agent. A program's call is cut where another thread could come in between on Linux: before its change, before
//! each thing that it tells, until that is read, and before what it does after. Whoever drives it chooses which thread takes
//! its next step ([`Machine::step`]); what is left to chance comes from a seed.
//!
//! Each rule here is Linux's as a test has seen it there: `crates/neap-sys/tests/conformance` runs the same steps on
//! both kernels.
//!
//! Beside what the kernel has, each page has its *truth*: what the program wrote there, whoever carried it since. A read that
//! finds anything else is kept as [`Machine::wrong`].
#![forbid(unsafe_code)]

mod access;
mod agent;
mod areas;
mod chance;
mod change;
mod machine;
mod pages;
mod thread;
mod uffd;
mod view;

pub use access::Access;
pub use agent::ImaginedAgent;
pub use areas::Prot;
pub use chance::{Chance, Odds};
pub use machine::{Call, Machine, SpaceNr, ThreadNr};
pub use thread::{Act, Outcome, Ran};
pub use uffd::ImaginedUffd;
pub use view::ImaginedView;

/// Bytes of a page.
pub const PAGE: u64 = 4096;

/// The errnos that this kernel answers with.
pub mod errno {
    /// No such page or mapping.
    pub const ENOENT: i32 = 2;
    /// The address space is gone.
    pub const ESRCH: i32 = 3;
    /// A signal came.
    pub const EINTR: i32 = 4;
    /// What was asked for cannot be read there.
    pub const EIO: i32 = 5;
    /// Not now.
    pub const EAGAIN: i32 = 11;
    /// No memory, or nothing mapped.
    pub const ENOMEM: i32 = 12;
    /// A bad address.
    pub const EFAULT: i32 = 14;
    /// The page is shared or pinned.
    pub const EBUSY: i32 = 16;
    /// There is a page already.
    pub const EEXIST: i32 = 17;
    /// The mappings do not allow it.
    pub const EINVAL: i32 = 22;
}
