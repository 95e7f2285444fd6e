-- +goose Up

-- Ids are bytea: half the size of their hex in every index, and psql shows exactly the digits that the wire shows.
-- Instants are bigint, Unix milliseconds; NULL is never. Text sorts by bytes (collation "C"), so no server locale or
-- operating system upgrade can reorder an index.
--
-- Every transaction that writes for a mailbox first locks the mailbox's row in counters. That one lock orders all
-- writers of a mailbox, so the hot tables (notifications, usage) go without foreign keys: a key check would lock and
-- dirty the mailbox's row once more for every insert. What belongs to no mailbox is ordered by a row in gates.

CREATE TABLE gates (
    name text COLLATE "C" PRIMARY KEY
);
INSERT INTO gates (name) VALUES ('directory');

CREATE TABLE people (
    id         bytea PRIMARY KEY CHECK (octet_length(id) = 8),
    place      bigint NOT NULL GENERATED ALWAYS AS IDENTITY, -- order among those made in one millisecond
    created_at bigint NOT NULL CHECK (created_at >= 0),
    name       text COLLATE "C" NOT NULL CONSTRAINT people_name UNIQUE CHECK (name ~ '^[a-z0-9-]{1,32}$')
);

CREATE TABLE mailboxes (
    id           bytea PRIMARY KEY CHECK (octet_length(id) = 24),
    place        bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    person       bytea NOT NULL REFERENCES people,
    created_at   bigint NOT NULL CHECK (created_at >= 0),
    last_seen_at bigint CHECK (last_seen_at >= 0),
    name         text COLLATE "C" NOT NULL,
    quiet_until  text COLLATE "C" NOT NULL CHECK (char_length(quiet_until) <= 40),
    quiet_active boolean NOT NULL,
    muted        boolean NOT NULL
);
CREATE INDEX mailboxes_person ON mailboxes (person);
CREATE INDEX mailboxes_idle ON mailboxes (COALESCE(last_seen_at, created_at));

CREATE TABLE counters (
    mailbox  bytea PRIMARY KEY REFERENCES mailboxes ON DELETE CASCADE,
    last_seq bigint NOT NULL DEFAULT 0 CHECK (last_seq >= 0),
    waiting  bigint NOT NULL DEFAULT 0 CHECK (waiting BETWEEN 0 AND last_seq)
) WITH (fillfactor = 50);

CREATE TABLE devices (
    mailbox      bytea NOT NULL REFERENCES mailboxes ON DELETE CASCADE,
    id           bytea NOT NULL CHECK (octet_length(id) = 8),
    place        bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    created_at   bigint NOT NULL CHECK (created_at >= 0),
    last_seen_at bigint CHECK (last_seen_at >= 0),
    token_hash   bytea NOT NULL CHECK (octet_length(token_hash) = 32),
    name         text COLLATE "C" NOT NULL,
    stream       text COLLATE "C" NOT NULL, -- the open stream, '' when none is
    owner        boolean NOT NULL,
    PRIMARY KEY (mailbox, id)
);

CREATE TABLE keys (
    mailbox      bytea NOT NULL REFERENCES mailboxes ON DELETE CASCADE,
    id           bytea NOT NULL CHECK (octet_length(id) = 4),
    place        bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    created_at   bigint NOT NULL CHECK (created_at >= 0),
    last_used_at bigint CHECK (last_used_at >= 0),
    revoked_at   bigint CHECK (revoked_at >= 0),
    hash         bytea NOT NULL CHECK (octet_length(hash) = 32), -- zeros when the secret lives elsewhere
    name         text COLLATE "C" NOT NULL,
    client       text COLLATE "C" NOT NULL,
    scope        text COLLATE "C" NOT NULL,
    kind         text COLLATE "C" NOT NULL CHECK (kind IN ('static', 'oauth')),
    display_name text COLLATE "C" NOT NULL,
    PRIMARY KEY (mailbox, id)
);
CREATE UNIQUE INDEX keys_active_name ON keys (mailbox, name) WHERE revoked_at IS NULL;

CREATE TABLE notifications (
    id               bytea PRIMARY KEY CHECK (octet_length(id) = 12), -- time-ordered: new rows share an index page
    seq              bigint NOT NULL CHECK (seq > 0),     -- place in the mailbox, from counters.last_seq
    key_seq          bigint NOT NULL CHECK (key_seq > 0), -- place among what the key sent; finds its nth last at once
    created_at       bigint NOT NULL CHECK (created_at >= 0),
    acked_at         bigint CHECK (acked_at >= 0),
    displayed_at     bigint CHECK (displayed_at >= 0),
    spoken_at        bigint CHECK (spoken_at >= 0),
    replied_at       bigint CHECK (replied_at >= 0),
    clip_bytes       bigint NOT NULL CHECK (clip_bytes >= 0), -- 0 when there is no clip
    reply_duration   double precision CHECK (reply_duration BETWEEN 0 AND 600), -- seconds
    mailbox          bytea NOT NULL,
    key              bytea NOT NULL CHECK (octet_length(key) = 4),
    agent_id         text COLLATE "C", -- the agent's own id; NULL when it is made from id, '' once given up to a newer one
    clip_type        text COLLATE "C" NOT NULL,
    reply_text       text COLLATE "C" NOT NULL CHECK (char_length(reply_text) <= 4000),
    reply_transcript text COLLATE "C" NOT NULL CHECK (char_length(reply_transcript) <= 4000),
    reason           text COLLATE "C" NOT NULL,
    scope            text COLLATE "C" NOT NULL CHECK (scope IN ('', 'all', 'speech')),
    payload          bytea NOT NULL,
    expect_reply     boolean NOT NULL,
    suppressed       boolean NOT NULL,
    waiting          boolean NOT NULL GENERATED ALWAYS AS
                         (acked_at IS NULL AND displayed_at IS NULL AND NOT suppressed) STORED,
    CHECK (suppressed = (scope <> ''))
);
CREATE UNIQUE INDEX notifications_sent ON notifications (mailbox, key, key_seq);
CREATE UNIQUE INDEX notifications_agent_id ON notifications (mailbox, key, agent_id) WHERE agent_id <> '';
CREATE UNIQUE INDEX notifications_waiting ON notifications (mailbox, seq) WHERE waiting;
CREATE INDEX notifications_waiting_since ON notifications (created_at) WHERE waiting;
CREATE INDEX notifications_created ON notifications (created_at);

CREATE TABLE usage (
    mailbox       bytea NOT NULL,
    day           text COLLATE "C" NOT NULL CHECK (octet_length(day) = 10), -- YYYY-MM-DD in UTC
    requests      bigint NOT NULL DEFAULT 0 CHECK (requests >= 0),
    ws_messages   bigint NOT NULL DEFAULT 0 CHECK (ws_messages >= 0),
    notifications bigint NOT NULL DEFAULT 0 CHECK (notifications >= 0),
    poll_seconds  bigint NOT NULL DEFAULT 0 CHECK (poll_seconds >= 0),
    audio_uploads bigint NOT NULL DEFAULT 0 CHECK (audio_uploads >= 0),
    audio_bytes   bigint NOT NULL DEFAULT 0 CHECK (audio_bytes >= 0),
    PRIMARY KEY (mailbox, day)
) WITH (fillfactor = 50);
CREATE INDEX usage_day ON usage (day);

CREATE TABLE pair_codes (
    hash       bytea PRIMARY KEY CHECK (octet_length(hash) = 32),
    person     bytea NOT NULL REFERENCES people ON DELETE CASCADE,
    mailbox    bytea REFERENCES mailboxes ON DELETE CASCADE, -- set when the code links a device to it
    created_at bigint NOT NULL CHECK (created_at >= 0),
    expires_at bigint NOT NULL CHECK (expires_at >= 0),
    name       text COLLATE "C" NOT NULL,
    address    text COLLATE "C" NOT NULL -- hash of the starter's, '' when made by the operator
);
CREATE INDEX pair_codes_person ON pair_codes (person);
CREATE INDEX pair_codes_mailbox ON pair_codes (mailbox);
CREATE INDEX pair_codes_expires ON pair_codes (expires_at);

CREATE TABLE marks (
    id      bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    at      bigint NOT NULL CHECK (at >= 0),
    kind    text COLLATE "C" NOT NULL,
    subject text COLLATE "C" NOT NULL
);
CREATE INDEX marks_subject ON marks (kind, subject, at);
CREATE INDEX marks_kind ON marks (kind, at);
CREATE INDEX marks_at ON marks (at);
