"""The HTTP side of the server: who is asking, and which answer they get."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from hashlib import sha256
from http import HTTPStatus
from typing import Final, Protocol, cast, final

import attrs
import trio

from engine.control.client_connection import BAD_TOKEN, TOO_FAST
from engine.control.control_methods import Documents
from engine.control.credentials import KEY_SECONDS, BrowserProofs, ClientCredentials, Login, Peer, RateLimit
from engine.control.event_stream import stream_params
from engine.control.http_routes import RpcRoute, kind_of, route_of, seconds_to_wait, status_of
from engine.control.page_files import is_page, page_response
from engine.control.protocol.error_kinds import error_of
from engine.control.protocol.handshake import WireLimits, may
from engine.control.protocol.json_schema import schema_text
from engine.control.protocol.watch_methods import SubscribeParams
from engine.control.protocol.wire_converter import BadParams
from engine.control.service.metrics import CONTENT_TYPE
from engine.control.session_export import CONTENT_TYPES, SUFFIXES, Format
from engine.control.session_media import Media
from engine.control.transport.access import UPLOADS
from engine.control.transport.http_connection import Answer, Fields, HttpRequest, Response, Stream, Upgrade
from engine.control.transport.message_transport import MessageTransport
from engine.control.transport.request_head import BadRequest, RequestHead
from engine.control.transport.websocket import WebSocket
from engine.core.errors import EngineError
from engine.core.schema import Json
from engine.journal.json_text import to_json_text

_SESSION: Final = "/v1/sessions/(?P<session_id>[^/]+)"
_EXPORT: Final = re.compile(f"{_SESSION}/export\\.(?P<suffix>json|md|html)")
_MESSAGE: Final = re.compile(f"{_SESSION}/messages/(?P<message_id>[^/]+)")
_MEDIA: Final = re.compile(f"{_SESSION}/media/(?P<media_id>[0-9a-f]{{32}})")
_STREAM: Final = re.compile(f"{_SESSION}/stream")
_FORMATS: Final[Mapping[str, Format]] = {suffix: form for form, suffix in SUFFIXES.items()}
SUBPROTOCOL: Final = "engine.v1"
_TICKET: Final = "engine.ticket."
# Without a credential: they hold no data, or are how one gets it.
_OPEN_PATHS: Final = frozenset({"/healthz", "/readyz", "/v1/challenge", "/v1/login", "/v1/socket"})
_LOGINS: Final = ({"ticket"}, {"browser", "challenge", "nonce", "proof"})
_OPEN_BYTES: Final = 4096
_REQUESTS_PER_SECOND: Final = 100
_TOO_MANY_LOGINS: Final = "too many failed logins: wait a second"
# The longest time for which the method waits.
_WAIT_SECONDS: Final = 60
# What is counted as refused, and called like that; a wrong address or a bad parameter is not.
_REFUSALS: Final[Mapping[int, str]] = {
    400: "malformed",
    401: "token",
    403: "origin",
    408: "slow",
    411: "malformed",
    413: "size",
    415: "content_type",
    421: "host",
    429: "rate",
    431: "size",
    503: "full",
}
_REFUSAL_FIELDS: Final[Mapping[int, Fields]] = {
    401: (("www-authenticate", "Bearer"),),
    405: (("allow", "GET, HEAD, POST"),),
    426: (("upgrade", "websocket"),),
    429: (("retry-after", "1"),),
    503: (("retry-after", "5"),),
}
_NO_STORE: Final[Fields] = (("cache-control", "no-store"), ("x-content-type-options", "nosniff"))


class ControlApi(Protocol):
    """What HTTP needs of the server."""

    credentials: ClientCredentials
    proofs: BrowserProofs
    limits: WireLimits
    failed_logins: RateLimit
    pace: Callable[[], Awaitable[None]]

    @property
    def is_ready(self) -> bool:
        """Whether new work is taken."""
        ...

    async def run_frame(self, frame: bytes | str, login: Login) -> str | None:
        """Run the requests of a frame for a client without a connection; return the answer."""
        ...

    def upload(self, data: bytes, login: Login) -> str:
        """Keep *data* for a prompt; return its reference. Raises `Refusal`."""
        ...

    @property
    def documents(self) -> Documents:
        """What is read of sessions by other means than the protocol's methods."""
        ...

    async def stream(self, params: SubscribeParams, login: Login) -> Stream:
        """Return a session's events as an answer. Raises errors of the engine."""
        ...

    def incident(self, error: Exception) -> str:
        """Log a fault; return the text to look for in the log."""
        ...

    async def run_connection(self, transport: MessageTransport, login: Login | None, peer: Peer) -> None:
        """Serve a client until it goes; failed logins are counted for *peer*."""
        ...

    def is_full_for(self, login: Login) -> bool:
        """Return whether as many connections use a token as may."""
        ...

    def until_revoked(self, login: Login) -> AbstractContextManager[None]:
        """Return what cancels its body once a token is revoked. Raises `BadRequest` then."""
        ...

    def note_refusal(self, reason: str) -> None:
        """Count a request that was refused."""
        ...

    async def metrics_text(self) -> str:
        """Return all metrics, as Prometheus has them."""
        ...


@final
class HttpApi:
    """Answers the requests of one connection."""

    def __init__(self, api: ControlApi, peer: Peer) -> None:
        """Make it for the connection of *peer*, which failed logins are counted for."""
        self._api = api
        self._peer = peer
        self._requests = RateLimit(_REQUESTS_PER_SECOND, now=trio.current_time)

    def body_limit(self, head: RequestHead) -> int:
        """Return how long the body may be. Raises `BadRequest` for a client without a valid credential."""
        if head.path in _OPEN_PATHS or is_page(head):
            # Without a token nothing may fill the memory: what comes here is a ticket.
            return _OPEN_BYTES
        login, limits = self.login(head), self._api.limits
        # What a lower role sends is refused in any case: nothing large is read for that.
        return limits.upload_bytes if head.path == UPLOADS and may(login.role, "full") else limits.message_bytes

    async def answer(self, request: HttpRequest) -> Answer:
        """Answer *request*. A checkpoint. Raises `BadRequest`."""
        self.check_pace()
        login = self._bearer(request.head)
        # None: it is refused, or asks for what needs no token.
        with nullcontext() if login is None else self._api.until_revoked(login):
            return await self._answer(request)

    async def _answer(self, request: HttpRequest) -> Answer:
        answer = await self._own_address(request)
        if answer is None:
            route, login = route_of(request), self.login(request.head)
            document = await self._run(route, login)
            if route.method == "prompt" and "result" in document:
                return await self._after_prompt(request.head, route, document, login)
            answer = _http_answer(document)
        return _revalidated(request.head, answer) if isinstance(answer, Response) else answer

    def check_pace(self) -> None:
        """Count a request. Raises `BadRequest` if there are too many."""
        if self._requests.is_over(""):
            raise BadRequest(429, f"more than {_REQUESTS_PER_SECOND} requests in a second")
        self._requests.add("")

    async def _run(self, route: RpcRoute, login: Login) -> Mapping[str, Json]:
        """Return the answer of the protocol."""
        frame = {"jsonrpc": "2.0", "id": 1, "method": route.method, "params": dict(route.params)}
        # Not as ASCII: escapes would make a body of another script three times as long, and too long.
        text = await self._api.run_frame(json.dumps(frame, ensure_ascii=False), login)
        assert text is not None  # it answers a request
        return cast("Mapping[str, Json]", json.loads(text))

    async def _after_prompt(
        self, head: RequestHead, route: RpcRoute, document: Mapping[str, Json], login: Login
    ) -> Answer:
        """Return where the turn is; or how it has ended, if the client prefers to wait for that, and it has."""
        started = cast("Mapping[str, Json]", document["result"])
        turn_id = str(started["turn_id"])
        seconds = seconds_to_wait(head)
        end = trio.current_time() + (seconds or 0)
        while seconds is not None:
            left = max(end - trio.current_time(), 0)
            params: Mapping[str, Json] = {
                "session_id": route.params["session_id"],
                "turn_id": turn_id,
                "timeout": min(left, _WAIT_SECONDS),
            }
            waited = await self._run(RpcRoute("wait", params), login)
            if "result" not in waited:
                return _http_answer(waited)
            result = cast("Mapping[str, Json]", waited["result"])
            if result["state"] == "over":
                return _json(200, {**started, **result}, (("preference-applied", f"wait={seconds}"),))
            if not left:
                break
        return _json(202, dict(started), (("location", f"turns/{turn_id}"),))

    def refusal(self, error: BadRequest) -> Response:
        """Return the answer to a refused request."""
        if error.status in _REFUSALS:
            self._api.note_refusal(_REFUSALS[error.status])
        fields = _REFUSAL_FIELDS.get(error.status, ())
        facts: dict[str, Json] = {"kind": kind_of(error.status)}
        if error.limit is not None:
            facts["limit"] = error.limit
        return _problem(error.status, error.reason, facts, fields)

    # -- addresses of their own ------------------------------------------------------------

    async def _own_address(self, request: HttpRequest) -> Answer | None:
        """Answer at the addresses that stand for no method of the protocol."""
        is_post = request.head.method == "POST"
        if is_page(request.head):
            return self._page(request.head)
        match request.head.path:
            case "/healthz" if not is_post:
                return _text(200, "ok\n")
            case "/readyz" if not is_post:
                return _text(200, "ok\n") if self._api.is_ready else _text(503, "not ready\n")
            case "/v1/schema.json" if not is_post:
                return Response(body=schema_text().encode(), fields=_NO_STORE)
            case "/v1/socket" if not is_post:
                return self._socket(request.head)
            case "/v1/challenge" | "/v1/login" if is_post:
                return self._log_in(request)
            case "/v1/ticket" | "/v1/link" if is_post:
                return self._ticket(request.head)
            case "/v1/rpc" if is_post:
                text = await self._api.run_frame(request.body, self.login(request.head))
                return Response(status=204) if text is None else Response(body=text.encode(), fields=_NO_STORE)
            case _:
                return await self._document(request)

    async def _document(self, request: HttpRequest) -> Answer | None:
        """Answer at the addresses of what is not JSON of the protocol: uploads, exports, streams."""
        head = request.head
        login = self.login(head)
        if head.path == "/metrics" and head.method != "POST":
            metrics = (await self._api.metrics_text()).encode()
            return Response(body=metrics, content_type=CONTENT_TYPE, fields=_NO_STORE)
        try:
            if head.method == "POST":
                return _json(200, {"upload": self._api.upload(request.body, login)}) if head.path == UPLOADS else None
            documents = self._api.documents
            if matched := _EXPORT.fullmatch(head.path):
                form = _FORMATS[matched["suffix"]]
                return _download(matched["session_id"], form, await documents.export(matched["session_id"], form))
            if matched := _MESSAGE.fullmatch(head.path):
                text = await documents.message(matched["session_id"], matched["message_id"])
                return Response(body=text.encode(), fields=_NO_STORE)
            if matched := _MEDIA.fullmatch(head.path):
                return _media(matched["media_id"], await documents.media(matched["session_id"], matched["media_id"]))
            if matched := _STREAM.fullmatch(head.path):
                if self._api.is_full_for(login):
                    raise BadRequest(503, f"too many connections use the token {login.name}")
                return await self._api.stream(stream_params(matched["session_id"], head), login)
        except (EngineError, BadParams) as error:
            refused = error_of(error, incident=self._api.incident(error))
            data = cast("Mapping[str, Json]", refused.data or {})
            return _problem(status_of(str(data.get("kind", "internal"))), refused.message, data, ())
        return None

    def _page(self, head: RequestHead) -> Answer:
        response = page_response(head.path, head.fields["host"])
        if response is None:
            # After an update, for a page that was loaded before it.
            raise BadRequest(404, "the page has no such file: load it again")
        return response

    def _log_in(self, request: HttpRequest) -> Answer:
        """Exchange the ticket of a link, or the proof of a page that had one, for a key."""
        if request.head.path == "/v1/challenge":
            return _json(200, {"challenge": self._api.proofs.challenge()})
        fields, origin = _login_fields(request.body), request.head.fields.get("origin")
        if "ticket" not in fields:
            return self._log_in_again(fields, origin)
        login = self._api.credentials.use_link_ticket(fields["ticket"])
        if login is None:
            raise self._failed_login("the link was used, or is too old: ask the server for another one")
        # Only browsers name an origin, and only they may come back without their token.
        secret = None if origin is None else self._api.proofs.new_secret(login, origin)
        answer: dict[str, Json] = {"key": self._api.credentials.new_key(login)}
        if secret is not None:
            answer |= {"browser": secret.browser, "secret": secret.secret, "seconds": KEY_SECONDS}
        return _json(200, answer)

    def _log_in_again(self, fields: Mapping[str, str], origin: str | None) -> Answer:
        proven = None if origin is None else self._api.proofs.verify(**fields, origin=origin)
        if proven is None:
            raise self._failed_login("this server has not signed that page in, or too long ago")
        return _json(200, {"key": self._api.credentials.new_key(proven.login, proven.seconds), "proof": proven.proof})

    def _failed_login(self, reason: str) -> BadRequest:
        """Count a failed login; return the refusal.

        Never of a good credential, however many have failed: any user of this machine, and on some browsers any page,
        could lock out the others by that.
        """
        if self._api.failed_logins.is_over(self._peer.address):
            return BadRequest(429, _TOO_MANY_LOGINS)
        self._api.failed_logins.add(self._peer.address)
        return BadRequest(401, reason)

    def _ticket(self, head: RequestHead) -> Answer:
        """Return a ticket: for one WebSocket, or for a link to the page."""
        login, credentials = self.login(head), self._api.credentials
        ticket = credentials.link_ticket(login) if head.path == "/v1/link" else credentials.socket_ticket(login)
        if ticket is None:
            raise BadRequest(429, "too many tickets of this token are open")
        return _json(200, {"ticket": ticket})

    def _socket(self, head: RequestHead) -> Answer:
        offered = [name.strip() for name in head.fields.get("sec-websocket-protocol", "").split(",") if name.strip()]
        subprotocol = SUBPROTOCOL if SUBPROTOCOL in offered else None
        login, refused = self._socket_login(head, offered)
        credentials = self._api.credentials
        token = None if login is None else credentials.token_named(login.name)

        async def run(websocket: WebSocket) -> None:
            # Accepting it takes as long as the client lets it, and the token may be revoked in that time.
            if login is not None and credentials.token_named(login.name) != token:
                await websocket.close(BAD_TOKEN, "the token was revoked")
            elif refused is not None:
                # A page can't read the status of a failed upgrade, but it can read a close code.
                await websocket.close(*refused)
            else:
                await self._api.run_connection(websocket, login, self._peer)

        return Upgrade(
            run=run,
            subprotocol=subprotocol,
            message_bytes=self._api.limits.message_bytes,
            pace=self._api.pace,
        )

    # -- credentials ---------------------------------------------------------------------------

    def _socket_login(self, head: RequestHead, offered: list[str]) -> tuple[Login | None, tuple[int, str] | None]:
        """Return what a WebSocket's request gives, and how it is closed if it is refused; neither: `hello` brings a ticket."""
        tickets = [name.removeprefix(_TICKET) for name in offered if name.startswith(_TICKET)]
        if not tickets and "authorization" not in head.fields:
            return None, None
        login = self._api.credentials.use_socket_ticket(tickets[0]) if tickets else self._bearer(head)
        if login is None:
            if self._api.failed_logins.is_over(self._peer.address):
                return None, (TOO_FAST, _TOO_MANY_LOGINS)
            self._api.failed_logins.add(self._peer.address)
            self._api.note_refusal("token")
            return None, (BAD_TOKEN, "the token or ticket is not valid")
        if self._api.is_full_for(login):
            raise BadRequest(503, f"too many connections use the token {login.name}")
        self._peer.is_known = True
        return login, None

    def login(self, head: RequestHead) -> Login:
        """Return what the token of *head* gives. Raises `BadRequest`."""
        login = self._bearer(head)
        if login is None:
            raise self._failed_login("send a valid token: Authorization: Bearer TOKEN")
        self._peer.is_known = True
        return login

    def _bearer(self, head: RequestHead) -> Login | None:
        scheme, _, secret = head.fields.get("authorization", "").partition(" ")
        return self._api.credentials.log_in(secret.strip()) if scheme.lower() == "bearer" else None


def _http_answer(document: Mapping[str, Json]) -> Response:
    """Return the answer of the protocol as one of HTTP."""
    error = document.get("error")
    if error is None:
        return _json(200, document.get("result"))
    failed = cast("Mapping[str, Json]", error)
    data = cast("Mapping[str, Json]", failed.get("data") or {})
    status = status_of(str(data.get("kind", "internal")))
    return _problem(status, str(failed.get("message", "")), data, ())


def _download(session_id: str, form: Format, text: str) -> Response:
    """Return an export, as a file to keep: no browser runs or shows it as a page of this server."""
    fields: Fields = (
        ("content-disposition", f'attachment; filename="{re.sub("[^A-Za-z0-9_-]", "_", session_id)}.{SUFFIXES[form]}"'),
        ("content-security-policy", "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:"),
    )
    return Response(body=text.encode(), content_type=CONTENT_TYPES[form], fields=(*_NO_STORE, *fields))


def _media(media_id: str, media: Media) -> Response:
    """Return an image, or another file to keep."""
    kind = "inline" if media.is_shown else "attachment"
    fields: Fields = (
        ("content-disposition", f'{kind}; filename="{media_id}"'),
        ("content-security-policy", "sandbox; default-src 'none'"),
    )
    return Response(body=media.data, content_type=media.media_type, fields=(*_NO_STORE, *fields))


def _revalidated(head: RequestHead, answer: Response) -> Response:
    """Return *answer* with its ETag; or without a body, if the client has the same one already."""
    if head.method == "POST" or answer.status != 200:
        return answer
    # Of the whole answer, and not the number of the last event: what a turn does changes without one, too.
    tag = f'"{sha256(answer.body).hexdigest()[:32]}"'
    fields = (*answer.fields, ("etag", tag))
    known = [each.strip().removeprefix("W/") for each in head.fields.get("if-none-match", "").split(",")]
    if tag in known or known == ["*"]:
        return attrs.evolve(answer, status=304, body=b"", fields=fields)
    return attrs.evolve(answer, fields=fields)


def _problem(status: int, detail: str, facts: Mapping[str, Json], fields: Fields) -> Response:
    """Return an error as RFC 9457 has it, with the kind of the protocol's table where it has one."""
    # `status` is the number here; a fact of that name is what the session, or the model's host, was doing.
    named = {f"{facts['kind']}_status" if name == "status" else name: value for name, value in facts.items()}
    document = {"title": HTTPStatus(status).phrase, "status": status, "detail": detail, **named}
    body = to_json_text(document).encode()
    return Response(status=status, body=body, content_type="application/problem+json", fields=(*_NO_STORE, *fields))


def _json(status: int, value: Json, fields: Fields = ()) -> Response:
    return Response(status=status, body=to_json_text(value).encode(), fields=(*_NO_STORE, *fields))


def _text(status: int, text: str) -> Response:
    return Response(status=status, body=text.encode(), content_type="text/plain; charset=utf-8", fields=_NO_STORE)


def _login_fields(body: bytes) -> Mapping[str, str]:
    """Return what a login is sent with. Raises `BadRequest`."""
    try:
        document: object = json.loads(body)
    except (ValueError, RecursionError):
        document = None
    fields = cast("dict[str, object]", document) if isinstance(document, dict) else {}
    if fields.keys() not in _LOGINS or not all(isinstance(value, str) for value in fields.values()):
        raise BadRequest(400, 'send {"ticket": "..."}')
    return cast("Mapping[str, str]", fields)
