"""The one at work: `work.py MIB` goes through some of what it has for each line that it reads, and tells how long that took."""
import random
import sys
import time

STEPS = 400_000

rows = int(sys.argv[1]) * 2600
table = {row: (row, f"value of row {row} in a table", [row % 7, row % 11]) for row in range(rows)}
dice, total = random.Random(1), 0
print("ready", flush=True)
for _ in sys.stdin:
    begun = time.monotonic()
    for _ in range(STEPS):
        row = table[int(rows * dice.random() ** 2)]
        total += row[0] + len(row[1])
    print(time.monotonic() - begun, total, flush=True)
