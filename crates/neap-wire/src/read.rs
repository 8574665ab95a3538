//! Messages of a program, from bytes that may be anything: what is read here is in itself consistent. Whether it is
//! true, only the kernel can tell.

use core::ops::Range;

use bytemuck::Pod;

use crate::notes::WORDS;
use crate::{
    Attach, BLOCK_PAGES, HELLO_KEEPS, HELLO_WIPES, Hello, Imprint, MAGIC, MAX_RANGES, Reply,
    VERSION, lack, purpose,
};

const PAGE: u64 = 4096;
/// No address of a program is this high, on any machine that neap runs on.
const END: u64 = 1 << 56;

/// Why a message is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bad {
    /// It is none of ours.
    Nonsense,
    /// It is from a library of another version.
    Version,
}

/// What a program asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// See [`purpose::ATTACH`].
    Attach {
        /// The number of the space that it was forked from, or 0.
        parent: u64,
        /// The number of that one's family, or 0.
        family: u64,
        /// It has asked for [`purpose::WIPE`].
        wipes: bool,
    },
    /// See [`purpose::ADOPT`].
    Adopt {
        /// Its parent may have memory that it has not.
        keeps: bool,
    },
    /// See [`purpose::RELEASE`].
    Release(Range<u64>),
    /// See [`purpose::WIPE`].
    Wipe(Range<u64>),
    /// See [`purpose::THAW`].
    Thaw,
    /// See [`purpose::RESUME`].
    Resume,
    /// See [`purpose::FORKED`].
    Forked,
    /// See [`purpose::FORESEE`], in bytes.
    Foresee(u64),
    /// See [`purpose::FORK`].
    Fork {
        /// Where the stack of the thread is.
        stack: u64,
        /// Where the kernel writes to, or 0.
        record: u64,
    },
    /// See [`purpose::INHERIT`].
    Inherit,
}

/// What a process says of its address space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// First address of the staging area, on a page.
    pub stage: u64,
    /// The agent's memory.
    pub agent: Range<u64>,
    /// Address of the cookie page.
    pub cookie: u64,
    /// Address of its [`notes`](crate::notes); 0: it has none.
    pub notes: u64,
    /// Address of its [`Imprint`](crate::Imprint); 0: it has none.
    pub imprint: u64,
    /// One of [`lack`].
    pub lacks: u32,
    /// Why there is no userfaultfd.
    pub errno: i32,
}

fn plain<T: Pod>(bytes: &[u8]) -> Result<T, Bad> {
    bytemuck::try_pod_read_unaligned(bytes).map_err(|_| Bad::Nonsense)
}

/// Whole pages that a program may have.
fn pages(start: u64, end: u64) -> Result<Range<u64>, Bad> {
    let whole = start.is_multiple_of(PAGE) && end.is_multiple_of(PAGE);
    let fits = start <= end && end <= END;
    (whole && fits).then_some(start..end).ok_or(Bad::Nonsense)
}

/// The whole pages that a range touches, of those that a program may have. A program asks for what it likes.
pub(crate) fn touched(start: u64, end: u64) -> Range<u64> {
    let end = end.min(END).next_multiple_of(PAGE);
    let start = start / PAGE * PAGE;
    if start < end { start..end } else { 0..0 }
}

/// Reads a [`Hello`]: the number that it names, and what it wants.
pub fn request(bytes: &[u8]) -> Result<(u64, Request), Bad> {
    // The first two words are the same in every version.
    let head: [u32; 2] = plain(bytes.get(..8).unwrap_or_default())?;
    if head[0] != MAGIC {
        return Err(Bad::Nonsense);
    }
    if head[1] != VERSION {
        return Err(Bad::Version);
    }
    let hello: Hello = plain(bytes)?;
    let range = touched(hello.arg, hello.arg2);
    let request = match hello.purpose {
        purpose::ATTACH => Request::Attach {
            parent: hello.number,
            family: hello.arg,
            wipes: hello.flags & HELLO_WIPES != 0,
        },
        purpose::ADOPT => Request::Adopt {
            keeps: hello.flags & HELLO_KEEPS != 0,
        },
        purpose::RELEASE => Request::Release(range),
        purpose::WIPE => Request::Wipe(range),
        purpose::THAW => Request::Thaw,
        purpose::RESUME => Request::Resume,
        purpose::FORKED => Request::Forked,
        purpose::FORESEE => Request::Foresee(hello.arg),
        purpose::FORK => Request::Fork {
            stack: hello.arg.min(END),
            record: hello.arg2.min(END),
        },
        purpose::INHERIT => Request::Inherit,
        _ => return Err(Bad::Nonsense),
    };
    Ok((hello.number, request))
}

/// Reads an [`Attach`], of a process that is to have a staging area of so many bytes.
pub fn offer(bytes: &[u8], stage_bytes: u64) -> Result<Offer, Bad> {
    let attach: Attach = plain(bytes)?;
    if attach.magic != MAGIC {
        return Err(Bad::Nonsense);
    }
    let span =
        |start: u64, bytes: u64| pages(start, start.checked_add(bytes).ok_or(Bad::Nonsense)?);
    let offer = Offer {
        stage: attach.stage,
        agent: span(attach.agent, attach.agent_bytes)?,
        cookie: span(attach.cookie, PAGE)?.start,
        notes: attach.notes,
        imprint: attach.imprint,
        lacks: attach.lacks,
        errno: attach.errno,
    };
    span(attach.stage, stage_bytes)?;
    let lies = |at: u64, bytes: usize| {
        let end = at.checked_add(bytes as u64);
        at.is_multiple_of(8) && end.is_some_and(|end| end <= END)
    };
    let noted =
        lies(attach.notes, WORDS * size_of::<u64>()) && lies(attach.imprint, size_of::<Imprint>());
    let whole = attach.stage != 0 && !offer.agent.is_empty() && offer.cookie != 0;
    let offers = offer.lacks == lack::NOTHING;
    (noted && (whole || !offers))
        .then_some(offer)
        .ok_or(Bad::Nonsense)
}

/// Reads a [`Reply`] in place: what it counts is no more than there can be.
pub fn reply(bytes: &[u8]) -> Result<Reply, Bad> {
    let reply: Reply = plain(bytes)?;
    let counts = reply.done as usize <= MAX_RANGES && reply.pages.len() == BLOCK_PAGES as usize;
    let sound = reply.magic == MAGIC && counts && reply.errno >= 0;
    sound.then_some(reply).ok_or(Bad::Nonsense)
}

#[cfg(test)]
mod tests {
    use bytemuck::bytes_of;

    use super::*;

    fn hello(purpose: u32, arg: u64, arg2: u64) -> Hello {
        Hello {
            magic: MAGIC,
            version: VERSION,
            purpose,
            arg,
            arg2,
            number: 7,
            ..Hello::default()
        }
    }

    #[test]
    fn a_range_is_whole_pages_that_can_be() {
        let read = |arg, arg2| request(bytes_of(&hello(purpose::RELEASE, arg, arg2)));
        assert_eq!(
            read(PAGE, 3 * PAGE),
            Ok((7, Request::Release(PAGE..3 * PAGE)))
        );
        assert_eq!(
            read(PAGE + 1, 3 * PAGE - 1),
            Ok((7, Request::Release(PAGE..3 * PAGE)))
        );
        assert_eq!(read(PAGE, u64::MAX), Ok((7, Request::Release(PAGE..END))));
        for (arg, arg2) in [(2 * PAGE, PAGE), (PAGE, PAGE), (u64::MAX, u64::MAX)] {
            assert_eq!(
                read(arg, arg2),
                Ok((7, Request::Release(0..0))),
                "{arg:#x}..{arg2:#x}"
            );
        }
    }

    #[test]
    fn a_fork_names_places_that_can_be() {
        let read = |arg, arg2| request(bytes_of(&hello(purpose::FORK, arg, arg2)));
        let (stack, record) = (7, 0);
        assert_eq!(read(7, 0), Ok((7, Request::Fork { stack, record })));
        let (stack, record) = (END, END);
        assert_eq!(
            read(u64::MAX, u64::MAX),
            Ok((7, Request::Fork { stack, record }))
        );
    }

    #[test]
    fn another_version_is_known_whatever_its_length() {
        let mut other = hello(purpose::ATTACH, 0, 0);
        other.version -= 1;
        assert_eq!(request(&bytes_of(&other)[..32]), Err(Bad::Version));
        assert_eq!(
            request(&bytes_of(&hello(purpose::ATTACH, 0, 0))[..32]),
            Err(Bad::Nonsense)
        );
        assert_eq!(request(b"neap"), Err(Bad::Nonsense));
    }

    #[test]
    fn an_offer_names_memory_that_can_be() {
        let sound = Attach {
            magic: MAGIC,
            stage: 1 << 30,
            agent: 1 << 20,
            agent_bytes: 9 * PAGE,
            cookie: 1 << 16,
            ..Attach::default()
        };
        assert!(offer(bytes_of(&sound), 1 << 26).is_ok());
        let lies = [
            Attach { stage: 0, ..sound },
            Attach {
                stage: END,
                ..sound
            },
            Attach { stage: 1, ..sound },
            Attach {
                agent_bytes: u64::MAX,
                ..sound
            },
            Attach {
                agent_bytes: 0,
                ..sound
            },
            Attach { cookie: 4, ..sound },
            Attach { notes: 4, ..sound },
            Attach {
                notes: u64::MAX - 7,
                ..sound
            },
            Attach {
                imprint: 4,
                ..sound
            },
            Attach {
                imprint: u64::MAX - 7,
                ..sound
            },
            Attach { magic: 0, ..sound },
        ];
        for lie in lies {
            assert_eq!(
                offer(bytes_of(&lie), 1 << 26),
                Err(Bad::Nonsense),
                "{lie:?}"
            );
        }
        let lacks = Attach {
            magic: MAGIC,
            lacks: lack::ROOM,
            ..Attach::default()
        };
        assert!(offer(bytes_of(&lacks), 1 << 26).is_ok());
    }
}
