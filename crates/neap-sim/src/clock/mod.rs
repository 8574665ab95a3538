//! Time: one event heap, CPUs that run tasks in turn, and tasks that do what their programs say.
//!
//! Events are kept by (time, order of being made), so that the same seed gives the same order. A CPU
//! runs its task until the next event is due, and a little longer: [`Clockwork::grain`] bounds how far
//! CPUs may run past each other, which is what makes millions of touches a second possible.

mod heap;
mod machine;
mod nodes;
mod program;
mod task;

#[cfg(test)]
mod tests;

pub use machine::{Clockwork, Machine};
pub use program::{Context, Program, Shared, Step, Touch};
pub use task::{TaskTimes, Times};
