-- What is read: by doors, handles and idle workers. Nothing here changes a row.

-- name: find
SELECT n, owner, state FROM benbi.jobs WHERE id = encode(:id, 'hex')::uuid;

-- name: job
SELECT n, id, task, queue, owner, state, reason, rank, attempt, failures, max_attempts, losses, max_losses,
       generation, last_seq, key, cancel_requested_at, created_at, run_at, started_at, finished_at,
       keep,
       (SELECT json_build_array(done, total, message) FROM benbi.progress AS p WHERE p.job_n = j.n),
       (SELECT error FROM benbi.results AS r WHERE r.n = j.n),
       (SELECT data FROM benbi.events AS e WHERE e.job_n = j.n AND j.state = 'retrying' AND e.type = 'retrying'
        ORDER BY e.seq DESC LIMIT 1)
FROM benbi.jobs AS j WHERE j.id = encode(:id, 'hex')::uuid;

-- name: jobs
SELECT n, id, task, queue, owner, state, reason, rank, attempt, failures, max_attempts, losses, max_losses,
       generation, last_seq, key, cancel_requested_at, created_at, run_at, started_at, finished_at,
       keep,
       (SELECT json_build_array(done, total, message) FROM benbi.progress AS p WHERE p.job_n = j.n),
       (SELECT error FROM benbi.results AS r WHERE r.n = j.n),
       NULL
FROM benbi.jobs AS j
WHERE (:owner::text IS NULL OR owner = :owner)
  AND (:state::text IS NULL OR state = :state)
  AND (:task::text IS NULL OR task = :task)
  AND (:queue::text IS NULL OR queue = :queue)
  AND (:before::bytea IS NULL OR n < (SELECT n FROM benbi.jobs WHERE id = encode(:before, 'hex')::uuid))
ORDER BY n DESC LIMIT :most;

-- name: jobs_of_owner
-- As jobs, by the index on (owner, n): an owner with few jobs must not cost a walk over all.
SELECT n, id, task, queue, owner, state, reason, rank, attempt, failures, max_attempts, losses, max_losses,
       generation, last_seq, key, cancel_requested_at, created_at, run_at, started_at, finished_at,
       keep,
       (SELECT json_build_array(done, total, message) FROM benbi.progress AS p WHERE p.job_n = j.n),
       (SELECT error FROM benbi.results AS r WHERE r.n = j.n),
       NULL
FROM benbi.jobs AS j
WHERE owner = :owner AND owner <> ''
  AND (:state::text IS NULL OR state = :state)
  AND (:task::text IS NULL OR task = :task)
  AND (:queue::text IS NULL OR queue = :queue)
  AND (:before::bytea IS NULL OR n < (SELECT n FROM benbi.jobs WHERE id = encode(:before, 'hex')::uuid))
ORDER BY n DESC LIMIT :most;

-- name: open_questions_of
SELECT key, prompt, schema, deadline FROM benbi.questions
WHERE job_n = :n AND generation = :generation AND answered_at IS NULL ORDER BY place;

-- name: upstream_of
SELECT p.id FROM benbi.edges AS e JOIN benbi.jobs AS p ON p.n = e.parent_n
WHERE e.child_n = :n AND e.outcome IS NULL ORDER BY p.n;

-- name: arguments_of
SELECT body FROM benbi.arguments WHERE n = :n;

-- name: result_of
SELECT body FROM benbi.results WHERE n = :n;

-- name: logs_of
-- Of one attempt; NULL: of the newest that logged anything.
SELECT attempt, body FROM benbi.logs
WHERE job_n = :n AND attempt = coalesce(:attempt, (SELECT max(attempt) FROM benbi.logs WHERE job_n = :n))
ORDER BY piece;

-- name: logged_since
SELECT attempt, body FROM benbi.logs WHERE job_n = :n AND attempt >= :attempt ORDER BY attempt, piece;

-- name: artifacts_of
SELECT name, size, sha256, file FROM benbi.artifacts WHERE job_n = :n ORDER BY at, name COLLATE "C";

-- name: artifact_prefix
SELECT prefix FROM benbi.artifact_prefix;

-- name: recorded_files
-- A row that outlived its job (older code pruned it) keeps no file.
SELECT a.file FROM benbi.artifacts AS a JOIN benbi.jobs AS j ON j.n = a.job_n
WHERE a.file IN (SELECT json_array_elements_text(:files::json));

-- name: events_of
SELECT seq, type, reason, attempt, at, data FROM benbi.events
WHERE job_n = :n AND seq > :after ORDER BY seq LIMIT :most;

-- name: newest_position
-- The last event that no open transaction can still put another before.
SELECT coalesce((SELECT position FROM benbi.events WHERE xid < pg_snapshot_xmin(pg_current_snapshot())
                 ORDER BY xid DESC, position DESC LIMIT 1), 0);

-- name: newest_change
-- Differs: where a process begins to look for jobs that have news. See changed_since.
SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint;

-- name: newest_progress
SELECT coalesce(max(at), 0) FROM benbi.progress;

-- name: events_since
-- In the order of (xid, position), which within a job is that of seq, and only of transactions before
-- which none is open: exactly once, never one that commits late is skipped. Of a cursor whose event
-- was removed, its neighbour counts.
SELECT e.position, j.id, e.seq, e.type, e.reason, e.attempt, e.at, e.data, j.owner
FROM benbi.events AS e JOIN benbi.jobs AS j ON j.n = e.job_n
WHERE (e.xid, e.position) > (coalesce((SELECT c.xid FROM benbi.events AS c WHERE c.position <= :cursor
                                       ORDER BY c.position DESC LIMIT 1), '0'::xid8), :cursor)
  AND e.xid < pg_snapshot_xmin(pg_current_snapshot())
  AND (:owner::text IS NULL OR j.owner = :owner)
ORDER BY e.xid, e.position LIMIT :most;

-- name: changed_since
-- Which jobs have news: the tail of a process wakes just the readers of these. Differs: it is read
-- again from the oldest transaction that is open, so that news wait for nobody else's commit.
SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint, e.job_n FROM benbi.events AS e
WHERE e.xid >= :cursor::text::xid8 GROUP BY e.job_n;

-- name: progressed_since
SELECT at, job_n FROM benbi.progress WHERE at > :at ORDER BY at LIMIT :most;

-- name: look
-- The worker's look: is anything claimable, was one of its jobs canceled, when is the next due?
-- By the conditions of candidates: what it sees and can not claim would keep a worker busy.
SELECT EXISTS (SELECT 1 FROM json_array_elements_text(:queues::json) AS listened (queue)
               WHERE NOT EXISTS (SELECT 1 FROM benbi.queues AS q WHERE q.name = listened.queue)
                 AND EXISTS (SELECT 1 FROM benbi.jobs AS j
                             WHERE j.state = 'pending' AND j.queue = listened.queue
                               AND j.task = ANY (ARRAY(SELECT json_array_elements_text(:tasks::json)))
                               AND (j.losses = 0 OR :fragile::bigint <> 0))),
       EXISTS (SELECT 1 FROM benbi.jobs
               WHERE state = 'running' AND worker_n = :worker AND cancel_requested_at IS NOT NULL),
       (SELECT min(run_at) FROM benbi.jobs WHERE state IN ('scheduled', 'retrying'));

-- name: next_due
SELECT min(run_at) FROM benbi.jobs WHERE state IN ('scheduled', 'retrying');

-- name: next_change
-- When something next happens by itself: a test moves its clock from one such moment to the next.
SELECT min(at) FROM (
    SELECT min(run_at) AS at FROM benbi.jobs WHERE state IN ('scheduled', 'retrying') AND run_at > :now
    UNION ALL
    SELECT min(expires_at) FROM benbi.jobs
    WHERE expires_at > :now AND state IN ('waiting', 'scheduled', 'pending', 'input_required')
    UNION ALL
    SELECT min(q.deadline) FROM benbi.questions AS q JOIN benbi.jobs AS j ON j.n = q.job_n
    WHERE q.deadline > :now AND q.answered_at IS NULL AND j.state = 'input_required' AND j.generation = q.generation
) AS moments;

-- name: neglected
-- Has anything outlived its time? Upkeep writes only where this says so.
SELECT EXISTS (SELECT 1 FROM benbi.jobs WHERE state = 'running' AND worker_n IS NOT NULL
               AND (cancel_requested_at + grace <= :now OR deadline_at + grace <= :now)),
       EXISTS (SELECT 1 FROM benbi.jobs
               WHERE expires_at IS NOT NULL AND state IN ('waiting', 'scheduled', 'pending', 'input_required')
                 AND expires_at <= :now)
       OR EXISTS (SELECT 1 FROM benbi.questions AS q JOIN benbi.jobs AS j ON j.n = q.job_n
                  WHERE q.deadline IS NOT NULL AND q.answered_at IS NULL AND q.deadline <= :now
                    AND j.state = 'input_required' AND j.generation = q.generation);

-- name: catalogue
SELECT task, queue, doc, arguments_schema, result_schema, tool, defaults, code_version, last_seen
FROM benbi.catalogue ORDER BY task COLLATE "C";
