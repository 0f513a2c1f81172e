-- What only a server has: how a transaction of ours begins, and hints between processes.

-- name: begin_write_full
-- The limits are LOCAL: a pooler hands the connection on. Each in milliseconds.
-- Every move goes by an index: a plan that was made while a table was small would read all of it
-- ever after. The last statement tells the time, so that the clock of this host decides nothing.
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
SET LOCAL statement_timeout = 15000; SET LOCAL lock_timeout = 5000;
SET LOCAL idle_in_transaction_session_timeout = 30000;
SET LOCAL enable_seqscan = off; SET LOCAL jit = off;
SET LOCAL synchronous_commit = on;
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;

-- name: begin_write_normal
-- As above; the last commits may be lost when the server dies.
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
SET LOCAL statement_timeout = 15000; SET LOCAL lock_timeout = 5000;
SET LOCAL idle_in_transaction_session_timeout = 30000;
SET LOCAL enable_seqscan = off; SET LOCAL jit = off;
SET LOCAL synchronous_commit = off;
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;

-- name: begin_read
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
SET LOCAL statement_timeout = 15000; SET LOCAL lock_timeout = 5000;
SET LOCAL idle_in_transaction_session_timeout = 30000;
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;

-- name: now
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;

-- name: standby
SELECT pg_is_in_recovery();

-- name: listen
LISTEN benbi;

-- name: notify
SELECT pg_notify('benbi', :mark);
