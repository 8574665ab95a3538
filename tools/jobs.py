#!/usr/bin/env python3
"""Many jobs under one budget: how evenly reclaim takes from them, by each way to visit them.

    tools/jobs.py [--jobs 64] [--mib 8] [--rate 200] [--rounds 40] [--reclaim 8] [--seeds 5] [--walks memcg-lru,full,cookie] [--unequal] [--loud]

Each job touches its own memory at random, at a steady rate. `neap reclaim` takes so many MiB, many times. For each walk: the
standard deviation of pgsteal over its mean, what came over what was asked for, and the processor time of the service for each page
that left. Needs `cargo build --release -p neap-cli` and a C compiler. Nothing else should run.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
NEAP = os.environ.get("NEAP_BIN", str(ROOT / "target/release/neap"))


def neap(*words, check=True):
    done = subprocess.run([NEAP, *words], capture_output=True, text=True)
    if check and done.returncode:
        sys.exit(f"neap {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def cpu_seconds(pid):
    words = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def run(args, walk, toucher, folder):
    """One run: pgsteal of each job, its size, what came and what was asked for in bytes, and seconds of the service."""
    stop = folder / "stop"
    sizes = [args.mib << (number % 4 if args.unequal else 0) for number in range(args.jobs)]
    service = subprocess.Popen([NEAP, "serve", "all", "-m", f"{2 * sum(sizes) + 256}M", "--walk", walk, "--idle", "off"], stderr=None if args.loud else subprocess.DEVNULL)
    while not (folder / "neap/all.sock").exists():
        time.sleep(0.02)
    jobs = []
    for number, mib in enumerate(sizes):
        file = folder / f"job{number}"
        words = [NEAP, "run", "--in", "all", "--name", f"job{number}", "--", str(toucher), str(mib), str(args.rate * mib // args.mib), str(file)]
        jobs.append((subprocess.Popen(words), file))
        while not pathlib.Path(f"{file}.ready").exists():
            time.sleep(0.01)
    neap("reclaim", "all", f"{args.reclaim}M", check=False)  # memory is registered by that
    steal = lambda: [json.loads(neap("stat", "--json", f"job{number}"))["vmstat"]["pgsteal"] for number in range(args.jobs)]
    before, began = steal(), cpu_seconds(service.pid)
    got = 0
    for _ in range(args.rounds):
        done = subprocess.run([NEAP, "reclaim", "all", f"{args.reclaim}M"], capture_output=True, text=True)
        got += int(done.stdout.split()[0]) if done.stdout.split() else 0
    spent = cpu_seconds(service.pid) - began
    taken = [after - first for after, first in zip(steal(), before)]
    for job, file in jobs:
        file.touch()
    for job, file in jobs:
        job.wait()
    service.terminate()
    service.wait()
    stop.touch()
    return taken, sizes, got, args.rounds * args.reclaim << 20, spent


def main():
    parser = argparse.ArgumentParser()
    for name, value in [("jobs", 64), ("mib", 8), ("rate", 200), ("rounds", 40), ("reclaim", 8), ("seeds", 5)]:
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--walks", default="memcg-lru,full,cookie")
    parser.add_argument("--unequal", action="store_true")
    parser.add_argument("--loud", action="store_true", help="let the service say what it says")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as build:
        toucher = pathlib.Path(build) / "toucher"
        subprocess.run([os.environ.get("CC", "cc"), "-O2", "-o", toucher, ROOT / "tests/programs/toucher.c"], check=True)
        print(f"{args.jobs} jobs of {args.mib} MiB{' to ' + str(args.mib * 8) if args.unequal else ''}, {args.rate} touches a second each, {args.rounds} times {args.reclaim} MiB")
        print("walk        stddev/mean  got/asked  us a page   (medians; each run)")
        for walk in args.walks.split(","):
            spread, share, cost = [], [], []
            for _ in range(args.seeds):
                folder = pathlib.Path(tempfile.mkdtemp(prefix="neap-jobs-"))
                folder.chmod(0o700)
                os.environ["XDG_RUNTIME_DIR"] = str(folder)
                taken, sizes, got, asked, spent = run(args, walk, toucher, folder)
                shutil.rmtree(folder, ignore_errors=True)
                parts = [pages / mib for pages, mib in zip(taken, sizes)]
                if args.loud:
                    print(sorted(taken))
                spread.append(statistics.pstdev(parts) / max(statistics.mean(parts), 1e-9))
                share.append(got / asked)
                cost.append(spent * 1e6 / max(sum(taken), 1))
            each = " ".join(f"{value:.2f}" for value in spread)
            print(f"{walk:<12}{statistics.median(spread):>10.2f}{statistics.median(share):>11.2f}{statistics.median(cost):>11.2f}   ({each})", flush=True)


main()
