//! Forks of ordinary users, which the kernel does not announce: the child is given what is out, and nothing comes back for it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use neap_tests::{Managed, OrdinaryUser, Run, exclusive, program, skip, tool};

struct Nobody {
    user: OrdinaryUser,
    device: PathBuf,
}

impl Nobody {
    fn for_test(name: &str) -> Option<Self> {
        let (user, device) = OrdinaryUser::with_device(name)?;
        Some(Self { user, device })
    }

    fn run(&self, limit: &str, within: &[&str], words: &[OsString]) -> Managed {
        let neap = self.user.run(limit, &self.device, within);
        let run = Run::new(words.iter().cloned()).limit(Duration::from_secs(240));
        neap.run(&run.dir(self.user.dir()))
    }

    /// A program of the tests, which must be paged and end well.
    fn program(&self, name: &str, limit: &str, arguments: &[&str]) -> Managed {
        let copy = self.user.copy(&program(name));
        let words = std::iter::once(copy.as_os_str()).chain(arguments.iter().map(AsRef::as_ref));
        let run = self.run(limit, &[], &words.map(OsString::from).collect::<Vec<_>>());
        run.must_exit(0);
        run.must_have_paged();
        run
    }
}

fn came_back_for_it(run: &Managed) -> bool {
    run.stderr.contains("all pages come back")
}

/// The peak of one that writes to what it shares is another matter: it copies.
#[test]
fn forks_of_twice_the_limit_stay_within_it() {
    let Some(nobody) = Nobody::for_test("forks_of_twice_the_limit_stay_within_it") else {
        return;
    };
    let _alone = exclusive();
    // Each child reads some or all, writes some, and some fork again.
    let run = nobody.program("forkrace", "32M", &["64", "4", "0"]);
    assert_eq!(run.text(), "0 wrong, 0 ended otherwise\n", "{}", run.stderr);
    run.must_be_within_limit();
    assert_eq!(
        run.stderr
            .lines()
            .filter(|line| line.starts_with("neap: "))
            .count(),
        0,
        "{}",
        run.stderr
    );
}

#[test]
fn no_byte_is_wrong_in_a_child_whose_parent_changes_mappings_while_it_forks() {
    let name = "no_byte_is_wrong_in_a_child_whose_parent_changes_mappings_while_it_forks";
    let Some(nobody) = Nobody::for_test(name) else {
        return;
    };
    let _alone = exclusive();
    for threads in ["1", "4"] {
        let run = nobody.program("forkrace", "40M", &["48", "3", threads]);
        assert_eq!(run.text(), "0 wrong, 0 ended otherwise\n", "{}", run.stderr);
        assert!(!came_back_for_it(&run), "{}", run.stderr);
    }
}

#[test]
fn what_is_written_and_read_around_forks_is_right() {
    let name = "what_is_written_and_read_around_forks_is_right";
    let Some(nobody) = Nobody::for_test(name) else {
        return;
    };
    let _alone = exclusive();
    let programs: [(&str, &[&str], &str); 4] = [
        ("hotfork", &["48", "4"], "0 wrong\n"),
        ("heirs", &["48", "3", "64"], "0 wrong\n"),
        ("orphan", &["48", "4"], ""),
        ("household", &["48"], ""),
    ];
    for (name, arguments, expected) in programs {
        let plain = Run::new(
            std::iter::once(program(name).into_os_string())
                .chain(arguments.iter().map(OsString::from)),
        );
        let run = nobody.program(name, "32M", arguments);
        match expected {
            "" => assert_eq!(run.text(), plain.go().text(), "{name}"),
            expected => assert_eq!(run.text(), expected, "{name}"),
        }
        assert!(!came_back_for_it(&run), "{name}: {}", run.stderr);
    }
}

/// Whatever the program was at: in a fault, in a change of mappings, or in the library's part of one.
#[test]
fn forks_in_a_signal_handler_are_right() {
    let Some(nobody) = Nobody::for_test("forks_in_a_signal_handler_are_right") else {
        return;
    };
    let _alone = exclusive();
    let run = nobody.program("interrupted", "32M", &["48", "3"]);
    assert_eq!(run.text(), "0 wrong, 0 failed\n", "{}", run.stderr);
    assert!(!came_back_for_it(&run), "{}", run.stderr);
}

/// Each child ends at once; some end before their parent waits for them, and two are there at a time.
#[test]
fn a_flurry_of_forks_is_right_and_stays_within_the_limit() {
    let Some(nobody) = Nobody::for_test("a_flurry_of_forks_is_right_and_stays_within_the_limit")
    else {
        return;
    };
    let _alone = exclusive();
    let run = nobody.program("flurry", "32M", &["48", "4"]);
    assert_eq!(run.text(), "0 wrong\n", "{}", run.stderr);
    run.must_be_within_limit();
    assert!(!came_back_for_it(&run), "{}", run.stderr);
}

/// What a thread of the parent had not told of is never told. Children that may lack pages for that are ended.
#[test]
fn no_byte_is_wrong_in_a_child_whose_parent_is_killed_meanwhile() {
    let name = "no_byte_is_wrong_in_a_child_whose_parent_is_killed_meanwhile";
    let Some(nobody) = Nobody::for_test(name) else {
        return;
    };
    let _alone = exclusive();
    let run = nobody.program("killedfork", "32M", &["40", "5"]);
    // How many come to their end is up to the machine.
    assert!(run.text().starts_with("0 wrong, "), "{}", run.stderr);
}

/// Interpreters, whose children go on with all that they have, or execute another program.
#[test]
fn scripts_that_fork_are_right() {
    let name = "scripts_that_fork_are_right";
    let Some(nobody) = Nobody::for_test(name) else {
        return;
    };
    // That of a version manager in somebody's home is not everyone's.
    let python = PathBuf::from("/usr/bin/python3");
    if !python.exists() {
        return skip(name, "there is no /usr/bin/python3");
    }
    let _alone = exclusive();
    let script = "\
import os, subprocess, threading, sys
data = [bytes([i % 251]) * 4096 + i.to_bytes(8, 'little') for i in range(12000)]
def right(): return all(d[-8:] == i.to_bytes(8, 'little') and d[0] == i % 251 for i, d in enumerate(data))
def churn():
    while not done.is_set(): bytearray(3 << 20)
done = threading.Event()
threads = [threading.Thread(target=churn) for _ in range(2)]
for thread in threads: thread.start()
bad = 0
for n in range(12):
    child = os.fork()
    if child == 0:
        data[n] = bytes([n]) * 4096 + n.to_bytes(8, 'little')
        os._exit(0 if right() else 1)
    bad += os.waitpid(child, 0)[1] != 0
    bad += subprocess.run(['sh', '-c', 'exit 7'], preexec_fn=lambda: None).returncode != 7
    bad += subprocess.check_output(['echo', str(n)]) != b'%d\\n' % n
done.set()
for thread in threads: thread.join()
print(bad, right())
";
    let words = [python.into(), "-c".into(), script.into()];
    let run = nobody.run("48M", &[], &words);
    assert_eq!(run.text(), "0 True\n", "{}", run.stderr);
    run.must_have_paged();
    assert!(!came_back_for_it(&run), "{}", run.stderr);
    let Some(bash) = tool("bash") else {
        return;
    };
    let script = "a=(); for ((i = 0; i < 90000; i++)); do a[i]=$i-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done; \
        bad=0; for ((i = 0; i < 60; i++)); do \
        [ \"$( (echo ${a[i * 1000]}) | cat)\" = \"${a[i * 1000]}\" ] || bad=$((bad + 1)); done; \
        echo ${#a[@]} $bad";
    let run = nobody.run("10M", &[], &[bash.into(), "-c".into(), script.into()]);
    assert_eq!(run.text(), "90000 0\n", "{}", run.stderr);
    run.must_have_paged();
}

/// Where a child would lack what it needs, its parent's pages come back, or it is refused; no byte is wrong.
#[test]
fn a_fork_that_has_few_descriptors_is_right() {
    let name = "a_fork_that_has_few_descriptors_is_right";
    let Some(nobody) = Nobody::for_test(name) else {
        return;
    };
    let _alone = exclusive();
    let copy = nobody.user.copy(&program("forkrace"));
    for most in [12, 9, 6] {
        // Of the program: neap itself needs more.
        let script = format!("ulimit -n {most}; exec \"$0\" 48 2 0");
        let words = [
            "sh".into(),
            "-c".into(),
            script.into(),
            copy.as_os_str().to_owned(),
        ];
        let run = nobody.run("32M", &[], &words);
        assert_eq!(
            run.text(),
            "0 wrong, 0 ended otherwise\n",
            "{most}: {}",
            run.stderr
        );
    }
}
