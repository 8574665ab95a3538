//! One binary for each fuzz target. `cargo +nightly fuzz run trace` from the top of the repository.
#![forbid(unsafe_code)]

/// Calls the target of that name.
///
/// # Panics
/// When there is none, or it found a fault.
pub fn run(name: &str, bytes: &[u8]) {
    let target = neap_tests::TARGETS.iter().find(|(known, _)| *known == name);
    let (_, target) = target.expect("a target of this name");
    target(bytes);
}
