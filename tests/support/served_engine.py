"""A served engine, driven from outside: WebSocket, Unix socket, HTTP; the model is scripted, all else is real."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import trio
from trio_websocket import WebSocketConnection, wrap_client_stream

import engine
from engine.control.listen import ServedAt, ServeOptions, serve
from engine.permission.allow_all import AllowAll
from engine.session.engine_options import PermissionOptions
from engine.testing.script import Answer, done, text
from engine.testing.scripted_provider import ScriptedProvider
from tests.support.control_schema import check_error, check_exchange, check_note

HELLO = {"protocol": {"min": 1, "max": 1}, "client": {"name": "test"}}


@attrs.define
class Client:
    """A client that speaks JSON-RPC over any way of sending texts. Whatever is sent is compared with the schema."""

    send: Callable[[str], Awaitable[None]]
    receive: Callable[[], Awaitable[str]]
    notes: list[dict[str, Any]] = attrs.field(factory=list)
    number: int = 0

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Return the whole answer; notifications that come before it are kept."""
        self.number += 1
        await self.send(json.dumps({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}))
        while True:
            message = await self._read()
            if message.get("id") == self.number:
                check_exchange(method, params, message)
                return message
            self.notes.append(message)

    async def _read(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(await self.receive())
        if "method" in message:
            check_note(message)
        elif "error" in message:
            check_error(message["error"])
        return message

    async def hello(self, name: str = "test", **params: Any) -> dict[str, Any]:
        return await self.result("hello", **{**HELLO, "client": {"name": name}, **params})

    async def new_session(self, cwd: Path, key: str = "k1") -> str:
        created = await self.result("session.create", cwd=str(cwd), key=key)
        session_id: str = created["row"]["id"]
        return session_id

    async def note_of(self, method: str) -> dict[str, Any]:
        """Return the params of the next notification with that name; those before it are dropped."""
        while True:
            note = await self.note()
            if note["method"] == method:
                params: dict[str, Any] = note["params"]
                return params

    async def result(self, method: str, **params: Any) -> dict[str, Any]:
        answer = await self.call(method, **params)
        assert "result" in answer, answer
        found: dict[str, Any] = answer["result"]
        return found

    async def note(self) -> dict[str, Any]:
        """Return the next notification."""
        return self.notes.pop(0) if self.notes else await self._read()

    async def events_until(self, tag: str) -> list[dict[str, Any]]:
        """Return the events up to the first with that type."""
        events: list[dict[str, Any]] = []
        while not events or events[-1]["type"] != tag:
            note = await self.note()
            if note["method"] == "events":
                for event in note["params"]["events"]:
                    events.append(event)
                    if event["type"] == tag:
                        break
        return events


@attrs.frozen
class Server:
    at: ServedAt
    engine: engine.Engine
    nursery: trio.Nursery

    @property
    def port(self) -> int:
        return int(self.at.url.rpartition(":")[2])

    @property
    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.at.token}"}

    @asynccontextmanager
    async def websocket(
        self, *, token: str | None = None, protocols: list[str] | None = None
    ) -> AsyncGenerator[tuple[Client, WebSocketConnection]]:
        headers = [] if token is None else [(b"Authorization", f"Bearer {token}".encode())]
        async with trio.open_nursery() as nursery, await trio.open_tcp_stream("127.0.0.1", self.port) as stream:
            connection = await wrap_client_stream(
                nursery,
                stream,
                f"127.0.0.1:{self.port}",
                "/v1/socket",
                subprotocols=protocols,
                extra_headers=headers,
                message_queue_size=1000,
                max_message_size=16 << 20,
            )
            yield Client(connection.send_message, connection.get_message), connection  # type: ignore[arg-type]
            nursery.cancel_scope.cancel()

    @asynccontextmanager
    async def unix(self) -> AsyncGenerator[Client]:
        assert self.at.socket is not None
        async with await trio.open_unix_socket(os.fspath(self.at.socket)) as stream:
            buffer = bytearray()

            async def receive() -> str:
                while b"\n" not in buffer:
                    data = await stream.receive_some()
                    assert data, "the server closed the connection"
                    buffer.extend(data)
                line, _, rest = bytes(buffer).partition(b"\n")
                buffer[:] = rest
                return line.decode()

            yield Client(lambda text: stream.send_all(text.encode() + b"\n"), receive)


@asynccontextmanager
async def served(
    tmp_path: Path, *script: Answer, options: ServeOptions | None = None, seconds: float = 60, **opening: Any
) -> AsyncGenerator[Server]:
    """Serve an engine in *tmp_path*; *opening* is for `open_engine`, instead of the usual."""
    provider = ScriptedProvider(list(script) or [[*text("Hello."), *done()]], repeat=not script)
    usual: dict[str, Any] = {
        "model": provider,
        "tools": [engine.tool(wait_forever)],
        "permissions": PermissionOptions(approver=AllowAll()),
        "store": tmp_path / "sessions.db",
    }
    with trio.fail_after(seconds):
        async with engine.open_engine(**{**usual, **opening}) as opened, trio.open_nursery() as nursery:
            at = await nursery.start(serve, opened, options or ServeOptions(folder=tmp_path / "run"))
            yield Server(at, opened, nursery)
            nursery.cancel_scope.cancel()


@attrs.frozen
class NoArguments:
    pass


async def wait_forever(arguments: NoArguments, context: engine.ToolContext) -> str:
    """Wait, until it is cancelled."""
    del arguments, context
    await trio.sleep_forever()
    raise AssertionError
