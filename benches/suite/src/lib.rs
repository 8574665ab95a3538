//! The suite: fixed, seeded workloads under `neap bench`, and the report of what they took.
//!
//! `work` is what is measured, and runs in processes of its own (`neap-work`). `rows` names the rows and
//! prepares what they need, `drive` runs them through `neap bench`, and `report` reads the results back.
#![forbid(unsafe_code)]

pub mod drive;
pub mod report;
pub mod rows;
pub mod work;
