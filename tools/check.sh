#!/bin/bash
# What to run while working: lints, the unit tests of every crate, and the house rules. No test here starts the command.
set -u
cd "$(dirname "$0")/.." || exit 1
tools/need.sh build || exit 1
status=0
tools/lint.sh || status=1
# One command for all, so that nothing is built twice.
cargo test --workspace --no-fail-fast --lib --bins --test style || status=1
[ "$status" = 0 ] && echo "all is well" || echo "something above failed"
exit $status
