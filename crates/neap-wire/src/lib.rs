//! The words that the engine and the preload library exchange over a SOCK_SEQPACKET socket.
//!
//! Every message is one plain struct of integers, sent whole in host byte order: both ends run on the
//! same machine and are installed together; [`VERSION`] keeps strangers apart.
//!
//! ```text
//! program                         engine
//!   Hello            ────────►
//!                    ◄────────   Welcome (+ the userfaultfd device, if the engine holds it open)
//!   Attach (+ fds)   ────────►
//!                    ◄────────   Ready
//!   Reply            ────────►   from the agent that it runs, or from the program why it does not
//!   from here the agent holds the program's end:
//!                    ◄────────   Command
//!   Reply            ────────►
//! ```
//!
//! Each end proves itself to the other. The engine asks the kernel who is at the other end, and the words of a process
//! name its space by a [`number`](Ready::number) that nobody guesses. The engine answers with the
//! [`proof`](Ready::proof) that belongs to it, which nobody else can tell.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(feature = "pod")]
mod hearing;
pub mod library;
pub mod notes;
#[cfg(feature = "pod")]
mod read;
#[cfg(feature = "pod")]
#[cfg(feature = "pod")]
pub use hearing::{Heard, Hearing, Note};
#[cfg(feature = "pod")]
pub use read::{Bad, Offer, Request, offer, reply, request};

/// First word of every message.
pub const MAGIC: u32 = u32::from_le_bytes(*b"neap");
/// Changes with any change of this file.
pub const VERSION: u32 = 12;
/// The environment variable that names the engine's socket: an absolute path.
pub const SOCKET_ENV: &str = "NEAP_SOCKET";

/// The variable that names the job or service with the engine, for a run within it.
pub const JOB_ENV: &str = "NEAP_JOB";
/// Longest path of a socket, in bytes.
pub const LONGEST_PATH: usize = 107;
/// Ends the path of a socket if a program that does not become managed must not run: it may be one that cannot
/// reach the engine to be told so.
pub const REQUIRED_END: &str = "-required";
/// Pages that one staging block holds. A page in which there is nothing is before them, and ends what mlockall fills.
pub const BLOCK_PAGES: u64 = 64;
/// Ranges in one command.
pub const MAX_RANGES: usize = 64;

/// Why the program's end speaks.
pub mod purpose {
    /// A process (or a forked child without inherited registration) offers its address space; `number` and `arg` are the
    /// [`number`](crate::Ready::number) and the [`family`](crate::Ready::family) of the process that it was forked
    /// from, which may have ended, or 0.
    pub const ATTACH: u32 = 1;
    /// A forked child whose userfaultfd the engine already has; `number` is that of its space, from the cookie page.
    pub const ADOPT: u32 = 2;
    /// The program will register `arg..arg2` with a userfaultfd of its own: let go of the range.
    pub const RELEASE: u32 = 3;
    /// The process will fork and the kernel cannot announce it: bring everything back and wait.
    pub const THAW: u32 = 4;
    /// The fork is over.
    pub const RESUME: u32 = 5;
    /// `arg..arg2` will be empty in forked children (MADV_WIPEONFORK): let go of the range.
    pub const WIPE: u32 = 6;
    /// The process has forked, and must not end before what its child needs of it has been kept.
    pub const FORKED: u32 = 8;
    /// The program will have `arg` bytes of new memory filled by the kernel: if that may take the job to where memory is
    /// registered, have it registered first.
    pub const FORESEE: u32 = 9;
    /// The process will fork and the kernel cannot announce it: take down what its child is to have, and let no page leave
    /// until [`FORKED`] is told on the same connection. `arg` is where the stack of the thread is, and `arg2` is 0 or where
    /// the kernel writes to each time that the thread runs: nobody brings these pages from then on. The answer is
    /// [`Welcome`](crate::Welcome), and then [`Ready`](crate::Ready) with the name of the child's space, and with the userfaultfd device if the engine holds that open.
    pub const FORK: u32 = 10;
    /// That child, which offers its address space; `number` is that of the space.
    pub const INHERIT: u32 = 11;
}

/// The process, or one that it comes from by forks, has asked for [`purpose::WIPE`].
pub const HELLO_WIPES: u32 = 1;
/// It has memory that forked children do not have (MADV_DONTFORK).
pub const HELLO_KEEPS: u32 = 2;

/// First message of a connection.
#[repr(C)]
#[cfg_attr(feature = "pod", derive(bytemuck::Pod, bytemuck::Zeroable))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hello {
    /// [`MAGIC`]
    pub magic: u32,
    /// [`VERSION`]
    pub version: u32,
    /// One of [`purpose`].
    pub purpose: u32,
    /// `HELLO_*` bits.
    pub flags: u32,
    /// Meaning depends on the purpose.
    pub arg: u64,
    /// Meaning depends on the purpose.
    pub arg2: u64,
    /// The space that speaks, or that the process was forked from; 0: none.
    pub number: u64,
}

/// What a forked child finds in its cookie page.
#[repr(C)]
#[cfg_attr(feature = "pod", derive(bytemuck::Pod, bytemuck::Zeroable))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cookie {
    /// As [`Ready::number`].
    pub number: u64,
    /// As [`Ready::proof`].
    pub proof: u64,
}

/// The program must ask for [`purpose::THAW`] around a fork.
pub const WELCOME_THAW_AROUND_FORK: u32 = 1;
/// It may ask for [`purpose::FORK`] instead.
pub const WELCOME_FORK: u32 = 2;
/// Answer to [`purpose::FORKED`] of a fork that the kernel does not announce: the thread is to say it once more, which shows that it still runs.
pub const WELCOME_AGAIN: u32 = 4;

/// Answer to [`Hello`].
#[repr(C)]
#[cfg_attr(feature = "pod", derive(bytemuck::Pod, bytemuck::Zeroable))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Welcome {
    /// [`MAGIC`]
    pub magic: u32,
    /// 0: go on; anything else: leave the program alone.
    pub refused: u32,
    /// Bytes of staging area to map.
    pub stage_bytes: u64,
    /// `WELCOME_*` bits.
    pub flags: u32,
    /// Not used.
    pub reserved: u32,
    /// The [`Ready::proof`] that belongs to [`Hello::number`]; anything if that is 0.
    pub proof: u64,
}

/// The address space, with descriptors: userfaultfd (not with [`purpose::ADOPT`]), then its own
/// /proc/self mem, pagemap, maps.
#[repr(C)]
#[cfg_attr(feature = "pod", derive(bytemuck::Pod, bytemuck::Zeroable))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attach {
    /// [`MAGIC`]
    pub magic: u32,
    /// Not used.
    pub reserved: u32,
    /// Address of the staging area.
    pub stage: u64,
    /// Address of the agent's memory (stack and state), never managed.
    pub agent: u64,
    /// Bytes of the agent's memory.
    pub agent_bytes: u64,
    /// Address of the cookie page: one page, wiped in forked children.
    pub cookie: u64,
    /// One of [`lack`]: with [`lack::NOTHING`] the rest counts, with another the process gives up. One that says
    /// nothing at all has ended.
    pub lacks: u32,
    /// Why there is no userfaultfd, if that is what it lacks.
    pub errno: i32,
    /// Address of its [`notes`], or 0.
    pub notes: u64,
    /// Address of its [`Imprint`], or 0.
    pub imprint: u64,
}

/// What the library keeps of its process where the engine can read it. A child with a copy of the memory has the same, as it was when the child
/// was made, until the library in the child has its own.
#[repr(C)]
#[cfg_attr(feature = "pod", derive(bytemuck::Pod, bytemuck::Zeroable))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Imprint {
    /// [`ARMED`] or not, and what is in the way of that, such as forks by the library.
    pub standing: u32,
    /// The [`Command::serial`] of the last command by which a page left; 0: none has.
    pub left: u32,
    /// The space that the process is in.
    pub space: Cookie,
}

/// Pages of the process may be elsewhere, and none of its threads is about to fork by way of the library: all that [`Imprint::standing`] says.
pub const ARMED: u32 = 1 << 31;

/// What keeps a process from offering its address space.
pub mod lack {
    /// Nothing.
    pub const NOTHING: u32 = 0;
    /// Addresses for the agent, the staging area or the cookie page.
    pub const ROOM: u32 = 1;
    /// A userfaultfd.
    pub const USERFAULTFD: u32 = 2;
    /// Leave to send its descriptors: too many are on their way.
    pub const PASSAGE: u32 = 3;
}

/// Answer to [`Attach`].
#[repr(C)]
#[cfg_attr(feature = "pod", derive(bytemuck::Pod, bytemuck::Zeroable))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ready {
    /// [`MAGIC`]
    pub magic: u32,
    /// 0: the space is managed; anything else: undo.
    pub refused: u32,
    /// The engine's number of the space: never 0, never used again, and known to nobody but this address space and
    /// those that are forked from it.
    pub number: u64,
    /// The number of the first space of those that come from one by forks.
    pub family: u64,
    /// What the engine will prove itself with to whoever names `number`.
    pub proof: u64,
}

/// What the agent does with each range of a [`Command`].
pub mod op {
    /// Move the pages of the ranges to consecutive pages from `target` on (UFFDIO_MOVE, which the
    /// kernel allows to tasks of the address space only). Nobody is woken. The answer tells of each
    /// page.
    pub const MOVE: u32 = 7;
    /// Stop trapping, throw the pages away, trap again: a staging block becomes empty.
    pub const RECYCLE: u32 = 1;
    /// From now on the program depends on the engine: if the engine dies, say so on the descriptor that comes along,
    /// and kill the program. Refused with EAGAIN while that would be wrong, and with EPERM if it will be for good.
    pub const ARM: u32 = 3;
    /// End.
    pub const LEAVE: u32 = 4;
    /// Fault the pages in for writing (MADV_POPULATE_WRITE, Linux 5.14), so that they are no longer
    /// shared with a forked child; no byte is touched.
    pub const UNSHARE: u32 = 6;
}

/// Addresses of the program, in bytes, page aligned.
#[repr(C)]
#[cfg_attr(feature = "pod", derive(bytemuck::Pod, bytemuck::Zeroable))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// First byte.
    pub start: u64,
    /// Length.
    pub bytes: u64,
}

/// Work for the agent.
#[repr(C)]
#[cfg_attr(feature = "pod", derive(bytemuck::Pod, bytemuck::Zeroable))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// [`MAGIC`]
    pub magic: u32,
    /// One of [`op`].
    pub op: u32,
    /// Spans that count.
    pub count: u32,
    /// Of a move by which pages leave: how many of these there were with it. 0: another command.
    pub serial: u32,
    /// Where a move goes.
    pub target: u64,
    /// The ranges.
    pub spans: [Span; MAX_RANGES],
}

/// The agent's answer to one [`Command`]; the first one, to [`Ready`], is whether there is an agent.
#[repr(C)]
#[cfg_attr(feature = "pod", derive(bytemuck::Pod, bytemuck::Zeroable))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// [`MAGIC`]
    pub magic: u32,
    /// Spans done from the first; less than asked when `errno` is not 0.
    pub done: u32,
    /// What stopped it; 0: nothing.
    pub errno: i32,
    /// The task that speaks, as its own pid namespace numbers it.
    pub thread: u32,
    /// For each page of a move, in order: 0 moved, else the errno.
    pub pages: [u8; BLOCK_PAGES as usize],
}
