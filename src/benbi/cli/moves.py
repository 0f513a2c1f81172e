"""What the commands share that move jobs: one by its id, several, or all that filters choose."""

from __future__ import annotations

import asyncio
import shlex
import sys
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

from benbi.cli import documents, exits
from benbi.cli.options import opened
from benbi.errors import ConfigurationError, Refused

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from benbi import Benbi
    from benbi.cli.options import Common, Filters
    from benbi.job import Job


@dataclass(frozen=True)
class Verb:
    """``jobs cancel`` or ``jobs retry``: its name, what has become of its jobs, its own options
    as they were typed, and the methods of the app that do it."""

    name: str
    outcome: str
    options: Sequence[str]
    _: KW_ONLY
    one: Callable[[Benbi, str], Awaitable[Job]]
    many: Callable[[Benbi, dict[str, str], bool], Awaitable[int]]

    def act(self, job_ids: Sequence[str], filters: Filters, common: Common, *, yes: bool) -> int:
        """Moves the jobs, tells what became of them and returns the exit code."""
        if bool(job_ids) == bool(filters.given()):
            raise ConfigurationError(
                f"which jobs? benbi jobs {self.name} takes their ids, or filters that choose "
                "them: --state, --task, --queue, --owner"
            )
        if not job_ids:
            return asyncio.run(self._chosen(filters, common, yes))
        ids = list(dict.fromkeys(job_ids))
        if len(ids) > 1:
            return asyncio.run(self._each(ids, common))
        told(asyncio.run(self._only(ids[0], common)), common)
        return exits.DONE

    async def _only(self, job_id: str, common: Common) -> Job:
        async with opened(common) as app:
            return await self.one(app, job_id)

    async def _each(self, ids: Sequence[str], common: Common) -> int:
        jobs: list[Job] = []
        refused: list[dict[str, str]] = []
        async with opened(common) as app:
            for job_id in ids:
                try:
                    jobs.append(await self.one(app, job_id))
                except Refused as refusal:
                    why = str(refusal)
                    refused.append({"id": job_id, "message": why})
                    exits.tell(why if job_id in why else f"{job_id}: {why}")
                else:
                    if not common.as_json:
                        told(jobs[-1], common)
        if common.as_json:
            listed = [documents.job_document(job) for job in jobs]
            documents.write({"jobs": listed, "refused": refused})
        return exits.REFUSED if refused else exits.DONE

    async def _chosen(self, filters: Filters, common: Common, yes: bool) -> int:
        async with opened(common) as app:
            count = await self.many(app, filters.given(), not yes)
        if yes:
            if common.as_json:
                documents.write({"changed": count})
            else:
                print(f"{_jobs(count)} {self.outcome}")
            return exits.DONE
        command = self._command(filters, common)
        if common.as_json:
            documents.write({"changed": 0, "would_change": count, "command": command})
        else:
            exits.tell(f"{_jobs(count)} would be {self.outcome}. The command that does it:")
            # As it is: on the line of a message, spaces would be drawn together.
            print(exits.visible(command), file=sys.stderr)
        return exits.REFUSED

    def _command(self, filters: Filters, common: Common) -> str:
        chosen = [f"--{name}={value}" for name, value in filters.given().items()]
        url = [] if common.url is None else [f"--url={common.url}"]
        return shlex.join(["benbi", "jobs", self.name, *chosen, *self.options, *url, "--yes"])


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count:,} jobs"


def told(job: Job, common: Common) -> None:
    """Prints what has become of one job."""
    if common.as_json:
        documents.write(documents.job_document(job))
        return
    from benbi.cli import words

    print(exits.visible(f"{job.id}  {job.task}  {words.state(job)}"))
