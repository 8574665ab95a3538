#!/usr/bin/env python3
"""Many jobs under one budget: how evenly reclaim takes from them, by each way to visit them.

    tools/jobs.py --all [--seeds 5]
    tools/jobs.py [--jobs 64] [--mib 8] [--rate 200] [--rounds 40] [--reclaim 8] [--seeds 5] [--walks memcg-lru,full,cookie] [--unequal] [--loud]

Each job touches its own memory at random, at a steady rate. `neap reclaim` takes so many MiB, many times. For each walk: the
standard deviation of pgsteal over its mean, what came over what was asked for, and for each page that left the processor time of
those who take it out (reclaim, the compressors and the agents) and of the whole service. Needs `cargo build --release -p neap-cli` and a C compiler. Nothing else should run.
"""
import argparse
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
NEAP = os.environ.get("NEAP_BIN", str(ROOT / "target/release/neap"))


# The time of agents is looked at that late, in seconds, where there are hundreds.
LATE = 3


def neap(*words, check=True):
    done = subprocess.run([NEAP, *words], capture_output=True, text=True)
    if check and done.returncode:
        sys.exit(f"neap {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def cpu_seconds(pid, names=None):
    """Of a process, or of its threads with these names."""
    tasks = [pathlib.Path(f"/proc/{pid}")] if names is None else pathlib.Path(f"/proc/{pid}/task").iterdir()
    if names is None:
        words = (tasks[0] / "stat").read_text().rsplit(")", 1)[1].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
    total = 0
    for task in tasks:
        try:
            if (task / "comm").read_text().startswith(names):
                total += int((task / "schedstat").read_text().split()[0])
        except OSError:
            pass  # it has ended
    return total / 1e9


def run(args, walk, toucher, folder):
    """One run: pgsteal of each job, its size, what came and what was asked for in bytes, and the two times in seconds."""
    sizes = [args.mib << (number % 4 if args.unequal else 0) for number in range(args.jobs)]
    service = subprocess.Popen([NEAP, "serve", "all", "-m", f"{2 * sum(sizes) + 256}M", "--walk", walk, "--idle", "off"], stderr=None if args.loud else subprocess.DEVNULL)
    while not (folder / "neap/all.sock").exists():
        time.sleep(0.02)
    jobs = []
    try:
        for number, mib in enumerate(sizes):
            file = folder / f"job{number}"
            words = [NEAP, "run", "--in", "all", "--name", f"job{number}", "--", str(toucher), str(mib), str(args.rate * mib // args.mib), str(file)]
            jobs.append((subprocess.Popen(words), file))
            while not pathlib.Path(f"{file}.ready").exists():
                time.sleep(0.01)
        neap("reclaim", "all", f"{args.reclaim}M", check=False)  # memory is registered by that

        def look():
            stats = [json.loads(neap("stat", "--json", f"all/job{number}")) for number in range(args.jobs)]
            agents = sum(process["agent_seconds"] for stat in stats for process in stat["processes"])
            return [stat["vmstat"]["pgsteal"] for stat in stats], agents

        works = lambda: cpu_seconds(service.pid, ("neap-reclaim", "neap-store"))
        time.sleep(LATE)
        before, agents = look()
        began, worked = cpu_seconds(service.pid), works()
        got = 0
        for _ in range(args.rounds):
            done = subprocess.run([NEAP, "reclaim", "all", f"{args.reclaim}M"], capture_output=True, text=True)
            got += int(done.stdout.split()[0]) if done.stdout.split() else 0
        spent, worked = cpu_seconds(service.pid) - began, works() - worked
        time.sleep(LATE)
        after, agents_after = look()
        worked += agents_after - agents
        taken = [late - first for late, first in zip(after, before)]
    finally:
        for _, file in jobs:
            file.touch()
        for job, _ in jobs:
            job.wait()
        service.terminate()
        service.wait()
    return taken, sizes, got, args.rounds * args.reclaim << 20, (worked, spent)


def compare(args, toucher):
    """All runs of one set of jobs, and their medians."""
    print(f"{args.jobs} jobs of {args.mib} MiB{' to ' + str(args.mib * 8) if args.unequal else ''}, {args.rate} touches a second each, {args.rounds} times {args.reclaim} MiB")
    print("walk        stddev/mean  got/asked  us a page  with all   (medians; each run)")
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
            cost.append([seconds * 1e6 / max(sum(taken), 1) for seconds in spent])
        each = " ".join(f"{value:.2f}" for value in spread)
        works, whole = (statistics.median(costs) for costs in zip(*cost))
        print(f"{walk:<12}{statistics.median(spread):>10.2f}{statistics.median(share):>11.2f}{works:>11.2f}{whole:>10.2f}   ({each})", flush=True)


def main():
    parser = argparse.ArgumentParser()
    for name, value in [("jobs", 64), ("mib", 8), ("rate", 200), ("rounds", 40), ("reclaim", 8), ("seeds", 5)]:
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--walks", default="memcg-lru,full,cookie")
    parser.add_argument("--unequal", action="store_true")
    parser.add_argument("--all", action="store_true", help="equal jobs, unequal ones, and 8 to 512 that rest")
    parser.add_argument("--loud", action="store_true", help="let the service say what it says")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # jobs are ended first
    with tempfile.TemporaryDirectory() as build:
        toucher = pathlib.Path(build) / "toucher"
        subprocess.run([os.environ.get("CC", "cc"), "-O2", "-o", toucher, ROOT / "tests/programs/toucher.c"], check=True)
        if not args.all:
            return compare(args, toucher)
        with_rest = [{"jobs": jobs, "mib": mib, "rate": 0, "walks": "memcg-lru"} for jobs, mib in [(8, 64), (64, 8), (256, 4), (512, 4)]]
        for words in [{}, {"mib": 4, "unequal": True}, *with_rest]:
            compare(argparse.Namespace(**{**vars(args), **words}), toucher)


main()
