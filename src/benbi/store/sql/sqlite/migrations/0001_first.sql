-- needs_code: 1
-- The first schema. Times and durations are integer microseconds, UTC.
-- One job is one row of benbi_jobs: fixed-size working columns only. What is large is
-- written once, in tables of its own, so that no move of a job rewrites it.
-- Later distinctions go into reason (free text), never into new states.
-- CHECKs of jobs are chains of OR: SQLite builds a tree of an IN list for each row that it checks,
-- which took half the time of an insert (18 µs, 10 as it stands) and of a claim (13 µs, 7).

CREATE TABLE benbi_jobs (
    -- Never used twice, without AUTOINCREMENT, which writes one more page in each transaction:
    -- retention keeps the newest row. The same holds for benbi_events.position.
    n                   INTEGER PRIMARY KEY,
    id                  BLOB    NOT NULL UNIQUE CHECK (length(id) = 16),
    task                TEXT    NOT NULL,
    queue               TEXT    NOT NULL,
    owner               TEXT    NOT NULL DEFAULT '',
    state               TEXT    NOT NULL CHECK (
                            state = 'pending' OR state = 'running' OR state = 'completed'
                            OR state = 'failed' OR state = 'canceled' OR state = 'skipped'
                            OR state = 'waiting' OR state = 'scheduled' OR state = 'retrying'
                            OR state = 'input_required'),
    reason              TEXT,
    waits_for           TEXT    CHECK (waits_for = 'upstream' OR waits_for = 'limit'),

    -- Order of claims: rank = -priority, then due time, then n.
    rank                INTEGER NOT NULL DEFAULT 0,
    run_at              INTEGER NOT NULL,

    -- attempt numbers claims and never falls; failures and losses are budgets apart.
    attempt             INTEGER NOT NULL DEFAULT 0,
    failures            INTEGER NOT NULL DEFAULT 0,
    max_attempts        INTEGER NOT NULL CHECK (max_attempts >= 1),
    losses              INTEGER NOT NULL DEFAULT 0,
    max_losses          INTEGER NOT NULL CHECK (max_losses >= 1),

    -- A generation is a job's life until a final state; its steps belong to it.
    generation          INTEGER NOT NULL DEFAULT 1,
    first_attempt       INTEGER NOT NULL DEFAULT 1,
    last_seq            INTEGER NOT NULL CHECK (last_seq >= 1),

    -- The fence: every write of a claim names n and token, numbered by last_write.
    worker_n            INTEGER,
    token               INTEGER,
    last_write          INTEGER NOT NULL DEFAULT 0,

    timeout             INTEGER,
    grace               INTEGER NOT NULL,
    keep                INTEGER,
    created_at          INTEGER NOT NULL,
    started_at          INTEGER,
    finished_at         INTEGER,
    deadline_at         INTEGER,
    expires_at          INTEGER,
    cancel_requested_at INTEGER,

    key                 TEXT,
    arguments_hash      BLOB,

    -- Upstream jobs, counted on the child's own row; each edge is counted once.
    trigger_rule        TEXT    NOT NULL DEFAULT 'all_success',
    up_total            INTEGER NOT NULL DEFAULT 0,
    up_ok               INTEGER NOT NULL DEFAULT 0,
    up_failed           INTEGER NOT NULL DEFAULT 0,
    up_skipped          INTEGER NOT NULL DEFAULT 0,
    run_n               INTEGER,
    parent_n            INTEGER,

    CHECK ((state = 'running') = (worker_n IS NOT NULL)),
    CHECK ((state = 'completed' OR state = 'failed' OR state = 'canceled' OR state = 'skipped')
           = (finished_at IS NOT NULL)),
    CHECK ((state = 'waiting') = (waits_for IS NOT NULL)),
    CHECK (cancel_requested_at IS NULL
           OR state = 'running' OR finished_at IS NOT NULL),
    CHECK (failures + losses <= attempt),
    CHECK (state <> 'retrying' OR failures + losses > 0),
    CHECK (up_ok + up_failed + up_skipped <= up_total)
) STRICT;

CREATE INDEX benbi_jobs_owner ON benbi_jobs (owner, n) WHERE owner <> '';
CREATE INDEX benbi_jobs_ready ON benbi_jobs (queue, rank, run_at, n) WHERE state = 'pending';
CREATE INDEX benbi_jobs_due ON benbi_jobs (run_at) WHERE state IN ('scheduled', 'retrying');
CREATE INDEX benbi_jobs_running ON benbi_jobs (worker_n) WHERE state = 'running';
CREATE INDEX benbi_jobs_expiring ON benbi_jobs (expires_at)
    WHERE expires_at IS NOT NULL AND state IN ('waiting', 'scheduled', 'pending', 'input_required');
CREATE UNIQUE INDEX benbi_jobs_key ON benbi_jobs (owner, task, key) WHERE key IS NOT NULL;
CREATE INDEX benbi_jobs_same_call ON benbi_jobs (owner, task, arguments_hash)
    WHERE arguments_hash IS NOT NULL AND finished_at IS NULL;

-- No row: '{}'.
CREATE TABLE benbi_arguments (
    n    INTEGER PRIMARY KEY,
    body TEXT NOT NULL
) STRICT;

-- No row: a completed job's result is 'null'. error is the record of what ended the job.
CREATE TABLE benbi_results (
    n     INTEGER PRIMARY KEY,
    body  TEXT,
    error TEXT
) STRICT;

-- position is commit order, because writers are serial: a stream over many jobs resumes by it.
CREATE TABLE benbi_events (
    position INTEGER PRIMARY KEY,
    job_n    INTEGER NOT NULL,
    seq      INTEGER NOT NULL,
    type     TEXT    NOT NULL,
    reason   TEXT,
    attempt  INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    data     TEXT
) STRICT;
CREATE UNIQUE INDEX benbi_events_job ON benbi_events (job_n, seq);

-- The newest progress of a job, between two events that tell it.
CREATE TABLE benbi_progress (
    job_n   INTEGER PRIMARY KEY,
    done    REAL    NOT NULL,
    total   REAL,
    message TEXT    NOT NULL,
    at      INTEGER NOT NULL
) STRICT;
CREATE INDEX benbi_progress_at ON benbi_progress (at);

-- use tells apart the uses of one name: '#1', '#2' … by order, or the key that the task gave.
CREATE TABLE benbi_steps (
    job_n       INTEGER NOT NULL,
    generation  INTEGER NOT NULL,
    kind        TEXT    NOT NULL,
    name        TEXT    NOT NULL,
    use         TEXT    NOT NULL,
    fingerprint BLOB    NOT NULL,
    state       TEXT    NOT NULL CHECK (state IN ('completed', 'failed')),
    tries       INTEGER NOT NULL,
    attempt     INTEGER NOT NULL,
    at          INTEGER NOT NULL,
    result      TEXT,
    error       TEXT,
    PRIMARY KEY (job_n, generation, kind, name, use),
    CHECK ((state = 'completed') = (result IS NOT NULL))
) STRICT;

CREATE TABLE benbi_questions (
    job_n           INTEGER NOT NULL,
    generation      INTEGER NOT NULL,
    key             TEXT    NOT NULL,
    fingerprint     BLOB    NOT NULL,
    prompt          TEXT    NOT NULL,
    schema          TEXT    NOT NULL,
    default_answer  TEXT,
    asked_at        INTEGER NOT NULL,
    deadline        INTEGER,
    answer          TEXT,
    answered_by     TEXT,
    answered_at     INTEGER,
    PRIMARY KEY (job_n, generation, key),
    CHECK ((answer IS NULL) = (answered_at IS NULL))
) STRICT;
CREATE INDEX benbi_questions_deadline ON benbi_questions (deadline)
    WHERE deadline IS NOT NULL AND answered_at IS NULL;

-- outcome is NULL until the edge was counted on the child's row.
CREATE TABLE benbi_edges (
    parent_n INTEGER NOT NULL,
    child_n  INTEGER NOT NULL,
    outcome  TEXT    CHECK (outcome IN ('ok', 'failed', 'skipped')),
    PRIMARY KEY (parent_n, child_n)
) STRICT, WITHOUT ROWID;
CREATE INDEX benbi_edges_child ON benbi_edges (child_n);

CREATE TABLE benbi_runs (
    n          INTEGER PRIMARY KEY AUTOINCREMENT,
    id         BLOB    NOT NULL UNIQUE CHECK (length(id) = 16),
    name       TEXT    NOT NULL,
    owner      TEXT    NOT NULL DEFAULT '',
    created_at INTEGER NOT NULL
) STRICT;

-- The truth about a limit is the rows of benbi_slots; a row of benbi_limits is only a lock.
CREATE TABLE benbi_limits (
    name TEXT NOT NULL,
    key  TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (name, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE benbi_slots (
    limit_name TEXT    NOT NULL,
    key        TEXT    NOT NULL DEFAULT '',
    job_n      INTEGER NOT NULL,
    PRIMARY KEY (limit_name, key, job_n)
) STRICT, WITHOUT ROWID;
CREATE INDEX benbi_slots_job ON benbi_slots (job_n);

-- beat_no is a counter and is never compared with a clock; beat_at is for people.
CREATE TABLE benbi_workers (
    n          INTEGER PRIMARY KEY AUTOINCREMENT,
    id         TEXT    NOT NULL UNIQUE,
    host       TEXT    NOT NULL,
    pid        INTEGER NOT NULL,
    slots      INTEGER NOT NULL,
    queues     TEXT    NOT NULL,
    tasks      TEXT    NOT NULL,
    version    TEXT    NOT NULL,
    started_at INTEGER NOT NULL,
    beat_no    INTEGER NOT NULL DEFAULT 0,
    beat_at    INTEGER NOT NULL,
    heartbeat_timeout INTEGER NOT NULL DEFAULT 0
) STRICT;

-- What workers can run, for doors that do not have the code.
CREATE TABLE benbi_catalogue (
    task             TEXT    PRIMARY KEY,
    queue            TEXT    NOT NULL,
    doc              TEXT    NOT NULL,
    arguments_schema TEXT    NOT NULL,
    result_schema    TEXT    NOT NULL,
    tool             TEXT,
    defaults         TEXT    NOT NULL,
    code_version     TEXT    NOT NULL,
    last_seen        INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
