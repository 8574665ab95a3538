. "$RECIPES/lib.sh"
needs_module xdist
cat >test_rows.py <<'PY'
import pytest
@pytest.fixture(scope="session")
def rows():
    return [f"row {i} of a fixture that every worker builds" for i in range(400_000)]
@pytest.mark.parametrize("step", range(1, 9))
def test_rows(rows, step):
    assert all(row.startswith("row ") for row in rows[::step])
PY
neap run -m 80M -- pytest -q -n 2 >managed # the line
must_have_paged
grep -q '^8 passed' managed
