"""The one address of an MCP server behind HTTP: who may use it, and how the SDK's server answers there.

Heads and bodies are read by the control endpoint's connection, which has checked Host, Origin, method, content type and
length by then. The SDK knows both eras of the protocol; it is called as an ASGI application.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping
from typing import Final, cast, final

import trio
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from engine.control.credentials import ClientCredentials
from engine.control.transport.http_connection import (
    Answer,
    DeferredAnswer,
    Fields,
    HttpRequest,
    Response,
    ResponseWriter,
    SendPiece,
)
from engine.control.transport.request_head import BadRequest, RequestHead
from engine.journal.json_text import to_json_text
from engine.jsonrpc.rpc_messages import INVALID_REQUEST

PATH: Final = "/mcp"
MAX_BODY_BYTES: Final = 4 << 20
# What the connection itself sends.
_OWN_FIELDS: Final = frozenset({"connection", "content-length", "content-type", "date"})
_OVER: Final = "engine.over"


@final
class HttpEndpoint:
    """Answers requests at `PATH` that come with a valid token."""

    def __init__(self, app: StreamableHTTPSessionManager, credentials: ClientCredentials) -> None:
        """Make it of the SDK's application, which runs."""
        self._app = app
        self._credentials = credentials

    def body_limit(self, head: RequestHead) -> int:
        """Return how long the body may be. Raises `BadRequest` without a valid token, and for another address."""
        scheme, _, secret = head.fields.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or self._credentials.log_in(secret.strip()) is None:
            raise BadRequest(401, "send the token of this server: Authorization: Bearer TOKEN")
        if head.path != PATH:
            raise BadRequest(404, f"there is nothing at this address: use {PATH}")
        return MAX_BODY_BYTES

    async def answer(self, request: HttpRequest) -> Answer:
        """Return the exchange, which answers. A checkpoint."""
        await trio.lowlevel.checkpoint()

        async def run(writer: ResponseWriter) -> None:
            over = trio.Event()
            client = _AsgiClient(request, writer)
            try:
                with client.connected:
                    await self._app.handle_request(_scope(request.head, over), client.receive, client.send)
            finally:
                over.set()
            if client.connected.cancelled_caught:
                raise trio.BrokenResourceError("the client has gone")

        return DeferredAnswer(run=run)

    def refusal(self, error: BadRequest) -> Response:
        """Return the answer to a refused request."""
        problem = {"jsonrpc": "2.0", "id": None, "error": {"code": INVALID_REQUEST, "message": error.reason}}
        fields: Fields = (("www-authenticate", "Bearer"),) if error.status == 401 else ()
        return Response(status=error.status, body=to_json_text(problem).encode(), fields=fields)


def exchange_over(request: object) -> trio.Event | None:
    """Return what is set once the client of *request*, which the SDK has made, is answered or has gone; None: no HTTP."""
    scope = getattr(request, "scope", None)
    over = cast("Mapping[str, object]", scope).get(_OVER) if isinstance(scope, Mapping) else None
    return over if isinstance(over, trio.Event) else None


def _scope(head: RequestHead, over: trio.Event) -> MutableMapping[str, object]:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": head.method,
        "scheme": "http",
        "path": head.path,
        "raw_path": head.path.encode(),
        "query_string": b"",
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in head.fields.items()],
        "client": None,
        "server": None,
        _OVER: over,
    }


@final
class _AsgiClient:
    """The client of one request, as the application sees it.

    Attributes:
        connected: cancelled once nothing can be sent any more: the application would log each failed attempt, and go on.
    """

    def __init__(self, request: HttpRequest, writer: ResponseWriter) -> None:
        self.connected: trio.CancelScope = trio.CancelScope()
        self._body: bytes | None = request.body
        self._writer = writer
        self._status = 200
        self._content_type = ""
        self._fields: Fields = ()
        self._send_piece: SendPiece | None = None

    async def receive(self) -> MutableMapping[str, object]:
        """Return the body, the first time; then wait: where the client goes, the whole exchange is cancelled. A checkpoint."""
        body, self._body = self._body, None
        if body is None:
            await trio.sleep_forever()
        await trio.lowlevel.checkpoint()
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(self, message: MutableMapping[str, object]) -> None:
        """Send a part of the answer. A checkpoint."""
        if message["type"] == "http.response.start":
            self._begin(message)
            await trio.lowlevel.checkpoint()
            return
        try:
            await self._send_body(cast("bytes", message.get("body", b"")), is_last=not message.get("more_body"))
        except trio.BrokenResourceError:
            self.connected.cancel(reason="the client has gone")
            await trio.lowlevel.checkpoint()

    async def _send_body(self, body: bytes, *, is_last: bool) -> None:
        if self._send_piece is None:
            if is_last:
                response = Response(
                    status=self._status, body=body, content_type=self._content_type, fields=self._fields
                )
                await self._writer.respond(response)
                return
            self._send_piece = await self._writer.begin(self._status, self._content_type, self._fields)
        if body:
            await self._send_piece(body)

    def _begin(self, message: Mapping[str, object]) -> None:
        sent = cast("Iterable[tuple[bytes, bytes]]", message["headers"])
        fields = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in sent]
        self._status = cast("int", message["status"])
        self._content_type = next((value for name, value in fields if name == "content-type"), "")
        self._fields = tuple((name, value) for name, value in fields if name not in _OWN_FIELDS)
