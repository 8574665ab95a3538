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
cargo build --release -p neap-cli -p neap-suite || exit 1
mkdir -p "$target"
tools/lint.sh || status=1

# Programs on the imagined kernel: for so long, and the same ones each time. `make dst` tries others.
export NEAP_DST_FIRST=1 NEAP_DST_SECONDS=5

set -o pipefail
tools/others.sh 2>&1 | tee "$target/others-output.txt" || status=1
# Each test has limits of its own; this one is for what they cannot see, so that counts are printed.
timeout --kill-after=10 2400 cargo test --workspace --no-fail-fast </dev/null 2>&1 | tee "$target/test-output.txt" || status=1

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
others=$(grep '^SKIP ' "$target/others-output.txt")
[ -z "$others" ] || printf '\nnot tried on this machine:\n%s\n' "$others"
echo
[ "$status" = 0 ] || echo "something above failed"
echo "tests: $passed passed, $failed failed, $skipped skipped"
[ "$passed" -gt 0 ] || status=1
exit $status
