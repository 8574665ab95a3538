//! Places in which neap is run, rebuilt: what `neap doctor` blames there, whether its remedy helps, and whether the run
//! is managed exactly where doctor says so. docs/guide/permissions.md has a row for each.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use neap_tests::{Neap, Place, Run, Said, exclusive, skip, tool};

/// Its userfaultfd has everything but UFFDIO_MOVE.
#[test]
fn a_kernel_before_linux_6_8_is_named() {
    let test = "a_kernel_before_linux_6_8_is_named";
    let _alone = exclusive();
    let older = ["env", "NEAP_FAIL=uffdio_api:short:1:1", "LIBRARY"];
    let Some(place) = Place::new(test, &older) else {
        return;
    };
    place.must_refuse("cannot move pages", "Linux 6.8 or later");
}

/// No capability opens what a filter closes; the device does.
#[test]
fn behind_the_default_profile_of_a_container_the_device_is_the_way() {
    let test = "behind_the_default_profile_of_a_container_the_device_is_the_way";
    let _alone = exclusive();
    for answer in ["docker", "podman", "ENOSYS"] {
        let untraced = ["setpriv", "--bounding-set=-sys_ptrace"];
        for (into, forks) in [(&untraced[..], "limited"), (&[], "ok")] {
            let words: Vec<&str> = ["PROFILE", answer].iter().chain(into).copied().collect();
            let Some(place) = Place::new(test, &words) else {
                return;
            };
            place.must_refuse(
                "a seccomp filter refuses userfaultfd(2)",
                "--device /dev/userfaultfd",
            );
            place.add_device();
            place.must_manage(forks);
            if forks == "limited" {
                let remedy = place.doctor(0, "fork events").remedy;
                assert!(remedy.contains("--cap-add SYS_PTRACE"), "{remedy}");
            }
        }
    }
}

#[test]
fn a_users_container_needs_the_device_and_its_mode() {
    let test = "a_users_container_needs_the_device_and_its_mode";
    let _alone = exclusive();
    let Some(place) = Place::new(test, &["PROFILE", "docker", "USER", "--no-new-privs"]) else {
        return;
    };
    place.must_refuse("a seccomp filter refuses", "chmod 666");
    place.add_device();
    place.must_refuse("mode 600, owner 0:0", "chmod 666");
    place.set_mode(0o666);
    place.must_manage("limited");
    let remedy = place.doctor(0, "fork events").remedy;
    assert!(remedy.contains("without no_new_privs"), "{remedy}");
}

#[test]
fn a_user_of_a_host_needs_the_device() {
    let test = "a_user_of_a_host_needs_the_device";
    let _alone = exclusive();
    let Some(place) = Place::new(test, &["USER"]) else {
        return;
    };
    if fs::read_to_string("/proc/sys/vm/unprivileged_userfaultfd").is_ok_and(|is| is.trim() == "1")
    {
        return skip(test, "vm.unprivileged_userfaultfd is 1");
    }
    place.must_refuse("takes CAP_SYS_PTRACE or", "vm.unprivileged_userfaultfd=1");
    place.add_device();
    place.must_refuse("mode 600, owner 0:0", "chmod 666");
    place.set_mode(0o666);
    place.must_manage("limited");
    let remedy = place.doctor(0, "fork events").remedy;
    assert!(remedy.contains("setcap cap_sys_ptrace+ep"), "{remedy}");
}

/// The program makes the userfaultfd, and a capability of neap's file is not the program's. With the device it brings
/// the news of forks.
#[test]
fn a_file_capability_alone_manages_nothing() {
    let test = "a_file_capability_alone_manages_nothing";
    let _alone = exclusive();
    let Some(place) = Place::new(test, &["USER"]) else {
        return;
    };
    let Some(setcap) = tool("setcap") else {
        return skip(test, "setcap is not installed");
    };
    let given = Command::new(setcap)
        .arg("cap_sys_ptrace+ep")
        .arg(place.neap())
        .status();
    if !given.is_ok_and(|status| status.success()) {
        return skip(test, "files of this folder take no capabilities");
    }
    place.must_refuse("only neap may make a userfaultfd", "");
    place.add_device();
    place.set_mode(0o666);
    place.must_manage("ok");
}

#[test]
fn where_no_folder_may_hold_code_doctor_says_where_the_library_is() {
    let test = "where_no_folder_may_hold_code_doctor_says_where_the_library_is";
    let _alone = exclusive();
    let Some(place) = Place::new(test, &["NO-CODE"]) else {
        return;
    };
    let report = place.report(0);
    for (check, found) in [
        ("preload library", "it is in memory"),
        ("swap directory", "no swap file"),
    ] {
        let said = Said::of(&report, check);
        assert_eq!(said.verdict, "limited", "{check}: {}", said.detail);
        assert!(said.detail.contains(found), "{check}: {}", said.detail);
        assert!(!said.remedy.is_empty(), "{check}");
    }
}

#[test]
fn root_of_a_user_namespace_needs_the_device() {
    let test = "root_of_a_user_namespace_needs_the_device";
    let _alone = exclusive();
    let Some(place) = Place::new(test, &["USER", "unshare", "-Ur"]) else {
        return;
    };
    place.must_refuse("that of a user namespace does not count", "--device");
    place.add_device();
    place.set_mode(0o666);
    place.must_manage("limited");
    let remedy = place.doctor(0, "fork events").remedy;
    assert!(remedy.contains("outside of the user namespace"), "{remedy}");
}

/// What neither doctor nor the engine looked at: the trial shows it.
#[test]
fn what_no_check_knows_of_shows_when_doctor_runs_a_program() {
    let test = "what_no_check_knows_of_shows_when_doctor_runs_a_program";
    let Some(place) = Place::new(test, &["prlimit", "--data=50331648"]) else {
        return;
    };
    let run = place.run([place.neap().as_os_str(), "doctor".as_ref()]);
    let managed = Neap::limit("64M")
        .binary(place.neap().to_owned())
        .wrapped(place.words().to_vec());
    let managed = managed.option("--require").run(&Run::new(["true"]));
    assert_eq!(run.code() == 0, managed.code() == 0, "{}", run.text());
    assert!(run.text().contains("ulimit -d"), "{}", run.text());
}

/// Another compiler's: it calls the kernel by other instructions.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_libc_whose_fork_is_not_known_is_named() {
    let test = "a_libc_whose_fork_is_not_known_is_named";
    let libc = ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/libc.so.6"];
    let Some(mut bytes) = libc.iter().find_map(|path| fs::read(path).ok()) else {
        return skip(test, "there is no glibc where it usually is");
    };
    // mov eax, 56; syscall, and the same as xor eax, eax; mov al, 56; syscall; nop.
    let (usual, other) = (b"\xb8\x38\0\0\0\x0f\x05", b"\x31\xc0\xb0\x38\x0f\x05\x90");
    let sites: Vec<usize> = (0..bytes.len() - usual.len())
        .filter(|&at| bytes[at..].starts_with(usual))
        .collect();
    for at in sites {
        bytes[at..at + other.len()].copy_from_slice(other);
    }
    let folder = tempfile::tempdir().expect("a folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("ours");
    fs::write(folder.path().join("libc.so.6"), bytes).expect("a file");
    let path = format!("LD_LIBRARY_PATH={}", folder.path().display());
    let _alone = exclusive();
    let Some(place) = Place::new(test, &["USER", "env", &path]) else {
        return;
    };
    place.add_device();
    place.set_mode(0o666);
    let said = place.doctor(0, "forks");
    assert_eq!(said.verdict, "limited", "{}", said.detail);
    assert!(said.detail.contains("not known"), "{}", said.detail);
    assert!(said.remedy.contains("cap_sys_ptrace"), "{}", said.remedy);
}
