"""A handle on one job: what ``enqueue`` returns. It holds an id and asks the app for the rest."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from benbi.engine.attempt import refuse_inside_a_job
from benbi.errors import JobCanceled, JobFailed, JobSkipped
from benbi.job import Event, Job
from benbi.loops import refuse_in_loop

if TYPE_CHECKING:
    from benbi.codec import Codec
    from benbi.operations import Operations

R = TypeVar("R", covariant=True)


class JobHandle(Generic[R]):
    """One job. ``id`` is its public id, a UUID as text; ``R`` is what its task returns."""

    def __init__(self, app: Operations, job_id: str, codec: Codec[Any] | None) -> None:
        self.id = job_id
        self._app = app
        self._codec = codec

    def __repr__(self) -> str:
        return f"JobHandle({self.id!r})"

    async def get(self) -> Job:
        """The job's record as it is now."""
        return await self._app.get(self.id)

    def get_sync(self) -> Job:
        return self._app.get_sync(self.id)

    async def result(self, timeout: float | None = None) -> R:
        """Waits for the end and returns the result, decoded.

        Raises JobFailed, JobCanceled, JobSkipped; TimeoutError after ``timeout`` seconds;
        UseWait inside a job, whose slot would be held while it waits: there it is ctx.wait(job).
        """
        refuse_inside_a_job("job.result()")
        async with asyncio.timeout(timeout):
            job = await self.get()
            while not job.final:
                job = await self._app.wait_for_change(self.id, after=job.seq, timeout=60)
        return self.outcome(job, await self._app.result_json(self.id))

    def result_sync(self, timeout: float | None = None) -> R:
        """The same from a thread."""
        refuse_inside_a_job("job.result()")
        refuse_in_loop("result")
        deadline = None if timeout is None else time.monotonic() + timeout
        job = self.get_sync()
        while not job.final:
            left = 60.0 if deadline is None else deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"job {self.id} is still {job.state} after {timeout} s")
            job = self._app.wait_for_change_sync(self.id, after=job.seq, timeout=min(left, 60.0))
        return self.outcome(job, self._app.result_json_sync(self.id))

    def events(self, after: int = 0) -> AsyncIterator[Event]:
        """The job's events with ``seq > after``, as they come; ends after the final one."""
        return self._app.follow(self.id, after=after)

    async def cancel(self, reason: str | None = None) -> Job:
        """Not running: canceled at once. Running: asked to stop."""
        return await self._app.cancel(self.id, reason=reason)

    def cancel_sync(self, reason: str | None = None) -> Job:
        return self._app.cancel_sync(self.id, reason=reason)

    async def retry(self, *, fresh: bool = False) -> Job:
        """Runs a failed, canceled or skipped job again; ``fresh``: without its recorded steps."""
        return await self._app.retry(self.id, fresh=fresh)

    def retry_sync(self, *, fresh: bool = False) -> Job:
        return self._app.retry_sync(self.id, fresh=fresh)

    async def answer(self, value: Any, *, question: str | None = None) -> Job:
        """Answers what the job asks. AnswerRefused where there is no such open question."""
        return await self._app.answer(self.id, value, question=question)

    def answer_sync(self, value: Any, *, question: str | None = None) -> Job:
        return self._app.answer_sync(self.id, value, question=question)

    def outcome(self, job: Job, text: str | None) -> R:
        """What a job that has ended came to, by its record and its result as JSON text: the
        result decoded, or JobFailed, JobCanceled, JobSkipped."""
        why = (job.error.message or job.error.type) if job.error else job.reason
        match job.state:
            case "completed":
                assert text is not None
                return cast(R, _decode(self._codec, text))
            case "canceled":
                raise JobCanceled(job, f"job {self.id} was canceled ({job.reason})")
            case "skipped":
                raise JobSkipped(job, f"job {self.id} was skipped ({job.reason})")
            case _:
                raise JobFailed(job, f"job {self.id} failed ({job.reason}): {why}")


def _decode(codec: Codec[Any] | None, text: str) -> Any:
    if codec is None:
        import json

        return json.loads(text)
    return codec.decode(text)
