-- Jobs that wait for other jobs. An edge (parent, child) is counted once, on the child's own row,
-- in the transaction in which the parent ends; a child moves by its own columns only, and only
-- out of waiting. Whoever adds an edge locks the parent first: either it has ended by then, or
-- whoever ends it finds the edge, because edges are looked for in a later statement.

-- name: enqueue_linked
-- As enqueue, for jobs of a run or with upstream jobs: with :upstream of them, it waits.
WITH made AS (
    INSERT INTO benbi.jobs (
        id, task, queue, owner, rank, state, waits_for, run_at, max_attempts, max_losses, timeout, grace, keep,
        created_at, expires_at, key, arguments_hash, trigger_rule, up_total, run_n, parent_n, last_seq)
    SELECT encode(one.id, 'hex')::uuid, :task, :queue, :owner, :rank,
           CASE WHEN :upstream > 0 THEN 'waiting'
                WHEN coalesce(:run_at::bigint, :now + coalesce(:delay::bigint, 0)) <= :now THEN 'pending' ELSE 'scheduled' END,
           CASE WHEN :upstream > 0 THEN 'upstream' END,
           coalesce(:run_at::bigint, :now + coalesce(:delay::bigint, 0)),
           :max_attempts, :max_losses, :timeout::bigint, :grace, :keep::bigint,
           :now, :now + :expires_in::bigint, :key, :arguments_hash::bytea, :when, :upstream, :run_n::bigint,
           :parent_n::bigint, 1
    FROM unnest(:ids::bytea[]) WITH ORDINALITY AS one (id, place)
    ORDER BY one.place
    ON CONFLICT DO NOTHING
    RETURNING n, id),
given AS (
    INSERT INTO benbi.arguments (n, body)
    SELECT made.n, one.body::json FROM made
    JOIN unnest(:ids::bytea[], :arguments::text[]) AS one (id, body) ON made.id = encode(one.id, 'hex')::uuid
    WHERE one.body <> '{}'),
told AS (
    INSERT INTO benbi.events (job_n, seq, type, reason, attempt, at, data)
    SELECT n, 1, 'created', NULL, 0, :now, NULL FROM made ORDER BY n)
SELECT n, id FROM made;

-- name: upstream_job
SELECT n, owner, finished_at IS NOT NULL FROM benbi.jobs WHERE id = encode(:id, 'hex')::uuid FOR SHARE;

-- name: upstream_job_unlocked
-- In a caller's transaction, which may last: no parent is kept from ending. If it ends meanwhile, the
-- net finds the child (adrift).
SELECT n, owner, finished_at IS NOT NULL FROM benbi.jobs WHERE id = encode(:id, 'hex')::uuid;

-- name: edge
INSERT INTO benbi.edges (parent_n, child_n)
SELECT parent, child FROM unnest(:parent::bigint[], :child::bigint[]) AS tied (parent, child)
ON CONFLICT DO NOTHING;

-- name: run
INSERT INTO benbi.runs (id, name, owner, created_at) VALUES (encode(:id, 'hex')::uuid, :name, :owner, :now)
ON CONFLICT DO NOTHING;

-- name: join_run
-- Whoever adds a job to a run holds it until the job can be seen.
SELECT n FROM benbi.runs WHERE id = encode(:id, 'hex')::uuid FOR KEY SHARE;

-- name: run_of_id
SELECT n, owner FROM benbi.runs WHERE id = encode(:id, 'hex')::uuid;

-- name: run_of_job
SELECT r.id, r.name FROM benbi.jobs AS j LEFT JOIN benbi.runs AS r ON r.n = j.run_n
WHERE j.n = :n;

-- name: edges_between
SELECT 1 FROM benbi.edges WHERE parent_n BETWEEN :first AND :last LIMIT 1;

-- name: count_edges
-- What ended is looked up again, under a lock: a job that was retried meanwhile counts for nothing.
-- Who waited here for another that counts the same edge finds it counted.
WITH picked AS (
    SELECT e.parent_n, e.child_n, p.state
    FROM benbi.edges AS e JOIN benbi.jobs AS p ON p.n = e.parent_n
    WHERE e.parent_n = ANY (translate(:ns, '[]', '{}')::bigint[])
      AND e.outcome IS NULL AND p.finished_at IS NOT NULL
    ORDER BY e.parent_n, e.child_n
    LIMIT :most
    FOR SHARE OF p FOR UPDATE OF e)
UPDATE benbi.edges AS e
SET outcome = CASE picked.state WHEN 'completed' THEN 'ok' WHEN 'skipped' THEN 'skipped' ELSE 'failed' END
FROM picked
WHERE e.parent_n = picked.parent_n AND e.child_n = picked.child_n
RETURNING e.child_n, e.outcome;

-- name: counted
-- Children in the order of n: locks are taken in that order everywhere.
UPDATE benbi.jobs SET up_ok = up_ok + :ok, up_failed = up_failed + :failed, up_skipped = up_skipped + :skipped
WHERE n = :n
RETURNING n, trigger_rule, up_total, up_ok, up_failed, up_skipped,
          state = 'waiting' AND waits_for = 'upstream';

-- name: standing_upstream
SELECT n, trigger_rule, up_total, up_ok, up_failed, up_skipped,
       coalesce(state = 'waiting' AND waits_for = 'upstream', false)
FROM benbi.jobs WHERE n = ANY (translate(:ns, '[]', '{}')::bigint[])
ORDER BY n FOR UPDATE;

-- name: settle
-- A child moves only out of waiting: a rule that was fulfilled early does not fire again.
UPDATE benbi.jobs
SET state = CASE WHEN :state::text <> 'pending' THEN :state::text WHEN run_at <= :now THEN 'pending' ELSE 'scheduled' END,
    reason = :reason, waits_for = NULL,
    finished_at = CASE WHEN :state::text = 'pending' THEN NULL ELSE :now END,
    last_seq = last_seq + 1
WHERE n = ANY (translate(:ns, '[]', '{}')::bigint[]) AND (state || '') = 'waiting' AND waits_for = 'upstream'
RETURNING n, last_seq, attempt;

-- name: failed_upstream
-- Why a job fails that waited: the first of its upstream jobs that did, or that one's own root.
SELECT c.n, p.id, p.task, p.state, p.reason,
       (SELECT r.error::text FROM benbi.results AS r WHERE r.n = p.n AND p.reason = 'upstream_failed')
FROM unnest(translate(:ns, '[]', '{}')::bigint[]) AS c (n) JOIN benbi.jobs AS p ON p.n = (
    SELECT min(e.parent_n) FROM benbi.edges AS e WHERE e.child_n = c.n AND e.outcome = 'failed');

-- name: leave_unsettled
INSERT INTO benbi.unsettled (n)
SELECT DISTINCT e.parent_n FROM benbi.edges AS e
WHERE e.parent_n = ANY (translate(:ns, '[]', '{}')::bigint[]) AND e.outcome IS NULL
ON CONFLICT DO NOTHING;

-- name: unsettled
SELECT n FROM benbi.unsettled ORDER BY n LIMIT :most;

-- name: take_unsettled
DELETE FROM benbi.unsettled WHERE n = ANY (:n::bigint[]);

-- name: await
-- A running job waits for others: whatever it waited for before has let it run, and is forgotten.
-- As finish: a cancel that arrived meanwhile wins.
UPDATE benbi.jobs
SET state = CASE WHEN cancel_requested_at IS NULL THEN 'waiting' ELSE 'canceled' END,
    reason = CASE WHEN cancel_requested_at IS NULL THEN :reason ELSE 'requested' END,
    waits_for = CASE WHEN cancel_requested_at IS NULL THEN 'upstream' END,
    finished_at = CASE WHEN cancel_requested_at IS NULL THEN NULL ELSE :now END,
    trigger_rule = 'all_done', up_total = 0, up_ok = 0, up_failed = 0, up_skipped = 0,
    worker_n = NULL, deadline_at = NULL,
    last_write = :write_no, last_seq = last_seq + :events
WHERE n = ANY (translate(:ns, '[]', '{}')::bigint[]) AND token = :token AND (state || '') = 'running' AND last_write < :write_no
RETURNING n, state, reason, last_seq;

-- name: forget_upstream
DELETE FROM benbi.edges WHERE child_n = :n;

-- name: await_total
UPDATE benbi.jobs SET up_total = :total WHERE n = :n;

-- name: counted_edges
-- A retry by hand: what its job counted for is open again for children that still wait, and for
-- those that failed with it. A child that ran has had its answer.
SELECT e.parent_n, e.child_n, e.outcome
FROM benbi.edges AS e JOIN benbi.jobs AS c ON c.n = e.child_n
WHERE e.parent_n = ANY (translate(:ns, '[]', '{}')::bigint[]) AND e.outcome IS NOT NULL
  AND (c.state = 'waiting' AND c.waits_for = 'upstream'
       OR c.state = 'failed' AND c.reason = 'upstream_failed')
ORDER BY c.n
FOR UPDATE OF c;

-- name: uncount_edge
UPDATE benbi.edges AS e SET outcome = NULL
FROM unnest(:parent::bigint[], :child::bigint[]) AS tied (parent, child)
WHERE e.parent_n = tied.parent AND e.child_n = tied.child;

-- name: wait_again
UPDATE benbi.jobs
SET state = 'waiting', waits_for = 'upstream', reason = 'by_hand', finished_at = NULL, cancel_requested_at = NULL,
    token = NULL, expires_at = NULL, last_seq = last_seq + 1
WHERE n = ANY (translate(:ns, '[]', '{}')::bigint[]) AND state = 'failed' AND reason = 'upstream_failed'
RETURNING n, last_seq, attempt;

-- name: adrift
-- The net, in bounded stretches: a job that waits although all that it waits for has ended. It takes
-- a fault to make one.
SELECT n, coalesce(state = 'waiting' AND waits_for = 'upstream', false)
          AND NOT EXISTS (SELECT 1 FROM benbi.edges AS e JOIN benbi.jobs AS p ON p.n = e.parent_n
                          WHERE e.child_n = j.n AND p.finished_at IS NULL)
FROM benbi.jobs AS j WHERE n > :after ORDER BY n LIMIT :most;

-- name: open_parents
SELECT e.parent_n FROM benbi.edges AS e
WHERE e.child_n = ANY (translate(:ns, '[]', '{}')::bigint[]) AND e.outcome IS NULL;

-- name: run_record
SELECT name, owner, created_at FROM benbi.runs WHERE n = :run;

-- name: run_states
SELECT state, count(*) FROM benbi.jobs WHERE run_n = :run AND run_n IS NOT NULL GROUP BY state;

-- name: jobs_of_run
SELECT id FROM benbi.jobs
WHERE run_n = :run AND run_n IS NOT NULL
  AND n > coalesce((SELECT n FROM benbi.jobs WHERE id = encode(:after, 'hex')::uuid), 0)
ORDER BY n LIMIT :most;

-- name: live_of_run
SELECT n FROM benbi.jobs
WHERE run_n = :run AND run_n IS NOT NULL AND n > :after AND finished_at IS NULL
ORDER BY n LIMIT 1;

-- name: jobs_to_cancel
-- The newest first: a job is canceled before those that it waits for, and so does not fail with them.
SELECT n FROM benbi.jobs
WHERE run_n = :run AND run_n IS NOT NULL AND n < :before AND finished_at IS NULL AND cancel_requested_at IS NULL
ORDER BY n DESC LIMIT :most;

-- name: runs_of
-- (job, its run), and NULL for a run that somebody holds: nobody waits for it here. Of two that remove
-- the last two jobs of a run, each would see the other's, and leave the run behind.
WITH found AS (SELECT j.n, r.n AS run_n FROM benbi.jobs AS j JOIN benbi.runs AS r ON r.n = j.run_n
               WHERE j.n = ANY (translate(:ns, '[]', '{}')::bigint[])),
held AS (SELECT n FROM benbi.runs WHERE n = ANY (ARRAY(SELECT run_n FROM found)) ORDER BY n FOR UPDATE SKIP LOCKED)
SELECT found.n, held.n FROM found LEFT JOIN held ON held.n = found.run_n;

-- name: prune_run
-- A run is kept as long as one of its jobs.
DELETE FROM benbi.runs AS r WHERE r.n = ANY (:run::bigint[])
  AND NOT EXISTS (SELECT 1 FROM benbi.jobs AS j WHERE j.run_n = r.n);

-- name: prune_unsettled
DELETE FROM benbi.unsettled WHERE n = ANY (:n::bigint[]);
