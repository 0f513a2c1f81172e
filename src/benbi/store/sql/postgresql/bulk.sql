-- All jobs that filters choose, page by page: read without the write lock, however few of many
-- rows they are. The filters are those of jobs.

-- name: live_of_filters
-- The newest first: a job is canceled before those that it waits for, and so does not fail with them.
SELECT n FROM benbi.jobs
WHERE n < :before AND finished_at IS NULL AND cancel_requested_at IS NULL
  AND (:owner::text IS NULL OR owner = :owner)
  AND (:state::text IS NULL OR state = :state)
  AND (:task::text IS NULL OR task = :task)
  AND (:queue::text IS NULL OR queue = :queue)
ORDER BY n DESC LIMIT :most;

-- name: ended_of_filters
-- The oldest first: what failed with a job waits again by its retry, and does not run before it.
SELECT n, task, max_attempts, max_losses FROM benbi.jobs
WHERE n > :after AND n <= :last AND state IN ('failed', 'canceled', 'skipped')
  AND (:owner::text IS NULL OR owner = :owner)
  AND (:state::text IS NULL OR state = :state)
  AND (:task::text IS NULL OR task = :task)
  AND (:queue::text IS NULL OR queue = :queue)
ORDER BY n LIMIT :most;

-- name: newest_job
SELECT coalesce(max(n), 0) FROM benbi.jobs;
