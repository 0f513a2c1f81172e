"""The REST door: what each address answers. The one module that knows FastAPI."""

from __future__ import annotations

import logging
from dataclasses import asdict
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import quote, urlencode
from uuid import UUID

from fastapi import APIRouter, FastAPI, Header, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, JSONResponse, Response

from benbi.errors import BenbiError, JobNotFound, StoreError
from benbi.job import Job, State
from benbi.server.http import models
from benbi.server.http.auth import owner_of_scope, route_path
from benbi.server.http.closing import Closing
from benbi.server.http.download import download
from benbi.server.http.health import Health
from benbi.server.http.mcp_path import PATH
from benbi.server.http.problem import MEDIA_TYPE, problem, problem_of
from benbi.server.http.stream import EventStream

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import Lifespan

    from benbi.app import Benbi

logger = logging.getLogger("benbi.http")

_PROBLEM: Final[dict[int | str, dict[str, Any]]] = {
    status: {
        "description": description,
        "content": {MEDIA_TYPE: {"schema": models.ProblemView.model_json_schema()}},
    }
    for status, description in (("4XX", "Refused; nothing was stored."), ("5XX", "Not now."))
}


class Rest:
    """The addresses of one app, each a method."""

    def __init__(self, app: Benbi, closing: Closing, health: Health, *, mcp: bool) -> None:
        self._app = app
        self._mcp = mcp
        self._closing = closing
        self._health = health

    def router(self) -> APIRouter:
        """Every address, relative to the prefix under which the door is mounted."""
        router = APIRouter(responses=_PROBLEM, redirect_slashes=False)
        add: Callable[..., None] = router.add_api_route
        add("/", self.index, summary="What there is")
        add("/healthz", self.healthz, summary="Whether the server can work")
        add("/api/jobs", self.jobs, summary="Own jobs, newest first")
        add("/api/jobs", self.create, methods=["POST"], status_code=202, summary="Create a job")
        add("/api/jobs/{job_id}", self.job, summary="One job")
        add(
            "/api/jobs/{job_id}/events",
            self.events,
            response_model=models.EventsView,
            summary="Its events: a stream for Accept: text/event-stream, else JSON",
        )
        add("/api/jobs/{job_id}/result", self.result, response_model=Any, summary="Its result")
        add("/api/jobs/{job_id}/explain", self.explain, summary="Why it is not running")
        add("/api/jobs/{job_id}/artifacts", self.artifacts, summary="The files that it saved")
        add(
            "/api/jobs/{job_id}/artifacts/{name}",
            self.artifact,
            response_class=FileResponse,
            summary="One of them, as a download",
        )
        add("/api/jobs/{job_id}/logs", self.logs, summary="What it logged")
        add("/api/jobs/{job_id}/cancel", self.cancel, methods=["POST"], summary="Cancel it")
        add("/api/jobs/{job_id}/answer", self.answer, methods=["POST"], summary="Answer it")
        add("/api/jobs/{job_id}/retry", self.retry, methods=["POST"], summary="Run it again")
        return router

    async def index(self, request: Request) -> dict[str, Any]:
        here = _prefix(request)
        catalogue = await self._app.catalogue()
        paths = {"jobs": "/api/jobs", "openapi": "/api/openapi.json", "health": "/healthz"}
        if self._mcp:
            paths["mcp"] = PATH
        return {
            "name": "benbi",
            "version": version("benbi"),
            "tasks": sorted(entry.task for entry in catalogue),
            "links": {name: here + path for name, path in paths.items()},
        }

    async def healthz(self) -> Response:
        fault = await self._health.fault()
        if fault is not None:
            return problem(503, fault)
        return JSONResponse(self._health.view())

    async def jobs(
        self, request: Request, query: Annotated[models.ListQuery, Query()]
    ) -> models.JobsView:
        filters = query.model_dump(exclude_none=True, mode="json")
        found = await self._app.jobs(
            owner=_owner(request),
            state=query.state,
            task=query.task,
            queue=query.queue,
            limit=query.limit,
            before=None if query.before is None else str(query.before),
        )
        older = None
        if len(found) == query.limit:
            older = f"{_prefix(request)}/api/jobs?{urlencode(filters | {'before': found[-1].id})}"
        return models.JobsView(jobs=[_view(request, job) for job in found], next=older)

    async def create(
        self,
        request: Request,
        response: Response,
        body: models.CreateBody,
        idempotency_key: Annotated[str | None, Header()] = None,
    ) -> models.JobView:
        handle = await self._app.enqueue(
            body.task,
            body.arguments,
            owner=_owner(request) or "",
            key=_one_key(body.key, idempotency_key),
            priority=body.priority,
            delay=body.delay,
            run_at=body.run_at,
            queue=body.queue,
        )
        response.headers["location"] = _address(request, handle.id)
        return _view(request, await self._app.get(handle.id, owner=_owner(request)))

    async def job(self, request: Request, job_id: str) -> models.JobView:
        return _view(request, await self._find(request, job_id))

    async def events(
        self,
        request: Request,
        job_id: str,
        query: Annotated[models.EventsQuery, Query()],
        last_event_id: Annotated[str | None, Header()] = None,
    ) -> Any:
        job = await self._find(request, job_id)
        owner = _owner(request)
        if "text/event-stream" in request.headers.get("accept", ""):
            after = query.after if last_event_id is None else _as_seq(last_event_id)
            if job.final and after >= job.seq:
                # The one answer after which a browser's EventSource does not come back.
                return Response(status_code=204)
            return EventStream(self._app, job.id, after=after, owner=owner, closing=self._closing)
        found = await self._app.events(job.id, after=query.after, limit=query.limit, owner=owner)
        reached = found[-1].seq if found else query.after
        return models.EventsView(
            job_id=job.id,
            events=[models.EventView.model_validate(event) for event in found],
            next=reached,
            ended=job.final and reached >= job.seq,
        )

    async def result(self, request: Request, job_id: str) -> Response:
        job = await self._find(request, job_id)
        if job.state != State.COMPLETED:
            ended = "it ended without one" if job.final else "there is none yet; follow its events"
            return problem(
                409,
                f"the job is {job.state}: {ended}",
                kind="no-result",
                job_id=job.id,
                state=str(job.state),
            )
        text = await self._app.result_json(job.id, owner=_owner(request))
        return Response("null" if text is None else text, media_type="application/json")

    async def explain(self, request: Request, job_id: str) -> models.ExplanationView:
        found = await self._app.explain(_job_id(job_id), owner=_owner(request))
        return models.ExplanationView.model_validate(found)

    async def artifacts(self, request: Request, job_id: str) -> models.ArtifactsView:
        found = await self._app.artifacts(_job_id(job_id), owner=_owner(request))
        here = f"{_address(request, _job_id(job_id))}/artifacts"
        return models.ArtifactsView(
            job_id=_job_id(job_id),
            artifacts=[
                models.ArtifactView(**asdict(artifact), link=f"{here}/{quote(artifact.name)}")
                for artifact in found
            ],
        )

    async def artifact(self, request: Request, job_id: str, name: str) -> Response:
        artifact, path = await self._app.artifact_path(_job_id(job_id), name, owner=_owner(request))
        return download(artifact, path)

    async def logs(
        self, request: Request, job_id: str, query: Annotated[models.LogsQuery, Query()]
    ) -> models.LogsView:
        found = await self._app.logs(_job_id(job_id), attempt=query.attempt, owner=_owner(request))
        return models.LogsView(
            job_id=_job_id(job_id),
            lines=[models.LogLineView.model_validate(line) for line in found],
        )

    async def cancel(
        self,
        request: Request,
        response: Response,
        job_id: str,
        body: models.CancelBody | None = None,
    ) -> models.JobView:
        reason = body.reason if body else None
        job = await self._app.cancel(_job_id(job_id), owner=_owner(request), reason=reason)
        # A running job is asked to stop and ends a little later.
        response.status_code = 200 if job.final else 202
        return _view(request, job)

    async def answer(
        self, request: Request, job_id: str, body: models.AnswerBody
    ) -> models.JobView:
        owner = _owner(request)
        job = await self._app.answer(
            _job_id(job_id), body.value, question=body.question, owner=owner, by=owner or ""
        )
        return _view(request, job)

    async def retry(
        self, request: Request, job_id: str, body: models.RetryBody | None = None
    ) -> models.JobView:
        fresh = body.fresh if body else False
        job = await self._app.retry(_job_id(job_id), fresh=fresh, owner=_owner(request))
        return _view(request, job)

    async def _find(self, request: Request, job_id: str) -> Job:
        return await self._app.get(_job_id(job_id), owner=_owner(request))


def new_fastapi(rest: Rest, lifespan: Lifespan[FastAPI]) -> FastAPI:
    """The FastAPI app with every address, whose every error is a problem."""
    fastapi = FastAPI(
        title="benbi",
        version=version("benbi"),
        lifespan=lifespan,
        redirect_slashes=False,
        # Their pages fetch scripts from elsewhere.
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
    )
    router = rest.router()
    fastapi.include_router(router)
    # The framework names the methods of the first address that fits, not of all.
    fastapi.state.addresses = router.routes
    fastapi.add_exception_handler(BenbiError, _refused)
    fastapi.add_exception_handler(RequestValidationError, _invalid)
    fastapi.add_exception_handler(HTTPException, _unrouted)
    fastapi.add_exception_handler(Exception, _failed)
    return fastapi


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, BenbiError)
    if isinstance(error, StoreError):
        logger.warning("the database refused a call: %s", error)
    return problem_of(error)


async def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    # Without the value that was sent: an answer is no place for somebody's secret.
    problems = [
        {"path": ".".join(map(str, fault["loc"])), "problem": fault["msg"]}
        for fault in error.errors()
    ]
    detail = "; ".join(f"{fault['path']}: {fault['problem']}" for fault in problems)
    return problem(422, detail, kind="invalid-request", problems=problems)


async def _unrouted(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    detail = str(error.detail)
    if error.status_code == 404:
        detail = "there is nothing at this address; GET / lists what there is"
    elif error.status_code == 405:
        allowed = ", ".join(sorted(_methods_at(request)))
        detail = f"{request.method} is not for this address; {allowed} is"
        return problem(405, detail, headers={"allow": allowed})
    return problem(error.status_code, detail, headers=error.headers)


def _methods_at(request: Request) -> set[str]:
    path = route_path(request.scope)
    routes: list[APIRoute] = request.app.state.addresses
    found = [route.methods or set() for route in routes if route.path_regex.match(path)]
    return set[str]().union(*found)


async def _failed(_: Request, __: Exception) -> Response:
    return problem(500, "the server failed; its log says why")


def _owner(request: Request) -> str | None:
    return owner_of_scope(request.scope)


def _prefix(request: Request) -> str:
    return quote(str(request.scope.get("root_path", "")))


def _address(request: Request, job_id: str) -> str:
    return f"{_prefix(request)}/api/jobs/{job_id}"


def _view(request: Request, job: Job) -> models.JobView:
    here = _address(request, job.id)
    record = asdict(job)
    if record["error"] and _owner(request) is not None:
        record["error"]["traceback"] = ""
    parts = ("events", "result", "artifacts", "logs")
    links = {"self": here} | {part: f"{here}/{part}" for part in parts}
    return models.JobView.model_validate(record | {"links": links})


def _job_id(text: str) -> str:
    try:
        return str(UUID(text))
    except ValueError:
        raise JobNotFound(text) from None


def _one_key(in_body: str | None, in_header: str | None) -> str | None:
    # The draft of the header has the key in quotes, most clients send it bare.
    if in_header and len(in_header) > 2 and in_header[0] == in_header[-1] == '"':
        in_header = in_header[1:-1]
    if in_body and in_header and in_body != in_header:
        raise HTTPException(400, "key and Idempotency-Key differ; send one of them")
    return in_body or in_header


def _as_seq(last_event_id: str) -> int:
    if not (last_event_id.isascii() and last_event_id.isdigit() and len(last_event_id) < 19):
        raise HTTPException(400, "Last-Event-ID is not a number that this stream sent as an id")
    return int(last_event_id)
