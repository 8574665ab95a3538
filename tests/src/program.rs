//! Compiles the C programs of `tests/programs` once, into `target/test-programs`.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::SystemTime;

use crate::process::spawn_unmarked;
use crate::tool;

/// A compiled program of ours.
pub type Program = PathBuf;

static BUILT: Mutex<BTreeMap<String, PathBuf>> = Mutex::new(BTreeMap::new());

/// The folder of this crate.
fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Cargo's target folder: `CARGO_TARGET_DIR`, else the one beside the workspace's manifest.
#[must_use]
pub fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| here().join("../target"), PathBuf::from)
}

/// The program made from `tests/programs/NAME.c` or from all C files of `tests/programs/NAME/`.
///
/// # Panics
/// If the compiler refuses: these programs are part of the tests.
#[must_use]
pub fn program(name: &str) -> Program {
    built(name, "", &[], &usual_compiler())
}

/// As [`program`], linked statically; `None` where the machine has no static C library.
#[must_use]
pub fn static_program(name: &str) -> Option<Program> {
    program_with(name, &["-static"])
}

/// As [`program`], with flags of its own; `None` where the compiler has not what they need.
#[must_use]
pub fn program_with(name: &str, flags: &[&str]) -> Option<Program> {
    let probe = Command::new("sh")
        .args([
            "-c",
            "echo 'int main(void){return 0;}' | cc \"$@\" -x c -o /dev/null -",
            "sh",
        ])
        .args(flags)
        .output()
        .ok()?;
    probe
        .status
        .success()
        .then(|| built(name, &flags.concat(), flags, &usual_compiler()))
}

/// A library of such files, to be preloaded.
#[must_use]
pub fn library(name: &str) -> PathBuf {
    built(name, ".so", &["-shared", "-fPIC"], &usual_compiler())
}

/// The only C file of a program or library.
#[must_use]
pub(crate) fn source(name: &str) -> PathBuf {
    here().join("programs").join(format!("{name}.c"))
}

/// As [`program`], for musl; `None` where musl's compiler is not installed. Headers of the kernel are glibc's folder's.
#[must_use]
pub fn musl_program(name: &str) -> Option<Program> {
    let compiler = tool("musl-gcc")?;
    let multiarch = format!(
        "-idirafter/usr/include/{}-linux-gnu",
        std::env::consts::ARCH
    );
    let flags = ["-idirafter/usr/include", &multiarch];
    Some(built(name, "-musl", &flags, compiler.as_os_str()))
}

fn usual_compiler() -> OsString {
    std::env::var_os("CC").unwrap_or_else(|| "cc".into())
}

fn built(name: &str, suffix: &str, flags: &[&str], compiler: &OsStr) -> PathBuf {
    let key = format!("{name}{suffix}");
    let mut done = BUILT
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(path) = done.get(&key) {
        return path.clone();
    }
    let path = compile(name, &key, flags, compiler);
    done.insert(key, path.clone());
    path
}

fn compile(name: &str, key: &str, flags: &[&str], compiler: &OsStr) -> PathBuf {
    let (sources, newest) = sources(name);
    let dir = target_dir().join("test-programs");
    fs::create_dir_all(&dir).unwrap_or_else(|e| panic!("creating {}: {e}", dir.display()));
    let out = fs::canonicalize(&dir).expect("just created").join(key);
    if modified(&out).is_some_and(|built| built > newest) {
        return out;
    }
    // A private name first: another test process may be running or building the same program.
    let fresh = dir.join(format!("{key}.{}", std::process::id()));
    let mut made = Command::new(compiler);
    made.args(["-O2", "-g", "-Wall", "-Wextra", "-pthread"])
        .args(flags)
        .arg("-o")
        .arg(&fresh)
        .args(&sources)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let made = spawn_unmarked(&mut made)
        .and_then(std::process::Child::wait_with_output)
        .unwrap_or_else(|e| panic!("running {}: {e}", compiler.display()));
    assert!(
        made.status.success(),
        "compiling {name}: {}",
        String::from_utf8_lossy(&made.stderr)
    );
    fs::rename(&fresh, &out).unwrap_or_else(|e| panic!("renaming to {}: {e}", out.display()));
    out
}

/// The C files of a program, and when the newest of them (or of its headers) changed.
fn sources(name: &str) -> (Vec<PathBuf>, SystemTime) {
    let programs = here().join("programs");
    let single = source(name);
    if single.exists() {
        let at = modified(&single).unwrap_or(SystemTime::UNIX_EPOCH);
        return (vec![single], at);
    }
    let dir = programs.join(name);
    let entries = fs::read_dir(&dir).unwrap_or_else(|e| panic!("reading {}: {e}", dir.display()));
    let mut files: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
    files.sort();
    let newest = files
        .iter()
        .filter_map(|f| modified(f))
        .max()
        .unwrap_or(SystemTime::UNIX_EPOCH);
    files.retain(|f| f.extension().is_some_and(|e| e == "c"));
    assert!(!files.is_empty(), "no C files in {}", dir.display());
    (files, newest)
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|m| m.modified()).ok()
}
