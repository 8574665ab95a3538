//! `neap sim experiment NAME --resume FILE`: runs are kept as they end, and those that are there are not run again.

use std::fs::{self, OpenOptions};
use std::hash::{DefaultHasher, Hasher};
use std::io;
use std::path::Path;
use std::sync::Arc;

use neap_sim::{Kept, KeptFault};

use super::failure::Failure;
use crate::talk;

/// Which build of neap this is: its rules are those of its own file, whatever version it calls itself.
fn build() -> io::Result<String> {
    let mut hasher = DefaultHasher::new();
    hasher.write(&fs::read("/proc/self/exe")?);
    Ok(format!("{:016x}", hasher.finish()))
}

/// What the file keeps, of which nothing is changed but its end; none without a file.
///
/// # Errors
/// When it cannot be read or written, is another file, or is of another build.
pub fn open(path: Option<&Path>) -> Result<Option<Arc<Kept>>, Failure> {
    let Some(path) = path else {
        return Ok(None);
    };
    let read = |source| Failure::Read {
        path: path.to_owned(),
        source,
    };
    let write = |source| Failure::Write {
        path: path.to_owned(),
        source,
    };
    let before = match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        before => before.map_err(read)?,
    };
    let build = build().map_err(read)?;
    let file = OpenOptions::new().append(true).create(true).open(path);
    let file = file.map_err(write)?;
    let kept = Kept::new(&before, &build, Box::new(file)).map_err(|fault| match fault {
        KeptFault::Write(source) => write(source),
        source => Failure::Kept {
            path: path.to_owned(),
            source,
        },
    })?;
    if !kept.is_empty() {
        talk::note(&format!(
            "{}: {} runs of before are not run again",
            path.display(),
            kept.len()
        ));
    }
    Ok(Some(Arc::new(kept)))
}
