#!/bin/bash
# Everything that can be tested on this machine: lints, other compilers, unit tests, end-to-end tests over the
# release binary. What cannot run here is skipped aloud, and tests are counted.
set -u
cd "$(dirname "$0")/.." || exit 1
target=${CARGO_TARGET_DIR:-target}
status=0

tools/need.sh test || exit 1
# Nothing to go on from: what a later build could take from this one, and the lines of a backtrace, would cost a minute here.
[ -d "$target/debug/incremental" ] || export CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=0
mkdir -p "$target"
cargo build --release -p neap-cli -p neap-suite || exit 1

# Programs on the imagined kernel: for so long, and the same ones each time. `make dst` tries others.
export NEAP_DST_FIRST=1 NEAP_DST_SECONDS=5

set -o pipefail
cargo test --workspace --no-run || status=1
# Lints and other compilers have the cpus while tests wait, in a folder of their own: cargo lets one build at a time into one.
idle=()
command -v chrt >/dev/null && idle=(chrt --idle 0)
(
    beside=0
    CARGO_TARGET_DIR=$target/lint "${idle[@]}" tools/lint.sh || beside=1
    "${idle[@]}" tools/others.sh || beside=1
    exit $beside
) >"$target/others-output.txt" 2>&1 &
others=$!
trap 'kill 0' INT TERM
# End-to-end tests wait a lot, for one another and for what they watch: what the crates test by themselves runs beside them.
whole=() parts=()
for file in tests/tests/*.rs; do whole+=(--test "$(basename "$file" .rs)"); done
for file in crates/*/tests/*.rs; do parts+=(--test "$(basename "$file" .rs)"); done
for file in crates/*/tests/*/main.rs; do parts+=(--test "$(basename "$(dirname "$file")")"); done
(
    beside=0
    timeout --kill-after=10 1200 nice -n 15 cargo test --workspace --no-fail-fast --lib --bins "${parts[@]}" || beside=1
    timeout --kill-after=10 600 nice -n 15 cargo test --workspace --no-fail-fast --doc || beside=1
    exit $beside
) </dev/null >"$target/crates-output.txt" 2>&1 &
crates=$!
# Each test has limits of its own; this one is for what they cannot see, so that counts are printed.
timeout --kill-after=10 2400 cargo test --workspace --no-fail-fast "${whole[@]}" </dev/null 2>&1 | tee "$target/test-output.txt" || status=1
wait $crates || status=1
tee -a "$target/test-output.txt" <"$target/crates-output.txt"
wait $others || status=1
cat "$target/others-output.txt"

# Sums of cargo's own closing lines.
read -r passed failed ignored < <(awk '
    /^test result:/ { p += $4; f += $6; i += $8 }
    END { print p + 0, f + 0, i + 0 }' "$target/test-output.txt")
skipped=$ignored
# "SKIP name: why", past the harness's capture; with one thread it comes behind the name of the test.
skips=$(grep -o 'SKIP [^ ]*: .*' "$target/test-output.txt" | sort -u)
if [ -n "$skips" ]; then
    echo
    echo "skipped on this machine:"
    echo "$skips"
    skips=$(echo "$skips" | wc -l)
    # A test that skips itself passes in cargo's eyes.
    skipped=$((skipped + skips))
    passed=$((passed - skips))
fi
missed=$(grep '^SKIP ' "$target/others-output.txt")
[ -z "$missed" ] || printf '\nnot tried on this machine, %s:\n%s\n' "$(echo "$missed" | wc -l)" "$missed"
# What failed said why somewhere above: once more where it is found, without the frames of its backtrace.
awk '/^---- .* stdout ----$/ { if (!said++) print "\nwhat failed:"; lines = 12 }
    /^stack backtrace:$|^failures:$/ { lines = 0 }
    lines-- > 0 && NF' "$target/test-output.txt"
echo
[ "$status" = 0 ] || echo "something above failed"
echo "tests: $passed passed, $failed failed, $skipped skipped"
[ "$passed" -gt 0 ] || status=1
exit $status
