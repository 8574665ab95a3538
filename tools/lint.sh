#!/bin/bash
# Formatting, clippy and the documentation's links, each where its component is installed.
set -u
status=0
if cargo fmt --version >/dev/null 2>&1; then
    cargo fmt --all --check || status=1
else
    echo "SKIP formatting: rustfmt is not installed"
fi
if cargo clippy --version >/dev/null 2>&1; then
    cargo clippy --workspace --all-targets -- -D warnings || status=1
else
    echo "SKIP lints: clippy is not installed"
fi
if command -v rustdoc >/dev/null; then
    RUSTDOCFLAGS="${RUSTDOCFLAGS:-} -D warnings" cargo doc --workspace --no-deps --quiet || status=1
else
    echo "SKIP documentation: rustdoc is not installed"
fi
exit $status
