//! Links the library without the C runtime's start files, which would call functions of the program.

#![expect(
    clippy::disallowed_macros,
    reason = "cargo reads what a build script prints"
)]

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-nostartfiles");
    println!("cargo::rerun-if-changed=build.rs");
}
