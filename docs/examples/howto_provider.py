"""How to write a provider: here, for a host with a protocol of lines over TCP."""

from collections.abc import Sequence

import attrs
import trio

import engine
from engine.errors import ConnectionBroken, Overloaded, ProviderProtocolError
from engine.events import Usage, UserMessage
from engine.providers import (
    Finished,
    ModelInfo,
    ModelRequest,
    StreamEvent,
    TextChunk,
    TextDone,
    TextStarted,
    UsageReported,
)

# -- the wire format: pure functions, which a test can try without a network -------------------


def encode(request: ModelRequest) -> bytes:
    """Return the newest user message, on one line; a real encoder sends the whole transcript."""
    texts = [message.text for message in request.transcript if isinstance(message, UserMessage)]
    return f"ASK {' '.join(texts[-1].split())}\n".encode()


@attrs.define(eq=False)
class Decoder:
    """Bytes in, events out, at any chunk boundaries."""

    is_over: bool = attrs.field(default=False, init=False)
    _rest: bytes = attrs.field(default=b"", init=False)

    def feed(self, data: bytes) -> list[StreamEvent]:
        """Return the events of the complete lines."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [event for line in lines for event in self._line(line.decode())]

    def _line(self, line: str) -> list[StreamEvent]:
        kind, _, value = line.partition(" ")
        match kind:
            case "BEGIN":
                return [TextStarted("1")]
            case "SAY":
                return [TextChunk("1", value)]
            case "END":
                self.is_over = True
                return [TextDone("1"), UsageReported(Usage(output=int(value))), Finished("stop")]
            case "BUSY":
                raise Overloaded("the host is busy", retryable=True, retry_after=float(value))
            case _:
                raise ProviderProtocolError(f"the host sent {line!r}")


# -- the port: two small classes ---------------------------------------------------------------


@attrs.define(eq=False)
class LineModel:
    """A model at a host with a line protocol."""

    port: int
    info: ModelInfo = ModelInfo(name="lines/one", context=8_000, output=1_000, price_output=2.0)

    async def open(self, request: ModelRequest) -> "LineStream":
        """Send the request; return when the response begins. If cancelled, no connection is left."""
        try:
            connection = await trio.open_tcp_stream("127.0.0.1", self.port)
        except OSError as error:
            raise ConnectionBroken(f"cannot reach the host: {error}", retryable=True) from error
        stream = LineStream(connection)
        try:
            await connection.send_all(encode(request))
        except trio.BrokenResourceError as error:
            await stream.aclose()
            raise ConnectionBroken("the host closed the connection", retryable=True) from error
        except BaseException:
            # After a cancel, `aclose` closes at once.
            await stream.aclose()
            raise
        return stream


@attrs.define(eq=False)
class LineStream:
    """A response being received."""

    _connection: trio.SocketStream
    _decoder: Decoder = attrs.field(factory=Decoder, init=False)

    async def receive(self) -> Sequence[StreamEvent]:
        """Return the events of one network chunk; an empty list when the response is over."""
        while not self._decoder.is_over:
            try:
                chunk = await self._connection.receive_some()
            except trio.BrokenResourceError as error:
                raise ConnectionBroken("the connection was lost", retryable=True) from error
            if not chunk:
                raise ConnectionBroken("the host closed the connection during the response", retryable=True)
            if events := self._decoder.feed(chunk):
                return events
        await trio.lowlevel.checkpoint()
        return []

    async def aclose(self) -> None:
        """Close the connection."""
        await self._connection.aclose()


# -- a host to try it with -----------------------------------------------------------------------


@attrs.define(eq=False)
class Host:
    """Busy at first; then it responds in arbitrary pieces."""

    requests: int = attrs.field(default=0, init=False)

    async def handle(self, connection: trio.SocketStream) -> None:
        """Answer one request."""
        self.requests += 1
        request = (await connection.receive_some()).decode().strip()
        answer = (
            f"BEGIN\nSAY You said: \nSAY {request.removeprefix('ASK ')}\nEND 7\n"
            if self.requests > 1
            else "BUSY 0.01\n"
        )
        for start in range(0, len(answer), 5):
            await connection.send_all(answer[start : start + 5].encode())
            await trio.sleep(0.001)


async def main() -> None:
    host = Host()
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, host.handle, 0)
        port: int = listeners[0].socket.getsockname()[1]
        async with engine.open_engine(model=LineModel(port)) as eng:
            session = await eng.create_session()
            result = await session.run("Good morning.")
        print(result.stop_reason, "-", result.text)
        print(host.requests, "requests,", result.usage.output, "tokens,", f"{result.cost:.6f} spent")
        nursery.cancel_scope.cancel(reason="the example is over")


if __name__ == "__main__":
    trio.run(main)
