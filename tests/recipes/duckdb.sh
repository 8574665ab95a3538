. "$RECIPES/lib.sh"
needs_module duckdb
cat >query.py <<'PY'
import duckdb
db = duckdb.connect()
db.execute("SET memory_limit = '1GB'; SET threads = 2; SET preserve_insertion_order = false")
db.execute("CREATE TABLE t AS SELECT range AS k, range * 7919 % 100003 AS v, 'row ' || range % 1000 AS s FROM range(3000000)")
print(db.execute("SELECT count(*), sum(v), max(s) FROM (SELECT v % 1000 AS g, sum(v) AS v, max(s) AS s FROM t GROUP BY ALL)").fetchall())
PY
neap run -m 64M -- python3 query.py >managed # the line
must_have_paged
python3 query.py | cmp - managed
