-- The result of all migrations. Written by: go test ./internal/sqlite -run Schema -update

CREATE TABLE access_tokens (
	n          INTEGER PRIMARY KEY,
	grant      INTEGER NOT NULL REFERENCES grants (n) ON DELETE CASCADE,
	hash       BLOB NOT NULL UNIQUE CHECK (length(hash) = 32),
	scopes     TEXT NOT NULL,
	created_at INTEGER NOT NULL
) STRICT;

CREATE INDEX access_tokens_by_grant ON access_tokens (grant, n);

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

CREATE TABLE audit (
	n           INTEGER PRIMARY KEY,
	person      INTEGER NOT NULL REFERENCES people (n) ON DELETE CASCADE,
	mailbox     TEXT NOT NULL,                        -- may be gone
	at          INTEGER NOT NULL,
	action      TEXT NOT NULL,
	client      TEXT NOT NULL,
	client_name TEXT NOT NULL,
	consent     TEXT NOT NULL,
	key         INTEGER,
	by          TEXT NOT NULL                         -- a device's id, 'page', 'client' or 'relay'
) STRICT;

CREATE INDEX audit_by_person ON audit (person, at, n);

CREATE INDEX audit_by_time ON audit (at);

CREATE TABLE clients (
	n           INTEGER PRIMARY KEY,
	id          TEXT NOT NULL UNIQUE,
	document    INTEGER NOT NULL CHECK (document IN (0, 1)), -- its id is the address of its description
	name        TEXT NOT NULL,
	redirects   TEXT NOT NULL,                        -- separated by line feeds
	auth_method TEXT NOT NULL CHECK (auth_method IN ('none', 'client_secret_post', 'client_secret_basic')),
	secret_hash BLOB CHECK (length(secret_hash) = 32),
	created_at  INTEGER NOT NULL,
	fresh_until INTEGER                               -- when the description has to be read again
) STRICT;

CREATE INDEX clients_by_sort ON clients (document, n);

CREATE TABLE consents (
	n            INTEGER PRIMARY KEY,
	id           TEXT NOT NULL UNIQUE,
	mailbox      TEXT NOT NULL,
	client       TEXT NOT NULL,
	client_name  TEXT NOT NULL,
	flow         TEXT NOT NULL CHECK (flow IN ('code', 'device')),
	scopes       TEXT NOT NULL,
	status       TEXT NOT NULL CHECK (status IN ('pending', 'approved', 'denied', 'superseded', 'expired')),
	code         TEXT NOT NULL,                       -- six digits
	user_code    TEXT NOT NULL,                       -- '' in the code flow
	secret       BLOB NOT NULL CHECK (length(secret) = 32),
	redirect     TEXT NOT NULL,
	state        TEXT NOT NULL,
	challenge    TEXT NOT NULL,
	issuer       TEXT NOT NULL,
	resource     TEXT NOT NULL,
	attempts     INTEGER NOT NULL CHECK (attempts >= 0),
	interval     INTEGER NOT NULL CHECK (interval >= 0), -- between polls, in milliseconds
	polled_at    INTEGER,
	created_at   INTEGER NOT NULL,
	expires_at   INTEGER NOT NULL,
	decided_at   INTEGER,
	collected_at INTEGER,
	key          INTEGER,                             -- keys.id once approved; the key itself may be gone
	announced    TEXT NOT NULL                        -- ids of devices, separated by spaces
) STRICT;

CREATE INDEX consents_by_age ON consents (mailbox, created_at);

CREATE INDEX consents_by_client ON consents (client) WHERE status = 'pending';

CREATE INDEX consents_by_creation ON consents (created_at);

CREATE UNIQUE INDEX consents_by_secret ON consents (mailbox, secret);

CREATE UNIQUE INDEX consents_by_user_code ON consents (user_code) WHERE status = 'pending' AND user_code <> '';

CREATE INDEX consents_pending ON consents (expires_at, mailbox) WHERE status = 'pending';

CREATE INDEX consents_uncollected ON consents (decided_at) WHERE status = 'approved' AND collected_at IS NULL;

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

CREATE INDEX deliveries_due ON deliveries (subscription, due_at, sequence) WHERE state = 0;

CREATE INDEX deliveries_leased ON deliveries (subscription, due_at) WHERE leased = 1;

CREATE INDEX deliveries_overdue ON deliveries (deadline_at) WHERE state = 0 AND deadline_at IS NOT NULL;

CREATE INDEX deliveries_past ON deliveries (subscription, sequence) WHERE state <> 0;

CREATE INDEX deliveries_settled ON deliveries (settled_at) WHERE settled_at IS NOT NULL;

CREATE INDEX deliveries_waiting ON deliveries (subscription, sequence) WHERE state = 0;

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

CREATE INDEX entries_by_age ON entries (recorded_at);

CREATE UNIQUE INDEX entries_by_id ON entries (workspace, id);

CREATE INDEX entries_by_name ON entries (name);

CREATE UNIQUE INDEX entries_by_sequence ON entries (workspace, sequence);

CREATE INDEX entries_by_subject ON entries (subject, name);

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

CREATE INDEX events_by_record ON events (recorded_at, ledger);

CREATE INDEX events_by_time ON events (ledger, time, sequence);

CREATE TABLE grants (
	n          INTEGER PRIMARY KEY,
	mailbox    INTEGER NOT NULL,
	key        INTEGER NOT NULL,
	client     TEXT NOT NULL,
	consent    TEXT NOT NULL,
	refresh    BLOB NOT NULL CHECK (length(refresh) = 32),
	scopes     TEXT NOT NULL,
	resource   TEXT NOT NULL,
	created_at INTEGER NOT NULL,
	UNIQUE (mailbox, key),
	FOREIGN KEY (mailbox, key) REFERENCES keys (mailbox, id) ON DELETE CASCADE
) STRICT;

CREATE INDEX grants_by_client ON grants (client);

CREATE UNIQUE INDEX grants_by_refresh ON grants (mailbox, refresh);

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

CREATE TABLE members (
	n         INTEGER PRIMARY KEY,
	workspace INTEGER NOT NULL REFERENCES workspaces (n),
	person    INTEGER NOT NULL REFERENCES people (n) ON DELETE CASCADE,
	joined_at INTEGER NOT NULL,
	chosen    INTEGER NOT NULL CHECK (chosen IN (0, 1)), -- as primary; a person without a chosen one has the oldest
	UNIQUE (workspace, person)
) STRICT;

CREATE INDEX members_by_person ON members (person, n);

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

CREATE INDEX subscriptions_by_address ON subscriptions (url, principal);

CREATE INDEX subscriptions_by_principal ON subscriptions (principal, family, id);

CREATE INDEX subscriptions_by_topic ON subscriptions (ledger, name, family, id);

CREATE INDEX subscriptions_lapsing ON subscriptions (expires_at) WHERE state <> 'ended' AND expires_at IS NOT NULL;

CREATE INDEX subscriptions_over ON subscriptions (changed_at) WHERE state = 'ended';

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

CREATE TABLE verifications (
	principal   TEXT NOT NULL,
	url         TEXT NOT NULL,
	verified_at INTEGER NOT NULL,
	PRIMARY KEY (principal, url)
) STRICT, WITHOUT ROWID;

CREATE INDEX verifications_by_age ON verifications (verified_at);

CREATE TABLE workspace_heads (
	workspace INTEGER PRIMARY KEY REFERENCES workspaces (n),
	newest    INTEGER NOT NULL CHECK (newest >= 0)    -- the last sequence given out
) STRICT;

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

CREATE TABLE workspaces (
	n          INTEGER PRIMARY KEY,
	id         TEXT NOT NULL UNIQUE,
	name       TEXT NOT NULL UNIQUE,
	mode       TEXT NOT NULL CHECK (mode IN ('live', 'test')),
	created_at INTEGER NOT NULL,
	catalog    BLOB NOT NULL,                         -- JSON
	revision   INTEGER NOT NULL CHECK (revision > 0)  -- of the catalog
) STRICT;
