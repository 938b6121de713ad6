"""A server on the loopback that answers each path with one JSON document."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import final

import trio

from engine.testing.loopback import Connection, LoopbackServer, ReceivedRequest


class Hang:
    """Stands for an answer that never comes."""


@final
class JsonServer(LoopbackServer):
    """Answers `METHOD /path`; all else is 404.

    Attributes:
        requests: all that were received, in order.
    """

    def __init__(self, routes: Mapping[str, object], *, key: str = "") -> None:
        """Make a server; `serve` runs it.

        Args:
            routes: what to answer; `bytes` as they are, `Hang` for never.
            key: what a client has to show, if it is not empty.
        """
        super().__init__(largest_piece=None, seed=0)
        self._routes = routes
        self._key = key

    async def _answer(self, request: ReceivedRequest, connection: Connection) -> bool:
        self.requests.append(request)
        found = self._routes.get(f"{request.method} {request.target}")
        status = "200 OK" if found is not None else "404 Not Found"
        if self._key and request.headers.get("authorization") != f"Bearer {self._key}":
            status, found = "401 Unauthorized", {"error": "who are you?"}
        if isinstance(found, Hang):
            await trio.sleep_forever()
        body = found if isinstance(found, bytes) else json.dumps(found).encode()
        head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        await connection.send(head.encode() + body)
        return True
