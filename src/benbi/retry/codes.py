"""Errors that carry a code: what providers of models call them, protocols, databases, HTTP."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final, TypeGuard, cast

from benbi.retry.verdict import Kind, Verdict, dig, read, seconds, words

_MODEL_PACKAGES: Final = frozenset({"openai", "anthropic", "litellm", "groq", "together"})
# Waiting neither pays a bill nor shortens a prompt, and these come as 400 and 429 alike.
_FINAL_WORDS: Final = words(
    "insufficient_quota billing_not_active billing_hard_limit_reached billing_error "
    "contract_spend_limit_reached enforced_spend_limit_reached BudgetExceededError "
    "context_length_exceeded string_above_max_length content_policy_violation"
)
# An error inside a stream has no status of its own: the answer had begun with 200.
_PERMANENT_WORDS: Final = words(
    "invalid_request_error authentication_error permission_error not_found_error "
    "request_too_large invalid_api_key model_not_found content_filter"
)
_TRANSIENT_WORDS: Final = words(
    "rate_limit_exceeded rate_limit_error server_error api_error overloaded_error "
    "internal_error internal_server_error service_unavailable timeout_error"
)
_GRPC: Final[dict[str, Kind]] = {
    **dict.fromkeys(("UNAVAILABLE", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED"), "transient"),
    **dict.fromkeys(("ABORTED", "INTERNAL"), "transient"),
    **dict.fromkeys(("CANCELLED", "UNKNOWN"), "unknown"),
    **dict.fromkeys(("INVALID_ARGUMENT", "OUT_OF_RANGE", "FAILED_PRECONDITION"), "permanent"),
    **dict.fromkeys(("NOT_FOUND", "ALREADY_EXISTS", "UNIMPLEMENTED", "DATA_LOSS"), "permanent"),
    **dict.fromkeys(("PERMISSION_DENIED", "UNAUTHENTICATED"), "permanent"),
}
# By the first five, three or two characters.
_SQLSTATE: Final[dict[str, tuple[Kind, str]]] = {
    "08": ("transient", "the connection failed"),
    "25006": ("transient", "read only, perhaps a standby about to take over"),
    "25P03": ("transient", "it took too long"),
    "25P04": ("transient", "it took too long"),
    "40": ("transient", "rolled back for another transaction's sake"),
    "53": ("transient", "the server is short of something"),
    "55006": ("transient", "in use"),
    "55P03": ("transient", "locked"),
    "57014": ("transient", "canceled, perhaps by a time-out"),
    "57P": ("transient", "the server is stopping or starting"),
    "58": ("transient", "the server's machine is in trouble"),
    "0A": ("permanent", "not supported"),
    "22": ("permanent", "the data does not fit"),
    "23": ("permanent", "a constraint refused it"),
    "28": ("permanent", "sign-in was refused"),
    "3D": ("permanent", "no such database"),
    "3F": ("permanent", "no such schema"),
    "42": ("permanent", "the statement is wrong or not permitted"),
    "P0": ("unknown", "a function in the database raised it"),
}
_JSON_RPC: Final[dict[int, tuple[Kind, str]]] = {
    -32000: ("transient", "the connection was closed"),
    **dict.fromkeys((-32001, 408), ("transient", "it took too long")),
    **dict.fromkeys((-32700, -32600, -32601, -32602), ("permanent", "the request was refused")),
    -32002: ("permanent", "not found"),
    **dict.fromkeys((-32020, -32021, -32022), ("permanent", "client and server do not fit")),
    -32042: ("permanent", "a person must visit a page first"),
}
_AWS_TRANSIENT: Final = words(
    "Throttling ThrottlingException ThrottledException RequestThrottled RequestThrottledException "
    "EC2ThrottledException TooManyRequestsException ProvisionedThroughputExceededException "
    "RequestLimitExceeded BandwidthLimitExceeded LimitExceededException SlowDown "
    "PriorRequestNotComplete TransactionInProgressException TransactionConflictException "
    "RequestTimeout RequestTimeoutException"
)
_SQLITE_BUSY: Final = (5, 6)
_SQLITE_FULL: Final = 13


def by_code(error: BaseException, names: list[str]) -> Verdict | None:
    """The verdict by a code that the error carries; ``names`` are those of its classes."""
    told = _told(error, names)
    if known := told & _FINAL_WORDS:
        return Verdict("permanent", f"{min(known)}: final, whatever the status")
    for name in names:
        if (reader := _READERS.get(name)) and (verdict := reader(error)):
            return verdict
    if verdict := _http(_status(error, names), error):
        return verdict
    if known := told & _PERMANENT_WORDS:
        return Verdict("permanent", f"{min(known)}: the request was refused")
    if known := told & _TRANSIENT_WORDS:
        return Verdict("transient", f"{min(known)}: may pass")
    return None


def _told(error: BaseException, names: list[str]) -> set[str]:
    if _MODEL_PACKAGES.isdisjoint(name.partition(".")[0] for name in names):
        return set()
    body = read(error, "body")
    found = [read(error, "code"), read(error, "type")]
    found += [name.partition(".")[2] for name in names]
    for level in (body, dig(body, "error"), dig(body, "error", "details")):
        found += [dig(level, "code"), dig(level, "type"), dig(level, "error_code")]
    return {word for word in found if isinstance(word, str)}


def _grpc(error: BaseException) -> Verdict | None:
    code = read(error, "grpc_status_code")
    if code is None and callable(method := read(error, "code")):
        with suppress(Exception):
            code = method()
    name = str(read(code, "name"))
    return Verdict(_GRPC[name], f"gRPC {name}", _asked(error)) if name in _GRPC else None


def _sqlstate(error: BaseException) -> Verdict | None:
    state = str(read(error, "sqlstate") or read(error, "pgcode") or "")
    for length in (5, 3, 2):
        if found := _SQLSTATE.get(state[:length]):
            return Verdict(found[0], f"SQLSTATE {state}: {found[1]}")
    return None


def _sqlite(error: BaseException) -> Verdict | None:
    code = read(error, "sqlite_errorcode")
    primary = code & 0xFF if isinstance(code, int) else 0
    if primary in _SQLITE_BUSY or any(
        isinstance(part, str) and re.search(r"\b(locked|busy)\b", part) for part in error.args
    ):
        return Verdict("transient", "SQLite: locked or busy")
    return Verdict("transient", "SQLite: the disk is full") if primary == _SQLITE_FULL else None


def _json_rpc(error: BaseException) -> Verdict | None:
    code = read(read(error, "error"), "code")
    if not isinstance(code, int) or code not in _JSON_RPC:
        return None
    kind, why = _JSON_RPC[code]
    return Verdict(kind, f"JSON-RPC {code}: {why}")


def _smtp(error: BaseException) -> Verdict | None:
    code = read(error, "smtp_code")
    if not isinstance(code, int) or not 400 <= code <= 599:
        return None
    return Verdict("transient" if code < 500 else "permanent", f"SMTP {code}")


def _aws(error: BaseException) -> Verdict | None:
    answer = read(error, "response")
    code = dig(answer, "Error", "Code")
    if isinstance(code, str) and code in _AWS_TRANSIENT:
        return Verdict("transient", f"AWS {code}: may pass", _asked(error))
    return _http(dig(answer, "ResponseMetadata", "HTTPStatusCode"), error)


_READERS: Final[dict[str, Callable[[BaseException], Verdict | None]]] = {
    "grpc.RpcError": _grpc,
    "google.GoogleAPICallError": _grpc,
    "psycopg.Error": _sqlstate,
    "psycopg2.Error": _sqlstate,
    "asyncpg.PostgresError": _sqlstate,
    "sqlite3.OperationalError": _sqlite,
    "mcp.MCPError": _json_rpc,
    "mcp.McpError": _json_rpc,
    "smtplib.SMTPResponseException": _smtp,
    "botocore.ClientError": _aws,
}
# Elsewhere ``code`` may be anything: an exit code, a JSON-RPC code, a method.
_CODE_IS_STATUS: Final = words("urllib.HTTPError google.APIError google.GoogleAPICallError")
_STATUS_IS_STATUS: Final = words(
    "aiohttp.ClientResponseError kubernetes.ApiException twilio.TwilioRestException"
)


def _status(error: BaseException, names: list[str]) -> object:
    response = read(error, "response")
    found = [read(error, "status_code"), read(error, "http_status")]
    if not _CODE_IS_STATUS.isdisjoint(names):
        found.append(read(error, "code"))
    # ``status`` alone is a word of many trades; beside headers it is HTTP's.
    if read(error, "headers") is not None or not _STATUS_IS_STATUS.isdisjoint(names):
        found.append(read(error, "status"))
    found += [read(response, "status_code"), read(response, "status")]
    found.append(read(read(error, "resp"), "status"))
    return next((status for status in found if _is_status(status)), None)


def _is_status(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and 300 <= value <= 599


def _http(status: object, error: BaseException) -> Verdict | None:
    if not _is_status(status):
        return None
    asked = _asked(error)
    if status in (408, 425, 429) or (status >= 500 and status not in (501, 505)):
        return Verdict("transient", f"HTTP {status:d}: may pass", asked)
    if 400 <= status < 500 and asked is not None:
        return Verdict("transient", f"HTTP {status:d} with Retry-After: may pass", asked)
    return Verdict("permanent", f"HTTP {status:d}: the request was refused")


def _asked(error: BaseException) -> float | None:
    """The seconds that the answer asked to wait, by a header or by Google's ``RetryInfo``."""
    response = read(error, "response")
    places = (
        read(response, "headers"),
        read(error, "headers"),
        dig(response, "ResponseMetadata", "HTTPHeaders"),
        read(error, "resp"),
    )
    for headers in places:
        if (asked := _retry_after(headers)) is not None:
            return asked
    details = dig(read(error, "details"), "error", "details")
    for detail in cast("list[object]", details) if isinstance(details, list) else ():
        if found := re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)s", str(dig(detail, "retryDelay"))):
            return seconds(float(found[1]))
    return None


def _retry_after(headers: object) -> float | None:
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        text = _header(headers, name)
        if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text):
            return seconds(float(text) * unit)
    due, sent = _date(headers, "retry-after"), _date(headers, "date")
    return max(0.0, (due - sent).total_seconds()) if due and sent else None


def _date(headers: object, name: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(_header(headers, name))
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _header(headers: object, name: str) -> str:
    get = cast("Callable[[str], object]", read(headers, "get"))
    # The second kind is urllib's, which is no mapping.
    if not isinstance(headers, Mapping) and not callable(read(headers, "get_all")):
        return ""
    # A plain mapping of somebody's own knows one spelling only.
    found = (get(spelling) for spelling in (name, name.title()))
    return next((str(value).strip() for value in found if value is not None), "")
