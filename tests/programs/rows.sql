-- 100,000 rows, indexes, joins, changes and a vacuum: the same output on any allocator.
PRAGMA journal_mode = WAL;
CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, amount INTEGER, payload BLOB);
BEGIN;
WITH RECURSIVE counter(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counter WHERE n < 100000)
INSERT INTO item SELECT n, printf('name-%06d-%s', (n * 7919) % 100003, hex(n * n)), (n * 31) % 1000,
    zeroblob((n * 13) % 400) FROM counter;
COMMIT;
CREATE INDEX item_name ON item (name);
CREATE INDEX item_amount ON item (amount, name);
SELECT count(*), sum(amount), min(name), max(name), sum(length(payload)) FROM item;
SELECT amount, count(*), group_concat(substr(name, 6, 3)) FROM item WHERE amount < 5 GROUP BY amount ORDER BY amount;
SELECT count(*) FROM item AS a JOIN item AS b ON a.amount = b.amount AND a.id = b.id + 1000;
UPDATE item SET name = upper(name) || '-changed', payload = randomblob(0) WHERE id % 3 = 0;
DELETE FROM item WHERE amount BETWEEN 100 AND 300;
SELECT count(*), sum(id) FROM item WHERE name LIKE '%CHANGED' COLLATE NOCASE;
VACUUM;
PRAGMA integrity_check;
SELECT name, amount FROM item ORDER BY amount DESC, name LIMIT 20;
