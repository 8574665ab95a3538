#!/usr/bin/env python3
"""Boots real kernels in an emulated machine, runs the mails' scripts there at a size that fits, and writes what they
counted as `neap sim experiment NAME --against FILE` reads it."""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time

import debian
import machine
import setups

HERE = os.path.dirname(os.path.abspath(__file__))
# What a boot may take, in seconds: far more than any has taken.
PATIENCE = 3600
# Tools, and the package of Debian that has each.
NEEDED = {"qemu-system-x86_64": "qemu-system-x86", "cc": "gcc libc6-dev", "dpkg-deb": "dpkg", "mkfs.ext4": "e2fsprogs"}


def check_tools():
    """Says what to install, and ends, if a tool is missing."""
    where = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    missing = [tool for tool in NEEDED if not shutil.which(tool, path=where)]
    if missing:
        wanted = " ".join(NEEDED[tool] for tool in missing)
        debian.fail(f"missing: {', '.join(missing)}", f"try: apt-get install --no-install-recommends {wanted}")


def build_init(folder):
    """Our program for the machine: one static file."""
    init = os.path.join(folder, "init")
    sources = [os.path.join(HERE, name) for name in sorted(os.listdir(HERE)) if name.endswith(".c")]
    subprocess.run(["cc", "-O2", "-Wall", "-Wextra", "-static", "-o", init, *sources, "-lm"], check=True)
    return init


def disk_image(folder, mib):
    """The blocks of an empty ext4 of this size that hold something, each behind its number."""
    path = os.path.join(folder, "files.ext4")
    with open(path, "wb") as file:
        file.truncate(mib << 20)
    mkfs = shutil.which("mkfs.ext4", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    subprocess.run([mkfs, "-q", "-b", "4096", "-O", "^has_journal", path], check=True)
    parts, nothing = [], bytes(4096)
    with open(path, "rb") as file:
        for number in range(mib << 8):
            block = file.read(4096)
            if block != nothing:
                parts.append(number.to_bytes(8, "little") + block)
    os.unlink(path)
    return b"".join(parts)


def words_of(test, parameters, config, seed):
    """The command line of one boot."""
    disk = parameters.get("swap") or 2 * parameters["file"] + 64
    return {"test": test, "seed": seed, "disk_kib": disk * 1024, **parameters, **config}


def archive_of(folder, init, kernel, test, parameters):
    """The first file system of a machine, as a file."""
    modules = debian.modules(kernel["modules"], ["brd"] + (["crc32c_generic", "ext4"] if test == "hints" else []))
    files = {}
    if test == "hints":
        files["files.image"] = disk_image(folder, 2 * parameters["file"] + 64)
    path = os.path.join(folder, "first.cpio")
    with open(path, "wb") as file:
        file.write(machine.first_files(init, modules, files))
    return path


def spread(values):
    """Median, least and most."""
    return {"measured": statistics.median(values), "low": min(values), "high": max(values)}


def measure(folder, init, kernel, experiment, parameters, runs):
    """All boots of one machine: an object of the lab's file."""
    name, test, configs, _ = experiment
    archive = archive_of(folder, init, kernel, test, parameters)
    found = {}
    for config, words in configs.items():
        for seed in range(1, runs + 1):
            begin = time.monotonic()
            log = os.path.join(folder, "console.log")
            rows = machine.boot(kernel, archive, words_of(test, parameters, words, seed), parameters["ram"],
                                parameters["cpus"], log, PATIENCE)
            print(f"{name} {config} on {kernel['release']}, run {seed} of {runs}: {time.monotonic() - begin:.0f} s",
                  flush=True)
            for metric, (unit, value) in rows.items():
                found.setdefault((metric, config, unit), []).append(value)
    order = sorted(found, key=lambda key: [metric for metric, _, _ in found].index(key[0]))
    rows = [{"metric": metric, "config": config, "unit": unit, **spread(found[metric, config, unit])}
            for metric, config, unit in order]
    values = {"kernel": setups.rules_of(kernel["version"]), **parameters}
    return {"schema": "neap.lab/1", "name": name, "kernel": kernel["release"], "seeds": runs,
            "parameters": {key: {"value": value} for key, value in values.items()}, "rows": rows}


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(prog="make lab", description=__doc__)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--output")
    parser.add_argument("--kernels", nargs="+", default=list(debian.SUITES), choices=list(debian.SUITES))
    parser.add_argument("--only", nargs="+", help="experiments, or EXPERIMENT:N for the Nth machine of one")
    parser.add_argument("--runs", type=int, default=2)
    return parser.parse_args()


def main():
    args = arguments()
    check_tools()
    os.makedirs(args.folder, exist_ok=True)
    init = build_init(args.folder)
    output = args.output or os.path.join(args.folder, "lab.json")
    objects, faults = [], 0
    for which in args.kernels:
        kernel = debian.kernel(which, args.folder)
        for experiment in setups.EXPERIMENTS:
            for number, parameters in enumerate(experiment[3], 1):
                if args.only and not {experiment[0], f"{experiment[0]}:{number}"} & set(args.only):
                    continue
                try:
                    objects.append(measure(args.folder, init, kernel, experiment, parameters, args.runs))
                except machine.Fault as fault:
                    print(f"make lab: {experiment[0]} on {kernel['release']}: {fault}", file=sys.stderr)
                    faults += 1
                # After each machine: whoever ends the lab early keeps what it measured.
                with open(output, "w") as file:
                    json.dump(objects, file, indent=1)
    print(f"written: {output}; see neap sim experiment all --against {output}")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
