-- Which migrations were applied. needs_code: code older than this must not touch the database.

-- name: migration_lock
-- Ten workers that start at once migrate once.
SELECT pg_advisory_xact_lock(hashtext('benbi migrations'), hashtext('benbi'));

-- name: create_schema
-- Not IF NOT EXISTS: that asks for the right to create schemas even where it is there.
DO $$ BEGIN IF to_regnamespace('benbi') IS NULL THEN CREATE SCHEMA benbi; END IF; END $$;

-- name: create_migrations
CREATE TABLE IF NOT EXISTS benbi.migrations (
    version    bigint PRIMARY KEY,
    name       text   NOT NULL,
    needs_code bigint NOT NULL,
    applied_at bigint NOT NULL
);

-- name: tables
SELECT 'benbi_' || tablename FROM pg_tables WHERE schemaname = 'benbi' ORDER BY tablename;

-- name: applied
SELECT version, name, needs_code FROM benbi.migrations ORDER BY version;

-- name: record_migration
INSERT INTO benbi.migrations (version, name, needs_code, applied_at) VALUES (:version, :name, :needs_code, :now);
