//! Programs as they are, compared byte for byte with a plain run, at a third of the anonymous memory they use plainly.
//! With `NEAP_REAL=full` they are large, and run at a half and a quarter.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use neap_tests::{Neap, Need, Run, require, skip, tool};

/// The least limit that is tried: below it neap's own tables are most of what there is.
const LEAST: u64 = 16 << 20;

fn full() -> bool {
    std::env::var_os("NEAP_REAL").is_some_and(|v| v == "full")
}

/// A size for the small runs of every day, and one for `NEAP_REAL=full`.
fn size(small: u32, large: u32) -> String {
    if full() { large } else { small }.to_string()
}

fn script(name: &str) -> OsString {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("programs/real")
        .join(name)
        .into()
}

fn run(words: &[OsString]) -> Run {
    // Hash seeds differ from run to run unless told; the output must not.
    Run::new(words)
        .env("PYTHONHASHSEED", "0")
        .env("LC_ALL", "C")
        .limit(Duration::from_secs(if full() { 3600 } else { 900 }))
}

/// Plainly and under the limit: the same bytes each time, also beside another test.
fn same_output(name: &str, tool: &'static str, job: impl FnOnce() -> Run) {
    if !require(name, &[Need::Neap, Need::Userfaultfd, Need::Tool(tool)]) {
        return;
    }
    let job = job().sampled();
    let plain = job.go();
    plain.must_exit(0);
    assert!(
        !plain.stdout.is_empty(),
        "{} says nothing to compare",
        plain.command
    );
    let peak = plain.peak.map_or(0, |p| p.anon_bytes);
    println!("{name}: plain {:.1} s, {} MiB", plain.seconds, peak >> 20);
    let parts: &[u64] = if full() { &[2, 4] } else { &[3] };
    for part in parts {
        let limit = (peak / part).max(LEAST);
        assert!(
            limit < peak,
            "{}: a peak of {peak} bytes is too small to mean anything",
            plain.command
        );
        let managed = Neap::limit_bytes(limit).run(&job);
        managed.must_have_paged();
        // For whoever looks (--nocapture); no test asserts a time.
        println!(
            "{name}: 1/{part} {:.1} s, {} MiB, {} pages in",
            managed.seconds,
            limit >> 20,
            managed.number("/vmstat/zswpin")
        );
        assert!(
            managed.stdout == plain.stdout,
            "{}: other bytes than without neap\nplain:  {:.400}\nunder neap: {:.400}",
            managed.command,
            plain.text(),
            managed.text()
        );
        // A job may pass a limit this small while what an allocator has just mapped is being found: neap says so.
        let of_limit = |line: &&str| line.starts_with("neap: the job took ");
        let messages = managed.stderr.lines().filter(|line| !of_limit(line));
        assert!(
            messages.eq(plain.stderr.lines()),
            "{}: other messages than without neap\n{}",
            managed.command,
            managed.stderr
        );
    }
}

#[test]
fn python_dicts_and_lists_come_out_the_same() {
    same_output(
        "python_dicts_and_lists_come_out_the_same",
        "python3",
        || {
            run(&[
                "python3".into(),
                script("dicts.py"),
                size(28_000, 1_500_000).into(),
            ])
        },
    );
}

/// A Python that has numpy: the first on the path, or the distribution's.
fn python_with_numpy() -> Option<OsString> {
    ["python3", "/usr/bin/python3"]
        .into_iter()
        .map(OsString::from)
        .find(|python| {
            Path::new(python).exists() | tool("python3").is_some()
                && std::process::Command::new(python)
                    .args(["-c", "import numpy"])
                    .output()
                    .is_ok_and(|o| o.status.success())
        })
}

#[test]
fn numpy_arrays_come_out_the_same() {
    let name = "numpy_arrays_come_out_the_same";
    let Some(python) = python_with_numpy() else {
        return skip(name, "numpy is not installed");
    };
    same_output(name, "python3", || {
        run(&[python, script("arrays.py"), size(2, 30).into()])
    });
}

#[test]
fn node_objects_come_out_the_same() {
    same_output("node_objects_come_out_the_same", "node", || {
        run(&[
            "node".into(),
            script("objects.js"),
            size(50_000, 1_000_000).into(),
        ])
    });
}

#[test]
fn java_objects_come_out_the_same() {
    same_output("java_objects_come_out_the_same", "java", || {
        let heap = if full() { "-Xmx4g" } else { "-Xmx400m" };
        run(&[
            "java".into(),
            heap.into(),
            "-Xshare:auto".into(),
            script("Job.java"),
            size(100_000, 2_000_000).into(),
        ])
    });
}

#[test]
fn sqlite_tables_in_memory_come_out_the_same() {
    same_output(
        "sqlite_tables_in_memory_come_out_the_same",
        "sqlite3",
        || {
            let sql = std::fs::read_to_string(script("tables.sql")).expect("a file of ours");
            let sql = sql.replace("@N@", &size(140_000, 3_000_000));
            run(&["sqlite3".into(), ":memory:".into()]).stdin(sql)
        },
    );
}

/// One large C file: functions with loops and switches that call each other.
fn generated_c(functions: u32, dir: &Path) -> PathBuf {
    let mut text = String::from("int f0(int a, int b) { return a - b; }\n");
    for f in 1..functions {
        text.push_str(&format!(
            "int f{f}(int a, int b) {{ int s = {f}; for (int i = 0; i < a; i++) {{ s += (b ^ i) * {}; \
             if (s % {}) s -= i << {}; switch (s & 7) {{ case 0: s += b; break; case 3: s ^= a; break; \
             case 5: return s * b; }} }} return s + f{}(b, s & 3); }}\n",
            f % 13 + 3,
            f % 7 + 2,
            f % 5,
            (f * 7) % f
        ));
    }
    let path = dir.join("generated.c");
    std::fs::write(&path, text).expect("writing our own file");
    path
}

#[test]
fn gcc_compiles_a_large_file_to_the_same_code() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    same_output("gcc_compiles_a_large_file_to_the_same_code", "gcc", || {
        let file = generated_c(size(280, 8000).parse().expect("a number"), dir.path());
        let words: Vec<OsString> = ["gcc", "-O2", "-S", "-o", "-"]
            .into_iter()
            .map(OsString::from)
            .chain([file.into()])
            .collect();
        run(&words)
    });
}

/// Lines of text in no order, always the same.
fn lines(count: u32, dir: &Path) -> PathBuf {
    let mut state = 1u32;
    let mut text = String::new();
    for i in 0..count {
        state = state.wrapping_mul(1_103_515_245).wrapping_add(12_345) & 0x7fff_ffff;
        text.push_str(&format!("{state} line of text {}\n", i % 1000));
    }
    let path = dir.join("lines");
    std::fs::write(&path, text).expect("writing our own file");
    path
}

#[test]
fn sort_sorts_the_same() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    same_output("sort_sorts_the_same", "sort", || {
        let file = lines(
            size(300_000, 12_000_000).parse().expect("a number"),
            dir.path(),
        );
        let buffer = if full() { "1500M" } else { "150M" };
        run(&["sort".into(), "-S".into(), buffer.into(), file.into()])
    });
}

#[test]
fn xz_compresses_to_the_same_bytes() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    same_output("xz_compresses_to_the_same_bytes", "xz", || {
        let file = lines(
            size(65_000, 2_500_000).parse().expect("a number"),
            dir.path(),
        );
        run(&[
            "xz".into(),
            "-9".into(),
            "-T1".into(),
            "-k".into(),
            "-c".into(),
            file.into(),
        ])
    });
}

/// Programs that bring a malloc of their own by LD_PRELOAD.
fn with_malloc(name: &str, library: &str) {
    let found = [
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/lib64",
        "/usr/lib",
    ]
    .into_iter()
    .map(|dir| Path::new(dir).join(library))
    .find(|path| path.exists());
    let Some(path) = found else {
        return skip(name, &format!("{library} is not installed"));
    };
    same_output(name, "python3", || {
        let python = run(&[
            "python3".into(),
            script("dicts.py"),
            size(14_000, 500_000).into(),
        ]);
        // The interpreter's own arenas would hide the library.
        python.env("LD_PRELOAD", path).env("PYTHONMALLOC", "malloc")
    });
}

#[test]
fn a_program_with_jemalloc_comes_out_the_same() {
    with_malloc(
        "a_program_with_jemalloc_comes_out_the_same",
        "libjemalloc.so.2",
    );
}

#[test]
fn a_program_with_mimalloc_comes_out_the_same() {
    with_malloc(
        "a_program_with_mimalloc_comes_out_the_same",
        "libmimalloc.so.2",
    );
}

#[test]
fn a_program_with_tcmalloc_comes_out_the_same() {
    with_malloc(
        "a_program_with_tcmalloc_comes_out_the_same",
        "libtcmalloc_minimal.so.4",
    );
}
