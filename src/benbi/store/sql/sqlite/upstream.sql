-- Jobs that wait for other jobs. An edge (parent, child) is counted once, on the child's own row,
-- in the transaction in which the parent ends; a child moves by its own columns only, and only
-- out of waiting.

-- name: enqueue_linked
-- As enqueue, for jobs of a run or with upstream jobs: with :upstream of them, it waits.
INSERT INTO benbi_jobs (
    id, task, queue, owner, rank, state, waits_for, run_at, max_attempts, max_losses, timeout, grace, keep,
    created_at, expires_at, key, arguments_hash, trigger_rule, up_total, run_n, parent_n, last_seq)
SELECT substr(:ids, 1 + 16 * place.value, 16), :task, :queue, :owner, :rank,
       CASE WHEN :upstream > 0 THEN 'waiting'
            WHEN coalesce(:run_at, :now + coalesce(:delay, 0)) <= :now THEN 'pending' ELSE 'scheduled' END,
       CASE WHEN :upstream > 0 THEN 'upstream' END,
       coalesce(:run_at, :now + coalesce(:delay, 0)),
       :max_attempts, :max_losses, :timeout, :grace, :keep,
       :now, :now + :expires_in, :key, :arguments_hash, :when, :upstream, :run_n, :parent_n, 1
FROM json_each(:places) AS place
WHERE true
ON CONFLICT DO NOTHING;

-- name: upstream_job
SELECT n, owner, finished_at IS NOT NULL FROM benbi_jobs WHERE id = :id;

-- name: edge
INSERT INTO benbi_edges (parent_n, child_n) VALUES (:parent, :child) ON CONFLICT DO NOTHING;

-- name: run
INSERT INTO benbi_runs (id, name, owner, created_at) VALUES (:id, :name, :owner, :now) ON CONFLICT DO NOTHING;

-- name: join_run
-- Differs: writers come one after the other.
SELECT n FROM benbi_runs WHERE id = :id;

-- name: run_of_id
SELECT n, owner FROM benbi_runs WHERE id = :id;

-- name: run_of_job
SELECT r.id, r.name FROM benbi_jobs AS j LEFT JOIN benbi_runs AS r ON r.n = j.run_n
WHERE j.n = :n;

-- name: edges_between
-- The one look that the end of jobs without children costs, a microsecond for a whole batch.
SELECT 1 FROM benbi_edges WHERE parent_n BETWEEN :first AND :last LIMIT 1;

-- name: count_edges
-- What ended is looked up again: a job that was retried meanwhile counts for nothing.
UPDATE benbi_edges
SET outcome = (SELECT CASE p.state WHEN 'completed' THEN 'ok' WHEN 'skipped' THEN 'skipped' ELSE 'failed' END
               FROM benbi_jobs AS p WHERE p.n = benbi_edges.parent_n)
WHERE (parent_n, child_n) IN (
    SELECT e.parent_n, e.child_n
    FROM json_each(:ns) AS ended CROSS JOIN benbi_edges AS e ON e.parent_n = ended.value
         CROSS JOIN benbi_jobs AS p ON p.n = e.parent_n
    WHERE e.outcome IS NULL AND p.finished_at IS NOT NULL
    LIMIT :most)
RETURNING child_n, outcome;

-- name: counted
-- Children in the order of n: locks are taken in that order everywhere.
UPDATE benbi_jobs SET up_ok = up_ok + :ok, up_failed = up_failed + :failed, up_skipped = up_skipped + :skipped
WHERE n = :n
RETURNING n, trigger_rule, up_total, up_ok, up_failed, up_skipped,
          state = 'waiting' AND waits_for = 'upstream';

-- name: standing_upstream
SELECT n, trigger_rule, up_total, up_ok, up_failed, up_skipped, state = 'waiting' AND waits_for = 'upstream'
FROM benbi_jobs WHERE n IN (SELECT value FROM json_each(:ns));

-- name: settle
-- A child moves only out of waiting: a rule that was fulfilled early does not fire again.
UPDATE benbi_jobs
SET state = CASE WHEN :state <> 'pending' THEN :state WHEN run_at <= :now THEN 'pending' ELSE 'scheduled' END,
    reason = :reason, waits_for = NULL,
    finished_at = CASE WHEN :state = 'pending' THEN NULL ELSE :now END,
    last_seq = last_seq + 1
WHERE n IN (SELECT value FROM json_each(:ns)) AND state = 'waiting' AND waits_for = 'upstream'
RETURNING n, last_seq, attempt;

-- name: failed_upstream
-- Why a job fails that waited: the first of its upstream jobs that did, or that one's own root.
SELECT c.value, p.id, p.task, p.state, p.reason,
       (SELECT r.error FROM benbi_results AS r WHERE r.n = p.n AND p.reason = 'upstream_failed')
FROM json_each(:ns) AS c JOIN benbi_jobs AS p ON p.n = (
    SELECT min(e.parent_n) FROM benbi_edges AS e WHERE e.child_n = c.value AND e.outcome = 'failed');

-- name: leave_unsettled
INSERT INTO benbi_unsettled (n)
SELECT DISTINCT e.parent_n FROM json_each(:ns) AS ended CROSS JOIN benbi_edges AS e ON e.parent_n = ended.value
WHERE e.outcome IS NULL
ON CONFLICT DO NOTHING;

-- name: unsettled
SELECT n FROM benbi_unsettled ORDER BY n LIMIT :most;

-- name: take_unsettled
DELETE FROM benbi_unsettled WHERE n = :n;

-- name: await
-- A running job waits for others: whatever it waited for before has let it run, and is forgotten.
-- As finish: a cancel that arrived meanwhile wins.
UPDATE benbi_jobs
SET state = CASE WHEN cancel_requested_at IS NULL THEN 'waiting' ELSE 'canceled' END,
    reason = CASE WHEN cancel_requested_at IS NULL THEN :reason ELSE 'requested' END,
    waits_for = CASE WHEN cancel_requested_at IS NULL THEN 'upstream' END,
    finished_at = CASE WHEN cancel_requested_at IS NULL THEN NULL ELSE :now END,
    trigger_rule = 'all_done', up_total = 0, up_ok = 0, up_failed = 0, up_skipped = 0,
    worker_n = NULL, deadline_at = NULL,
    last_write = :write_no, last_seq = last_seq + :events
WHERE n IN (SELECT value FROM json_each(:ns)) AND token = :token AND state = 'running' AND last_write < :write_no
RETURNING n, state, reason, last_seq;

-- name: forget_upstream
DELETE FROM benbi_edges WHERE child_n = :n;

-- name: await_total
UPDATE benbi_jobs SET up_total = :total WHERE n = :n;

-- name: counted_edges
-- A retry by hand: what its job counted for is open again for children that still wait, and for
-- those that failed with it. A child that ran has had its answer.
SELECT e.parent_n, e.child_n, e.outcome
FROM json_each(:ns) AS retried CROSS JOIN benbi_edges AS e ON e.parent_n = retried.value
     CROSS JOIN benbi_jobs AS c ON c.n = e.child_n
WHERE e.outcome IS NOT NULL
  AND (c.state = 'waiting' AND c.waits_for = 'upstream'
       OR c.state = 'failed' AND c.reason = 'upstream_failed');

-- name: uncount_edge
UPDATE benbi_edges SET outcome = NULL WHERE parent_n = :parent AND child_n = :child;

-- name: wait_again
UPDATE benbi_jobs
SET state = 'waiting', waits_for = 'upstream', reason = 'by_hand', finished_at = NULL, cancel_requested_at = NULL,
    token = NULL, expires_at = NULL, last_seq = last_seq + 1
WHERE n IN (SELECT value FROM json_each(:ns)) AND state = 'failed' AND reason = 'upstream_failed'
RETURNING n, last_seq, attempt;

-- name: adrift
-- The net, in bounded stretches: a job that waits although all that it waits for has ended. It takes
-- a fault to make one.
SELECT n, state = 'waiting' AND waits_for = 'upstream'
          AND NOT EXISTS (SELECT 1 FROM benbi_edges AS e JOIN benbi_jobs AS p ON p.n = e.parent_n
                          WHERE e.child_n = benbi_jobs.n AND p.finished_at IS NULL)
FROM benbi_jobs WHERE n > :after ORDER BY n LIMIT :most;

-- name: open_parents
SELECT e.parent_n FROM json_each(:ns) AS c JOIN benbi_edges AS e ON e.child_n = c.value
WHERE e.outcome IS NULL;

-- name: run_record
SELECT name, owner, created_at FROM benbi_runs WHERE n = :run;

-- name: run_states
SELECT state, count(*) FROM benbi_jobs WHERE run_n = :run AND run_n IS NOT NULL GROUP BY state;

-- name: jobs_of_run
SELECT id FROM benbi_jobs
WHERE run_n = :run AND run_n IS NOT NULL
  AND n > coalesce((SELECT n FROM benbi_jobs WHERE id = :after), 0)
ORDER BY n LIMIT :most;

-- name: live_of_run
SELECT n FROM benbi_jobs
WHERE run_n = :run AND run_n IS NOT NULL AND n > :after AND finished_at IS NULL
ORDER BY n LIMIT 1;

-- name: jobs_to_cancel
-- The newest first: a job is canceled before those that it waits for, and so does not fail with them.
SELECT n FROM benbi_jobs
WHERE run_n = :run AND run_n IS NOT NULL AND n < :before AND finished_at IS NULL AND cancel_requested_at IS NULL
ORDER BY n DESC LIMIT :most;

-- name: runs_of
-- (job, its run). Differs: nobody else holds a run.
SELECT j.n, r.n FROM benbi_jobs AS j JOIN benbi_runs AS r ON r.n = j.run_n
WHERE j.n IN (SELECT value FROM json_each(:ns)) AND run_n IS NOT NULL;

-- name: prune_run
-- A run is kept as long as one of its jobs.
DELETE FROM benbi_runs WHERE n = :run AND NOT EXISTS (SELECT 1 FROM benbi_jobs AS j WHERE j.run_n = :run);

-- name: prune_unsettled
DELETE FROM benbi_unsettled WHERE n = :n;
