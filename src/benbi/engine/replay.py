"""Steps, asks and sleeps: what a job recorded is returned, what it did not is done and recorded.

The parts that the async and the sync Context share: pure bookkeeping, no waiting.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NoReturn, TypedDict
from weakref import WeakKeyDictionary

from benbi.codec import Codec, codec_for, fingerprint
from benbi.definition import returned_by
from benbi.engine.attempt import Attempt
from benbi.engine.failure import class_of, message_of
from benbi.engine.uses import Identity
from benbi.errors import NotEncodable, Refused, TaskDefinitionError
from benbi.options import Duration, seconds_of
from benbi.outcome import Snoozed
from benbi.retry import Retry, classify, delay
from benbi.secret import stand_in
from benbi.store.lifecycle import Asked, StepRecord, Told, as_json

OnChange = Literal["fail", "keep", "rerun"]
ON_CHANGE = ("fail", "keep", "rerun")
NO_DEFAULT: Final[Any] = object()


class AskOptions(TypedDict, total=False):
    """The keywords of ``ctx.ask``; the defaults stand behind each."""

    key: str | None  # None: the questions of a job are numbered
    timeout: Duration | None  # None: waits for ever
    default: Any  # none: the job fails as expired when the time is over


# A step's back-off up to this waits in its place; a longer one frees the slot.
WAIT_IN_PLACE_SECONDS = 5.0
# A step is tried once unless it says otherwise: the job's own policy retries the job.
ONCE = Retry(attempts=1)


@dataclass(slots=True)
class Step:
    """One use of a step: its identity, its policy, its tries so far."""

    identity: Identity
    fingerprint: bytes
    codec: Codec[Any]
    retry: Retry
    timeout: float | None
    tries: int = 0
    # Its function has returned: now it is recorded, whatever else happens.
    done: bool = False

    @property
    def label(self) -> str:
        return self.identity[1]


@dataclass(frozen=True, slots=True)
class Done:
    """A recorded result, as JSON text."""

    text: str


class _Untyped(Codec[Any]):
    """Any, for a function whose annotation can not be resolved: it need not be the user's own."""

    def __init__(self, why: str) -> None:
        super().__init__(Any)
        self._why = why

    def encode(self, value: Any, what: str = "value") -> str:
        try:
            return super().encode(value, what)
        except NotEncodable as error:
            raise NotEncodable(f"{error}; {self._why}") from None


# Weakly: a function that is made anew in each job would keep alive all that it closes over.
_codecs: WeakKeyDictionary[Callable[..., Any], Codec[Any]] = WeakKeyDictionary()


def result_codec(function: Callable[..., Any]) -> Codec[Any]:
    """The codec of what a step function says it returns; Any where it does not say."""
    try:
        known = _codecs.get(function)
        if known is None:
            known = _codecs[function] = _result_codec(function)
        return known
    except TypeError:
        # A callable object without a hash.
        return _result_codec(function)


def _result_codec(function: Callable[..., Any]) -> Codec[Any]:
    try:
        returns = returned_by(function)
    except TaskDefinitionError as error:
        return _Untyped(str(error))
    return codec_for(returns)


def open_step(
    attempt: Attempt,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    name: str | None,
    key: str | None,
    retry: Retry | int | None,
    timeout: Duration | None,
    on_change: OnChange,
) -> Step | Done:
    """Enters a step: what was recorded, or what is to be run now."""
    if on_change not in ON_CHANGE:
        raise ValueError(f"on_change is one of {', '.join(ON_CHANGE)}, not {on_change!r}")
    _check_function(function)
    attempt.check()
    label = name or getattr(function, "__name__", type(function).__name__)
    # Without its module: __main__.f and server.f are one function.
    print_ = fingerprint(getattr(function, "__qualname__", label), args, kwargs)
    codec, policy = result_codec(function), _policy(retry)
    seconds = None if timeout is None else _seconds(timeout, "timeout")
    identity = attempt.uses.enter("step", stand_in(label), None if key is None else stand_in(key))
    step = Step(identity, print_, codec, policy, seconds)
    try:
        found = attempt.recall(identity, step.fingerprint, on_change)
    except BaseException:
        attempt.uses.leave(identity)
        raise
    if found is not None and found.state == "completed":
        attempt.uses.leave(identity)
        assert found.result is not None
        return Done(found.result)
    if found is not None:
        step.tries = found.tries
    return step


def completed(attempt: Attempt, step: Step, value: Any) -> tuple[str, StepRecord, Told]:
    """A step's result as text, and what to record of it. A value that JSON can not carry, or
    that is too large, fails at once: the step was done and must not be done again."""
    attempt.refuse_caught(step.identity)
    step.tries += 1
    text = step.codec.encode(value, f"the result of step {step.label!r}")
    attempt.fits(f"the result of step {step.label!r}", text)
    step.done = True
    kind, name, use = step.identity
    record = StepRecord(kind, name, use, step.fingerprint, "completed", step.tries, text, None)
    return text, record, Told("step_completed", None, as_json({"name": name, "use": use}))


def failed(attempt: Attempt, step: Step, error: Exception) -> tuple[StepRecord, Told, float | None]:
    """What to record of a failed try, and the seconds to wait before the next; None: give up."""
    step.tries += 1
    verdict = classify(error)
    hopeless = verdict.kind in ("permanent", "bug") or (
        verdict.kind == "unknown" and not step.retry.unknown
    )
    last = hopeless or step.tries >= step.retry.attempts
    kind, name, use = step.identity
    described = {
        "name": name,
        "use": use,
        "try": step.tries,
        "type": class_of(error),
        "message": message_of(error),
        "kind": verdict.kind,
    }
    pause = (
        None
        if last
        else delay(step.retry, step.tries, attempt.claim.id + name.encode(), verdict.retry_after)
    )
    text = json.dumps(described | {"retry_in": pause})
    # A step that gave up begins anew when its job is retried.
    tries = 0 if last else step.tries
    record = StepRecord(kind, name, use, step.fingerprint, "failed", tries, None, text)
    return record, Told("step_failed", verdict.kind, text), pause


def back_off(attempt: Attempt, step: Step, pause: float) -> None:
    """Ends the attempt as a snooze where waiting in place would hold the slot too long."""
    attempt.uses.begin_again(step.identity)
    if pause > WAIT_IN_PLACE_SECONDS:
        attempt.suspend(snooze=Snoozed(pause, f"step {step.label} backs off"))


def partial_text(value: Any) -> str:
    """A partial result as JSON text, by its own type: models and dataclasses as they are."""
    return codec_for(type(value)).encode(value, "a partial result")


def ask(
    attempt: Attempt,
    question: str,
    type_: Any,
    *,
    key: str | None = None,
    timeout: Duration | None = None,
    default: Any = NO_DEFAULT,
) -> Any:
    """The recorded answer, typed; otherwise suspends the job with the question."""
    codec = codec_for(type_)
    key = None if key is None else stand_in(key)
    identity = attempt.uses.enter("ask", "question", key)
    attempt.uses.leave(identity)
    name = key if key is not None else f"question-{identity[2].removeprefix('#')}"
    schema = as_json(codec.schema)
    print_ = fingerprint("ask", (question, schema), {})
    answer = attempt.answer_to(name, print_)
    if answer is not None:
        attempt.check()
        return codec.decode(answer)
    default_text = None if default is NO_DEFAULT else codec.encode(default, "the default answer")
    micros = None if timeout is None else int(_seconds(timeout, "timeout") * 1_000_000)
    attempt.suspend(asked=Asked(name, print_, question, schema, default_text, micros))
    return None


def sleep(attempt: Attempt, duration: Duration, now: int) -> None:
    """Returns where the recorded wake time has passed; otherwise suspends until then."""
    attempt.check()
    seconds = _seconds(duration, "sleep")
    identity = attempt.uses.enter("sleep", "sleep", None)
    attempt.uses.leave(identity)
    found = attempt.recall(identity, b"", "keep")
    if found is not None and found.result is not None:
        remaining = int(found.result) - now
        if remaining <= 0:
            return
        attempt.suspend(wake_in=remaining / 1_000_000)
    kind, name, use = identity
    wake_at = now + int(seconds * 1_000_000)
    record = StepRecord(kind, name, use, b"", "completed", 1, str(wake_at), None)
    attempt.suspend(step=record, wake_in=seconds)


def _check_function(function: object) -> None:
    if callable(function):
        return
    if inspect.iscoroutine(function):
        function.close()
    raise TypeError(
        f"a step is made of a function, not of {type(function).__name__}: "
        "write ctx.step(fn)(…), not ctx.step(fn(…))"
    )


def _policy(retry: Retry | int | None) -> Retry:
    if retry is None or isinstance(retry, Retry):
        return retry or ONCE
    return Retry(attempts=retry)


def _seconds(value: Duration, what: str) -> float:
    return seconds_of(value, what, _refuse)


def _refuse(message: str) -> NoReturn:
    raise Refused(message)
