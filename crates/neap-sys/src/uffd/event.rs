//! What the kernel tells through a userfaultfd.

use std::mem::{MaybeUninit, size_of};
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use linux_raw_sys::general as raw;
use neap_tuning::TUNING;

use super::Uffd;
use crate::errno::{Result, SysError};
use crate::kernel::Userfault;

/// One message. Events other than `Fault` hold up the thread that caused them until they are read.
#[derive(Debug)]
pub enum Event {
    /// A thread waits for a page.
    Fault {
        /// Address of the page's first byte.
        address: u64,
        /// The access is a write.
        write: bool,
        /// The page is there but write-protected.
        protected: bool,
        /// The waiting thread, in the reader's pid namespace; 0 without `Features::THREAD_ID`.
        thread: u32,
    },
    /// The process forked; the descriptor speaks for the child.
    Fork(Box<dyn Userfault>),
    /// Memory moved (mremap); already done. The new place is registered.
    Remap {
        /// Old address.
        from: u64,
        /// New address.
        to: u64,
        /// Bytes at the old place.
        len: u64,
    },
    /// Pages of the range are about to be thrown away (madvise); done only after this is read.
    Remove(Range<u64>),
    /// The range is no longer mapped; already done.
    Unmap(Range<u64>),
}

impl Uffd {
    /// Reads what is there, up to 16 messages, without waiting, and passes each to `each`. Returns how many there were.
    /// The process may have made the descriptor block its readers: from Linux 6.10 on that does not matter.
    pub fn read_events(&self, mut each: impl FnMut(Event)) -> Result<usize> {
        let mut buffer = [const { MaybeUninit::<raw::uffd_msg>::uninit() }; TUNING.system.messages];
        let got = read_at_once(self.fd.as_raw_fd(), &mut buffer);
        if got < 0 {
            return match SysError::last("read", "userfaultfd") {
                e if matches!(e.errno(), libc::EAGAIN | libc::EINTR) => Ok(0),
                e => Err(e),
            };
        }
        let count = got.unsigned_abs() / size_of::<raw::uffd_msg>();
        for message in &buffer[..count] {
            // SAFETY: the kernel wrote the first `count` messages whole.
            if let Some(event) = decode(unsafe { message.assume_init_ref() }) {
                each(event);
            }
        }
        Ok(count)
    }
}

/// One read that waits for nothing, whatever the file's flags. Kernels before 6.10 know none for this kind of file.
fn read_at_once<T>(fd: RawFd, buffer: &mut [MaybeUninit<T>]) -> isize {
    static BY_FLAGS: AtomicBool = AtomicBool::new(false);
    let to = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: size_of_val(buffer),
    };
    if !BY_FLAGS.load(Relaxed) {
        // SAFETY: the kernel writes at most `iov_len` bytes into `buffer`, which is that large.
        let got = unsafe { libc::preadv2(fd, &raw const to, 1, -1, libc::RWF_NOWAIT) };
        let refused = [libc::EOPNOTSUPP, libc::ENOSYS].map(Some);
        if got >= 0 || !refused.contains(&std::io::Error::last_os_error().raw_os_error()) {
            return got;
        }
        BY_FLAGS.store(true, Relaxed);
    }
    // SAFETY: no memory is touched; then as above.
    unsafe {
        if libc::fcntl(fd, libc::F_GETFL) & libc::O_NONBLOCK != 0 {
            return libc::read(fd, to.iov_base, to.iov_len);
        }
    }
    0
}

fn decode(message: &raw::uffd_msg) -> Option<Event> {
    // SAFETY: `event` says which member of the union the kernel wrote; all are plain integers.
    unsafe {
        match u32::from(message.event) {
            raw::UFFD_EVENT_PAGEFAULT => {
                let fault = message.arg.pagefault;
                Some(Event::Fault {
                    address: fault.address & !0xfff,
                    write: fault.flags & u64::from(raw::UFFD_PAGEFAULT_FLAG_WRITE) != 0,
                    protected: fault.flags & u64::from(raw::UFFD_PAGEFAULT_FLAG_WP) != 0,
                    thread: fault.feat.ptid,
                })
            }
            raw::UFFD_EVENT_FORK => {
                // The kernel installed this descriptor for the reader; it is owned from here on.
                let fd = OwnedFd::from_raw_fd(message.arg.fork.ufd as RawFd);
                Some(Event::Fork(Box::new(Uffd::adopt(fd))))
            }
            raw::UFFD_EVENT_REMAP => {
                let remap = message.arg.remap;
                Some(Event::Remap {
                    from: remap.from,
                    to: remap.to,
                    len: remap.len,
                })
            }
            raw::UFFD_EVENT_REMOVE => {
                let remove = message.arg.remove;
                Some(Event::Remove(remove.start..remove.end))
            }
            raw::UFFD_EVENT_UNMAP => {
                let remove = message.arg.remove;
                Some(Event::Unmap(remove.start..remove.end))
            }
            _ => None,
        }
    }
}
