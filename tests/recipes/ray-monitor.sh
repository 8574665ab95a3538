. "$RECIPES/lib.sh"
needs_module ray
memory=/sys/fs/cgroup/memory
# As in a container of 900 MiB, where Ray's monitor ends a worker once 95 % of that are used.
if [ -z "${CONTAINER:-}" ]; then
    [ -w $memory/memory.limit_in_bytes ] || skip "no memory cgroup (version 1) that this user may divide"
    container=$memory/neap-recipe-$$ status=0
    mkdir "$container"
    echo 900M >"$container/memory.limit_in_bytes"
    CONTAINER=$container unshare -m sh "$RECIPES/ray-monitor.sh" || status=$?
    for _ in $(seq 50); do
        if rmdir "$container" 2>/dev/null; then break; fi
        sleep 0.2
    done
    exit "$status"
fi
echo $$ >"$CONTAINER/tasks"
mount --bind "$CONTAINER" $memory
cat >job.py <<'PY'
import ray
ray.init(num_cpus=1, object_store_memory=80 * 2**20, include_dashboard=False, _temp_dir=__import__("sys").argv[1], log_to_driver=False)
@ray.remote(max_restarts=0)
class Keeper:
    def __init__(self): self.rows = []
    def fill(self, n):
        self.rows += [f"row {i} of part {n}" for i in range(100_000)]
        return len(self.rows)
    def size(self): return sum(map(len, self.rows))
keeper = Keeper.remote()
print([ray.get(keeper.fill.remote(n)) for n in range(60)][-1], ray.get(keeper.size.remote()))
PY
neap run -m 500M -- python3 job.py "$work/ray" >managed || { cat "$work/said"; exit 1; } # the line
must_have_paged
python3 -c '
print(60 * 100_000, sum(len(f"row {i} of part {n}") for n in range(60) for i in range(100_000)))' | cmp - managed
grep -qs 'ThresholdMemoryMonitor initialized' "$work"/ray/session_latest/logs/raylet.out || { echo 'the monitor was not on'; exit 1; }
