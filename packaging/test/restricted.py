#!/usr/bin/env python3
"""Checks the manifests of a folder: the pod against the level "restricted" of the Pod Security Standards, and that the
device it asks for is the one the plugin gives.

    restricted.py FOLDER
"""

import pathlib
import sys

import yaml

VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}
folder = pathlib.Path(sys.argv[1])
pod = yaml.safe_load((folder / "pod.yaml").read_text())["spec"]
plugin = yaml.safe_load((folder / "device-plugin.yaml").read_text())["spec"]["template"]["spec"]

for forbidden in ("hostNetwork", "hostPID", "hostIPC"):
    assert not pod.get(forbidden), forbidden
for volume in pod["volumes"]:
    assert set(volume) - {"name"} <= VOLUMES, volume
for container in pod["initContainers"] + pod["containers"]:
    own = {**pod["securityContext"], **container["securityContext"]}
    assert not own.get("privileged"), container["name"]
    assert own["allowPrivilegeEscalation"] is False, container["name"]
    assert own["runAsNonRoot"] is True and own["runAsUser"] != 0, container["name"]
    assert own["capabilities"] == {"drop": ["ALL"]}, container["name"]
    assert own["seccompProfile"]["type"] in ("RuntimeDefault", "Localhost"), container["name"]
    assert not any("hostPort" in port for port in container.get("ports", [])), container["name"]
    assert {mount["name"] for mount in container["volumeMounts"]} <= {volume["name"] for volume in pod["volumes"]}

main = pod["containers"][0]
assert main["command"][0] == "/opt/neap/neap" and "--require" in main["command"]
assert any(mount["mountPath"] == "/tmp" for mount in main["volumeMounts"])
devices = yaml.safe_load(plugin["containers"][0]["args"][1])
assert devices["groups"][0]["paths"] == [{"path": "/dev/userfaultfd"}]
assert main["resources"]["limits"][f"squat.ai/{devices['name']}"] == 1
