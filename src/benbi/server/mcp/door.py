"""What an MCP server offers of one app, whatever framework serves it."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from benbi.errors import BenbiError
from benbi.job import State
from benbi.server.mcp.envelope import as_result, final_result, refusal
from benbi.server.mcp.job_tools import JobTools
from benbi.server.mcp.looks import result_of, seen
from benbi.server.mcp.names import prefix_from
from benbi.server.mcp.offers import Offers
from benbi.server.mcp.owner import current_owner

if TYPE_CHECKING:
    from mcp_types import CallToolResult, Tool

    from benbi.app import Benbi
    from benbi.job import Job
    from benbi.server.mcp.offers import Offer

Report = Callable[["Job"], Awaitable[None]]


class Door:
    """The tools of one app: a durable tool for each offered task, and the job tools.

    ``prefix`` goes before the names of the job tools: ``<prefix>_job_status``.
    """

    def __init__(self, app: Benbi, prefix: str | None = None) -> None:
        self.app = app
        self.prefix = prefix_from(prefix)
        self.offers = Offers(app, self.prefix)
        self.job_tools = JobTools(app, self.prefix, self.offers)

    async def tools(self) -> list[Tool]:
        """All tools, as ``tools/list`` shows them."""
        durable = [offer.tool(self.prefix) for offer in await self.offers.all()]
        return durable + self.job_tools.tools()

    async def call(
        self, name: str, arguments: Mapping[str, Any], report: Report | None = None
    ) -> CallToolResult | None:
        """A plain call: answers within the tool's ``wait``; None where the tool is not ours.

        ``report`` is told of each change of the job while the call waits.
        """
        if self.job_tools.knows(name):
            return await self.job_tools.call(name, arguments)
        offer = await self.offers.find(name)
        if offer is None:
            return None
        try:
            job = await self.start(offer, arguments)
            return await self.answer(job.id, wait=offer.wait, report=report)
        except BenbiError as error:
            return refusal(str(error))

    async def start(self, offer: Offer, arguments: Mapping[str, Any]) -> Job:
        """The job of this call, on disk: a new one, or the live one of an equal call.

        Raises:
            Refused: the arguments do not fit; nothing was stored.
        """
        owner = current_owner()
        handle = await self.app.enqueue(
            offer.entry.task, arguments, owner=owner, same_call_within=offer.same_call_within
        )
        return await self.app.get(handle.id, owner=owner)

    async def answer(
        self, job_id: str, *, wait: float, report: Report | None = None
    ) -> CallToolResult:
        """The answer to a plain call of a job: final within ``wait`` seconds, else its state."""
        job = await self._settle(job_id, wait, report)
        if job.final:
            return final_result(job, await result_of(self.app, job))
        return as_result(await seen(self.app, job, after=0))

    async def _settle(self, job_id: str, wait: float, report: Report | None) -> Job:
        owner = current_owner()
        until = time.monotonic() + wait
        job = await self.app.get(job_id, owner=owner)
        while not job.final and job.state != State.INPUT_REQUIRED:
            left = until - time.monotonic()
            if left <= 0:
                break
            job = await self.app.wait_for_change(job_id, after=job.seq, timeout=left, owner=owner)
            if report is not None:
                await report(job)
        return job
