//! What a job is called: a word that is also the name of a file.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use thiserror::Error;

/// Most letters of a name.
const LONGEST: usize = 48;

/// The name of a job.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Name(String);

/// Why a word cannot be a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum BadName {
    /// Nothing, or too much.
    #[error("a name of a job has 1 to {LONGEST} letters")]
    Length,
    /// A letter that is none of these.
    #[error(
        "a name of a job has letters, digits and . _ - only, and begins with a letter or a digit"
    )]
    Letter,
    /// It would be taken for the number of a process.
    #[error("a name of a job is no number: that is taken for a process")]
    Number,
}

fn is_letter(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || ['.', '_', '-'].contains(&letter)
}

impl Name {
    /// A name that somebody chose.
    ///
    /// # Errors
    /// When it cannot be one.
    pub fn new(word: &str) -> Result<Self, BadName> {
        match word {
            _ if word.is_empty() || word.len() > LONGEST => Err(BadName::Length),
            _ if !word.chars().all(is_letter) => Err(BadName::Letter),
            _ if word.starts_with(['.', '_', '-']) => Err(BadName::Letter),
            _ if word.chars().all(|letter| letter.is_ascii_digit()) => Err(BadName::Number),
            _ => Ok(Self(word.to_owned())),
        }
    }

    /// The name of a job that nobody named: of its command and its process.
    #[must_use]
    pub fn of(command: &Path, pid: u32) -> Self {
        let file = command.file_name().unwrap_or_default().to_string_lossy();
        let letters = file
            .chars()
            .map(|letter| if is_letter(letter) { letter } else { '_' });
        let letters = letters.skip_while(|letter| !letter.is_ascii_alphanumeric());
        let word: String = letters.take(LONGEST - 12).collect();
        let word = if word.is_empty() {
            "job".to_owned()
        } else {
            word
        };
        Self(format!("{word}-{pid}"))
    }

    /// The word.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = BadName;

    fn from_str(word: &str) -> Result<Self, BadName> {
        Self::new(word)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_file_and_no_path_and_no_number() {
        for good in ["a", "web-1", "x.y_z", "7z"] {
            assert_eq!(Name::new(good).unwrap().as_str(), good);
        }
        for (bad, why) in [
            ("", BadName::Length),
            (&*"x".repeat(49), BadName::Length),
            ("a/b", BadName::Letter),
            ("..", BadName::Letter),
            ("-m", BadName::Letter),
            ("a b", BadName::Letter),
            ("a\u{1b}", BadName::Letter),
            ("\u{e9}", BadName::Letter),
            ("1234", BadName::Number),
        ] {
            assert_eq!(Name::new(bad), Err(why), "{bad:?}");
        }
    }

    #[test]
    fn a_job_without_a_name_has_that_of_its_command() {
        let of = |path: &str| Name::of(Path::new(path), 77).to_string();
        assert_eq!(of("/usr/bin/python3.11"), "python3.11-77");
        assert_eq!(of("my program\n"), "my_program_-77");
        assert_eq!(of("--"), "job-77");
        let long = of(&"y".repeat(300));
        assert!(Name::new(&long).is_ok(), "{long}");
    }
}
