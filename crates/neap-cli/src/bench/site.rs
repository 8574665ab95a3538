//! Where a bench ran: without it no figure means anything.

use std::path::Path;

use serde_json::{Value, json};

use crate::machine::{Root, filesystem_of, kernel_release, ram, transparent_huge_pages};

/// Settings of the kernel that bear on swapping, as they were found.
const SETTINGS: [&str; 10] = [
    "/proc/sys/vm/swappiness",
    "/proc/sys/vm/page-cluster",
    "/proc/sys/vm/overcommit_memory",
    "/proc/sys/vm/watermark_scale_factor",
    "/sys/kernel/mm/lru_gen/enabled",
    "/sys/module/zswap/parameters/enabled",
    "/sys/module/zswap/parameters/compressor",
    "/sys/module/zswap/parameters/max_pool_percent",
    "/sys/module/zswap/parameters/accept_threshold_percent",
    "/sys/module/zswap/parameters/shrinker_enabled",
];

/// A machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Site {
    cpu: String,
    cpus: usize,
    ram: u64,
    kernel: String,
    huge_pages: Option<String>,
    cgroup: Option<u8>,
    swap_filesystem: Option<String>,
    /// Without a value where the kernel has no such file.
    settings: Vec<(&'static str, Option<String>)>,
    swaps: Vec<String>,
}

impl Site {
    /// This one; read before anything is changed.
    #[must_use]
    pub fn look(root: &Root, swap_dir: Option<&Path>) -> Self {
        let cpus = root.read("/proc/cpuinfo").unwrap_or_default();
        let model = cpus.lines().find(|line| line.starts_with("model name"));
        let swaps = root.read("/proc/swaps").unwrap_or_default();
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let setting = |name| {
            (
                name,
                root.read(name).ok().map(|text| text.trim().to_owned()),
            )
        };
        Self {
            cpu: model
                .and_then(|line| line.split_once(": "))
                .map_or_else(|| "unknown cpu".to_owned(), |(_, name)| name.to_owned()),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            ram: ram(root).unwrap_or_default().0,
            kernel: kernel_release(root).unwrap_or_else(|| "unknown".to_owned()),
            huge_pages: transparent_huge_pages(root),
            cgroup: None,
            swap_filesystem: swap_dir.and_then(|dir| Some(filesystem_of(dir).ok()?.name)),
            settings: SETTINGS.into_iter().map(setting).collect(),
            swaps: swaps.lines().skip(1).map(words).collect(),
        }
    }

    /// The same with the version of its memory cgroups.
    #[must_use]
    pub fn cgroup(mut self, version: Option<u8>) -> Self {
        self.cgroup = version;
        self
    }

    /// A line for people.
    #[must_use]
    pub fn line(&self) -> String {
        let mib = self.ram >> 20;
        let cgroup = self
            .cgroup
            .map_or_else(String::new, |version| format!(", cgroup v{version}"));
        let disk = self
            .swap_filesystem
            .as_ref()
            .map_or_else(String::new, |name| format!(", swap on {name}"));
        format!(
            "{}, {} cpus, {mib} MiB, Linux {}{cgroup}{disk}, neap {}",
            self.cpu,
            self.cpus,
            self.kernel,
            env!("CARGO_PKG_VERSION")
        )
    }

    /// Other swap areas in use, which the machine's counters count too.
    #[must_use]
    pub fn swaps(&self) -> &[String] {
        &self.swaps
    }

    /// All of it.
    #[must_use]
    pub fn value(&self) -> Value {
        let settings: serde_json::Map<String, Value> = self
            .settings
            .iter()
            .map(|(name, value)| ((*name).to_owned(), json!(value)))
            .collect();
        json!({
            "cpu": self.cpu,
            "cpus": self.cpus,
            "ram_bytes": self.ram,
            "kernel": self.kernel,
            "transparent_huge_pages": self.huge_pages,
            "cgroup_version": self.cgroup,
            "swap_filesystem": self.swap_filesystem,
            "settings_found": settings,
            "other_swap_areas": self.swaps,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::fake::machine;

    #[test]
    fn a_site_tells_cpu_memory_kernel_and_settings() {
        let (_dir, root) = machine(&[
            ("/proc/cpuinfo", "processor : 0\nmodel name\t: Fast One\n"),
            ("/proc/meminfo", "MemTotal:  1024 kB\n"),
            ("/proc/sys/kernel/osrelease", "6.18.1\n"),
            ("/proc/sys/vm/swappiness", "60\n"),
            (
                "/proc/swaps",
                "Filename Type Size Used Priority\n/a  file  9 0  -2\n",
            ),
        ]);
        let site = Site::look(&root, None).cgroup(Some(1));
        assert!(site.line().starts_with("Fast One, "), "{}", site.line());
        assert!(
            site.line()
                .contains("1 MiB, Linux 6.18.1, cgroup v1, neap ")
        );
        assert_eq!(site.swaps(), ["/a file 9 0 -2"]);
        assert_eq!(
            site.value()["settings_found"]["/proc/sys/vm/swappiness"],
            "60"
        );
        let shrinker = "/sys/module/zswap/parameters/shrinker_enabled";
        assert_eq!(
            site.value()["settings_found"].get(shrinker),
            Some(&Value::Null)
        );
    }
}
