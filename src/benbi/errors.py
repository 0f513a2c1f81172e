"""Every error that benbi raises.

::

    BenbiError
    ├── ConfigurationError          a wrong URL, setting or module:app
    │   └── MissingExtra            an extra is not installed; names it
    ├── TaskDefinitionError         a task that can not be registered, and why
    ├── Refused                     bad input, refused at the door; nothing was stored
    │   ├── UnknownTask
    │   ├── InvalidArguments
    │   ├── NotEncodable            a value that JSON can not carry, with the path to it
    │   ├── PayloadTooLarge
    │   ├── ArtifactTooLarge
    │   ├── ArtifactNotFound        the job has none of that name, or its file is not here
    │   ├── IdempotencyConflict     the same key, other arguments
    │   ├── JobNotFound             missing and foreign look alike
    │   ├── ScheduleNotFound        no process has registered such a schedule
    │   ├── NotPermitted            this move is not permitted from the job's state
    │   └── AnswerRefused           no such question, answered already, or not of its type
    ├── JobEnded                    raised by result()
    │   ├── JobFailed
    │   ├── JobCanceled
    │   └── JobSkipped
    ├── ForTasks                    raised by a task to say what should happen to its job
    │   ├── Permanent               never try again
    │   ├── Transient               try again, perhaps after retry_after seconds
    │   ├── Snooze                  run again later, nothing is charged
    │   └── Skip                    end as skipped
    ├── ClaimLost                   the job is no longer this worker's; its writes are refused
    ├── ReplayError                 a bug in a task that replay brought to light
    │   ├── StepChanged             a recorded step has another fingerprint
    │   └── StepNameRepeated        two unfinished steps of one name need key=
    ├── SecretUnreadable            a job's secrets were encrypted with a key that is not here
    ├── UseWait                     job.result() inside a job would hold its slot
    └── StoreError                  the database said no
        ├── StoreBusy               it did not take the write in time; nothing was stored
        ├── StoreFull               the disk is full
        ├── StoreReadOnly
        ├── ForeignDatabase         not a database, or not one of ours
        └── SchemaTooNew            written by newer code

``Suspend`` and ``Abandon`` are BaseExceptions: they unwind a task and are not errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import timedelta

    from benbi.job import Job


class BenbiError(Exception):
    """The root of all errors of benbi."""


class ConfigurationError(BenbiError):
    """A wrong URL, setting or ``module:app``; the message says what to do."""


class MissingExtra(ConfigurationError):
    """A feature needs an extra that is not installed."""

    def __init__(self, extra: str, what: str) -> None:
        super().__init__(f"{what} needs an extra: pip install 'benbi[{extra}]'")
        self.extra = extra


class TaskDefinitionError(BenbiError):
    """A function that can not be registered as a task; names parameter, type and remedy."""


class Refused(BenbiError):
    """Bad input, refused at the door: nothing was stored."""


class UnknownTask(Refused):
    """No task of that name is registered here or published by a worker."""


class InvalidArguments(Refused):
    """Arguments that do not fit the task's signature.

    ``problems`` lists (path, what is wrong) pairs.
    """

    def __init__(self, task: str, problems: list[tuple[str, str]]) -> None:
        listed = "; ".join(f"{path}: {problem}" if path else problem for path, problem in problems)
        super().__init__(f"{task}: {listed}")
        self.task = task
        self.problems = problems


class NotEncodable(Refused):
    """A value that JSON can not carry; the message has the path to it and the remedy."""


class PayloadTooLarge(Refused):
    """A payload over the limit; the message has both sizes and the remedy."""

    def __init__(self, what: str, size: int, limit: int) -> None:
        super().__init__(
            f"{what}: {size:,} bytes of JSON, over the limit of {limit:,}; store large data "
            "elsewhere (ctx.save, a table, object storage) and pass a reference to it, "
            "or raise Benbi(max_payload=…)"
        )
        self.size = size
        self.limit = limit


class ArtifactTooLarge(Refused):
    """A file over the limit; nothing of it was kept."""

    def __init__(self, name: str, limit: int) -> None:
        super().__init__(
            f"artifact {name!r} is over the limit of {limit:,} bytes; store it elsewhere, "
            "or raise Benbi(max_artifact=…)"
        )
        self.limit = limit


class ArtifactNotFound(Refused):
    """The job has no artifact of that name, or its file is not where this process looks."""


class IdempotencyConflict(Refused):
    """The key belongs to a job with other arguments; ``job_id`` names it."""

    def __init__(self, task: str, key: str, job_id: str) -> None:
        super().__init__(
            f"key {key!r} of task {task!r} belongs to job {job_id}, which has other arguments; "
            "use a new key for a new call"
        )
        self.job_id = job_id


class JobNotFound(Refused):
    """No such job or run, or not one of this owner's: the two look alike."""

    def __init__(self, job_id: str, what: str = "job") -> None:
        super().__init__(f"no {what} {job_id!r}")
        self.job_id = job_id


class ScheduleNotFound(Refused):
    """No schedule of that name was registered by a worker or a server."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"no schedule {name!r}: benbi schedules list shows those that workers and servers "
            "have registered"
        )
        self.name = name


class NotPermitted(Refused):
    """The move is not permitted from the job's present state."""


class AnswerRefused(Refused):
    """No such open question, answered already, or an answer of the wrong type."""


class JobEnded(BenbiError):
    """The job ended without a result; ``job`` is its record."""

    def __init__(self, job: Job, message: str) -> None:
        super().__init__(message)
        self.job = job


class JobFailed(JobEnded):
    """The job failed for good."""


class JobCanceled(JobEnded):
    """The job was canceled."""


class JobSkipped(JobEnded):
    """The job was skipped."""


class ForTasks(BenbiError):
    """Raised by a task to say what should happen to its job."""


class Permanent(ForTasks):
    """Fail for good: trying again can not help."""


class Transient(ForTasks):
    """Try again by the task's policy, not before ``retry_after`` seconds."""

    def __init__(self, message: str = "", *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Snooze(ForTasks):
    """Run again after ``delay`` (seconds, a timedelta, or a text such as "10m"); neither
    failures nor losses are charged."""

    def __init__(self, delay: float | str | timedelta, reason: str = "snoozed") -> None:
        super().__init__(f"snoozed for {delay}")
        self.delay = delay
        self.reason = reason


class Skip(ForTasks):
    """End the job as skipped."""


class ClaimLost(BenbiError):
    """The job is no longer this worker's: whatever it writes is refused."""


class ReplayError(BenbiError):
    """A bug in a task that replay brought to light; never retried."""


class StepChanged(ReplayError):
    """A recorded step was called with other arguments or another function."""


class StepNameRepeated(ReplayError):
    """Two unfinished steps share a name: tell them apart with ``key=``."""


class SecretUnreadable(BenbiError):
    """A job's secrets were encrypted with a key that this worker does not have."""


class UseWait(BenbiError):
    """``job.result()`` inside a job would hold its slot while it waits."""


class StoreError(BenbiError):
    """The database refused or could not be reached; nothing was half stored."""


class StoreBusy(StoreError):
    """The write was not taken in time."""


class StoreFull(StoreError):
    """The disk is full."""


class StoreReadOnly(StoreError):
    """The database can not be written."""


class ForeignDatabase(StoreError):
    """The file or schema is not one of ours, or is damaged."""


class SchemaTooNew(StoreError):
    """The database was migrated by newer code; upgrade benbi here."""


class Suspend(BaseException):
    """Unwinds a task that asks, sleeps or waits. Not an error: the job goes on later."""


class Abandon(BaseException):
    """Unwinds a task whose claim is lost or canceled."""
