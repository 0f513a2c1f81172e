"""Moves of all jobs that filters choose, for operators: cancel and retry, many at once."""

from __future__ import annotations

from benbi.errors import Refused
from benbi.loops import refuse_in_loop
from benbi.operations import Operations
from benbi.store import bulk
from benbi.store.bulk import Again, Filters
from benbi.store.runs import NEWEST


class Bulk(Operations):
    """``cancel`` and ``retry`` for all jobs that the filters of ``jobs`` choose."""

    async def cancel_many(
        self,
        *,
        owner: str | None = None,
        state: str | None = None,
        task: str | None = None,
        queue: str | None = None,
        reason: str | None = None,
        dry_run: bool = False,
    ) -> int:
        """Cancels all jobs of these filters that have not ended, each as ``cancel`` does it; the
        number of those that it changed. Refused without a filter.

        It works in transactions of 200 jobs, newest first, on those that were there when it
        began. What leaves ``state`` meanwhile is left alone. ``dry_run``: only counts them.
        """
        filters, before, changed = _filters(owner, state, task, queue), NEWEST, 0
        why = reason or "requested"
        while ns := await self.store.read(bulk.live, filters, before):
            before = ns[-1]
            if dry_run:
                changed += len(ns)
            else:
                changed += await self.store.write(bulk.cancel, ns, state, why)
        return changed

    def cancel_many_sync(
        self,
        *,
        owner: str | None = None,
        state: str | None = None,
        task: str | None = None,
        queue: str | None = None,
        reason: str | None = None,
        dry_run: bool = False,
    ) -> int:
        refuse_in_loop("cancel_many")
        filters, before, changed = _filters(owner, state, task, queue), NEWEST, 0
        why = reason or "requested"
        while ns := self.store.read_sync(bulk.live, filters, before):
            before = ns[-1]
            if dry_run:
                changed += len(ns)
            else:
                changed += self.store.write_sync(bulk.cancel, ns, state, why)
        return changed

    async def retry_many(
        self,
        *,
        owner: str | None = None,
        state: str | None = None,
        task: str | None = None,
        queue: str | None = None,
        fresh: bool = False,
        dry_run: bool = False,
    ) -> int:
        """Runs all failed, canceled and skipped jobs of these filters again, each as ``retry``
        does it; the number of those. Refused without a filter.

        As ``cancel_many``, but oldest first: what failed with another job of these waits for it
        again and is not counted.
        """
        filters, after, changed = _filters(owner, state, task, queue), 0, 0
        last = await self.store.read(bulk.newest)
        while found := await self.store.read(bulk.ended, filters, after, last):
            if dry_run:
                changed, after = changed + len(found), found[-1].n
                continue
            page = [Again(job.n, *self.budgets(job)) for job in found]
            step = await self.store.write(bulk.again, page, state, fresh)
            changed, after = changed + step.changed, step.reached
        return changed

    def retry_many_sync(
        self,
        *,
        owner: str | None = None,
        state: str | None = None,
        task: str | None = None,
        queue: str | None = None,
        fresh: bool = False,
        dry_run: bool = False,
    ) -> int:
        refuse_in_loop("retry_many")
        filters, after, changed = _filters(owner, state, task, queue), 0, 0
        last = self.store.read_sync(bulk.newest)
        while found := self.store.read_sync(bulk.ended, filters, after, last):
            if dry_run:
                changed, after = changed + len(found), found[-1].n
                continue
            page = [Again(job.n, *self.budgets(job)) for job in found]
            step = self.store.write_sync(bulk.again, page, state, fresh)
            changed, after = changed + step.changed, step.reached
        return changed


def _filters(owner: str | None, state: str | None, task: str | None, queue: str | None) -> Filters:
    filters = Filters(owner, state, task, queue)
    if all(value is None for value in filters):
        raise Refused("which jobs? give owner=, state=, task= or queue=; all of them is no choice")
    return filters
