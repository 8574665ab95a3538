//! Starting threads of neap's own.
//!
//! The language's threads allocate a stack for signals as their first act and panic if they cannot, so that a limit of
//! address space or of mappings, met at the wrong moment, would end the job. These take all they need before they start.

use std::ffi::CString;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A thread that was started. It goes on if this is dropped.
#[derive(Debug)]
pub struct Thread {
    id: libc::pthread_t,
    ended: Arc<AtomicBool>,
    joined: bool,
}

/// What a new thread is handed.
struct Work {
    name: CString,
    run: Box<dyn FnOnce() + Send>,
    ended: Arc<AtomicBool>,
}

extern "C" fn begin(work: *mut libc::c_void) -> *mut libc::c_void {
    // SAFETY: `Thread::start` made this pointer of a box, for this thread alone.
    let work = unsafe { Box::from_raw(work.cast::<Work>()) };
    // SAFETY: the name ends in 0. A name that is refused is missed by nobody.
    unsafe { libc::pthread_setname_np(libc::pthread_self(), work.name.as_ptr()) };
    (work.run)();
    work.ended.store(true, Ordering::Release);
    std::ptr::null_mut()
}

impl Thread {
    /// Starts a thread with a stack of so many bytes. An error is that of pthread_create(3): EAGAIN where a limit of
    /// threads or of memory was met.
    pub fn start(
        name: &str,
        stack: usize,
        run: impl FnOnce() + Send + 'static,
    ) -> io::Result<Self> {
        let ended = Arc::new(AtomicBool::new(false));
        let work = Box::into_raw(Box::new(Work {
            name: CString::new(name).unwrap_or_default(),
            run: Box::new(run),
            ended: ended.clone(),
        }));
        let mut id = 0;
        // SAFETY: `begin` takes what `work` points to, and nobody else if the thread is started.
        let failed = unsafe { create(&mut id, stack, work.cast()) };
        if failed != 0 {
            // SAFETY: no thread has it.
            drop(unsafe { Box::from_raw(work) });
            return Err(io::Error::from_raw_os_error(failed));
        }
        Ok(Self {
            id,
            ended,
            joined: false,
        })
    }

    /// Has a thread of its own do the work, and waits for what comes of it.
    pub fn run<T: Send + 'static>(
        name: &str,
        stack: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        let (say, hear) = std::sync::mpsc::channel();
        Self::start(name, stack, move || drop(say.send(work())))?.join();
        hear.recv().map_err(io::Error::other)
    }

    /// Whether its work is done.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Waits for its end.
    pub fn join(mut self) {
        self.joined = true;
        // SAFETY: it is neither joined nor detached yet, since that takes `self`.
        unsafe { libc::pthread_join(self.id, std::ptr::null_mut()) };
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        if !self.joined {
            // SAFETY: as in `join`.
            unsafe { libc::pthread_detach(self.id) };
        }
    }
}

/// pthread_create(3) with a stack of this size: 0, or why not.
///
/// # Safety
/// `work` is a boxed [`Work`] that the thread may take.
unsafe fn create(id: &mut libc::pthread_t, stack: usize, work: *mut libc::c_void) -> i32 {
    let mut attributes = std::mem::MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: the attributes are initialised first, and destroyed if that succeeded; `id` is written on success only.
    unsafe {
        let failed = libc::pthread_attr_init(attributes.as_mut_ptr());
        if failed != 0 {
            return failed;
        }
        libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), stack);
        let failed = libc::pthread_create(id, attributes.as_ptr(), begin, work);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STACK: usize = 256 << 10;

    #[test]
    fn a_thread_does_its_work_under_its_name_and_ends() {
        let (say, hear) = std::sync::mpsc::channel();
        let thread = Thread::start("neap-test", STACK, move || {
            let own = format!("/proc/self/task/{}/comm", crate::own_tid());
            say.send(std::fs::read_to_string(own)).unwrap();
        });
        thread.unwrap().join();
        assert_eq!(hear.recv().unwrap().unwrap(), "neap-test\n");
    }

    #[test]
    fn a_thread_that_nobody_waits_for_goes_on() {
        let (say, hear) = std::sync::mpsc::channel();
        drop(Thread::start("neap-test", STACK, move || say.send(7).unwrap()).unwrap());
        assert_eq!(hear.recv().unwrap(), 7);
    }

    #[test]
    fn what_comes_of_its_work_is_handed_over() {
        let done = Thread::run("neap-test", STACK, crate::own_tid).unwrap();
        assert_ne!(done, crate::own_tid());
    }

    #[test]
    fn what_cannot_be_started_is_an_error_and_loses_nothing() {
        let work = Arc::new(());
        let its = work.clone();
        let huge = 1 << 60; // more than there are addresses
        let started = Thread::start("neap-test", huge, move || drop(its));
        assert_eq!(started.unwrap_err().raw_os_error(), Some(libc::EAGAIN));
        assert_eq!(Arc::strong_count(&work), 1);
    }
}
