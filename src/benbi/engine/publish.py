"""The catalogue rows of tasks: what doors without their code need to offer them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from benbi.store import workers
from benbi.store.database import Transaction
from benbi.task import Task


def publish_tasks(tx: Transaction, tasks: Iterable[Task[Any, Any]]) -> None:
    """Writes one row for each task, and one for each alias, so that old names stay callable."""
    workers.publish(
        tx, [entry_of(name, task) for task in tasks for name in (task.name, *task.aliases)]
    )


def entry_of(name: str, task: Task[Any, Any]) -> dict[str, Any]:
    """The row for one name of a task; JSON where it has structure."""
    offered = task.tool is not None and name == task.name
    return {
        "task": name,
        "queue": task.queue,
        "doc": task.doc,
        "arguments_schema": json.dumps(task.signature.arguments_schema),
        "result_schema": json.dumps(task.signature.result.schema),
        "tool": json.dumps(asdict(task.tool)) if offered and task.tool is not None else None,
        "defaults": json.dumps(task.defaults._asdict()),
        "code_version": task.code_version,
    }
