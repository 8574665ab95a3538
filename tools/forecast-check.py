#!/usr/bin/env python3
"""Forecasts beside real runs: forecast-check.py NEAP NEAP_WORK DIR [PROGRAM...]

Each program is recorded at the least limit, then run by turns plainly and at each limit, three times. What was counted stays in
DIR, so that a second call with --again compares it with another NEAP's forecasts without a run."""
import json
import os
import random
import statistics
import subprocess
import sys

REPOSITORY = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
COUNTS = ("pgmajfault", "zswpin", "pswpin", "pswpout")
ROUNDS = 3


def source():
    """Functions that gcc has something to do with."""
    body = ("int f{0}(int *a,int n){{int s={0};for(int k=0;k<n;k++){{if(a[k]%{1}==1)s+=a[k]*{0}+k;else s^=a[k]<<{2};"
            "switch(s&7){{case 0:a[k]=s;break;case 1:a[k]+=k;break;case 5:s-=k;break;default:s+=a[(k+{0})%n];}}}}return s;}}\n")
    return "".join(body.format(i, i + 3, i % 7) for i in range(250))


def lines():
    random.seed(3)
    line = "%016x the quick %d brown fox %08x jumps over %s\n"
    return "".join(line % (random.getrandbits(64), i, random.getrandbits(32), "lazy " * (i % 5)) for i in range(220000))


def commands(work, folder):
    for name, text in (("source.c", source()), ("lines.txt", lines())):
        with open(f"{folder}/{name}", "w") as file:
            file.write(text)
    with open(f"{REPOSITORY}/tests/programs/real/tables.sql") as script:
        tables = script.read().replace("@N@", "80000")
    with open(f"{folder}/tables.sql", "w") as script:
        script.write(tables)
    by_work = {
        name: [work, name, "64", ops]
        for name, ops in (("zipf", "100000"), ("random", "60000"), ("seq-write", "49152"), ("hot-cold", "250000"))
    }
    group_by = f"{REPOSITORY}/benches/suite/programs/groupby.py"
    return by_work | {
        "python": ["python3", group_by, "40000"],
        "gcc": ["gcc", "-O2", "-w", "-S", "-o", "/dev/null", f"{folder}/source.c"],
        "sort": ["env", "LC_ALL=C", "sort", "--parallel=1", "-S", "4G", "-o", "/dev/null", f"{folder}/lines.txt"],
        "sqlite": ["sqlite3", ":memory:", f".read {folder}/tables.sql"],
    }


def plain(command, folder):
    told = f"{folder}/took"
    timed = ["/usr/bin/time", "-o", told, "-f", "%e %M"] + command
    subprocess.run(timed, stdout=subprocess.DEVNULL, check=True)
    seconds, kib = open(told).read().split()
    return float(seconds), int(kib) * 1024


def limited(neap, limit, command, folder, flags=()):
    stats = f"{folder}/stats.json"
    run = [neap, "run", "-m", str(limit), "--stats", stats, *flags, "--"] + command
    subprocess.run(run, stdout=subprocess.DEVNULL, check=True)
    told = json.load(open(stats))
    counts = told["vmstat"] | told["zswap"]
    return {"seconds": told["wall_seconds"]} | {name: counts[name] for name in COUNTS}


def measure(neap, command, name, folder):
    real = name in ("python", "sqlite", "gcc", "sort")
    peak = plain(command, folder)[1] * (0.85 if name in ("python", "gcc") else 0.97)  # the rest is of files
    shares = (0.5, 0.6, 0.7, 0.8) if real else (0.4, 0.5, 0.65, 0.8)
    limits = [int(peak * share) for share in shares]
    limited(neap, limits[0], command, folder, ["--record", f"{folder}/{name}.neaprec"])
    alone, runs = [], {limit: [] for limit in limits}
    for _ in range(ROUNDS):
        alone.append(plain(command, folder)[0])
        for limit in limits:
            runs[limit].append(limited(neap, limit, command, folder))
    middle = {
        limit: {key: statistics.median(run[key] for run in all_runs) for key in all_runs[0]}
        for limit, all_runs in runs.items()
    }
    return {"plain": statistics.median(alone), "load": os.getloadavg()[0], "real": middle}


def compare(neap, name, row, folder):
    """Lines of the table, and forecast over real of faults, pages in and slowdown at the limits that were not recorded."""
    flags = ["--limits", ",".join(row["real"]), "--time", f"{row['plain']}s", "--json", "-"]
    told = subprocess.run([neap, "sim", "forecast", f"{folder}/{name}.neaprec", *flags], capture_output=True, check=True)
    ratios = []
    for at, (limit, point) in enumerate(zip(row["real"], json.loads(told.stdout)["points"])):
        real = row["real"][limit]
        slower, pages = real["seconds"] / row["plain"], real["zswpin"] + real["pswpin"]
        thought = point["zswpin"] + point["pswpin"]
        recorded = "" if at else ", recorded"
        print(f"| {name} | {int(limit) / 2**20:.1f}M{recorded} | {slower:.2f} | {point['slowdown']:.2f} | {point['slowdown_low']:.2f} .. "
              f"{point['slowdown_high']:.2f} | {real['pgmajfault']:,} | {point['pgmajfault']:,} | {pages:,} | {thought:,} | "
              f"{real['pswpout']:,} | {point['pswpout']:,} |")
        if at:
            ratios.append((point["pgmajfault"] / real["pgmajfault"], thought / pages, point["slowdown"] / slower))
    return ratios


def main():
    again = "--again" in sys.argv
    neap, work, folder, *wanted = [word for word in sys.argv[1:] if word != "--again"]
    ratios = []
    for name, command in commands(work, folder).items():
        if wanted and name not in wanted:
            continue
        kept = f"{folder}/{name}.json"
        if not again:
            json.dump(measure(neap, command, name, folder), open(kept, "w"))
        ratios += compare(neap, name, json.load(open(kept)), folder)
    for what, all_ratios in zip(("major faults", "pages in", "slowdown"), zip(*ratios)):
        off = statistics.median(abs(ratio - 1) for ratio in all_ratios)
        print(f"{what}: off by {off:.0%} in the middle, {min(all_ratios):.2f} to {max(all_ratios):.2f} times the real ones")


main()
