"""The emulated machine: its first file system, and one boot."""

import os
import subprocess

# One instruction a nanosecond, and no waiting for time to pass: its time does not hang on what else runs here.
CLOCK = ["-accel", "tcg", "-icount", "shift=0,sleep=off"]


def entry(name, mode, data=b"", device=(0, 0), _next=[1]):
    """One file of a cpio archive of the "newc" kind."""
    _next[0] += 1
    path = name.encode() + b"\0"
    numbers = [_next[0], mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(path), 0]
    head = b"070701" + b"".join(b"%08X" % number for number in numbers)

    def padded(part):
        return part + b"\0" * (-len(part) % 4)

    return padded(head + path) + padded(data)


def first_files(init, modules, files):
    """The initial file system: our program, the modules in the order in which it loads them, and other files."""
    parts = [entry(name, 0o040755) for name in ("dev", "proc", "sys", "modules")]
    parts.append(entry("dev/console", 0o020600, device=(5, 1)))
    with open(init, "rb") as file:
        parts.append(entry("init", 0o100755, file.read()))
    for number, (name, data) in enumerate(modules.items()):
        parts.append(entry(f"modules/{number:02}.ko", 0o100644, data))
        parts.append(entry(f"modules/{number:02}.name", 0o100644, name.encode()))
    parts += [entry(name, 0o100644, data) for name, data in files.items()]
    parts.append(entry("TRAILER!!!", 0))
    return b"".join(parts)


class Fault(Exception):
    """A machine that did not come to its end."""


def boot(kernel, archive, words, ram, cpus, log, patience):
    """Boots once and returns the rows: metric to unit and value."""
    line = " ".join(f"lab.{key}={value}" for key, value in words.items())
    command = ["qemu-system-x86_64", *CLOCK, "-m", str(ram), "-smp", str(cpus), "-display", "none", "-nodefaults",
               "-no-reboot", "-serial", "stdio", "-kernel", kernel["image"], "-initrd", archive,
               "-append", f"console=ttyS0 quiet panic=-1 random.trust_cpu=on nokaslr {line}"]
    try:
        ran = subprocess.run(command, capture_output=True, timeout=patience, check=False)
    except subprocess.TimeoutExpired as late:
        ran = late
    said = (ran.stdout or b"").decode(errors="replace") + (ran.stderr or b"").decode(errors="replace")
    with open(log, "w") as file:
        file.write(said)
    rows, ended = {}, False
    for line in said.splitlines():
        at = line.find("LAB ")
        parts = line[at:].split() if at >= 0 else []
        if parts[1:2] == ["row"] and len(parts) == 5:
            rows[parts[2]] = (parts[3], float(parts[4]))
        elif parts[1:2] == ["fault"]:
            raise Fault(" ".join(parts[2:]))
        ended |= parts[1:2] == ["end"]
    if not ended:
        raise Fault(f"the machine did not come to its end; its last words are in {os.path.relpath(log)}")
    return rows
