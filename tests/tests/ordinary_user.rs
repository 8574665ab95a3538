//! Without privileges: fully managed where the user may open a userfaultfd device, and otherwise run
//! as it is, with one line that says so.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use neap_tests::{Managed, Neap, OrdinaryUser, Run, exclusive, program, skip};

/// Modes of `programs/kernel` that an ordinary user must have too.
const SELECTION: [&str; 16] = [
    "dontneed",
    "protections",
    "mremap",
    "map-fixed",
    "huge",
    "bss-heap",
    "fork-reads",
    "fork-shared",
    "fork-bare",
    "exec",
    "daemon",
    "write-read",
    "messages",
    "stacks",
    "same-pages",
    "husk-beside-tellers",
];

struct Nobody {
    user: OrdinaryUser,
    kernel: PathBuf,
    hog: PathBuf,
}

impl Nobody {
    fn of(user: OrdinaryUser) -> Self {
        let (kernel, hog) = (user.copy(&program("kernel")), user.copy(&program("hog")));
        Self { user, kernel, hog }
    }

    /// With a device that it may open.
    fn with_device(name: &str) -> Option<(Self, PathBuf)> {
        let (user, device) = OrdinaryUser::with_device(name)?;
        Some((Self::of(user), device))
    }

    fn neap(&self, limit: &str, device: &Path) -> Neap {
        self.user.run(limit, device, &[])
    }

    fn mode(&self, mode: &str) -> Run {
        let words: [OsString; 4] = [
            self.kernel.clone().into(),
            mode.into(),
            "12".into(),
            "40".into(),
        ];
        Run::new(words)
            .limit(Duration::from_secs(180))
            .dir(self.user.dir())
    }

    fn hog(&self) -> Run {
        Run::new([self.hog.as_os_str(), "96".as_ref(), "2".as_ref()]).dir(self.user.dir())
    }
}

fn paged(nobody: &Nobody, neap: &Neap) -> Managed {
    let plain = nobody.hog().go();
    let run = neap.run(&nobody.hog());
    run.must_have_paged();
    assert_eq!(run.text(), plain.text());
    run
}

#[test]
fn an_ordinary_user_with_a_device_is_managed() {
    let name = "an_ordinary_user_with_a_device_is_managed";
    let Some((nobody, device)) = Nobody::with_device(name) else {
        return;
    };
    let _alone = exclusive();
    let neap = nobody.neap("32M", &device);
    let run = paged(&nobody, &neap);
    assert_eq!(run.stderr, "");
    run.must_be_within_limit();
    let neap = nobody.neap("22M", &device);
    for mode in SELECTION {
        let run = neap.run(&nobody.mode(mode));
        run.must_have_paged();
        assert!(
            run.text().ends_with(&format!("kernel {mode}: ok\n")),
            "{mode}: {}",
            run.text()
        );
    }
}

/// Without CAP_SYS_PTRACE the kernel does not announce children; they share their parent's memory all the same.
#[test]
fn what_a_family_of_an_ordinary_user_shares_counts_once() {
    let name = "what_a_family_of_an_ordinary_user_shares_counts_once";
    let Some((nobody, device)) = Nobody::with_device(name) else {
        return;
    };
    let _alone = exclusive();
    let family = nobody.user.copy(&program("family"));
    let run = |mib: &str, limit| {
        let words = [family.as_os_str(), mib.as_ref(), "4".as_ref()];
        let neap = nobody.neap(limit, &device);
        let run = neap.run(&Run::new(words).dir(nobody.user.dir()));
        run.must_exit(0);
        assert_eq!(run.text(), "0 wrong\n");
        run
    };
    let run_over = run("80", "32M");
    let cause = "all pages come back";
    assert!(!run_over.stderr.contains(cause), "{}", run_over.stderr);
    let run = run("40", "64M");
    assert_eq!(run.stderr, "");
    assert_eq!(run.number("/vmstat/zswpout"), 0, "it fits: {}", run.stats);
}

#[test]
fn an_ordinary_user_without_a_device_runs_unmanaged_with_one_warning() {
    let name = "an_ordinary_user_without_a_device_runs_unmanaged_with_one_warning";
    let Some(user) = OrdinaryUser::for_test(name) else {
        return;
    };
    let nobody = Nobody::of(user);
    let sysctl =
        std::fs::read_to_string("/proc/sys/vm/unprivileged_userfaultfd").unwrap_or_default();
    if sysctl.trim() == "1" {
        return skip(
            name,
            "vm.unprivileged_userfaultfd is 1: every user is managed here",
        );
    }
    let none = nobody.user.dir().join("none");
    let neap = nobody.neap("32M", &none);
    let plain = nobody.hog().go();
    let run = neap.run(&nobody.hog());
    run.must_exit(0);
    assert_eq!(run.text(), plain.text());
    assert_eq!(
        run.stderr.lines().count(),
        1,
        "one line of warning, not: {}",
        run.stderr
    );
    assert!(run.stderr.starts_with("neap: "), "{}", run.stderr);
    assert!(run.stderr.contains("NEAP_UFFD_DEVICE"), "{}", run.stderr);
    assert_eq!(run.pages_out(), 0);
    for mode in ["fork-reads", "exec", "daemon"] {
        neap.run(&nobody.mode(mode)).must_exit(0);
    }
    let refused = neap.clone().option("--require").run(&nobody.hog());
    refused.must_exit(125);
    assert!(refused.stdout.is_empty());
}

/// A fork that the kernel does not announce is told of by the process that makes it, which may be one that shares another's
/// memory (vfork).
#[test]
fn a_process_that_shares_memory_and_forks_loses_no_byte() {
    let name = "a_process_that_shares_memory_and_forks_loses_no_byte";
    let Some((nobody, device)) = Nobody::with_device(name) else {
        return;
    };
    let _alone = exclusive();
    let sharer = nobody.user.copy(&program("sharer"));
    let words = [sharer.as_os_str(), "128".as_ref()];
    let neap = nobody.neap("64M", &device);
    let run = neap.run(&Run::new(words).dir(nobody.user.dir()));
    assert_eq!(run.text(), "right, 0 wrong\n", "{}", run.stderr);
    run.must_have_paged();
}

/// The agent of a program without any right is confined, too: the program may shut itself in later.
#[test]
fn the_agent_of_an_ordinary_user_is_confined() {
    let name = "the_agent_of_an_ordinary_user_is_confined";
    let Some((nobody, device)) = Nobody::with_device(name) else {
        return;
    };
    let _alone = exclusive();
    let script = "sleep 0.5; for dir in /proc/[0-9]*; do \
        read -r name <$dir/comm && [ \"$name\" = mm-agent ] && grep -hE '^(CapPrm|NoNewPrivs|Seccomp):' $dir/status; done";
    let shell = Run::new(["sh", "-c", script]).dir(nobody.user.dir());
    let run = nobody.neap("64M", &device).run(&shell);
    let text = run.text();
    assert!(text.contains("Seccomp:\t2\n"), "{text}{}", run.stderr);
    for line in text.lines() {
        let value = line.split('\t').nth(1).unwrap_or_default();
        assert!(["0000000000000000", "1", "2"].contains(&value), "{line}");
    }
}
