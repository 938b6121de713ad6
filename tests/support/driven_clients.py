"""Clients in two languages behind one interface, for the cases that both must pass."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol

import attrs
import trio

import engine
from engine.client import Client, Offline, Online, SessionHead, SessionStream
from engine.client.control_client import connect_to
from engine.client.server_address import ServerAddress
from engine.control.protocol.error_kinds import error_of
from engine.core.errors import EngineError
from engine.journal.codec import encode_event, encode_state
from engine.journal.state import Resync
from tests.support.checked_traffic import CheckedAddress
from tests.support.node_client import ClientFailed, NodeClient

Json = dict[str, Any]


class Refused(Exception):
    """The server has refused something: `kind` says why."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


class DrivenClient(Protocol):
    """A client with one session."""

    async def begin(self, folder: str) -> None: ...
    async def watch(self) -> None: ...
    async def send(self, method: str, *arguments: str) -> None: ...
    async def elsewhere(self) -> None: ...
    async def until_event(self, tag: str, count: int) -> list[Json]: ...
    async def state(self) -> Json: ...
    async def healed(self) -> int: ...


@attrs.define(eq=False)
class PythonDriver:
    """The client of this package."""

    client: Client
    nursery: trio.Nursery
    items: list[Json] = attrs.field(factory=list)
    turn_id: str = ""
    _session: Any = None
    _news: trio.Event = attrs.field(factory=trio.Event)

    async def begin(self, folder: str) -> None:
        self._session = await self.client.create_session(cwd=folder)

    async def watch(self) -> None:
        stream = self._session.watch(from_start=True)
        await stream.__aenter__()
        self.nursery.start_soon(self._read, stream)

    async def _read(self, stream: SessionStream) -> None:
        async for item in stream:
            self.items.append(_document(item))
            self._news.set()
            self._news = trio.Event()

    async def until_event(self, tag: str, count: int) -> list[Json]:
        while [item["type"] for item in self.items].count(tag) < count:
            await self._news.wait()
        return self.items

    async def send(self, method: str, *arguments: str) -> None:
        try:
            await self._send(method, *arguments)
        except EngineError as error:
            data = error_of(error).data
            assert isinstance(data, dict)
            raise Refused(str(data["kind"])) from error

    async def _send(self, method: str, *arguments: str) -> None:
        match method:
            case "prompt":
                text, key = arguments
                self.turn_id = (await self._session.prompt(text, key=key)).id
            case "queue":
                text, key = arguments
                await self._session.queue(text, key=key)
            case "steer":
                text, key = arguments
                await self._session.turn(self.turn_id).steer(text, key=key)
            case "cancel":
                await self._session.turn(*(arguments or (self.turn_id,))).cancel()
            case "reply":
                asked = next(item for item in reversed(self.items) if item["type"] == "permission_asked")
                answer = engine.Once() if arguments[0] == "once" else engine.Reject(arguments[1])
                await self._session.reply(asked["request_id"], answer)
            case _:
                raise AssertionError(method)

    async def elsewhere(self) -> None:
        try:
            await self.client.session("ses_none").head()
        except EngineError as error:
            data = error_of(error).data
            assert isinstance(data, dict)
            raise Refused(str(data["kind"])) from error

    async def state(self) -> Json:
        state: Json = json.loads(encode_state(self._session.state))
        return state

    async def healed(self) -> int:
        return self.client.healed


def _document(item: Any) -> Json:
    if isinstance(item, (SessionHead, Resync, Offline, Online)):
        return {"type": type(item).__name__.lower()}
    document: Json = json.loads(encode_event(item))
    return document


@attrs.define(eq=False)
class NodeDriver:
    """The client in JavaScript."""

    client: NodeClient
    turn_id: str = ""
    session_id: str = ""

    async def begin(self, folder: str) -> None:
        self.session_id = (await self.client.call("session.create", cwd=folder))["row"]["id"]

    async def watch(self) -> None:
        await self.client.run("watch", id=self.session_id, options={"at": "start"})

    async def until_event(self, tag: str, count: int) -> list[Json]:
        return await self.client.until_event(self.session_id, tag, count)

    async def send(self, method: str, *arguments: str) -> None:
        await self._refusable(self._params(method, arguments))

    def _params(self, method: str, arguments: tuple[str, ...]) -> tuple[str, Json]:
        match method:
            case "prompt" | "queue":
                return method, {"text": arguments[0], "key": arguments[1]}
            case "steer":
                return method, {"text": arguments[0], "key": arguments[1], "turn_id": self.turn_id}
            case "cancel":
                return method, {"turn_id": arguments[0] if arguments else self.turn_id}
            case "reply":
                items = self.client.items[self.session_id]
                asked = next(item for item in reversed(items) if item["type"] == "permission_asked")
                answer, *feedback = arguments
                more = {"feedback": feedback[0]} if feedback else {}
                return "permission.reply", {"request_id": asked["request_id"], "answer": answer, **more}
            case _:
                raise AssertionError(method)

    async def _refusable(self, request: tuple[str, Json]) -> None:
        method, params = request
        try:
            result = await self.client.call(method, **{"session_id": self.session_id, **params})
        except ClientFailed as error:
            raise Refused(str(error.kind)) from error
        if method == "prompt":
            self.turn_id = result["turn_id"]

    async def elsewhere(self) -> None:
        await self._refusable(("session.get", {"session_id": "ses_none"}))

    async def state(self) -> Json:
        state: Json = (await self.client.run("look", name=self.session_id))["sessions"][self.session_id]["state"]
        for message in state["transcript"]:
            message.pop("v", None)
        return state

    async def healed(self) -> int:
        healed: int = (await self.client.run("counts"))["healed"]
        return healed


@asynccontextmanager
async def python_driver(address: ServerAddress) -> AsyncGenerator[DrivenClient]:
    """Connect a client of this package."""
    async with connect_to(CheckedAddress(address)) as client, trio.open_nursery() as nursery:
        yield PythonDriver(client, nursery)
        nursery.cancel_scope.cancel()


Drive = Callable[[ServerAddress], Any]
