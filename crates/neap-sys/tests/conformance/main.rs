//! Each rule that the imagined kernel has is Linux's: the same steps run on both, and both must answer the same.
//!
//! One test runs them one after the other, since a fork in one would be told to the userfaultfd of another.

#![expect(clippy::unwrap_used, reason = "a test")]

mod forks;
mod pages;
mod real;
mod scenarios;
mod world;

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

use neap_imagined::PAGE;
use scenarios::SCENARIOS;
use world::{Imagined, World};

/// Far from what this process maps by itself; on the machine all of it is unmapped after each scenario.
const BASE: u64 = 0x10_0000_0000;
/// Pages that a scenario may use.
const PAGES: u64 = 512;

fn run(name: &str, kernel: &str, world: &mut dyn World, scenario: fn(&mut dyn World, u64)) -> bool {
    let done = catch_unwind(AssertUnwindSafe(|| scenario(world, BASE)));
    if done.is_err() {
        eprintln!("{name}: not so on the {kernel} kernel");
    }
    done.is_ok()
}

#[test]
fn both_kernels_agree() {
    let mut failed = Vec::new();
    for &(name, scenario) in SCENARIOS {
        if !run(name, "imagined", &mut Imagined::new(), scenario) {
            failed.push(name);
        }
    }
    if let Some(why) = real::lacks() {
        // Past the harness, which keeps what a test prints to itself.
        let line = format!("SKIP both_kernels_agree: on the machine's kernel: {why}\n");
        let _ = std::io::stderr().write_all(line.as_bytes());
    } else {
        for &(name, scenario) in SCENARIOS {
            let mut world = real::Real::new().unwrap();
            if !run(name, "machine's", &mut world, scenario) {
                failed.push(name);
            }
            drop(world);
            real::clear(BASE..BASE + PAGES * PAGE);
        }
    }
    assert!(failed.is_empty(), "{failed:?}");
}
