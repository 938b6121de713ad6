"""Addresses of the HTTP API, as requests of the protocol. No I/O.

Everything can be asked by `POST /v1/rpc`; these are for curl, links and caches.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

import attrs

from engine.control.protocol.error_kinds import ERROR_KINDS
from engine.control.protocol.method_table import METHODS
from engine.control.transport.http_connection import HttpRequest
from engine.control.transport.request_head import BadRequest, RequestHead
from engine.core.schema import Json
from engine.jsonrpc.strict_json import BadJson, RpcLimits, read_json

_SESSION: Final = r"/v1/sessions/(?P<session_id>[^/]+)"
_NUMBERS: Final = frozenset({"after", "limit", "tail", "timeout", "since", "until"})
_WAIT: Final = re.compile(r'(?:^|[,;])\s*wait\s*=\s*"?([0-9]{1,9})(?![0-9])', re.IGNORECASE)
_LONGEST_WAIT: Final = 600
# The server has checked how long a body may be.
_LIMITS: Final = RpcLimits(bytes=1 << 30)


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
        (f"{_SESSION}/turns/(?P<turn_id>[^/]+)", "wait"),
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
_KINDS: Final[Mapping[int, str]] = {
    401: "forbidden",
    403: "forbidden",
    404: "method",
    405: "method",
    413: "too_large",
    421: "forbidden",
    426: "unsupported",
    429: "rate_limited",
    431: "too_large",
    503: "draining",
}


def route_of(request: HttpRequest) -> RpcRoute:
    """Return the request of the protocol that *request* stands for.

    Raises:
        BadRequest: there is no such address, or the body is not an object of JSON.
    """
    head = request.head
    if head.method == "POST":
        route = _match_route(_POST, head.path, _body(request.body), _posted)
        key = head.fields.get("idempotency-key")
        if key and METHODS[route.method].is_keyed:
            return attrs.evolve(route, params={"key": key, **route.params})
        if METHODS[route.method].needs_key and "key" not in route.params:
            raise BadRequest(
                400, f"{route.method} needs a header Idempotency-Key: any text that is new for each request"
            )
        return route
    params = {name: _value(name, text) for name, text in head.query.items()}
    route = _match_route(_GET, head.path, params, lambda method, _path, _params: method)
    if route.method == "wait":
        # To look is the default, and not to wait.
        return attrs.evolve(route, params={"timeout": 0, **route.params})
    return route


def seconds_to_wait(head: RequestHead) -> int | None:
    """Return how long the client prefers to wait for an end (RFC 7240: `Prefer: wait=10`); None: it does not say."""
    matched = _WAIT.search(head.fields.get("prefer", ""))
    return None if matched is None else min(int(matched[1]), _LONGEST_WAIT)


def kind_of(status: int) -> str:
    """Return the kind of error that a refusal with *status* is, before any method was run."""
    return _KINDS.get(status, "request")


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


def _posted(method: str, path: str, params: Mapping[str, Json]) -> str:
    if method == "answer":
        # The three kinds of questions have answers with different fields.
        return next(
            (name for field, name in (("answers", "question.answer"), ("how", "recovery.answer")) if field in params),
            "permission.reply",
        )
    return method or path.rpartition("/")[2]


def _value(name: str, text: str) -> Json:
    if name not in _NUMBERS or not re.fullmatch(r"[0-9]{1,15}(\.[0-9]{1,9})?", text):
        return text
    return float(text) if "." in text else int(text)


def _body(body: bytes) -> dict[str, Json]:
    try:
        document = read_json(body or b"{}", _LIMITS)
    except BadJson as error:
        raise BadRequest(400, str(error)) from None
    if not isinstance(document, dict):
        raise BadRequest(400, "the body is not an object of JSON")
    return document
