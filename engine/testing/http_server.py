"""A model's host on the loopback: a real HTTP server that answers from a script.

    server = ScriptedServer([[*text("hello"), *done()]])
    async with trio.open_nursery() as nursery:
        url = await nursery.start(server.serve)
        model = resolve("anthropic/claude-sonnet-4-5", {"ANTHROPIC_API_KEY": "any", "ANTHROPIC_BASE_URL": url})
        ...
        nursery.cancel_scope.cancel(reason="the test is over")

It speaks the Anthropic Messages wire format, streamed, over HTTP/1.1 with
persistent connections. The first request gets the first answer, and so on; an
answer may be a function of its request, and so may the whole script.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import final

import trio

from engine.core.errors import ConfigError, ConnectionBroken, ProviderProtocolError, StreamTimeout
from engine.core.llm_types import ReasoningChunk, TextChunk, ToolCallChunk
from engine.testing.anthropic_writer import AnthropicWriter, as_http, error_body
from engine.testing.loopback import Connection, LoopbackServer, ReceivedRequest
from engine.testing.script import Answer, Break, Fail, HttpFailure, Pause, ScriptItem

_STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"cache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n"
)

Responder = Callable[[ReceivedRequest], Answer]
Script = Sequence[Answer | Responder] | Responder


@final
class ScriptedServer(LoopbackServer):
    """Answers requests from a script.

    Attributes:
        requests: all received requests, in order.
    """

    def __init__(self, script: Script, *, delay: float = 0.0, largest_piece: int | None = None, seed: int = 0) -> None:
        """Make a server; `serve` runs it.

        Args:
            script: an answer for each request, or a function that makes them.
            delay: seconds to wait after each piece of text, reasoning or arguments.
            largest_piece: the largest piece of an answer in bytes; None: no cutting.
            seed: for the random sizes of pieces.
        """
        super().__init__(largest_piece=largest_piece, seed=seed)
        self._script = script
        self._delay = delay

    async def _answer(self, request: ReceivedRequest, connection: Connection) -> bool:
        answer = self._next_answer(request)
        writer = AnthropicWriter(str(request.json.get("model", "")))
        return await _Player(connection, writer, self._delay, self._cut).play(answer)

    def _next_answer(self, request: ReceivedRequest) -> Answer:
        if request.method != "POST" or not request.target.partition("?")[0].endswith("/v1/messages"):
            return [HttpFailure(404, error_body("not_found_error", f"{request.method} {request.target}"))]
        self.requests.append(request)
        if callable(self._script):
            return self._script(request)
        number = len(self.requests)
        # Status 400: a provider does not retry it, so the test fails at once.
        if number > len(self._script):
            return [HttpFailure(400, error_body("invalid_request_error", f"the script has no answer number {number}"))]
        answer = self._script[number - 1]
        return answer(request) if callable(answer) else answer


@final
class _Player:
    """Plays one answer to one connection."""

    def __init__(
        self,
        connection: Connection,
        writer: AnthropicWriter,
        delay: float,
        cut: Callable[[bytes], Iterator[bytes]],
    ) -> None:
        self._connection = connection
        self._writer = writer
        self._delay = delay
        self._cut = cut
        self._pending = bytearray()
        self._has_started = False

    async def play(self, answer: Answer) -> bool:
        for item in answer:
            match item:
                case Pause():
                    # The client must get everything up to the pause before it.
                    await self._flush()
                    await trio.sleep(item.seconds)
                case Break():
                    # Without the final chunk, the client sees a broken connection.
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
        await self._connection.send(b"0\r\n\r\n" if self._has_started else _STREAM_HEAD + b"0\r\n\r\n")
        return True

    async def _breathe(self, item: ScriptItem) -> None:
        if self._delay and isinstance(item, TextChunk | ReasoningChunk | ToolCallChunk):
            await self._flush()
            await trio.sleep(self._delay)

    async def _flush(self) -> None:
        pending = bytes(self._pending)
        self._pending.clear()
        if pending and not self._has_started:
            self._has_started = True
            await self._connection.send(_STREAM_HEAD)
        for piece in self._cut(pending):
            await self._connection.send(b"%x\r\n%b\r\n" % (len(piece), piece))

    async def _refuse(self, failure: HttpFailure) -> bool:
        if self._has_started or self._pending:
            raise ConfigError(
                "a script can't send an HttpFailure after the answer has started: use Fail, or put it first"
            )
        body = failure.body.encode()
        names = {name.lower() for name, _ in failure.headers}
        kind = () if "content-type" in names else (("content-type", "application/json"),)
        headers = [*failure.headers, *kind, ("content-length", str(len(body)))]
        head = "".join(f"{name}: {value}\r\n" for name, value in headers)
        await self._connection.send(f"HTTP/1.1 {failure.status} Scripted\r\n{head}\r\n".encode("latin-1") + body)
        return True

    async def _fail(self, failure: Fail) -> bool:
        """Fail as a real host would, so that the client sees this error."""
        error = failure.error
        has_started = self._has_started or bool(self._pending)
        match error:
            case StreamTimeout():
                # The client's own timeout ends the connection, and with it this task.
                await self._flush()
                await trio.sleep_forever()
            case ConnectionBroken():
                pass  # closing the connection in the middle of the answer is enough
            case ProviderProtocolError():
                self._pending += b"data: this is no JSON\n\n"
            case _ if has_started:
                self._pending += self._writer.write_error(error)
            case _:
                return await self._refuse(as_http(error))
        await self._flush()
        return False
