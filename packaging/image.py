#!/usr/bin/env python3
"""An OCI image of one layer that holds /neap and nothing else, to copy from or to run: an image layout in a tar.

    packaging/image.py FOLDER NEAP...     one NEAP for each machine; prints the file it made

No docker is needed. `docker load`, `podman load` and `skopeo copy oci-archive:` read such files.
"""

import gzip
import hashlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tarfile
import time

HERE = pathlib.Path(__file__).resolve().parent
MACHINES = {62: "amd64", 183: "arm64"}
OCI = "application/vnd.oci.image"


def seconds() -> int:
    said = os.environ.get("SOURCE_DATE_EPOCH")
    if said is None:
        git = subprocess.run(["git", "-C", HERE, "log", "-1", "--format=%ct"], capture_output=True, text=True)
        said = git.stdout.strip() or time.time()
    return int(said)


def add(archive: tarfile.TarFile, name: str, data: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.mtime = len(data), mode, seconds()
    archive.addfile(entry, io.BytesIO(data))


class Layout:
    """Blobs by their digest."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}

    def blob(self, data: bytes, kind: str) -> dict:
        digest = hashlib.sha256(data).hexdigest()
        self.blobs[digest] = data
        return {"mediaType": f"{OCI}.{kind}", "digest": f"sha256:{digest}", "size": len(data)}

    def json(self, value: object, kind: str) -> dict:
        return self.blob(json.dumps(value, sort_keys=True).encode(), kind)

    def manifest(self, neap: bytes, version: str) -> dict:
        layer = io.BytesIO()
        with tarfile.open(fileobj=layer, mode="w", format=tarfile.GNU_FORMAT) as archive:
            add(archive, "neap", neap, 0o755)
        plain = layer.getvalue()
        machine = MACHINES[int.from_bytes(neap[18:20], "little")]
        config = {
            "architecture": machine,
            "os": "linux",
            "config": {"Entrypoint": ["/neap"]},
            "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(plain).hexdigest()]},
        }
        parts = {
            "schemaVersion": 2,
            "mediaType": f"{OCI}.manifest.v1+json",
            "config": self.json(config, "config.v1+json"),
            "layers": [self.blob(gzip.compress(plain, 9, mtime=0), "layer.v1.tar+gzip")],
            "annotations": {
                "org.opencontainers.image.title": "neap",
                "org.opencontainers.image.version": version,
                "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
            },
        }
        return {**self.json(parts, "manifest.v1+json"), "platform": {"architecture": machine, "os": "linux"}}


def main() -> None:
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    out, binaries = pathlib.Path(sys.argv[1]), sys.argv[2:]
    native = os.environ.get("NEAP_NATIVE", os.path.abspath(binaries[0]))
    version = subprocess.run([native, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    layout = Layout()
    platforms = [layout.manifest(pathlib.Path(binary).read_bytes(), version) for binary in binaries]
    manifests = platforms
    named = {"org.opencontainers.image.ref.name": version, "io.containerd.image.name": f"localhost/neap:{version}"}
    if len(manifests) > 1:
        inner = {"schemaVersion": 2, "mediaType": f"{OCI}.index.v1+json", "manifests": manifests}
        manifests = [layout.json(inner, "index.v1+json")]
    manifests[0]["annotations"] = named
    index = {"schemaVersion": 2, "mediaType": f"{OCI}.index.v1+json", "manifests": manifests}
    out.mkdir(parents=True, exist_ok=True)
    machines = [manifest["platform"]["architecture"] for manifest in platforms]
    image = out / "-".join(["neap", version, *machines, "oci.tar"])
    with tarfile.open(image, "w", format=tarfile.GNU_FORMAT) as archive:
        add(archive, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
        add(archive, "index.json", json.dumps(index, sort_keys=True).encode())
        for digest, data in sorted(layout.blobs.items()):
            add(archive, f"blobs/sha256/{digest}", data)
    print(image)


if __name__ == "__main__":
    main()
