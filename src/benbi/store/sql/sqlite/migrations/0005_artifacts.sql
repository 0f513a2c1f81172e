-- needs_code: 1
-- What jobs save, and what they log. The content of an artifact is a file of its own.

-- file is where it is stored: a name that the store chose, never one that a task gave.
CREATE TABLE benbi_artifacts (
    job_n   INTEGER NOT NULL,
    name    TEXT    NOT NULL,
    attempt INTEGER NOT NULL,
    size    INTEGER NOT NULL CHECK (size >= 0),
    sha256  TEXT    NOT NULL CHECK (length(sha256) = 64),
    file    TEXT    NOT NULL UNIQUE,
    at      INTEGER NOT NULL,
    PRIMARY KEY (job_n, name)
) STRICT, WITHOUT ROWID;

-- Each file's name begins with it: of a folder that several databases share, each cleans its own.
CREATE TABLE benbi_artifact_prefix (prefix TEXT NOT NULL PRIMARY KEY) STRICT, WITHOUT ROWID;
INSERT INTO benbi_artifact_prefix (prefix) VALUES (lower(hex(randomblob(8))));

-- The last lines of an attempt, in pieces; body is one JSON array a line.
CREATE TABLE benbi_logs (
    job_n   INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    piece   INTEGER NOT NULL,
    body    TEXT    NOT NULL,
    PRIMARY KEY (job_n, attempt, piece)
) STRICT, WITHOUT ROWID;
