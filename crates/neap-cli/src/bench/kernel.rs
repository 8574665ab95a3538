//! What a bench asks of the kernel beyond reading and writing files: a seam, so that cleaning up is
//! tested on a directory that stands for the machine.

use std::io;
use std::path::Path;
use std::time::Duration;

/// What came of taking a swap area back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Off {
    /// It is no longer used.
    Done,
    /// It was not in use.
    WasNotOn,
    /// It is still in use.
    Failed(String),
}

/// The kernel, or a stand-in.
pub trait Kernel: std::fmt::Debug {
    /// Starts to swap to `path`, before all areas of lower `priority`.
    ///
    /// # Errors
    /// The kernel's word.
    fn swap_on(&self, path: &Path, priority: u16) -> Result<(), String>;
    /// Stops to swap to `path`.
    fn swap_off(&self, path: &Path) -> Off;
    /// Ends a process by SIGKILL.
    fn kill(&self, pid: i32);
    /// Removes a control group that has no processes.
    ///
    /// # Errors
    /// Those of rmdir(2).
    fn remove_group(&self, dir: &Path) -> io::Result<()>;
    /// Lets time pass.
    fn wait(&self, time: Duration);
}

/// The kernel itself.
#[derive(Clone, Copy, Debug)]
pub struct Linux;

/// SIGKILL of signal(7).
const SIGKILL: i32 = 9;
/// swapoff: the path is no swap area in use (EINVAL), or is not there (ENOENT).
const NOT_ON: [i32; 2] = [22, 2];

impl Kernel for Linux {
    fn swap_on(&self, path: &Path, priority: u16) -> Result<(), String> {
        neap_sys::swap_on(path, priority).map_err(|error| error.to_string())
    }

    fn swap_off(&self, path: &Path) -> Off {
        match neap_sys::swap_off(path) {
            Ok(()) => Off::Done,
            Err(error) if NOT_ON.contains(&error.errno()) => Off::WasNotOn,
            Err(error) => Off::Failed(error.to_string()),
        }
    }

    fn kill(&self, pid: i32) {
        // It may have ended by itself.
        let _ = neap_sys::signal(pid, SIGKILL);
    }

    fn remove_group(&self, dir: &Path) -> io::Result<()> {
        std::fs::remove_dir(dir)
    }

    fn wait(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

#[cfg(test)]
pub mod fake {
    //! A kernel that only remembers.
    use std::cell::RefCell;
    use std::collections::BTreeSet;
    use std::fs::File;
    use std::path::PathBuf;

    use super::*;

    /// Swap areas in use, and what was asked for in order.
    #[derive(Debug, Default)]
    pub struct Fake {
        /// Areas in use.
        pub swaps: RefCell<BTreeSet<PathBuf>>,
        /// Every call that changes something.
        pub calls: RefCell<Vec<String>>,
        /// swapoff fails.
        pub sticky: bool,
        /// Closed when time passes.
        pub held: RefCell<Option<File>>,
    }

    impl Fake {
        fn called(&self, what: &str, path: &Path) {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            self.calls.borrow_mut().push(format!("{what} {name}"));
        }
    }

    impl Kernel for Fake {
        fn swap_on(&self, path: &Path, _priority: u16) -> Result<(), String> {
            self.called("swapon", path);
            self.swaps.borrow_mut().insert(path.to_owned());
            Ok(())
        }

        fn swap_off(&self, path: &Path) -> Off {
            self.called("swapoff", path);
            match (self.sticky, self.swaps.borrow_mut().remove(path)) {
                (true, _) => Off::Failed("no memory".to_owned()),
                (_, true) => Off::Done,
                (_, false) => Off::WasNotOn,
            }
        }

        fn kill(&self, pid: i32) {
            self.calls.borrow_mut().push(format!("kill {pid}"));
        }

        fn remove_group(&self, dir: &Path) -> io::Result<()> {
            self.called("rmdir", dir);
            // The files of a real group do not keep it.
            std::fs::remove_dir_all(dir)
        }

        fn wait(&self, _time: Duration) {
            self.held.borrow_mut().take();
        }
    }
}
