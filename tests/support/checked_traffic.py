"""What our clients send and receive, compared with the schema at their end of a connection (T20)."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import attrs

from engine.client.server_address import ServerAddress
from engine.control.transport.message_transport import MessageTransport
from tests.support.control_schema import check_error, check_exchange, check_note

Json = dict[str, Any]


@attrs.define(eq=False)
class CheckedTraffic:
    """The messages of one connection.

    Attributes:
        count: how many were compared.
    """

    count: int = 0
    _requests: dict[Any, Json] = attrs.field(factory=dict[Any, Json])

    def send(self, text: str) -> None:
        """Check what the client sends; a request is compared once it is accepted."""
        for message in messages_of(text):
            if "id" in message:
                self._requests[message["id"]] = message
            else:
                self.count += 1
                check_note(message, "client")

    def receive(self, text: str | bytes) -> None:
        """Check what the server sends."""
        for message in messages_of(text):
            self.count += 1
            if "method" in message:
                check_note(message)
            elif (request := self._requests.pop(message["id"], None)) is not None:
                check_exchange(request["method"], request.get("params", {}), message)
            else:
                check_error(message["error"])


def messages_of(text: str | bytes) -> list[Json]:
    """Return the messages of a frame: several of a batch."""
    document: Json | list[Json] = json.loads(text)
    return document if isinstance(document, list) else [document]


@attrs.frozen
class CheckedAddress:
    """The address of a server; all that goes over its connections is compared."""

    address: ServerAddress

    @property
    def is_local(self) -> bool:
        return self.address.is_local

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[MessageTransport]:
        async with self.address.open() as transport:
            yield CheckedTransport(transport)


@attrs.frozen
class CheckedTransport:
    transport: MessageTransport
    traffic: CheckedTraffic = attrs.field(factory=CheckedTraffic)

    async def receive(self) -> str | bytes:
        text = await self.transport.receive()
        self.traffic.receive(text)
        return text

    async def send(self, text: str, /) -> None:
        self.traffic.send(text)
        await self.transport.send(text)

    async def close(self, code: int, reason: str) -> None:
        await self.transport.close(code, reason)
