//! The imagined userfaultfd.

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};

use neap_sys::{Event, Mode, Progress, Result, Stop, SysError, Userfault, Wake};

use crate::PAGE;
use crate::errno::{EAGAIN, EBUSY, EEXIST, EFAULT, EINVAL, EIO, ENOENT, ENOMEM, ESRCH};
use crate::machine::{Call, Core, Machine, SpaceNr};
use crate::pages::{Bytes, Pte};
use crate::thread::{Message, What};

/// Messages that one read takes.
const MOST: usize = 16;

/// The userfaultfd of one address space.
#[derive(Clone, Debug)]
pub struct ImaginedUffd {
    machine: Machine,
    space: SpaceNr,
}

impl ImaginedUffd {
    pub(crate) fn new(machine: Machine, space: SpaceNr) -> Self {
        Self { machine, space }
    }

    /// Whose it is.
    pub fn space(&self) -> SpaceNr {
        self.space
    }

    /// UFFDIO_MOVE by a task of the address space: how many bytes were moved, or the errno.
    pub fn move_pages(&self, target: u64, source: Range<u64>) -> std::result::Result<u64, i32> {
        self.machine.core().move_pages(self.space, target, &source)
    }

    /// Fills or protects page by page. The errno of what stopped it comes with a count only if nothing was done.
    fn each(
        &self,
        range: Range<u64>,
        wake: Option<Wake>,
        mut act: impl FnMut(&mut Core, u64) -> std::result::Result<(), i32>,
    ) -> Progress {
        self.machine.enter(Call::Page);
        let mut core = self.machine.core();
        if let Err(errno) = core.may_act(self.space, &range) {
            return progress(0, Some(errno), &range);
        }
        let (mut done, mut stop) = (0, None);
        for page in range.start / PAGE..range.end / PAGE {
            let odds = core.odds;
            if done > 0 && core.chance.happens(odds.short) {
                stop = Some(EAGAIN);
                break;
            }
            if let Err(errno) = act(&mut core, page) {
                stop = Some(errno);
                break;
            }
            done += PAGE;
        }
        if wake == Some(Wake::Now) && done > 0 {
            core.wake(self.space, &(range.start..range.start + done));
        }
        progress(done, stop, &range)
    }
}

fn progress(done: u64, stop: Option<i32>, range: &Range<u64>) -> Progress {
    let stop = match stop {
        None => None,
        Some(_) if done > 0 => Some(Stop::Retry),
        Some(errno) => Some(Stop::from_errno(errno)),
    };
    debug_assert!(stop.is_some() || done == range.end - range.start);
    Progress { done, stop }
}

impl Core {
    /// Whether a fill may be made: the mapping stands still, is there, and is registered.
    fn may_act(&mut self, nr: SpaceNr, range: &Range<u64>) -> std::result::Result<(), i32> {
        let odds = self.odds;
        if self.mm(nr).changing > 0 || self.chance.happens(odds.again) {
            return Err(EAGAIN);
        }
        if !self.mm(nr).alive {
            return Err(ESRCH);
        }
        if self.chance.happens(odds.no_memory) {
            return Err(ENOMEM);
        }
        let area = self.mm(nr).areas.whole(range);
        match area.is_some_and(|area| area.mode.is_some()) {
            true => Ok(()),
            false => Err(ENOENT),
        }
    }

    fn move_pages(
        &mut self,
        nr: SpaceNr,
        target: u64,
        source: &Range<u64>,
    ) -> std::result::Result<u64, i32> {
        let odds = self.odds;
        let mm = self.mm(nr);
        if mm.changing > 0 {
            return Err(EAGAIN);
        }
        let place = target..target + (source.end - source.start);
        let (Some((_, one)), Some((_, other))) = (mm.areas.at(source.start), mm.areas.at(target))
        else {
            return Err(ENOENT);
        };
        let whole = source.end <= one.end && place.end <= other.end;
        let alike = one.prot == other.prot && one.prot.write && one.locked == other.locked;
        if !whole || !alike || other.mode.is_none() {
            return Err(EINVAL);
        }
        let mut done = 0;
        for page in source.start / PAGE..source.end / PAGE {
            let to = page - source.start / PAGE + target / PAGE;
            if done > 0 && self.chance.happens(odds.short) {
                break;
            }
            match self.move_page(nr, page, to) {
                Ok(()) => done += PAGE,
                Err(errno) if done == 0 => return Err(errno),
                Err(_) => break,
            }
        }
        Ok(done)
    }

    fn move_page(&mut self, nr: SpaceNr, page: u64, to: u64) -> std::result::Result<(), i32> {
        let odds = self.odds;
        let mm = &mut self.mms[nr.0];
        let Some(&pte) = mm.ptes.get(&page) else {
            return Err(ENOENT);
        };
        if mm.ptes.contains_key(&to) {
            return Err(EEXIST);
        }
        let moved = match pte {
            Pte::Frame {
                exclusive: false, ..
            } => return Err(EBUSY),
            Pte::Frame { frame, .. } => Pte::own(frame),
            Pte::Zero { .. } => Pte::Zero { protected: false },
            Pte::Guard | Pte::Poison => return Err(EFAULT),
        };
        mm.ptes.remove(&page);
        mm.ptes.insert(to, moved);
        match self.chance.happens(odds.false_exists) {
            true => Err(EEXIST),
            false => Ok(()),
        }
    }

    fn protect_page(&mut self, nr: SpaceNr, page: u64, on: bool) {
        if let Some(pte) = self.mm(nr).ptes.get_mut(&page) {
            pte.protect(on);
        }
    }

    fn write_protect(&mut self, nr: SpaceNr, range: &Range<u64>, on: bool) -> Option<i32> {
        let odds = self.odds;
        let mm = &self.mms[nr.0];
        if mm.changing > 0 || self.chance.happens(odds.again) {
            return Some(EAGAIN);
        }
        if !mm.alive {
            return Some(ESRCH);
        }
        let areas = mm.areas.within(range);
        let traps = areas.iter().all(|(_, area)| area.traps_writes());
        if areas.is_empty() || !traps || !mm.areas.covers(range) {
            return Some(ENOENT);
        }
        for page in range.start / PAGE..range.end / PAGE {
            self.protect_page(nr, page, on);
        }
        None
    }

    fn register(&mut self, nr: SpaceNr, range: &Range<u64>, mode: Option<Mode>) -> Option<i32> {
        let mm = &mut self.mms[nr.0];
        if !mm.alive {
            return Some(if mode.is_some() { ENOMEM } else { ESRCH });
        }
        if mm.areas.within(range).is_empty() {
            return Some(EINVAL);
        }
        mm.areas.change(range, |area| area.mode = mode);
        if mode.is_none() {
            for page in range.start / PAGE..range.end / PAGE {
                self.protect_page(nr, page, false);
            }
            self.wake(nr, range);
        }
        None
    }

    /// Takes the next message: faults come first.
    fn take_message(&mut self, nr: SpaceNr) -> Option<What> {
        let mm = self.mm(nr);
        if let Some(fault) = mm.faults.pop_front() {
            return Some(fault.what);
        }
        let Message { from, what } = mm.events.pop_front()?;
        mm.threads[from.0].is_heard();
        if let What::Fork(child) = what {
            self.mm(child).unborn = false;
        }
        Some(what)
    }
}

fn done(call: &'static str, errno: Option<i32>) -> Result<()> {
    match errno {
        None => Ok(()),
        Some(errno) => Err(SysError::of(call, errno)),
    }
}

impl Userfault for ImaginedUffd {
    fn read_events(&self, each: &mut dyn FnMut(Event)) -> Result<usize> {
        self.machine.enter(Call::Read);
        let mut taken = Vec::new();
        {
            let mut core = self.machine.core();
            while taken.len() < MOST
                && let Some(what) = core.take_message(self.space)
            {
                taken.push(what);
            }
        }
        let count = taken.len();
        for what in taken {
            each(match what {
                What::Fault {
                    page,
                    write,
                    protected,
                } => Event::Fault {
                    address: page * PAGE,
                    write,
                    protected,
                    thread: 0,
                },
                What::Fork(child) => Event::Fork(Box::new(self.machine.uffd(child))),
                What::Remap { from, to, len } => Event::Remap { from, to, len },
                What::Remove(range) => Event::Remove(range),
                What::Unmap(range) => Event::Unmap(range),
            });
        }
        Ok(count)
    }

    fn copy(&self, target: u64, source: &[u8], wake: Wake) -> Progress {
        let range = target..target + source.len() as u64;
        let space = self.space;
        self.each(range, Some(wake), |core, page| {
            let at = (page * PAGE - target) as usize;
            match core.mm(space).ptes.get(&page) {
                None | Some(Pte::Guard) => {}
                Some(_) => return Err(EEXIST),
            }
            let bytes: &Bytes = source[at..at + PAGE as usize].try_into().map_err(|_| EIO)?;
            core.place(space, page, Box::new(*bytes));
            Ok(())
        })
    }

    fn zero(&self, range: Range<u64>, wake: Wake) -> Progress {
        let space = self.space;
        self.each(range, Some(wake), |core, page| {
            let ptes = &mut core.mm(space).ptes;
            if ptes.contains_key(&page) {
                return Err(EEXIST);
            }
            ptes.insert(page, Pte::Zero { protected: false });
            Ok(())
        })
    }

    fn poison(&self, range: Range<u64>, wake: Wake) -> Result<()> {
        let space = self.space;
        let done = self.each(range, Some(wake), |core, page| {
            let ptes = &mut core.mm(space).ptes;
            if ptes.contains_key(&page) {
                return Err(EEXIST);
            }
            ptes.insert(page, Pte::Poison);
            Ok(())
        });
        match done.stop {
            None => Ok(()),
            Some(Stop::Retry) => Err(SysError::of("UFFDIO_POISON", EAGAIN)),
            Some(Stop::Exists) => Err(SysError::of("UFFDIO_POISON", EEXIST)),
            Some(Stop::Absent) => Err(SysError::of("UFFDIO_POISON", ENOENT)),
            Some(_) => Err(SysError::of("UFFDIO_POISON", ESRCH)),
        }
    }

    fn try_nothing(&self, page: Range<u64>) -> Option<Stop> {
        self.machine.enter(Call::Page);
        let mut core = self.machine.core();
        let mm = core.mm(self.space);
        let errno = if mm.changing > 0 {
            EAGAIN
        } else if !mm.alive {
            ESRCH
        } else {
            let area = mm.areas.whole(&page);
            match area.is_some_and(|area| area.mode.is_some()) {
                true => EFAULT,
                false => ENOENT,
            }
        };
        Some(Stop::from_errno(errno))
    }

    fn protect(&self, range: Range<u64>) -> Progress {
        self.machine.enter(Call::Page);
        let stop = self.machine.core().write_protect(self.space, &range, true);
        let done = if stop.is_none() {
            range.end - range.start
        } else {
            0
        };
        progress(done, stop, &range)
    }

    fn unprotect(&self, range: Range<u64>, wake: Wake) -> Progress {
        self.machine.enter(Call::Page);
        let mut core = self.machine.core();
        let stop = core.write_protect(self.space, &range, false);
        if stop.is_none() && wake == Wake::Now {
            core.wake(self.space, &range);
        }
        let done = if stop.is_none() {
            range.end - range.start
        } else {
            0
        };
        progress(done, stop, &range)
    }

    fn register(&self, range: Range<u64>, mode: Mode) -> Result<()> {
        self.machine.enter(Call::Register);
        let errno = self.machine.core().register(self.space, &range, Some(mode));
        done("UFFDIO_REGISTER", errno)
    }

    fn unregister(&self, range: Range<u64>) -> Result<()> {
        self.machine.enter(Call::Register);
        let errno = self.machine.core().register(self.space, &range, None);
        done("UFFDIO_UNREGISTER", errno)
    }

    fn wake(&self, range: Range<u64>) -> Result<()> {
        self.machine.enter(Call::Page);
        self.machine.core().wake(self.space, &range);
        Ok(())
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        self.machine.null().as_fd()
    }
}
