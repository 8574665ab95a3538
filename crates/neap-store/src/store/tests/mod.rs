//! Whole-store tests: one file for each way through it.

mod fixture;
mod pool;
