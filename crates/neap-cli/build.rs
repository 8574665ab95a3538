//! Compiles the preload library, which the command carries.
//!
//! The compiler is called directly: the library is two small crates without dependencies, and a cargo inside cargo
//! would wait for the folder that the outer one holds. So `cargo install`, a target folder elsewhere, no network and
//! another target all give a command that is whole. Flags that are meant for the command are not passed on.

#![expect(
    clippy::disallowed_macros,
    reason = "cargo reads what a build script prints"
)]

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What every crate of the library is compiled with, whatever the command is built for.
const FLAGS: &[&str] = &[
    "--edition=2024",
    "-Copt-level=3",
    "-Ccodegen-units=1",
    "-Cpanic=abort",
    // A thread that is cancelled in a call behind this library's unwinds through it.
    "-Cforce-unwind-tables=yes",
    "-Cdebuginfo=0",
    "-Cembed-bitcode=yes",
];

fn main() {
    let out = PathBuf::from(variable("OUT_DIR"));
    let crates = Path::new(&variable("CARGO_MANIFEST_DIR")).join("..");
    let wire = crates.join("neap-wire/src");
    let preload = crates.join("neap-preload/src");
    for watched in [&wire, &preload] {
        println!("cargo::rerun-if-changed={}", watched.display());
    }
    println!("cargo::rerun-if-changed=build.rs");
    rustc("neap_wire", &wire, &out)
        .arg("--crate-type=rlib")
        .run();
    rustc("neap_preload", &preload, &out)
        .args(["--crate-type=cdylib", "-Clto=fat", "-Cstrip=symbols"])
        // The start files of the C runtime would call functions of the program.
        .arg("-Clink-arg=-nostartfiles")
        .arg("--extern")
        .arg(format!(
            "neap_wire={}",
            out.join("libneap_wire.rlib").display()
        ))
        .run();
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The compiler, for one crate.
fn rustc(name: &str, source: &Path, out: &Path) -> Command {
    let mut rustc = Command::new(variable("RUSTC"));
    rustc.args(FLAGS).args(["--crate-name", name]);
    rustc.arg("--target").arg(variable("TARGET"));
    rustc.arg("--out-dir").arg(out);
    // Paths of the machine that builds are nobody's business.
    rustc.arg(format!("--remap-path-prefix={}={name}", source.display()));
    if let Ok(linker) = env::var("RUSTC_LINKER") {
        rustc.arg(format!("-Clinker={linker}"));
    }
    // A shared library it is also where programs are static by default.
    if variable("CARGO_CFG_TARGET_ENV") == "musl" {
        rustc.arg("-Ctarget-feature=-crt-static");
    }
    rustc.arg(source.join("lib.rs"));
    rustc
}

trait Run {
    fn run(&mut self);
}

impl Run for Command {
    /// Runs it, or ends the build with what it said.
    fn run(&mut self) {
        let output = self
            .output()
            .unwrap_or_else(|error| panic!("{self:?}: {error}"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "the preload library does not compile ({self:?}):\n{said}"
        );
    }
}
