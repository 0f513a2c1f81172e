-- needs_code: 1
-- One row for each paused queue: nothing is claimed from it. What runs goes on.
CREATE TABLE benbi_queues (
    name      TEXT    PRIMARY KEY,
    paused_at INTEGER NOT NULL,
    paused_by TEXT    NOT NULL
) STRICT, WITHOUT ROWID;
