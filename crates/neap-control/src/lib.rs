//! The words between a running job and who looks at it or steers it: where its socket lies, what it is called, what may be
//! asked. docs/guide/control.md has them for other programs.
#![forbid(unsafe_code)]

mod change;
mod client;
mod name;
mod part;
mod place;
mod request;
mod series;

pub use change::Change;
pub use client::{Client, Refusal, Sender};
pub use name::{BadName, Name};
pub use part::Part;
pub use place::{Folder, Found, Place, folders, jobs};
pub use request::{Call, Fault, Join, LONGEST, Request, VERSION, failure, success};
pub use series::{AGES, Column, NoSeries, SERIES, Sample, Series};
