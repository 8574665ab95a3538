//! What the user chose.

use std::fmt;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use neap_control::Name;
use neap_store::{CompressorKind, ShrinkerKind};
use neap_units::{Bytes, Nanos};

/// Where compressed pages go when the pool must shrink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Swap {
    /// Nowhere: the pool is all there is.
    Off,
    /// A file without a name in `dir`, at most `size` bytes.
    Dir {
        /// Where the file is made.
        dir: PathBuf,
        /// Upper bound of its size.
        size: Bytes,
    },
}

/// What happens when the limit is reached and nothing can be reclaimed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Exhausted {
    /// The program goes over the limit, with one warning.
    #[default]
    Open,
    /// The job is killed.
    Kill,
}

/// In which order reclaim for a service's limit visits its jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Walk {
    /// By the memcg LRU: in turn, a share of each.
    #[default]
    MemcgLru,
    /// Through all of them each time, from the first on: for comparison.
    Full,
    /// From where the last walk stopped: for comparison.
    Cookie,
}

/// A limit that is somebody else's and may move: asked now and then.
pub type Follow = Arc<dyn Fn() -> Option<Bytes> + Send + Sync>;

/// What others see of a job, and how it follows a limit.
#[derive(Clone)]
pub struct Control {
    /// The name that the user gave.
    pub name: Option<Name>,
    /// The command.
    pub command: Vec<String>,
    /// Tells the limit, if it is that of something that may move.
    pub follow: Option<Follow>,
    /// Of a service: called when its last job has ended.
    pub idle: Option<Arc<dyn Fn() + Send + Sync>>,
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Everything the engine needs to know at start.
#[derive(Clone, Debug)]
pub struct Options {
    /// Anonymous memory + pool + neap's own memory stay within this.
    pub limit: Bytes,
    /// Above this memory is reclaimed, and threads that take more wait (`memory.high`); `None`: there is no such mark.
    pub high: Option<Bytes>,
    /// The swap file.
    pub swap: Swap,
    /// Pages may be written to the swap file (`memory.zswap.writeback`).
    pub writeback: bool,
    /// Most that the pool may take.
    pub pool_max: Bytes,
    /// The same as a share of the limit in percent, for a limit that moves. Not used with `pool_beside`.
    pub pool_percent: u8,
    /// The limit leaves the pool out, as cgroup v1 leaves out zswap's: nothing of it is written back before it is full.
    pub pool_beside: bool,
    /// How pages are compressed.
    pub compressor: CompressorKind,
    /// Which compressed pages go to the swap file first.
    pub shrinker: ShrinkerKind,
    /// What to do when nothing can be reclaimed.
    pub on_exhausted: Exhausted,
    /// Where the core's calls are recorded.
    pub record: Option<Arc<File>>,
    /// A process that cannot be managed ends before its program begins, with status 125.
    pub require: bool,
    /// The engine has no job of its own: jobs join it, and the limit is for all of them together.
    pub serves: bool,
    /// Whom reclaim for the limit of a service visits next.
    pub walk: Walk,
    /// Memory leaves processes that have done nothing for so long; `None`: it does not.
    pub idle: Option<Nanos>,
    /// Say what happens on stderr.
    pub verbose: bool,
    /// How the job can be looked at and steered; `None`: it cannot.
    pub control: Option<Control>,
}

impl Options {
    /// Those of a job on an imagined kernel. `swap`: bytes of its swap file; 0: it has none.
    pub(crate) fn imagined(limit: Bytes, swap: Bytes, pool_max: Bytes) -> Self {
        let swap = match swap {
            Bytes(0) => Swap::Off,
            size => Swap::Dir {
                dir: "/".into(),
                size,
            },
        };
        Self {
            limit,
            high: None,
            swap,
            writeback: true,
            pool_max,
            pool_percent: 50, // the limit does not move
            pool_beside: false,
            compressor: CompressorKind::Lz4,
            shrinker: ShrinkerKind::default(),
            on_exhausted: Exhausted::Open,
            record: None,
            require: false,
            serves: false,
            walk: Walk::default(),
            idle: None,
            verbose: false,
            control: None,
        }
    }
}
