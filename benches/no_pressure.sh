#!/bin/sh
# What neap costs where it has nothing to do: start, memory of its own, and slowdown under a limit that
# is never met. Runs with and without neap alternate; medians and extremes are printed, nothing is judged.
#
#   benches/no_pressure.sh [RUNS [MIB]]      NEAP_BIN=target/release/neap  CC=cc
set -eu

runs=${1:-21}
mib=${2:-256}
here=$(cd "$(dirname "$0")/.." && pwd)
neap=${NEAP_BIN:-${CARGO_TARGET_DIR:-$here/target}/release/neap}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT INT TERM

[ -x "$neap" ] || { echo "no $neap: cargo build --release -p neap-cli" >&2; exit 1; }
for program in nothing steady; do
    ${CC:-cc} -O2 -o "$dir/$program" "$here/tests/programs/$program.c"
done

# Nanoseconds that a command takes, onto the file $1.
timed() {
    file=$1
    shift
    from=$(date +%s%N)
    "$@" >/dev/null
    to=$(date +%s%N)
    echo $((to - from)) >>"$file"
}

# Median, least and most of a file of nanoseconds, in milliseconds.
figures() {
    sort -n "$1" | awk '{ v[NR] = $1 / 1e6 } END {
        m = NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2
        printf "%9.2f ms  (%.2f to %.2f, %d runs)", m, v[1], v[NR], NR }'
}

median() {
    sort -n "$1" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

# Both ways by turns, so that a machine that warms up or gets busy is the same to both.
alternate() {
    name=$1
    count=$2
    shift 2
    i=0
    while [ "$i" -lt "$count" ]; do
        timed "$dir/$name.plain" "$@"
        timed "$dir/$name.neap" "$neap" run -m 8G -- "$@"
        i=$((i + 1))
    done
    printf '%-28s plain %s\n' "$name" "$(figures "$dir/$name.plain")"
    printf '%-28s neap  %s\n' "" "$(figures "$dir/$name.neap")"
    awk -v a="$(median "$dir/$name.plain")" -v b="$(median "$dir/$name.neap")" \
        'BEGIN { printf "%-28s       %+9.2f ms, %+.2f %%\n", "", (b - a) / 1e6, (b - a) * 100 / a }'
}

echo "machine: $(uname -srm), $(nproc) cpus, $(awk '/MemTotal/ { printf "%.0f MiB", $2 / 1024 }' /proc/meminfo)"
echo "neap:    $("$neap" --version), $(cd "$here" && git rev-parse --short HEAD 2>/dev/null || echo unknown)"
echo
alternate "start (nothing)" "$runs" "$dir/nothing"
alternate "steady ($mib MiB)" "$(((runs + 2) / 3))" "$dir/steady" "$mib" 12

# Memory: what neap says of itself, and the kernel's word for its process while the command runs.
"$neap" run -m 8G --stats "$dir/stats" -- "$dir/steady" "$mib" 12 >/dev/null &
pid=$!
peak=0
while kill -0 "$pid" 2>/dev/null; do
    now=$(awk '/^RssAnon/ { print $2 }' "/proc/$pid/status" 2>/dev/null || echo 0)
    [ "${now:-0}" -gt "$peak" ] && peak=$now
    sleep 0.05
done
wait "$pid" || true
echo
echo "memory of neap itself        $peak KiB of RssAnon at most, $(tr ',' '\n' <"$dir/stats" | grep -o '"overhead_bytes":[0-9]*' || echo 'no overhead_bytes')"
