"""A control server that says what a test makes it say: newer, older, faulty, silent."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import trio

from engine.control.protocol.handshake import HelloResult, ServerInfo
from engine.control.protocol.session_methods import SessionHead
from engine.control.protocol.watch_methods import FamilySnapshot, SessionSnapshot
from engine.control.protocol.wire_converter import to_json
from engine.control.transport.message_transport import MessageTransport, TransportClosed
from engine.core.ids import SessionId
from engine.journal.state import Idle, SessionState

HEARTBEAT = 15.0


@attrs.define(eq=False)
class ScriptedConnection:
    """One connection, from the server's side."""

    _to_client: trio.MemorySendChannel[str | TransportClosed]
    _from_client: trio.MemoryReceiveChannel[str]

    async def take(self, method: str) -> dict[str, Any]:
        """Return the next message, which has that method."""
        message: dict[str, Any] = json.loads(await self._from_client.receive())
        assert message["method"] == method, message
        return message

    def send(self, **message: Any) -> None:
        self._to_client.send_nowait(json.dumps({"jsonrpc": "2.0", **message}))

    def note(self, method: str, **params: Any) -> None:
        self.send(method=method, params=params)

    def answer(self, request: dict[str, Any], result: Any) -> None:
        self.send(id=request["id"], result=result)

    def fail(self, request: dict[str, Any], code: int, kind: str, **facts: Any) -> None:
        self.send(
            id=request["id"], error={"code": code, "message": "no", "data": {"kind": kind, "retry": "no", **facts}}
        )

    def close(self, code: int, reason: str = "") -> None:
        self._to_client.send_nowait(TransportClosed(code, reason))

    async def welcome(self, *, instance: str = "i", **more: Any) -> dict[str, Any]:
        """Answer `hello`; *more* is in the answer too."""
        hello = await self.take("hello")
        result = HelloResult(
            protocol=1,
            server=ServerInfo(version="9", instance=instance, started=0.0),
            epoch="e",
            time=0.0,
            role="full",
            client_id="c1",
            heartbeat=HEARTBEAT,
            schema="s",
            events={},
        )
        document = to_json(result)
        assert isinstance(document, dict)
        self.answer(hello, {**document, **more})
        return hello

    async def subscribed(self, sub: str = "s1", seq: int = 0) -> dict[str, Any]:
        """Answer `subscribe`, with a head; return its params."""
        request = await self.take("subscribe")
        head = to_json(SessionHead(seq=seq, status=Idle()))
        self.answer(request, {"sub": sub, "head": head, "mode": "live"})
        self.note("head", sub=sub, head=head)
        params: dict[str, Any] = request["params"]
        return params

    def resync(self, sub: str, seq: int, position: str) -> None:
        """Send a snapshot of a session without messages."""
        state = SessionState(session_id=SessionId("ses_1"), seq=seq)
        snapshot = FamilySnapshot(
            position=position, sessions=(SessionSnapshot(state=state, messages=0),), asked=(), messages=()
        )
        self.note("resync", sub=sub, snapshot=to_json(snapshot))

    def titled(self, sub: str, seq: int, title: str, **more: Any) -> None:
        """Send an event that sets the title."""
        event = {
            "v": 1,
            "type": "session_titled",
            "session_id": "ses_1",
            "turn_id": None,
            "path": ["ses_1"],
            "time": 1.0,
            "seq": seq,
            "title": title,
            "by": "user",
            **more,
        }
        self.note("events", sub=sub, position=f"p{seq}", events=[event])


@attrs.define(eq=False)
class ScriptedControl:
    """The address of such a server; each connection is handed to the test."""

    connections: trio.MemoryReceiveChannel[ScriptedConnection]
    _new: trio.MemorySendChannel[ScriptedConnection]
    is_local: bool = True

    @classmethod
    def make(cls) -> ScriptedControl:
        new, connections = trio.open_memory_channel[ScriptedConnection](100)
        return cls(connections, new)

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[MessageTransport]:
        to_client, at_client = trio.open_memory_channel[str | TransportClosed](1000)
        from_client, at_server = trio.open_memory_channel[str](1000)
        await self._new.send(ScriptedConnection(to_client, at_server))
        yield _Transport(at_client, from_client)


@attrs.define(eq=False)
class _Transport:
    _incoming: trio.MemoryReceiveChannel[str | TransportClosed]
    _outgoing: trio.MemorySendChannel[str]

    async def receive(self) -> str:
        message = await self._incoming.receive()
        if isinstance(message, TransportClosed):
            raise message
        return message

    async def send(self, text: str, /) -> None:
        await self._outgoing.send(text)

    async def close(self, code: int, reason: str) -> None:
        del code, reason
        await trio.lowlevel.checkpoint()
