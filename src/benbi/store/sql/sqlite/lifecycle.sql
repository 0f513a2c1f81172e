-- A job's life, one statement after the other in the order in which a job meets them.
-- Every statement that moves a job raises last_seq in the same breath and returns it; the
-- events follow in the same transaction (event). Statements that finish name (n, token).
-- Where the caller passes many rows, the statement is run once for each of them.

-- name: enqueue
-- One job for each of :ids (16 bytes each; :places numbers them), alike in all else.
-- Whose id or key is there already inserts nothing: existing and keyed say which job it is.
-- Many rows in one statement: run once for each of them it took 11 µs a row, this takes 5.
INSERT INTO benbi_jobs (
    id, task, queue, owner, rank, state, run_at, max_attempts, max_losses, timeout, grace, keep,
    created_at, expires_at, key, arguments_hash, last_seq)
SELECT substr(:ids, 1 + 16 * place.value, 16), :task, :queue, :owner, :rank,
       CASE WHEN coalesce(:run_at, :now + coalesce(:delay, 0)) <= :now THEN 'pending' ELSE 'scheduled' END,
       coalesce(:run_at, :now + coalesce(:delay, 0)),
       :max_attempts, :max_losses, :timeout, :grace, :keep,
       :now, :now + :expires_in, :key, :arguments_hash, 1
FROM json_each(:places) AS place
WHERE true
ON CONFLICT DO NOTHING;

-- name: take_write_lock
-- Deletes nothing. Differs: only SQLite has transactions that begin with their first statement.
DELETE FROM benbi_limits WHERE name = 'take_write_lock';

-- name: newcomers
-- Writers are serial, and n only grows: rows that one statement inserts follow each other.
SELECT id, n FROM benbi_jobs WHERE n >= :first;

-- name: created
INSERT INTO benbi_events (job_n, seq, type, reason, attempt, at, data)
SELECT n, 1, 'created', NULL, 0, :now, NULL FROM benbi_jobs WHERE n >= :first ORDER BY n;

-- name: arguments
INSERT INTO benbi_arguments (n, body) VALUES (:n, :body);

-- name: event
INSERT INTO benbi_events (job_n, seq, type, reason, attempt, at, data)
VALUES (:n, :seq, :type, :reason, :attempt, :at, :data);

-- name: arrived
-- One event for each of these jobs: the state in which it now is.
INSERT INTO benbi_events (job_n, seq, type, reason, attempt, at, data)
SELECT n, last_seq, CASE state WHEN 'running' THEN 'started' ELSE state END, reason, attempt, :now, NULL
FROM benbi_jobs WHERE n IN (SELECT value FROM json_each(:ns));

-- name: existing
SELECT 1 FROM benbi_jobs WHERE id = :id;

-- name: keyed
SELECT id, arguments_hash FROM benbi_jobs WHERE owner = :owner AND task = :task AND key = :key;

-- name: same_call_lock
-- Writers are serial: equal calls come one after the other.
SELECT 1;

-- name: same_call
SELECT id FROM benbi_jobs
WHERE owner = :owner AND task = :task AND arguments_hash = :arguments_hash
  AND arguments_hash IS NOT NULL AND finished_at IS NULL AND created_at >= :since
ORDER BY n DESC LIMIT 1;

-- name: due
UPDATE benbi_jobs
SET state = 'pending', reason = 'due', last_seq = last_seq + 1
WHERE n IN (SELECT n FROM benbi_jobs
            WHERE state IN ('scheduled', 'retrying') AND run_at <= :now
            ORDER BY run_at LIMIT :most)
RETURNING n, last_seq, attempt;

-- name: expire
UPDATE benbi_jobs
SET state = 'failed', reason = 'expired', waits_for = NULL, finished_at = :now, last_seq = last_seq + 1
WHERE n IN (SELECT n FROM benbi_jobs
            WHERE expires_at IS NOT NULL AND state IN ('waiting', 'scheduled', 'pending', 'input_required')
              AND expires_at <= :now
            LIMIT :most)
RETURNING n, last_seq, attempt;

-- name: worker_alive
SELECT 1 FROM benbi_workers WHERE n = :worker;

-- name: candidates
-- Differs: no low-water mark and no SKIP LOCKED; writers are serial and leave no dead entries.
-- Paused, the queue is NULL: a condition beside it would be asked for each of its pending rows.
SELECT rank, run_at, n, losses, queue FROM benbi_jobs
WHERE state = 'pending'
  AND queue = (SELECT :queue WHERE NOT EXISTS (SELECT 1 FROM benbi_queues AS q WHERE q.name = :queue))
  AND task IN (SELECT value FROM json_each(:tasks))
  AND (losses = 0 OR :fragile)
ORDER BY rank, run_at, n
LIMIT :most;

-- name: claim
-- Many rows in one statement: run once for each of them it took 22 µs a row, this takes 9.
UPDATE benbi_jobs
SET state = 'running', reason = NULL, worker_n = :worker, token = :token, last_write = 0,
    attempt = attempt + 1, started_at = :now, deadline_at = :now + timeout, last_seq = last_seq + 1
WHERE n IN (SELECT value FROM json_each(:ns)) AND state = 'pending'
RETURNING n, token, id, task, queue, owner, attempt, failures, losses, max_attempts, max_losses,
          generation, first_attempt, timeout, grace,
          (SELECT body FROM benbi_arguments AS a WHERE a.n = benbi_jobs.n), last_seq, scheduled_for;

-- name: recorded_steps
SELECT kind, name, use, fingerprint, state, tries, result FROM benbi_steps
WHERE job_n = :n AND generation = :generation;

-- name: recorded_answers
SELECT key, fingerprint, answer FROM benbi_questions
WHERE job_n = :n AND generation = :generation;

-- name: recorded_telling
SELECT type, data FROM benbi_events
WHERE job_n = :n AND attempt >= :first_attempt AND type IN ('progress', 'partial')
ORDER BY seq;

-- name: recorded_progress
SELECT done, total FROM benbi_progress WHERE job_n = :n;

-- name: write
-- A claim writes under its fence: events, steps and progress follow in this transaction.
UPDATE benbi_jobs
SET last_write = :write_no, last_seq = last_seq + :events
WHERE n = :n AND token = :token AND state = 'running' AND last_write < :write_no
RETURNING last_seq, cancel_requested_at;

-- name: progress
INSERT INTO benbi_progress (job_n, done, total, message, at) VALUES (:n, :done, :total, :message, :now)
ON CONFLICT (job_n) DO UPDATE
SET done = excluded.done, total = excluded.total, message = excluded.message, at = excluded.at;

-- name: step
INSERT INTO benbi_steps (job_n, generation, kind, name, use, fingerprint, state, tries, attempt, at, result, error)
VALUES (:n, :generation, :kind, :name, :use, :fingerprint, :state, :tries, :attempt, :now, :result, :error)
ON CONFLICT (job_n, generation, kind, name, use) DO UPDATE
SET fingerprint = excluded.fingerprint, state = excluded.state, tries = excluded.tries,
    attempt = excluded.attempt, at = excluded.at, result = excluded.result, error = excluded.error;

-- name: artifact
-- A name is saved once in a generation; that is decided before anything is written.
INSERT INTO benbi_artifacts (job_n, name, attempt, size, sha256, file, at)
VALUES (:n, :name, :attempt, :size, :sha256, :file, :now)
ON CONFLICT (job_n, name) DO UPDATE
SET attempt = excluded.attempt, size = excluded.size, sha256 = excluded.sha256,
    file = excluded.file, at = excluded.at;

-- name: log
-- The last piece grows until it is full; the fence keeps a repetition from adding to it twice.
INSERT INTO benbi_logs (job_n, attempt, piece, body) VALUES (:n, :attempt, :piece, :body)
ON CONFLICT (job_n, attempt, piece) DO UPDATE SET body = body || excluded.body;

-- name: trim_log
DELETE FROM benbi_logs WHERE job_n = :n AND attempt = :attempt AND piece < :piece;

-- name: forget_logs
DELETE FROM benbi_logs WHERE job_n = :n AND attempt <= :attempt - :kept;

-- name: question
INSERT INTO benbi_questions (job_n, generation, key, fingerprint, prompt, schema, default_answer, asked_at, deadline)
VALUES (:n, :generation, :key, :fingerprint, :prompt, :schema, :default_answer, :now, :now + :timeout)
ON CONFLICT (job_n, generation, key) DO UPDATE
SET fingerprint = excluded.fingerprint, prompt = excluded.prompt, schema = excluded.schema,
    default_answer = excluded.default_answer, asked_at = excluded.asked_at, deadline = excluded.deadline
WHERE answered_at IS NULL;

-- name: finish
-- decide proposes, this statement disposes: a cancel that arrived meanwhile wins over every
-- move to a live state. The token stays: whoever repeats an unknown commit finds its own.
-- Claims of one token that come to the same are finished in one statement.
UPDATE benbi_jobs
SET state = CASE WHEN :live AND cancel_requested_at IS NOT NULL THEN 'canceled' ELSE :state END,
    reason = CASE WHEN :live AND cancel_requested_at IS NOT NULL THEN 'requested' ELSE :reason END,
    failures = failures + CASE WHEN :live AND cancel_requested_at IS NOT NULL THEN 0 ELSE :failures END,
    run_at = CASE WHEN :delay IS NULL THEN run_at ELSE :now + :delay END,
    finished_at = CASE WHEN :live AND cancel_requested_at IS NULL THEN NULL ELSE :now END,
    losses = losses + CASE WHEN :live AND cancel_requested_at IS NOT NULL THEN 0 ELSE :losses END,
    worker_n = NULL, deadline_at = NULL,
    last_write = :write_no, last_seq = last_seq + :events
WHERE n IN (SELECT value FROM json_each(:ns)) AND token = :token AND state = 'running' AND last_write < :write_no
RETURNING n, state, reason, last_seq;

-- name: result
INSERT INTO benbi_results (n, body, error) VALUES (:n, :body, :error)
ON CONFLICT (n) DO UPDATE SET body = excluded.body, error = excluded.error;

-- name: standing
-- After a fenced write that changed nothing: my own earlier commit, or a lost claim?
SELECT state, token, last_write FROM benbi_jobs WHERE n = :n;

-- name: answer
UPDATE benbi_questions
SET answer = :answer, answered_by = :by, answered_at = :now
WHERE job_n = :n AND key = :key AND answered_at IS NULL
  AND generation = (SELECT generation FROM benbi_jobs WHERE n = :n)
RETURNING key;

-- name: open_questions
SELECT count(*) FROM benbi_questions
WHERE job_n = :n AND answered_at IS NULL AND generation = (SELECT generation FROM benbi_jobs WHERE n = :n);

-- name: overdue_questions
SELECT q.job_n, q.key, q.default_answer FROM benbi_questions AS q JOIN benbi_jobs AS j ON j.n = q.job_n
WHERE q.deadline IS NOT NULL AND q.answered_at IS NULL AND q.deadline <= :now
  AND j.state = 'input_required' AND j.generation = q.generation
LIMIT :most;

-- name: told
-- An event that is no change of state: answered, cancel_requested.
UPDATE benbi_jobs SET last_seq = last_seq + 1 WHERE n = :n RETURNING last_seq, attempt;

-- name: answered
UPDATE benbi_jobs SET state = 'pending', reason = 'answered', run_at = :now, last_seq = last_seq + 1
WHERE n = :n AND state = 'input_required'
RETURNING n, last_seq, attempt;

-- name: unanswered
UPDATE benbi_jobs SET state = 'failed', reason = 'expired', finished_at = :now, last_seq = last_seq + 1
WHERE n = :n AND state = 'input_required'
RETURNING n, last_seq, attempt;

-- name: hold
-- What takes more than one statement to decide is decided of jobs that nobody moves meanwhile.
-- Differs: writers come one after the other.
SELECT n, state FROM benbi_jobs WHERE n IN (SELECT value FROM json_each(:ns)) ORDER BY n;

-- name: cancel
UPDATE benbi_jobs
SET state = 'canceled', reason = :reason, waits_for = NULL, finished_at = :now, last_seq = last_seq + 1
WHERE n IN (SELECT value FROM json_each(:ns))
  AND state IN ('waiting', 'scheduled', 'pending', 'retrying', 'input_required')
RETURNING n, last_seq, attempt;

-- name: request_cancel
UPDATE benbi_jobs SET cancel_requested_at = :now, last_seq = last_seq + 1
WHERE n IN (SELECT value FROM json_each(:ns)) AND state = 'running' AND cancel_requested_at IS NULL
RETURNING n, last_seq, attempt;

-- name: again
-- A retry by hand raises the budgets; the counters never fall.
UPDATE benbi_jobs
SET state = CASE WHEN :waits AND attempt = 0 THEN 'waiting' ELSE 'pending' END,
    waits_for = CASE WHEN :waits AND attempt = 0 THEN 'upstream' END,
    reason = 'by_hand', finished_at = NULL, cancel_requested_at = NULL, token = NULL,
    run_at = :now, expires_at = NULL,
    max_attempts = failures + :attempts, max_losses = losses + :losses,
    generation = generation + :fresh,
    first_attempt = CASE WHEN :fresh THEN attempt + 1 ELSE first_attempt END,
    last_seq = last_seq + 1
WHERE n = :n AND state IN ('failed', 'canceled', 'skipped')
RETURNING n, last_seq, attempt, state, reason;

-- name: forget_artifacts
DELETE FROM benbi_artifacts WHERE job_n = :n;

-- name: forget_result
DELETE FROM benbi_results WHERE n = :n;

-- name: register_worker
INSERT INTO benbi_workers (id, host, pid, slots, queues, tasks, version, heartbeat_timeout,
                           started_at, beat_at)
VALUES (:id, :host, :pid, :slots, :queues, :tasks, :version, :heartbeat_timeout, :now, :now)
ON CONFLICT (id) DO UPDATE SET beat_at = excluded.beat_at
RETURNING n;

-- name: beat
UPDATE benbi_workers SET beat_no = beat_no + 1, beat_at = :now WHERE n = :worker RETURNING beat_no;

-- name: held
SELECT n, token, cancel_requested_at FROM benbi_jobs WHERE state = 'running' AND worker_n = :worker;

-- name: release_unheld
UPDATE benbi_jobs
SET state = CASE WHEN cancel_requested_at IS NULL THEN 'pending' ELSE 'canceled' END,
    reason = CASE WHEN cancel_requested_at IS NULL THEN :reason ELSE 'requested' END,
    finished_at = CASE WHEN cancel_requested_at IS NULL THEN NULL ELSE :at END,
    worker_n = NULL, token = NULL, deadline_at = NULL, last_seq = last_seq + 1
WHERE n = :n AND token = :token AND worker_n = :worker AND state = 'running'
RETURNING n, last_seq, attempt, state, reason;

-- name: patience
-- A worker beats as often as its own timeout asks for, whatever the watcher's is.
SELECT n, heartbeat_timeout FROM benbi_workers;

-- name: beats
SELECT n, beat_no FROM benbi_workers;

-- name: bury
-- Burial happens only where the counter still stands where the watcher saw it.
SELECT 1 FROM benbi_workers WHERE n = :worker AND beat_no = :beat_no;

-- name: hold_worker
-- Whoever ends a worker waits for its claim that is under way, and then finds the jobs.
SELECT 1 FROM benbi_workers WHERE n = :worker;

-- name: workers_of
-- The workers of one process: their ids begin with its mark.
SELECT n, beat_no FROM benbi_workers WHERE substr(id, 1, length(:mark)) = :mark;

-- name: try_writing
-- A page must change, or nothing is written. The row is gone in the same transaction.
INSERT INTO benbi_limits (name) VALUES ('try_writing');
-- name: tried_writing
DELETE FROM benbi_limits WHERE name = 'try_writing';

-- name: lose
-- The first loss goes back at once; later ones wait; the last one is a dead letter.
UPDATE benbi_jobs
SET state = CASE WHEN cancel_requested_at IS NOT NULL THEN 'canceled'
                 WHEN losses + 1 >= max_losses THEN 'failed'
                 WHEN losses = 0 THEN 'pending'
                 ELSE 'retrying' END,
    reason = CASE WHEN cancel_requested_at IS NOT NULL THEN 'requested' ELSE 'lost' END,
    finished_at = CASE WHEN cancel_requested_at IS NOT NULL OR losses + 1 >= max_losses THEN :now END,
    run_at = CASE WHEN losses = 0 THEN run_at ELSE :now + :delay END,
    losses = losses + (cancel_requested_at IS NULL), worker_n = NULL, token = NULL, deadline_at = NULL, last_seq = last_seq + 1
WHERE state = 'running' AND worker_n = :worker
RETURNING n, last_seq, attempt, state, reason;

-- name: remove_worker
DELETE FROM benbi_workers WHERE n = :worker;

-- name: stop_overrun_cancel
-- A body that outlives its grace after a cancel is abandoned and fenced.
UPDATE benbi_jobs
SET state = 'canceled', reason = 'abandoned', finished_at = :now,
    worker_n = NULL, token = NULL, deadline_at = NULL, last_seq = last_seq + 1
WHERE state = 'running' AND worker_n IS NOT NULL AND cancel_requested_at + grace + :allowance <= :now
RETURNING n, last_seq, attempt, state, reason;

-- name: stop_overrun_timeout
UPDATE benbi_jobs
SET state = CASE WHEN cancel_requested_at IS NOT NULL THEN 'canceled'
                 WHEN failures + 1 >= max_attempts THEN 'failed' ELSE 'retrying' END,
    reason = CASE WHEN cancel_requested_at IS NOT NULL THEN 'requested' ELSE 'timeout' END,
    finished_at = CASE WHEN cancel_requested_at IS NOT NULL OR failures + 1 >= max_attempts THEN :now END,
    run_at = :now + :delay, failures = failures + (cancel_requested_at IS NULL),
    worker_n = NULL, token = NULL, deadline_at = NULL, last_seq = last_seq + 1
WHERE state = 'running' AND worker_n IS NOT NULL AND deadline_at + grace + :allowance <= :now
RETURNING n, last_seq, attempt, state, reason;

-- name: publish
INSERT INTO benbi_catalogue (task, queue, doc, arguments_schema, result_schema, tool, defaults, code_version, last_seen)
VALUES (:task, :queue, :doc, :arguments_schema, :result_schema, :tool, :defaults, :code_version, :now)
ON CONFLICT (task) DO UPDATE
SET queue = excluded.queue, doc = excluded.doc, arguments_schema = excluded.arguments_schema,
    result_schema = excluded.result_schema, tool = excluded.tool, defaults = excluded.defaults,
    code_version = excluded.code_version, last_seen = excluded.last_seen;

-- name: expired_rows
-- Retention counts from the end. The scan walks n in bounded stretches and starts again.
-- The newest job and the job of the newest event stay, so that n and position never come again.
SELECT n, state IN ('completed', 'canceled', 'skipped', 'failed')
          AND finished_at + coalesce(keep, CASE state WHEN 'failed' THEN :keep_failed ELSE :keep_other END) <= :now
          AND NOT EXISTS (SELECT 1 FROM benbi_edges AS e JOIN benbi_jobs AS c ON c.n = e.child_n
                          WHERE e.parent_n = benbi_jobs.n AND c.finished_at IS NULL)
          AND n <> (SELECT max(n) FROM benbi_jobs)
          AND n <> (SELECT job_n FROM benbi_events ORDER BY position DESC LIMIT 1)
FROM benbi_jobs WHERE n > :after ORDER BY n LIMIT :most;

-- name: prune_events
DELETE FROM benbi_events WHERE job_n = :n;
-- name: prune_steps
DELETE FROM benbi_steps WHERE job_n = :n;
-- name: prune_questions
DELETE FROM benbi_questions WHERE job_n = :n;
-- name: prune_progress
DELETE FROM benbi_progress WHERE job_n = :n;
-- name: prune_artifacts
-- Their files go after the commit.
DELETE FROM benbi_artifacts WHERE job_n IN (SELECT value FROM json_each(:ns)) RETURNING file;
-- name: prune_logs
DELETE FROM benbi_logs WHERE job_n = :n;
-- name: prune_arguments
DELETE FROM benbi_arguments WHERE n = :n;
-- name: prune_results
DELETE FROM benbi_results WHERE n = :n;
-- name: prune_edges
DELETE FROM benbi_edges WHERE parent_n = :n OR child_n = :n;
-- name: prune_job
DELETE FROM benbi_jobs WHERE n = :n;
