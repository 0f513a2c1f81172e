-- Recurring tasks: definitions, and ticks that become jobs. A tick is taken by the conditional
-- update of last_tick in the transaction that inserts its job: no key, which retention forgets.

-- name: register_schedule
-- Another definition is the next version; other times count from when the former was last seen.
INSERT INTO benbi.schedules AS s (
    name, spec, timezone, catchup, task, job, registered_by, registered_at, seen_at, last_tick)
VALUES (:name, :spec, :timezone, :catchup, :task, :job, :registered_by, :now, :now, :now)
ON CONFLICT (name) DO UPDATE
SET last_tick = CASE WHEN (s.spec, s.timezone) = (excluded.spec, excluded.timezone) THEN s.last_tick
                     ELSE greatest(s.last_tick, s.seen_at) END,
    version = s.version + ((s.spec, s.timezone, s.catchup, s.job)
                           <> (excluded.spec, excluded.timezone, excluded.catchup, excluded.job))::int,
    spec = excluded.spec, timezone = excluded.timezone, catchup = excluded.catchup,
    task = excluded.task, job = excluded.job,
    registered_by = excluded.registered_by, registered_at = excluded.registered_at,
    seen_at = excluded.seen_at;

-- name: schedule_seen
UPDATE benbi.schedules AS s SET seen_at = held.now
FROM unnest(:seen::bigint[], :name::text[], :version::bigint[]) AS held (now, name, version)
WHERE s.name = held.name AND s.version = held.version;

-- name: forget_schedules
DELETE FROM benbi.schedules WHERE seen_at < :now - :keep;

-- name: schedules
SELECT name, spec, timezone, catchup, task, job, version, seen_at, paused_at, last_tick, fired_at, last_job
FROM benbi.schedules ORDER BY name;

-- name: schedule
SELECT name, spec, timezone, catchup, task, job, version, seen_at, paused_at, last_tick, fired_at, last_job
FROM benbi.schedules WHERE name = :name;

-- name: take_tick
-- Whoever saw another last tick, or another definition, comes too late.
UPDATE benbi.schedules SET last_tick = :tick
WHERE name = :name AND version = :version AND last_tick = :last_tick AND paused_at IS NULL
RETURNING name;

-- name: tick_of_job
UPDATE benbi.jobs SET scheduled_for = :scheduled_for WHERE id = encode(:id, 'hex')::uuid RETURNING n;

-- name: tick_in_event
-- The event of the same transaction: nobody has read it yet.
UPDATE benbi.events SET data = :data WHERE job_n = :n AND seq = 1;

-- name: schedule_fired
UPDATE benbi.schedules SET fired_at = :scheduled_for, last_job = encode(:id, 'hex')::uuid WHERE name = :name;

-- name: pause_schedule
UPDATE benbi.schedules SET paused_at = coalesce(paused_at, :now) WHERE name = :name RETURNING name;

-- name: resume_schedule
-- Ticks that passed meanwhile are nobody's any more.
UPDATE benbi.schedules
SET last_tick = CASE WHEN paused_at IS NULL THEN last_tick ELSE greatest(last_tick, :now) END, paused_at = NULL
WHERE name = :name RETURNING name;
