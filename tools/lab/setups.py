"""What the lab runs: for each experiment of the simulator its machines, and what each configuration is on a real kernel."""

FAIRNESS = {"cgroups": 64, "memory": 16, "rate": 1360, "burst": 50, "warm_up": 10, "writes": 30, "request": 8, "pause": 1,
            "ram": 2600, "swap": 683, "page_cluster": 3, "cpus": 2}
ZSWAP = {"jobs": 2, "memory": 96, "limit": 96, "random": 1024, "exponent": 0.8, "touches": 200, "pool": 50, "ram": 768,
         "swap": 512, "page_cluster": 0, "cpus": 2}
HINTS = {"file": 64, "limit": 64, "rate": 40000, "burst": 10, "seconds": 10, "exponent": 0.8,
         "translations": "forgotten", "ram": 768, "cpus": 2}

# Name of the experiment, test of the guest, words of each configuration, and the machines' parameters.
EXPERIMENTS = [
    ("lab-fairness", "fairness", {"classic": {"lru": "classic"}, "memcg-lru": {"lru": "mglru"}},
     [FAIRNESS,
      FAIRNESS | {"cgroups": 16, "memory": 32, "request": 4},
      FAIRNESS | {"cgroups": 32, "memory": 16, "request": 16},
      FAIRNESS | {"cgroups": 128, "memory": 8, "rate": 680}]),
    ("lab-zswap", "zswap",
     {"classic": {"lru": "classic", "order": 0}, "mglru": {"lru": "mglru", "order": 0},
      "mglru-64k": {"lru": "mglru", "order": 4}},
     [ZSWAP, ZSWAP | {"memory": 160, "limit": 128, "random": 2048, "exponent": 0.6, "page_cluster": 3}]),
    ("lab-hints", "hints",
     {f"{lru}{'+' + hint if hint else ''}": {"lru": lru, "hint": hint or "none"}
      for lru in ("classic", "mglru") for hint in ("", "random", "noreuse")},
     [HINTS, HINTS | {"file": 96, "limit": 128, "exponent": 1.0, "translations": "kept"}]),
]

# Kernels whose rules the simulator knows by name.
KNOWN = [(6, 12), (7, 2)]


def rules_of(version):
    """The newest kernel the simulator knows that is not newer than this one."""
    known = [one for one in KNOWN if one <= tuple(version)] or KNOWN[:1]
    return "{}.{}".format(*known[-1])
