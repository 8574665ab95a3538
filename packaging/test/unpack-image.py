#!/usr/bin/env python3
"""Unpacks an OCI image layout as a container runtime does: from the index down, checking each size and digest.

    unpack-image.py IMAGE.tar FOLDER
"""

import gzip
import hashlib
import io
import json
import platform
import sys
import tarfile

ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]

archive = tarfile.open(sys.argv[1])
assert json.load(archive.extractfile("oci-layout")) == {"imageLayoutVersion": "1.0.0"}


def blob(descriptor: dict) -> bytes:
    kind, digest = descriptor["digest"].split(":")
    data = archive.extractfile(f"blobs/{kind}/{digest}").read()
    assert (len(data), hashlib.sha256(data).hexdigest()) == (descriptor["size"], digest), descriptor
    return data


index = json.load(archive.extractfile("index.json"))
while index["mediaType"].endswith("index.v1+json"):
    fit = [part for part in index["manifests"] if part.get("platform", {}).get("architecture", ARCHITECTURE) == ARCHITECTURE]
    index = json.loads(blob(fit[0]))
config = json.loads(blob(index["config"]))
assert (config["os"], config["architecture"]) == ("linux", ARCHITECTURE), config
assert config["config"]["Entrypoint"] == ["/neap"]
layers = [gzip.decompress(blob(layer)) for layer in index["layers"]]
assert config["rootfs"]["diff_ids"] == ["sha256:" + hashlib.sha256(layer).hexdigest() for layer in layers]
for layer in layers:
    with tarfile.open(fileobj=io.BytesIO(layer)) as files:
        files.extractall(sys.argv[2])
