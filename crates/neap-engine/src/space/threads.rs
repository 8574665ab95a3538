//! Pages that hold a thread's own record in its libc.
//!
//! At the end of a thread the kernel writes there (clear_child_tid, which pthread_join waits for, and
//! robust futexes), and at that point it does not wait for a page: the write would be lost. So these
//! pages stay. libc keeps both beside the list of robust futexes, whose place the kernel tells.

use std::collections::HashSet;

use neap_sys::Lock;
use neap_tuning::TUNING;
use neap_units::PageNr;

use super::Space;

#[derive(Debug, Default)]
pub(crate) struct ThreadPages {
    pages: Lock<HashSet<PageNr>, 6>,
    known: Lock<Known, 4>,
}

/// The threads that were asked already.
#[derive(Debug, Default)]
struct Known {
    threads: HashSet<i32>,
    turn: i32,
}

impl ThreadPages {
    /// Whether the page must stay.
    pub fn holds(&self, page: PageNr) -> bool {
        self.pages.lock().contains(&page)
    }
}

impl Space {
    /// Looks for threads again. Records of those that ended are kept: libc gives their stacks to new
    /// ones.
    pub fn find_threads(&self) {
        let Some(body) = self.body.get() else {
            return;
        };
        let mut known = self.threads.known.lock();
        let turn = (known.turn + 1) % TUNING.looks.thread_turns;
        let threads = body.process.threads();
        let ask = |tid: &i32| Some((*tid, neap_sys::robust_list(*tid)?));
        let is_left =
            |tid: &&i32| **tid % TUNING.looks.thread_turns != turn && known.threads.contains(*tid);
        let (left, due): (Vec<i32>, Vec<i32>) = threads.iter().partition(is_left);
        let mut found: Vec<(i32, u64)> = due.iter().filter_map(ask).collect();
        let mut pages = self.threads.pages.lock();
        if pages.len() + found.len() > TUNING.looks.thread_pages + threads.len() {
            pages.clear();
            found.extend(left.iter().filter_map(ask));
        }
        pages.extend(found.iter().map(|&(_, head)| PageNr::containing(head)));
        drop(pages);
        known.threads = left
            .into_iter()
            .chain(found.into_iter().map(|(tid, _)| tid))
            .collect();
        known.turn = turn;
    }
}
