"""The JavaScript client in a process of Node, driven from Python."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import attrs
import trio

from tests.support.checked_traffic import CheckedTraffic
from tests.support.javascript import FOLDER, NODE

Json = dict[str, Any]


class ClientFailed(Exception):
    """A command has failed: `kind` says how."""

    def __init__(self, error: Json) -> None:
        super().__init__(f"{error.get('kind')}: {error['message']} {error.get('stack') or ''}")
        self.kind = error.get("kind")
        self.code = error.get("code")
        self.data: Json = error.get("data") or {}


@attrs.define(eq=False)
class NodeClient:
    """A client in another process.

    Attributes:
        states: the states that it has told, with their details, the oldest first.
        items: what its streams have yielded, by their names.
        ends: of the streams that are over, why: None, or the kind of an error.
        notes: other notifications.
        problems: what of its traffic does not fit the schema, over WebSockets and over HTTP.
    """

    process: trio.Process
    states: list[tuple[str, Json]] = attrs.field(factory=list)
    items: dict[str, list[Json]] = attrs.field(factory=dict)
    ends: dict[str, str | None] = attrs.field(factory=dict)
    notes: list[tuple[str, Json]] = attrs.field(factory=list)
    problems: list[AssertionError] = attrs.field(factory=list[AssertionError])
    _traffic: dict[int, CheckedTraffic] = attrs.field(factory=dict[int, CheckedTraffic])
    _answers: dict[int, Json] = attrs.field(factory=dict)
    _number: int = 0
    _news: trio.Event = attrs.field(factory=trio.Event)

    async def run(self, command: str, **arguments: Any) -> Any:
        """Run a command; return its result. Raises `ClientFailed`."""
        number = await self.begin(command, **arguments)
        return await self.result(number)

    async def begin(self, command: str, **arguments: Any) -> int:
        """Begin a command, whose result is for `result`."""
        self._number += 1
        number = self._number
        assert self.process.stdin is not None
        line = json.dumps({"number": number, "command": command, **arguments})
        await self.process.stdin.send_all(line.encode() + b"\n")
        return number

    async def result(self, number: int) -> Any:
        await self.until(lambda: number in self._answers)
        answer = self._answers.pop(number)
        if "error" in answer:
            raise ClientFailed(answer["error"])
        return answer["result"]

    @property
    def compared(self) -> int:
        """How many messages were compared with the schema."""
        return sum(traffic.count for traffic in self._traffic.values())

    async def call(self, method: str, **params: Any) -> Any:
        return await self.run("call", method=method, params=params)

    async def session(self, session_id: str, method: str, *args: Any) -> Any:
        return await self.run("session", id=session_id, method=method, args=args)

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until something is so, by what the process writes."""
        while not is_so():
            self._news = trio.Event()
            await self._news.wait()

    async def until_event(self, name: str, tag: str, count: int = 1) -> list[Json]:
        """Wait for so many items of a type; return all items."""
        await self.until(lambda: [item["type"] for item in self.items.get(name, [])].count(tag) >= count)
        return list(self.items[name])

    async def until_state(self, state: str) -> Json:
        await self.until(lambda: bool(self.states) and self.states[-1][0] == state)
        return self.states[-1][1]

    async def read(self) -> None:
        """Take what the process writes, until it ends."""
        assert self.process.stdout is not None
        rest = b""
        async for data in self.process.stdout:
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                self._take(json.loads(line))
            self._news.set()

    def _take(self, message: Json) -> None:
        if "socket" in message:
            self._check(message)
        elif "number" in message:
            self._answers[message["number"]] = message
        elif "state" in message:
            self.states.append((message["state"], message["details"]))
        elif "note" in message:
            self.notes.append((message["note"], message["params"]))
        elif "item" in message:
            self.items.setdefault(message["stream"], []).append(message["item"])
        else:
            self.ends[message["stream"]] = message["end"]

    def _check(self, frame: Json) -> None:
        traffic = self._traffic.setdefault(frame["socket"], CheckedTraffic())
        try:
            (traffic.send if frame["is_sent"] else traffic.receive)(frame["text"])
        except AssertionError as error:
            self.problems.append(error)


@asynccontextmanager
async def node_client(**options: Any) -> AsyncGenerator[NodeClient]:
    """Run a client; connect it if there are options. The process is gone when the block ends."""
    assert NODE is not None
    async with trio.open_nursery() as nursery:
        command = [NODE, str(FOLDER / "drive_client.mjs")]
        run = partial(trio.run_process, command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, check=False)
        process: trio.Process = await nursery.start(run)
        client = NodeClient(process)
        nursery.start_soon(client.read)
        if options:
            await client.run("connect", **options)
        yield client
        assert client.problems == []
        nursery.cancel_scope.cancel()
