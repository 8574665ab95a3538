#!/bin/bash
# The tests of packages over the static neap, and what the one for aarch64 does in an emulator. What cannot run here is
# said and counted.
set -u
cd "$(dirname "$0")/../.." || exit 1
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
export NEAP_BIN=$target/packages/$(uname -m)/neap
passed=0 failed=0 skipped=0

outcome() { # NAME STATUS
    if [ "$2" = 0 ]; then
        passed=$((passed + 1)) && echo "ok $1"
    else
        failed=$((failed + 1)) && echo "FAILED $1"
    fi
}
skip() { # NAME WHY
    skipped=$((skipped + 1)) && echo "SKIP $1: $2"
}

make static || exit 1
output=$(mktemp)
trap 'rm -f "$output"' EXIT
cargo test -p neap-tests --no-fail-fast --test packages --test install 2>&1 | tee "$output"
tests=${PIPESTATUS[0]}
read -r ran broke < <(awk '/^test result:/ { p += $4; f += $6 } END { print p + 0, f + 0 }' "$output")
skips=$(grep -c '^SKIP ' "$output")
passed=$((ran - skips)) failed=$broke skipped=$skips
[ "$ran" -gt 0 ] || failed=$((failed + 1))
# A test that ends without a count has failed, too.
[ "$tests" = 0 ] || [ "$broke" -gt 0 ] || failed=$((failed + 1))

wheels=$(mktemp -d)
wheel=$(packaging/wheel.py "$NEAP_BIN" "$wheels")
began=$SECONDS
packaging/test/newcomer.sh "$wheel"
came=$?
echo "a newcomer took $((SECONDS - began)) s to install, to ask doctor and to run a job twice"
case $came in
    77) skip a_newcomer_with_only_the_wheel "not root, no /dev/userfaultfd, or no /usr/bin/python3 with venv" ;;
    0) outcome a_newcomer_with_only_the_wheel 0 ;;
    *) outcome a_newcomer_with_only_the_wheel 1 ;;
esac
rm -r "$wheels"

# The same sources give the same bytes.
same=$(mktemp -d)
for round in 1 2; do
    for script in tarball.sh deb.sh wheel.py; do packaging/$script "$NEAP_BIN" "$same/$round" >/dev/null 2>&1; done
    packaging/image.py "$same/$round" "$NEAP_BIN" >/dev/null
done
diff -r "$same/1" "$same/2"
outcome packages_are_the_same_bytes_twice $?
rm -r "$same"

if ! command -v aarch64-linux-gnu-gcc >/dev/null; then
    skip aarch64 "gcc-aarch64-linux-gnu is not installed"
elif ! command -v qemu-aarch64 >/dev/null; then
    make static ARCH=aarch64
    outcome aarch64_is_built $?
    skip aarch64_runs "qemu-aarch64 (qemu-user) is not installed"
else
    make packages ARCH=aarch64
    outcome aarch64_packages_are_built $?
    other() { qemu-aarch64 "$target/packages/aarch64/neap" "$@"; }
    cmp <(other sim experiment noreuse --json -) <("$NEAP_BIN" sim experiment noreuse --json -)
    outcome aarch64_simulates_the_same_numbers $?
    cmp <(other completions bash) <("$NEAP_BIN" completions bash)
    outcome aarch64_has_the_same_flags $?
    # The emulator has no userfaultfd: doctor must say so, and the program run all the same.
    other doctor | grep -q 'has no userfaultfd(2)'
    outcome aarch64_doctor_blames_the_emulator $?
    skip aarch64_manages_a_program "qemu-user has no userfaultfd; it was never tried on such a machine"
fi
echo
echo "packages: $passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
