//! Each package is made of the binary that is there, installed into a clean root, and runs a program over its limit there.
//!
//! `make test` makes them of the usual build; `make packages-test` of the static one, which then also has to do in a root
//! with musl and in one with nothing else.

use std::ffi::{OsStr, OsString};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use neap_tests::{
    OrdinaryUser, Outcome, Root, Run, exclusive, interpreter, musl_program, neap_binary, program,
    skip, tool,
};

/// What a program is given, and what it wants: digests of `hog 64`.
const RUN: [&str; 6] = ["run", "--require", "--summary", "-m", "32M", "--"];

fn packaging(script: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../packaging")
        .join(script)
}

fn run(words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Outcome {
    let outcome = Run::new(words).go();
    outcome.must_exit(0);
    outcome
}

/// Makes a package of `neap`; the script prints where it is.
fn made(words: &[&OsStr]) -> PathBuf {
    let text = run(words).text();
    PathBuf::from(text.trim_end())
}

fn package(script: &str, out: &Path) -> PathBuf {
    let (script, neap) = (packaging(script), neap_binary().expect("required"));
    made(&[script.as_os_str(), neap.as_os_str(), out.as_os_str()])
}

/// A root with a shell, its tools and the program to run; with neap's own library, where it needs one.
fn furnished(test: &str) -> Option<(Root, PathBuf)> {
    let root = Root::for_test(test)?;
    let Some(busybox) = tool("busybox") else {
        skip(test, "busybox is not installed");
        return None;
    };
    root.add(&busybox);
    for name in [
        "sh", "true", "id", "dirname", "find", "mkdir", "cp", "mv", "rm", "cat", "tar", "gzip",
    ] {
        std::os::unix::fs::symlink("busybox", root.path().join("bin").join(name))
            .expect("our own folder");
    }
    root.add_libraries(&neap_binary().expect("required"));
    let hog = root.add(&program("hog"));
    Some((root, hog))
}

/// Doctor is content there, and the program has the same digest within its limit.
fn must_manage(root: &Root, neap: &[&str], hog: &Path) {
    let words =
        |rest: &[&str]| -> Vec<OsString> { neap.iter().chain(rest).map(OsString::from).collect() };
    root.run(words(&["doctor"])).go().must_exit(0);
    limits(root, words(&RUN), hog);
}

fn limits(root: &Root, mut words: Vec<OsString>, hog: &Path) {
    let want = [hog.as_os_str(), "64".as_ref()];
    let plain = root.run(want).go();
    words.extend(want.map(OsStr::to_owned));
    let managed = root.run(words).go();
    managed.must_exit(0);
    assert_eq!(managed.text(), plain.text());
    assert!(managed.stderr.contains("pages out: "), "{}", managed.stderr);
    assert!(
        !managed.stderr.contains("pages out: 0 "),
        "{}",
        managed.stderr
    );
}

#[test]
fn the_tarball_installs_and_uninstalls_itself() {
    let test = "the_tarball_installs_and_uninstalls_itself";
    let Some((root, hog)) = furnished(test) else {
        return;
    };
    let _alone = exclusive();
    package("tarball.sh", &root.path().join("tmp"));
    let unpack = "cd /tmp && tar -xzf neap-*.tar.gz && mv neap-*-linux unpacked";
    root.run(["sh", "-c", unpack]).go().must_exit(0);
    for (words, prefix) in [
        (&[][..], "/usr/local"),
        (&["--prefix", "/opt/own"], "/opt/own"),
    ] {
        let script = ["/tmp/unpacked/install.sh"];
        let install = || root.run(script.iter().chain(words));
        install().go().must_exit(0);
        must_manage(&root, &[&format!("{prefix}/bin/neap")], &hog);
        let below = root.path().join(&prefix[1..]);
        assert!(below.join("share/man/man1/neap-run.1").exists());
        let gone = root
            .run(script.iter().chain(words).chain(&["--uninstall"]))
            .go();
        gone.must_exit(0);
        let left = run([
            OsStr::new("find"),
            below.as_os_str(),
            "-type".as_ref(),
            "f".as_ref(),
        ]);
        assert_eq!(left.text(), "");
    }
}

#[test]
fn the_debian_package_installs_and_is_removed() {
    let test = "the_debian_package_installs_and_is_removed";
    let Some((root, hog)) = furnished(test) else {
        return;
    };
    let (Some(_), Some(dpkg)) = (tool("dpkg-deb"), tool("dpkg")) else {
        return skip(test, "dpkg is not installed");
    };
    let _alone = exclusive();
    let out = tempfile::tempdir().expect("a temporary folder");
    let file = package("deb.sh", out.path());
    // Its scripts run out here and find no systemd of the root's; libc6 lies there without a package of that name.
    let flags = [
        "--force-confold",
        "--force-script-chrootless",
        "--force-depends",
        "--force-not-root",
    ];
    let within = |action: &str, what: &OsStr| {
        let mut place = OsString::from("--root=");
        place.push(root.path());
        let words = [dpkg.as_os_str(), &place]
            .into_iter()
            .chain(flags.map(OsStr::new));
        run(words.chain([action.as_ref(), what]));
    };
    let database = root.path().join("var/lib/dpkg");
    fs::create_dir_all(database.join("info")).expect("our own folder");
    fs::create_dir_all(database.join("updates")).expect("our own folder");
    for name in ["status", "available"] {
        fs::write(database.join(name), "").expect("our own folder");
    }
    within("--install", file.as_os_str());
    must_manage(&root, &["/usr/bin/neap"], &hog);
    let rule = root.path().join("usr/lib/udev/rules.d/60-neap.rules");
    let text = fs::read_to_string(&rule).expect("a file of the package");
    assert!(text.contains(r#"KERNEL=="userfaultfd""#) && text.contains(r#"GROUP="neap""#));
    let group = fs::read_to_string(root.path().join("usr/lib/sysusers.d/neap.conf"));
    assert_eq!(group.expect("a file of the package"), "g neap -\n");
    for file in [
        "man/man1/neap-run.1.gz",
        "systemd/user/neap@.service",
        "bash-completion/completions/neap",
    ] {
        let file = root.path().join("usr/share").join(file);
        assert!(file.exists(), "{}", file.display());
    }
    let reinstall = || within("--install", file.as_os_str());
    must_keep_capabilities(test, &root, &reinstall);
    within("--purge", "neap".as_ref());
    assert!(!rule.exists() && !root.path().join("usr/bin/neap").exists());
    debian_has_nothing_to_object(test, &file);
}

/// A new file has none: it is given those that the administrator wrote down, and a user of the group has them announce forks.
fn must_keep_capabilities(test: &str, root: &Root, reinstall: &dyn Fn()) {
    let name = format!("{test}/capabilities");
    let neap = root.path().join("usr/bin/neap");
    let (Some(getcap), Some(setcap), Some(setpriv)) =
        (tool("getcap"), tool("setcap"), tool("setpriv"))
    else {
        return skip(&name, "getcap, setcap or setpriv is not installed");
    };
    let can = Run::new([
        setcap.as_os_str(),
        "cap_sys_nice+ep".as_ref(),
        neap.as_os_str(),
    ]);
    if can.go().code() != 0 {
        return skip(&name, "files of this folder take no capabilities");
    }
    let settings = root.path().join("etc/default/neap");
    let text = fs::read_to_string(&settings).expect("a file of the package");
    fs::write(settings, text.replace("#CAPABILITIES=", "CAPABILITIES=")).expect("our own folder");
    reinstall();
    let given = run([getcap.as_os_str(), neap.as_os_str()]).text();
    assert!(
        given.contains("cap_sys_ptrace") && given.contains("cap_sys_nice"),
        "{given}"
    );
    let groups = fs::read_to_string(root.path().join("etc/group"));
    let groups = groups.expect("the package makes a group");
    let group = groups.lines().find_map(|line| {
        let number = line.strip_prefix("neap:")?.split(':').nth(1)?;
        number.parse::<u32>().ok()
    });
    let group = group.expect("a number");
    let Some((_user, device)) = OrdinaryUser::with_device(&name) else {
        return;
    };
    // As the rule does.
    std::os::unix::fs::chown(&device, Some(0), Some(group)).expect("our own node");
    fs::set_permissions(&device, Permissions::from_mode(0o660)).expect("our own node");
    fs::hard_link(&device, root.path().join("tmp/userfaultfd")).expect("our own folders");
    let setpriv = root.add(&setpriv);
    let words = [
        setpriv.as_os_str(),
        "--reuid=65534".as_ref(),
        "--regid=65534".as_ref(),
        format!("--groups={group}").as_ref(),
        "/usr/bin/neap".as_ref(),
        "doctor".as_ref(),
    ]
    .map(OsStr::to_owned);
    let doctor = root.run(words).env("NEAP_UFFD_DEVICE", "/tmp/userfaultfd");
    let doctor = doctor.go();
    doctor.must_exit(0);
    assert!(
        doctor.text().contains("announced by the kernel"),
        "{}",
        doctor.text()
    );
}

fn debian_has_nothing_to_object(test: &str, file: &Path) {
    let neap = neap_binary().expect("required");
    if interpreter(&neap).is_some() {
        return skip(
            &format!("{test}/lintian"),
            "this neap is not that of the packages; make packages-test has it",
        );
    }
    let Some(lintian) = tool("lintian") else {
        return skip(&format!("{test}/lintian"), "lintian is not installed");
    };
    // Who makes the package says who they are (NEAP_MAINTAINER); the usual build is no package for others.
    let but = "--suppress-tags=bogus-mail-host,bogus-mail-host-in-debian-changelog";
    let words = [
        lintian.as_os_str(),
        but.as_ref(),
        "--allow-root".as_ref(),
        file.as_os_str(),
    ];
    assert_eq!(run(words).text(), "");
}

#[test]
fn the_wheel_brings_neap_to_a_fresh_environment() {
    let test = "the_wheel_brings_neap_to_a_fresh_environment";
    if Root::for_test(test).is_none() {
        return;
    }
    let Some(python) = tool("python3") else {
        return skip(test, "python3 is not installed");
    };
    let dir = tempfile::tempdir().expect("a temporary folder");
    let wheel = package("wheel.py", dir.path());
    let venv = dir.path().join("venv");
    let fresh = Run::new([
        python.as_os_str(),
        "-m".as_ref(),
        "venv".as_ref(),
        venv.as_os_str(),
    ])
    .go();
    if fresh.code() != 0 {
        return skip(test, "this python has no venv or no pip of its own");
    }
    let _alone = exclusive();
    let bin = |name: &str| venv.join("bin").join(name);
    let pip = bin("pip");
    let install = [
        "install",
        "--quiet",
        "--no-index",
        "--disable-pip-version-check",
    ]
    .map(OsStr::new);
    run([pip.as_os_str()]
        .into_iter()
        .chain(install)
        .chain([wheel.as_os_str()]));
    let hog = program("hog");
    let plain = run([hog.as_os_str(), "64".as_ref()]).text();
    let python = bin("python").into_os_string();
    for words in [
        vec![bin("neap").into_os_string()],
        vec![python, "-m".into(), "neap".into()],
    ] {
        let words = words.into_iter().chain(RUN.map(OsString::from));
        let managed = run(words.chain([hog.clone().into(), "64".into()]));
        assert_eq!(managed.text(), plain);
        assert!(
            !managed.stderr.contains("pages out: 0 "),
            "{}",
            managed.stderr
        );
    }
    assert!(venv.join("share/man/man1/neap-run.1").exists());
    let uninstall = ["uninstall", "--quiet", "--yes", "neap-run"].map(OsStr::new);
    run([pip.as_os_str()].into_iter().chain(uninstall));
    assert!(!bin("neap").exists());
    let name = wheel.to_string_lossy().into_owned();
    assert_eq!(
        interpreter(&neap_binary().expect("required")).is_none(),
        name.contains("musllinux"),
        "{name}"
    );
}

/// In a root that has this machine's /usr and nothing else, as an ordinary user who has no other file of neap's.
#[test]
fn a_newcomer_with_only_the_wheel_asks_doctor_and_runs_a_job_over_its_limit() {
    let test = "a_newcomer_with_only_the_wheel_asks_doctor_and_runs_a_job_over_its_limit";
    if Root::for_test(test).is_none() {
        return;
    }
    let _alone = exclusive();
    let dir = tempfile::tempdir().expect("a temporary folder");
    let wheel = package("wheel.py", dir.path());
    let script = packaging("test/newcomer.sh");
    let newcomer = Run::new([script.as_os_str(), wheel.as_os_str()])
        .limit(Duration::from_secs(240))
        .go();
    if newcomer.code() == 77 {
        return skip(test, "there is no /usr/bin/python3 with venv");
    }
    newcomer.must_exit(0);
    println!("a newcomer took {:.0} s", newcomer.seconds);
    let text = newcomer.text();
    assert!(text.contains("neap can run on this machine"), "{text}");
    let stderr = &newcomer.stderr;
    assert!(
        stderr.contains("pages out: ") && !stderr.contains("pages out: 0 "),
        "{stderr}"
    );
}

#[test]
fn the_image_holds_neap_and_a_pod_copies_it_from_there() {
    let test = "the_image_holds_neap_and_a_pod_copies_it_from_there";
    let Some((root, hog)) = furnished(test) else {
        return;
    };
    if tool("python3").is_none() {
        return skip(test, "python3 is not installed");
    }
    let _alone = exclusive();
    let out = tempfile::tempdir().expect("a temporary folder");
    let (script, neap) = (packaging("image.py"), neap_binary().expect("required"));
    let image = made(&[script.as_os_str(), out.path().as_os_str(), neap.as_os_str()]);
    // A reader that trusts nothing: each blob has the digest that names it, down to the layer.
    let reader = packaging("test/unpack-image.py");
    run([
        reader.as_os_str(),
        image.as_os_str(),
        root.path().as_os_str(),
    ]);
    fs::create_dir_all(root.path().join("opt/neap")).expect("our own folder");
    root.run(["/neap", "copy", "/opt/neap"]).go().must_exit(0);
    must_manage(&root, &["/opt/neap/neap"], &hog);
}

/// What the level "restricted" of the Pod Security Standards asks for, field by field.
#[test]
fn the_pod_is_of_the_level_restricted_and_asks_for_the_device() {
    let test = "the_pod_is_of_the_level_restricted_and_asks_for_the_device";
    let Some(python) = tool("python3").filter(|python| {
        let words = [python.as_os_str(), "-c".as_ref(), "import yaml".as_ref()];
        Run::new(words).go().code() == 0
    }) else {
        return skip(test, "python3 has no yaml module (PyYAML)");
    };
    let check = packaging("test/restricted.py");
    let folder = packaging("kubernetes");
    run([python.as_os_str(), check.as_os_str(), folder.as_os_str()]);
}

#[test]
fn the_action_installs_and_runs_what_a_step_asks_for() {
    let test = "the_action_installs_and_runs_what_a_step_asks_for";
    if Root::for_test(test).is_none() {
        return;
    }
    let _alone = exclusive();
    let runner = tempfile::tempdir().expect("a temporary folder");
    let archive = package("tarball.sh", runner.path());
    let path = runner.path().join("path");
    fs::write(&path, "").expect("our own folder");
    let hog = program("hog");
    let step = |command: &str, limit: &str| {
        Run::new([packaging("action/neap.sh")])
            .env("RUNNER_TEMP", runner.path())
            .env("GITHUB_PATH", &path)
            .env("NEAP_ARCHIVE", &archive)
            .env("NEAP_REQUIRE", "true")
            .env("NEAP_LIMIT", limit)
            .env("NEAP_COMMAND", command)
            .go()
    };
    let plain = run([hog.as_os_str(), "64".as_ref()]).text();
    let done = step(&format!("'{}' 64 | cat", hog.display()), "32M");
    done.must_exit(0);
    assert!(done.text().ends_with(&plain), "{}", done.text());
    assert!(!done.stderr.contains("pages out: 0 "), "{}", done.stderr);
    let bin = fs::read_to_string(&path).expect("just written");
    assert!(Path::new(bin.trim_end()).join("neap").exists(), "{bin}");
    // As a step of bash: any part of a pipe that fails ends it, and its status is the step's.
    step("false | true; exit 7", "32M").must_exit(1);
    step("exit 7", "32M").must_exit(7);
    step("", "").must_exit(0);
}

/// What every distribution has in common is the kernel.
#[test]
fn the_static_neap_needs_no_library() {
    let test = "the_static_neap_needs_no_library";
    let Some(root) = Root::for_test(test) else {
        return;
    };
    let neap = neap_binary().expect("required");
    if interpreter(&neap).is_some() {
        return skip(
            test,
            "this neap is not static; make packages-test has one that is",
        );
    }
    let Some(hog) = musl_program("hog") else {
        return skip(test, "musl-gcc is not installed");
    };
    let _alone = exclusive();
    let neap = root.add(&neap);
    let words = [neap.as_os_str()].into_iter().chain(RUN.map(OsStr::new));
    let words: Vec<OsString> = words.map(OsStr::to_owned).collect();
    // Only neap, one program for musl and musl: no shell, no glibc.
    let hog = root.add(&hog);
    limits(&root, words.clone(), &hog);
    let alone = root.run([neap.as_os_str(), "doctor".as_ref()]).go();
    alone.must_exit(1);
    assert!(
        alone.text().contains("with a program of your own"),
        "{}",
        alone.text()
    );
    // And with glibc beside it.
    let hog = root.add(&program("hog"));
    limits(&root, words, &hog);
}
