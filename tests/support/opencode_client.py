"""A client of the addresses that are opencode's, as bytes: what it sends, and the events that it gets."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import trio

from tests.support.raw_http import RawAnswer, exchange, raw_stream, request
from tests.support.served_engine import Server

Json = dict[str, Any]


async def ask(
    server: Server, method: str, target: str, body: object = None, *, token: str = "", fields: str = ""
) -> RawAnswer:
    """Return the answer to a request; a body other than text is sent as JSON."""
    text = "" if body is None else body if isinstance(body, str) else json.dumps(body)
    data = request(target, server.port, method=method, body=text, token=token or server.at.token, fields=fields)
    return await exchange(server.port, data)


async def result(server: Server, method: str, target: str, body: object = None) -> Any:
    answer = await ask(server, method, target, body)
    assert answer.status in {200, 204}, (answer.status, answer.body)
    return json.loads(answer.body) if answer.body else None


@attrs.define
class Events:
    """Reads events; `ids` has the id of each."""

    stream: trio.SocketStream
    raw: bytes = b""
    received: bytes = b""
    ids: list[str] = attrs.field(factory=list)
    all: list[Json] = attrs.field(factory=list)

    async def next(self) -> Json:
        """Return the next event that is of a session."""
        while True:
            found = re.search(rb"(?m)^id: (.*)\ndata: (.*)\n\n", self.received)
            if found is None:
                await self.receive()
                continue
            self.received = self.received[found.end() :]
            event: Json = json.loads(found[2])
            if event["id"] != "evt_0" or event["type"] == "server.instance.disposed":
                self.ids.append(found[1].decode())
                self.all.append(event)
                return event

    async def receive(self) -> None:
        """Receive more, and take the pieces that are complete out of their frames."""
        data = await self.stream.receive_some()
        assert data, "the server has ended the stream"
        self.raw += data
        while (found := re.match(rb"([0-9a-f]+)\r\n", self.raw)) and len(self.raw) >= (
            end := found.end() + int(found[1], 16)
        ) + 2:
            self.received += self.raw[found.end() : end]
            self.raw = self.raw[end + 2 :]

    async def until(self, kind: str) -> list[Json]:
        """Return the events up to the first of that type."""
        events = [await self.next()]
        while events[-1]["type"] != kind:
            events.append(await self.next())
        return events


@asynccontextmanager
async def listening(server: Server, *, after: str = "", query: str = "") -> AsyncGenerator[Events]:
    """Open the stream of events, after the one with an id."""
    fields = f"Last-Event-ID: {after}\r\n" if after else ""
    async with raw_stream(server.port) as stream:
        await stream.send_all(request(f"/event{query}", server.port, token=server.at.token, fields=fields))
        events = Events(stream)
        while b"\r\n\r\n" not in events.raw:
            events.raw += await stream.receive_some()
        events.raw = events.raw.partition(b"\r\n\r\n")[2]
        while b"server.connected" not in events.received:
            await events.receive()
        yield events


def shown(events: list[Json]) -> Json:
    """Return what a client shows that has got *events*: messages and parts by their ids, and the status of each session."""
    known: Json = {}
    for event in events:
        found = event["properties"]
        match event["type"]:
            case "message.updated":
                known[found["info"]["id"]] = found["info"]
            case "message.part.updated":
                known[found["part"]["id"]] = dict(found["part"])
            case "message.part.delta":
                known[found["partID"]]["text"] += found["delta"]
            case "message.part.removed":
                del known[found["partID"]]
            case "message.removed":
                del known[found["messageID"]]
            case "session.status":
                known[found["sessionID"]] = found["status"]
            case _:
                pass
    return known
