"""Debian's kernels: fetched with their checksums, unpacked, and never installed on this machine."""

import hashlib
import lzma
import os
import re
import subprocess
import sys
import urllib.request

MIRROR = os.environ.get("NEAP_LAB_MIRROR", "http://deb.debian.org/debian")
# Where kernels are, and which: the long-term one that docs/experiments measured, and the newest there is.
SUITES = {"6.12": ("trixie", r"linux-image-6\.12\.\d+\+deb13-amd64"), "newest": ("sid", r"linux-image-\d[\d.]*\+deb\d+-amd64")}


def fail(*lines):
    """Says what happened and what to do, and ends."""
    for line in lines:
        print(f"make lab: {line}", file=sys.stderr)
    sys.exit(1)


def fetch(url, path=None):
    """The bytes behind an address; into a file, if one is named."""
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            data = answer.read()
    except OSError as error:
        fail(f"cannot fetch {url}: {error}", "the lab needs the network; NEAP_LAB_MIRROR names another mirror of Debian")
    if path:
        with open(path + ".part", "wb") as file:
            file.write(data)
        os.rename(path + ".part", path)
    return data


def packages(text):
    """The packages of an index: name to fields."""
    found = {}
    for stanza in text.split("\n\n"):
        fields = dict(re.findall(r"^(\w[\w-]*): (.*)$", stanza, re.M))
        if "Package" in fields:
            found[fields["Package"]] = fields
    return found


def version_of(name):
    """The version in a package's name, as numbers that compare."""
    return [int(part) for part in re.search(r"-([\d.]+)\+", name)[1].split(".")]


def wanted(index, pattern):
    """The newest kernel of an index that the pattern names, with the packages that hold its parts."""
    names = [name for name in index if re.fullmatch(pattern, name)]
    if not names:
        fail(f"the mirror has no {pattern}")
    newest = max(names, key=version_of)
    parts = [newest]
    for name in re.findall(r"(linux-[\w.+-]+-amd64) \(=", index[newest].get("Depends", "")):
        parts.append(name)
    return newest, [index[name] for name in parts if name in index]


def kernel(which, folder):
    """Fetches a kernel: its version, the folder that it is unpacked in, and its file."""
    suite, pattern = SUITES[which]
    data = fetch(f"{MIRROR}/dists/{suite}/main/binary-amd64/Packages.xz")
    name, parts = wanted(packages(lzma.decompress(data).decode()), pattern)
    root = os.path.join(folder, name)
    if not os.path.exists(os.path.join(root, "complete")):
        os.makedirs(root, exist_ok=True)
        for part in parts:
            deb = os.path.join(root, os.path.basename(part["Filename"]))
            print(f"fetching {part['Package']} of Debian {suite}, {int(part['Size']) // 1000000} MB", flush=True)
            data = fetch(f"{MIRROR}/{part['Filename']}", deb)
            if hashlib.sha256(data).hexdigest() != part["SHA256"]:
                os.unlink(deb)
                fail(f"{part['Package']} is damaged: its sha256 is not that of the index", "run make lab again")
            subprocess.run(["dpkg-deb", "-x", deb, root], check=True)
            os.unlink(deb)
        open(os.path.join(root, "complete"), "w").close()
    release = name.removeprefix("linux-image-")
    modules = next(path for path in (f"{root}/usr/lib/modules/{release}", f"{root}/lib/modules/{release}") if os.path.isdir(path))
    image = next(path for path in (f"{root}/boot/vmlinuz-{release}", f"{modules}/vmlinuz") if os.path.exists(path))
    return {"release": release, "image": image, "modules": modules, "version": version_of(name)[:2]}


def modules(folder, names):
    """Modules with those they need, each after what it needs: names and bytes."""
    paths = {}
    for top, _, files in os.walk(os.path.join(folder, "kernel")):
        for file in files:
            if match := re.fullmatch(r"([\w-]+)\.ko(\.xz)?", file):
                paths[match[1].replace("-", "_")] = os.path.join(top, file)
    found = {}

    def load(name):
        if name in found or name not in paths:
            return  # a module that is not there is part of the kernel
        with open(paths[name], "rb") as file:
            data = file.read()
        if paths[name].endswith(".xz"):
            data = lzma.decompress(data)
        needs = re.search(rb"\0depends=([\w,-]*)\0", data)
        for need in needs[1].decode().split(",") if needs else []:
            if need:
                load(need.replace("-", "_"))
        found[name] = data

    for name in names:
        load(name)
    return found
