"""The durable tools that an app offers: its own tasks, or what its database's catalogue holds."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from mcp_types import Tool, ToolAnnotations

from benbi.job import CatalogueEntry
from benbi.server.mcp.envelope import envelope_schema
from benbi.server.mcp.names import JOB_TOOLS, job_tool, tool_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benbi.app import Benbi
    from benbi.task import Task

DEFAULT_WAIT: Final = 20.0
DEFAULT_SAME_CALL: Final = 600.0
# Many hosts cut a call after 60 s, whatever it reports meanwhile.
LONGEST_WAIT: Final = 50.0
# How old a reading of the catalogue may be before a call looks again, in seconds.
FRESH: Final = 1.0


@dataclass(frozen=True, slots=True)
class Offer:
    """One durable tool. ``required``: only for clients that declare the Tasks extension.

    ``wait`` is how long a plain call waits for the job, in seconds; ``same_call_within`` is
    the age in seconds up to which an equal live call is the same job, None for never.
    """

    name: str
    entry: CatalogueEntry
    wait: float
    same_call_within: float | None
    required: bool

    def tool(self, prefix: str) -> Tool:
        """The tool as ``tools/list`` shows it."""
        return Tool(
            name=self.name,
            title=_text(self.entry.tool, "title"),
            description=_description(self.entry, prefix),
            input_schema=self.entry.arguments_schema,
            output_schema=envelope_schema(self.entry.result_schema),
            annotations=ToolAnnotations(read_only_hint=False),
        )


class Offers:
    """The tools of an app by name.

    An app with tasks of its own offers those, whether a worker is there yet or not; one without
    offers what live workers have published, read again as that changes.
    """

    def __init__(self, app: Benbi, prefix: str) -> None:
        self._app = app
        self._prefix = prefix
        self._known: dict[str, Offer] = {}
        self._of: tuple[str, ...] = ()
        self._read_at = float("-inf")

    async def all(self) -> list[Offer]:
        """Every tool now on offer, by name."""
        await self._refresh(older_than=0.0)
        return [offer for _, offer in sorted(self._known.items())]

    async def find(self, name: str) -> Offer | None:
        """The tool of that name; the catalogue is read again where the last look is old."""
        await self._refresh(older_than=FRESH)
        return self._known.get(name)

    async def _refresh(self, *, older_than: float) -> None:
        tasks = self._app.tasks
        if tasks:
            # Registered while a module is imported: they grow, and never change.
            if self._of != tuple(tasks):
                self._take([_entry(task) for task in tasks.values()])
                self._of = tuple(tasks)
        elif time.monotonic() - self._read_at >= older_than:
            self._take(await self._app.catalogue())
            self._read_at = time.monotonic()

    def _take(self, entries: Sequence[CatalogueEntry]) -> None:
        offered = [entry for entry in entries if entry.tool is not None]
        taken = [job_tool(self._prefix, verb) for verb in JOB_TOOLS]
        names = tool_names((entry.task for entry in offered), taken=taken)
        found = (offer_of(names[entry.task], entry) for entry in offered)
        self._known = {offer.name: offer for offer in found}


def _entry(task: Task[Any, Any]) -> CatalogueEntry:
    return CatalogueEntry(
        task=task.name,
        queue=task.queue,
        doc=task.doc,
        arguments_schema=task.signature.arguments_schema,
        result_schema=task.signature.result.schema,
        tool=None if task.tool is None else asdict(task.tool),
        defaults={},
        code_version=task.code_version,
        last_seen=datetime.now(UTC),
    )


def offer_of(name: str, entry: CatalogueEntry) -> Offer:
    """What a catalogue entry offers; whatever an older release did not write has its default."""
    options = entry.tool or {}
    return Offer(
        name=name,
        entry=entry,
        wait=min(options.get("wait", DEFAULT_WAIT), LONGEST_WAIT),
        same_call_within=options.get("same_call_within", DEFAULT_SAME_CALL),
        required=options.get("required", False),
    )


def _text(options: dict[str, Any] | None, key: str) -> str | None:
    found = (options or {}).get(key)
    return found if isinstance(found, str) else None


def _description(entry: CatalogueEntry, prefix: str) -> str:
    status = job_tool(prefix, "status")
    return (
        f"{_text(entry.tool, 'description') or entry.doc}\n\n"
        "This starts a durable job, which goes on whatever happens to this call. The answer "
        "has its jobId. While state is not completed, failed, canceled or skipped, do not call "
        f"this tool again: call {status} with job_id, that jobId, and after_seq, the last seq."
    ).strip()
