//! neap is one file: its library comes with it and lies, for the time of a run, where every program of the job finds it.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use neap_tests::{
    Neap, Need, Outcome, Run, install_for_everyone, neap_binary, paging, program, require,
};

/// Names the library, shows what of it is mapped, and that it lies where nobody else may change it.
const LOOK: &str = "echo \"$LD_PRELOAD\"; grep -m1 -o 'libneap_preload.so' /proc/self/maps; \
                    stat -L -c '%a %u' \"${LD_PRELOAD##*:}\" \"$(dirname \"${LD_PRELOAD##*:}\")\"";

fn look(neap: &Neap, wrapper: &[&str]) -> Vec<String> {
    let words = wrapper.iter().chain(&["sh", "-c", LOOK]);
    let run = neap.run(&Run::new(words).without("LD_PRELOAD"));
    run.must_exit(0);
    assert_eq!(run.stderr, "");
    run.text().lines().map(str::to_owned).collect()
}

#[test]
fn neap_alone_in_a_folder_manages() {
    let Some(_alone) = paging("neap_alone_in_a_folder_manages") else {
        return;
    };
    let dir = tempfile::tempdir().expect("a temporary folder");
    let binary = neap_binary().expect("required");
    let neap = Neap::limit("48M").binary(install_for_everyone(&binary, dir.path()));
    let hog = Run::new([program("hog").as_os_str(), "96".as_ref()]);
    let plain = hog.go();
    let run = neap.run(&hog);
    run.must_have_paged();
    assert_eq!(run.text(), plain.text());
    let lines = look(&neap, &[]);
    let own = rustix::process::geteuid().as_raw();
    assert_eq!(lines[1], "libneap_preload.so");
    assert_eq!(lines[2..], [format!("444 {own}"), format!("711 {own}")]);
    let library = Path::new(&lines[0]);
    assert!(library.is_absolute() && !library.exists(), "{lines:?}");
    let folder = library.parent().expect("a file lies in a folder");
    assert!(!folder.exists(), "{} stays behind", folder.display());
}

#[test]
fn a_program_that_gave_up_its_user_finds_the_library() {
    let name = "a_program_that_gave_up_its_user_finds_the_library";
    let needs = [
        Need::Neap,
        Need::Userfaultfd,
        Need::Root,
        Need::Tool("setpriv"),
    ];
    if !require(name, &needs) {
        return;
    }
    let wrapper = [
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
    ];
    let neap = Neap::limit("256M");
    // Without a device of its own it may not be managed, which is said.
    let run = neap.run(&Run::new(wrapper.iter().chain(&["sh", "-c", LOOK])));
    run.must_exit(0);
    assert!(
        run.text().contains("\nlibneap_preload.so\n"),
        "{}",
        run.text()
    );
    assert!(!run.stderr.contains("ld.so"), "{}", run.stderr);
}

/// A run in which no usual folder may hold code.
fn without_folders(options: &str, command: &str) -> Outcome {
    let hide = ["/tmp", "/var/tmp", "/dev/shm"]
        .map(|dir| format!("mount -t tmpfs -o {options} none {dir} && "))
        .concat();
    // The usual folders are hidden, and with them perhaps what is to run: a copy of neap alone, and of a program.
    let script = format!(
        "mount -t tmpfs none /media && cp \"$0\" /media/hog && cp \"$1\" /media/neap && shift && {hide} \
         exec /media/neap \"$@\""
    );
    let neap = Neap::limit("48M").option("--summary").option("--no-swap");
    let words = ["unshare", "-m", "sh", "-c", &script].map(Into::into);
    let neap = neap.wrapped(words.into_iter().chain([program("hog").into()]));
    let run = Run::new(["sh", "-c", command]);
    let run = run.without("HOME").without("TMPDIR").without("LD_PRELOAD");
    neap.command(&run.without("XDG_RUNTIME_DIR"), None).go()
}

#[test]
fn where_no_folder_may_hold_code_the_library_is_in_memory() {
    let name = "where_no_folder_may_hold_code_the_library_is_in_memory";
    let needs = [
        Need::Neap,
        Need::Userfaultfd,
        Need::Root,
        Need::Tool("unshare"),
    ];
    if !require(name, &needs) {
        return;
    }
    let hog = program("hog");
    let plain = Run::new([hog.as_os_str(), "96".as_ref()]).go();
    for options in ["noexec", "ro"] {
        let run = without_folders(options, "/media/hog 96; echo \"$LD_PRELOAD\"");
        run.must_exit(0);
        let text = run.text();
        let (said, library) = text.trim_end().rsplit_once('\n').expect("two lines");
        assert_eq!(format!("{said}\n"), plain.text());
        assert!(library.starts_with("/proc/"), "{library}");
        assert!(run.stderr.contains("pages out: "), "{}", run.stderr);
        assert!(!run.stderr.contains("pages out: 0 "), "{}", run.stderr);
    }
}

/// Who may change a folder that lies above the library's could give root a library of his own.
#[test]
fn a_folder_that_others_may_change_is_not_taken() {
    let name = "a_folder_that_others_may_change_is_not_taken";
    if !require(name, &[Need::Neap, Need::Userfaultfd]) {
        return;
    }
    let dir = tempfile::tempdir().expect("a temporary folder");
    let open = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(dir.path(), open).expect("our own folder");
    let lines = look(&Neap::limit("256M").env("TMPDIR", dir.path()), &[]);
    assert!(!Path::new(&lines[0]).starts_with(dir.path()), "{lines:?}");
}
