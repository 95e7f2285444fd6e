-- +goose Up

-- What package oauth keeps. The conventions are those of 0001. Scopes are separated by single spaces.

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

-- Mailboxes are named by their ids, for a request may go to one that does not exist.
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

CREATE UNIQUE INDEX consents_by_secret ON consents (mailbox, secret);
CREATE UNIQUE INDEX consents_by_user_code ON consents (user_code) WHERE status = 'pending' AND user_code <> '';
CREATE INDEX consents_by_age ON consents (mailbox, created_at);
CREATE INDEX consents_pending ON consents (expires_at, mailbox) WHERE status = 'pending';
CREATE INDEX consents_uncollected ON consents (decided_at) WHERE status = 'approved' AND collected_at IS NULL;
CREATE INDEX consents_by_creation ON consents (created_at);
CREATE INDEX consents_by_client ON consents (client) WHERE status = 'pending';

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

CREATE UNIQUE INDEX grants_by_refresh ON grants (mailbox, refresh);
CREATE INDEX grants_by_client ON grants (client);

CREATE TABLE access_tokens (
	n          INTEGER PRIMARY KEY,
	grant      INTEGER NOT NULL REFERENCES grants (n) ON DELETE CASCADE,
	hash       BLOB NOT NULL UNIQUE CHECK (length(hash) = 32),
	scopes     TEXT NOT NULL,
	created_at INTEGER NOT NULL
) STRICT;

CREATE INDEX access_tokens_by_grant ON access_tokens (grant, n);

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
