//! The `NEAP_*` variables: one table, and how they stand in for flags.
//!
//! A flag beats its variable, a variable beats the built-in value. An empty variable is as good as
//! none.

use std::ffi::OsString;

/// One variable.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// What it does, in a line.
    pub meaning: &'static str,
}

macro_rules! variables {
    ($($(#[$doc:meta])* $id:ident = $name:literal: $meaning:literal;)*) => {
        $($(#[$doc])* pub const $id: &str = $name;)*
        /// Every variable neap reads or sets. Shown by `neap run --help`.
        pub const TABLE: &[Variable] = &[
            $(Variable { name: $name, meaning: $meaning },)*
            Variable {
                name: neap_wire::SOCKET_ENV,
                meaning: "set by neap run for the command: where the engine listens",
            },
            Variable {
                name: neap_wire::JOB_ENV,
                meaning: "set by neap run for the command: the job or service with the engine, which a run within joins",
            },
        ];
    };
}

variables! {
    /// Stands in for `--memory`.
    MEMORY = "NEAP_MEMORY": "as --memory";
    /// Stands in for `--swap-dir`.
    SWAP_DIR = "NEAP_SWAP_DIR": "as --swap-dir (--no-swap beats it)";
    /// Stands in for `--swap-size`.
    SWAP_SIZE = "NEAP_SWAP_SIZE": "as --swap-size";
    /// Stands in for `--pool-max`.
    POOL_MAX = "NEAP_POOL_MAX": "as --pool-max";
    /// Stands in for `--compressor`.
    COMPRESSOR = "NEAP_COMPRESSOR": "as --compressor";
    /// Stands in for `--shrinker`.
    SHRINKER = "NEAP_SHRINKER": "as --shrinker";
    /// Stands in for `--on-exhausted`.
    ON_EXHAUSTED = "NEAP_ON_EXHAUSTED": "as --on-exhausted";
    /// Where the engine finds the device.
    UFFD_DEVICE = "NEAP_UFFD_DEVICE": "path of the userfaultfd device (default /dev/userfaultfd)";
}

/// Where variables come from: the process's own environment, or a list in tests.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// The process's own environment.
#[must_use]
pub fn own(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variable_has_the_prefix_and_is_listed_once() {
        for (i, variable) in TABLE.iter().enumerate() {
            assert!(variable.name.starts_with("NEAP_"));
            assert!(!variable.meaning.is_empty());
            assert!(TABLE[i + 1..].iter().all(|v| v.name != variable.name));
        }
    }
}
