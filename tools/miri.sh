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

# Runs the tests of a crate whose paths contain one of the words, which must be so many.
interpret() {
    local crate=$1 count=$2 output
    output=$(timeout 900 cargo "+$name" miri test --target-dir "$target" -p "$crate" --lib -- "${@:3}" 2>&1) || status=1
    echo "$output" | tail -n 30
    echo "$output" | grep -q "^test result: ok. $count passed" || { echo "miri: $crate: not $count tests passed"; status=1; }
}

interpret neap-policy 5 list::tests page::table page::state_tests::a_refusal page::state_tests::entries
interpret neap-store 3 pool::runs::tests::the_last pool::runs::tests::pages_are pool::tests::a_full_arena
exit $status
