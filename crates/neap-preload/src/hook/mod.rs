//! What the library interposes or asks to be called for: forks and userfaultfds of the program's own.

mod fork;
mod ioctl;

pub use fork::register_fork_handlers;
