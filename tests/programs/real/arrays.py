"""numpy: blocks that are filled, sorted, multiplied and summed in integers, and all kept; prints digests.
Argument: how many million numbers."""
import hashlib
import sys

import numpy as np

blocks = int(sys.argv[1]) * 4
n = 250_000
kept = []
for k in range(blocks):
    a = np.arange(k * n, (k + 1) * n, dtype=np.uint64)
    b = (a * np.uint64(2654435761)) % np.uint64(1000003)
    order = np.argsort(b, kind="stable")
    c = b[order].reshape(-1, 1000)
    c += a.reshape(-1, 1000)
    c[::2] = 0
    kept.append((b, order, c))
m = (kept[0][0][:160000] % np.uint64(97)).reshape(400, 400).astype(np.int64)
print("product", hashlib.sha256((m @ m).tobytes()).hexdigest())
for turn in range(2):
    digest = hashlib.sha256()
    for b, order, c in kept:
        digest.update(b.tobytes() + order.tobytes() + c.sum(axis=0).tobytes() + c.sum(axis=1).tobytes())
        c += np.uint64(turn)
    print("all", digest.hexdigest())
