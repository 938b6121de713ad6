"""A model's host on the loopback: a real HTTP server that answers from a script.

    server = ScriptedServer([[*text("hello"), *done()]])
    async with trio.open_nursery() as nursery:
        url = await nursery.start(server.serve)
        model = resolve("anthropic/claude-sonnet-4-5", {"ANTHROPIC_API_KEY": "any", "ANTHROPIC_BASE_URL": url})
        ...
        nursery.cancel_scope.cancel(reason="the test is over")

It speaks the Anthropic Messages wire format, streamed, over HTTP/1.1 with
connections kept alive. The first request gets the first answer, and so on; an
answer may be a function of the request it answers, and so may the whole script.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import cast, final

import attrs
import trio

from engine.errors import ConfigError, ConnectionBroken, ProviderProtocolError, StreamTimeout
from engine.model import ReasoningChunk, TextChunk, ToolCallChunk
from engine.testing.anthropic_writer import AnthropicWriter, as_http, error_body
from engine.testing.script import Answer, Break, Fail, HttpFailure, Pause, ScriptItem

_HEAD_LIMIT = 64 * 1024
_STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"cache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n"
)


@attrs.frozen(kw_only=True)
class ReceivedRequest:
    """A request as the server read it.

    Attributes:
        method: in capitals.
        target: path and query.
        headers: by name in lower case; not in the repr, since the key is among them.
        body: as sent.
    """

    method: str
    target: str
    headers: Mapping[str, str] = attrs.field(repr=False)
    body: bytes

    @property
    def json(self) -> Mapping[str, object]:
        """The body, parsed; empty if it is no JSON object."""
        try:
            document: object = json.loads(self.body)
        except ValueError:
            return {}
        return cast("Mapping[str, object]", document) if isinstance(document, dict) else {}

    @property
    def text(self) -> str:
        """What the last message says, results apart."""
        return "".join(_texts(self._last_blocks()))

    @property
    def results(self) -> tuple[str, ...]:
        """The texts of the tool results in the last message, in their order."""
        found = [block for block in self._last_blocks() if block.get("type") == "tool_result"]
        return tuple("".join(_texts(_blocks(block.get("content")))) for block in found)

    def _last_blocks(self) -> list[Mapping[str, object]]:
        messages = _blocks(self.json.get("messages"))
        return _blocks(messages[-1].get("content")) if messages else []


def _blocks(content: object) -> list[Mapping[str, object]]:
    """Return a message's content as blocks, whichever of its two forms it has."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    items = cast("list[object]", content) if isinstance(content, list) else []
    return [cast("Mapping[str, object]", item) for item in items if isinstance(item, dict)]


def _texts(blocks: list[Mapping[str, object]]) -> Iterator[str]:
    return (str(block["text"]) for block in blocks if block.get("type") == "text")


Responder = Callable[[ReceivedRequest], Answer]
Script = Sequence[Answer | Responder] | Responder


@final
class ScriptedServer:
    """Answers requests from a script.

    Attributes:
        requests: all that were received, in order.
    """

    def __init__(self, script: Script, *, delay: float = 0.0, largest_piece: int | None = None, seed: int = 0) -> None:
        """Make a server; `serve` runs it.

        Args:
            script: an answer for each request, or a function that makes them.
            delay: seconds to wait after each piece of text, thinking or arguments.
            largest_piece: cut the bytes into pieces of at most so many; None: as they come.
            seed: of the cutting.
        """
        self.requests: list[ReceivedRequest] = []
        self._script = script
        self._delay = delay
        self._largest_piece = largest_piece
        self._random = random.Random(seed)
        self._url: str | None = None
        self._fault: Exception | None = None
        self._connections = 0
        self._closed = trio.lowlevel.ParkingLot()

    @property
    def url(self) -> str:
        """The base URL. Raises `ConfigError` before `serve` has begun."""
        if self._url is None:
            raise ConfigError(
                "the scripted server has no address yet: start it with `await nursery.start(server.serve)`"
            )
        return self._url

    @property
    def connections(self) -> int:
        """How many connections are open."""
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
            # A client which sees its connection end often ends the test. An error in the
            # script must reach its author all the same, not give way to the Cancelled.
            if self._fault is not None:
                raise self._fault

    async def wait_closed(self) -> None:
        """Wait until no connection is open. A checkpoint."""
        await trio.lowlevel.checkpoint()
        while self._connections:
            await self._closed.park()

    async def _handle(self, stream: trio.SocketStream) -> None:
        self._connections += 1
        connection = _Connection(stream)
        try:
            with suppress(trio.BrokenResourceError):
                while (request := await connection.read_request()) is not None:
                    if not await self._answer(request, connection):
                        break
        except Exception as error:
            self._fault = error
            raise
        finally:
            self._connections -= 1
            self._closed.unpark_all()

    async def _answer(self, request: ReceivedRequest, connection: _Connection) -> bool:
        """Answer, and tell whether the connection may be used again."""
        answer = self._next_answer(request)
        player = _Player(connection, AnthropicWriter(str(request.json.get("model", ""))), self._delay, self._cut)
        is_reusable = False
        async with trio.open_nursery() as nursery:
            nursery.start_soon(connection.wait_gone, nursery.cancel_scope)
            with suppress(trio.BrokenResourceError):  # the client went away, as clients do
                is_reusable = await player.play(answer)
            nursery.cancel_scope.cancel(reason="the answer is complete")
        return is_reusable

    def _next_answer(self, request: ReceivedRequest) -> Answer:
        if request.method != "POST" or not request.target.partition("?")[0].endswith("/v1/messages"):
            return [HttpFailure(404, error_body("not_found_error", f"{request.method} {request.target}"))]
        self.requests.append(request)
        if callable(self._script):
            return self._script(request)
        number = len(self.requests)
        if number > len(self._script):
            return [HttpFailure(400, error_body("invalid_request_error", f"the script has no answer number {number}"))]
        answer = self._script[number - 1]
        return answer(request) if callable(answer) else answer

    def _cut(self, data: bytes) -> Iterator[bytes]:
        start = 0
        while start < len(data):
            size = len(data) if self._largest_piece is None else self._random.randint(1, self._largest_piece)
            yield data[start : start + size]
            start += size


@final
class _Player:
    """Plays one answer to one connection."""

    def __init__(
        self,
        connection: _Connection,
        writer: AnthropicWriter,
        delay: float,
        cut: Callable[[bytes], Iterator[bytes]],
    ) -> None:
        self._connection = connection
        self._writer = writer
        self._delay = delay
        self._cut = cut
        self._pending = bytearray()
        self._has_begun = False

    async def play(self, answer: Answer) -> bool:
        for item in answer:
            match item:
                case Pause():
                    await self._flush()
                    await trio.sleep(item.seconds)
                case Break():
                    await self._flush()
                    return False
                case HttpFailure():
                    return await self._refuse(item)
                case Fail():
                    return await self._fail(item)
                case _:
                    self._pending += self._writer.write(item)
                    await self._breathe(item)
        await self._flush()
        await self._connection.send(b"0\r\n\r\n" if self._has_begun else _STREAM_HEAD + b"0\r\n\r\n")
        return True

    async def _breathe(self, item: ScriptItem) -> None:
        if self._delay and isinstance(item, TextChunk | ReasoningChunk | ToolCallChunk):
            await self._flush()
            await trio.sleep(self._delay)

    async def _flush(self) -> None:
        pending = bytes(self._pending)
        self._pending.clear()
        if pending and not self._has_begun:
            self._has_begun = True
            await self._connection.send(_STREAM_HEAD)
        for piece in self._cut(pending):
            await self._connection.send(b"%x\r\n%b\r\n" % (len(piece), piece))

    async def _refuse(self, failure: HttpFailure) -> bool:
        if self._has_begun or self._pending:
            raise ConfigError(
                "a script can't send an HttpFailure after the answer has begun: use Fail, or put it first"
            )
        body = failure.body.encode()
        names = {name.lower() for name, _ in failure.headers}
        kind = () if "content-type" in names else (("content-type", "application/json"),)
        headers = [*failure.headers, *kind, ("content-length", str(len(body)))]
        head = "".join(f"{name}: {value}\r\n" for name, value in headers)
        await self._connection.send(f"HTTP/1.1 {failure.status} Scripted\r\n{head}\r\n".encode("latin-1") + body)
        return True

    async def _fail(self, failure: Fail) -> bool:
        """Let the client meet the error in the way in which it would meet it from a real host."""
        error = failure.error
        has_begun = self._has_begun or bool(self._pending)
        match error:
            case StreamTimeout():
                await self._flush()
                await trio.sleep_forever()
            case ConnectionBroken():
                pass
            case ProviderProtocolError():
                self._pending += b"data: this is no JSON\n\n"
            case _ if has_begun:
                self._pending += self._writer.write_error(error)
            case _:
                return await self._refuse(as_http(error))
        await self._flush()
        return False


@final
class _Connection:
    """One client: requests in, bytes out."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._received = b""

    async def send(self, data: bytes) -> None:
        await self._stream.send_all(data)

    async def wait_gone(self, scope: trio.CancelScope) -> None:
        """Cancel *scope* once the client has left; keep what it may send until then."""
        with suppress(trio.BrokenResourceError):
            while await self._receive():
                pass
        scope.cancel(reason="the client has left")

    async def read_request(self) -> ReceivedRequest | None:
        """Return the next request; None if there is none to come."""
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
