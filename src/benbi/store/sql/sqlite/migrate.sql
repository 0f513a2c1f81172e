-- Which migrations were applied. needs_code: code older than this must not touch the database.

-- name: migration_lock
-- Writers are serial.
SELECT 1;

-- name: create_schema
-- A file is one.
SELECT 1;

-- name: create_migrations
CREATE TABLE IF NOT EXISTS benbi_migrations (
    version    INTEGER PRIMARY KEY,
    name       TEXT    NOT NULL,
    needs_code INTEGER NOT NULL,
    applied_at INTEGER NOT NULL
);

-- name: tables
SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'benbi~_%' ESCAPE '~' ORDER BY name;

-- name: applied
SELECT version, name, needs_code FROM benbi_migrations ORDER BY version;

-- name: record_migration
INSERT INTO benbi_migrations (version, name, needs_code, applied_at) VALUES (:version, :name, :needs_code, :now);
