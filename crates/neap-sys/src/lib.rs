//! Every system call neap makes, with its errno decoded once.
//!
//! One of the two homes of `unsafe` (the other is the preload library). Addresses of other processes
//! are plain integers here and are never dereferenced: only the kernel acts on them.

mod abort;
mod about;
mod arena;
mod code;
mod cpu;
mod descent;
mod epoll;
mod errno;
mod family;
mod file;
mod heap;
mod kernel;
mod kind;
mod lock;
mod maps;
mod measured;
mod nap;
mod numbers;
mod pagemap;
mod peer;
mod process;
mod remote;
mod smaps;
mod socket;
mod start;
mod startup;
mod task;
mod thread;
mod uffd;
mod zdict;

pub use abort::end_job_on_abort;
pub use about::{
    CpuTime, Extent, Process, Program, Sharing, Statm, anon_resident, comm, robust_list,
};
pub use arena::Arena;
pub use code::map_as_code;
pub use cpu::{Keeper, Kept, end_keep, pin_to, pin_to_next, this_cpu};
pub use descent::{Root, nearest_above};
pub use epoll::{Epoll, Interest};
pub use errno::{Result, SysError, shortage};
pub use family::{Member, Stand, descendants_of, newest_task};
pub use file::SwapFile;
pub use heap::keep_heap_small;
pub use kernel::{Clock, Files, Line, MachineClock, Userfault, View};
pub use kind::{is_proc_file, is_userfaultfd};
#[cfg(debug_assertions)]
pub use lock::turns;
pub use lock::{Alone, Gate, Held, Lock, Locked, holds_none};
pub use maps::{Mapping, Maps};
pub use measured::{Usage, own_time, start_within, swap_off, swap_on, usage_of_children};
pub use nap::Nap;
pub use numbers::names_in;
pub use pagemap::{Found, Pagemap, Word};
pub use peer::{peer_of, pidfd_of};
pub use process::{Pidfd, own_user, random, signal};
pub use remote::{Piece, Remote};
pub use smaps::Figures;
pub use socket::{Listener, Message, Peer, Sender};
pub use start::Thread;
pub use startup::{descriptor_limit, hand_down, raise_descriptor_limit};
pub use task::{End, share_memory, which_ended};
pub use thread::{
    Readiness, Waker, block_signals, give_way, is_runnable, lower_to_ordinary, monotonic_nanos,
    own_tid, raise_above_ordinary, raise_priority, raise_thread, raise_to_realtime, thread_nanos,
    wait_any, wait_readable,
};
pub use uffd::{Event, Features, Mode, Progress, Stop, Uffd, Wake};
pub use zdict::finalize_dictionary;
