//! What neap is to reach, as ratios of wall time at half of the plain peak.

use crate::rows::Class;

/// The limit that the targets are for, in percent of the plain peak.
pub const PERCENT: u64 = 50;
/// Program bytes held per byte of pool, neap's by the kernel's: at least.
pub const DENSITY: f64 = 2.0;
/// Disk bytes written, neap's by the kernel's: at most.
pub const DISK: f64 = 0.5;
/// Share of a pool that holds nothing: at most.
pub const FRAGMENTATION: f64 = 0.1;

/// The most that neap may take, as a part of what others take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Target {
    /// Of the kernel's zswap.
    pub zswap: f64,
    /// Of the best that the kernel has.
    pub best: f64,
}

/// The target of a kind of row. For real programs it is that of their geometric mean.
#[must_use]
pub fn of(class: Class) -> Option<Target> {
    let (zswap, best) = match class {
        Class::Clean => (0.2, 0.35),
        Class::Dirty => (0.35, 0.4),
        Class::Skewed | Class::Uniform => (0.45, 0.6),
        Class::Threads => (0.4, 0.7),
        Class::Fresh => (0.5, 0.6),
        Class::Real => (0.6, 0.75),
        Class::Other => return None,
    };
    Some(Target { zswap, best })
}
