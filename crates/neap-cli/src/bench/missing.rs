//! What cannot be had, always with the reason.

use std::fmt;

/// Why something cannot be measured here, and what would help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Why not.
    pub reason: String,
    /// What to try.
    pub remedy: Option<String>,
}

impl Missing {
    /// Without a remedy.
    #[must_use]
    pub fn new(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            remedy: None,
        }
    }

    /// The same with a remedy.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)?;
        match &self.remedy {
            Some(remedy) => write!(f, "; try: {remedy}"),
            None => Ok(()),
        }
    }
}
