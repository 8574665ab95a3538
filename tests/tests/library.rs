//! The preload library as the dynamic linker sees it: what it takes from a program, and what it puts in front of it.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use neap_tests::{Neap, Need, OrdinaryUser, Run, exclusive, paging, program, require};
use object::{Object, ObjectSymbol};

/// What a program's libc may or may not have; each is weak.
const WANTED: [&str; 7] = [
    "_IO_fread",
    "__errno_location",
    "__pread64",
    "__read",
    "__register_atfork",
    "dlsym",
    "pthread_atfork",
];
/// The calls that the library stands in front of.
const HOOKS: [&str; 17] = [
    "_Fork",
    "__clone",
    "clone",
    "fread",
    "ioctl",
    "madvise",
    "mmap",
    "mmap64",
    "mremap",
    "munmap",
    "posix_madvise",
    "pread",
    "pread64",
    "process_madvise",
    "read",
    "sbrk",
    "syscall",
];

/// The library, as neap puts it where its programs find it.
fn library() -> Vec<u8> {
    let copy = Run::new(["sh", "-c", "cat \"${LD_PRELOAD##*:}\""]).without("LD_PRELOAD");
    let run = Neap::limit("512M").run(&copy);
    run.must_exit(0);
    run.stdout.clone()
}

/// The symbols of the library that the dynamic linker resolves: name, defined, weak.
fn symbols() -> Vec<(String, bool, bool)> {
    let library = library();
    let file = object::File::parse(library.as_slice()).expect("a library");
    let known = |symbol: object::Symbol| {
        let name = symbol.name().expect("a name").to_owned();
        (name, !symbol.is_undefined(), symbol.is_weak())
    };
    let symbols = file.dynamic_symbols().map(known);
    symbols.filter(|(name, ..)| !name.is_empty()).collect()
}

#[test]
fn the_library_runs_no_code_of_the_program_but_what_it_can_do_without() {
    let name = "the_library_runs_no_code_of_the_program_but_what_it_can_do_without";
    if !require(name, &[Need::Neap, Need::Userfaultfd]) {
        return;
    }
    let symbols = symbols();
    let wanted = symbols.iter().filter(|(_, defined, _)| !defined);
    for (name, _, weak) in wanted {
        assert!(
            *weak && WANTED.contains(&name.as_str()),
            "{name} is taken from the program"
        );
    }
    let offered = symbols.iter().filter(|(_, defined, _)| *defined);
    for (name, ..) in offered {
        assert!(
            HOOKS.contains(&name.as_str()),
            "{name} stands in for the program's"
        );
    }
}

/// A glibc before 2.34 has dlsym in a library of its own, which few programs load.
#[test]
fn a_program_without_dlsym_reads_as_it_did() {
    let test = "a_program_without_dlsym_reads_as_it_did";
    if !require(test, &[Need::Neap, Need::Userfaultfd]) {
        return;
    }
    let mut bytes = library();
    let name = b"\0dlsym\0";
    let at = bytes.windows(name.len()).position(|part| part == name);
    bytes[at.expect("a name") + 1] = b'_';
    let dir = tempfile::tempdir().expect("a folder");
    let [file, own] = ["file", "library.so"].map(|name| dir.path().join(name));
    std::fs::write(&file, vec![b'x'; 20 << 20]).expect("a file");
    std::fs::write(&own, bytes).expect("a library");
    for how in ["read", "pread", "fread"] {
        let words =
            [program("slurp").as_os_str(), file.as_os_str(), how.as_ref()].map(OsString::from);
        let plain = Run::new(words.clone()).go();
        let run = Run::new(words).env("LD_PRELOAD", &own).go();
        plain.must_exit(0);
        assert_eq!(run.text(), plain.text(), "{how}: {}", run.stderr);
    }
}

/// A sanitizer's, or a tuned one: it may touch what only the agent can bring back.
#[test]
fn a_program_may_have_memory_functions_of_its_own() {
    let Some(_alone) = paging("a_program_may_have_memory_functions_of_its_own") else {
        return;
    };
    let run = Run::new([program("ownmem").as_os_str(), "96".as_ref()]);
    let plain = run.go();
    plain.must_exit(0);
    let managed = Neap::limit("60M").run(&run.limit(std::time::Duration::from_secs(120)));
    managed.must_have_paged();
    assert_eq!(managed.text(), plain.text());
}

/// In a signal's handler, in a child of vfork, without descriptors, in many threads with small stacks, and in another root,
/// which is not everyone's to choose.
const PLACES: [&str; 5] = ["signal", "vfork", "descriptors", "threads", "root"];

fn in_each_place(places: &[&str], hooks: &Path, neap: impl Fn() -> Neap) {
    for place in places {
        let words = [hooks.as_os_str(), (*place).as_ref(), "36".as_ref()];
        let run = neap().run(&Run::new(words).limit(Duration::from_secs(120)));
        assert_eq!(run.text(), format!("hooks {place}: ok\n"), "{}", run.stderr);
        run.must_have_paged();
    }
}

#[test]
fn its_calls_may_be_made_from_anywhere() {
    let test = "its_calls_may_be_made_from_anywhere";
    if !require(test, &[Need::Root]) {
        return;
    }
    let Some(_alone) = paging(test) else { return };
    in_each_place(&PLACES, &program("hooks"), || Neap::limit("24M"));
}

#[test]
fn its_calls_may_be_made_from_anywhere_by_an_ordinary_user() {
    let test = "its_calls_may_be_made_from_anywhere_by_an_ordinary_user";
    let Some((user, device)) = OrdinaryUser::with_device(test) else {
        return;
    };
    let _alone = exclusive();
    let hooks = user.copy(&program("hooks"));
    in_each_place(&PLACES[..4], &hooks, || user.run("24M", &device, &[]));
}
