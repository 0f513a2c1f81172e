"""The faults, and for each the test that must see it. Each edits one statement or one line.

Where a parameter would disappear with a condition, the condition stays and is made to hold
always: otherwise the statement would refuse its values, and that is no fault that was seen.
"""

from __future__ import annotations

from tests.faults.planting import Fault

LIFECYCLE = "store/sql/sqlite/lifecycle.sql"
UPSTREAM = "store/sql/sqlite/upstream.sql"
VIEWS = "store/sql/sqlite/views.sql"
FLEET = "store/sql/sqlite/fleet.sql"
SCHEDULES = "store/sql/sqlite/schedules.sql"
ON_SERVER = "store/sql/postgresql"
TICKS = "engine/ticks.py"
CONFORMANCE = "tests/conformance"
INTERLEAVED = "tests/interleave/test_interleave.py::test_every_order_is_right"

FAULTS = [
    # The fence.
    Fault(
        "fence off: a finish without its token",
        LIFECYCLE,
        "WHERE n IN (SELECT value FROM json_each(:ns)) AND token = :token AND state",
        "WHERE n IN (SELECT value FROM json_each(:ns)) AND (token = :token OR true) AND state",
        f"{CONFORMANCE}/test_fence.py::test_a_lost_claim_can_not_finish_the_job[file-rescued]",
    ),
    Fault(
        "step without token: a write without its token",
        LIFECYCLE,
        "WHERE n = :n AND token = :token AND state = 'running' AND last_write < :write_no\n"
        "RETURNING last_seq, cancel_requested_at;",
        "WHERE n = :n AND (token = :token OR true) AND state = 'running' "
        "AND last_write < :write_no\nRETURNING last_seq, cancel_requested_at;",
        f"{CONFORMANCE}/test_fence.py::test_a_lost_claim_can_not_write[file-rescued]",
    ),
    Fault(
        "last_write ignored",
        LIFECYCLE,
        "AND last_write < :write_no\nRETURNING last_seq, cancel_requested_at;",
        "AND (last_write < :write_no OR true)\nRETURNING last_seq, cancel_requested_at;",
        f"{CONFORMANCE}/test_fence.py::test_a_repeated_write_is_recorded_once[file]",
    ),
    Fault(
        "token kept at rescue",
        LIFECYCLE,
        "losses = losses + (cancel_requested_at IS NULL), worker_n = NULL, token = NULL,",
        "losses = losses + (cancel_requested_at IS NULL), worker_n = NULL,",
        f"{CONFORMANCE}/test_fence.py::test_a_lost_claim_can_not_repeat_what_it_wrote[file-rescued]",
    ),
    Fault(
        "token kept at a retry by hand",
        LIFECYCLE,
        "finished_at = NULL, cancel_requested_at = NULL, token = NULL,",
        "finished_at = NULL, cancel_requested_at = NULL,",
        f"{CONFORMANCE}/test_fence.py::"
        "test_a_repeated_finish_is_refused_once_the_job_was_retried_by_hand[file]",
    ),
    # Events.
    Fault(
        "an event omitted: due",
        "store/moves.py",
        '    tell(tx, moved, "pending", "due")\n',
        "",
        f"{CONFORMANCE}/test_upkeep.py::"
        "test_a_scheduled_job_is_promoted_when_its_time_has_come[file]",
    ),
    Fault(
        "an event omitted: rescue",
        "store/workers.py",
        "    moved = tell_own(tx, rows, error)\n",
        "    moved = [row[0] for row in rows]\n",
        f"{CONFORMANCE}/test_burial.py::test_a_dead_workers_jobs_are_pending_at_once[file]",
    ),
    Fault(
        "an event omitted where only the witness looks",
        "store/workers.py",
        "    return tell_own(tx, [row for (row,) in filter(None, rows)])\n",
        "    return [row[0] for (row,) in filter(None, rows)]\n",
        f"{CONFORMANCE}/test_fence.py::test_a_lost_claim_can_not_finish_the_job[file-given_back]",
    ),
    Fault(
        "events outside the transaction",
        "store/store.py",
        '        return self._commit("enqueue", lifecycle.enqueue, groups)\n',
        "        late = []\n"
        "        def without_events(tx):\n"
        "            rows = tx.rows\n"
        "            tx.rows = lambda name, /, **values: (\n"
        '                late.append(values) or [] if name == "created" else rows(name, **values)\n'
        "            )\n"
        "            return lifecycle.enqueue(tx, groups)\n"
        '        outcomes = self._commit("enqueue", without_events)\n'
        "        for values in late:\n"
        '            self._commit("events", lambda tx: tx.rows("created", **values))\n'
        "        return outcomes\n",
        "tests/engine/test_durability.py::test_no_commit_shows_a_change_without_its_event",
    ),
    Fault(
        "seq without its update: max(seq)",
        LIFECYCLE,
        "UPDATE benbi_jobs SET cancel_requested_at = :now, last_seq = last_seq + 1\n"
        "WHERE n IN (SELECT value FROM json_each(:ns)) AND state = 'running' "
        "AND cancel_requested_at IS NULL\nRETURNING n, last_seq, attempt;",
        "UPDATE benbi_jobs SET cancel_requested_at = :now\n"
        "WHERE n IN (SELECT value FROM json_each(:ns)) AND state = 'running' "
        "AND cancel_requested_at IS NULL\n"
        "RETURNING n, (SELECT max(seq) + 1 FROM benbi_events WHERE job_n = benbi_jobs.n), attempt;",
        f"{CONFORMANCE}/test_events.py::"
        "test_the_record_agrees_with_the_log_after_every_event[file]",
    ),
    Fault(
        "cursor by time",
        VIEWS,
        "SELECT e.position, j.id, e.seq, e.type, e.reason, e.attempt, e.at, e.data, j.owner\n"
        "FROM benbi_events AS e JOIN benbi_jobs AS j ON j.n = e.job_n\n"
        "WHERE e.position > :cursor",
        "SELECT e.at, j.id, e.seq, e.type, e.reason, e.attempt, e.at, e.data, j.owner\n"
        "FROM benbi_events AS e JOIN benbi_jobs AS j ON j.n = e.job_n\n"
        "WHERE e.at > :cursor",
        f"{CONFORMANCE}/test_events.py::"
        "test_a_stream_resumes_by_its_cursor_wherever_it_was_cut[file]",
    ),
    Fault(
        "cursor by job and seq",
        VIEWS,
        "WHERE e.position > :cursor AND (:owner IS NULL OR j.owner = :owner)\n"
        "ORDER BY e.position LIMIT :most;",
        "WHERE e.position > :cursor AND (:owner IS NULL OR j.owner = :owner)\n"
        "ORDER BY e.job_n, e.seq LIMIT :most;",
        f"{CONFORMANCE}/test_events.py::"
        "test_a_stream_resumes_by_its_cursor_wherever_it_was_cut[file]",
    ),
    Fault(
        "owner ignored",
        "store/views.py",
        "        if owner is None or owner == row[4]:\n",
        "        if True:\n",
        f"{CONFORMANCE}/test_views.py::test_foreign_and_missing_look_alike[file]",
    ),
    # Cancel.
    Fault(
        "cancel ignored at finish",
        LIFECYCLE,
        "SET state = CASE WHEN :live AND cancel_requested_at IS NOT NULL THEN 'canceled' "
        "ELSE :state END,\n"
        "    reason = CASE WHEN :live AND cancel_requested_at IS NOT NULL THEN 'requested' "
        "ELSE :reason END,\n"
        "    failures = failures + CASE WHEN :live AND cancel_requested_at IS NOT NULL THEN 0 "
        "ELSE :failures END,\n"
        "    run_at = CASE WHEN :delay IS NULL THEN run_at ELSE :now + :delay END,\n"
        "    finished_at = CASE WHEN :live AND cancel_requested_at IS NULL THEN NULL "
        "ELSE :now END,\n",
        "SET state = :state, reason = :reason, failures = failures + :failures,\n"
        "    cancel_requested_at = CASE WHEN :live THEN NULL ELSE cancel_requested_at END,\n"
        "    run_at = CASE WHEN :delay IS NULL THEN run_at ELSE :now + :delay END,\n"
        "    finished_at = CASE WHEN :live THEN NULL ELSE :now END,\n",
        f"{CONFORMANCE}/test_finish.py::"
        "test_a_cancel_that_came_meanwhile_wins_over_every_live_state[file-outcome2-brings2]",
    ),
    Fault(
        "cancel ignored where a claim is given back",
        LIFECYCLE,
        "SET state = CASE WHEN cancel_requested_at IS NULL THEN 'pending' ELSE 'canceled' END,\n"
        "    reason = CASE WHEN cancel_requested_at IS NULL THEN :reason ELSE 'requested' END,\n"
        "    finished_at = CASE WHEN cancel_requested_at IS NULL THEN NULL ELSE :at END,\n",
        "SET state = 'pending', reason = :reason, cancel_requested_at = NULL,\n"
        "    finished_at = CASE WHEN :now THEN NULL END,\n",
        f"{CONFORMANCE}/test_burial.py::test_a_cancel_wins_over_giving_back[file]",
    ),
    Fault(
        "cancel ignored at rescue",
        LIFECYCLE,
        "SET state = CASE WHEN cancel_requested_at IS NOT NULL THEN 'canceled'\n"
        "                 WHEN losses + 1 >= max_losses THEN 'failed'\n"
        "                 WHEN losses = 0 THEN 'pending'\n"
        "                 ELSE 'retrying' END,\n"
        "    reason = CASE WHEN cancel_requested_at IS NOT NULL THEN 'requested' "
        "ELSE 'lost' END,\n"
        "    finished_at = CASE WHEN cancel_requested_at IS NOT NULL "
        "OR losses + 1 >= max_losses THEN :now END,\n",
        "SET state = CASE WHEN losses + 1 >= max_losses THEN 'failed'\n"
        "                 WHEN losses = 0 THEN 'pending'\n"
        "                 ELSE 'retrying' END,\n"
        "    reason = 'lost', cancel_requested_at = NULL,\n"
        "    finished_at = CASE WHEN losses + 1 >= max_losses THEN :now END,\n",
        f"{CONFORMANCE}/test_burial.py::test_a_cancel_wins_over_the_rescue[file]",
    ),
    # Many at once.
    Fault(
        "only who waits for one of many canceled jobs is told",
        "store/moves.py",
        "        upstream.ended(tx, [row[0] for row in rows])\n",
        "        upstream.ended(tx, [row[0] for row in rows[:1]])\n",
        f"{CONFORMANCE}/test_bulk.py::test_the_children_of_canceled_parents_are_told[file]",
    ),
    Fault(
        "a page is not looked at again when it is moved",
        "store/moves.py",
        "if state in (None, its)]",
        "if state in (None, its, state)]",
        f"{CONFORMANCE}/test_bulk.py::test_what_left_the_state_meanwhile_is_left_alone[file]",
    ),
    Fault(
        "a retry of many goes on with jobs that came meanwhile",
        "store/sql/sqlite/bulk.sql",
        "AND n <= :last AND",
        "AND (n <= :last OR true) AND",
        f"{CONFORMANCE}/test_bulk.py::test_what_fails_again_at_once_is_retried_once[file]",
    ),
    # Dead and alive.
    Fault(
        "burial without a second look at the beat",
        LIFECYCLE,
        "SELECT 1 FROM benbi_workers WHERE n = :worker AND beat_no = :beat_no;",
        "SELECT 1 FROM benbi_workers WHERE n = :worker;",
        f"{CONFORMANCE}/test_burial.py::test_a_worker_that_beat_meanwhile_is_not_buried[file]",
    ),
    Fault(
        "a claim does not ask whether its worker lives",
        LIFECYCLE,
        "-- name: worker_alive\nSELECT 1 FROM benbi_workers WHERE n = :worker;",
        "-- name: worker_alive\nSELECT 1 WHERE :worker IS NOT NULL;",
        f"{CONFORMANCE}/test_claims.py::test_a_buried_worker_claims_nothing[file]",
    ),
    Fault(
        "beat judged by timestamp",
        LIFECYCLE,
        "SELECT n, beat_no FROM benbi_workers;\n\n-- name: bury\n"
        "-- Burial happens only where the counter still stands where the watcher saw it.\n"
        "SELECT 1 FROM benbi_workers WHERE n = :worker AND beat_no = :beat_no;",
        "SELECT n, beat_at FROM benbi_workers;\n\n-- name: bury\n"
        "SELECT 1 FROM benbi_workers WHERE n = :worker AND beat_at = :beat_no;",
        f"{CONFORMANCE}/test_burial.py::test_a_worker_that_beat_meanwhile_is_not_buried[file]",
    ),
    Fault(
        "beat judged by the time that passed, watched or not",
        "engine/upkeep.py",
        "            fresh = gap or known is None or known[0] != beat_no\n",
        "            fresh = known is None or known[0] != beat_no\n",
        "tests/engine/test_watch.py::test_a_watcher_that_paused_buries_nobody",
    ),
    Fault(
        "loss charged as failure",
        LIFECYCLE,
        "losses = losses + (cancel_requested_at IS NULL), worker_n = NULL,",
        "failures = failures + (cancel_requested_at IS NULL), worker_n = NULL,",
        f"{CONFORMANCE}/test_burial.py::test_a_dead_workers_jobs_are_pending_at_once[file]",
    ),
    Fault(
        "release charged",
        "outcome.py",
        '            return Decision("pending", reason, live=True)\n',
        '            return Decision("pending", reason, live=True, failures=1)\n',
        f"{CONFORMANCE}/test_finish.py::"
        "test_what_is_no_failure_charges_nothing[file-outcome0-pending-drain]",
    ),
    Fault(
        "a claim that nobody holds is charged",
        LIFECYCLE,
        "    worker_n = NULL, token = NULL, deadline_at = NULL, last_seq = last_seq + 1\n"
        "WHERE n = :n AND token = :token AND worker_n = :worker",
        "    worker_n = NULL, token = NULL, deadline_at = NULL, last_seq = last_seq + 1,\n"
        "    losses = losses + 1\n"
        "WHERE n = :n AND token = :token AND worker_n = :worker",
        f"{CONFORMANCE}/test_burial.py::test_a_claim_that_nobody_holds_goes_back_uncharged[file]",
    ),
    Fault(
        "several that lost a worker are claimed together",
        "store/lifecycle.py",
        "    if len(fragile) > 1:\n",
        "    if len(fragile) > 99:\n",
        f"{CONFORMANCE}/test_claims.py::"
        "test_of_jobs_that_lost_a_worker_one_is_claimed_at_a_time[file]",
    ),
    # Order and time.
    Fault(
        "priority ignored",
        LIFECYCLE,
        "ORDER BY rank, run_at, n\nLIMIT :most;",
        "ORDER BY run_at, n\nLIMIT :most;",
        f"{CONFORMANCE}/test_claims.py::test_priority_goes_first_however_many_wait_before_it[file]",
    ),
    Fault(
        "due ignored",
        LIFECYCLE,
        "WHERE state IN ('scheduled', 'retrying') AND run_at <= :now\n",
        "WHERE state IN ('scheduled', 'retrying') AND :now\n",
        f"{CONFORMANCE}/test_upkeep.py::"
        "test_a_scheduled_job_is_promoted_when_its_time_has_come[file]",
    ),
    Fault(
        "jobs that differ are stored as alike",
        "job.py",
        "        return self[2:]\n",
        "        return self[:0]\n",
        f"{CONFORMANCE}/test_enqueue.py::test_jobs_of_one_call_keep_what_tells_them_apart[file]",
    ),
    # Keys, answers, retention.
    Fault(
        "key checked before the insert",
        "store/store.py",
        '        return self._commit("enqueue", lifecycle.enqueue, groups)\n',
        "        def known(tx):\n"
        "            return [\n"
        '                [tx.rows("keyed", owner=j.owner, task=j.task, key=j.key) for j in group]\n'
        "                for group in groups\n"
        "            ]\n"
        '        there = self._commit("check", known)\n'
        '        self._commit("enqueue", lifecycle.enqueue, groups)\n'
        "        return [\n"
        "            [found[0][0] if found else job.id for job, found in zip(group, known)]\n"
        "            for group, known in zip(groups, there)\n"
        "        ]\n",
        f"{CONFORMANCE}/test_enqueue.py::test_one_key_twice_in_a_batch_is_one_job[file]",
    ),
    Fault(
        "the last answer wins",
        LIFECYCLE,
        "WHERE job_n = :n AND key = :key AND answered_at IS NULL\n",
        "WHERE job_n = :n AND key = :key\n",
        f"{CONFORMANCE}/test_questions.py::test_the_first_answer_wins[file]",
    ),
    Fault(
        "an answer that came first is a dead end",
        "store/lifecycle.py",
        "        go_on(tx, n)\n",
        "        pass\n",
        f"{CONFORMANCE}/test_questions.py::"
        "test_an_answer_that_came_while_the_job_asked_again_is_no_dead_end[file]",
    ),
    Fault(
        "live jobs are pruned",
        LIFECYCLE,
        "SELECT n, state IN ('completed', 'canceled', 'skipped', 'failed')\n"
        "          AND finished_at + coalesce(",
        "SELECT n, coalesce(finished_at, created_at) + coalesce(",
        f"{CONFORMANCE}/test_retention.py::test_a_live_job_is_never_removed[file-running]",
    ),
    Fault(
        "retention counts from the beginning",
        LIFECYCLE,
        "          AND finished_at + coalesce(",
        "          AND created_at + coalesce(",
        f"{CONFORMANCE}/test_retention.py::test_retention_counts_from_the_end[file]",
    ),
    # What is durable before what.
    Fault(
        "a step goes on before its record",
        "context.py",
        "                accepted = await ticket.outcome()\n",
        "                asyncio.ensure_future(ticket.outcome())\n"
        "                accepted = Accepted(False)\n",
        "tests/engine/test_durability.py::"
        "test_a_job_goes_on_only_after_its_record_is_durable[step]",
    ),
    Fault(
        "a slot is freed before its finish",
        "engine/slots.py",
        "        self._journal.finish(running.attempt, outcome, running.work.retry)\n",
        "        self._free(running.attempt, None)\n"
        "        self._journal.finish(running.attempt, outcome, running.work.retry)\n",
        "tests/engine/test_durability.py::test_a_slot_is_free_only_after_the_finish_is_durable",
    ),
    Fault(
        "accepted before the commit",
        "store/store.py",
        "        return await self._batcher.put(_lane(jobs), jobs, _size(jobs))\n",
        "        asyncio.ensure_future(self._batcher.put(_lane(jobs), jobs, _size(jobs)))\n"
        "        return [job.id for job in jobs]\n",
        "tests/engine/test_durability.py::test_enqueue_returns_only_after_the_commit",
    ),
    Fault(
        "a hint is given before the commit",
        "store/store.py",
        "            outcome = move(tx, *args, **kwargs)\n",
        "            outcome = move(tx, *args, **kwargs)\n"
        "            for hint in self.on_commit:\n                hint()\n",
        "tests/engine/test_durability.py::test_a_hint_is_given_only_after_the_commit",
    ),
    Fault(
        "a claim comes to several outcomes",
        "engine/attempt.py",
        "        first, self._ended = not self._ended, True\n",
        "        first, self._ended = True, True\n",
        "tests/engine/test_durability.py::test_a_claim_comes_to_exactly_one_outcome",
    ),
    # Waiting for other jobs.
    Fault(
        "a finish does not release what waits",
        "store/lifecycle.py",
        "    upstream.ended(tx, gone)\n",
        "",
        f"{CONFORMANCE}/test_upstream.py::test_the_last_one_to_end_releases_it_at_once[file]",
    ),
    Fault(
        "a rescue that ends a job tells nobody",
        "store/moves.py",
        "    upstream.ended(tx, [row[0] for row in rows if row[3] in FINAL])\n",
        "",
        f"{CONFORMANCE}/test_upstream.py::"
        "test_every_way_to_end_is_told_to_who_waits[file-lost-failed]",
    ),
    Fault(
        "canceled counts as skipped",
        UPSTREAM,
        "WHEN 'skipped' THEN 'skipped' ELSE 'failed' END",
        "WHEN 'failed' THEN 'failed' ELSE 'skipped' END",
        f"{CONFORMANCE}/test_upstream.py::"
        "test_every_way_to_end_is_told_to_who_waits[file-canceled-failed]",
    ),
    Fault(
        "a parent that has ended is not counted at an enqueue",
        "store/linked.py",
        "upstream.begin(self._tx, self._waiting, list(self._ended))",
        "upstream.begin(self._tx, self._waiting, [])",
        f"{CONFORMANCE}/test_upstream.py::test_parents_that_have_ended_are_counted_at_once[file]",
    ),
    Fault(
        "another owner's job may be waited for",
        "store/linked.py",
        "                if owner == job.owner:\n",
        "                if True:\n",
        f"{CONFORMANCE}/test_upstream.py::test_a_missing_or_foreign_parent_is_refused_whole[file]",
    ),
    Fault(
        "a cascade that was cut is forgotten",
        "store/upstream.py",
        '            tx.rows("leave_unsettled", ns=_listed([*level, *gone]))\n',
        "",
        f"{CONFORMANCE}/test_upstream.py::"
        "test_a_fan_out_beyond_one_transaction_goes_on_in_upkeep[file]",
    ),
    Fault(
        "a retry by hand leaves what failed with the job",
        "store/moves.py",
        "    return upstream.reopen(tx, n)\n",
        "    return 0 * n\n",
        f"{CONFORMANCE}/test_upstream.py::"
        "test_a_retried_parent_takes_along_what_failed_with_it[file]",
    ),
    Fault(
        "a retry by hand takes back what ran",
        UPSTREAM,
        "       OR c.state = 'failed' AND c.reason = 'upstream_failed');",
        "       OR c.state IN ('failed', 'completed'));",
        f"{CONFORMANCE}/test_upstream.py::test_a_child_that_ran_has_had_its_answer[file]",
    ),
    Fault(
        "cancel ignored where a job begins to wait",
        UPSTREAM,
        "SET state = CASE WHEN cancel_requested_at IS NULL THEN 'waiting' ELSE 'canceled' END,\n"
        "    reason = CASE WHEN cancel_requested_at IS NULL THEN :reason ELSE 'requested' END,\n"
        "    waits_for = CASE WHEN cancel_requested_at IS NULL THEN 'upstream' END,\n"
        "    finished_at = CASE WHEN cancel_requested_at IS NULL THEN NULL ELSE :now END,\n",
        "SET state = 'waiting', reason = :reason, waits_for = 'upstream',\n"
        "    cancel_requested_at = NULL, finished_at = CASE WHEN :now IS NULL THEN :now END,\n",
        f"{CONFORMANCE}/test_upstream.py::test_a_cancel_wins_over_waiting[file]",
    ),
    Fault(
        "a canceled job adds jobs",
        "store/lifecycle.py",
        "    if item.adds and canceled:\n",
        "    if item.adds and not item.claim.n:\n",
        f"{CONFORMANCE}/test_upstream.py::test_a_canceled_job_adds_nothing[file]",
    ),
    Fault(
        "how a job ended is looked up again on each replay",
        "waiting.py",
        "        if found is None or found.result is None:\n"
        "            return None\n"
        "        return codec_for(Waited)",
        "        if found is None or found.result:\n"
        "            return None\n"
        "        return codec_for(Waited)",
        "tests/walk/test_19_waiting.py::test_how_a_job_ended_is_recorded",
    ),
    # Replay.
    Fault(
        "a changed step passes for the recorded one",
        "engine/attempt.py",
        "        if found.fingerprint != fingerprint:\n",
        "        if not fingerprint:\n",
        "tests/engine/test_replay.py::test_another_function_under_one_step_name_is_noticed",
    ),
    Fault(
        "the first run sees another type than the replay",
        "context.py",
        "                    await self._written(events=[told], steps=[record], size=len(text))\n"
        "                    return step.codec.decode(text)\n",
        "                    await self._written(events=[told], steps=[record], size=len(text))\n"
        "                    return value\n",
        "tests/engine/test_replay.py::test_first_run_and_replay_see_one_type",
    ),
    # Operations.
    Fault(
        "a paused queue is claimed from",
        LIFECYCLE,
        "(SELECT 1 FROM benbi_queues AS q WHERE q.name = :queue))",
        "(SELECT 1 FROM benbi_queues AS q WHERE q.name = :queue AND false))",
        f"{CONFORMANCE}/test_queues.py::"
        "test_a_paused_queue_gives_nothing_until_it_is_resumed[file]",
    ),
    Fault(
        "a look sees what is paused",
        VIEWS,
        "WHERE value NOT IN (SELECT name FROM benbi_queues)",
        "WHERE value NOT IN (SELECT name FROM benbi_queues) OR true",
        f"{CONFORMANCE}/test_queues.py::"
        "test_a_paused_queue_gives_nothing_until_it_is_resumed[file]",
    ),
    Fault(
        "the pause is asked for at each pending row",
        LIFECYCLE,
        "queue = (SELECT :queue WHERE NOT EXISTS "
        "(SELECT 1 FROM benbi_queues AS q WHERE q.name = :queue))",
        "queue = :queue AND NOT EXISTS (SELECT 1 FROM benbi_queues AS q WHERE q.name = :queue)",
        "tests/databases/test_fleet.py::test_the_jobs_of_a_paused_queue_are_not_walked",
    ),
    Fault(
        "a second pause takes the place of the first",
        FLEET,
        "ON CONFLICT (name) DO NOTHING",
        "ON CONFLICT (name) DO UPDATE SET paused_by = excluded.paused_by",
        f"{CONFORMANCE}/test_queues.py::test_who_paused_it_first_stays_named[file]",
    ),
    Fault(
        "a job waits only since it was promoted",
        FLEET,
        "THEN min(p.at, j.run_at) ELSE p.at END",
        "THEN p.at ELSE p.at END",
        f"{CONFORMANCE}/test_stats.py::test_a_job_waits_from_its_due_time[file]",
    ),
    Fault(
        "a percentile of too low a rank",
        "store/stats.py",
        "-(-total * share // 100)",
        "max(1, total * share // 100)",
        f"{CONFORMANCE}/test_stats.py::test_every_figure_is_that_of_a_plain_computation[file-0]",
    ),
    Fault(
        "a silent worker passes for a live one",
        "store/facts.py",
        "for n, worker in self.workers.items() if not worker.silent}",
        "for n, worker in self.workers.items()}",
        f"{CONFORMANCE}/test_explain.py::test_no_live_worker_at_all[file]",
    ),
    Fault(
        "an owner is told of foreign jobs",
        "store/facts.py",
        "            if self.owner in (None, owner)\n",
        "",
        f"{CONFORMANCE}/test_explain.py::test_an_owner_is_told_nothing_of_others[file]",
    ),
    # Schedules.
    Fault(
        "a tick is taken by everybody who saw it",
        SCHEDULES,
        "AND last_tick = :last_tick AND paused_at IS NULL\n",
        "AND (last_tick = :last_tick OR true) AND paused_at IS NULL\n",
        f"{CONFORMANCE}/test_schedules.py::test_a_tick_is_one_job_however_many_saw_it[file]",
    ),
    Fault(
        "a paused schedule fires for who has looked already",
        SCHEDULES,
        "AND last_tick = :last_tick AND paused_at IS NULL\n",
        "AND last_tick = :last_tick\n",
        f"{CONFORMANCE}/test_schedules.py::test_a_pause_wins_over_who_has_looked_already[file]",
    ),
    Fault(
        "two releases fire both",
        SCHEDULES,
        "WHERE name = :name AND version = :version AND last_tick = :last_tick",
        "WHERE name = :name AND (version = :version OR true) AND last_tick = :last_tick",
        f"{CONFORMANCE}/test_schedules.py::"
        "test_the_older_release_does_not_fire_what_it_saw_before[file]",
    ),
    Fault(
        "a resume makes up for the pause",
        SCHEDULES,
        "CASE WHEN paused_at IS NULL THEN last_tick ELSE max(last_tick, :now) END",
        "CASE WHEN :now THEN last_tick END",
        f"{CONFORMANCE}/test_schedules.py::test_a_paused_schedule_makes_no_jobs[file]",
    ),
    Fault(
        "other times make up for what was before them",
        SCHEDULES,
        "                     ELSE max(last_tick, seen_at) END,",
        "                     ELSE last_tick END,",
        f"{CONFORMANCE}/test_schedules.py::"
        "test_a_schedule_of_other_times_makes_up_for_nothing_before_it[file]",
    ),
    Fault(
        "a definition that nobody holds stays for good",
        "engine/schedule.py",
        "        return now - known[1] >= UNSEEN\n",
        "        return False\n",
        f"{CONFORMANCE}/test_schedules.py::"
        "test_where_the_newer_release_is_gone_the_older_fires_again[file]",
    ),
    Fault(
        "one schedule's fault is everybody's",
        "engine/schedule.py",
        "            except Exception:\n",
        "            except KeyboardInterrupt:\n",
        f"{CONFORMANCE}/test_schedules.py::test_one_that_fails_does_not_keep_the_others[file]",
    ),
    Fault(
        "the latest of what was missed is made where none is wanted",
        "engine/schedule.py",
        'wanted = self.catchup == "latest" or now - latest <= LATE',
        'wanted = self.catchup != "all"',
        f"{CONFORMANCE}/test_schedules.py::"
        "test_what_was_missed_while_nobody_was_there[file-none-expected2]",
    ),
    Fault(
        "a change of the clocks is not looked for",
        TICKS,
        "            change = self._change(moment, found)\n",
        "            change = None\n",
        "tests/engine/test_ticks.py::test_a_star_in_a_named_hour_comes_never_or_twice",
    ),
    Fault(
        "time runs back in the repeated hour",
        TICKS,
        "            if found > moment:\n",
        "            if found:\n",
        "tests/engine/test_ticks.py::test_in_the_repeated_hour_time_does_not_run_back",
    ),
    # Resources, and what is around attempts.
    Fault(
        "each use opens a resource of its own",
        "engine/resources.py",
        "            kept = self._kept[key] = _Kept(key[0], self._loop)\n",
        "            kept = _Kept(key[0], self._loop)\n",
        "tests/engine/test_resources.py::test_many_first_uses_share_one_opening",
    ),
    Fault(
        "resources close in the order in which they were opened",
        "engine/resources.py",
        "        for kept in reversed(self._open):\n",
        "        for kept in list(self._open):\n",
        "tests/engine/test_resources.py::test_each_kind_is_opened_and_closed_the_last_one_first",
    ),
    Fault(
        "an opening that failed is remembered",
        "engine/resources.py",
        "            self._kept.pop(key, None)\n",
        "            pass\n",
        "tests/engine/test_resources.py::test_an_opening_that_fails_is_tried_again_by_the_next_use",
    ),
    Fault(
        "a canceled attempt cancels an opening that others wait for",
        "engine/resources.py",
        "        await asyncio.wait([kept.opened])\n        return kept.opened.result()\n",
        "        return await kept.opened\n",
        "tests/engine/test_resources.py::test_a_canceled_attempt_takes_no_opening_with_it",
    ),
    Fault(
        "an override outlives its block",
        "hooks.py",
        "            self._overrides = kept\n",
        "            pass\n",
        "tests/engine/test_resources.py::test_an_override_ends_with_its_block_and_nests",
    ),
    Fault(
        "what is around makes a success of a failure",
        "engine/around.py",
        "    if failed is not None:\n        raise failed\n",
        "",
        "tests/engine/test_around.py::"
        "test_an_error_that_is_swallowed_is_the_failure_all_the_same[async-error0]",
    ),
    Fault(
        "a cancel does not reach what is around",
        "engine/around.py",
        "            attempt.body = attempt.task\n",
        "            attempt.body = None\n",
        "tests/engine/test_around.py::test_a_cancel_reaches_what_is_around[after-async]",
    ),
    # What users test with.
    Fault(
        "advance leaps to its end",
        "testing/in_memory.py",
        "                self.clock.move_to(_EPOCH + timedelta(microseconds=due))\n",
        "                self.clock.move_to(end.now)\n",
        "tests/engine/test_testing.py::test_the_clock_goes_from_one_due_moment_to_the_next",
    ),
    Fault(
        "a test looks idle while a job is claimed",
        "store/workers.py",
        "    return not pending and not held(view, worker) and",
        "    return not pending and",
        "tests/engine/test_testing.py::test_it_is_not_idle_while_a_job_runs",
    ),
    Fault(
        "a test leaves its app changed",
        "testing/in_memory.py",
        "        vars(app).clear()\n        vars(app).update(before)\n",
        "",
        "tests/engine/test_testing.py::test_the_app_is_as_it_was_afterwards",
    ),
    Fault(
        "a plain call refuses nothing that a worker refuses",
        "testing/rehearsal.py",
        'codec.decode(codec.encode(value, f"the prepared answer to {question!r}"))',
        "value",
        "tests/engine/test_testing.py::test_the_rules_of_recording_hold_in_a_plain_call",
    ),
    # Files and logs.
    Fault(
        "a save is written again on replay",
        "engine/saving.py",
        "    if found is None:\n        return Use(name, identity)\n",
        "    if found is None or found:\n        return Use(name, identity)\n",
        "tests/walk/test_23_artifacts.py::test_a_file_is_saved_once",
    ),
    Fault(
        "a name is saved twice",
        "engine/uses.py",
        "            return self._saved.setdefault(name, identity) == identity\n",
        "            return self._saved.setdefault(name, identity) is not None\n",
        "tests/walk/test_23_artifacts.py::test_a_name_means_one_content",
    ),
    Fault(
        "what a lost claim wrote is left",
        "engine/saving.py",
        "        if isinstance(error, ClaimLost | Abandon):\n",
        "        if isinstance(error, Abandon):\n",
        "tests/engine/test_saving.py::test_a_lost_claim_shows_no_file_and_leaves_none",
    ),
    Fault(
        "the sweep takes a file from a save under way",
        "store/files.py",
        "            if not _locked(fd) or is_recorded():\n",
        "            if is_recorded():\n",
        "tests/engine/test_saving.py::test_the_sweep_leaves_a_save_under_way_alone",
    ),
    Fault(
        "the sweep does not ask again once it has the lock",
        "store/files.py",
        "            if not _locked(fd) or is_recorded():\n",
        "            if not _locked(fd):\n",
        "tests/engine/test_saving.py::test_the_sweep_asks_again_once_it_has_the_lock",
    ),
    Fault(
        "retention leaves the files",
        "engine/upkeep.py",
        "        if stretch.files:\n",
        "        if stretch.files and not stretch.removed:\n",
        "tests/engine/test_saving.py::test_retention_removes_the_files_of_a_job_with_it",
    ),
    Fault(
        "the log of an attempt grows without end",
        "engine/joblog.py",
        "self._fill >= KEPT_BYTES:\n",
        "self._fill >= 100 * KEPT_BYTES:\n",
        "tests/engine/test_joblog.py::test_what_is_written_in_many_turns_is_bounded_as_well",
    ),
    Fault(
        "lines that wait to be written grow without end",
        "engine/joblog.py",
        "            while self._bytes > KEPT_BYTES and",
        "            while self._bytes > 100 * KEPT_BYTES and",
        "tests/engine/test_joblog.py::test_what_waits_to_be_written_is_bounded",
    ),
    Fault(
        "the last lines of an attempt are not written",
        "store/lifecycle.py",
        "        if item.events or item.steps or item.also or item.progress is not None:\n",
        "        if item.events or item.steps or item.progress is not None:\n",
        "tests/walk/test_24_logs.py::test_the_log_of_a_job",
    ),
    # Secrets.
    Fault(
        "a secret is stored as it is",
        "sealing.py",
        "    shown = data | dict.fromkeys(taken, MASK) | {SEALED: token}\n",
        "    shown = data | {SEALED: token}\n",
        "tests/walk/test_25_secrets.py::test_a_secret_is_encrypted_at_rest",
    ),
    Fault(
        "a message is cut before its secrets are hidden",
        "engine/failure.py",
        "        return hide(str(error))[:MESSAGE_CHARACTERS]\n",
        "        return hide(str(error)[:MESSAGE_CHARACTERS])\n",
        "tests/engine/test_secrets.py::test_a_job_that_fails_tells_nothing[True]",
    ),
    Fault(
        "a refusal repeats what a validator said of a secret",
        "codec.py",
        'if path and path[0] in self.secrets and problem != "missing":',
        'if path and path[0] not in self.secrets and problem == "missing":',
        "tests/engine/test_secrets.py::test_a_refusal_tells_nothing",
    ),
    Fault(
        "a hash of a secret can be computed by anybody",
        "engine/enqueue.py",
        "        digest = None if digest is None else keyed_hash(task, digest)\n",
        "        digest = None if digest is None else bytes(digest)\n",
        "tests/engine/test_secrets.py::test_a_short_secret_can_not_be_found_by_trying",
    ),
    # Processes.
    Fault(
        "a process that died is not buried",
        "cli/supervisor.py",
        "        if child.mark and not child.done(code):\n",
        "        if not child.mark and not child.done(code):\n",
        "tests/crash/test_supervisor.py::test_a_worker_that_is_killed_is_buried",
    ),
    Fault(
        "an exit with 0 is a clean end, whoever makes it",
        "cli/worker_process.py",
        "        return code == exits.DONE == self.ends\n",
        "        return code == exits.DONE\n",
        "tests/crash/test_supervisor.py::test_a_task_that_exits_with_0_has_crashed",
    ),
    Fault(
        "nobody ends what a dead process has started",
        "processes/sentinel.py",
        "            os.killpg(group, signal.SIGKILL)\n",
        "            os.killpg(group, 0)\n",
        "tests/engine/test_isolation.py::test_a_sentinel_ends_what_its_process_left_behind",
    ),
    Fault(
        "the grace of a child does not end",
        "engine/children.py",
        "        timers.append(loop.call_later(grace, kill_group, child.pid))\n",
        "        timers.append(loop.call_later(grace, bool, child.pid))\n",
        "tests/engine/test_isolation.py::"
        "test_a_cancel_kills_what_does_not_stop_with_all_it_started",
    ),
    Fault(
        "the death of a child is charged as a failure",
        "outcome.py",
        '        return Decision("pending", "lost", live=True, data=record, losses=1)\n',
        '        return Decision("pending", "lost", live=True, data=record, failures=1)\n',
        "tests/engine/test_isolation.py::test_a_loss_is_charged_as_for_a_dead_worker[0-pending]",
    ),
    Fault(
        "a child may say anything to the database",
        "engine/frames.py",
        "    if _LOG.get(statement) != {name: type(value) for name, value in values.items()}:\n",
        "    if not statement:\n",
        "tests/engine/test_isolation.py::"
        "test_a_child_says_nothing_but_log_lines_to_the_database[said0]",
    ),
    Fault(
        "what a child logs last is not kept",
        "engine/attempt.py",
        "            self._adopted = tuple(rest.also)\n",
        "            self._adopted = ()\n",
        "tests/engine/test_isolation.py::test_a_secret_reaches_a_child_and_is_hidden_there",
    ),
    Fault(
        "a secret stands in the log lines of a child",
        "isolated.py",
        "    watch(current)\n",
        "    bool(current)\n",
        "tests/engine/test_isolation.py::test_a_secret_reaches_a_child_and_is_hidden_there",
    ),
    Fault(
        "a loss is charged nowhere",
        LIFECYCLE,
        "    losses = losses + CASE WHEN :live AND cancel_requested_at IS NOT NULL THEN 0 "
        "ELSE :losses END,\n",
        "    losses = losses + CASE WHEN :live AND cancel_requested_at IS NOT NULL THEN 0 "
        "ELSE 0 * :losses END,\n",
        f"{CONFORMANCE}/test_finish.py::test_a_loss_of_a_claim_is_charged_and_told[file]",
    ),
    # PostgreSQL: what row locks are for. (SQLite's writers are serial.)
    Fault(
        "no SKIP LOCKED: claims wait for each other and take what the other took",
        f"{ON_SERVER}/lifecycle.sql",
        """ORDER BY rank, run_at, n
LIMIT :most
FOR NO KEY UPDATE SKIP LOCKED;""",
        """ORDER BY rank, run_at, n
LIMIT :most;""",
        "tests/databases/test_postgresql.py::test_claims_pass_over_what_another_is_claiming",
    ),
    Fault(
        "the mark of claims is never taken back",
        "engine/marks.py",
        "        if time.monotonic() - self._started_at >= FROM_THE_START_SECONDS:\n",
        "        if self._started_at < 0:\n",
        "tests/databases/test_postgresql.py"
        "::test_a_job_that_becomes_the_first_does_not_wait_for_the_end_of_a_backlog",
    ),
    Fault(
        "burial without the worker's lock on a server",
        f"{ON_SERVER}/lifecycle.sql",
        "WHERE n = :worker AND beat_no = :beat_no FOR UPDATE;",
        "WHERE n = :worker AND beat_no = :beat_no;",
        "tests/databases/test_postgresql.py"
        "::test_a_burial_waits_for_the_claim_under_way_and_takes_what_it_took",
    ),
    Fault(
        "no lock at an edge on a server",
        f"{ON_SERVER}/upstream.sql",
        "WHERE id = encode(:id, 'hex')::uuid FOR SHARE;",
        "WHERE id = encode(:id, 'hex')::uuid;",
        "tests/databases/test_postgresql.py::test_an_edge_and_the_end_of_its_parent_meet",
    ),
    Fault(
        "cursor by position on a server",
        f"{ON_SERVER}/views.sql",
        """  AND e.xid < pg_snapshot_xmin(pg_current_snapshot())
""",
        "",
        "tests/databases/test_postgresql.py::test_what_commits_late_is_not_skipped",
    ),
    Fault(
        "an event before one that its own transaction could see",
        f"{ON_SERVER}/lifecycle.sql",
        "greatest(pg_current_xact_id(), (SELECT e.xid FROM benbi.events AS e WHERE e.job_n = j.n\n",
        "coalesce(pg_current_xact_id(), (SELECT e.xid FROM benbi.events AS e WHERE e.job_n = j.n\n",
        "tests/databases/test_postgresql.py::test_a_stream_has_the_events_of_a_job_in_their_order",
    ),
    Fault(
        "retention takes a job that is being retried on a server",
        f"{ON_SERVER}/lifecycle.sql",
        "ORDER BY j.n FOR UPDATE OF j SKIP LOCKED)",
        "ORDER BY j.n)",
        "tests/databases/test_postgresql.py::test_retention_leaves_a_job_that_is_being_retried",
    ),
    Fault(
        "a hint is given before the commit on a server",
        "store/store.py",
        "            outcome = move(tx, *args, **kwargs)\n",
        "            outcome = move(tx, *args, **kwargs)\n"
        "            for hint in self.on_commit:\n                hint()\n",
        "tests/databases/test_postgresql.py"
        "::test_no_other_process_is_told_of_a_job_before_its_commit",
    ),
    Fault(
        "a refusal at the commit costs a connection",
        "store/postgresql/pipeline.py",
        "        if not self._ending:\n",
        "        if self._ending or self.open:\n",
        "tests/databases/test_postgresql.py::test_a_refusal_at_the_commit_costs_no_connection",
    ),
    # What only an order of two moves' statements shows.
    Fault(
        "a cancel looks twice, and each time elsewhere",
        f"{ON_SERVER}/lifecycle.sql",
        "ORDER BY n FOR NO KEY UPDATE;\n\n-- name: cancel",
        "ORDER BY n;\n\n-- name: cancel",
        f"{INTERLEAVED}[running: retry after failure, cancel]",
    ),
    Fault(
        "an answer takes the question before its job",
        "store/moves.py",
        "    state = hold(tx, [job.n]).get(job.n, job.state)\n",
        "    state = job.state\n",
        f"{INTERLEAVED}[asking: answer, expire]",
    ),
    Fault(
        "a worker signs off beside its own claim",
        f"{ON_SERVER}/lifecycle.sql",
        "SELECT 1 FROM benbi.workers WHERE n = :worker FOR UPDATE;",
        "SELECT 1 FROM benbi.workers WHERE n = :worker;",
        f"{INTERLEAVED}[pending: claim, sign off]",
    ),
    Fault(
        "a run is joined without a lock",
        f"{ON_SERVER}/upstream.sql",
        "WHERE id = encode(:id, 'hex')::uuid FOR KEY SHARE;",
        "WHERE id = encode(:id, 'hex')::uuid;",
        f"{INTERLEAVED}[over: enqueue in run, prune]",
    ),
    Fault(
        "two that remove the last jobs of a run leave it behind",
        f"{ON_SERVER}/upstream.sql",
        "ORDER BY n FOR UPDATE SKIP LOCKED)\nSELECT found.n",
        "ORDER BY n)\nSELECT found.n",
        f"{INTERLEAVED}[over: prune, prune what follows]",
    ),
    Fault(
        "a key that retention frees gives a job that is not there",
        "store/lifecycle.py",
        "        found = keyed(tx, job)\n",
        "        found = keyed(tx, job) or job.id\n",
        f"{INTERLEAVED}[over: enqueue with key, prune]",
    ),
    Fault(
        "an edge is counted by each who finds it",
        f"{ON_SERVER}/upstream.sql",
        "\n    FOR SHARE OF p FOR UPDATE OF e)",
        ")",
        f"{INTERLEAVED}[unsettled: enqueue after, enqueue after]",
    ),
    Fault(
        "two releases block each other when they begin",
        "store/schedules.py",
        "    for definition in sorted(definitions):\n",
        "    for definition in definitions:\n",
        f"{INTERLEAVED}[unscheduled: register schedules, register schedules]",
    ),
]
