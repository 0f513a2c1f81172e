"""The arguments of a claim, decrypted where they hold secrets; these are hidden from then on."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from benbi.sealing import obstacle, unseal
from benbi.secret import SEALED, Hidden, keep_hidden, noting

if TYPE_CHECKING:
    from benbi.engine.attempt import Attempt

log = logging.getLogger("benbi.worker")


def arguments_of(attempt: Attempt, signature: Any) -> dict[str, Any]:
    """The keyword arguments of the call. SecretUnreadable, InvalidArguments."""
    text = attempt.claim.arguments
    sealed = f'"{SEALED}"' in text
    if not sealed and not signature.secrets:
        return signature.decode(text)
    # Secrets that are younger than the job were stored as they are: they are hidden all the same.
    text, salt = unseal(attempt.claim.task, text) if sealed else (text, b"")
    with noting() as values:
        arguments = signature.decode(text)
    keep_hidden(Hidden(values, salt))
    return arguments


def readable(tasks: Mapping[str, Any]) -> dict[str, Any]:
    """The tasks that this process can run. Without a key those with secrets are left to others,
    and stay pending: said once, in the log."""
    secret = [name for name, task in tasks.items() if task.signature.secrets]
    why = obstacle(", ".join(sorted(secret))) if secret else None
    if why is None:
        return dict(tasks)
    log.error("%s. Their jobs stay pending for a worker that has a key", why)
    return {name: task for name, task in tasks.items() if name not in secret}
