-- Queues, workers and what came of their jobs: for people who look after them.

-- name: pause_queue
-- Who paused it first stays named: a pause that is said again changes nothing.
INSERT INTO benbi.queues (name, paused_at, paused_by) VALUES (:name, :now, :by)
ON CONFLICT (name) DO NOTHING;

-- name: resume_queue
DELETE FROM benbi.queues WHERE name = :name;

-- name: paused_queues
SELECT name, paused_at, paused_by FROM benbi.queues ORDER BY name COLLATE "C";

-- name: paused
SELECT paused_at, paused_by FROM benbi.queues WHERE name = :queue;

-- name: loads
-- By the partial indexes of live jobs, each named by a condition: the table holds a week of others.
SELECT queue, 'pending', count(*), min(greatest(run_at, created_at)) FROM benbi.jobs
WHERE state = 'pending' GROUP BY queue
UNION ALL
SELECT queue, 'running', count(*), NULL::bigint FROM benbi.jobs
WHERE state = 'running' AND worker_n IS NOT NULL GROUP BY queue
UNION ALL
SELECT queue, state, count(*), NULL::bigint FROM benbi.jobs
WHERE state IN ('scheduled', 'retrying') AND run_at > -1 GROUP BY queue, state;

-- name: workers
SELECT n, id, host, pid, slots, queues, tasks, version, started_at, beat_at, heartbeat_timeout,
       (SELECT count(*) FROM benbi.jobs AS j WHERE j.state = 'running' AND j.worker_n = w.n)
FROM benbi.workers AS w ORDER BY n;

-- name: event_at
-- Where in the log a time lies is found by halving it: position follows time closely enough.
SELECT at FROM benbi.events WHERE position >= :position ORDER BY position LIMIT 1;

-- name: oldest_position
SELECT coalesce(min(position), 1) FROM benbi.events;

-- name: last_position
SELECT coalesce(max(position), 0) FROM benbi.events;

-- name: attempts_since
-- Each arrival in a state, and microseconds since the one before where they were of use: how long
-- it waited before a start, how long it ran before whatever ended the attempt.
SELECT e.position, j.task, j.queue, e.type, e.reason,
       (SELECT CASE WHEN e.type = 'started' THEN e.at - CASE WHEN p.type = 'pending' AND p.reason = 'due'
                                                             THEN least(p.at, j.run_at) ELSE p.at END
                    WHEN p.type = 'started' THEN e.at - p.at END
        FROM benbi.events AS p
        WHERE p.job_n = e.job_n AND p.seq < e.seq
          AND p.type IN ('created', 'started', 'waiting', 'scheduled', 'pending', 'retrying',
                         'input_required', 'completed', 'failed', 'canceled', 'skipped')
        ORDER BY p.seq DESC LIMIT 1)
FROM benbi.events AS e JOIN benbi.jobs AS j ON j.n = e.job_n
WHERE e.position > :after AND e.position <= :newest AND e.at >= :since
  AND e.type IN ('started', 'waiting', 'scheduled', 'pending', 'retrying', 'input_required',
                 'completed', 'failed', 'canceled', 'skipped')
ORDER BY e.position LIMIT :most;

-- name: backlog
SELECT task, queue, count(*), min(greatest(run_at, created_at)) FROM benbi.jobs
WHERE state = 'pending' GROUP BY queue, task;

-- name: circumstances
-- What explains a job and is no part of its public record.
SELECT n, rank, run_at, waits_for, worker_n, cancel_requested_at + grace, cancel_requested_at,
       expires_at, up_total, up_failed
FROM benbi.jobs WHERE id = encode(:id, 'hex')::uuid;

-- name: upstream
SELECT p.id, p.task, p.state, p.owner FROM benbi.edges AS e JOIN benbi.jobs AS p ON p.n = e.parent_n
WHERE e.child_n = :n AND p.finished_at IS NULL ORDER BY p.n;

-- name: slots_taken
SELECT s.limit_name, j.id, j.task, j.state, j.owner FROM benbi.slots AS s JOIN benbi.jobs AS j ON j.n = s.job_n
ORDER BY s.limit_name COLLATE "C", s.key COLLATE "C", j.n;

-- name: ahead
SELECT count(*) FROM (
    SELECT 1 FROM benbi.jobs
    WHERE state = 'pending' AND queue = :queue AND (rank, run_at, n) < (:rank, :run_at, :n)
    LIMIT :most) AS those;

-- name: running_jobs
SELECT worker_n, id, task, state, owner, losses FROM benbi.jobs
WHERE state = 'running' AND worker_n IS NOT NULL ORDER BY worker_n, n;

-- name: published_schema
SELECT arguments_schema, code_version, last_seen FROM benbi.catalogue WHERE task = :task;
