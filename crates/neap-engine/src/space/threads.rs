//! Pages that hold a thread's own record in its libc.
//!
//! At the end of a thread the kernel writes there (clear_child_tid, which pthread_join waits for, and
//! robust futexes), and at that point it does not wait for a page: the write would be lost. So these
//! pages stay. libc keeps both beside the list of robust futexes, whose place the kernel tells.

use std::collections::HashSet;
use std::sync::Mutex;

use neap_units::PageNr;

use super::Space;

/// Most pages remembered: stacks are used again, so a program needs about one for each thread.
const MOST: usize = 4096;

#[derive(Debug, Default)]
pub(crate) struct ThreadPages {
    pages: Mutex<HashSet<PageNr>>,
}

impl ThreadPages {
    /// Whether the page must stay.
    pub fn holds(&self, page: PageNr) -> bool {
        self.pages.lock().expect("thread pages").contains(&page)
    }
}

impl Space {
    /// Looks for threads again. Records of those that ended are kept: libc gives their stacks to new
    /// ones.
    pub fn find_threads(&self) {
        let Some(body) = self.body.get() else {
            return;
        };
        let heads = body.process.robust_lists();
        let mut pages = self.threads.pages.lock().expect("thread pages");
        if pages.len() + heads.len() > MOST {
            pages.clear();
        }
        pages.extend(heads.into_iter().map(PageNr::containing));
    }
}
