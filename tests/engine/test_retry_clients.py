"""Errors of the real client libraries, raised on loopback where that is cheap.

The libraries are in tests/requirements-clients.txt. A missing one is an error, never a skip.
"""

from __future__ import annotations

import asyncio
import importlib
import socket
import urllib.request
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import aio_pika
import aiohttp
import aiormq.exceptions
import anthropic
import anyio
import asyncpg
import botocore.awsrequest
import botocore.exceptions
import botocore.httpsession
import fastmcp.exceptions
import google.api_core.exceptions
import google.genai.errors
import grpc
import grpc.aio
import httpx
import httpx2
import jsonschema
import mcp
import mcp_types
import openai
import pika
import pika.exceptions
import psycopg
import psycopg_pool
import pydantic
import pytest
import redis
import requests
import urllib3
import websockets.exceptions
from botocore.retries import standard as botocore_retries
from redis.backoff import NoBackoff
from redis.retry import Retry

from benbi.retry import Verdict, classify
from benbi.retry.classes import _TABLE  # pyright: ignore[reportPrivateUsage]
from tests.support.answering import AnsweringServer, answering, write_certificate


def raised(call: Callable[[], object]) -> BaseException:
    try:
        call()
    except BaseException as error:
        return error
    pytest.fail("nothing was raised")


def judged(call: Callable[[], object]) -> Verdict:
    return classify(raised(call))


# -- Over HTTP --------------------------------------------------------------------------------


def by_httpx(url: str, patience: float = 10) -> None:
    with httpx.Client(timeout=patience, trust_env=False) as client:
        client.get(url).raise_for_status()


def by_httpx2(url: str, patience: float = 10) -> None:
    with httpx2.Client(timeout=patience, trust_env=False) as client:
        client.get(url).raise_for_status()


def by_requests(url: str, patience: float = 10) -> None:
    with requests.Session() as session:
        session.trust_env = False
        session.get(url, timeout=patience).raise_for_status()


def by_urllib3(url: str, patience: float = 10) -> None:
    """urllib3 raises for no status by itself: its errors are those of the connection."""
    with urllib3.PoolManager() as pool:
        pool.request("GET", url, timeout=patience, retries=0)


def by_urllib(url: str, patience: float = 10) -> None:
    with urllib.request.urlopen(url, timeout=patience) as answer:
        answer.read()


def by_aiohttp(url: str, patience: float = 10) -> None:
    async def get() -> None:
        limit = aiohttp.ClientTimeout(total=patience)
        async with aiohttp.ClientSession(timeout=limit) as session, session.get(url) as answer:
            answer.raise_for_status()
            await answer.read()

    asyncio.run(get())


def by_openai(url: str, patience: float = 10) -> None:
    with openai.OpenAI(api_key="k", base_url=url, timeout=patience, max_retries=0) as client:
        client.models.list()


def by_anthropic(url: str, patience: float = 10) -> None:
    with anthropic.Anthropic(api_key="k", base_url=url, timeout=patience, max_retries=0) as client:
        client.models.list()


def by_botocore(url: str, patience: float = 10) -> None:
    """As by_urllib3: the status is judged further up, in the client's parser."""
    session = botocore.httpsession.URLLib3Session(timeout=patience)
    session.send(botocore.awsrequest.AWSRequest("GET", url).prepare())
    session.close()


Client = Callable[..., None]
HTTP: list[Client] = [by_httpx, by_httpx2, by_requests, by_aiohttp, by_urllib]
MODELS: list[Client] = [by_openai, by_anthropic]
SOCKETS: list[Client] = [by_urllib3, by_botocore]


@pytest.fixture(scope="module")
def server() -> Iterator[AnsweringServer]:
    with answering() as running:
        yield running


@pytest.fixture(scope="module")
def refusing() -> Iterator[int]:
    """A port of loopback that refuses connections: bound, and not listening."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


@pytest.mark.parametrize("client", [*HTTP, *MODELS])
@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        ("429", Verdict("transient", "HTTP 429: may pass", 7.0)),
        ("429-by-date", Verdict("transient", "HTTP 429: may pass", 90.0)),
        ("429-in-ms", Verdict("transient", "HTTP 429: may pass", 0.25)),
        ("503", Verdict("transient", "HTTP 503: may pass", 120.0)),
        ("500", Verdict("transient", "HTTP 500: may pass")),
        ("501", Verdict("permanent", "HTTP 501: the request was refused")),
        ("404", Verdict("permanent", "HTTP 404: the request was refused")),
        ("403-later", Verdict("transient", "HTTP 403 with Retry-After: may pass", 60.0)),
    ],
)
def test_an_answer_goes_by_its_status(
    server: AnsweringServer, client: Client, answer: str, verdict: Verdict
) -> None:
    assert judged(lambda: client(f"{server.url}/{answer}")) == verdict


@pytest.mark.parametrize("client", [*HTTP, *MODELS, *SOCKETS])
def test_a_server_that_hangs_up_is_transient(server: AnsweringServer, client: Client) -> None:
    assert judged(lambda: client(f"{server.url}/closes")).kind == "transient"


@pytest.mark.parametrize("client", [*HTTP, *MODELS, *SOCKETS])
def test_a_time_out_is_transient(server: AnsweringServer, client: Client) -> None:
    assert judged(lambda: client(f"{server.url}/hangs", patience=0.05)).kind == "transient"


@pytest.mark.parametrize("client", [*HTTP, *MODELS, by_urllib3])
def test_a_body_cut_short_is_transient(server: AnsweringServer, client: Client) -> None:
    assert judged(lambda: client(f"{server.url}/cuts")).kind == "transient"


@pytest.mark.parametrize("client", [*HTTP, *MODELS, *SOCKETS])
def test_a_refused_connection_is_transient(refusing: int, client: Client) -> None:
    assert judged(lambda: client(f"http://127.0.0.1:{refusing}/")).kind == "transient"


@pytest.mark.parametrize("client", [*HTTP, by_urllib3])
def test_a_refused_certificate_is_permanent(tmp_path: Path, client: Client) -> None:
    with answering(write_certificate(tmp_path / "own.pem")) as server:
        verdict = judged(lambda: client(f"{server.url}/404"))
    assert verdict.kind == "permanent"
    assert "certificate" in verdict.rule


@pytest.mark.parametrize("client", [by_httpx, by_httpx2, by_requests, by_aiohttp, by_urllib3])
def test_an_address_that_can_not_be_right_is_permanent(client: Client) -> None:
    assert judged(lambda: client("gopher://localhost/")).kind == "permanent"


def test_urllib_goes_by_the_reason() -> None:
    missing = judged(lambda: urllib.request.urlopen("file:///no/such/file"))
    assert missing.kind == "permanent"
    assert "FileNotFoundError" in missing.rule


# -- Language models --------------------------------------------------------------------------


def test_a_spent_quota_is_final_though_its_status_is_429(server: AnsweringServer) -> None:
    openais = judged(lambda: by_openai(f"{server.url}/429-spent"))
    assert openais == Verdict("permanent", "insufficient_quota: final, whatever the status")
    anthropics = judged(lambda: by_anthropic(f"{server.url}/429-limit"))
    assert anthropics.kind == "permanent"
    assert anthropics.rule.startswith("enforced_spend_limit_reached")


def test_a_spent_budget_of_litellm_is_final_too() -> None:
    """litellm is too large to install for this: its class stands here as it is there."""
    budget = type("BudgetExceededError", (Exception,), {"__module__": "litellm.exceptions"})
    error = budget("spent")
    error.status_code = 429
    assert classify(error).kind == "permanent"


def test_too_long_an_input_is_permanent(server: AnsweringServer) -> None:
    verdict = judged(lambda: by_openai(f"{server.url}/400"))
    assert verdict == Verdict("permanent", "context_length_exceeded: final, whatever the status")


def test_an_error_inside_a_stream_goes_by_its_word(server: AnsweringServer) -> None:
    def stream() -> None:
        url = f"{server.url}/overloaded-in-stream"
        with anthropic.Anthropic(api_key="k", base_url=url, max_retries=0) as client:
            told: Any = [{"role": "user", "content": "hello"}]
            for _ in client.messages.create(model="m", max_tokens=1, messages=told, stream=True):
                pass

    assert judged(stream) == Verdict("transient", "overloaded_error: may pass")


def test_an_openai_error_without_a_status_goes_by_its_word() -> None:
    request = httpx2.Request("POST", "http://localhost/")

    def error(word: str) -> openai.APIError:
        return openai.APIError("said the stream", request, body={"code": word})

    assert classify(error("rate_limit_exceeded")).kind == "transient"
    assert classify(error("invalid_request_error")).kind == "permanent"
    assert classify(error("never_heard_of")).kind == "unknown"


def test_what_a_model_client_wrapped_blindly_is_judged_itself() -> None:
    request = httpx2.Request("POST", "http://localhost/")
    for cause, kind in [
        (httpx2.ReadError("reset"), "transient"),
        (httpx2.LocalProtocolError("illegal header value"), "permanent"),
        (TypeError("not a body"), "bug"),
        (RuntimeError("who knows"), "transient"),
    ]:
        error = openai.APIConnectionError(request=request)
        error.__cause__ = cause
        assert classify(error).kind == kind, cause


@pytest.mark.parametrize(
    ("code", "status", "kind", "wait"),
    [
        (429, "RESOURCE_EXHAUSTED", "transient", 34.5),
        (503, "UNAVAILABLE", "transient", None),
        (400, "INVALID_ARGUMENT", "permanent", None),
    ],
)
def test_gemini(code: int, status: str, kind: str, wait: float | None) -> None:
    details = [
        {"@type": "type.googleapis.com/google.rpc.Help"},
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{wait}s"},
    ]
    told = {"error": {"code": code, "status": status, "details": details}}
    verdict = classify(google.genai.errors.APIError(code, told))
    assert (verdict.kind, verdict.retry_after) == (kind, wait)


# -- gRPC and Google --------------------------------------------------------------------------

GRPC = {
    "CANCELLED": "unknown",
    "UNKNOWN": "unknown",
    "INVALID_ARGUMENT": "permanent",
    "DEADLINE_EXCEEDED": "transient",
    "NOT_FOUND": "permanent",
    "ALREADY_EXISTS": "permanent",
    "PERMISSION_DENIED": "permanent",
    "RESOURCE_EXHAUSTED": "transient",
    "FAILED_PRECONDITION": "permanent",
    "ABORTED": "transient",
    "OUT_OF_RANGE": "permanent",
    "UNIMPLEMENTED": "permanent",
    "INTERNAL": "transient",
    "UNAVAILABLE": "transient",
    "DATA_LOSS": "permanent",
    "UNAUTHENTICATED": "permanent",
}


class _Refusing(grpc.GenericRpcHandler):
    """Answers /any/CODE with that status."""

    def service(self, handler_call_details: Any) -> Any:
        code = grpc.StatusCode[handler_call_details.method.split("/")[-1]]

        def refuse(request: bytes, context: grpc.ServicerContext) -> bytes:
            context.abort(code, "refused")
            raise AssertionError

        return grpc.unary_unary_rpc_method_handler(refuse)


def test_every_grpc_status_has_a_verdict() -> None:
    assert set(GRPC) == {code.name for code in grpc.StatusCode} - {"OK"}
    server = grpc.server(futures.ThreadPoolExecutor(1), handlers=[_Refusing()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            for name, kind in GRPC.items():
                call = channel.unary_unary(f"/any/{name}")
                verdict = judged(lambda call=call: call(b"", timeout=10))
                assert verdict == Verdict(kind, f"gRPC {name}")
    finally:
        server.stop(None).wait()


def test_grpc_of_asyncio_and_of_google() -> None:
    nothing = grpc.aio.Metadata()
    lost = grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, nothing, nothing)
    assert classify(lost) == Verdict("transient", "gRPC UNAVAILABLE")
    for code in grpc.StatusCode:
        if code is not grpc.StatusCode.OK:
            error = google.api_core.exceptions.from_grpc_status(code, "refused")
            assert classify(error).kind == GRPC[code.name], code


def test_google_over_http_goes_by_the_status() -> None:
    kinds = {429: "transient", 500: "transient", 502: "transient", 401: "permanent"}
    for status, kind in kinds.items():
        answer = requests.Response()
        answer.status_code = status
        answer.request = requests.Request("GET", "http://localhost/").prepare()
        error = google.api_core.exceptions.from_http_response(answer)
        assert classify(error).kind == kind, status


# -- Databases --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        ("08006", "transient"),
        ("40001", "transient"),
        ("40P01", "transient"),
        ("53300", "transient"),
        ("57P01", "transient"),
        ("57P03", "transient"),
        ("57014", "transient"),
        ("55P03", "transient"),
        ("25006", "transient"),
        ("22P02", "permanent"),
        ("23505", "permanent"),
        ("28P01", "permanent"),
        ("42P01", "permanent"),
        ("42501", "permanent"),
        ("P0001", "unknown"),
        ("XX000", "unknown"),
    ],
)
def test_postgresql_goes_by_the_sqlstate(state: str, kind: str) -> None:
    assert classify(psycopg.errors.lookup(state)("said the server")).kind == kind
    other = asyncpg.exceptions.PostgresError.new({"C": state, "M": "said the server"})
    assert classify(other).kind == kind


def test_postgresql_that_can_not_be_reached_is_transient(refusing: int) -> None:
    where = f"host=127.0.0.1 port={refusing} user=nobody dbname=nothing"
    assert judged(lambda: psycopg.connect(where, connect_timeout=5)) == Verdict(
        "transient", "psycopg.OperationalError: the connection failed"
    )
    url = f"postgresql://nobody@127.0.0.1:{refusing}/nothing"
    assert judged(lambda: asyncio.run(asyncpg.connect(url))).kind == "transient"


def test_a_pool_without_a_free_connection_is_transient(refusing: int) -> None:
    where = f"host=127.0.0.1 port={refusing} user=nobody dbname=nothing"
    with psycopg_pool.ConnectionPool(where, min_size=1, open=False) as pool:
        verdict = judged(lambda: pool.getconn(timeout=0.05))
    assert verdict == Verdict("transient", "psycopg_pool.PoolTimeout: it took too long")


def test_a_wrong_statement_is_permanent() -> None:
    assert classify(psycopg.ProgrammingError("2 placeholders, 1 parameter")).kind == "permanent"
    assert classify(psycopg.IntegrityError("duplicate")).kind == "permanent"
    assert classify(psycopg.InterfaceError("who knows")).kind == "unknown"


def test_redis(refusing: int) -> None:
    with redis.Redis(port=refusing, retry=Retry(NoBackoff(), 0)) as client:
        assert judged(client.ping).kind == "transient"
    for error, kind in [
        (redis.TimeoutError(), "transient"),
        (redis.BusyLoadingError(), "transient"),
        (redis.ReadOnlyError(), "transient"),
        (redis.WatchError(), "transient"),
        (redis.exceptions.MasterDownError("MASTERDOWN"), "transient"),
        (redis.AuthenticationError(), "permanent"),
        (redis.exceptions.NoPermissionError(), "permanent"),
        (redis.DataError(), "permanent"),
        (redis.ResponseError("WRONGTYPE"), "unknown"),
    ]:
        assert classify(error).kind == kind, error


# -- AWS, message brokers, MCP ------------------------------------------------------------------


def refused_by_aws(code: str, status: int, **headers: str) -> botocore.exceptions.ClientError:
    return botocore.exceptions.ClientError(
        {
            "Error": {"Code": code, "Message": "said the service"},
            "ResponseMetadata": {"HTTPStatusCode": status, "HTTPHeaders": headers},
        },
        "PutItem",
    )


def test_aws_goes_by_its_code_and_then_by_the_status() -> None:
    # The lists of botocore itself: what it would try again is transient here.
    for code in (
        *botocore_retries.ThrottledRetryableChecker._THROTTLED_ERROR_CODES,
        *botocore_retries.TransientRetryableChecker._TRANSIENT_ERROR_CODES,
    ):
        assert classify(refused_by_aws(code, 400)).kind == "transient", code
    assert classify(refused_by_aws("InternalError", 500)).kind == "transient"
    assert classify(refused_by_aws("NoSuchKey", 404)).kind == "permanent"
    assert classify(refused_by_aws("ValidationException", 400)).kind == "permanent"
    slow = classify(refused_by_aws("SlowDown", 503, **{"retry-after": "3"}))
    assert slow == Verdict("transient", "AWS SlowDown: may pass", 3.0)
    missing = botocore.exceptions.NoCredentialsError()
    assert classify(missing).kind == "permanent"


def test_message_brokers(refusing: int) -> None:
    where = pika.ConnectionParameters("127.0.0.1", refusing)
    assert judged(lambda: pika.BlockingConnection(where)).kind == "transient"

    async def connect() -> None:
        await aio_pika.connect(f"amqp://127.0.0.1:{refusing}/")

    assert judged(lambda: asyncio.run(connect())).kind == "transient"
    assert classify(pika.exceptions.StreamLostError()).kind == "transient"
    assert classify(pika.exceptions.ProbableAuthenticationError(403, "no")).kind == "permanent"
    assert classify(aiormq.exceptions.ProbableAuthenticationError("no")).kind == "permanent"


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (mcp_types.CONNECTION_CLOSED, "transient"),
        (mcp_types.REQUEST_TIMEOUT, "transient"),
        (mcp_types.PARSE_ERROR, "permanent"),
        (mcp_types.INVALID_REQUEST, "permanent"),
        (mcp_types.METHOD_NOT_FOUND, "permanent"),
        (mcp_types.INVALID_PARAMS, "permanent"),
        (mcp_types.URL_ELICITATION_REQUIRED, "permanent"),
        (mcp_types.UNSUPPORTED_PROTOCOL_VERSION, "permanent"),
        (mcp_types.INTERNAL_ERROR, "unknown"),
    ],
)
def test_mcp(code: int, kind: str) -> None:
    assert classify(mcp.MCPError(code, "said the server")).kind == kind


# -- Others -----------------------------------------------------------------------------------


class Household(pydantic.BaseModel):
    members: int


def test_invalid_input_is_permanent() -> None:
    for call in (
        lambda: Household.model_validate({"members": "many"}),
        lambda: jsonschema.validate("many", {"type": "integer"}),
    ):
        assert judged(call).kind == "permanent"
    assert classify(fastmcp.exceptions.ValidationError("many")).kind == "permanent"
    assert classify(fastmcp.exceptions.NotFoundError("no such tool")).kind == "permanent"
    assert classify(fastmcp.exceptions.ToolError("who knows")).kind == "unknown"


def test_lost_streams_are_transient() -> None:
    assert classify(anyio.BrokenResourceError()).kind == "transient"
    assert classify(websockets.exceptions.ConnectionClosedError(None, None)).kind == "transient"


def test_a_reply_that_is_not_json_is_unknown() -> None:
    reply = requests.Response()
    reply._content = b"<html>"
    assert judged(reply.json) == Verdict(
        "unknown", "json.JSONDecodeError: the next text may be JSON"
    )


# Their names were checked by hand: they are too large to install for a row or two each.
NOT_INSTALLED = {
    *("MySQLdb", "oracledb", "psycopg2", "pymysql", "pymongo", "sqlalchemy"),
    *("azure", "elastic_transport", "groq", "stripe", "together"),
    *("marshmallow", "msgspec"),
}


def test_every_name_in_the_table_exists() -> None:
    for module in ("ftplib", "google.auth.exceptions", "multiprocessing", "smtplib"):
        importlib.import_module(module)
    existing: set[str] = set()
    left: list[type[BaseException]] = [BaseException]
    while left:
        known = left.pop()
        left += type.__subclasses__(known)
        existing.add(f"{known.__module__.partition('.')[0]}.{known.__name__}")
    for kind, _, packages, classes in _TABLE:
        here = [package for package in packages.split() if package not in NOT_INSTALLED]
        for name in classes.split():
            assert not here or any(f"{package}.{name}" in existing for package in here), name
        assert kind in ("transient", "unknown", "permanent", "bug")
