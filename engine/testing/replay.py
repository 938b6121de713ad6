"""A server on the loopback that replays recorded answers of a real host.

    server = ReplayServer(cassette.read_all(folder, "hello"))
    async with trio.open_nursery() as nursery:
        url = await nursery.start(server.serve)
        model = resolve("anthropic/claude-haiku-4-5", {"ANTHROPIC_API_KEY": "any", "ANTHROPIC_BASE_URL": url})
        ...
        nursery.cancel_scope.cancel(reason="the test is over")

The first request gets the first recorded answer, and so on, regardless of its content:
compare `requests` with the recorded requests if that matters. A recording does not
have the boundaries of network chunks, so the bytes are cut at random places.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import final

from engine.testing.cassette import Exchange
from engine.testing.loopback import Connection, LoopbackServer, ReceivedRequest

# These belong to the recorded connection, or are set again here.
_NOT_REPLAYED = frozenset({"connection", "content-encoding", "content-length", "keep-alive", "transfer-encoding"})


@final
class ReplayServer(LoopbackServer):
    """Answers requests with recorded answers.

    Attributes:
        requests: all received requests, in order.
    """

    def __init__(
        self,
        exchanges: Sequence[Exchange] | Callable[[ReceivedRequest], Exchange],
        *,
        largest_piece: int | None = None,
        seed: int = 0,
    ) -> None:
        """Make a server; `serve` runs it.

        Args:
            exchanges: the answers, in order; or a function that selects one.
            largest_piece: the largest HTTP chunk in bytes; None: one chunk per body.
            seed: for the random sizes of chunks.
        """
        super().__init__(largest_piece=largest_piece, seed=seed)
        self._exchanges = exchanges

    async def _answer(self, request: ReceivedRequest, connection: Connection) -> bool:
        self.requests.append(request)
        exchange = self._next(request)
        chunks = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in self._cut(exchange.body))
        await connection.send(_head(exchange.status, exchange.headers) + chunks + b"0\r\n\r\n")
        return True

    def _next(self, request: ReceivedRequest) -> Exchange:
        if callable(self._exchanges):
            return self._exchanges(request)
        number = len(self.requests)
        if number <= len(self._exchanges):
            return self._exchanges[number - 1]
        # Status 400: a provider does not retry it, so the test fails at once.
        error = {"error": {"message": f"the cassette has no answer number {number}", "type": "invalid_request_error"}}
        return Exchange(status=400, headers={"content-type": "application/json"}, body=json.dumps(error).encode())


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = [f"{name}: {value}\r\n" for name, value in headers.items() if name.lower() not in _NOT_REPLAYED]
    return f"HTTP/1.1 {status} Recorded\r\n{''.join(lines)}transfer-encoding: chunked\r\n\r\n".encode("latin-1")
