CREATE TABLE t(id INTEGER PRIMARY KEY, k INTEGER, name TEXT, body TEXT);
WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < @N@)
INSERT INTO t SELECT i, (i * 7919) % 100003, 'name-' || (i % 997), printf('%.*c body of row %d', i % 90, 'x', i) FROM c;
CREATE INDEX by_k ON t(k);
CREATE INDEX by_name ON t(name, k);
SELECT count(*), sum(k), sum(length(body)) FROM t;
SELECT name, count(*), max(body) FROM t GROUP BY name ORDER BY name LIMIT 20;
UPDATE t SET body = upper(body) WHERE k % 3 = 0;
DELETE FROM t WHERE k % 11 = 0;
SELECT a.k, a.name, b.id FROM t a JOIN t b ON a.k = b.k AND a.id < b.id ORDER BY a.k, a.id, b.id LIMIT 50;
SELECT sum(k * id % 1000003), min(body), max(body) FROM t;
SELECT group_concat(id) FROM (SELECT id FROM t ORDER BY body DESC, id LIMIT 200);
PRAGMA integrity_check;
