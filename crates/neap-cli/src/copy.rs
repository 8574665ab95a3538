//! `neap copy`: neap lays itself into a folder. An image that holds neap alone has no `cp`, and the init container of a pod
//! needs one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::flags::CopyArgs;
use crate::talk;

pub fn run(args: &CopyArgs) -> ExitCode {
    match copy_into(&args.dir) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            talk::note(&format!("{}: {error}", args.dir.display()));
            ExitCode::from(1)
        }
    }
}

/// Under another name first: one that runs from there keeps its file, and none is ever half written.
fn copy_into(dir: &Path) -> io::Result<PathBuf> {
    let (fresh, file) = (dir.join(".neap.new"), dir.join("neap"));
    fs::copy(std::env::current_exe()?, &fresh)?;
    fs::rename(&fresh, &file)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_whole_and_may_be_executed() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        for _ in 0..2 {
            let file = copy_into(dir.path()).unwrap();
            let own = std::env::current_exe().unwrap();
            assert_eq!(fs::read(&file).unwrap(), fs::read(own).unwrap());
            assert_eq!(
                fs::metadata(&file).unwrap().permissions().mode() & 0o111,
                0o111
            );
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        }
        assert!(copy_into(&dir.path().join("none")).is_err());
    }
}
