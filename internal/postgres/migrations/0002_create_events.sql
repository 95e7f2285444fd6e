-- +goose Up

-- What package mcpevents keeps. The conventions are those of 0001. Names and ids of events and subscriptions are the
-- library's text. Whoever appends to a ledger locks its row first, so sequences become visible in their order.

CREATE TABLE event_ledgers (
    n         bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    newest    bigint NOT NULL CHECK (newest >= forgotten),
    forgotten bigint NOT NULL CHECK (forgotten >= 0), -- the highest sequence that was removed
    name      text COLLATE "C" NOT NULL UNIQUE,
    epoch     text COLLATE "C" NOT NULL -- random: tells this ledger from one of the same name in another database
) WITH (fillfactor = 50);

-- Hot tables go without foreign keys, as in 0001.
CREATE TABLE events (
    ledger      bigint NOT NULL, -- event_ledgers.n
    sequence    bigint NOT NULL,
    time        bigint NOT NULL,
    recorded_at bigint NOT NULL,
    id          text COLLATE "C" NOT NULL,
    name        text COLLATE "C" NOT NULL,
    subject     text COLLATE "C" NOT NULL,
    audience    text COLLATE "C" NOT NULL,
    data        bytea NOT NULL, -- JSON, byte for byte
    meta        bytea,
    PRIMARY KEY (ledger, sequence)
);
CREATE UNIQUE INDEX events_id ON events (ledger, id);
CREATE INDEX events_audience ON events (ledger, audience, sequence);
CREATE INDEX events_time ON events (ledger, time, sequence);
CREATE INDEX events_recorded ON events (recorded_at, ledger);

CREATE TABLE event_subscriptions (
    n             bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    start         bigint NOT NULL,
    created_at    bigint,
    refreshed_at  bigint,
    expires_at    bigint,
    changed_at    bigint,
    last_delivery bigint,
    failing_since bigint,
    throttled     bigint,
    window_at     bigint,
    parallel      bigint NOT NULL,
    tried         bigint NOT NULL,
    failed        bigint NOT NULL,
    strict        boolean NOT NULL,
    gap           boolean NOT NULL,
    id            text COLLATE "C" NOT NULL UNIQUE,
    key           text COLLATE "C" NOT NULL UNIQUE,
    family        text COLLATE "C" NOT NULL,
    principal     text COLLATE "C" NOT NULL,
    ledger        text COLLATE "C" NOT NULL, -- event_ledgers.name, which may not exist yet
    name          text COLLATE "C" NOT NULL,
    url           text COLLATE "C" NOT NULL,
    host          text COLLATE "C" NOT NULL,
    label         text COLLATE "C" NOT NULL,
    dialect       text COLLATE "C" NOT NULL,
    state         text COLLATE "C" NOT NULL CHECK (state IN ('active', 'suspended', 'ended')),
    reason        text COLLATE "C" NOT NULL,
    last_error    text COLLATE "C" NOT NULL,
    arguments     bytea NOT NULL,
    secrets       bytea[] NOT NULL,
    secrets_until bigint[] NOT NULL -- of each secret, 0 for the current one
);
CREATE INDEX event_subscriptions_topic ON event_subscriptions (ledger, name, family, id);
CREATE INDEX event_subscriptions_principal ON event_subscriptions (principal, id);
CREATE INDEX event_subscriptions_ledger ON event_subscriptions (ledger, id);
CREATE INDEX event_subscriptions_lapsing ON event_subscriptions (expires_at) WHERE state <> 'ended' AND expires_at IS NOT NULL;
CREATE INDEX event_subscriptions_over ON event_subscriptions (changed_at) WHERE state = 'ended';
CREATE INDEX event_subscriptions_address ON event_subscriptions (url, principal);

-- What queueing and claiming need of a subscription, in narrow rows. Every subscription has one; the first five columns
-- repeat it. Whoever changes deliveries of a subscription holds its lane.
CREATE TABLE event_lanes (
    n          bigint PRIMARY KEY REFERENCES event_subscriptions ON DELETE CASCADE,
    expires_at bigint,
    parallel   bigint NOT NULL,
    strict     boolean NOT NULL,
    active     boolean NOT NULL,
    pending    bigint NOT NULL DEFAULT 0 CHECK (pending >= 0), -- equals the number of pending rows in event_deliveries
    oldest     bigint NOT NULL DEFAULT 0, -- the lowest sequence of those, 0 when there is none
    due_at     bigint, -- the lane rule of mcpevents/driver; NULL when there is nothing to do
    host       text COLLATE "C" NOT NULL
) WITH (fillfactor = 70);
CREATE INDEX event_lanes_due ON event_lanes (due_at, host) INCLUDE (n, expires_at) WHERE due_at IS NOT NULL;

CREATE TABLE event_deliveries (
    subscription bigint NOT NULL, -- event_subscriptions.n
    sequence     bigint NOT NULL,
    cursor       bigint NOT NULL,
    tries        bigint NOT NULL,
    attempts     bigint NOT NULL,
    queued_at    bigint,
    due_at       bigint,
    deadline_at  bigint,
    settled_at   bigint,
    lease        bigint NOT NULL,
    leased       boolean NOT NULL CHECK (NOT leased OR state = 'pending'),
    manual       boolean NOT NULL,
    state        text COLLATE "C" NOT NULL CHECK (state IN ('pending', 'delivered', 'dropped', 'held')),
    reason       text COLLATE "C" NOT NULL,
    PRIMARY KEY (subscription, sequence)
);
CREATE INDEX event_deliveries_waiting ON event_deliveries (subscription, sequence) WHERE state = 'pending';
CREATE INDEX event_deliveries_due ON event_deliveries (subscription, due_at, sequence) WHERE state = 'pending';
CREATE INDEX event_deliveries_leased ON event_deliveries (subscription, due_at, sequence) WHERE leased;
CREATE INDEX event_deliveries_overdue ON event_deliveries (deadline_at) WHERE state = 'pending' AND deadline_at IS NOT NULL;
CREATE INDEX event_deliveries_settled ON event_deliveries (settled_at) WHERE settled_at IS NOT NULL;

CREATE TABLE event_attempts (
    subscription bigint NOT NULL,
    sequence     bigint NOT NULL,
    number       bigint NOT NULL,
    started_at   bigint,
    elapsed_ms   bigint NOT NULL,
    status       bigint NOT NULL,
    manual       boolean NOT NULL,
    category     text COLLATE "C" NOT NULL,
    verdict      text COLLATE "C" NOT NULL,
    PRIMARY KEY (subscription, sequence, number)
);

CREATE TABLE event_verifications (
    verified_at bigint NOT NULL,
    principal   text COLLATE "C" NOT NULL,
    url         text COLLATE "C" NOT NULL,
    PRIMARY KEY (principal, url)
);
CREATE INDEX event_verifications_age ON event_verifications (verified_at);
