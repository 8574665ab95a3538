#!/usr/bin/env python3
"""Twelve idle sessions and one at work, in a third of the memory that they have.

    tools/sessions/run.py [--runs 3] [--share 3] [--ways plain,neap,kernel]

Four sessions each of python, node and java have some 200 MiB, and rest; one of node is a language server with the standard library of
Python, where there is pyright-langserver on the path (npm install pyright). Then one more is at work (300 MiB, of which few rows are
asked for most often); afterwards each idle session is asked something twice. plain: no limit. neap: jobs of one `neap serve`. kernel: one
memory cgroup (version 1) with zswap and a swap file, as root. A twin of the one at work has no limit in any way, and both take turns: what a row
takes depends on which pages the machine gave, and on its other guests, by more than on any limit. Prints medians over the runs: the
seconds of the one at work, and their ratio to those of its twin; answers of the idle ones in milliseconds (median and worst), and the memory that all had
at the end of the rest. Nothing else should run.
"""
import argparse
import contextlib
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

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
NEAP = os.environ.get("NEAP_BIN", str(ROOT / "target/release/neap"))
CGROUP = pathlib.Path("/sys/fs/cgroup/memory/neap-sessions")
ZSWAP = pathlib.Path("/sys/module/zswap/parameters")
SWAP_BYTES = 8 << 30
TURNS = 20


class Session:
    def __init__(self, words, inside=None):
        self.process = subprocess.Popen(list(map(str, words)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=inside)

    def ready(self):
        assert self.process.stdout.readline() == "ready\n", "a session has ended"

    def ask(self):
        """The answer, and milliseconds until it came."""
        begun = time.monotonic()
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        return answer, (time.monotonic() - begun) * 1e3

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def commands(folder):
    """Those of the sessions, and that of the one at work."""
    subprocess.run(["javac", "-d", folder, HERE / "Session.java"], check=True)
    one_of_each = [
        [sys.executable, HERE / "session.py", 200],
        ["node", HERE / "session.js", 120],
        ["java", "-Xmx600m", "-XX:+UseSerialGC", "-cp", folder, "Session", 190],
    ]
    sessions = one_of_each * 4
    if server := shutil.which("pyright-langserver"):
        library = pathlib.Path(json.__file__).parents[1]
        files = sorted([*library.glob("asyncio/*.py"), *library.glob("email/*.py")])[:16]
        sessions[4] = [sys.executable, HERE / "language.py", server, *files]
    else:
        print("no pyright-langserver: no language server is among the sessions")
    return sessions, [sys.executable, HERE / "work.py", 300]


def resident(pids):
    """Anonymous memory of processes and all their descendants, in MiB."""
    children = {}
    for entry in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            children.setdefault(int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1]), []).append(int(entry.name))
    total, todo = 0, list(pids)
    while todo:
        pid = todo.pop()
        todo += children.get(pid, [])
        with contextlib.suppress(OSError):
            status = pathlib.Path(f"/proc/{pid}/status").read_text()
            # An agent tells of the memory that it shares with its process.
            if "Name:\tmm-agent" not in status:
                total += sum(int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon:"))
    return total >> 10


@contextlib.contextmanager
def plain(folder, budget):
    yield lambda words: words, None, lambda pids: resident(pids)


@contextlib.contextmanager
def neap(folder, budget):
    runtime = folder / "runtime"
    runtime.mkdir(mode=0o700)
    os.environ["XDG_RUNTIME_DIR"] = str(runtime)
    service = subprocess.Popen([NEAP, "serve", "all", "-m", f"{budget}M", "--idle", "3s", "--swap-dir", "/var/tmp"])
    while not (runtime / "neap/all.sock").exists():
        time.sleep(0.02)

    def used(_pids):
        stat = json.loads(subprocess.run([NEAP, "stat", "--json", "all"], capture_output=True, text=True, check=True).stdout)
        return stat["memory"]["current_bytes"] >> 20

    try:
        yield lambda words: [NEAP, "run", "--in", "all", "--", *words], None, used
    finally:
        service.terminate()
        service.wait()


@contextlib.contextmanager
def kernel(folder, budget):
    swap = pathlib.Path("/var/tmp/neap-sessions-swap")
    wanted = {"enabled": "Y", "max_pool_percent": "20"}
    if (ZSWAP / "shrinker_enabled").exists():
        wanted["shrinker_enabled"] = "Y"
    before = {name: (ZSWAP / name).read_text().strip() for name in wanted}
    CGROUP.mkdir(exist_ok=True)
    try:
        with swap.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, SWAP_BYTES)
        swap.chmod(0o600)
        subprocess.run(["mkswap", swap], check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["swapon", swap], check=True)
        for name, value in wanted.items():
            (ZSWAP / name).write_text(value)
        (CGROUP / "memory.limit_in_bytes").write_text(str(budget << 20))
        join = lambda: (CGROUP / "cgroup.procs").write_text(str(os.getpid()))
        yield lambda words: words, join, lambda _pids: int((CGROUP / "memory.usage_in_bytes").read_text()) >> 20
    finally:
        subprocess.run(["swapoff", swap], stderr=subprocess.DEVNULL)
        for name, value in before.items():
            (ZSWAP / name).write_text(value)
        swap.unlink(missing_ok=True)
        for _ in range(100):
            with contextlib.suppress(OSError):
                CGROUP.rmdir()
                break
            time.sleep(0.1)


WAYS = {"plain": plain, "neap": neap, "kernel": kernel}


def by_turns(works, twin):
    """Seconds of the one at work, and of its twin, who begins every second turn."""
    seconds = {works: 0.0, twin: 0.0}
    for turn in range(TURNS):
        for session in (works, twin) if turn % 2 else (twin, works):
            seconds[session] += float(session.ask()[0].split()[0])
    return seconds[works], seconds[twin]


def run(way, budget, folder):
    """One run: seconds of the one at work and of its twin, the first and the second answers, and what all had."""
    idle, worker = commands(folder)
    with WAYS[way](folder, budget) as (within, inside, used):
        sessions = []
        try:
            for words in idle:
                sessions.append(Session(within(words), inside))
                sessions[-1].ready()
            time.sleep(10)
            has = used([session.process.pid for session in sessions])
            works = Session(within(worker), inside)
            sessions.append(works)
            works.ready()
            twin = Session(worker)
            sessions.append(twin)
            twin.ready()
            worked = by_turns(works, twin)
            first = [session.ask() for session in sessions[:-2]]
            second = [session.ask() for session in sessions[:-2]]
            assert len({answer for answer, _ in first[::3]}) == 1, "sessions of a kind answer alike"
            return worked, [late for _, late in first], [late for _, late in second], has
        finally:
            for session in sessions:
                session.end()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--share", type=int, default=3, help="the budget is one part of so many")
    parser.add_argument("--ways", default="plain,neap,kernel")
    args = parser.parse_args()
    # As an interrupt: what was set up is taken down.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    seen = {way: [] for way in args.ways.split(",")}
    budget = None
    for _ in range(args.runs):
        for way in seen:
            folder = pathlib.Path(tempfile.mkdtemp(prefix="neap-sessions-"))
            try:
                seen[way].append(run(way, budget, folder))
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            if budget is None:
                assert way == "plain", "plain comes first: the budget is a part of what it has"
                budget = (seen[way][0][3] + 300) // args.share
                print(f"sessions of {seen[way][0][3]} MiB and one at work, in {budget} MiB")
    print("way       at work s / twin   first ms (worst)  second ms (worst)   had MiB")
    for way, runs in seen.items():
        worked = statistics.median(run[0][0] for run in runs)
        ratio = statistics.median(run[0][0] / run[0][1] for run in runs)
        answers = [[late for run in runs for late in run[at]] for at in (1, 2)]
        words = [f"{statistics.median(late):.0f} ({max(late):.0f})" for late in answers]
        print(f"{way:<10}{worked:>9.2f}{ratio:>7.2f}{words[0]:>19}{words[1]:>19}{statistics.median(run[3] for run in runs):>10.0f}")


main()
