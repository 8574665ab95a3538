//! Programs with tens of thousands of mappings: stacks with guard pages, of fibers and of threads.

use std::ffi::OsString;
use std::time::Duration;

use neap_tests::{
    Managed, Neap, Need, OrdinaryUser, Run, allowed, exclusive, library, paging, peak_of, program,
    require, skip,
};

fn words(name: &str, arguments: &[&str]) -> Run {
    let path = OsString::from(program(name));
    let arguments = arguments.iter().map(OsString::from);
    Run::new([path].into_iter().chain(arguments)).limit(Duration::from_secs(200))
}

/// What the program says under neap is what it says without.
fn as_plain(limit: &str, run: &Run) -> Managed {
    let plain = run.go();
    let managed = Neap::limit(limit).run(&run.clone().sampled());
    managed.must_have_paged();
    assert_eq!(managed.text(), plain.text());
    managed
}

/// The same of a job that a memory cgroup is around, which counts what the kernel keeps for each mapping: within the limit in one of
/// so many runs, and in none a quarter above it. Where others want the cpus a look at new mappings comes late now and then.
fn within_by_a_cgroup<const RUNS: usize>(neap: &Neap, limit: u64, run: &Run) {
    let plain = run.go();
    let peaks = [(); RUNS].map(|()| {
        let (managed, peak) = peak_of(neap.clone(), run);
        assert_eq!(managed.text(), plain.text());
        peak
    });
    let least = peaks.iter().min().is_some_and(|&p| p <= allowed(limit));
    let most = peaks.iter().all(|&p| p <= limit + limit / 4);
    assert!(least && most, "{peaks:?} of {limit}");
}

/// Such a job came to 1.2 to 2.3 times its limit, and to twelve times the time of one mapping: all mappings were looked at
/// for each new one, and each was registered by itself.
#[test]
fn stacks_with_guard_pages_stay_within_the_limit() {
    let Some(_alone) = paging("stacks_with_guard_pages_stay_within_the_limit") else {
        return;
    };
    // About 60 % of what they hold.
    as_plain("9M", &words("fibers", &["1000", "2"])).must_be_within_limit();
    let fibers = words("fibers", &["8000", "2"]);
    // 76.2 to 79.3 MB in 12 runs on a machine of its own, of which 79.1 are allowed; 111 plainly.
    within_by_a_cgroup::<3>(&Neap::limit("70M"), 70 << 20, &fibers);
}

/// The first look takes over one mapping after the other, and the program made more meanwhile: it came to a sixth more than its
/// limit. What maps memory by calls of libc waits for the end of that look.
#[test]
fn stacks_that_are_made_during_the_first_look_stay_within_the_limit() {
    let Some(_alone) = paging("stacks_that_are_made_during_the_first_look_stay_within_the_limit")
    else {
        return;
    };
    let fibers = words("fibers", &["30000", "2"]);
    within_by_a_cgroup::<1>(&Neap::limit("260M"), 260 << 20, &fibers);
}

/// An ordinary user's look waits for each call of the program that changes mappings: it took so long that the program came to 1.4
/// to 1.7 times its limit.
#[test]
fn stacks_with_guard_pages_stay_within_the_limit_of_an_ordinary_user() {
    let name = "stacks_with_guard_pages_stay_within_the_limit_of_an_ordinary_user";
    let Some((user, device)) = OrdinaryUser::with_device(name) else {
        return;
    };
    let _alone = exclusive();
    let fibers = user.copy(&program("fibers")).into_os_string();
    let run = Run::new([fibers, "20000".into(), "2".into()])
        .limit(Duration::from_secs(200))
        .dir(user.dir());
    within_by_a_cgroup::<1>(&user.run("156M", &device, &[]), 156 << 20, &run);
}

/// The kernel allows a process so many mappings (vm.max_map_count). Registered memory takes no more of them.
#[test]
fn a_program_with_nearly_all_mappings_that_it_may_have_goes_on() {
    let Some(_alone) = paging("a_program_with_nearly_all_mappings_that_it_may_have_goes_on") else {
        return;
    };
    const FOR_LIBRARIES: u64 = 200;
    let most = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap_or_default();
    let most = most.trim().parse().unwrap_or(65_530).min(65_530);
    let fibers = ((most - FOR_LIBRARIES) / 2).to_string();
    as_plain("300M", &words("fibers", &[&fibers, "1"]));
}

/// Each thread has a stack with a guard page, and a record in it that the kernel writes to at its end.
#[test]
fn thousands_of_threads_end_as_they_do_without_neap() {
    let Some(_alone) = paging("thousands_of_threads_end_as_they_do_without_neap") else {
        return;
    };
    as_plain("24M", &words("thousands", &["2000"]));
}

/// A heap that grows by mprotect of what it has reserved, as those of glibc's arenas do, is registered before it grows.
#[test]
fn a_reserve_is_managed_before_it_is_used() {
    let Some(_alone) = paging("a_reserve_is_managed_before_it_is_used") else {
        return;
    };
    as_plain("32M", &words("reserve", &["128"])).must_be_within_limit();
}

/// Large pages of the machine, which has as many as before when this ends.
struct LargePages {
    before: String,
}

impl LargePages {
    const FILE: &str = "/proc/sys/vm/nr_hugepages";

    fn reserve(count: &str) -> Option<Self> {
        let before = std::fs::read_to_string(Self::FILE).ok()?;
        std::fs::write(Self::FILE, count).ok()?;
        Some(Self { before })
    }
}

impl Drop for LargePages {
    fn drop(&mut self) {
        let _ = std::fs::write(Self::FILE, &self.before);
    }
}

/// It may be registered where private memory was a moment ago, and the kernel takes no small page for it.
#[test]
fn memory_of_large_pages_that_comes_while_mappings_are_registered_is_left_alone() {
    let name = "memory_of_large_pages_that_comes_while_mappings_are_registered_is_left_alone";
    if !require(name, &[Need::Neap, Need::Userfaultfd, Need::Root]) {
        return;
    }
    let _alone = exclusive();
    let run = words("turning", &["4"]).limit(Duration::from_secs(60));
    let _pages = LargePages::reserve("4");
    let plain = words("turning", &["1"]).go();
    if plain.code() != 0 {
        return skip(name, "this machine has no large pages to give");
    }
    let neap = Neap::limit("32M").env("LD_PRELOAD", library("hesitant"));
    let managed = neap.run(&run);
    managed.must_exit(0);
    assert_eq!(managed.text(), plain.text());
    managed.must_have_paged();
}
