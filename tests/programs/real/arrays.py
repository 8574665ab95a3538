"""numpy: fills, sorts, multiplies, sums in integers; prints digests. Argument: how many million numbers."""
import hashlib
import sys

import numpy as np

n = int(sys.argv[1]) * 1_000_000
a = np.arange(n, dtype=np.uint64)
b = (a * np.uint64(2654435761)) % np.uint64(1000003)
order = np.argsort(b, kind="stable")
print("order", hashlib.sha256(order.tobytes()).hexdigest())
c = b[order].reshape(-1, 1000)
print("columns", hashlib.sha256(c.sum(axis=0).tobytes()).hexdigest())
c += a.reshape(-1, 1000)
c[::2] = 0
print("rows", hashlib.sha256(c.sum(axis=1).tobytes()).hexdigest())
m = (b[:640000] % np.uint64(97)).reshape(800, 800).astype(np.int64)
print("product", hashlib.sha256((m @ m).tobytes()).hexdigest())
