-- The result of all migrations. Written by: go test ./internal/sqlite -run Schema -update

CREATE TABLE devices (
	n            INTEGER PRIMARY KEY,
	mailbox      INTEGER NOT NULL REFERENCES mailboxes (n) ON DELETE CASCADE,
	id           TEXT NOT NULL,
	token_hash   BLOB NOT NULL CHECK (length(token_hash) = 32),
	name         TEXT NOT NULL,
	owner        INTEGER NOT NULL CHECK (owner IN (0, 1)),
	created_at   INTEGER NOT NULL,
	last_seen_at INTEGER,
	stream       TEXT NOT NULL,                       -- the open stream, '' when there is none
	UNIQUE (mailbox, id)
) STRICT;

CREATE TABLE keys (
	n            INTEGER PRIMARY KEY,
	mailbox      INTEGER NOT NULL REFERENCES mailboxes (n) ON DELETE CASCADE,
	id           INTEGER NOT NULL CHECK (id BETWEEN 0 AND 0xffffffff), -- printf('%08x', id) on the wire
	hash         BLOB CHECK (length(hash) = 32),      -- of the secret part; NULL for connectors, whose tokens live elsewhere
	name         TEXT NOT NULL,
	client       TEXT NOT NULL,
	scope        TEXT NOT NULL,
	kind         TEXT NOT NULL CHECK (kind IN ('static', 'oauth')),
	display_name TEXT NOT NULL,
	created_at   INTEGER NOT NULL,
	last_used_at INTEGER,
	revoked_at   INTEGER,
	UNIQUE (mailbox, id)
) STRICT;

CREATE UNIQUE INDEX keys_active_name ON keys (mailbox, name) WHERE revoked_at IS NULL;

CREATE TABLE mailboxes (
	n            INTEGER PRIMARY KEY,
	id           TEXT NOT NULL UNIQUE,
	person       INTEGER NOT NULL REFERENCES people (n) ON DELETE CASCADE,
	name         TEXT NOT NULL,
	created_at   INTEGER NOT NULL,
	last_seen_at INTEGER,
	quiet_active INTEGER NOT NULL CHECK (quiet_active IN (0, 1)),
	quiet_until  TEXT NOT NULL,
	muted        INTEGER NOT NULL CHECK (muted IN (0, 1))
) STRICT;

CREATE INDEX mailboxes_by_person ON mailboxes (person, created_at);

CREATE TABLE marks (
	n       INTEGER PRIMARY KEY,
	kind    TEXT NOT NULL,
	subject TEXT NOT NULL,
	at      INTEGER NOT NULL
) STRICT;

CREATE INDEX marks_by_subject ON marks (kind, subject, at);

CREATE INDEX marks_by_time ON marks (at);

CREATE TABLE notifications (
	n            INTEGER PRIMARY KEY,
	id           BLOB NOT NULL CHECK (length(id) = 12), -- 'r_' || lower(hex(id)) on the wire; time-ordered
	mailbox      INTEGER NOT NULL,                    -- mailboxes.n; a foreign key would want an index, see prev
	prev         INTEGER NOT NULL,                    -- n of the mailbox's notification before this; 0 or a row that is gone ends the chain
	key          INTEGER NOT NULL,                    -- keys.id; the key itself may be gone
	seq          INTEGER NOT NULL,
	waiting      INTEGER NOT NULL CHECK (waiting = (acked_at IS NULL AND displayed_at IS NULL AND suppressed = 0)),
	bytes        INTEGER NOT NULL,                    -- of payload, reply and clip
	created_at   INTEGER NOT NULL,
	agent_id     TEXT CHECK (agent_id <> ''),         -- the agent's own id; NULL when it is the one made from id
	expect_reply INTEGER NOT NULL CHECK (expect_reply IN (0, 1)),
	acked_at     INTEGER,
	displayed_at INTEGER,
	spoken_at    INTEGER,
	replied_at   INTEGER,
	text         TEXT,
	transcript   TEXT,
	duration     REAL,                                -- seconds
	clip_bytes   INTEGER NOT NULL CHECK (clip_bytes >= 0),
	clip_type    TEXT,
	suppressed   INTEGER NOT NULL CHECK (suppressed IN (0, 1)),
	reason       TEXT,
	scope        TEXT,
	payload      BLOB NOT NULL                        -- last, so that the others are read without it
) STRICT;

CREATE UNIQUE INDEX notifications_agent_id ON notifications (mailbox, key, agent_id) WHERE agent_id IS NOT NULL;

CREATE UNIQUE INDEX notifications_id ON notifications (id);

CREATE INDEX notifications_to_expire ON notifications (created_at, mailbox) WHERE waiting = 1;

CREATE INDEX notifications_waiting ON notifications (mailbox, seq) WHERE waiting = 1;

CREATE TABLE pair_codes (
	hash       BLOB PRIMARY KEY CHECK (length(hash) = 32),
	person     INTEGER NOT NULL REFERENCES people (n) ON DELETE CASCADE,
	mailbox    INTEGER REFERENCES mailboxes (n) ON DELETE CASCADE, -- set when the code links a device
	name       TEXT NOT NULL,
	address    TEXT NOT NULL,                         -- hash of the starter's address, '' when made by the operator
	created_at INTEGER NOT NULL,
	expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX pair_codes_by_expiry ON pair_codes (expires_at);

CREATE TABLE people (
	n          INTEGER PRIMARY KEY,
	id         TEXT NOT NULL UNIQUE,
	name       TEXT NOT NULL UNIQUE,
	created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE tallies (
	mailbox  INTEGER PRIMARY KEY REFERENCES mailboxes (n) ON DELETE CASCADE,
	seq      INTEGER NOT NULL,                        -- the last one given out
	last     INTEGER NOT NULL,                        -- n of the latest notification, where the chain of all begins; 0 when there is none
	waiting  INTEGER NOT NULL CHECK (waiting >= 0),   -- equals the number of waiting rows in notifications
	bytes    INTEGER NOT NULL CHECK (bytes >= 0),     -- equals the sum of notifications.bytes
	day      TEXT NOT NULL,                           -- UTC day of the last notification, '' when there was none
	notified INTEGER NOT NULL CHECK (notified >= 0)   -- notifications of that day; usage.notifications follows later
) STRICT;

CREATE TABLE usage (
	mailbox       INTEGER NOT NULL REFERENCES mailboxes (n) ON DELETE CASCADE,
	day           TEXT NOT NULL,
	requests      INTEGER NOT NULL DEFAULT 0,
	ws_messages   INTEGER NOT NULL DEFAULT 0,
	notifications INTEGER NOT NULL DEFAULT 0,         -- of tallies.day, tallies.notified is the true count
	poll_seconds  INTEGER NOT NULL DEFAULT 0,
	audio_uploads INTEGER NOT NULL DEFAULT 0,
	audio_bytes   INTEGER NOT NULL DEFAULT 0,
	PRIMARY KEY (mailbox, day)
) STRICT, WITHOUT ROWID;

CREATE INDEX usage_by_day ON usage (day);
