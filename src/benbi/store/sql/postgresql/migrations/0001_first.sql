-- needs_code: 1
-- The first schema. Times and durations are integer microseconds, UTC, as in SQLite: one code
-- reckons with both. Everything lies in one schema, named benbi here and as the app says.
-- One job is one row of jobs: fixed-size working columns only. What is large is written once, in
-- tables of its own, so that no move of a job rewrites it.
-- What jobs bring (arguments, results, data of events) is json, not jsonb: it is kept as it came, and
-- jsonb refuses a text with \u0000.

CREATE TABLE benbi.jobs (
    n                   bigint   GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id                  uuid     NOT NULL UNIQUE,
    task                text     NOT NULL,
    queue               text     NOT NULL,
    owner               text     NOT NULL DEFAULT '',
    state               text     NOT NULL CHECK (state IN (
                            'pending', 'running', 'completed', 'failed', 'canceled', 'skipped',
                            'waiting', 'scheduled', 'retrying', 'input_required')),
    reason              text,
    waits_for           text     CHECK (waits_for IN ('upstream', 'limit')),

    -- Order of claims: rank = -priority, then due time, then n.
    rank                bigint   NOT NULL DEFAULT 0,
    run_at              bigint   NOT NULL,

    -- attempt numbers claims and never falls; failures and losses are budgets apart.
    attempt             bigint   NOT NULL DEFAULT 0,
    failures            bigint   NOT NULL DEFAULT 0,
    max_attempts        bigint   NOT NULL CHECK (max_attempts >= 1),
    losses              bigint   NOT NULL DEFAULT 0,
    max_losses          bigint   NOT NULL CHECK (max_losses >= 1),

    -- A generation is a job's life until a final state; its steps belong to it.
    generation          bigint   NOT NULL DEFAULT 1,
    first_attempt       bigint   NOT NULL DEFAULT 1,
    last_seq            bigint   NOT NULL CHECK (last_seq >= 1),

    -- The fence: every write of a claim names n and token, numbered by last_write.
    worker_n            bigint,
    token               bigint,
    last_write          bigint   NOT NULL DEFAULT 0,

    timeout             bigint,
    grace               bigint   NOT NULL,
    keep                bigint,
    created_at          bigint   NOT NULL,
    started_at          bigint,
    finished_at         bigint,
    deadline_at         bigint,
    expires_at          bigint,
    cancel_requested_at bigint,

    key                 text,
    arguments_hash      bytea,

    -- Upstream jobs, counted on the child's own row; each edge is counted once.
    trigger_rule        text     NOT NULL DEFAULT 'all_success',
    up_total            bigint   NOT NULL DEFAULT 0,
    up_ok               bigint   NOT NULL DEFAULT 0,
    up_failed           bigint   NOT NULL DEFAULT 0,
    up_skipped          bigint   NOT NULL DEFAULT 0,
    run_n               bigint,
    parent_n            bigint,
    scheduled_for       bigint,

    CHECK ((state = 'running') = (worker_n IS NOT NULL)),
    CHECK ((state IN ('completed', 'failed', 'canceled', 'skipped')) = (finished_at IS NOT NULL)),
    CHECK ((state = 'waiting') = (waits_for IS NOT NULL)),
    CHECK (cancel_requested_at IS NULL OR state = 'running' OR finished_at IS NOT NULL),
    CHECK (failures + losses <= attempt),
    CHECK (state <> 'retrying' OR failures + losses > 0),
    CHECK (up_ok + up_failed + up_skipped <= up_total)
);
-- Dead rows are counted, not shared out by the size of the table: it holds a week of finished jobs.
ALTER TABLE benbi.jobs SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

CREATE INDEX jobs_owner ON benbi.jobs (owner, n) WHERE owner <> '';
CREATE INDEX jobs_ready ON benbi.jobs (queue, rank, run_at, n) WHERE state = 'pending';
CREATE INDEX jobs_due ON benbi.jobs (run_at) WHERE state IN ('scheduled', 'retrying');
CREATE INDEX jobs_running ON benbi.jobs (worker_n) WHERE state = 'running';
CREATE INDEX jobs_expiring ON benbi.jobs (expires_at)
    WHERE expires_at IS NOT NULL AND state IN ('waiting', 'scheduled', 'pending', 'input_required');
CREATE UNIQUE INDEX jobs_key ON benbi.jobs (owner, task, key) WHERE key IS NOT NULL;
CREATE INDEX jobs_same_call ON benbi.jobs (owner, task, arguments_hash)
    WHERE arguments_hash IS NOT NULL AND finished_at IS NULL;
CREATE INDEX jobs_run ON benbi.jobs (run_n, n) WHERE run_n IS NOT NULL;

-- No row: '{}'.
CREATE TABLE benbi.arguments (
    n    bigint PRIMARY KEY,
    body json   NOT NULL
);

-- No row: a completed job's result is 'null'. error is the record of what ended the job.
CREATE TABLE benbi.results (
    n     bigint PRIMARY KEY,
    body  json,
    error json
);

-- position is no commit order: whoever commits late has a smaller one. Readers of many jobs go by
-- (xid, position), and only as far as no open transaction can still add to.
CREATE TABLE benbi.events (
    position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    xid      xid8   NOT NULL DEFAULT pg_current_xact_id(),
    job_n    bigint NOT NULL,
    seq      bigint NOT NULL,
    type     text   NOT NULL,
    reason   text,
    attempt  bigint NOT NULL,
    at       bigint NOT NULL,
    data     json
);
CREATE UNIQUE INDEX events_job ON benbi.events (job_n, seq);
CREATE INDEX events_commit ON benbi.events (xid, position);

-- The newest progress of a job, between two events that tell it. Its row is rewritten again and
-- again: room within the page, and no index on what changes, let it stay where it is.
CREATE TABLE benbi.progress (
    job_n   bigint           PRIMARY KEY,
    done    double precision NOT NULL,
    total   double precision,
    message text             NOT NULL,
    at      bigint           NOT NULL
) WITH (fillfactor = 50);

-- use tells apart the uses of one name: '#1', '#2' … by order, or the key that the task gave.
CREATE TABLE benbi.steps (
    job_n       bigint NOT NULL,
    generation  bigint NOT NULL,
    kind        text   NOT NULL,
    name        text   NOT NULL,
    use         text   NOT NULL,
    fingerprint bytea  NOT NULL,
    state       text   NOT NULL CHECK (state IN ('completed', 'failed')),
    tries       bigint NOT NULL,
    attempt     bigint NOT NULL,
    at          bigint NOT NULL,
    result      json,
    error       json,
    PRIMARY KEY (job_n, generation, kind, name, use),
    CHECK ((state = 'completed') = (result IS NOT NULL))
);

CREATE TABLE benbi.questions (
    job_n           bigint NOT NULL,
    generation      bigint NOT NULL,
    key             text   NOT NULL,
    place           bigint GENERATED ALWAYS AS IDENTITY,
    fingerprint     bytea  NOT NULL,
    prompt          text   NOT NULL,
    schema          json   NOT NULL,
    default_answer  json,
    asked_at        bigint NOT NULL,
    deadline        bigint,
    answer          json,
    answered_by     text,
    answered_at     bigint,
    PRIMARY KEY (job_n, generation, key),
    CHECK ((answer IS NULL) = (answered_at IS NULL))
);
CREATE INDEX questions_deadline ON benbi.questions (deadline)
    WHERE deadline IS NOT NULL AND answered_at IS NULL;

-- outcome is NULL until the edge was counted on the child's row.
CREATE TABLE benbi.edges (
    parent_n bigint NOT NULL,
    child_n  bigint NOT NULL,
    outcome  text   CHECK (outcome IN ('ok', 'failed', 'skipped')),
    PRIMARY KEY (parent_n, child_n)
);
CREATE INDEX edges_child ON benbi.edges (child_n);

-- Jobs that have ended and whose edges are not all counted yet: a cascade that was cut because it
-- was longer than one transaction may be. Upkeep goes on with it.
CREATE TABLE benbi.unsettled (
    n bigint PRIMARY KEY
);

CREATE TABLE benbi.runs (
    n          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id         uuid   NOT NULL UNIQUE,
    name       text   NOT NULL,
    owner      text   NOT NULL DEFAULT '',
    created_at bigint NOT NULL
);

-- The truth about a limit is the rows of slots; a row of limits is only a lock.
CREATE TABLE benbi.limits (
    name text NOT NULL,
    key  text NOT NULL DEFAULT '',
    PRIMARY KEY (name, key)
);
CREATE TABLE benbi.slots (
    limit_name text   NOT NULL,
    key        text   NOT NULL DEFAULT '',
    job_n      bigint NOT NULL,
    PRIMARY KEY (limit_name, key, job_n)
);
CREATE INDEX slots_job ON benbi.slots (job_n);

-- beat_no is a counter and is never compared with a clock; beat_at is for people.
CREATE TABLE benbi.workers (
    n                 bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id                text   NOT NULL UNIQUE,
    host              text   NOT NULL,
    pid               bigint NOT NULL,
    slots             bigint NOT NULL,
    queues            json   NOT NULL,
    tasks             json   NOT NULL,
    version           text   NOT NULL,
    started_at        bigint NOT NULL,
    beat_no           bigint NOT NULL DEFAULT 0,
    beat_at           bigint NOT NULL,
    heartbeat_timeout bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

-- What workers can run, for doors that do not have the code.
CREATE TABLE benbi.catalogue (
    task             text   PRIMARY KEY,
    queue            text   NOT NULL,
    doc              text   NOT NULL,
    arguments_schema json   NOT NULL,
    result_schema    json   NOT NULL,
    tool             json,
    defaults         json   NOT NULL,
    code_version     text   NOT NULL,
    last_seen        bigint NOT NULL
);

-- One row for each paused queue: nothing is claimed from it. What runs goes on.
CREATE TABLE benbi.queues (
    name      text   PRIMARY KEY,
    paused_at bigint NOT NULL,
    paused_by text   NOT NULL
);

-- Recurring tasks. A schedule is one row; all that a tick needs to become a job stands in it.
CREATE TABLE benbi.schedules (
    name          text   PRIMARY KEY,
    spec          text   NOT NULL,
    timezone      text   NOT NULL,
    catchup       text   NOT NULL,
    task          text   NOT NULL,
    job           text   NOT NULL,
    version       bigint NOT NULL DEFAULT 1,
    registered_by text   NOT NULL,
    registered_at bigint NOT NULL,
    seen_at       bigint NOT NULL,
    paused_at     bigint,
    last_tick     bigint NOT NULL,
    fired_at      bigint,
    last_job      uuid
);

-- What jobs save. The content of an artifact is a file of its own.
-- file is where it is stored: a name that the store chose, never one that a task gave.
CREATE TABLE benbi.artifacts (
    job_n   bigint NOT NULL,
    name    text   NOT NULL,
    attempt bigint NOT NULL,
    size    bigint NOT NULL CHECK (size >= 0),
    sha256  text   NOT NULL CHECK (length(sha256) = 64),
    file    text   NOT NULL UNIQUE,
    at      bigint NOT NULL,
    PRIMARY KEY (job_n, name)
);

-- Each file's name begins with it: of a folder that several databases share, each cleans its own.
CREATE TABLE benbi.artifact_prefix (prefix text PRIMARY KEY);
INSERT INTO benbi.artifact_prefix (prefix) VALUES (substr(md5(random()::text || clock_timestamp()::text), 1, 16));

-- The last lines of an attempt, in pieces; body is one JSON array a line.
CREATE TABLE benbi.logs (
    job_n   bigint NOT NULL,
    attempt bigint NOT NULL,
    piece   bigint NOT NULL,
    body    text   NOT NULL,
    PRIMARY KEY (job_n, attempt, piece)
);
