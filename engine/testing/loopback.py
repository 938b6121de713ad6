"""A small HTTP/1.1 server on the loopback: it listens and reads requests; a subclass answers them.

Connections are kept alive. It is for tests only, and implements what their clients need.
"""

from __future__ import annotations

import json
import random
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import cast, final

import attrs
import trio

from engine.core.errors import ConfigError

_HEAD_LIMIT = 64 * 1024


@attrs.frozen(kw_only=True)
class ReceivedRequest:
    """A received request.

    Attributes:
        method: in capitals.
        target: path and query.
        headers: by name in lower case; not in the repr, because they contain the key.
        body: as sent.
    """

    method: str
    target: str
    headers: Mapping[str, str] = attrs.field(repr=False)
    body: bytes

    @property
    def json(self) -> Mapping[str, object]:
        """The parsed body; empty if it is not a JSON object."""
        try:
            document: object = json.loads(self.body)
        except ValueError:
            return {}
        return cast("Mapping[str, object]", document) if isinstance(document, dict) else {}

    @property
    def text(self) -> str:
        """The text of the last message, without tool results."""
        return "".join(_texts(self._last_blocks()))

    @property
    def system(self) -> str:
        """The system prompt."""
        return "".join(_texts(_blocks(self.json.get("system"))))

    @property
    def results(self) -> tuple[str, ...]:
        """The texts of the tool results in the last message, in order."""
        results = [block for block in self._last_blocks() if block.get("type") == "tool_result"]
        return tuple("".join(_texts(_blocks(block.get("content")))) for block in results)

    def _last_blocks(self) -> list[Mapping[str, object]]:
        messages = _blocks(self.json.get("messages"))
        return _blocks(messages[-1].get("content")) if messages else []


def _blocks(content: object) -> list[Mapping[str, object]]:
    """Return a message's content as blocks; it may be a plain string."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    items = cast("list[object]", content) if isinstance(content, list) else []
    return [cast("Mapping[str, object]", item) for item in items if isinstance(item, dict)]


def _texts(blocks: list[Mapping[str, object]]) -> Iterator[str]:
    return (str(block["text"]) for block in blocks if block.get("type") == "text")


class LoopbackServer(ABC):
    """Listens on the loopback; subclasses answer.

    Attributes:
        requests: the answered requests, in order.
    """

    def __init__(self, *, largest_piece: int | None, seed: int) -> None:
        """Make a server; `serve` runs it.

        Args:
            largest_piece: the largest piece of an answer in bytes; None: no cutting.
            seed: for the random sizes of pieces.
        """
        self.requests: list[ReceivedRequest] = []
        self._largest_piece = largest_piece
        self._random = random.Random(seed)
        self._url: str | None = None
        self._fault: Exception | None = None  # the first error of a handler, raised by `serve`
        self._connections = 0
        self._closed = trio.lowlevel.ParkingLot()

    @property
    def url(self) -> str:
        """The base URL. Raises `ConfigError` before `serve` listens."""
        if self._url is None:
            raise ConfigError("the server has no address yet: start it with `await nursery.start(server.serve)`")
        return self._url

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return self._connections

    async def serve(self, *, task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED) -> None:
        """Listen on a free port of the loopback until cancelled; `nursery.start` returns the URL.

        A checkpoint. If cancelled, it closes all its connections. Raises what a
        function of the script raises, and `ConfigError` for a script that can't be played.
        """
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port: int = listeners[0].socket.getsockname()[1]
        self._url = f"http://127.0.0.1:{port}"
        task_status.started(self._url)
        try:
            await trio.serve_listeners(self._handle, listeners)
        finally:
            # A client whose connection ends often ends the test, which cancels this task. The
            # error in the script must still reach its author, instead of the Cancelled.
            if self._fault is not None:
                raise self._fault

    async def wait_closed(self) -> None:
        """Wait until no connection is open. A checkpoint."""
        await trio.lowlevel.checkpoint()
        # A loop: a client may have connected again in the meantime.
        while self._connections:
            await self._closed.park()

    @abstractmethod
    async def _answer(self, request: ReceivedRequest, connection: Connection) -> bool:
        """Answer the request; return whether the connection can be reused."""

    def _cut(self, data: bytes) -> Iterator[bytes]:
        start = 0
        while start < len(data):
            size = len(data) if self._largest_piece is None else self._random.randint(1, self._largest_piece)
            yield data[start : start + size]
            start += size

    async def _handle(self, stream: trio.SocketStream) -> None:
        self._connections += 1
        connection = Connection(stream)
        try:
            with suppress(trio.BrokenResourceError):
                while (request := await connection.read_request()) is not None:
                    if not await self._answer_present(request, connection):
                        break
        except Exception as error:
            self._fault = error
            raise
        finally:
            self._connections -= 1
            self._closed.unpark_all()

    async def _answer_present(self, request: ReceivedRequest, connection: Connection) -> bool:
        """Answer until the client disconnects; return whether the connection can be reused."""
        is_reusable = False
        async with trio.open_nursery() as nursery:
            # Without this, a long pause in the script would outlive a cancelled client.
            nursery.start_soon(connection.wait_gone, nursery.cancel_scope)
            with suppress(trio.BrokenResourceError):  # the client disconnected
                is_reusable = await self._answer(request, connection)
            nursery.cancel_scope.cancel(reason="the answer is complete")
        return is_reusable


@final
class Connection:
    """One client: requests in, bytes out."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._received = b""

    async def send(self, data: bytes) -> None:
        """Send *data*. A checkpoint; if cancelled, a part may have been sent."""
        await self._stream.send_all(data)

    async def wait_gone(self, scope: trio.CancelScope) -> None:
        """Cancel *scope* once the client disconnects; keep what it sends until then. A checkpoint."""
        with suppress(trio.BrokenResourceError):
            while await self._receive():
                pass
        scope.cancel(reason="the client disconnected")

    async def read_request(self) -> ReceivedRequest | None:
        """Return the next request; None at the end of the connection.

        A checkpoint unless it was received already. If cancelled, received bytes are kept.
        """
        while b"\r\n\r\n" not in self._received:
            if len(self._received) > _HEAD_LIMIT or not await self._receive():
                return None
        head, _, self._received = self._received.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        pairs = (line.partition(":") for line in lines)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        method, _, rest = first.partition(" ")
        length = headers.get("content-length", "0")
        if "transfer-encoding" in headers or not length.isdecimal():
            await self.send(b"HTTP/1.1 411 Length Required\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            return None
        while len(self._received) < int(length):
            if not await self._receive():
                return None
        body, self._received = self._received[: int(length)], self._received[int(length) :]
        return ReceivedRequest(method=method, target=rest.partition(" ")[0], headers=headers, body=body)

    async def _receive(self) -> bool:
        data = await self._stream.receive_some()
        self._received += data
        return bool(data)
