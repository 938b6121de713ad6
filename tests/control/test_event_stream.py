"""The stream of server-sent events: what is in it, and readers that are slow."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from engine.journal.position import decode_position
from engine.session.engine_options import PermissionOptions
from engine.testing.script import Answer, call, done, reasoning, text
from tests.support.control_schema import check_note
from tests.support.raw_http import raw_stream, request
from tests.support.served_engine import Server, served

ASKS: list[Answer] = [
    [*reasoning("Hm.", pieces=2), *text("Well,", pieces=3), *call("wait_forever", id="c1"), *done("calls")],
    [*text("Done.", pieces=2), *done()],
]


@attrs.frozen
class Sent:
    """One event of a stream."""

    id: str
    event: str
    note: dict[str, Any]


@attrs.define
class StreamReader:
    """Reads a stream in pieces of a size, with a pause before each."""

    stream: trio.SocketStream
    piece: int = 1 << 20
    pause: float = 0.0
    received: str = ""
    position: str = ""

    async def until(self, tag: str) -> list[Sent]:
        """Return what is sent up to the first event with that type."""
        sent: list[Sent] = []
        while not sent or tag not in {event["type"] for event in sent[-1].note["params"].get("events", ())}:
            sent.append(await self.next())
        return sent

    async def next(self) -> Sent:
        while (found := re.search(r"(?m)^id: (.*)\nevent: (.*)\ndata: (.*)\n\n", self.received)) is None:
            await trio.sleep(self.pause)
            data = await self.stream.receive_some(self.piece)
            assert data
            self.received += data.decode()
        self.received = self.received[found.end() :]
        self.position = found[1]
        return Sent(found[1], found[2], json.loads(found[3]))


@asynccontextmanager
async def streamed(server: Server, session_id: str, *, after: str = "", **reader: Any) -> AsyncGenerator[StreamReader]:
    """Open the stream of a session, from its start or after a position."""
    fields = f"Last-Event-ID: {after}\r\n" if after else ""
    async with raw_stream(server.port) as stream:
        target = f"/v1/sessions/{session_id}/stream?at=start"
        await stream.send_all(request(target, server.port, token=server.at.token, fields=fields))
        begin = b""
        while b"\nretry: 1000\n\n" not in begin:
            begin += await stream.receive_some(1)
        for field in (
            b"content-type: text/event-stream",
            b"cache-control: no-store, no-transform",
            b"x-accel-buffering: no",
        ):
            assert field in begin.lower()
        yield StreamReader(stream, **reader)


async def test_t20_streamed_notes_fit_the_schema(tmp_path: Path) -> None:
    async with served(tmp_path, *ASKS, permissions=PermissionOptions()) as server, server.unix() as client:
        await client.hello()
        session_id = await client.new_session(tmp_path)
        async with streamed(server, session_id) as reader:
            await client.result("prompt", session_id=session_id, text="Go", key="p1")
            sent = await reader.until("permission_asked")
            (request_id,) = [
                event["request_id"]
                for event in sent[-1].note["params"]["events"]
                if event["type"] == "permission_asked"
            ]
            await client.result(
                "permission.reply", session_id=session_id, request_id=request_id, answer="reject", feedback="No."
            )
            sent += await reader.until("turn_ended")
        async with streamed(server, session_id, after="damaged") as reader:
            sent += [await reader.next(), await reader.next()]
    for each in sent:
        check_note(each.note)
        assert each.event == each.note["method"]
        assert decode_position(each.id).session_id == session_id
        if "position" in each.note["params"]:
            assert each.note["params"]["position"] == each.id
    assert {each.event for each in sent} >= {"head", "events", "resync"}


@pytest.fixture
def clock() -> MockClock:
    """Real time, of which ten seconds pass in one."""
    return MockClock(rate=10)


async def test_t26_line_of_10_mb_reaches_a_slow_reader(tmp_path: Path, clock: MockClock) -> None:
    """It takes a piece every 100 ms: it is neither closed, nor does anybody wait for it."""
    del clock
    line = "x" * 10_000_000
    script = [[*text(line, pieces=100), *done()], [*text("More."), *done()]]
    async with served(tmp_path, *script, seconds=1000) as server, server.unix() as client:
        await client.hello()
        session_id = await client.new_session(tmp_path)
        await client.result("subscribe", session_id=session_id, at="start")
        async with streamed(server, session_id, piece=1 << 19, pause=0.1) as slow:
            turn = await client.result("prompt", session_id=session_id, text="Go", key="p1")
            quick = await client.events_until("turn_ended")
            await client.result("prompt", session_id=session_id, text="Go on", key="p2")
            await client.events_until("turn_ended")
            sent = await slow.until("turn_ended")
    events = [event for each in sent for event in each.note["params"].get("events", ())]
    texts = [
        "".join(
            event["text"] for event in seen if event["type"] == "text_delta" and event["turn_id"] == turn["turn_id"]
        )
        for seen in (events, quick)
    ]
    # The engine keeps a part of what is too long.
    assert texts[0] == texts[1] == line[: len(texts[0])]
    assert len(texts[0]) >= 4_000_000
    seqs = [event["seq"] for event in events if event["seq"]]
    assert seqs == list(range(1, len(seqs) + 1))
