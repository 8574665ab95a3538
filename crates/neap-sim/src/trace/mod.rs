//! Traces: what a program touched, window by window, in a compact and versioned format.
//!
//! A trace keeps which pages were touched in each window of time, not every access: within a window
//! the order does not matter to any policy here, and a compiler's two billion accesses become some
//! hundred kilobytes. Pages are numbered densely, area after area, so that nothing of the address
//! space but its order is kept.

mod forecast;
mod format;
mod import;
mod lackey;
mod oracle;
mod record;

pub use forecast::{ForecastMachine, ForecastPoint, forecast};
pub use format::{Events, TraceFault};
pub use import::Windows;
pub use lackey::{ImportFault, Lackey, from_lackey};
pub use oracle::from_oracle;
pub use record::from_record;

use neap_units::{Bytes, Nanos};

/// The longest a trace may be, 366 days: far beyond any recording, and far below what a clock of
/// nanoseconds can hold.
pub(crate) const MAX_TIME: Nanos = Nanos(366 * 86_400_000_000_000);

/// What backs an area's pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Backing {
    /// Private memory of the program.
    Anon,
    /// A file that is only read: program text, sources.
    File,
    /// Memory shared by processes.
    Shmem,
}

/// A range of page numbers with one backing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceArea {
    /// What backs it.
    pub backing: Backing,
    /// Its pages; areas follow each other, the first starts at page 0.
    pub pages: u32,
}

/// Something that happened, in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// Time passed by the program's own work.
    Time(Nanos),
    /// Pages were touched.
    Touch {
        /// The first page.
        first: u32,
        /// How many.
        count: u32,
        /// Whether they were written.
        write: bool,
    },
    /// What neap sees of pages changed. Only where it made the trace: there touches of a page that nobody
    /// watches are not in it.
    Watch {
        /// The first page.
        first: u32,
        /// How many.
        count: u32,
        /// A touch from here on is in the trace. Else: from here on, perhaps at once, one is not.
        on: bool,
    },
    /// Pages were given back; what they held is gone.
    Free {
        /// The first page.
        first: u32,
        /// How many.
        count: u32,
    },
}

/// A recorded program.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Trace {
    areas: Vec<TraceArea>,
    /// The events, encoded and known to be sound.
    body: Vec<u8>,
    /// The limit under which neap saw what it holds; `None`: it holds every access.
    seen_at: Option<Bytes>,
}

impl Trace {
    /// The areas, in the order of their pages.
    #[must_use]
    pub fn areas(&self) -> &[TraceArea] {
        &self.areas
    }

    /// Pages of all areas.
    #[must_use]
    pub fn pages(&self) -> u32 {
        self.areas.iter().map(|area| area.pages).sum()
    }

    /// Pages of private memory: those that neap manages.
    #[must_use]
    pub fn private_pages(&self) -> u32 {
        let private = |area: &&TraceArea| area.backing == Backing::Anon;
        let pages = self.areas.iter().filter(private).map(|area| area.pages);
        pages.sum()
    }

    /// The limit under which neap saw what the trace holds, if neap made it: then it is no list of
    /// accesses.
    #[must_use]
    pub fn limit(&self) -> Option<Bytes> {
        self.seen_at
    }

    /// The events.
    #[must_use]
    pub fn events(&self) -> Events<'_> {
        Events::new(&self.body)
    }

    /// The program's own time, without any fault.
    #[must_use]
    pub fn duration(&self) -> Nanos {
        let time = |event| match event {
            Event::Time(span) => span,
            _ => Nanos::ZERO,
        };
        self.events()
            .map(time)
            .fold(Nanos::ZERO, Nanos::saturating_add)
    }
}
