"""``classify``: the order of the rules, benbi's own errors, causes and groups."""

from __future__ import annotations

from typing import Final, cast

from benbi import errors
from benbi.retry.classes import by_class
from benbi.retry.codes import by_code
from benbi.retry.verdict import Kind, Verdict, read, seconds, words

_ORDER: Final[tuple[Kind, ...]] = ("transient", "unknown", "permanent", "bug")
# Long retry loops chain thousands of errors to each other: what lies deeper decides nothing.
_DEEPEST: Final = 20

_OURS: Final[dict[type[BaseException], tuple[Kind, str]]] = {
    errors.Permanent: ("permanent", "the task said so"),
    errors.Transient: ("transient", "the task said so"),
    # Alone these four are outcomes and never come here; in an exception group they do.
    errors.Snooze: ("transient", "the task asked to run later"),
    errors.Skip: ("permanent", "the task asked not to run"),
    errors.Suspend: ("unknown", "not an error"),
    errors.Abandon: ("unknown", "not an error"),
    errors.ClaimLost: ("transient", "another worker may hold the job"),
    errors.Refused: ("permanent", "refused at the door"),
    errors.SecretUnreadable: ("permanent", "no attempt of this worker can read it"),
    errors.JobEnded: ("permanent", "the other job ended without a result"),
    errors.ConfigurationError: ("permanent", "a setting is wrong"),
    errors.TaskDefinitionError: ("bug", "the task can not be registered"),
    errors.ReplayError: ("bug", "replay brought it to light"),
    errors.UseWait: ("bug", "result() inside a job would hold its slot"),
    errors.StoreBusy: ("transient", "the database was busy"),
    errors.StoreFull: ("transient", "somebody may free space"),
    errors.ForeignDatabase: ("permanent", "not a database of ours"),
    # In a rolling deploy a newer worker may take the next attempt.
    errors.SchemaTooNew: ("unknown", "newer code may run it"),
    errors.BenbiError: ("unknown", "no rule knows it"),
}

# Classes that libraries wrap around whatever they met, without judging it.
_WRAPPERS: Final = words(
    "httpx.ConnectError httpx2.ConnectError httpcore.ConnectError httpcore2.ConnectError "
    "requests.ConnectionError urllib3.MaxRetryError urllib3.SSLError urllib.URLError "
    "openai.APIConnectionError anthropic.APIConnectionError groq.APIConnectionError "
    "together.APIConnectionError"
)


def classify(error: BaseException) -> Verdict:
    """The kind of an error, the rule that decided, and the delay that was asked for.

    Never raises, whatever the error's attributes do. ``Retry-After`` is read in seconds, as
    ``retry-after-ms``, or as a date; a date counts from the answer's own ``Date``, and is left
    out where the answer has none.
    """
    return _classify(error, set(), 0)


def _classify(error: BaseException, seen: set[int], depth: int) -> Verdict:
    seen.add(id(error))
    members = [member for member in _members(error) if id(member) not in seen]
    if members and depth < _DEEPEST:
        return _worst([_classify(member, seen, depth + 1) for member in members])
    names = [_name(ancestor) for ancestor in type(error).__mro__]
    verdict = _by_itself(error, names)
    wrapper = not _WRAPPERS.isdisjoint(names)
    cause = _cause(error, wrapper)
    decisive = _decisive(verdict, wrapper)
    if cause is None or not decisive or depth >= _DEEPEST:
        return verdict
    found = _classify(cause, seen, depth + 1)
    if found.kind in decisive:
        return found._replace(rule=f"{names[0]} from {found.rule}")
    return verdict


def _by_itself(error: BaseException, names: list[str]) -> Verdict:
    if isinstance(error, errors.BenbiError | errors.Suspend | errors.Abandon):
        return _ours(error)
    return (
        by_code(error, names)
        or by_class(error, names)
        or Verdict("unknown", f"{names[0]}: no rule knows it")
    )


def _ours(error: BaseException) -> Verdict:
    kind, why = next(_OURS[ancestor] for ancestor in type(error).__mro__ if ancestor in _OURS)
    asked: object = None
    if isinstance(error, errors.Transient):
        asked = error.retry_after
    elif isinstance(error, errors.Snooze):
        asked = error.delay
    return Verdict(kind, f"{type(error).__name__}: {why}", seconds(asked))


def _name(ancestor: type) -> str:
    """``httpx.ReadTimeout``, whichever module of the package httpx defines it."""
    package = str(ancestor.__module__).partition(".")[0]
    return f"{package}.{ancestor.__name__}"


def _cause(error: BaseException, wrapper: bool) -> BaseException | None:
    candidates = [error.__cause__]
    if wrapper:
        candidates += [read(error, "reason"), *error.args[:1]]
    return next((found for found in candidates if isinstance(found, BaseException)), None)


def _decisive(verdict: Verdict, wrapper: bool) -> tuple[Kind, ...]:
    """The kinds of a cause that outweigh the verdict on the error itself.

    A bug decides only under a wrapper: who writes ``raise Mine() from error`` has met the error
    and handled it.
    """
    if verdict.kind == "unknown":
        return ("transient", "permanent", "bug") if wrapper else ("transient", "permanent")
    return ("permanent", "bug") if wrapper and verdict.kind == "transient" else ()


def _members(error: BaseException) -> tuple[BaseException, ...]:
    if not isinstance(error, BaseExceptionGroup):
        return ()
    return cast("BaseExceptionGroup[BaseException]", error).exceptions


def _worst(verdicts: list[Verdict]) -> Verdict:
    worst = max(verdicts, key=lambda verdict: _ORDER.index(verdict.kind))
    asked = [verdict.retry_after for verdict in verdicts if verdict.retry_after is not None]
    final = worst.kind in ("permanent", "bug")
    rule = f"the worst of {len(verdicts)}: {worst.rule}"
    return Verdict(worst.kind, rule, None if final else max(asked, default=None))
