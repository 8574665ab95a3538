#!/bin/bash
# A real program over its memory limit: first plainly, then under neap with little more than half of what it wants.
# The outputs must be equal; the peak must stay at the limit.
set -u
cd "$(dirname "$0")/.." || exit 1
neap=${CARGO_TARGET_DIR:-target}/release/neap
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if command -v python3 >/dev/null; then
    what="a python3 job: 40 days of 40000 records each, kept in memory, sorted day by day, twice"
    cat >"$work/job.py" <<'PYTHON'
import hashlib
days, x = [], 1
for day in range(40):
    records = []
    for i in range(40_000):
        x = x * 6364136223846793005 + 1442695040888963407 & (1 << 64) - 1
        records.append("%020d: record %d of day %d, %s" % (x, i, day, "abcdefghij"[x % 10] * 24))
    days.append(records)
digest = hashlib.sha256()
for turn in (1, 2):
    for records in days:
        records.sort(key=lambda r: r[::-turn] if turn == 2 else r)
        for record in records:
            digest.update(record.encode())
print(digest.hexdigest())
PYTHON
    job=(python3 "$work/job.py")
    limit=128M
else
    what="sort: 5 million numbers, held in memory"
    seq 1 5000000 | awk '{ print ($1 * 2654435761) % 4294967291 }' >"$work/numbers"
    job=(sort -n --parallel=1 -S 2G "$work/numbers")
    limit=200M
fi

# Runs a command and watches the peak of its own resident memory.
plainly() {
    "$@" >"$work/plain.out" &
    local pid=$! peak=0 now
    while kill -0 $pid 2>/dev/null; do
        now=$(awk '/^VmHWM/ { print $2 }' /proc/$pid/status 2>/dev/null)
        [ -n "$now" ] && peak=$now
        sleep 0.02
    done
    wait $pid || return
    echo "$peak" >"$work/plain.peak"
}

seconds() { awk "BEGIN { printf \"%.1f s\", $1 }"; }
mib() { awk "BEGIN { printf \"%.0f MiB\", $1 / 1048576 }"; }
# The figure of the whole run; a list of the same name is of its samples.
field() { grep -o "\"$1\":[0-9][0-9.]*" "$work/stats.json" | head -n 1 | cut -d: -f2; }

echo "the job: $what"
start=$(date +%s.%N)
plainly "${job[@]}" || { echo "the job itself failed"; exit 1; }
plain_time=$(awk "BEGIN { print $(date +%s.%N) - $start }")
plain_peak=$(($(cat "$work/plain.peak") * 1024))

"$neap" run -m "$limit" --stats "$work/stats.json" -- "${job[@]}" >"$work/neap.out"
status=$?

echo
printf '%-24s %12s %12s  %s\n' "" "peak memory" "time" "sha256 of the output"
printf '%-24s %12s %12s  %s\n' "plainly" "$(mib "$plain_peak")" "$(seconds "$plain_time")" \
    "$(sha256sum <"$work/plain.out" | cut -c1-16)"
printf '%-24s %12s %12s  %s\n' "neap run -m $limit" "$(mib "$(field peak_bytes)")" \
    "$(seconds "$(field wall_seconds)")" "$(sha256sum <"$work/neap.out" | cut -c1-16)"
echo
echo "pages compressed $(field zswpout), decompressed $(field zswpin), written to the swap file $(field zswpwb)"

[ "$status" = 0 ] || { echo "FAILED: exit status $status under neap"; exit 1; }
cmp -s "$work/plain.out" "$work/neap.out" || { echo "FAILED: the outputs differ"; exit 1; }
grep -q '"managed":true' "$work/stats.json" || { echo "FAILED: neap did not manage the job; see $neap doctor"; exit 1; }
[ "$(field zswpout)" -gt 0 ] || { echo "no page left the program, so it shows nothing"; exit 1; }
echo "the outputs are equal"
