"""Dicts, lists, strings and sorting; prints digests. Argument: how many objects."""
import hashlib
import sys

n = int(sys.argv[1])
state = 12345


def rnd():
    global state
    state = (state * 6364136223846793005 + 1442695040888963407) & 0xFFFFFFFFFFFFFFFF
    return state >> 33


people = [{"id": i, "name": "name-%d" % (rnd() % 5000), "score": rnd() % 100000, "tags": ["t%d" % (rnd() % 50)] * (i % 4)}
          for i in range(n)]
by_name = {}
for p in people:
    by_name.setdefault(p["name"], []).append(p)
people.sort(key=lambda p: (p["score"], p["id"]))
digest = hashlib.sha256()
for p in people:
    digest.update(("%d %s %d %s\n" % (p["id"], p["name"], p["score"], p["tags"])).encode())
print("sorted", digest.hexdigest())
text = {i: "line %d of %d, %s" % (i, n, "x" * (i % 40)) for i in range(n // 2)}
for i in range(0, n // 2, 3):
    del text[i]
for i in range(n // 4):
    text[rnd() % n] = str(rnd())
digest = hashlib.sha256()
for key in sorted(text):
    digest.update(("%d=%s\n" % (key, text[key])).encode())
print("text", digest.hexdigest())
digest = hashlib.sha256()
for name in sorted(by_name):
    digest.update(("%s %d %d\n" % (name, len(by_name[name]), sum(p["score"] for p in by_name[name]))).encode())
print("names", digest.hexdigest())
