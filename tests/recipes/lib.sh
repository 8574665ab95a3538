# What every recipe begins with: `. lib.sh`. The line that is marked `# the line` is in docs/guide/recipes.md as it is here.
#
# NEAP: the binary. VENV: a virtual environment with the packages of pip, or empty. DEVICE is found by neap itself.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# Cannot be run here, and why.
skip() {
    echo "skip: $1"
    exit 77
}
needs() {
    command -v "$1" >/dev/null || skip "$1 is not installed"
}
# A module of python, from the virtual environment.
needs_module() {
    [ -n "${VENV:-}" ] || skip "no virtual environment with $1 (make recipes-test makes one)"
    PATH=$VENV/bin:$PATH
    python3 -c "import $1" 2>/dev/null || skip "$1 is not in $VENV"
}
# The same line as a user writes, told to say at its end what it did.
neap() {
    subcommand=$1
    shift
    if [ "$subcommand" = run ]; then set -- --summary --require "$@"; fi
    "$NEAP" "$subcommand" "$@" 2>"$work/said"
}
# That pages left: the program did not fit, and ran all the same.
must_have_paged() {
    grep -q 'pages out: [1-9]' "$work/said" || { cat "$work/said"; exit 1; }
}
# A scheduler of Dask, which writes scheduler.json.
start_scheduler() {
    python3 -m distributed.cli.dask_scheduler --no-dashboard --host 127.0.0.1 --port 0 --scheduler-file scheduler.json >scheduler.log 2>&1 &
    scheduler=$!
    for _ in $(seq 150); do
        if [ -s scheduler.json ]; then break; fi
        sleep 0.2
    done
}
