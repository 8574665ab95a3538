"""A session that has much and is asked little: `session.py MIB`. Each line on standard input is a request, which reads an eighth."""
import sys

rows = int(sys.argv[1]) * 2600
table = {f"key-{row}": (row, f"value of row {row} in a table", [row % 7, row % 11]) for row in range(rows)}
keys = list(table)
print("ready", flush=True)
for number, _ in enumerate(sys.stdin):
    part = keys[number % 8 * rows // 8:(number % 8 + 1) * rows // 8]
    print(sum(table[key][0] + len(table[key][1]) for key in part), flush=True)
