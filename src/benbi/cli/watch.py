"""Follows one job: events as they come, a live bar on a terminal, the result at the end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, Protocol

from benbi.cli import documents, exits

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from benbi import Benbi
    from benbi.cli.options import Common
    from benbi.job import Event, Job

# How long one look may wait for news; news end it at once.
_LOOK: Final = 10.0


class View(Protocol):
    """Where a watched job is shown."""

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def event(self, entry: Event) -> None: ...
    def update(self, job: Job) -> None: ...
    def end(self, job: Job, result: Any) -> None: ...


class JsonLines:
    """One JSON document a line: each event, then ``{"type": "end", "job": …, "result": …}``."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def event(self, entry: Event) -> None:
        documents.write(documents.event_document(entry))

    def update(self, job: Job) -> None: ...

    def end(self, job: Job, result: Any) -> None:
        documents.write({"type": "end", "job": documents.job_document(job), "result": result})


class Watch:
    """Follows one job; ``seen`` is the number of the last event shown."""

    def __init__(self, common: Common, *, after: int = 0) -> None:
        self.job_id = ""
        self.seen = after
        self.view = JsonLines() if common.as_json else _live()

    async def follow(self, app: Benbi, job_id: str) -> Job:
        """Shows the job until it is final and returns its record."""
        job = await app.get(job_id)
        self.job_id = job.id
        self.view.start()
        while True:
            await self._show_events(app)
            if self.seen > job.seq:
                job = await app.get(job.id)
            self.view.update(job)
            if job.final and self.seen >= job.seq:
                break
            job = await app.wait_for_change(job.id, after=self.seen, timeout=_LOOK)
        self.view.end(job, documents.parsed(await app.result_json(job.id)))
        return job

    async def _show_events(self, app: Benbi) -> None:
        while found := await app.events(self.job_id, after=self.seen):
            for entry in found:
                self.view.event(entry)
                self.seen = entry.seq

    def goes_on(self) -> str:
        """What to tell who stops watching: the job does not stop with them."""
        again = f"benbi jobs watch {self.job_id} --after {self.seen}"
        return f"job {self.job_id} goes on; see the rest with {again}"


def until_end(watch: Watch, following: Coroutine[Any, Any, Job], timeout: float | None) -> int:
    """Runs ``following`` and returns the exit code that tells how the job ended."""

    async def limited() -> Job:
        return await asyncio.wait_for(following, timeout)

    try:
        job = asyncio.run(limited())
    except TimeoutError:
        watch.view.stop()
        exits.tell(f"time is over; {watch.goes_on()}")
        return exits.TIME_IS_OVER
    except KeyboardInterrupt:
        watch.view.stop()
        exits.tell(watch.goes_on() if watch.job_id else "interrupted")
        return exits.INTERRUPTED
    finally:
        watch.view.stop()
    return exits.code_for_state(job.state)


def _live() -> View:
    from benbi.cli.live import Live

    return Live()
