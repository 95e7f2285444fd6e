-- +goose Up

-- What package mcpevents keeps. The conventions are those of 0001: an integer key n, instants in Unix milliseconds.

CREATE TABLE event_ledgers (
	n         INTEGER PRIMARY KEY,
	name      TEXT NOT NULL UNIQUE,
	epoch     TEXT NOT NULL,                          -- random: tells this ledger from one of the same name in another database
	newest    INTEGER NOT NULL CHECK (newest >= forgotten),
	forgotten INTEGER NOT NULL CHECK (forgotten >= 0) -- the highest sequence that was removed
) STRICT;

CREATE TABLE events (
	n           INTEGER PRIMARY KEY,
	ledger      INTEGER NOT NULL REFERENCES event_ledgers (n),
	sequence    INTEGER NOT NULL,
	id          TEXT NOT NULL,
	name        TEXT NOT NULL,
	subject     TEXT NOT NULL,
	audience    TEXT NOT NULL,
	time        INTEGER NOT NULL,
	recorded_at INTEGER NOT NULL,
	data        BLOB NOT NULL,                        -- JSON, byte for byte
	meta        BLOB,
	UNIQUE (ledger, sequence),
	UNIQUE (ledger, id)
) STRICT;

CREATE INDEX events_by_audience ON events (ledger, audience, sequence);
CREATE INDEX events_by_time ON events (ledger, time, sequence);
CREATE INDEX events_by_record ON events (recorded_at, ledger);

CREATE TABLE subscriptions (
	n             INTEGER PRIMARY KEY,
	id            TEXT NOT NULL UNIQUE,
	key           TEXT NOT NULL UNIQUE,
	family        TEXT NOT NULL,
	principal     TEXT NOT NULL,
	ledger        TEXT NOT NULL,                      -- event_ledgers.name, which may not exist yet
	name          TEXT NOT NULL,
	arguments     BLOB NOT NULL,
	url           TEXT NOT NULL,
	host          TEXT NOT NULL,
	label         TEXT NOT NULL,
	secrets       BLOB NOT NULL,                      -- see encodeSecrets
	dialect       TEXT NOT NULL,
	strict        INTEGER NOT NULL CHECK (strict IN (0, 1)),
	parallel      INTEGER NOT NULL,
	state         TEXT NOT NULL CHECK (state IN ('active', 'suspended', 'ended')),
	reason        TEXT NOT NULL,
	start         INTEGER NOT NULL,
	gap           INTEGER NOT NULL CHECK (gap IN (0, 1)),
	created_at    INTEGER,
	refreshed_at  INTEGER,
	expires_at    INTEGER,
	changed_at    INTEGER,
	last_delivery INTEGER,
	last_error    TEXT NOT NULL,
	failing_since INTEGER,
	throttled     INTEGER,
	window        INTEGER,
	tried         INTEGER NOT NULL,
	failed        INTEGER NOT NULL
) STRICT;

CREATE INDEX subscriptions_by_topic ON subscriptions (ledger, name, family, id);
CREATE INDEX subscriptions_by_principal ON subscriptions (principal, family, id);
CREATE INDEX subscriptions_lapsing ON subscriptions (expires_at) WHERE state <> 'ended' AND expires_at IS NOT NULL;
CREATE INDEX subscriptions_over ON subscriptions (changed_at) WHERE state = 'ended';
CREATE INDEX subscriptions_by_address ON subscriptions (url, principal);

-- What queueing and claiming need of a subscription, in rows so narrow that an event to a thousand of them touches a few
-- pages. Every subscription has one; the first five columns repeat it.
CREATE TABLE lanes (
	n          INTEGER PRIMARY KEY REFERENCES subscriptions (n) ON DELETE CASCADE,
	host       TEXT NOT NULL,
	strict     INTEGER NOT NULL,
	parallel   INTEGER NOT NULL,
	active     INTEGER NOT NULL,
	expires_at INTEGER,
	pending    INTEGER NOT NULL DEFAULT 0 CHECK (pending >= 0), -- equals the number of pending rows in deliveries
	oldest     INTEGER NOT NULL DEFAULT 0,            -- the lowest sequence of those, 0 when there is none
	due_at     INTEGER                                -- the lane rule of mcpevents/driver; NULL when there is nothing to do
) STRICT;

CREATE INDEX lanes_due ON lanes (due_at, host) WHERE due_at IS NOT NULL;

-- In order of their events: those of one event lie side by side and are written together. Their subscription is not
-- declared as a foreign key, since checking it for each costs as much as the row.
CREATE TABLE deliveries (
	sequence     INTEGER NOT NULL,
	subscription INTEGER NOT NULL,                    -- subscriptions.n
	state        INTEGER NOT NULL CHECK (state BETWEEN 0 AND 3), -- 0 pending, 1 delivered, 2 dropped, 3 held
	reason       TEXT NOT NULL,
	cursor       INTEGER NOT NULL,
	tries        INTEGER NOT NULL,
	attempts     INTEGER NOT NULL,
	manual       INTEGER NOT NULL CHECK (manual IN (0, 1)),
	queued_at    INTEGER,
	due_at       INTEGER,
	deadline_at  INTEGER,
	settled_at   INTEGER,
	lease        INTEGER NOT NULL,
	leased       INTEGER NOT NULL CHECK (leased = 0 OR leased = 1 AND state = 0),
	PRIMARY KEY (sequence, subscription)
) STRICT, WITHOUT ROWID;

-- Two indexes by subscription, of which the first stays small: so queueing touches few pages however long the history is.
CREATE INDEX deliveries_waiting ON deliveries (subscription, sequence) WHERE state = 0;
CREATE INDEX deliveries_past ON deliveries (subscription, sequence) WHERE state <> 0;
CREATE INDEX deliveries_due ON deliveries (subscription, due_at, sequence) WHERE state = 0;
CREATE INDEX deliveries_leased ON deliveries (subscription, due_at) WHERE leased = 1;
CREATE INDEX deliveries_overdue ON deliveries (deadline_at) WHERE state = 0 AND deadline_at IS NOT NULL;
CREATE INDEX deliveries_settled ON deliveries (settled_at) WHERE settled_at IS NOT NULL;

CREATE TABLE attempts (
	sequence     INTEGER NOT NULL,
	subscription INTEGER NOT NULL,
	number       INTEGER NOT NULL,
	started_at   INTEGER,
	elapsed_ms   INTEGER NOT NULL,
	status       INTEGER NOT NULL,
	category     TEXT NOT NULL,
	verdict      TEXT NOT NULL,
	manual       INTEGER NOT NULL CHECK (manual IN (0, 1)),
	PRIMARY KEY (sequence, subscription, number),
	FOREIGN KEY (sequence, subscription) REFERENCES deliveries (sequence, subscription) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TABLE verifications (
	principal   TEXT NOT NULL,
	url         TEXT NOT NULL,
	verified_at INTEGER NOT NULL,
	PRIMARY KEY (principal, url)
) STRICT, WITHOUT ROWID;

CREATE INDEX verifications_by_age ON verifications (verified_at);
