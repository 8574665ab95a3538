"""The one at work: `work.py MIB ROUNDS` goes through what it has again and again, and tells how long that took."""
import random
import sys
import time

rows, rounds = int(sys.argv[1]) * 2600, int(sys.argv[2])
table = {row: (row, f"value of row {row} in a table", [row % 7, row % 11]) for row in range(rows)}
dice, total = random.Random(1), 0
print("ready", flush=True)
sys.stdin.readline()
begun = time.monotonic()
for _ in range(rounds):
    for _ in range(rows):
        row = table[int(rows * dice.random() ** 2)]
        total += row[0] + len(row[1])
print(time.monotonic() - begun, total, flush=True)
