//! The seam to the engine: the only file here that knows its types.

use std::ffi::OsString;

use serde_json::{Map, Value};

use crate::run::plan::Plan;

/// An engine at work.
#[derive(Debug)]
pub struct Engine(());

impl Engine {
    /// Starts an engine that follows `plan`.
    ///
    /// # Errors
    /// One line that says why there can be none; the command then runs unmanaged.
    pub fn start(_plan: &Plan) -> Result<Self, String> {
        Err("this build has no engine".to_owned())
    }

    /// The variables that lead the library to the engine.
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        Vec::new()
    }

    /// Processes that ever attached.
    pub fn attached(&self) -> usize {
        0
    }

    /// Ends the engine and returns its report.
    pub fn finish(self) -> Map<String, Value> {
        Map::new()
    }
}
