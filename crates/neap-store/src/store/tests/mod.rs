//! Whole-store tests: one file for each way through it.

mod accounts;
mod faults;
mod fixture;
mod known;
mod metrics;
mod model;
mod pool;
mod poor;
mod stress;
mod swap;
