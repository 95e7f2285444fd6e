-- +goose Up

-- What package oauth keeps. The conventions are those of 0001. Scopes are separated by single spaces.

CREATE TABLE clients (
    id          text COLLATE "C" PRIMARY KEY,
    place       bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    created_at  bigint NOT NULL CHECK (created_at >= 0),
    fresh_until bigint CHECK (fresh_until >= 0), -- when the description has to be read again
    secret_hash bytea CHECK (octet_length(secret_hash) = 32),
    name        text COLLATE "C" NOT NULL,
    auth_method text COLLATE "C" NOT NULL CHECK (auth_method IN ('none', 'client_secret_post', 'client_secret_basic')),
    redirects   text[] COLLATE "C" NOT NULL,
    document    boolean NOT NULL -- its id is the address of its description
);
CREATE INDEX clients_sort ON clients (document, place);

-- A request may go to a mailbox that does not exist, so none is referenced.
CREATE TABLE consents (
    id           bytea PRIMARY KEY CHECK (octet_length(id) = 36),
    mailbox      bytea NOT NULL CHECK (octet_length(mailbox) = 24),
    place        bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    poll_every   bigint NOT NULL CHECK (poll_every >= 0), -- milliseconds
    attempts     bigint NOT NULL CHECK (attempts >= 0),
    polled_at    bigint CHECK (polled_at >= 0),
    created_at   bigint NOT NULL CHECK (created_at >= 0),
    expires_at   bigint NOT NULL CHECK (expires_at >= 0),
    decided_at   bigint CHECK (decided_at >= 0),
    collected_at bigint CHECK (collected_at >= 0),
    secret       bytea NOT NULL CHECK (octet_length(secret) = 32),
    key          bytea CHECK (octet_length(key) = 4), -- once approved; the key itself may be gone
    client       text COLLATE "C" NOT NULL,
    client_name  text COLLATE "C" NOT NULL,
    flow         text COLLATE "C" NOT NULL CHECK (flow IN ('code', 'device')),
    scopes       text COLLATE "C" NOT NULL,
    status       text COLLATE "C" NOT NULL CHECK (status IN ('pending', 'approved', 'denied', 'superseded', 'expired')),
    code         text COLLATE "C" NOT NULL,
    user_code    text COLLATE "C" NOT NULL, -- '' in the code flow
    redirect     text COLLATE "C" NOT NULL,
    state        text COLLATE "C" NOT NULL,
    challenge    text COLLATE "C" NOT NULL,
    issuer       text COLLATE "C" NOT NULL,
    resource     text COLLATE "C" NOT NULL,
    announced    text COLLATE "C" NOT NULL -- ids of devices, separated by spaces
);
CREATE UNIQUE INDEX consents_secret ON consents (mailbox, secret);
CREATE UNIQUE INDEX consents_user_code ON consents (user_code) WHERE status = 'pending' AND user_code <> '';
CREATE INDEX consents_age ON consents (mailbox, created_at);
CREATE INDEX consents_pending ON consents (expires_at) WHERE status = 'pending';
CREATE INDEX consents_pending_client ON consents (client) WHERE status = 'pending';
CREATE INDEX consents_uncollected ON consents (decided_at) WHERE status = 'approved' AND collected_at IS NULL;
CREATE INDEX consents_created ON consents (created_at);

CREATE TABLE grants (
    mailbox    bytea NOT NULL,
    key        bytea NOT NULL,
    place      bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    created_at bigint NOT NULL CHECK (created_at >= 0),
    consent    bytea NOT NULL CHECK (octet_length(consent) = 36),
    refresh    bytea NOT NULL CHECK (octet_length(refresh) = 32),
    client     text COLLATE "C" NOT NULL,
    scopes     text COLLATE "C" NOT NULL,
    resource   text COLLATE "C" NOT NULL,
    PRIMARY KEY (mailbox, key),
    FOREIGN KEY (mailbox, key) REFERENCES keys ON DELETE CASCADE
);
CREATE UNIQUE INDEX grants_refresh ON grants (mailbox, refresh);
CREATE INDEX grants_client ON grants (client);

CREATE TABLE access_tokens (
    hash       bytea PRIMARY KEY CHECK (octet_length(hash) = 32),
    mailbox    bytea NOT NULL,
    key        bytea NOT NULL,
    place      bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    created_at bigint NOT NULL CHECK (created_at >= 0),
    scopes     text COLLATE "C" NOT NULL,
    FOREIGN KEY (mailbox, key) REFERENCES grants ON DELETE CASCADE
);
CREATE INDEX access_tokens_grant ON access_tokens (mailbox, key, place);

CREATE TABLE audit (
    place       bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    at          bigint NOT NULL CHECK (at >= 0),
    person      bytea NOT NULL REFERENCES people ON DELETE CASCADE,
    mailbox     bytea NOT NULL, -- may be gone
    consent     bytea,
    key         bytea,
    action      text COLLATE "C" NOT NULL,
    client      text COLLATE "C" NOT NULL,
    client_name text COLLATE "C" NOT NULL,
    by          text COLLATE "C" NOT NULL -- a device's id, 'page', 'client' or 'relay'
);
CREATE INDEX audit_person ON audit (person, at, place);
CREATE INDEX audit_at ON audit (at);
