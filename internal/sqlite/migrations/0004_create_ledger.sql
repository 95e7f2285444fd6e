-- +goose Up

-- Teams' ledgers. The conventions are those of 0001.

CREATE TABLE workspaces (
	n          INTEGER PRIMARY KEY,
	id         TEXT NOT NULL UNIQUE,
	name       TEXT NOT NULL UNIQUE,
	mode       TEXT NOT NULL CHECK (mode IN ('live', 'test')),
	created_at INTEGER NOT NULL,
	catalog    BLOB NOT NULL,                         -- JSON
	revision   INTEGER NOT NULL CHECK (revision > 0)  -- of the catalog
) STRICT;

-- What every append changes of its workspace.
CREATE TABLE workspace_heads (
	workspace INTEGER PRIMARY KEY REFERENCES workspaces (n),
	newest    INTEGER NOT NULL CHECK (newest >= 0)    -- the last sequence given out
) STRICT;

CREATE TABLE members (
	n         INTEGER PRIMARY KEY,
	workspace INTEGER NOT NULL REFERENCES workspaces (n),
	person    INTEGER NOT NULL REFERENCES people (n) ON DELETE CASCADE,
	joined_at INTEGER NOT NULL,
	chosen    INTEGER NOT NULL CHECK (chosen IN (0, 1)), -- as primary; a person without a chosen one has the oldest
	UNIQUE (workspace, person)
) STRICT;

CREATE INDEX members_by_person ON members (person, n);

CREATE TABLE workspace_keys (
	n            INTEGER PRIMARY KEY,
	workspace    INTEGER NOT NULL REFERENCES workspaces (n),
	id           INTEGER NOT NULL CHECK (id BETWEEN 0 AND 0xffffffff),
	hash         BLOB NOT NULL CHECK (length(hash) = 32),
	name         TEXT NOT NULL,
	created_at   INTEGER NOT NULL,
	last_used_at INTEGER,
	revoked_at   INTEGER,
	UNIQUE (workspace, id)
) STRICT;

CREATE UNIQUE INDEX workspace_keys_by_name ON workspace_keys (workspace, name) WHERE revoked_at IS NULL;

-- Names and subjects that occur in a workspace, so that entries and their indexes hold small numbers.
CREATE TABLE entry_names (
	n         INTEGER PRIMARY KEY,
	workspace INTEGER NOT NULL REFERENCES workspaces (n),
	name      TEXT NOT NULL,
	UNIQUE (workspace, name)
) STRICT;

CREATE TABLE entry_subjects (
	n         INTEGER PRIMARY KEY,
	workspace INTEGER NOT NULL REFERENCES workspaces (n),
	subject   TEXT NOT NULL,
	UNIQUE (workspace, subject)
) STRICT;

-- Within a workspace n rises with sequence, so an index that ends with n, as all do, is in the order of the ledger.
CREATE TABLE entries (
	n           INTEGER PRIMARY KEY,
	workspace   INTEGER NOT NULL REFERENCES workspaces (n),
	sequence    INTEGER NOT NULL CHECK (sequence > 0),
	id          BLOB NOT NULL CHECK (length(id) = 16), -- a UUID
	name        INTEGER NOT NULL REFERENCES entry_names (n),
	subject     INTEGER NOT NULL REFERENCES entry_subjects (n),
	at          INTEGER NOT NULL,                     -- when it happened, as the application says
	recorded_at INTEGER NOT NULL,
	print       BLOB NOT NULL CHECK (length(print) = 32), -- hash of what the application said
	data        BLOB NOT NULL
) STRICT;

CREATE UNIQUE INDEX entries_by_sequence ON entries (workspace, sequence);
CREATE UNIQUE INDEX entries_by_id ON entries (workspace, id);
CREATE INDEX entries_by_name ON entries (name);
CREATE INDEX entries_by_subject ON entries (subject, name);
CREATE INDEX entries_by_age ON entries (recorded_at);
