-- A store of version 1, which kept no past but deletions: watches start anew.
BEGIN;
CREATE TABLE log(rv INTEGER PRIMARY KEY, res TEXT NOT NULL, ns TEXT NOT NULL, name TEXT NOT NULL, crv INTEGER NOT NULL, deleted INTEGER NOT NULL, bytes BLOB NOT NULL);
CREATE TABLE floors(res TEXT PRIMARY KEY, rv INTEGER NOT NULL);
INSERT INTO log SELECT rv, res, ns, name, crv, 0, bytes FROM objects;
UPDATE meta SET v=(SELECT v FROM meta WHERE k='revision') WHERE k='floor';
DROP TABLE objects;
DROP TABLE tombstones;
PRAGMA user_version=2;
COMMIT;
