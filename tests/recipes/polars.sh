. "$RECIPES/lib.sh"
needs_module polars
cat >frame.py <<'PY'
import polars
frame = polars.DataFrame({"k": range(2_000_000)}).with_columns(
    v=polars.col("k") * 7919 % 100003, s=polars.lit("row ") + (polars.col("k") % 1000).cast(str)
)
print(frame.group_by("s").agg(polars.col("v").sum()).sort("s").select(polars.col("v").sum(), polars.len()).row(0))
PY
POLARS_MAX_THREADS=2 neap run -m 128M -- python3 frame.py >managed # the line
must_have_paged
POLARS_MAX_THREADS=2 python3 frame.py | cmp - managed
