//! What is installed beside the command: manual pages and completions, made by the command itself. And that cargo installs a command
//! that is whole.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use neap_tests::{
    Managed, Neap, Need, OrdinaryUser, Run, exclusive, install_for_everyone, neap_binary, paging,
    program, require, skip, target_dir, tool,
};

/// neap below a prefix, as `make install` puts it there.
fn installed(test: &str) -> Option<tempfile::TempDir> {
    if !require(test, &[Need::Neap]) {
        return None;
    }
    let prefix = tempfile::tempdir().expect("a temporary folder");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/stage.sh");
    let neap = neap_binary().expect("required");
    let words = [
        script.as_os_str(),
        neap.as_os_str(),
        prefix.path().as_os_str(),
    ];
    Run::new(words).go().must_exit(0);
    Some(prefix)
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path());
    entries.collect()
}

/// The subcommands that `--help` has.
fn subcommands(neap: &Path) -> Vec<String> {
    let help = Run::new([neap.as_os_str(), "--help".as_ref()]).go().text();
    let rows = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let rows = rows.take_while(|line| !line.is_empty());
    let names = rows.filter_map(|row| row.split_whitespace().next());
    names
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_subcommand_has_a_manual_page_that_a_reader_shows_without_a_warning() {
    let test = "every_subcommand_has_a_manual_page_that_a_reader_shows_without_a_warning";
    let Some(prefix) = installed(test) else {
        return;
    };
    let pages = prefix.path().join("share/man/man1");
    let names = subcommands(&prefix.path().join("bin/neap"));
    assert!(names.iter().any(|name| name == "run"), "{names:?}");
    for name in &names {
        assert!(pages.join(format!("neap-{name}.1")).exists(), "{name}");
    }
    let Some(groff) = tool("groff") else {
        return skip(test, "groff is not installed");
    };
    for page in files(&pages) {
        let words = ["-man", "-Tutf8", "-ww", "-z"].map(OsStr::new);
        let words = [groff.as_os_str()].into_iter().chain(words);
        let run = Run::new(words.chain([page.as_os_str()])).go();
        run.must_exit(0);
        assert_eq!(run.stderr, "", "{}", page.display());
    }
}

#[test]
fn shells_complete_subcommands_and_flags() {
    let test = "shells_complete_subcommands_and_flags";
    let Some(prefix) = installed(test) else {
        return;
    };
    let share = prefix.path().join("share");
    let complete = |words: &str, at: &str| {
        let script = format!(
            ". \"$0\"; COMP_WORDS=({words}); COMP_CWORD={at}; _neap neap \"${{COMP_WORDS[{at}]}}\"; echo \"${{COMPREPLY[@]}}\""
        );
        let file = share.join("bash-completion/completions/neap");
        let words = [
            "bash".as_ref(),
            "-c".as_ref(),
            script.as_ref(),
            file.as_os_str(),
        ];
        Run::new(words).go().text()
    };
    assert_eq!(complete("neap doc", "1"), "doctor\n");
    assert_eq!(complete("neap run --swap-d", "2"), "--swap-dir\n");
    for (shell, file) in [
        ("zsh", "zsh/site-functions/_neap"),
        ("fish", "fish/vendor_completions.d/neap.fish"),
    ] {
        let text = fs::read_to_string(share.join(file)).expect("a file of the package");
        assert!(text.contains("swap-dir"), "{file}");
        match tool(shell) {
            Some(shell) => {
                let read = Command::new(shell).arg("-n").arg(share.join(file)).status();
                assert!(read.is_ok_and(|status| status.success()), "{file}");
            }
            None => skip(&format!("{test}/{shell}"), "it is not installed"),
        }
    }
}

/// `neap` as `cargo install` leaves it, moved to `dir`. Of the release build that tests run with it makes anew what has
/// changed: nothing, as a rule. No test holds that folder's lock.
fn installed_by_cargo(dir: &Path) -> PathBuf {
    let root = tempfile::tempdir().expect("a temporary folder");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/neap-cli");
    let target = fs::canonicalize(target_dir()).expect("the folder that this test is in");
    let words: [&OsStr; 10] = [
        cargo.as_ref(),
        "install".as_ref(),
        "--locked".as_ref(),
        "--offline".as_ref(),
        "--path".as_ref(),
        package.as_ref(),
        "--root".as_ref(),
        root.path().as_ref(),
        "--target-dir".as_ref(),
        target.as_ref(),
    ];
    let run = Run::new(words).limit(Duration::from_secs(900)).go();
    run.must_exit(0);
    let installed = root.path().join("bin/neap");
    assert_eq!(files(&root.path().join("bin")), [installed.as_path()]);
    let copy = install_for_everyone(&installed, dir);
    fs::remove_file(installed).expect("just installed");
    copy
}

/// Below twice its limit, with forks whose children check and change what they share.
fn must_hold(neap: Neap, program: &Path) -> Managed {
    let words = [program.as_os_str(), "48".as_ref(), "4".as_ref()];
    let run = neap.run(&Run::new(words.map(OsString::from)).limit(Duration::from_secs(120)));
    assert_eq!(run.text(), "0 wrong\n", "{}", run.stderr);
    run.must_have_paged();
    run
}

#[test]
fn what_cargo_installs_is_whole_wherever_it_is_moved() {
    let test = "what_cargo_installs_is_whole_wherever_it_is_moved";
    let Some(alone) = paging(test) else { return };
    let place = tempfile::tempdir().expect("a temporary folder");
    let neap = installed_by_cargo(place.path());
    Run::new([neap.as_os_str(), "doctor".as_ref()])
        .go()
        .must_exit(0);
    must_hold(Neap::limit("32M").binary(neap.clone()), &program("hotfork"));
    drop(alone);
    let test = format!("{test}/of_a_user");
    let Some((user, device)) = OrdinaryUser::with_device(&test) else {
        return;
    };
    let _alone = exclusive();
    fs::remove_file(user.neap()).expect("a copy of the usual one");
    install_for_everyone(&neap, user.dir());
    let doctor = user
        .words()
        .into_iter()
        .chain([user.neap().into(), "doctor".into()]);
    let doctor = Run::new(doctor)
        .env("TMPDIR", user.dir())
        .env("NEAP_UFFD_DEVICE", &device);
    doctor.go().must_exit(0);
    must_hold(
        user.run("32M", &device, &[]),
        &user.copy(&program("hotfork")),
    );
}
