"""One job's events as server-sent events: ``id:`` is ``seq``, so that a reader resumes exactly.

Pulled, never pushed: the next page is read when the last one has been taken, so a slow reader
costs one page of memory, and one that takes nothing for ``STALLED_SECONDS`` is dropped.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import StreamingResponse
from starlette.types import Send

from benbi.errors import JobNotFound, StoreError
from benbi.job import Event, Job, Progress
from benbi.server.http.closing import Closing

if TYPE_CHECKING:
    from benbi.app import Benbi

KEEP_ALIVE_SECONDS: Final = 15.0
STALLED_SECONDS: Final = 30.0
_PAGE: Final = 50
# How long a reader may take to accept the last bytes of a server that stops.
_FAREWELL_SECONDS: Final = 1.0
_KEEP_ALIVE: Final = b": keep-alive\n\n"
_HEADERS: Final = {"cache-control": "no-store", "x-accel-buffering": "no"}


def event_json(event: Event) -> dict[str, Any]:
    """The public form of an event."""
    return {
        "job_id": event.job_id,
        "seq": event.seq,
        "type": event.type,
        "reason": event.reason,
        "attempt": event.attempt,
        "at": event.at.isoformat().replace("+00:00", "Z"),
        "data": event.data,
    }


def _frame(kind: str, body: dict[str, Any], seq: int | None = None) -> bytes:
    # ASCII only: clients that split lines as Python does would break a frame at U+2028.
    number = "" if seq is None else f"id: {seq}\n"
    return f"event: {kind}\n{number}data: {json.dumps(body)}\n\n".encode()


def _snapshot(job: Job, progress: Progress) -> bytes:
    """Progress between two events: without ``id:``, for there is nothing to resume from."""
    body = {"job_id": job.id, "seq": None, "type": "progress", "reason": None}
    return _frame("progress", body | {"attempt": job.attempt, "at": None, "data": asdict(progress)})


class EventStream(StreamingResponse):
    """The events of one job after ``after``, until the final one of a job that has ended.

    It also ends when the server stops or the job is removed; a reader that comes back
    with its last ``id`` goes on there.
    """

    def __init__(
        self,
        app: Benbi,
        job_id: str,
        *,
        after: int,
        owner: str | None,
        closing: Closing,
        keep_alive: float = KEEP_ALIVE_SECONDS,
        stalled: float = STALLED_SECONDS,
    ) -> None:
        self._app = app
        self._job_id = job_id
        self._after = after
        self._owner = owner
        self._closing = closing
        self._keep_alive = keep_alive
        self._stalled = stalled
        super().__init__(self._frames(), headers=_HEADERS, media_type="text/event-stream")

    async def stream_response(self, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        with self._closing.waiter() as closing:
            sending = asyncio.create_task(self._send_all(send))
            try:
                await asyncio.wait({sending, closing}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                sending.cancel()
            await asyncio.wait({sending})
        stalled = not sending.cancelled() and not sending.result()
        patience = 0 if stalled else _FAREWELL_SECONDS
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_all(self, send: Send) -> bool:
        """False where the reader took nothing for too long."""
        async for frame in self.body_iterator:
            try:
                async with asyncio.timeout(self._stalled):
                    await send({"type": "http.response.body", "body": frame, "more_body": True})
            except TimeoutError:
                return False
        return True

    async def _frames(self) -> AsyncIterator[bytes]:
        yield b"retry: 1000\n\n"
        try:
            async for frame in self._frames_of_job():
                yield frame
        except (JobNotFound, StoreError):
            # The status line is gone: ending the stream sends the reader back for the answer.
            return

    async def _frames_of_job(self) -> AsyncIterator[bytes]:
        app, job_id, seq, owner = self._app, self._job_id, self._after, self._owner
        shown: Any = None
        while True:
            job = await app.get(job_id, owner=owner)
            if job.seq > seq:
                for event in await app.events(job_id, after=seq, limit=_PAGE, owner=owner):
                    seq = event.seq
                    if event.type == "progress":
                        shown = event.data
                    yield _frame(event.type, event_json(event), seq)
            elif job.final:
                return
            elif job.progress is not None and asdict(job.progress) != shown:
                shown = asdict(job.progress)
                yield _snapshot(job, job.progress)
            else:
                newer = await app.wait_for_change(
                    job_id, after=seq, timeout=self._keep_alive, owner=owner
                )
                if newer == job:
                    yield _KEEP_ALIVE
