//! Facts about the machine, read from files.
//!
//! Every reader takes a [`Root`], so that a temporary directory is a fake machine.

mod cgroup;
mod filesystem;
mod memory;
mod process;

use std::io;
use std::path::{Path, PathBuf};

pub use cgroup::{Cgroup, memory_hierarchy, own_memory_cgroup};
pub use filesystem::{Filesystem, Kind, filesystem_of};
pub use memory::{kernel_release, ram, transparent_huge_pages};
pub use process::{
    children, has_terminal, ignored_signals, is_stopped, outlive_file_limit, own_ticks,
    process_group,
};

/// Where the machine's files begin: `/`, or a directory that stands for it in tests.
#[derive(Clone, Debug)]
pub struct Root(PathBuf);

impl Root {
    /// The machine itself.
    #[must_use]
    pub fn real() -> Self {
        Self(PathBuf::from("/"))
    }

    /// A directory that stands for `/`.
    #[cfg(test)]
    #[must_use]
    pub fn at(dir: &Path) -> Self {
        Self(dir.to_owned())
    }

    /// The path of absolute `path` under this root.
    #[must_use]
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.0.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// The text of a file.
    ///
    /// # Errors
    /// Those of open(2) and read(2), and text that is not UTF-8.
    pub fn read(&self, path: impl AsRef<Path>) -> io::Result<String> {
        std::fs::read_to_string(self.path(path))
    }
}

#[cfg(test)]
pub mod fake {
    //! Fake machines for tests.
    use super::{Path, Root};

    /// A directory with the given files in it, and the root that stands for it.
    pub fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::at(dir.path());
        for (path, text) in files {
            write(&root, path, text);
        }
        (dir, root)
    }

    /// Adds or replaces one file.
    pub fn write(root: &Root, path: &str, text: &str) {
        let path = root.path(path);
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).unwrap();
        std::fs::write(path, text).unwrap();
    }
}
