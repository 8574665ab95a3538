. "$RECIPES/lib.sh"
needs_module ray
cat >job.py <<'PY'
import ray
ray.init(num_cpus=1, object_store_memory=80 * 2**20, include_dashboard=False, _temp_dir=__import__("sys").argv[1], log_to_driver=False)
@ray.remote
class Keeper:
    def __init__(self): self.rows = []
    def fill(self, n):
        self.rows += [f"row {i} of part {n}" for i in range(100_000)]
        return len(self.rows)
    def size(self): return sum(map(len, self.rows))
keeper = Keeper.remote()
print(ray.get([keeper.fill.remote(n) for n in range(16)])[-1], ray.get(keeper.size.remote()))
PY
neap run -m 256M -- python3 job.py "$work/ray" >managed # the line
must_have_paged
python3 -c '
print(16 * 100_000, sum(len(f"row {i} of part {n}") for n in range(16) for i in range(100_000)))' | cmp - managed
