-- A new store (db.c). log: every revision of every object that is still known, and its end. floors: per
-- resource the revision that watches cannot begin before. meta: the last revision, and the floor of all.
BEGIN;
CREATE TABLE log(rv INTEGER PRIMARY KEY, res TEXT NOT NULL, ns TEXT NOT NULL, name TEXT NOT NULL, crv INTEGER NOT NULL, deleted INTEGER NOT NULL, bytes BLOB NOT NULL);
CREATE TABLE floors(res TEXT PRIMARY KEY, rv INTEGER NOT NULL);
CREATE TABLE meta(k TEXT PRIMARY KEY, v INTEGER NOT NULL);
INSERT INTO meta VALUES('revision', 1), ('floor', 0);
PRAGMA user_version=2;
COMMIT;
