//! Law 1 on an imagined kernel: programs of random steps, the engine's flow among them, all from a seed.
//!
//! A run is a list of numbers. Each is one step: a thread of a program gets on, or the engine serves faults, stages, stores,
//! looks. What is left to chance within a step comes from its number alone, so a run is repeated by its list, and a
//! shorter list that still fails is found by leaving steps out. At each call of the kernel that the engine makes, programs
//! may get on before it is answered; and where no lock is held, so may other parts of the engine.
//!
//! In a second test the parts of the engine are threads that take turns (`hands.rs`), and may stop while they hold locks.
//!
//! What is checked: each page that a thread reads is as it was written (the imagined kernel knows); nobody waits for ever;
//! no page is lost unless the disk erred; nothing of a program that ended is kept; and the core's own invariants.

mod cow;
mod disk;
mod forked;
mod found;
mod hands;
mod hints;
mod passing;
mod plan;
mod program;
mod run;
mod scene;
mod turns;
mod untold;
mod young;

use neap_imagined::Chance;

use plan::Plan;
use run::Failure;

/// Steps of one run.
const STEPS: usize = 400;

/// Makes the plan of a seed.
type Planner = fn(u64) -> Plan;

/// Runs seeds from `first` on for so long. How many steps that were.
fn search(planner: Planner, first: u64, seconds: u64) -> u64 {
    let end = neap_sys::monotonic_nanos() + seconds * 1_000_000_000;
    let (mut seed, mut steps) = (first, 0);
    while neap_sys::monotonic_nanos() < end {
        steps += STEPS as u64;
        if let Err(failure) = run::run(&planner(seed), &steps_of(seed)) {
            report(planner, seed, &failure, steps);
        }
        seed += 1;
    }
    steps
}

fn steps_of(seed: u64) -> Vec<u64> {
    let mut chance = Chance::new(seed);
    std::iter::repeat_with(|| chance.draw())
        .take(STEPS)
        .collect()
}

/// Says what failed, with as few steps as it takes.
fn report(planner: Planner, seed: u64, failure: &Failure, steps: u64) -> ! {
    let plan = planner(seed);
    let short = run::shrink(&plan, &steps_of(seed));
    let told = run::told(&plan, &short);
    let last = run::run(&plan, &short)
        .map_or_else(|failure| failure.to_string(), |()| "nothing".to_owned());
    panic!(
        "seed {seed}, after {steps} steps in all: {failure}\nNEAP_DST_SEED={seed} tries it again. {} steps are enough:\n{told}\nthen: {last}",
        short.len(),
    );
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// `NEAP_DST_SEED`: that seed alone. `NEAP_DST_SECONDS`: for so long, from seed `NEAP_DST_FIRST` on, or from one that no run had.
fn play(planner: Planner) {
    if let Some(seed) = number("NEAP_DST_SEED") {
        if let Err(failure) = run::run(&planner(seed), &steps_of(seed)) {
            report(planner, seed, &failure, STEPS as u64);
        }
        return;
    }
    let seconds = number("NEAP_DST_SECONDS");
    let first = match (number("NEAP_DST_FIRST"), seconds) {
        (Some(first), _) => first,
        (None, Some(_)) => neap_sys::monotonic_nanos(),
        (None, None) => 1,
    };
    let start = neap_sys::monotonic_nanos();
    let steps = search(planner, first, seconds.unwrap_or(4));
    let spent = (neap_sys::monotonic_nanos() - start) as f64 / 1e9;
    eprintln!("{steps} steps, {:.0} a second", steps as f64 / spent);
}

#[test]
fn no_byte_is_lost_on_an_imagined_kernel() {
    play(Plan::of);
}

/// The engine's parts are threads here: each may stop at any lock and in any call while the others get on.
#[test]
fn no_byte_is_lost_between_threads_of_the_engine() {
    play(Plan::with_threads);
}

/// Forks that the kernel does not announce, beside all else.
#[test]
fn no_byte_is_wrong_in_a_child_that_nobody_announces() {
    play(Plan::untold);
}
