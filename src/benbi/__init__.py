"""Durable jobs for AI backends: calls that survive the client, the server and the deploy."""

from benbi.app import Benbi
from benbi.context import Context, SyncContext
from benbi.errors import (
    BenbiError,
    ClaimLost,
    ConfigurationError,
    IdempotencyConflict,
    InvalidArguments,
    JobCanceled,
    JobFailed,
    JobNotFound,
    JobSkipped,
    NotPermitted,
    PayloadTooLarge,
    Permanent,
    Refused,
    Skip,
    Snooze,
    StepChanged,
    StoreError,
    TaskDefinitionError,
    Transient,
    UnknownTask,
)
from benbi.handle import JobHandle
from benbi.job import Artifact, Event, Job, State
from benbi.retry import Retry
from benbi.secret import Secret
from benbi.task import Task, Tool
from benbi.version import __version__

__all__ = [
    "Artifact",
    "Benbi",
    "BenbiError",
    "ClaimLost",
    "ConfigurationError",
    "Context",
    "Event",
    "IdempotencyConflict",
    "InvalidArguments",
    "Job",
    "JobCanceled",
    "JobFailed",
    "JobHandle",
    "JobNotFound",
    "JobSkipped",
    "NotPermitted",
    "PayloadTooLarge",
    "Permanent",
    "Refused",
    "Retry",
    "Secret",
    "Skip",
    "Snooze",
    "State",
    "StepChanged",
    "StoreError",
    "SyncContext",
    "Task",
    "TaskDefinitionError",
    "Tool",
    "Transient",
    "UnknownTask",
    "__version__",
]
