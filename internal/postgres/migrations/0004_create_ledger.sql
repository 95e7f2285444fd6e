-- +goose Up

-- Teams' ledgers. The conventions are those of 0001. Whoever appends locks the workspace's row in workspace_heads first, so
-- sequences rise in the order of commits.

CREATE TABLE workspaces (
    id         bytea PRIMARY KEY CHECK (octet_length(id) = 12),
    place      bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    created_at bigint NOT NULL CHECK (created_at >= 0),
    revision   bigint NOT NULL CHECK (revision > 0), -- of the catalog
    name       text COLLATE "C" NOT NULL CONSTRAINT workspaces_name UNIQUE CHECK (name ~ '^[a-z0-9-]{1,32}$'),
    mode       text COLLATE "C" NOT NULL CHECK (mode IN ('live', 'test')),
    catalog    bytea NOT NULL -- JSON
);

CREATE TABLE workspace_heads (
    workspace bytea PRIMARY KEY REFERENCES workspaces,
    newest    bigint NOT NULL CHECK (newest >= 0) -- the last sequence given out
) WITH (fillfactor = 50);

CREATE TABLE members (
    workspace bytea NOT NULL REFERENCES workspaces,
    person    bytea NOT NULL REFERENCES people ON DELETE CASCADE,
    place     bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    joined_at bigint NOT NULL CHECK (joined_at >= 0),
    chosen    boolean NOT NULL, -- as primary; a person without a chosen one has the oldest
    PRIMARY KEY (workspace, person)
);
CREATE INDEX members_person ON members (person, place);

CREATE TABLE workspace_keys (
    workspace    bytea NOT NULL REFERENCES workspaces,
    id           bytea NOT NULL CHECK (octet_length(id) = 4),
    place        bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    created_at   bigint NOT NULL CHECK (created_at >= 0),
    last_used_at bigint CHECK (last_used_at >= 0),
    revoked_at   bigint CHECK (revoked_at >= 0),
    hash         bytea NOT NULL CHECK (octet_length(hash) = 32),
    name         text COLLATE "C" NOT NULL,
    PRIMARY KEY (workspace, id)
);
CREATE UNIQUE INDEX workspace_keys_name ON workspace_keys (workspace, name) WHERE revoked_at IS NULL;

-- The names that occur in a workspace, through which its entries are read in order.
CREATE TABLE entry_names (
    workspace bytea NOT NULL REFERENCES workspaces,
    name      text COLLATE "C" NOT NULL,
    PRIMARY KEY (workspace, name)
);

-- A hot table without foreign keys, as in 0001.
CREATE TABLE entries (
    workspace   bytea NOT NULL,
    sequence    bigint NOT NULL CHECK (sequence > 0),
    at          bigint NOT NULL, -- when it happened, as the application says
    recorded_at bigint NOT NULL CHECK (recorded_at >= 0),
    id          bytea NOT NULL CHECK (octet_length(id) = 16), -- a UUID
    print       bytea NOT NULL CHECK (octet_length(print) = 32), -- hash of what the application said
    name        text COLLATE "C" NOT NULL,
    subject     text COLLATE "C" NOT NULL,
    data        bytea NOT NULL,
    PRIMARY KEY (workspace, sequence)
);
CREATE UNIQUE INDEX entries_id ON entries (workspace, id);
CREATE INDEX entries_name ON entries (workspace, name, sequence);
CREATE INDEX entries_subject ON entries (workspace, subject, name, sequence);
CREATE INDEX entries_age ON entries (recorded_at);
