// Objects, maps, strings and buffers; prints digests. Argument: how many objects.
const crypto = require("crypto");
const n = Number(process.argv[2]);
let state = 1n;
let s = 12345;
const rnd = () => { s = (Math.imul(s, 1664525) + 1013904223) >>> 0; return s; };
const list = [];
for (let i = 0; i < n; i++) list.push({ id: i, key: "k" + (rnd() % 100000), value: [rnd() % 1000, "v" + i], more: i % 3 ? null : { deep: i } });
const map = new Map();
for (const o of list) { const l = map.get(o.key); if (l) l.push(o); else map.set(o.key, [o]); }
const digest = (lines) => { const h = crypto.createHash("sha256"); for (const l of lines) h.update(l + "\n"); return h.digest("hex"); };
list.sort((a, b) => a.value[0] - b.value[0] || a.id - b.id);
console.log("list", digest(list.map((o) => JSON.stringify(o))));
console.log("map", digest([...map.keys()].sort().map((k) => k + " " + map.get(k).map((o) => o.id).join())));
const buffers = [];
for (let i = 0; i < n / 2000; i++) buffers.push(Buffer.alloc(65536, "buffer " + (i % 100) + " "));
const h = crypto.createHash("sha256");
for (const b of buffers) h.update(b);
console.log("buffers", h.digest("hex"));
