-- What is read: by doors, handles and idle workers. Nothing here changes a row.

-- name: find
SELECT n, owner, state FROM benbi_jobs WHERE id = :id;

-- name: job
SELECT n, id, task, queue, owner, state, reason, rank, attempt, failures, max_attempts, losses, max_losses,
       generation, last_seq, key, cancel_requested_at, created_at, run_at, started_at, finished_at,
       keep,
       (SELECT json_array(done, total, message) FROM benbi_progress AS p WHERE p.job_n = j.n),
       (SELECT error FROM benbi_results AS r WHERE r.n = j.n),
       (SELECT data FROM benbi_events AS e WHERE e.job_n = j.n AND j.state = 'retrying' AND e.type = 'retrying'
        ORDER BY e.seq DESC LIMIT 1)
FROM benbi_jobs AS j WHERE j.id = :id;

-- name: jobs
SELECT n, id, task, queue, owner, state, reason, rank, attempt, failures, max_attempts, losses, max_losses,
       generation, last_seq, key, cancel_requested_at, created_at, run_at, started_at, finished_at,
       keep,
       (SELECT json_array(done, total, message) FROM benbi_progress AS p WHERE p.job_n = j.n),
       (SELECT error FROM benbi_results AS r WHERE r.n = j.n),
       NULL
FROM benbi_jobs AS j
WHERE (:owner IS NULL OR owner = :owner)
  AND (:state IS NULL OR state = :state)
  AND (:task IS NULL OR task = :task)
  AND (:queue IS NULL OR queue = :queue)
  AND (:before IS NULL OR n < (SELECT n FROM benbi_jobs WHERE id = :before))
ORDER BY n DESC LIMIT :most;

-- name: jobs_of_owner
-- As jobs, by the index on (owner, n): an owner with few jobs must not cost a walk over all.
SELECT n, id, task, queue, owner, state, reason, rank, attempt, failures, max_attempts, losses, max_losses,
       generation, last_seq, key, cancel_requested_at, created_at, run_at, started_at, finished_at,
       keep,
       (SELECT json_array(done, total, message) FROM benbi_progress AS p WHERE p.job_n = j.n),
       (SELECT error FROM benbi_results AS r WHERE r.n = j.n),
       NULL
FROM benbi_jobs AS j
WHERE owner = :owner AND owner <> ''
  AND (:state IS NULL OR state = :state)
  AND (:task IS NULL OR task = :task)
  AND (:queue IS NULL OR queue = :queue)
  AND (:before IS NULL OR n < (SELECT n FROM benbi_jobs WHERE id = :before))
ORDER BY n DESC LIMIT :most;

-- name: open_questions_of
SELECT key, prompt, schema, deadline FROM benbi_questions
WHERE job_n = :n AND generation = :generation AND answered_at IS NULL ORDER BY rowid;

-- name: upstream_of
SELECT p.id FROM benbi_edges AS e JOIN benbi_jobs AS p ON p.n = e.parent_n
WHERE e.child_n = :n AND e.outcome IS NULL ORDER BY p.n;

-- name: arguments_of
SELECT body FROM benbi_arguments WHERE n = :n;

-- name: result_of
SELECT body FROM benbi_results WHERE n = :n;

-- name: logs_of
-- Of one attempt; NULL: of the newest that logged anything.
SELECT attempt, body FROM benbi_logs
WHERE job_n = :n AND attempt = coalesce(:attempt, (SELECT max(attempt) FROM benbi_logs WHERE job_n = :n))
ORDER BY piece;

-- name: logged_since
SELECT attempt, body FROM benbi_logs WHERE job_n = :n AND attempt >= :attempt ORDER BY attempt, piece;

-- name: artifacts_of
SELECT name, size, sha256, file FROM benbi_artifacts WHERE job_n = :n ORDER BY at, name;

-- name: artifact_prefix
SELECT prefix FROM benbi_artifact_prefix;

-- name: recorded_files
-- A row that outlived its job (older code pruned it) keeps no file.
SELECT a.file FROM benbi_artifacts AS a JOIN benbi_jobs AS j ON j.n = a.job_n
WHERE a.file IN (SELECT value FROM json_each(:files));

-- name: events_of
SELECT seq, type, reason, attempt, at, data FROM benbi_events
WHERE job_n = :n AND seq > :after ORDER BY seq LIMIT :most;

-- name: newest_position
SELECT coalesce(max(position), 0) FROM benbi_events;

-- name: newest_change
-- Where a process begins to look for jobs that have news.
SELECT coalesce(max(position), 0) FROM benbi_events;

-- name: newest_progress
SELECT coalesce(max(at), 0) FROM benbi_progress;

-- name: events_since
SELECT e.position, j.id, e.seq, e.type, e.reason, e.attempt, e.at, e.data, j.owner
FROM benbi_events AS e JOIN benbi_jobs AS j ON j.n = e.job_n
WHERE e.position > :cursor AND (:owner IS NULL OR j.owner = :owner)
ORDER BY e.position LIMIT :most;

-- name: changed_since
-- Which jobs have news: the tail of a process wakes just the readers of these.
SELECT e.position, e.job_n FROM benbi_events AS e WHERE e.position > :cursor ORDER BY e.position LIMIT :most;

-- name: progressed_since
SELECT at, job_n FROM benbi_progress WHERE at > :at ORDER BY at LIMIT :most;

-- name: look
-- The worker's look: is anything claimable, was one of its jobs canceled, when is the next due?
-- By the conditions of candidates: what it sees and can not claim would keep a worker busy.
SELECT EXISTS (SELECT 1 FROM benbi_jobs
               WHERE state = 'pending'
                 AND queue IN (SELECT value FROM json_each(:queues) WHERE value NOT IN (SELECT name FROM benbi_queues))
                 AND task IN (SELECT value FROM json_each(:tasks)) AND (losses = 0 OR :fragile)),
       EXISTS (SELECT 1 FROM benbi_jobs
               WHERE state = 'running' AND worker_n = :worker AND cancel_requested_at IS NOT NULL),
       (SELECT min(run_at) FROM benbi_jobs WHERE state IN ('scheduled', 'retrying'));

-- name: next_due
SELECT min(run_at) FROM benbi_jobs WHERE state IN ('scheduled', 'retrying');

-- name: next_change
-- When something next happens by itself: a test moves its clock from one such moment to the next.
SELECT min(at) FROM (
    SELECT min(run_at) AS at FROM benbi_jobs WHERE state IN ('scheduled', 'retrying') AND run_at > :now
    UNION ALL
    SELECT min(expires_at) FROM benbi_jobs
    WHERE expires_at > :now AND state IN ('waiting', 'scheduled', 'pending', 'input_required')
    UNION ALL
    SELECT min(q.deadline) FROM benbi_questions AS q JOIN benbi_jobs AS j ON j.n = q.job_n
    WHERE q.deadline > :now AND q.answered_at IS NULL AND j.state = 'input_required' AND j.generation = q.generation
);

-- name: neglected
-- Has anything outlived its time? Upkeep writes only where this says so.
SELECT EXISTS (SELECT 1 FROM benbi_jobs WHERE state = 'running' AND worker_n IS NOT NULL
               AND (cancel_requested_at + grace <= :now OR deadline_at + grace <= :now)),
       EXISTS (SELECT 1 FROM benbi_jobs
               WHERE expires_at IS NOT NULL AND state IN ('waiting', 'scheduled', 'pending', 'input_required')
                 AND expires_at <= :now)
       OR EXISTS (SELECT 1 FROM benbi_questions AS q JOIN benbi_jobs AS j ON j.n = q.job_n
                  WHERE q.deadline IS NOT NULL AND q.answered_at IS NULL AND q.deadline <= :now
                    AND j.state = 'input_required' AND j.generation = q.generation);

-- name: catalogue
SELECT task, queue, doc, arguments_schema, result_schema, tool, defaults, code_version, last_seen
FROM benbi_catalogue ORDER BY task;
