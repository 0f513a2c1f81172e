-- What only a server has: how a transaction of ours begins, and hints between processes.

-- name: begin_write
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;

-- name: limits_write
-- Local to the transaction: a pooler hands the connection on. Each in milliseconds.
-- benbi.now is its time, by this server's clock: that of another host decides nothing.
-- Every move goes by an index: a plan that was made while a table was small would read all of it
-- ever after.
SELECT set_config('benbi.now', coalesce(:given, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint::text), true),
       set_config('statement_timeout', :patience, true), set_config('lock_timeout', :lock, true),
       set_config('idle_in_transaction_session_timeout', '30000', true),
       set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true),
       set_config('synchronous_commit', :commits, true);

-- name: begin_read
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;

-- name: limits_read
SELECT set_config('benbi.now', coalesce(:given, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint::text), true),
       set_config('statement_timeout', :patience, true), set_config('lock_timeout', :lock, true),
       set_config('idle_in_transaction_session_timeout', '30000', true);

-- name: commit
COMMIT;
-- name: rollback
ROLLBACK;

-- name: begun
-- The first statement in a caller's transaction: its time, and where it is.
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, current_database(),
       to_regclass('benbi.jobs') IS NOT NULL;

-- name: reached
-- Which process of the server answers: behind a pooler it is not the one that was greeted.
SELECT pg_backend_pid(), current_setting('fsync'), current_database(),
       (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;

-- name: standby
SELECT pg_is_in_recovery();

-- name: listen
LISTEN benbi;

-- name: notify
-- A hint that a crash of the server loses is no loss: nobody waits for the disk.
SELECT set_config('synchronous_commit', 'off', true), pg_notify('benbi', :mark);
