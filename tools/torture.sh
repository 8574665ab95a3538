#!/bin/bash
# The torture program of the tests under neap, with fresh seeds, for as many seconds as given (default 60). It knows every
# byte it wrote and says how to replay what went wrong.
set -u
cd "$(dirname "$0")/.." || exit 1
target=${CARGO_TARGET_DIR:-target}
program=$target/torture
until=$(($(date +%s) + ${1:-60}))
cc -O2 -g -pthread -o "$program" tests/programs/torture/*.c || exit 1

runs=0
while [ "$(date +%s)" -lt "$until" ]; do
    seed=$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')
    for limit in 24M 48M; do
        if ! "$target/release/neap" run -m $limit --require -- \
            "$program" --seed "$seed" --count 400 --threads 4 --memory 96M >/dev/null; then
            echo "FAILED: seed $seed, limit $limit, after $runs good runs"
            exit 1
        fi
        runs=$((runs + 1))
    done
done
echo "torture: $runs runs, no wrong byte"
