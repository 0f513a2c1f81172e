-- A job's life, one statement after the other in the order in which a job meets them.
-- Every statement that moves a job raises last_seq in the same breath and returns it; the
-- events follow in the same transaction (event). Statements that finish name (n, token).
-- Where the caller passes many rows, each parameter is an array of them and the statement runs once.
-- (state || '') beside an n keeps the planner from the partial index on that state, which it takes for
-- small: it would walk all of it, dead entries and all. A claim of 100 took 30 ms so, and takes 3.
-- JSON passes as text: the connection of a caller may make something else of json.

-- name: enqueue
-- One job for each of :ids, alike in all else, in their order, with its arguments (none: '{}') and its
-- first event. Whose id or key is there already inserts nothing: existing and keyed say which it is.
WITH made AS (
    INSERT INTO benbi.jobs (
        id, task, queue, owner, rank, state, run_at, max_attempts, max_losses, timeout, grace, keep,
        created_at, expires_at, key, arguments_hash, last_seq)
    SELECT encode(one.id, 'hex')::uuid, :task, :queue, :owner, :rank,
           CASE WHEN coalesce(:run_at::bigint, :now + coalesce(:delay::bigint, 0)) <= :now THEN 'pending' ELSE 'scheduled' END,
           coalesce(:run_at::bigint, :now + coalesce(:delay::bigint, 0)),
           :max_attempts, :max_losses, :timeout::bigint, :grace, :keep::bigint,
           :now, :now + :expires_in::bigint, :key, :arguments_hash::bytea, 1
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

-- name: event
-- Differs: readers of many jobs go by (xid, position). A transaction may tell of a job what another
-- one, that began later, has told before it: its event stands behind the other's all the same.
INSERT INTO benbi.events (job_n, seq, type, reason, attempt, at, data, xid)
SELECT n, seq, type, reason, attempt, at, data::json,
       greatest(pg_current_xact_id(), (SELECT e.xid FROM benbi.events AS e WHERE e.job_n = told.n
                                       ORDER BY e.seq DESC LIMIT 1))
FROM unnest(:n::bigint[], :seq::bigint[], :type::text[], :reason::text[], :attempt::bigint[], :at::bigint[], :data::text[])
     AS told (n, seq, type, reason, attempt, at, data);

-- name: arrived
-- One event for each of these jobs: the state in which it now is.
INSERT INTO benbi.events (job_n, seq, type, reason, attempt, at, data, xid)
SELECT n, last_seq, CASE state WHEN 'running' THEN 'started' ELSE state END, reason, attempt, :now, NULL,
       greatest(pg_current_xact_id(), (SELECT e.xid FROM benbi.events AS e WHERE e.job_n = j.n
                                       ORDER BY e.seq DESC LIMIT 1))
FROM benbi.jobs AS j WHERE n = ANY (translate(:ns, '[]', '{}')::bigint[]);

-- name: existing
SELECT 1 FROM benbi.jobs WHERE id = encode(:id, 'hex')::uuid;

-- name: keyed
SELECT id, arguments_hash FROM benbi.jobs WHERE owner = :owner AND task = :task AND key = :key;

-- name: same_call_lock
-- Equal calls come one after the other: the second one sees the first one's job.
SELECT pg_advisory_xact_lock(hashtext('benbi'), hashtext(:owner || ' ' || :task || ' ' || encode(:arguments_hash, 'hex')));

-- name: same_call
SELECT id FROM benbi.jobs
WHERE owner = :owner AND task = :task AND arguments_hash = :arguments_hash
  AND arguments_hash IS NOT NULL AND finished_at IS NULL AND created_at >= :since
ORDER BY n DESC LIMIT 1;

-- name: due
UPDATE benbi.jobs
SET state = 'pending', reason = 'due', last_seq = last_seq + 1
WHERE n = ANY (ARRAY(SELECT n FROM benbi.jobs
                     WHERE state IN ('scheduled', 'retrying') AND run_at <= :now
                     ORDER BY run_at LIMIT :most FOR NO KEY UPDATE SKIP LOCKED))
RETURNING n, last_seq, attempt;

-- name: expire
UPDATE benbi.jobs
SET state = 'failed', reason = 'expired', waits_for = NULL, finished_at = :now, last_seq = last_seq + 1
WHERE n = ANY (ARRAY(SELECT n FROM benbi.jobs
                     WHERE expires_at IS NOT NULL AND state IN ('waiting', 'scheduled', 'pending', 'input_required')
                       AND expires_at <= :now
                     LIMIT :most FOR NO KEY UPDATE SKIP LOCKED))
RETURNING n, last_seq, attempt;

-- name: worker_alive
-- Who buries this worker waits for the claim, and then finds its jobs.
SELECT 1 FROM benbi.workers WHERE n = :worker FOR KEY SHARE;

-- name: candidates
-- What was claimed before the mark is dead in the index until no transaction of the server can see it
-- any more: without a mark every claim would walk all of it.
SELECT rank, run_at, n, losses, queue FROM benbi.jobs
WHERE state = 'pending' AND queue = :queue
  AND NOT EXISTS (SELECT 1 FROM benbi.queues AS q WHERE q.name = :queue)
  AND task = ANY (ARRAY(SELECT json_array_elements_text(:tasks::json)))
  AND (losses = 0 OR :fragile::bigint <> 0)
  AND (rank, run_at, n) > (:after_rank::bigint, :after_run_at::bigint, :after_n::bigint)
ORDER BY rank, run_at, n
LIMIT :most
FOR NO KEY UPDATE SKIP LOCKED;

-- name: claim
UPDATE benbi.jobs AS j
SET state = 'running', reason = NULL, worker_n = :worker, token = :token, last_write = 0,
    attempt = attempt + 1, started_at = :now, deadline_at = :now + timeout, last_seq = last_seq + 1
WHERE n = ANY (translate(:ns, '[]', '{}')::bigint[]) AND (state || '') = 'pending'
RETURNING n, token, id, task, queue, owner, attempt, failures, losses, max_attempts, max_losses,
          generation, first_attempt, timeout, grace,
          (SELECT body FROM benbi.arguments AS a WHERE a.n = j.n), last_seq, scheduled_for;

-- name: recorded_steps
SELECT kind, name, use, fingerprint, state, tries, result FROM benbi.steps
WHERE job_n = :n AND generation = :generation;

-- name: recorded_answers
SELECT key, fingerprint, answer FROM benbi.questions
WHERE job_n = :n AND generation = :generation;

-- name: recorded_telling
SELECT type, data FROM benbi.events
WHERE job_n = :n AND attempt >= :first_attempt AND type IN ('progress', 'partial')
ORDER BY seq;

-- name: recorded_progress
SELECT done, total FROM benbi.progress WHERE job_n = :n;

-- name: write
-- A claim writes under its fence: events, steps and progress follow in this transaction.
UPDATE benbi.jobs
SET last_write = :write_no, last_seq = last_seq + :events
WHERE n = :n AND token = :token AND (state || '') = 'running' AND last_write < :write_no
RETURNING last_seq, cancel_requested_at;

-- name: progress
INSERT INTO benbi.progress (job_n, done, total, message, at) VALUES (:n, :done, :total, :message, :now)
ON CONFLICT (job_n) DO UPDATE
SET done = excluded.done, total = excluded.total, message = excluded.message, at = excluded.at;

-- name: step
INSERT INTO benbi.steps (job_n, generation, kind, name, use, fingerprint, state, tries, attempt, at, result, error)
VALUES (:n, :generation, :kind, :name, :use, :fingerprint, :state, :tries, :attempt, :now, :result, :error)
ON CONFLICT (job_n, generation, kind, name, use) DO UPDATE
SET fingerprint = excluded.fingerprint, state = excluded.state, tries = excluded.tries,
    attempt = excluded.attempt, at = excluded.at, result = excluded.result, error = excluded.error;

-- name: artifact
-- A name is saved once in a generation; that is decided before anything is written.
INSERT INTO benbi.artifacts (job_n, name, attempt, size, sha256, file, at)
VALUES (:n, :name, :attempt, :size, :sha256, :file, :now)
ON CONFLICT (job_n, name) DO UPDATE
SET attempt = excluded.attempt, size = excluded.size, sha256 = excluded.sha256,
    file = excluded.file, at = excluded.at;

-- name: log
-- The last piece grows until it is full; the fence keeps a repetition from adding to it twice.
INSERT INTO benbi.logs AS l (job_n, attempt, piece, body) VALUES (:n, :attempt, :piece, :body)
ON CONFLICT (job_n, attempt, piece) DO UPDATE SET body = l.body || excluded.body;

-- name: trim_log
DELETE FROM benbi.logs WHERE job_n = :n AND attempt = :attempt AND piece < :piece;

-- name: forget_logs
DELETE FROM benbi.logs WHERE job_n = :n AND attempt <= :attempt - :kept;

-- name: question
INSERT INTO benbi.questions AS q (job_n, generation, key, fingerprint, prompt, schema, default_answer, asked_at, deadline)
VALUES (:n, :generation, :key, :fingerprint, :prompt, :schema, :default_answer, :now, :now + :timeout::bigint)
ON CONFLICT (job_n, generation, key) DO UPDATE
SET fingerprint = excluded.fingerprint, prompt = excluded.prompt, schema = excluded.schema,
    default_answer = excluded.default_answer, asked_at = excluded.asked_at, deadline = excluded.deadline
WHERE q.answered_at IS NULL;

-- name: finish
-- decide proposes, this statement disposes: a cancel that arrived meanwhile wins over every
-- move to a live state. The token stays: whoever repeats an unknown commit finds its own.
-- Claims of one token that come to the same are finished in one statement.
UPDATE benbi.jobs
SET state = CASE WHEN :live::boolean AND cancel_requested_at IS NOT NULL THEN 'canceled' ELSE :state END,
    reason = CASE WHEN :live::boolean AND cancel_requested_at IS NOT NULL THEN 'requested' ELSE :reason END,
    failures = failures + CASE WHEN :live::boolean AND cancel_requested_at IS NOT NULL THEN 0 ELSE :failures END,
    run_at = CASE WHEN :delay::bigint IS NULL THEN run_at ELSE :now + :delay::bigint END,
    finished_at = CASE WHEN :live::boolean AND cancel_requested_at IS NULL THEN NULL ELSE :now END,
    losses = losses + CASE WHEN :live::boolean AND cancel_requested_at IS NOT NULL THEN 0 ELSE :losses END,
    worker_n = NULL, deadline_at = NULL,
    last_write = :write_no, last_seq = last_seq + :events
WHERE n = ANY (translate(:ns, '[]', '{}')::bigint[]) AND token = :token AND (state || '') = 'running' AND last_write < :write_no
RETURNING n, state, reason, last_seq;

-- name: result
INSERT INTO benbi.results (n, body, error)
SELECT n, body::json, error::json FROM unnest(:n::bigint[], :body::text[], :error::text[]) AS came (n, body, error)
ON CONFLICT (n) DO UPDATE SET body = excluded.body, error = excluded.error;

-- name: standing
-- After a fenced write that changed nothing: my own earlier commit, or a lost claim?
SELECT state, token, last_write FROM benbi.jobs WHERE n = :n;

-- name: answer
UPDATE benbi.questions
SET answer = :answer, answered_by = :by, answered_at = :now
WHERE job_n = :n AND key = :key AND answered_at IS NULL
  AND generation = (SELECT generation FROM benbi.jobs WHERE n = :n)
RETURNING key;

-- name: open_questions
SELECT count(*) FROM benbi.questions
WHERE job_n = :n AND answered_at IS NULL AND generation = (SELECT generation FROM benbi.jobs WHERE n = :n);

-- name: overdue_questions
SELECT q.job_n, q.key, q.default_answer FROM benbi.questions AS q JOIN benbi.jobs AS j ON j.n = q.job_n
WHERE q.deadline IS NOT NULL AND q.answered_at IS NULL AND q.deadline <= :now
  AND j.state = 'input_required' AND j.generation = q.generation
LIMIT :most FOR NO KEY UPDATE OF j SKIP LOCKED;

-- name: told
-- An event that is no change of state: answered, cancel_requested.
UPDATE benbi.jobs SET last_seq = last_seq + 1 WHERE n = :n RETURNING last_seq, attempt;

-- name: answered
UPDATE benbi.jobs SET state = 'pending', reason = 'answered', run_at = :now, last_seq = last_seq + 1
WHERE n = :n AND (state || '') = 'input_required'
RETURNING n, last_seq, attempt;

-- name: unanswered
UPDATE benbi.jobs SET state = 'failed', reason = 'expired', finished_at = :now, last_seq = last_seq + 1
WHERE n = :n AND (state || '') = 'input_required'
RETURNING n, last_seq, attempt;

-- name: hold
-- What takes more than one statement to decide is decided of jobs that nobody moves meanwhile.
SELECT n, state FROM benbi.jobs WHERE n = ANY (translate(:ns, '[]', '{}')::bigint[])
ORDER BY n FOR NO KEY UPDATE;

-- name: cancel
UPDATE benbi.jobs
SET state = 'canceled', reason = :reason, waits_for = NULL, finished_at = :now, last_seq = last_seq + 1
WHERE n = ANY (translate(:ns, '[]', '{}')::bigint[])
  AND state IN ('waiting', 'scheduled', 'pending', 'retrying', 'input_required')
RETURNING n, last_seq, attempt;

-- name: request_cancel
UPDATE benbi.jobs SET cancel_requested_at = :now, last_seq = last_seq + 1
WHERE n = ANY (translate(:ns, '[]', '{}')::bigint[]) AND (state || '') = 'running' AND cancel_requested_at IS NULL
RETURNING n, last_seq, attempt;

-- name: again
-- A retry by hand raises the budgets; the counters never fall.
UPDATE benbi.jobs
SET state = CASE WHEN :waits::bigint <> 0 AND attempt = 0 THEN 'waiting' ELSE 'pending' END,
    waits_for = CASE WHEN :waits::bigint <> 0 AND attempt = 0 THEN 'upstream' END,
    reason = 'by_hand', finished_at = NULL, cancel_requested_at = NULL, token = NULL,
    run_at = :now, expires_at = NULL,
    max_attempts = failures + :attempts, max_losses = losses + :losses,
    generation = generation + :fresh::bigint,
    first_attempt = CASE WHEN :fresh::bigint <> 0 THEN attempt + 1 ELSE first_attempt END,
    last_seq = last_seq + 1
WHERE n = :n AND state IN ('failed', 'canceled', 'skipped')
RETURNING n, last_seq, attempt, state, reason;

-- name: forget_artifacts
DELETE FROM benbi.artifacts WHERE job_n = :n;

-- name: forget_result
DELETE FROM benbi.results WHERE n = ANY (:n::bigint[]);

-- name: register_worker
INSERT INTO benbi.workers (id, host, pid, slots, queues, tasks, version, heartbeat_timeout,
                           started_at, beat_at)
VALUES (:id, :host, :pid, :slots, :queues, :tasks, :version, :heartbeat_timeout, :now, :now)
ON CONFLICT (id) DO UPDATE SET beat_at = excluded.beat_at
RETURNING n;

-- name: beat
UPDATE benbi.workers SET beat_no = beat_no + 1, beat_at = :now WHERE n = :worker RETURNING beat_no;

-- name: held
SELECT n, token, cancel_requested_at FROM benbi.jobs WHERE state = 'running' AND worker_n = :worker;

-- name: release_unheld
UPDATE benbi.jobs
SET state = CASE WHEN cancel_requested_at IS NULL THEN 'pending' ELSE 'canceled' END,
    reason = CASE WHEN cancel_requested_at IS NULL THEN :reason ELSE 'requested' END,
    finished_at = CASE WHEN cancel_requested_at IS NULL THEN NULL ELSE :at::bigint END,
    worker_n = NULL, token = NULL, deadline_at = NULL, last_seq = last_seq + 1
WHERE n = :n AND token = :token AND worker_n = :worker AND (state || '') = 'running'
RETURNING n, last_seq, attempt, state, reason;

-- name: patience
-- A worker beats as often as its own timeout asks for, whatever the watcher's is.
SELECT n, heartbeat_timeout FROM benbi.workers;

-- name: beats
SELECT n, beat_no FROM benbi.workers;

-- name: bury
-- Burial happens only where the counter still stands where the watcher saw it, and after a claim
-- of that worker that is under way: what it took is found by a later statement.
SELECT 1 FROM benbi.workers WHERE n = :worker AND beat_no = :beat_no FOR UPDATE;

-- name: hold_worker
-- Whoever ends a worker waits for its claim that is under way, and then finds the jobs.
SELECT 1 FROM benbi.workers WHERE n = :worker FOR UPDATE;

-- name: workers_of
-- The workers of one process: their ids begin with its mark.
SELECT n, beat_no FROM benbi.workers WHERE left(id, length(:mark::text)) = :mark ORDER BY n FOR UPDATE;

-- name: try_writing
-- A page must change, or nothing is written. The row is gone in the same transaction.
INSERT INTO benbi.limits (name) VALUES ('try_writing ' || pg_backend_pid());
-- name: tried_writing
DELETE FROM benbi.limits WHERE name = 'try_writing ' || pg_backend_pid();

-- name: lose
-- The first loss goes back at once; later ones wait; the last one is a dead letter.
UPDATE benbi.jobs
SET state = CASE WHEN cancel_requested_at IS NOT NULL THEN 'canceled'
                 WHEN losses + 1 >= max_losses THEN 'failed'
                 WHEN losses = 0 THEN 'pending'
                 ELSE 'retrying' END,
    reason = CASE WHEN cancel_requested_at IS NOT NULL THEN 'requested' ELSE 'lost' END,
    finished_at = CASE WHEN cancel_requested_at IS NOT NULL OR losses + 1 >= max_losses THEN :now::bigint END,
    run_at = CASE WHEN losses = 0 THEN run_at ELSE :now + :delay END,
    losses = losses + (cancel_requested_at IS NULL)::int, worker_n = NULL, token = NULL, deadline_at = NULL, last_seq = last_seq + 1
WHERE state = 'running' AND worker_n = :worker
RETURNING n, last_seq, attempt, state, reason;

-- name: remove_worker
DELETE FROM benbi.workers WHERE n = :worker;

-- name: stop_overrun_cancel
-- A body that outlives its grace after a cancel is abandoned and fenced.
UPDATE benbi.jobs
SET state = 'canceled', reason = 'abandoned', finished_at = :now,
    worker_n = NULL, token = NULL, deadline_at = NULL, last_seq = last_seq + 1
WHERE n = ANY (ARRAY(SELECT n FROM benbi.jobs
                     WHERE state = 'running' AND cancel_requested_at + grace + :allowance <= :now
                     ORDER BY n FOR NO KEY UPDATE SKIP LOCKED))
RETURNING n, last_seq, attempt, state, reason;

-- name: stop_overrun_timeout
UPDATE benbi.jobs
SET state = CASE WHEN cancel_requested_at IS NOT NULL THEN 'canceled'
                 WHEN failures + 1 >= max_attempts THEN 'failed' ELSE 'retrying' END,
    reason = CASE WHEN cancel_requested_at IS NOT NULL THEN 'requested' ELSE 'timeout' END,
    finished_at = CASE WHEN cancel_requested_at IS NOT NULL OR failures + 1 >= max_attempts THEN :now::bigint END,
    run_at = :now + :delay, failures = failures + (cancel_requested_at IS NULL)::int,
    worker_n = NULL, token = NULL, deadline_at = NULL, last_seq = last_seq + 1
WHERE n = ANY (ARRAY(SELECT n FROM benbi.jobs
                     WHERE state = 'running' AND deadline_at + grace + :allowance <= :now
                     ORDER BY n FOR NO KEY UPDATE SKIP LOCKED))
RETURNING n, last_seq, attempt, state, reason;

-- name: publish
INSERT INTO benbi.catalogue (task, queue, doc, arguments_schema, result_schema, tool, defaults, code_version, last_seen)
VALUES (:task, :queue, :doc, :arguments_schema, :result_schema, :tool, :defaults, :code_version, :now)
ON CONFLICT (task) DO UPDATE
SET queue = excluded.queue, doc = excluded.doc, arguments_schema = excluded.arguments_schema,
    result_schema = excluded.result_schema, tool = excluded.tool, defaults = excluded.defaults,
    code_version = excluded.code_version, last_seen = excluded.last_seen;

-- name: expired_rows
-- Retention counts from the end. The scan walks n in bounded stretches and starts again. What is to
-- go is locked first, and looked at again: a retry by hand, or a job that is to wait for it, wins.
-- The newest job and the job of the newest event stay, as in SQLite.
WITH stretch AS (
    SELECT n, state IN ('completed', 'canceled', 'skipped', 'failed')
              AND finished_at + coalesce(keep, CASE state WHEN 'failed' THEN :keep_failed ELSE :keep_other END) <= :now
              AND NOT EXISTS (SELECT 1 FROM benbi.edges AS e JOIN benbi.jobs AS c ON c.n = e.child_n
                              WHERE e.parent_n = j.n AND c.finished_at IS NULL)
              AND n <> (SELECT max(n) FROM benbi.jobs)
              AND n <> (SELECT job_n FROM benbi.events ORDER BY position DESC LIMIT 1) AS over
    FROM benbi.jobs AS j WHERE n > :after ORDER BY n LIMIT :most),
gone AS (
    SELECT j.n FROM benbi.jobs AS j JOIN stretch ON stretch.n = j.n
    WHERE stretch.over AND j.finished_at IS NOT NULL
    ORDER BY j.n FOR UPDATE OF j SKIP LOCKED)
SELECT stretch.n, gone.n IS NOT NULL FROM stretch LEFT JOIN gone ON gone.n = stretch.n ORDER BY stretch.n;

-- name: prune_events
DELETE FROM benbi.events WHERE job_n = ANY (:n::bigint[]);
-- name: prune_steps
DELETE FROM benbi.steps WHERE job_n = ANY (:n::bigint[]);
-- name: prune_questions
DELETE FROM benbi.questions WHERE job_n = ANY (:n::bigint[]);
-- name: prune_progress
DELETE FROM benbi.progress WHERE job_n = ANY (:n::bigint[]);
-- name: prune_artifacts
-- Their files go after the commit.
DELETE FROM benbi.artifacts WHERE job_n = ANY (translate(:ns, '[]', '{}')::bigint[]) RETURNING file;
-- name: prune_logs
DELETE FROM benbi.logs WHERE job_n = ANY (:n::bigint[]);
-- name: prune_arguments
DELETE FROM benbi.arguments WHERE n = ANY (:n::bigint[]);
-- name: prune_results
DELETE FROM benbi.results WHERE n = ANY (:n::bigint[]);
-- name: prune_edges
DELETE FROM benbi.edges WHERE parent_n = ANY (:n::bigint[]) OR child_n = ANY (:n::bigint[]);
-- name: prune_job
DELETE FROM benbi.jobs WHERE n = ANY (:n::bigint[]);
