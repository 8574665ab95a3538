#!/bin/bash
# What Miri says of page records, lists and the pool, where a nightly toolchain has it. It takes some 1,000 times as long as a
# test does otherwise, so the exhaustive ones and those of many cases are left out.
set -u
cd "$(dirname "$0")/.." || exit 1
name=$(rustup toolchain list 2>/dev/null | cut -d' ' -f1 | grep -m 1 '^nightly')
if [ -z "$name" ] || ! cargo "+$name" miri --version >/dev/null 2>&1; then
    echo "SKIP miri: no nightly has it; try: rustup toolchain install nightly --profile minimal -c miri,rust-src"
    exit 0
fi
# A folder of its own: artifacts of two compilers do not mix.
target=${CARGO_TARGET_DIR:-target}/miri
status=0

# Runs the tests of a crate whose paths contain one of the words. It fails if no test passes. Beside other tests it gets little of a cpu.
interpret() {
    local crate=$1 output
    output=$(timeout 3600 cargo "+$name" miri test --target-dir "$target" -p "$crate" --lib -- "${@:2}" 2>&1) || status=1
    echo "$output" | tail -n 30
    echo "$output" | grep -q "^test result: ok. [1-9]" || { echo "miri: $crate: no test passed"; status=1; }
}

interpret neap-policy list::tests page::table page::state_tests::a_refusal page::state_tests::entries
interpret neap-store pool::runs::tests::the_last pool::runs::tests::pages_are pool::tests::a_full_arena
exit $status
