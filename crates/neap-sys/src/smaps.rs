//! What the kernel tells of each mapping of a process (`/proc/PID/smaps`). Slow: it walks every page for that.

use std::ops::Range;

use crate::about::Process;

/// One mapping, and how much of each kind of memory it has, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Addresses, in bytes.
    pub range: Range<u64>,
    /// May be written.
    pub write: bool,
    /// May be executed.
    pub exec: bool,
    /// Has a file behind it.
    pub file: bool,
    /// Anonymous pages in memory.
    pub anonymous: u64,
    /// Pages that other processes have as well.
    pub shared: u64,
    /// All pages, each divided by how many processes have it.
    pub proportional: u64,
    /// Pages that may not leave (mlock).
    pub locked: u64,
    /// Flags as the kernel abbreviates them, with spaces between.
    flags: String,
}

impl Figures {
    /// Whether a userfaultfd gets the faults of absent pages.
    pub fn traps_missing(&self) -> bool {
        self.has("um")
    }

    fn has(&self, flag: &str) -> bool {
        self.flags.split(' ').any(|other| other == flag)
    }
}

impl Process {
    /// Its mappings, in order of address; `None` if they cannot be read.
    pub fn figures(&self) -> Option<Vec<Figures>> {
        Some(parse(&self.text("smaps").ok()?))
    }

    /// Its mappings that were advised sequential or random (`sr` and `rr` in VmFlags); `None` if they cannot be read.
    pub fn without_recency(&self) -> Option<Vec<Range<u64>>> {
        Some(without_recency(self.figures()?))
    }

    /// Its mappings that a forked child finds empty (`wf` in VmFlags); `None` if they cannot be read.
    pub fn wiped_on_fork(&self) -> Option<Vec<Range<u64>>> {
        let all = self.figures()?.into_iter();
        let wiped = all.filter(|mapping| mapping.has("wf"));
        Some(wiped.map(|mapping| mapping.range).collect())
    }
}

/// Ranges of mappings that have no recency (kernel: vma_has_recency).
fn without_recency(all: Vec<Figures>) -> Vec<Range<u64>> {
    let advised = all.into_iter();
    let advised = advised.filter(|mapping| mapping.has("sr") || mapping.has("rr"));
    advised.map(|mapping| mapping.range).collect()
}

fn parse(text: &str) -> Vec<Figures> {
    let mut found: Vec<Figures> = Vec::new();
    for line in text.lines() {
        if let Some(mapping) = parse_head(line) {
            found.push(mapping);
        } else if let (Some(mapping), Some((name, value))) =
            (found.last_mut(), line.split_once(':'))
        {
            let bytes = || {
                value
                    .trim()
                    .trim_end_matches(" kB")
                    .parse()
                    .map_or(0, |kib: u64| kib << 10)
            };
            match name {
                "Anonymous" => mapping.anonymous = bytes(),
                "Shared_Clean" | "Shared_Dirty" => mapping.shared += bytes(),
                "Pss" => mapping.proportional = bytes(),
                "Locked" => mapping.locked = bytes(),
                "VmFlags" => value.clone_into(&mut mapping.flags),
                _ => {}
            }
        }
    }
    found
}

/// `start-end perms offset dev inode name`
fn parse_head(line: &str) -> Option<Figures> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let range = u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?;
    let rights = words.next()?;
    let inode = words.nth(2)?;
    Some(Figures {
        range,
        write: rights.contains('w'),
        exec: rights.contains('x'),
        file: inode != "0",
        ..Figures::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_are_read_with_their_figures_and_flags() {
        let text = "7f00-7f10 rw-p 00000000 00:00 0     [heap]\nSize: 64 kB\nPss: 30 kB\nShared_Clean: 4 kB\nShared_Dirty: 8 kB\n\
            Anonymous:   40 kB\nLocked: 12 kB\nVmFlags: rd wr um wf\n\
            8f00-8f10 r-xp 00000000 fd:01 77 /lib/a: b\nAnonymous: 0 kB\nVmFlags: rd ex\n";
        let all = parse(text);
        assert_eq!(all.len(), 2);
        assert_eq!(
            (all[0].range.clone(), all[1].range.clone()),
            (0x7f00..0x7f10, 0x8f00..0x8f10)
        );
        assert_eq!(
            (all[0].anonymous, all[0].shared, all[0].locked),
            (40 << 10, 12 << 10, 12 << 10)
        );
        assert_eq!(all[0].proportional, 30 << 10);
        assert!(
            all[0].write
                && !all[0].exec
                && !all[0].file
                && all[0].traps_missing()
                && all[0].has("wf")
        );
        assert!(!all[1].write && all[1].exec && all[1].file && !all[1].traps_missing());
    }

    #[test]
    fn mappings_that_were_advised_have_no_recency() {
        let text = "1000-2000 rw-p 00000000 00:00 0\nVmFlags: rd wr mr mw me sr ac\n\
            2000-3000 rw-p 00000000 00:00 0\nVmFlags: rd wr mr mw me ac\n\
            3000-4000 rw-p 00000000 00:00 0\nVmFlags: rd wr rr um\n";
        assert_eq!(
            without_recency(parse(text)),
            [0x1000..0x2000, 0x3000..0x4000]
        );
    }

    #[test]
    fn this_process_has_memory() {
        let pid = std::process::id().cast_signed();
        let pidfd = crate::Pidfd::open(pid).expect("self");
        let all = Process::open(pid, &pidfd).expect("self").figures();
        let all = all.expect("smaps");
        assert!(
            all.iter()
                .any(|mapping| mapping.anonymous > 0 && mapping.write)
        );
    }
}
