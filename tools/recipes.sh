#!/bin/bash
# Runs the recipes of the guide, those that need packages of pip included: in a virtual environment of their own.
set -u
cd "$(dirname "$0")/.." || exit 1
venv=${CARGO_TARGET_DIR:-target}/recipes-venv
if [ ! -x "$venv/bin/pytest" ]; then
    python3 -m venv "$venv" && "$venv/bin/pip" install --quiet --disable-pip-version-check \
        pytest pytest-xdist ipykernel jupyter_client duckdb polars gunicorn 'dask[distributed]' ray || echo "not all packages could be installed"
fi
cargo test -p neap-tests --test recipes -- --test-threads=1
