"""Errors known by the names of their package and class."""

from __future__ import annotations

import errno
from typing import Final

from benbi.retry.verdict import Kind, Verdict, read, words

_HTTPX: Final = "httpx httpx2 httpcore httpcore2"
_MODELS: Final = "openai anthropic groq together"
_DATABASES: Final = "sqlite3 psycopg psycopg2 pymysql MySQLdb oracledb"

# Kind, why, packages, classes. A subclass takes the rule of its nearest ancestor in the table.
_TABLE: Final[tuple[tuple[Kind, str, str, str], ...]] = (
    ("bug", "the code is wrong", "builtins", "TypeError NameError AttributeError ImportError"),
    ("bug", "the code is wrong", "builtins", "NotImplementedError AssertionError SyntaxError"),
    ("bug", "the code never stops calling itself", "builtins", "RecursionError"),
    #
    ("transient", "it took too long", "builtins multiprocessing redis urllib3", "TimeoutError"),
    ("transient", "it took too long", "google sqlalchemy", "TimeoutError"),
    ("transient", "it took too long", _HTTPX, "TimeoutException"),
    ("transient", "it took too long", _MODELS, "APITimeoutError"),
    ("transient", "it took too long", "requests", "Timeout"),
    ("transient", "it took too long", "subprocess", "TimeoutExpired"),
    ("transient", "it took too long", "botocore", "ConnectTimeoutError ReadTimeoutError"),
    ("transient", "it took too long", "grpc", "FutureTimeoutError"),
    ("transient", "it took too long", "psycopg_pool", "PoolTimeout"),
    ("transient", "it took too long", "elastic_transport", "ConnectionTimeout"),
    #
    ("transient", "the connection failed", "builtins requests", "ConnectionError"),
    ("transient", "the connection failed", "redis elastic_transport", "ConnectionError"),
    ("transient", "the connection failed", _HTTPX, "TransportError NetworkError ProxyError"),
    ("transient", "the connection failed", _HTTPX, "ProtocolError ConnectionNotAvailable"),
    ("transient", "the connection failed", "requests", "ChunkedEncodingError"),
    ("transient", "the connection failed", "urllib3", "ProtocolError PoolError ProxyError"),
    ("transient", "the connection failed", "urllib3 ssl", "SSLError"),
    ("transient", "the connection failed", "aiohttp", "ClientConnectionError ClientPayloadError"),
    ("transient", "the connection failed", "http", "BadStatusLine IncompleteRead"),
    ("transient", "the connection failed", "socket", "gaierror herror"),
    ("transient", "the connection failed", "asyncio", "IncompleteReadError"),
    ("transient", "the connection failed", "anyio", "BrokenResourceError"),
    ("transient", "the connection failed", "websockets", "ConnectionClosed"),
    ("transient", "the connection failed", "smtplib", "SMTPServerDisconnected"),
    ("transient", "the connection failed", _MODELS + " stripe", "APIConnectionError"),
    ("transient", "the connection failed", "openai", "WebSocketConnectionClosedError"),
    ("transient", "the connection failed", "psycopg psycopg2", "OperationalError"),
    ("transient", "the connection failed", "botocore", "ConnectionError HTTPClientError"),
    ("transient", "the connection failed", "botocore", "IncompleteReadError"),
    ("transient", "the connection failed", "pika aiormq", "AMQPConnectionError"),
    ("transient", "the connection failed", "pymongo", "AutoReconnect"),
    ("transient", "the connection failed", "azure", "ServiceRequestError ServiceResponseError"),
    ("transient", "the connection failed", "google", "TransportError"),
    #
    ("transient", "may pass", "requests google", "RetryError"),
    ("transient", "may pass", "anthropic", "RetryableError"),
    ("transient", "may pass", "botocore", "CapacityNotAvailableError"),
    ("transient", "may pass", "ftplib", "error_temp"),
    ("transient", "may pass", "redis", "ClusterDownError TryAgainError OutOfMemoryError"),
    ("transient", "a standby may be taking over", "redis", "ReadOnlyError"),
    ("transient", "somebody else wrote first", "redis", "WatchError"),
    #
    ("permanent", "the certificate was refused", "ssl", "SSLCertVerificationError"),
    ("permanent", "the certificate was refused", "aiohttp", "ClientConnectorCertificateError"),
    ("permanent", "the certificate was refused", "aiohttp", "ServerFingerprintMismatch"),
    ("permanent", "sign-in was refused", "redis", "AuthenticationError AuthorizationError"),
    ("permanent", "sign-in was refused", "pika aiormq", "AuthenticationError"),
    ("permanent", "sign-in was refused", "pika aiormq", "ProbableAuthenticationError"),
    ("permanent", "sign-in was refused", "pika", "ProbableAccessDeniedError"),
    ("permanent", "sign-in was refused", "botocore", "NoCredentialsError NoAuthTokenError"),
    ("permanent", "sign-in was refused", "botocore", "PartialCredentialsError"),
    ("permanent", "sign-in was refused", "google", "DefaultCredentialsError"),
    ("permanent", "not permitted", "builtins", "PermissionError"),
    ("permanent", "not permitted", "fastmcp", "AuthorizationError DisabledError"),
    ("permanent", "not permitted", "redis", "NoPermissionError"),
    #
    ("permanent", "not found", "builtins", "FileNotFoundError NotADirectoryError"),
    ("permanent", "not found", "fastmcp", "NotFoundError"),
    ("permanent", "in the way", "builtins", "FileExistsError IsADirectoryError"),
    ("permanent", "the request is wrong", _HTTPX, "UnsupportedProtocol LocalProtocolError"),
    ("permanent", "the request is wrong", _HTTPX + " http", "InvalidURL"),
    ("permanent", "the request is wrong", "requests aiohttp", "InvalidURL"),
    ("permanent", "the request is wrong", "requests", "InvalidSchema MissingSchema URLRequired"),
    ("permanent", "the request is wrong", "requests", "InvalidHeader"),
    ("permanent", "the request is wrong", "urllib3", "LocationValueError"),
    ("permanent", "the request is wrong", "aiohttp", "NonHttpUrlClientError"),
    ("permanent", "the request is wrong", "websockets", "InvalidURI"),
    ("permanent", "the request is wrong", "botocore", "ParamValidationError ValidationError"),
    ("permanent", "the request is wrong", "botocore", "NoRegionError UnknownServiceError"),
    ("permanent", "the request is wrong", "redis", "DataError"),
    ("permanent", "the request is wrong", "ftplib", "error_perm"),
    ("permanent", "sent in circles", "httpx httpx2 requests", "TooManyRedirects"),
    ("permanent", "the statement or its data is wrong", _DATABASES, "IntegrityError DataError"),
    ("permanent", "the statement or its data is wrong", _DATABASES, "ProgrammingError"),
    ("permanent", "the statement or its data is wrong", _DATABASES, "NotSupportedError"),
    ("permanent", "invalid input", "pydantic pydantic_core msgspec", "ValidationError"),
    ("permanent", "invalid input", "jsonschema marshmallow fastmcp", "ValidationError"),
    ("permanent", "invalid input", "builtins", "UnicodeError"),
    #
    # A cut-off answer, or a language model's: the next one may be whole.
    ("unknown", "the next text may be JSON", "json", "JSONDecodeError"),
    ("unknown", "the machine was short of memory", "builtins", "MemoryError"),
    ("unknown", "raised as if somebody had pressed Ctrl-C", "builtins", "KeyboardInterrupt"),
    ("unknown", "something called sys.exit", "builtins", "SystemExit"),
    ("unknown", "canceled, but not by benbi", "asyncio concurrent", "CancelledError"),
)
_RULES: Final[dict[str, tuple[Kind, str]]] = {
    f"{package}.{name}": (kind, why)
    for kind, why, packages, classes in _TABLE
    for package in packages.split()
    for name in classes.split()
}
_TRANSIENT_ERRNO: Final = words(
    "EAGAIN EWOULDBLOCK EINTR EBUSY ETXTBSY EDEADLK ENOLCK EMFILE ENFILE ENOMEM ENOBUFS ENOSPC "
    "EDQUOT ESTALE ETIMEDOUT ECONNRESET ECONNREFUSED ECONNABORTED EPIPE ENOTCONN ENETDOWN "
    "ENETUNREACH ENETRESET EHOSTDOWN EHOSTUNREACH EADDRINUSE EADDRNOTAVAIL"
)
_PERMANENT_ERRNO: Final = words(
    "ENOENT ENOTDIR EISDIR EEXIST ENOTEMPTY EACCES EPERM EROFS ENAMETOOLONG ELOOP EXDEV "
    "ENOEXEC ENODEV ENXIO EINVAL EFBIG"
)


def by_class(error: BaseException, names: list[str]) -> Verdict | None:
    """The verdict on the nearest known class; ``names`` are those of the error's classes."""
    for name in names:
        if name in _RULES:
            kind, why = _RULES[name]
            return Verdict(kind, f"{name}: {why}")
        if name == "builtins.OSError" and (verdict := _by_errno(error)):
            return verdict
    return None


def _by_errno(error: BaseException) -> Verdict | None:
    number = read(error, "errno")
    name = errno.errorcode.get(number, "") if isinstance(number, int) else ""
    if name in _TRANSIENT_ERRNO:
        return Verdict("transient", f"OSError {name}: may pass")
    if name in _PERMANENT_ERRNO:
        return Verdict("permanent", f"OSError {name}: trying again can not help")
    return None
