. "$RECIPES/lib.sh"
needs_module distributed
cat >work.py <<'PY'
from distributed import Client
def part(n): return [f"row {i} of part {n}" for i in range(60_000)]
def size(rows): return sum(map(len, rows))
with Client(scheduler_file="scheduler.json", timeout=60) as client:
    client.wait_for_workers(1, timeout=60)
    parts = client.map(part, range(30)) # all are kept at the worker
    print(sum(client.gather(client.map(size, parts))))
    print(sum(client.gather(client.map(size, parts, pure=False))))
    client.shutdown()
PY
start_scheduler
neap run -m 96M -- dask worker --scheduler-file scheduler.json --nthreads 1 --no-nanny --no-dashboard --memory-limit 1GB & # the line
worker=$!
python3 work.py >answers || { cat "$work/said" scheduler.log; exit 1; }
wait "$worker" || true
kill "$scheduler" 2>/dev/null || true
must_have_paged
python3 -c '
total = sum(len(f"row {i} of part {n}") for n in range(30) for i in range(60_000))
print(total, total, sep="\n")' | cmp - answers
