#!/bin/bash
# What other compilers and tools than the usual ones have to say, each where it is installed:
# the oldest Rust that Cargo.toml declares, the fuzz crate and Miri with a nightly, and cargo-deny with deny.toml.
set -u
cd "$(dirname "$0")/.." || exit 1
target=${CARGO_TARGET_DIR:-target}
status=0

# The installed toolchain whose name begins like this.
toolchain() {
    rustup toolchain list 2>/dev/null | cut -d' ' -f1 | grep -m 1 "^$1"
}

oldest=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
if name=$(toolchain "${oldest//./[.]}[.-]"); then
    # Its own folder: artifacts of two compilers do not mix.
    cargo "+$name" check --workspace --target-dir "$target/oldest" || status=1
else
    echo "SKIP oldest-rust: $oldest is not installed; try: rustup toolchain install $oldest --profile minimal"
fi
if name=$(toolchain nightly); then
    cargo "+$name" check --manifest-path fuzz/Cargo.toml --target-dir "$target/fuzz" || status=1
else
    echo "SKIP fuzz-crate: no nightly is installed; try: rustup toolchain install nightly --profile minimal"
fi
tools/miri.sh || status=1
if cargo deny --version >/dev/null 2>&1; then
    cargo deny check bans licenses sources || status=1
    if cargo deny fetch db >/dev/null 2>&1; then
        cargo deny check --disable-fetch advisories || status=1
    else
        echo "SKIP advisories: their list is not to be had; try: cargo deny fetch db"
    fi
else
    echo "SKIP cargo-deny: it is not installed; try: cargo install cargo-deny"
fi
exit $status
