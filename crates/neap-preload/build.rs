//! Links the library without the C runtime's start files, which would call functions of the program.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-nostartfiles");
    println!("cargo::rerun-if-changed=build.rs");
}
