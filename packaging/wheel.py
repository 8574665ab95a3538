#!/usr/bin/env python3
"""A wheel: `pip install neap-run` puts `neap` on the path, and `python -m neap` runs it.

    packaging/wheel.py NEAP FOLDER     prints the file it made

The standard library is all it needs. The binary decides the tags: a static one runs with glibc and with musl,
another one only on machines like this.
"""

import base64
import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
MACHINES = {62: "x86_64", 183: "aarch64"}
MODULE = {
    "__init__.py": '''"""The neap command: `python -m neap` runs it, and `path()` says where it is."""

import os
import sys
import sysconfig


def path():
    """The neap of this environment, of this user, or of `pip install --target`."""
    user = sysconfig.get_preferred_scheme("user") if sys.version_info >= (3, 10) else "posix_user"
    here = os.path.dirname(os.path.abspath(__file__))
    folders = [
        sysconfig.get_path("scripts"),
        sysconfig.get_path("scripts", user),
        os.path.join(os.path.dirname(here), "bin"),
    ]
    for folder in folders:
        file = os.path.join(folder, "neap")
        if os.access(file, os.X_OK):
            return file
    raise FileNotFoundError("neap is in none of " + ", ".join(folders) + "; try: pip install --force-reinstall neap-run")
''',
    "__main__.py": '''import os
import sys

from . import path

try:
    file = path()
except FileNotFoundError as error:
    sys.exit(f"neap: {error}")
os.execv(file, ["neap", *sys.argv[1:]])
''',
}


def tags(neap: bytes) -> tuple[str, list[str]]:
    """The machine's name in a file name, and each tag."""
    machine = MACHINES[int.from_bytes(neap[18:20], "little")]
    with tempfile.NamedTemporaryFile() as file:
        file.write(neap)
        file.flush()
        segments = subprocess.run(["readelf", "-lW", file.name], capture_output=True, text=True, check=True).stdout
    if "INTERP" in segments:
        platforms = [f"linux_{machine}"]
    else:
        platforms = [f"manylinux_2_17_{machine}", f"manylinux2014_{machine}", f"musllinux_1_1_{machine}"]
    return ".".join(platforms), [f"py3-none-{platform}" for platform in platforms]


def metadata(version: str) -> str:
    readme = (HERE.parent / "README.md").read_text()
    return (
        f"Metadata-Version: 2.4\nName: neap-run\nVersion: {version}\n"
        "Summary: Runs a program, and all it starts, in less memory than it wants\n"
        "License-Expression: MIT OR Apache-2.0\nLicense-File: LICENSE-MIT\nLicense-File: LICENSE-APACHE\n"
        "Requires-Python: >=3.8\nClassifier: Operating System :: POSIX :: Linux\n"
        f"Description-Content-Type: text/markdown\n\n{readme}"
    )


def contents(neap: pathlib.Path, native: str, version: str) -> dict[str, tuple[bytes, int]]:
    """Each file of the wheel but its record."""
    name = f"neap_run-{version}"
    files = {f"neap/{file}": (text.encode(), 0o644) for file, text in MODULE.items()}
    files[f"{name}.data/scripts/neap"] = (neap.read_bytes(), 0o755)
    with tempfile.TemporaryDirectory() as stage:
        environment = {**os.environ, "NEAP_NATIVE": native}
        subprocess.run([HERE / "stage.sh", neap, stage], check=True, env=environment)
        for file in sorted(pathlib.Path(stage, "share").rglob("*")):
            if file.is_file():
                files[f"{name}.data/data/{file.relative_to(stage)}"] = (file.read_bytes(), 0o644)
    info = f"{name}.dist-info"
    files[f"{info}/METADATA"] = (metadata(version).encode(), 0o644)
    lines = [f"Tag: {tag}\n" for tag in tags(neap.read_bytes())[1]]
    head = "Wheel-Version: 1.0\nGenerator: neap\nRoot-Is-Purelib: false\n"
    files[f"{info}/WHEEL"] = ((head + "".join(lines)).encode(), 0o644)
    for licence in ("LICENSE-MIT", "LICENSE-APACHE"):
        files[f"{info}/licenses/{licence}"] = ((HERE.parent / licence).read_bytes(), 0o644)
    return files


def seconds() -> int:
    """When its files were made, as they say: the same sources give the same bytes."""
    said = os.environ.get("SOURCE_DATE_EPOCH")
    if said is None:
        git = subprocess.run(["git", "-C", HERE, "log", "-1", "--format=%ct"], capture_output=True, text=True)
        said = git.stdout.strip() or time.time()
    return int(said)


def write(wheel: pathlib.Path, files: dict[str, tuple[bytes, int]], record: str) -> None:
    lines = []
    for file, (data, _) in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{file},sha256={digest},{len(data)}\n")
    lines.append(f"{record},,\n")
    made = time.gmtime(seconds())[:6]
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for file, (data, mode) in {**files, record: ("".join(lines).encode(), 0o644)}.items():
            entry = zipfile.ZipInfo(file, made)
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    neap, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    native = os.environ.get("NEAP_NATIVE", str(neap.resolve()))
    version = subprocess.run([native, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    out.mkdir(parents=True, exist_ok=True)
    wheel = out / f"neap_run-{version}-py3-none-{tags(neap.read_bytes())[0]}.whl"
    write(wheel, contents(neap, native, version), f"neap_run-{version}.dist-info/RECORD")
    print(wheel)


if __name__ == "__main__":
    main()
