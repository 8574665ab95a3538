. "$RECIPES/lib.sh"
needs_module distributed
# Memory of the worker's own, which Dask does not know and cannot spill: with what Python takes, more than the nanny's number.
cat >rows.py <<'PY'
kept = []
def keep():
    kept.extend(f"row {i} of all that is kept" for i in range(2_000_000))
    return len(kept)
def size(): return sum(map(len, kept))
PY
cat >work.py <<'PY'
from distributed import Client
import rows
with Client(scheduler_file="scheduler.json", timeout=60) as client:
    client.wait_for_workers(1, timeout=60)
    client.upload_file("rows.py")
    print(client.submit(rows.keep).result(), client.submit(rows.size).result())
    client.shutdown()
PY
start_scheduler
neap run -m 128M -- dask worker --scheduler-file scheduler.json --nworkers 1 --nthreads 1 --no-dashboard --memory-limit 200MB & # the line
worker=$!
python3 work.py >answers || { cat "$work/said" scheduler.log; exit 1; }
wait "$worker" || true
kill "$scheduler" 2>/dev/null || true
must_have_paged
if grep -q Restarting "$work/said"; then cat "$work/said"; exit 1; fi
python3 -c '
print(2_000_000, sum(len(f"row {i} of all that is kept") for i in range(2_000_000)))' | cmp - answers
