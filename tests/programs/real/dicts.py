"""Dicts, lists, strings and sorting, in batches that are all kept; prints digests. Argument: how many objects."""
import hashlib
import sys

n = int(sys.argv[1])
batches = 8
state = 12345


def rnd():
    global state
    state = (state * 6364136223846793005 + 1442695040888963407) & 0xFFFFFFFFFFFFFFFF
    return state >> 33


def batch(first, count):
    people = [{"id": i, "name": "name-%d" % (rnd() % 5000), "score": rnd() % 100000, "tags": ["t%d" % (rnd() % 50)] * (i % 4)}
              for i in range(first, first + count)]
    people.sort(key=lambda p: (p["score"], p["id"]))
    by_name = {}
    for p in people:
        by_name.setdefault(p["name"], []).append(p)
    text = {i: "line %d of %d, %s" % (i, n, "x" * (i % 40)) for i in range(count)}
    for i in range(0, count, 3):
        del text[i]
    for i in range(count // 4):
        text[rnd() % count] = str(rnd())
    return people, by_name, text


def lines(kept):
    for people, by_name, text in kept:
        for p in people:
            yield "%d %s %d %s" % (p["id"], p["name"], p["score"], p["tags"])
        for name in sorted(by_name):
            yield "%s %d %d" % (name, len(by_name[name]), sum(p["score"] for p in by_name[name]))
        for key in sorted(text):
            yield "%d=%s" % (key, text[key])


kept = [batch(i * (n // batches), n // batches) for i in range(batches)]
# All of it once more, and the oldest batch anew: what lay idle for long is read and written.
for _ in range(2):
    digest = hashlib.sha256()
    for line in lines(kept):
        digest.update(line.encode() + b"\n")
    print("all", digest.hexdigest())
    for p in kept[0][0]:
        p["score"] += 1
        p["tags"] = p["tags"] + ["again"]
