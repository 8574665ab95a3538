//! Finds the command as execvp(3) would, so that neap can look at the file before it starts it.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::failure::{Failure, is_missing};

/// Where execvp looks when PATH is not set (glibc's `confstr(_CS_PATH)`).
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// The file that running `name` executes. With a slash it is taken as it is; otherwise `path`, the
/// value of PATH, is searched. The answer always holds a slash.
///
/// # Errors
/// [`Failure::NotFound`] (127) and [`Failure::NotExecutable`] (126). As in execvp, a file that may not
/// be executed does not end the search, but is what is reported in the end.
pub fn find(name: &OsStr, path: Option<&OsStr>) -> Result<PathBuf, Failure> {
    if name.as_bytes().contains(&b'/') {
        let file = PathBuf::from(name);
        return match check(&file) {
            Ok(()) => Ok(file),
            Err(source) => Err(failure(name, file, source)),
        };
    }
    if name.is_empty() {
        return Err(Failure::NotFound("''".to_owned()));
    }
    let default = OsString::from(DEFAULT_PATH);
    let mut denied = None;
    for dir in std::env::split_paths(path.unwrap_or(&default)) {
        let dir = if dir.as_os_str().is_empty() {
            PathBuf::from(".")
        } else {
            dir
        };
        let file = dir.join(name);
        match check(&file) {
            Ok(()) => return Ok(file),
            Err(error) if is_missing(&error) => {}
            Err(error) => denied = denied.or(Some((file, error))),
        }
    }
    match denied {
        Some((file, source)) => Err(failure(name, file, source)),
        None => Err(Failure::NotFound(shown(name))),
    }
}

/// The failure of executing `file`, which the user called `name`.
pub fn failure(name: &OsStr, file: PathBuf, source: io::Error) -> Failure {
    if is_missing(&source) {
        return Failure::NotFound(shown(name));
    }
    Failure::NotExecutable { path: file, source }
}

fn shown(name: &OsStr) -> String {
    name.to_string_lossy().into_owned()
}

fn check(file: &Path) -> io::Result<()> {
    if std::fs::metadata(file)?.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    Ok(access(file, Access::EXEC_OK)?)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn file(dir: &Path, name: &str, mode: u32) -> PathBuf {
        let path = dir.join(name);
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        path
    }

    fn found(name: &str, path: &[&Path]) -> Result<PathBuf, u8> {
        let path = std::env::join_paths(path).unwrap();
        find(OsStr::new(name), Some(&path)).map_err(|failure| failure.exit())
    }

    #[test]
    fn path_is_searched_in_order_past_files_that_cannot_be_executed() {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        file(first.path(), "tool", 0o644);
        let good = file(second.path(), "tool", 0o755);
        assert_eq!(found("tool", &[first.path(), second.path()]), Ok(good));
        assert_eq!(found("tool", &[first.path()]), Err(126));
        assert_eq!(found("other", &[first.path()]), Err(127));
    }

    #[test]
    fn a_name_with_a_slash_is_not_searched() {
        let dir = tempfile::tempdir().unwrap();
        let tool = file(dir.path(), "tool", 0o755);
        assert_eq!(found(tool.to_str().unwrap(), &[]), Ok(tool.clone()));
        assert_eq!(found("./no-such-tool", &[dir.path()]), Err(127));
        let below_file = tool.join("x");
        assert_eq!(found(below_file.to_str().unwrap(), &[]), Err(127));
    }

    #[test]
    fn a_directory_is_found_but_not_executable() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(found(dir.path().to_str().unwrap(), &[]), Err(126));
        fs::create_dir(dir.path().join("tool")).unwrap();
        assert_eq!(found("tool", &[dir.path()]), Err(126));
    }

    #[test]
    fn an_empty_name_and_an_empty_path_element_are_handled() {
        assert_eq!(found("", &[Path::new("/bin")]), Err(127));
        let file = find(OsStr::new("Cargo.toml"), Some(OsStr::new("")));
        // Found in the current directory, where it may not be executed.
        assert!(matches!(file, Err(Failure::NotExecutable { .. })));
    }

    #[test]
    fn without_path_the_usual_directories_are_searched() {
        let sh = find(OsStr::new("sh"), None).unwrap();
        assert_eq!(sh, Path::new("/bin/sh"));
    }
}
