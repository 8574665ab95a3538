//! From single accesses to windows: which pages were touched in each span of time.

use std::collections::{BTreeMap, HashMap};

use neap_units::{Nanos, PAGE_SHIFT};

use super::{Backing, Event, Trace, TraceArea};

/// Accesses being gathered into windows.
///
/// A window ends by its time or by its pages: a program that goes through much memory again and again
/// within the time would else seem to have gone through it once.
#[derive(Debug)]
pub struct Windows {
    /// Length of a window.
    span: Nanos,
    /// Pages of a window at most.
    most: usize,
    /// Time since the last window ended.
    passed: Nanos,
    /// Pages of this window in the order of their first touch, and whether they were written; a page is
    /// its address shifted.
    order: Vec<(u64, bool)>,
    /// Where in `order` a page is.
    open: HashMap<u64, usize>,
    /// The page touched last, and whether as a write: most accesses repeat it.
    last: Option<(u64, bool)>,
    closed: Vec<(Nanos, Vec<(u64, bool)>)>,
    /// Every page, and whether it was ever written.
    pages: BTreeMap<u64, bool>,
}

impl Windows {
    /// Windows of this length.
    #[must_use]
    pub fn new(span: Nanos) -> Windows {
        Windows {
            span: Nanos(span.0.max(1)),
            most: usize::MAX,
            passed: Nanos::ZERO,
            order: Vec::new(),
            open: HashMap::new(),
            last: None,
            closed: Vec::new(),
            pages: BTreeMap::new(),
        }
    }

    /// Of so many pages at most.
    #[must_use]
    pub fn of_pages(self, most: u32) -> Windows {
        Windows {
            most: most.max(1) as usize,
            ..self
        }
    }

    /// The bytes `address..address+size` were accessed.
    #[inline]
    pub fn access(&mut self, address: u64, size: u64, write: bool) {
        let first = address >> PAGE_SHIFT;
        let last = address.saturating_add(size.saturating_sub(1)) >> PAGE_SHIFT;
        if first == last && (self.last == Some((first, write)) || self.last == Some((first, true)))
        {
            return;
        }
        // An access of many pages is a mistake of the input: no instruction makes one.
        for page in first..=last.min(first.saturating_add(16)) {
            self.touch(page, write);
        }
        self.last = Some((last, write));
    }

    fn touch(&mut self, page: u64, write: bool) {
        if let Some(&at) = self.open.get(&page) {
            self.order[at].1 |= write;
            return;
        }
        if self.order.len() >= self.most {
            self.close();
        }
        self.open.insert(page, self.order.len());
        self.order.push((page, write));
    }

    /// Time passed.
    #[inline]
    pub fn pass(&mut self, time: Nanos) {
        self.passed = self.passed.saturating_add(time);
        if self.passed >= self.span {
            self.close();
        }
    }

    fn close(&mut self) {
        for &(page, write) in &self.order {
            *self.pages.entry(page).or_insert(false) |= write;
        }
        self.open.clear();
        let touched = std::mem::take(&mut self.order);
        self.closed.push((self.passed, touched));
        self.passed = Nanos::ZERO;
        self.last = None;
    }

    /// The trace: pages never written form a file area (text, sources), the others an anonymous one,
    /// each in the order of addresses.
    #[must_use]
    pub fn finish(mut self) -> Trace {
        self.close();
        let read = self.pages.iter().filter(|(_, written)| !**written).count() as u32;
        let mut next = [0, read];
        let mut number = HashMap::new();
        for (&page, &written) in &self.pages {
            let slot = &mut next[usize::from(written)];
            number.insert(page, *slot);
            *slot += 1;
        }
        let areas = [(Backing::File, read), (Backing::Anon, next[1] - read)];
        let areas = areas.map(|(backing, pages)| TraceArea { backing, pages });
        let mut events = Vec::new();
        for (passed, touched) in &self.closed {
            runs(&mut events, touched, &number);
            events.push(Event::Time(*passed));
        }
        Trace::build(areas.to_vec(), events)
    }
}

/// Neighbouring pages touched one after the other in the same way become one event.
fn runs(events: &mut Vec<Event>, touched: &[(u64, bool)], number: &HashMap<u64, u32>) {
    let pages: Vec<(u32, bool)> = touched
        .iter()
        .filter_map(|(page, write)| number.get(page).map(|&n| (n, *write)))
        .collect();
    for part in pages.chunk_by(|a, b| a.0 + 1 == b.0 && a.1 == b.1) {
        events.push(Event::Touch {
            first: part[0].0,
            count: part.len() as u32,
            write: part[0].1,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_keeps_each_page_once() {
        let mut windows = Windows::new(Nanos(10));
        windows.access(0x1000, 8, false);
        windows.access(0x1008, 8, false);
        windows.access(0x8ffc, 8, true);
        windows.pass(Nanos(10));
        windows.access(0x1000, 1, false);
        let trace = windows.finish();
        let touch = |first, count, write| Event::Touch {
            first,
            count,
            write,
        };
        let events: Vec<Event> = trace.events().collect();
        // One page is only read: number 0, a file's. Two are written: numbers 1 and 2.
        assert_eq!(trace.areas()[0].pages, 1);
        assert_eq!(trace.areas()[1].pages, 2);
        assert_eq!(events[0], touch(0, 1, false));
        assert_eq!(events[1], touch(1, 2, true));
        assert_eq!(
            events[2..],
            [
                Event::Time(Nanos(10)),
                touch(0, 1, false),
                Event::Time(Nanos(0))
            ]
        );
    }

    #[test]
    fn what_is_gone_through_again_within_the_time_is_touched_again() {
        let mut windows = Windows::new(Nanos(1000)).of_pages(4);
        for _ in 0..3 {
            (0..8).for_each(|page| windows.access(page << 12, 8, true));
        }
        let touch = |first| Event::Touch {
            first,
            count: 4,
            write: true,
        };
        let trace = windows.finish();
        let touches = trace
            .events()
            .filter(|event| !matches!(event, Event::Time(_)));
        let wanted = [0, 4, 0, 4, 0, 4].map(touch);
        assert!(touches.eq(wanted));
    }

    #[test]
    fn a_window_keeps_the_order_of_first_touches() {
        let mut windows = Windows::new(Nanos(1000));
        for page in [9, 3, 4, 9, 1] {
            windows.access(page << 12, 8, true);
        }
        let first = |event| match event {
            Event::Touch { first, count, .. } => Some((first, count)),
            _ => None,
        };
        let order: Vec<_> = windows.finish().events().filter_map(first).collect();
        assert_eq!(order, [(3, 1), (1, 2), (0, 1)]);
    }
}
