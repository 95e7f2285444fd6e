-- What the migrations make, as the server describes it. Rewritten by: go test ./internal/postgres -run SchemaGolden -update

TABLE access_tokens (
    hash bytea NOT NULL,
    mailbox bytea NOT NULL,
    key bytea NOT NULL,
    place bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    created_at bigint NOT NULL,
    scopes text COLLATE "C" NOT NULL
);
TABLE audit (
    place bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    at bigint NOT NULL,
    person bytea NOT NULL,
    mailbox bytea NOT NULL,
    consent bytea,
    key bytea,
    action text COLLATE "C" NOT NULL,
    client text COLLATE "C" NOT NULL,
    client_name text COLLATE "C" NOT NULL,
    by text COLLATE "C" NOT NULL
);
TABLE clients (
    id text COLLATE "C" NOT NULL,
    place bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    created_at bigint NOT NULL,
    fresh_until bigint,
    secret_hash bytea,
    name text COLLATE "C" NOT NULL,
    auth_method text COLLATE "C" NOT NULL,
    redirects text[] COLLATE "C" NOT NULL,
    document boolean NOT NULL
);
TABLE consents (
    id bytea NOT NULL,
    mailbox bytea NOT NULL,
    place bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    poll_every bigint NOT NULL,
    attempts bigint NOT NULL,
    polled_at bigint,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    decided_at bigint,
    collected_at bigint,
    secret bytea NOT NULL,
    key bytea,
    client text COLLATE "C" NOT NULL,
    client_name text COLLATE "C" NOT NULL,
    flow text COLLATE "C" NOT NULL,
    scopes text COLLATE "C" NOT NULL,
    status text COLLATE "C" NOT NULL,
    code text COLLATE "C" NOT NULL,
    user_code text COLLATE "C" NOT NULL,
    redirect text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL,
    challenge text COLLATE "C" NOT NULL,
    issuer text COLLATE "C" NOT NULL,
    resource text COLLATE "C" NOT NULL,
    announced text COLLATE "C" NOT NULL
);
TABLE counters (
    mailbox bytea NOT NULL,
    last_seq bigint NOT NULL DEFAULT 0,
    waiting bigint NOT NULL DEFAULT 0
) WITH (fillfactor=50);
TABLE devices (
    mailbox bytea NOT NULL,
    id bytea NOT NULL,
    place bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    created_at bigint NOT NULL,
    last_seen_at bigint,
    token_hash bytea NOT NULL,
    name text COLLATE "C" NOT NULL,
    stream text COLLATE "C" NOT NULL,
    owner boolean NOT NULL
);
TABLE entries (
    workspace bytea NOT NULL,
    sequence bigint NOT NULL,
    at bigint NOT NULL,
    recorded_at bigint NOT NULL,
    id bytea NOT NULL,
    print bytea NOT NULL,
    name text COLLATE "C" NOT NULL,
    subject text COLLATE "C" NOT NULL,
    data bytea NOT NULL
);
TABLE entry_names (
    workspace bytea NOT NULL,
    name text COLLATE "C" NOT NULL
);
TABLE event_attempts (
    subscription bigint NOT NULL,
    sequence bigint NOT NULL,
    number bigint NOT NULL,
    started_at bigint,
    elapsed_ms bigint NOT NULL,
    status bigint NOT NULL,
    manual boolean NOT NULL,
    category text COLLATE "C" NOT NULL,
    verdict text COLLATE "C" NOT NULL
);
TABLE event_deliveries (
    subscription bigint NOT NULL,
    sequence bigint NOT NULL,
    cursor bigint NOT NULL,
    tries bigint NOT NULL,
    attempts bigint NOT NULL,
    queued_at bigint,
    due_at bigint,
    deadline_at bigint,
    settled_at bigint,
    lease bigint NOT NULL,
    leased boolean NOT NULL,
    manual boolean NOT NULL,
    state text COLLATE "C" NOT NULL,
    reason text COLLATE "C" NOT NULL
);
TABLE event_lanes (
    n bigint NOT NULL,
    expires_at bigint,
    parallel bigint NOT NULL,
    strict boolean NOT NULL,
    active boolean NOT NULL,
    pending bigint NOT NULL DEFAULT 0,
    oldest bigint NOT NULL DEFAULT 0,
    due_at bigint,
    host text COLLATE "C" NOT NULL
) WITH (fillfactor=70);
TABLE event_ledgers (
    n bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    newest bigint NOT NULL,
    forgotten bigint NOT NULL,
    name text COLLATE "C" NOT NULL,
    epoch text COLLATE "C" NOT NULL
) WITH (fillfactor=50);
TABLE event_subscriptions (
    n bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    start bigint NOT NULL,
    created_at bigint,
    refreshed_at bigint,
    expires_at bigint,
    changed_at bigint,
    last_delivery bigint,
    failing_since bigint,
    throttled bigint,
    window_at bigint,
    parallel bigint NOT NULL,
    tried bigint NOT NULL,
    failed bigint NOT NULL,
    strict boolean NOT NULL,
    gap boolean NOT NULL,
    id text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    family text COLLATE "C" NOT NULL,
    principal text COLLATE "C" NOT NULL,
    ledger text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    url text COLLATE "C" NOT NULL,
    host text COLLATE "C" NOT NULL,
    label text COLLATE "C" NOT NULL,
    dialect text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL,
    reason text COLLATE "C" NOT NULL,
    last_error text COLLATE "C" NOT NULL,
    arguments bytea NOT NULL,
    secrets bytea[] NOT NULL,
    secrets_until bigint[] NOT NULL
);
TABLE event_verifications (
    verified_at bigint NOT NULL,
    principal text COLLATE "C" NOT NULL,
    url text COLLATE "C" NOT NULL
);
TABLE events (
    ledger bigint NOT NULL,
    sequence bigint NOT NULL,
    time bigint NOT NULL,
    recorded_at bigint NOT NULL,
    id text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    subject text COLLATE "C" NOT NULL,
    audience text COLLATE "C" NOT NULL,
    data bytea NOT NULL,
    meta bytea
);
TABLE gates (
    name text COLLATE "C" NOT NULL
);
TABLE grants (
    mailbox bytea NOT NULL,
    key bytea NOT NULL,
    place bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    created_at bigint NOT NULL,
    consent bytea NOT NULL,
    refresh bytea NOT NULL,
    client text COLLATE "C" NOT NULL,
    scopes text COLLATE "C" NOT NULL,
    resource text COLLATE "C" NOT NULL
);
TABLE keys (
    mailbox bytea NOT NULL,
    id bytea NOT NULL,
    place bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    created_at bigint NOT NULL,
    last_used_at bigint,
    revoked_at bigint,
    hash bytea NOT NULL,
    name text COLLATE "C" NOT NULL,
    client text COLLATE "C" NOT NULL,
    scope text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    display_name text COLLATE "C" NOT NULL
);
TABLE mailboxes (
    id bytea NOT NULL,
    place bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    person bytea NOT NULL,
    created_at bigint NOT NULL,
    last_seen_at bigint,
    name text COLLATE "C" NOT NULL,
    quiet_until text COLLATE "C" NOT NULL,
    quiet_active boolean NOT NULL,
    muted boolean NOT NULL
);
TABLE marks (
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    at bigint NOT NULL,
    kind text COLLATE "C" NOT NULL,
    subject text COLLATE "C" NOT NULL
);
TABLE members (
    workspace bytea NOT NULL,
    person bytea NOT NULL,
    place bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    joined_at bigint NOT NULL,
    chosen boolean NOT NULL
);
TABLE notifications (
    id bytea NOT NULL,
    seq bigint NOT NULL,
    key_seq bigint NOT NULL,
    created_at bigint NOT NULL,
    acked_at bigint,
    displayed_at bigint,
    spoken_at bigint,
    replied_at bigint,
    clip_bytes bigint NOT NULL,
    reply_duration double precision,
    mailbox bytea NOT NULL,
    key bytea NOT NULL,
    agent_id text COLLATE "C",
    clip_type text COLLATE "C" NOT NULL,
    reply_text text COLLATE "C" NOT NULL,
    reply_transcript text COLLATE "C" NOT NULL,
    reason text COLLATE "C" NOT NULL,
    scope text COLLATE "C" NOT NULL,
    payload bytea NOT NULL,
    expect_reply boolean NOT NULL,
    suppressed boolean NOT NULL,
    waiting boolean NOT NULL GENERATED ALWAYS AS ((acked_at IS NULL) AND (displayed_at IS NULL) AND (NOT suppressed)) STORED
);
TABLE pair_codes (
    hash bytea NOT NULL,
    person bytea NOT NULL,
    mailbox bytea,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    name text COLLATE "C" NOT NULL,
    address text COLLATE "C" NOT NULL
);
TABLE people (
    id bytea NOT NULL,
    place bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    created_at bigint NOT NULL,
    name text COLLATE "C" NOT NULL
);
TABLE usage (
    mailbox bytea NOT NULL,
    day text COLLATE "C" NOT NULL,
    requests bigint NOT NULL DEFAULT 0,
    ws_messages bigint NOT NULL DEFAULT 0,
    notifications bigint NOT NULL DEFAULT 0,
    poll_seconds bigint NOT NULL DEFAULT 0,
    audio_uploads bigint NOT NULL DEFAULT 0,
    audio_bytes bigint NOT NULL DEFAULT 0
) WITH (fillfactor=50);
TABLE workspace_heads (
    workspace bytea NOT NULL,
    newest bigint NOT NULL
) WITH (fillfactor=50);
TABLE workspace_keys (
    workspace bytea NOT NULL,
    id bytea NOT NULL,
    place bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    created_at bigint NOT NULL,
    last_used_at bigint,
    revoked_at bigint,
    hash bytea NOT NULL,
    name text COLLATE "C" NOT NULL
);
TABLE workspaces (
    id bytea NOT NULL,
    place bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    created_at bigint NOT NULL,
    revision bigint NOT NULL,
    name text COLLATE "C" NOT NULL,
    mode text COLLATE "C" NOT NULL,
    catalog bytea NOT NULL
);

CONSTRAINT access_tokens_created_at_check ON access_tokens CHECK ((created_at >= 0));
CONSTRAINT access_tokens_hash_check ON access_tokens CHECK ((octet_length(hash) = 32));
CONSTRAINT access_tokens_mailbox_key_fkey ON access_tokens FOREIGN KEY (mailbox, key) REFERENCES grants(mailbox, key) ON DELETE CASCADE;
CONSTRAINT access_tokens_pkey ON access_tokens PRIMARY KEY (hash);
CONSTRAINT audit_at_check ON audit CHECK ((at >= 0));
CONSTRAINT audit_person_fkey ON audit FOREIGN KEY (person) REFERENCES people(id) ON DELETE CASCADE;
CONSTRAINT audit_pkey ON audit PRIMARY KEY (place);
CONSTRAINT clients_auth_method_check ON clients CHECK ((auth_method = ANY (ARRAY['none'::text, 'client_secret_post'::text, 'client_secret_basic'::text])));
CONSTRAINT clients_created_at_check ON clients CHECK ((created_at >= 0));
CONSTRAINT clients_fresh_until_check ON clients CHECK ((fresh_until >= 0));
CONSTRAINT clients_pkey ON clients PRIMARY KEY (id);
CONSTRAINT clients_secret_hash_check ON clients CHECK ((octet_length(secret_hash) = 32));
CONSTRAINT consents_attempts_check ON consents CHECK ((attempts >= 0));
CONSTRAINT consents_collected_at_check ON consents CHECK ((collected_at >= 0));
CONSTRAINT consents_created_at_check ON consents CHECK ((created_at >= 0));
CONSTRAINT consents_decided_at_check ON consents CHECK ((decided_at >= 0));
CONSTRAINT consents_expires_at_check ON consents CHECK ((expires_at >= 0));
CONSTRAINT consents_flow_check ON consents CHECK ((flow = ANY (ARRAY['code'::text, 'device'::text])));
CONSTRAINT consents_id_check ON consents CHECK ((octet_length(id) = 36));
CONSTRAINT consents_key_check ON consents CHECK ((octet_length(key) = 4));
CONSTRAINT consents_mailbox_check ON consents CHECK ((octet_length(mailbox) = 24));
CONSTRAINT consents_pkey ON consents PRIMARY KEY (id);
CONSTRAINT consents_poll_every_check ON consents CHECK ((poll_every >= 0));
CONSTRAINT consents_polled_at_check ON consents CHECK ((polled_at >= 0));
CONSTRAINT consents_secret_check ON consents CHECK ((octet_length(secret) = 32));
CONSTRAINT consents_status_check ON consents CHECK ((status = ANY (ARRAY['pending'::text, 'approved'::text, 'denied'::text, 'superseded'::text, 'expired'::text])));
CONSTRAINT counters_check ON counters CHECK (((waiting >= 0) AND (waiting <= last_seq)));
CONSTRAINT counters_last_seq_check ON counters CHECK ((last_seq >= 0));
CONSTRAINT counters_mailbox_fkey ON counters FOREIGN KEY (mailbox) REFERENCES mailboxes(id) ON DELETE CASCADE;
CONSTRAINT counters_pkey ON counters PRIMARY KEY (mailbox);
CONSTRAINT devices_created_at_check ON devices CHECK ((created_at >= 0));
CONSTRAINT devices_id_check ON devices CHECK ((octet_length(id) = 8));
CONSTRAINT devices_last_seen_at_check ON devices CHECK ((last_seen_at >= 0));
CONSTRAINT devices_mailbox_fkey ON devices FOREIGN KEY (mailbox) REFERENCES mailboxes(id) ON DELETE CASCADE;
CONSTRAINT devices_pkey ON devices PRIMARY KEY (mailbox, id);
CONSTRAINT devices_token_hash_check ON devices CHECK ((octet_length(token_hash) = 32));
CONSTRAINT entries_id_check ON entries CHECK ((octet_length(id) = 16));
CONSTRAINT entries_pkey ON entries PRIMARY KEY (workspace, sequence);
CONSTRAINT entries_print_check ON entries CHECK ((octet_length(print) = 32));
CONSTRAINT entries_recorded_at_check ON entries CHECK ((recorded_at >= 0));
CONSTRAINT entries_sequence_check ON entries CHECK ((sequence > 0));
CONSTRAINT entry_names_pkey ON entry_names PRIMARY KEY (workspace, name);
CONSTRAINT entry_names_workspace_fkey ON entry_names FOREIGN KEY (workspace) REFERENCES workspaces(id);
CONSTRAINT event_attempts_pkey ON event_attempts PRIMARY KEY (subscription, sequence, number);
CONSTRAINT event_deliveries_check ON event_deliveries CHECK (((NOT leased) OR (state = 'pending'::text)));
CONSTRAINT event_deliveries_pkey ON event_deliveries PRIMARY KEY (subscription, sequence);
CONSTRAINT event_deliveries_state_check ON event_deliveries CHECK ((state = ANY (ARRAY['pending'::text, 'delivered'::text, 'dropped'::text, 'held'::text])));
CONSTRAINT event_lanes_n_fkey ON event_lanes FOREIGN KEY (n) REFERENCES event_subscriptions(n) ON DELETE CASCADE;
CONSTRAINT event_lanes_pending_check ON event_lanes CHECK ((pending >= 0));
CONSTRAINT event_lanes_pkey ON event_lanes PRIMARY KEY (n);
CONSTRAINT event_ledgers_check ON event_ledgers CHECK ((newest >= forgotten));
CONSTRAINT event_ledgers_forgotten_check ON event_ledgers CHECK ((forgotten >= 0));
CONSTRAINT event_ledgers_name_key ON event_ledgers UNIQUE (name);
CONSTRAINT event_ledgers_pkey ON event_ledgers PRIMARY KEY (n);
CONSTRAINT event_subscriptions_id_key ON event_subscriptions UNIQUE (id);
CONSTRAINT event_subscriptions_key_key ON event_subscriptions UNIQUE (key);
CONSTRAINT event_subscriptions_pkey ON event_subscriptions PRIMARY KEY (n);
CONSTRAINT event_subscriptions_state_check ON event_subscriptions CHECK ((state = ANY (ARRAY['active'::text, 'suspended'::text, 'ended'::text])));
CONSTRAINT event_verifications_pkey ON event_verifications PRIMARY KEY (principal, url);
CONSTRAINT events_pkey ON events PRIMARY KEY (ledger, sequence);
CONSTRAINT gates_pkey ON gates PRIMARY KEY (name);
CONSTRAINT grants_consent_check ON grants CHECK ((octet_length(consent) = 36));
CONSTRAINT grants_created_at_check ON grants CHECK ((created_at >= 0));
CONSTRAINT grants_mailbox_key_fkey ON grants FOREIGN KEY (mailbox, key) REFERENCES keys(mailbox, id) ON DELETE CASCADE;
CONSTRAINT grants_pkey ON grants PRIMARY KEY (mailbox, key);
CONSTRAINT grants_refresh_check ON grants CHECK ((octet_length(refresh) = 32));
CONSTRAINT keys_created_at_check ON keys CHECK ((created_at >= 0));
CONSTRAINT keys_hash_check ON keys CHECK ((octet_length(hash) = 32));
CONSTRAINT keys_id_check ON keys CHECK ((octet_length(id) = 4));
CONSTRAINT keys_kind_check ON keys CHECK ((kind = ANY (ARRAY['static'::text, 'oauth'::text])));
CONSTRAINT keys_last_used_at_check ON keys CHECK ((last_used_at >= 0));
CONSTRAINT keys_mailbox_fkey ON keys FOREIGN KEY (mailbox) REFERENCES mailboxes(id) ON DELETE CASCADE;
CONSTRAINT keys_pkey ON keys PRIMARY KEY (mailbox, id);
CONSTRAINT keys_revoked_at_check ON keys CHECK ((revoked_at >= 0));
CONSTRAINT mailboxes_created_at_check ON mailboxes CHECK ((created_at >= 0));
CONSTRAINT mailboxes_id_check ON mailboxes CHECK ((octet_length(id) = 24));
CONSTRAINT mailboxes_last_seen_at_check ON mailboxes CHECK ((last_seen_at >= 0));
CONSTRAINT mailboxes_person_fkey ON mailboxes FOREIGN KEY (person) REFERENCES people(id);
CONSTRAINT mailboxes_pkey ON mailboxes PRIMARY KEY (id);
CONSTRAINT mailboxes_quiet_until_check ON mailboxes CHECK ((char_length(quiet_until) <= 40));
CONSTRAINT marks_at_check ON marks CHECK ((at >= 0));
CONSTRAINT marks_pkey ON marks PRIMARY KEY (id);
CONSTRAINT members_joined_at_check ON members CHECK ((joined_at >= 0));
CONSTRAINT members_person_fkey ON members FOREIGN KEY (person) REFERENCES people(id) ON DELETE CASCADE;
CONSTRAINT members_pkey ON members PRIMARY KEY (workspace, person);
CONSTRAINT members_workspace_fkey ON members FOREIGN KEY (workspace) REFERENCES workspaces(id);
CONSTRAINT notifications_acked_at_check ON notifications CHECK ((acked_at >= 0));
CONSTRAINT notifications_check ON notifications CHECK ((suppressed = (scope <> ''::text)));
CONSTRAINT notifications_clip_bytes_check ON notifications CHECK ((clip_bytes >= 0));
CONSTRAINT notifications_created_at_check ON notifications CHECK ((created_at >= 0));
CONSTRAINT notifications_displayed_at_check ON notifications CHECK ((displayed_at >= 0));
CONSTRAINT notifications_id_check ON notifications CHECK ((octet_length(id) = 12));
CONSTRAINT notifications_key_check ON notifications CHECK ((octet_length(key) = 4));
CONSTRAINT notifications_key_seq_check ON notifications CHECK ((key_seq > 0));
CONSTRAINT notifications_pkey ON notifications PRIMARY KEY (id);
CONSTRAINT notifications_replied_at_check ON notifications CHECK ((replied_at >= 0));
CONSTRAINT notifications_reply_duration_check ON notifications CHECK (((reply_duration >= (0)::double precision) AND (reply_duration <= (600)::double precision)));
CONSTRAINT notifications_reply_text_check ON notifications CHECK ((char_length(reply_text) <= 4000));
CONSTRAINT notifications_reply_transcript_check ON notifications CHECK ((char_length(reply_transcript) <= 4000));
CONSTRAINT notifications_scope_check ON notifications CHECK ((scope = ANY (ARRAY[''::text, 'all'::text, 'speech'::text])));
CONSTRAINT notifications_seq_check ON notifications CHECK ((seq > 0));
CONSTRAINT notifications_spoken_at_check ON notifications CHECK ((spoken_at >= 0));
CONSTRAINT pair_codes_created_at_check ON pair_codes CHECK ((created_at >= 0));
CONSTRAINT pair_codes_expires_at_check ON pair_codes CHECK ((expires_at >= 0));
CONSTRAINT pair_codes_hash_check ON pair_codes CHECK ((octet_length(hash) = 32));
CONSTRAINT pair_codes_mailbox_fkey ON pair_codes FOREIGN KEY (mailbox) REFERENCES mailboxes(id) ON DELETE CASCADE;
CONSTRAINT pair_codes_person_fkey ON pair_codes FOREIGN KEY (person) REFERENCES people(id) ON DELETE CASCADE;
CONSTRAINT pair_codes_pkey ON pair_codes PRIMARY KEY (hash);
CONSTRAINT people_created_at_check ON people CHECK ((created_at >= 0));
CONSTRAINT people_id_check ON people CHECK ((octet_length(id) = 8));
CONSTRAINT people_name ON people UNIQUE (name);
CONSTRAINT people_name_check ON people CHECK ((name ~ '^[a-z0-9-]{1,32}$'::text));
CONSTRAINT people_pkey ON people PRIMARY KEY (id);
CONSTRAINT usage_audio_bytes_check ON usage CHECK ((audio_bytes >= 0));
CONSTRAINT usage_audio_uploads_check ON usage CHECK ((audio_uploads >= 0));
CONSTRAINT usage_day_check ON usage CHECK ((octet_length(day) = 10));
CONSTRAINT usage_notifications_check ON usage CHECK ((notifications >= 0));
CONSTRAINT usage_pkey ON usage PRIMARY KEY (mailbox, day);
CONSTRAINT usage_poll_seconds_check ON usage CHECK ((poll_seconds >= 0));
CONSTRAINT usage_requests_check ON usage CHECK ((requests >= 0));
CONSTRAINT usage_ws_messages_check ON usage CHECK ((ws_messages >= 0));
CONSTRAINT workspace_heads_newest_check ON workspace_heads CHECK ((newest >= 0));
CONSTRAINT workspace_heads_pkey ON workspace_heads PRIMARY KEY (workspace);
CONSTRAINT workspace_heads_workspace_fkey ON workspace_heads FOREIGN KEY (workspace) REFERENCES workspaces(id);
CONSTRAINT workspace_keys_created_at_check ON workspace_keys CHECK ((created_at >= 0));
CONSTRAINT workspace_keys_hash_check ON workspace_keys CHECK ((octet_length(hash) = 32));
CONSTRAINT workspace_keys_id_check ON workspace_keys CHECK ((octet_length(id) = 4));
CONSTRAINT workspace_keys_last_used_at_check ON workspace_keys CHECK ((last_used_at >= 0));
CONSTRAINT workspace_keys_pkey ON workspace_keys PRIMARY KEY (workspace, id);
CONSTRAINT workspace_keys_revoked_at_check ON workspace_keys CHECK ((revoked_at >= 0));
CONSTRAINT workspace_keys_workspace_fkey ON workspace_keys FOREIGN KEY (workspace) REFERENCES workspaces(id);
CONSTRAINT workspaces_created_at_check ON workspaces CHECK ((created_at >= 0));
CONSTRAINT workspaces_id_check ON workspaces CHECK ((octet_length(id) = 12));
CONSTRAINT workspaces_mode_check ON workspaces CHECK ((mode = ANY (ARRAY['live'::text, 'test'::text])));
CONSTRAINT workspaces_name ON workspaces UNIQUE (name);
CONSTRAINT workspaces_name_check ON workspaces CHECK ((name ~ '^[a-z0-9-]{1,32}$'::text));
CONSTRAINT workspaces_pkey ON workspaces PRIMARY KEY (id);
CONSTRAINT workspaces_revision_check ON workspaces CHECK ((revision > 0));

CREATE INDEX access_tokens_grant ON public.access_tokens USING btree (mailbox, key, place);
CREATE UNIQUE INDEX access_tokens_pkey ON public.access_tokens USING btree (hash);
CREATE INDEX audit_at ON public.audit USING btree (at);
CREATE INDEX audit_person ON public.audit USING btree (person, at, place);
CREATE UNIQUE INDEX audit_pkey ON public.audit USING btree (place);
CREATE UNIQUE INDEX clients_pkey ON public.clients USING btree (id);
CREATE INDEX clients_sort ON public.clients USING btree (document, place);
CREATE INDEX consents_age ON public.consents USING btree (mailbox, created_at);
CREATE INDEX consents_created ON public.consents USING btree (created_at);
CREATE INDEX consents_pending ON public.consents USING btree (expires_at) WHERE (status = 'pending'::text);
CREATE INDEX consents_pending_client ON public.consents USING btree (client) WHERE (status = 'pending'::text);
CREATE UNIQUE INDEX consents_pkey ON public.consents USING btree (id);
CREATE UNIQUE INDEX consents_secret ON public.consents USING btree (mailbox, secret);
CREATE INDEX consents_uncollected ON public.consents USING btree (decided_at) WHERE ((status = 'approved'::text) AND (collected_at IS NULL));
CREATE UNIQUE INDEX consents_user_code ON public.consents USING btree (user_code) WHERE ((status = 'pending'::text) AND (user_code <> ''::text));
CREATE UNIQUE INDEX counters_pkey ON public.counters USING btree (mailbox);
CREATE UNIQUE INDEX devices_pkey ON public.devices USING btree (mailbox, id);
CREATE INDEX entries_age ON public.entries USING btree (recorded_at);
CREATE UNIQUE INDEX entries_id ON public.entries USING btree (workspace, id);
CREATE INDEX entries_name ON public.entries USING btree (workspace, name, sequence);
CREATE UNIQUE INDEX entries_pkey ON public.entries USING btree (workspace, sequence);
CREATE INDEX entries_subject ON public.entries USING btree (workspace, subject, name, sequence);
CREATE UNIQUE INDEX entry_names_pkey ON public.entry_names USING btree (workspace, name);
CREATE UNIQUE INDEX event_attempts_pkey ON public.event_attempts USING btree (subscription, sequence, number);
CREATE INDEX event_deliveries_due ON public.event_deliveries USING btree (subscription, due_at, sequence) WHERE (state = 'pending'::text);
CREATE INDEX event_deliveries_leased ON public.event_deliveries USING btree (subscription, due_at, sequence) WHERE leased;
CREATE INDEX event_deliveries_overdue ON public.event_deliveries USING btree (deadline_at) WHERE ((state = 'pending'::text) AND (deadline_at IS NOT NULL));
CREATE UNIQUE INDEX event_deliveries_pkey ON public.event_deliveries USING btree (subscription, sequence);
CREATE INDEX event_deliveries_settled ON public.event_deliveries USING btree (settled_at) WHERE (settled_at IS NOT NULL);
CREATE INDEX event_deliveries_waiting ON public.event_deliveries USING btree (subscription, sequence) WHERE (state = 'pending'::text);
CREATE INDEX event_lanes_due ON public.event_lanes USING btree (due_at, host) INCLUDE (n, expires_at) WHERE (due_at IS NOT NULL);
CREATE UNIQUE INDEX event_lanes_pkey ON public.event_lanes USING btree (n);
CREATE UNIQUE INDEX event_ledgers_name_key ON public.event_ledgers USING btree (name);
CREATE UNIQUE INDEX event_ledgers_pkey ON public.event_ledgers USING btree (n);
CREATE INDEX event_subscriptions_address ON public.event_subscriptions USING btree (url, principal);
CREATE UNIQUE INDEX event_subscriptions_id_key ON public.event_subscriptions USING btree (id);
CREATE UNIQUE INDEX event_subscriptions_key_key ON public.event_subscriptions USING btree (key);
CREATE INDEX event_subscriptions_lapsing ON public.event_subscriptions USING btree (expires_at) WHERE ((state <> 'ended'::text) AND (expires_at IS NOT NULL));
CREATE INDEX event_subscriptions_ledger ON public.event_subscriptions USING btree (ledger, id);
CREATE INDEX event_subscriptions_over ON public.event_subscriptions USING btree (changed_at) WHERE (state = 'ended'::text);
CREATE UNIQUE INDEX event_subscriptions_pkey ON public.event_subscriptions USING btree (n);
CREATE INDEX event_subscriptions_principal ON public.event_subscriptions USING btree (principal, id);
CREATE INDEX event_subscriptions_topic ON public.event_subscriptions USING btree (ledger, name, family, id);
CREATE INDEX event_verifications_age ON public.event_verifications USING btree (verified_at);
CREATE UNIQUE INDEX event_verifications_pkey ON public.event_verifications USING btree (principal, url);
CREATE INDEX events_audience ON public.events USING btree (ledger, audience, sequence);
CREATE UNIQUE INDEX events_id ON public.events USING btree (ledger, id);
CREATE UNIQUE INDEX events_pkey ON public.events USING btree (ledger, sequence);
CREATE INDEX events_recorded ON public.events USING btree (recorded_at, ledger);
CREATE INDEX events_time ON public.events USING btree (ledger, "time", sequence);
CREATE UNIQUE INDEX gates_pkey ON public.gates USING btree (name);
CREATE INDEX grants_client ON public.grants USING btree (client);
CREATE UNIQUE INDEX grants_pkey ON public.grants USING btree (mailbox, key);
CREATE UNIQUE INDEX grants_refresh ON public.grants USING btree (mailbox, refresh);
CREATE UNIQUE INDEX keys_active_name ON public.keys USING btree (mailbox, name) WHERE (revoked_at IS NULL);
CREATE UNIQUE INDEX keys_pkey ON public.keys USING btree (mailbox, id);
CREATE INDEX mailboxes_idle ON public.mailboxes USING btree (COALESCE(last_seen_at, created_at));
CREATE INDEX mailboxes_person ON public.mailboxes USING btree (person);
CREATE UNIQUE INDEX mailboxes_pkey ON public.mailboxes USING btree (id);
CREATE INDEX marks_at ON public.marks USING btree (at);
CREATE INDEX marks_kind ON public.marks USING btree (kind, at);
CREATE UNIQUE INDEX marks_pkey ON public.marks USING btree (id);
CREATE INDEX marks_subject ON public.marks USING btree (kind, subject, at);
CREATE INDEX members_person ON public.members USING btree (person, place);
CREATE UNIQUE INDEX members_pkey ON public.members USING btree (workspace, person);
CREATE UNIQUE INDEX notifications_agent_id ON public.notifications USING btree (mailbox, key, agent_id) WHERE (agent_id <> ''::text);
CREATE INDEX notifications_created ON public.notifications USING btree (created_at);
CREATE UNIQUE INDEX notifications_pkey ON public.notifications USING btree (id);
CREATE UNIQUE INDEX notifications_sent ON public.notifications USING btree (mailbox, key, key_seq);
CREATE UNIQUE INDEX notifications_waiting ON public.notifications USING btree (mailbox, seq) WHERE waiting;
CREATE INDEX notifications_waiting_since ON public.notifications USING btree (created_at) WHERE waiting;
CREATE INDEX pair_codes_expires ON public.pair_codes USING btree (expires_at);
CREATE INDEX pair_codes_mailbox ON public.pair_codes USING btree (mailbox);
CREATE INDEX pair_codes_person ON public.pair_codes USING btree (person);
CREATE UNIQUE INDEX pair_codes_pkey ON public.pair_codes USING btree (hash);
CREATE UNIQUE INDEX people_name ON public.people USING btree (name);
CREATE UNIQUE INDEX people_pkey ON public.people USING btree (id);
CREATE INDEX usage_day ON public.usage USING btree (day);
CREATE UNIQUE INDEX usage_pkey ON public.usage USING btree (mailbox, day);
CREATE UNIQUE INDEX workspace_heads_pkey ON public.workspace_heads USING btree (workspace);
CREATE UNIQUE INDEX workspace_keys_name ON public.workspace_keys USING btree (workspace, name) WHERE (revoked_at IS NULL);
CREATE UNIQUE INDEX workspace_keys_pkey ON public.workspace_keys USING btree (workspace, id);
CREATE UNIQUE INDEX workspaces_name ON public.workspaces USING btree (name);
CREATE UNIQUE INDEX workspaces_pkey ON public.workspaces USING btree (id);

