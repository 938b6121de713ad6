"""Addresses of the HTTP API, as requests of the protocol. No I/O.

Everything can be asked by `POST /v1/rpc`; these are for curl, links and caches.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Final, cast

import attrs

from engine.control.protocol.error_kinds import ERROR_KINDS
from engine.control.transport.http_connection import HttpRequest
from engine.control.transport.request_head import BadRequest
from engine.core.schema import Json

_SESSION: Final = r"/v1/sessions/(?P<session_id>[^/]+)"
_NUMBERS: Final = frozenset({"after", "limit", "tail"})


@attrs.frozen
class RpcRoute:
    """A request of the protocol.

    Attributes:
        method: its method.
        params: its params.
    """

    method: str
    params: Mapping[str, Json]


_GET: Final = tuple(
    (re.compile(pattern), method)
    for pattern, method in (
        ("/v1/status", "server.status"),
        ("/v1/models", "model.list"),
        ("/v1/agents", "agent.list"),
        ("/v1/tools", "tool.list"),
        ("/v1/clients", "clients"),
        ("/v1/usage", "session.usage"),
        ("/v1/asked", "asked"),
        ("/v1/search", "session.search"),
        ("/v1/sessions", "session.list"),
        (_SESSION, "session.get"),
        (f"{_SESSION}/messages", "messages"),
        (f"{_SESSION}/events", "events"),
        (f"{_SESSION}/snapshot", "snapshot"),
        (f"{_SESSION}/asked", "asked"),
        (f"{_SESSION}/diff", "diff"),
        (f"{_SESSION}/context", "context"),
    )
)
_POST: Final = tuple(
    (re.compile(pattern), method)
    for pattern, method in (
        ("/v1/sessions", "session.create"),
        (f"{_SESSION}/(?:prompt|queue|steer|cancel|resume|undo|redo)", ""),
        (f"{_SESSION}/requests/(?P<request_id>[^/]+)", "answer"),
    )
)
_STATUS: Final[Mapping[str, int]] = {
    "parse": 400,
    "request": 400,
    "method": 404,
    "params": 400,
    "internal": 500,
    "overloaded": 503,
    "not_ready": 401,
    "forbidden": 403,
    "not_found": 404,
    "too_large": 413,
    "rate_limited": 429,
    "draining": 503,
    "unsupported": 501,
    "store": 503,
    "provider": 502,
    "cancelled": 408,
    "config": 400,
}


def route_of(request: HttpRequest) -> RpcRoute:
    """Return the request of the protocol that *request* stands for.

    Raises:
        BadRequest: there is no such address, or the body is not an object of JSON.
    """
    head = request.head
    if head.method == "POST":
        params = _body(request.body)
        if key := head.fields.get("idempotency-key"):
            params.setdefault("key", key)
        return _match_route(_POST, head.path, params, _posted)
    return _match_route(_GET, head.path, {name: _value(name, text) for name, text in head.query.items()}, _asked_for)


def status_of(kind: str) -> int:
    """Return the status of an answer with an error of *kind*; what is not listed is a conflict with what is true now."""
    assert kind in ERROR_KINDS
    return _STATUS.get(kind, 409)


def _match_route(
    routes: tuple[tuple[re.Pattern[str], str], ...],
    path: str,
    params: dict[str, Json],
    method_of: Callable[[str, str, Mapping[str, Json]], str],
) -> RpcRoute:
    for pattern, method in routes:
        matched = pattern.fullmatch(path)
        if matched is not None:
            return RpcRoute(method_of(method, path, params), {**params, **matched.groupdict()})
    raise BadRequest(404, f"there is nothing at {path}")


def _asked_for(method: str, path: str, params: Mapping[str, Json]) -> str:  # noqa: ARG001  # the address says all
    return method


def _posted(method: str, path: str, params: Mapping[str, Json]) -> str:
    if method == "answer":
        # The three kinds of questions have answers with different fields.
        return next(
            (name for field, name in (("answers", "question.answer"), ("how", "recovery.answer")) if field in params),
            "permission.reply",
        )
    return method or path.rpartition("/")[2]


def _value(name: str, text: str) -> Json:
    return int(text) if name in _NUMBERS and re.fullmatch("[0-9]{1,15}", text) else text


def _body(body: bytes) -> dict[str, Json]:
    try:
        document: object = json.loads(body or b"{}")
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise BadRequest(400, "the body is not an object of JSON")
    return cast("dict[str, Json]", document)
