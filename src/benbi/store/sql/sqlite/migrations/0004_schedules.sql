-- needs_code: 1
-- Recurring tasks. A schedule is one row; all that a tick needs to become a job stands in it.

CREATE TABLE benbi_schedules (
    name          TEXT    PRIMARY KEY,
    spec          TEXT    NOT NULL,
    timezone      TEXT    NOT NULL,
    catchup       TEXT    NOT NULL,
    task          TEXT    NOT NULL,
    job           TEXT    NOT NULL,
    -- Counts the definitions that this name has had: a process that holds another one is silent.
    version       INTEGER NOT NULL DEFAULT 1,
    registered_by TEXT    NOT NULL,
    registered_at INTEGER NOT NULL,
    -- When a process that holds this definition last said so.
    seen_at       INTEGER NOT NULL,
    paused_at     INTEGER,
    -- The newest tick that is decided, whether a job was made of it or not.
    last_tick     INTEGER NOT NULL,
    fired_at      INTEGER,
    last_job      BLOB
) STRICT, WITHOUT ROWID;

-- The tick that a job was made for. Set after the insert: other jobs do not pay for it.
ALTER TABLE benbi_jobs ADD COLUMN scheduled_for INTEGER;
