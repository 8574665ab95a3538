//! The machine as a whole: its kernel and its memory.

use neap_units::Bytes;

use super::Root;

/// The kernel's release, as uname(1) has it.
#[must_use]
pub fn kernel_release(root: &Root) -> Option<String> {
    let text = root.read("/proc/sys/kernel/osrelease").ok()?;
    Some(text.trim().to_owned())
}

/// Installed memory: `MemTotal` of /proc/meminfo. `None` when it cannot be read.
#[must_use]
pub fn ram(root: &Root) -> Option<Bytes> {
    let text = root.read("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(Bytes(kib << 10))
}

/// The word in brackets of `/sys/kernel/mm/transparent_hugepage/enabled`: always, madvise or never.
#[must_use]
pub fn transparent_huge_pages(root: &Root) -> Option<String> {
    let text = root
        .read("/sys/kernel/mm/transparent_hugepage/enabled")
        .ok()?;
    let (_, rest) = text.split_once('[')?;
    let (word, _) = rest.split_once(']')?;
    Some(word.to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::fake::machine;
    use super::*;

    #[test]
    fn installed_memory_is_read_in_kib() {
        let (_dir, root) = machine(&[(
            "/proc/meminfo",
            "MemTotal:       24683520 kB\nMemFree:  1 kB\n",
        )]);
        assert_eq!(ram(&root), Some(Bytes(24_683_520 << 10)));
        let (_dir, root) = machine(&[("/proc/meminfo", "nothing\n")]);
        assert_eq!(ram(&root), None);
    }

    #[test]
    fn the_kernels_release_is_one_word() {
        let (_dir, root) = machine(&[("/proc/sys/kernel/osrelease", "6.18.1-x\n")]);
        assert_eq!(kernel_release(&root).as_deref(), Some("6.18.1-x"));
    }

    #[test]
    fn the_word_in_brackets_is_the_huge_page_policy() {
        let path = "/sys/kernel/mm/transparent_hugepage/enabled";
        let (_dir, root) = machine(&[(path, "always [madvise] never\n")]);
        assert_eq!(transparent_huge_pages(&root).as_deref(), Some("madvise"));
        let (_dir, root) = machine(&[]);
        assert_eq!(transparent_huge_pages(&root), None);
    }
}
