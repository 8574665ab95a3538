//! What the engine takes for its work on an imagined machine.

use neap_tuning::TUNING;
use neap_units::Nanos;

/// Times of `neap run` on a virtual machine of two cpus with Linux 6.18. `docs/experiments/forecast.md` says what of it was
/// measured.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PlayCosts {
    /// A fault that has to be served, from the touch until the program goes on, without the pages.
    pub fault: Nanos,
    /// A page that is decompressed and filled.
    pub fill: Nanos,
    /// A page that is moved back from staging with others.
    pub back: Nanos,
    /// Fresh memory that comes through neap, for each page, over what it costs anyway.
    pub fresh: Nanos,
    /// Moving neighbours out, for each run of them.
    pub run: Nanos,
    /// Moving out and giving the frame back, for each page.
    pub out: Nanos,
    /// Compressing a page.
    pub compress: Nanos,
    /// Finding that a page is as its compressed copy.
    pub compare: Nanos,
    /// A read of the swap file.
    pub disk_read: Nanos,
    /// Writing a page to it, packed with others.
    pub disk_write: Nanos,
}

impl PlayCosts {
    /// The likely costs, with lz4.
    #[must_use]
    pub fn likely() -> Self {
        let costs = &TUNING.forecast;
        Self {
            fault: costs.fault,
            fill: costs.fill,
            back: costs.back,
            fresh: costs.fresh,
            run: costs.run,
            out: costs.out,
            compress: costs.compress,
            compare: costs.compare,
            disk_read: costs.disk_read,
            disk_write: costs.disk_write,
        }
    }

    /// So many percent of all of them.
    #[must_use]
    pub fn percent(&self, percent: u64) -> Self {
        let of = |cost: Nanos| Nanos(cost.0.saturating_mul(percent) / 100);
        Self {
            fault: of(self.fault),
            fill: of(self.fill),
            back: of(self.back),
            fresh: of(self.fresh),
            run: of(self.run),
            out: of(self.out),
            compress: of(self.compress),
            compare: of(self.compare),
            disk_read: of(self.disk_read),
            disk_write: of(self.disk_write),
        }
    }

    /// Of a turn that served faults: what the program waits for it.
    pub(super) fn of_turn(&self, done: &Tally) -> Nanos {
        let disk = if done.pswpin > 0 { self.disk_read.0 } else { 0 };
        let came = self.fill.0 * (done.zswpin + done.pswpin);
        let other = self.back.0 * done.returned + self.fresh.0 * done.fresh;
        Nanos(self.fault.0 * done.pgfault + disk + came + other)
    }

    /// Of a pass of reclaim that took so many runs of pages.
    pub(super) fn of_pass(&self, done: &Tally, runs: u64) -> Nanos {
        let moved = self.run.0 * runs + self.out.0 * done.staged + self.back.0 * done.returned;
        Nanos(moved + self.compress.0 * done.zswpout + self.compare.0 * done.clean)
    }
}

/// Counts of the engine's work so far, or within some time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub pgfault: u64,
    pub pgmajfault: u64,
    pub staged: u64,
    pub returned: u64,
    pub fresh: u64,
    pub clean: u64,
    pub zswpout: u64,
    pub zswpin: u64,
    pub pswpout: u64,
    pub pswpin: u64,
}

impl Tally {
    pub fn since(&self, before: &Self) -> Self {
        Self {
            pgfault: self.pgfault - before.pgfault,
            pgmajfault: self.pgmajfault - before.pgmajfault,
            staged: self.staged - before.staged,
            returned: self.returned - before.returned,
            fresh: self.fresh - before.fresh,
            clean: self.clean - before.clean,
            zswpout: self.zswpout - before.zswpout,
            zswpin: self.zswpin - before.zswpin,
            pswpout: self.pswpout - before.pswpout,
            pswpin: self.pswpin - before.pswpin,
        }
    }
}
