#!/usr/bin/env python3
"""Each shrinker on live programs that write back: a small pool, half the memory that the program wants, by turns.

    tools/schemes.py [--runs 5] [--pool-max 15] [--only phases,burst,gcc,sqlite,zipf]

protection is that of kernels 6.8 to 6.11, referenced the second chance alone, and second-chance the same with disk swap-ins counted,
as in kernels from 6.12 on. Medians. Needs `cargo build --release -p neap-cli -p neap-suite`, a C compiler and sqlite3. Nothing
else should run.
"""
import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILT = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
NEAP = os.environ.get("NEAP_BIN", str(BUILT / "neap"))
SHRINKERS = ["protection", "referenced", "second-chance"]


def programs(folder):
    """Each with its name, its command, and its limit in MiB."""
    phases, work = folder / "phases", BUILT / "neap-work"
    subprocess.run([os.environ.get("CC", "cc"), "-O2", "-o", phases, ROOT / "tests/programs/phases.c"], check=True)
    source, tables = folder / "source.c", folder / "tables.sql"
    with source.open("w") as file:
        subprocess.run([work, "c-source", "600"], stdout=file, check=True)
    tables.write_text((ROOT / "tests/programs/real/tables.sql").read_text().replace("@N@", "300000"))
    return [
        ("phases", [phases, "phases", "128", "8"], 96),
        ("burst", [phases, "burst", "128", "6"], 64),
        ("gcc", ["gcc", "-O2", "-w", "-S", "-o", "/dev/null", source], None),
        ("sqlite", ["sqlite3", ":memory:", f".read {tables}"], None),
        ("zipf", [work, "zipf", "128", "400000"], 64),
    ]


def measured(words):
    """Wall and processor seconds of a command, with all that it started."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    wall, after = time.monotonic() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}: {done.returncode}: {done.stderr}")
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def peak_mib(words, folder):
    """What the program has at its most, without a limit that counts."""
    stats = folder / "stats.json"
    measured([NEAP, "run", "-m", "16G", "--stats", stats, "--", *words])
    return json.loads(stats.read_text())["memory"]["peak_bytes"] >> 20


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--pool-max", type=int, default=15)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        print(f"pool of {args.pool_max} % at most, {args.runs} runs of each by turns, medians")
        print(f"{'program':<10}{'limit':>7}  {'shrinker':<14}{'from disk':>10}{'zswpwb':>9}{'wall s':>8}{'cpu s':>8}")
        for name, words, limit in programs(folder):
            if args.only and name not in args.only.split(","):
                continue
            limit = limit or peak_mib(words, folder) // 2
            seen = {shrinker: [] for shrinker in SHRINKERS}
            for _ in range(args.runs):
                for shrinker in SHRINKERS:
                    stats = folder / "stats.json"
                    flags = ["-m", f"{limit}M", "--pool-max", str(args.pool_max), "--shrinker", shrinker, "--stats", stats]
                    times = measured([NEAP, "run", *flags, "--", *words])
                    vmstat = json.loads(stats.read_text())["vmstat"]
                    seen[shrinker].append((vmstat["pswpin"], vmstat["zswpwb"], *times))
            for shrinker in SHRINKERS:
                read, written, wall, cpu = (statistics.median(column) for column in zip(*seen[shrinker]))
                print(f"{name:<10}{limit:>6}M  {shrinker:<14}{read:>10.0f}{written:>9.0f}{wall:>8.2f}{cpu:>8.2f}", flush=True)


main()
