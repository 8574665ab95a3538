"""Groups rows by key, several ways, with what every python3 has; prints digests. Argument: how many rows."""
import hashlib
import statistics
import sys
from collections import defaultdict

n = int(sys.argv[1])
state = 12345


def rnd():
    global state
    state = (state * 6364136223846793005 + 1442695040888963407) & 0xFFFFFFFFFFFFFFFF
    return state >> 33


CITIES = ["Hamburg", "Lagos", "Lima", "Osaka", "Perth", "Quebec", "Tunis", "Zagreb"]
rows = []
for i in range(n):
    r = rnd()
    rows.append({"id": i, "city": CITIES[r % 8], "customer": "customer-%d" % (r % 5003), "amount": r % 100000 / 100})


def group(key):
    groups = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return groups


digest = hashlib.sha256()
for key in (lambda r: r["city"], lambda r: r["customer"], lambda r: (r["city"], int(r["amount"]) // 100)):
    groups = group(key)
    for name in sorted(groups):
        amounts = [row["amount"] for row in groups[name]]
        line = "%s %d %.2f %.2f %.2f" % (name, len(amounts), sum(amounts), max(amounts), statistics.median(amounts))
        digest.update(line.encode())
    print(len(groups), digest.hexdigest())
rows.sort(key=lambda r: (r["amount"], r["id"]))
for row in rows[:: max(1, n // 1000)]:
    digest.update(repr(row).encode())
print("sorted", digest.hexdigest())
