"""Messages as lines over a stream of bytes, as the streams that the SDK's server takes."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, final

import anyio
import mcp_types as types
import trio
from mcp.shared.message import SessionMessage

from engine.control.transport.line_transport import LineTransport
from engine.control.transport.message_transport import TransportClosed
from engine.journal.json_text import to_json_text
from engine.jsonrpc.rpc_messages import PARSE_ERROR

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

MAX_LINE_BYTES: Final = 4 << 20
# For answers that are still to be sent when the client has gone or the server ends.
_LAST_SECONDS: Final = 5.0


@final
class MessageLines:
    """The client's end of the connection."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        """Make it of an open stream. A longer line than `MAX_LINE_BYTES` ends the connection."""
        self._transport = LineTransport(stream, message_bytes=MAX_LINE_BYTES)
        self._reading = trio.CancelScope()

    def leave(self) -> None:
        """Go on as if the client had gone. Not a checkpoint."""
        self._reading.cancel(reason="the server was asked to end")

    @asynccontextmanager
    async def open(
        self,
    ) -> AsyncGenerator[
        tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]
    ]:
        """Return the streams of the server; at the end, what it has sent goes out. Always a checkpoint."""
        to_server, from_client = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        to_client, from_server = anyio.create_memory_object_stream[SessionMessage](0)
        with to_server, from_client, to_client, from_server:
            async with trio.open_nursery() as nursery:
                sent = trio.Event()
                nursery.start_soon(self._receive, to_server)
                nursery.start_soon(self._send, from_server, sent)
                yield from_client, to_client
                self.leave()
                to_client.close()
                with trio.move_on_after(_LAST_SECONDS):
                    await sent.wait()
                nursery.cancel_scope.cancel(reason="the connection is closed")

    async def _receive(self, to_server: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        """Pass on messages until the client has gone. A checkpoint for each."""
        with to_server, self._reading:
            while True:
                try:
                    line = await self._transport.receive()
                except TransportClosed:
                    return
                try:
                    message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValueError:
                    message = None
                try:
                    if message is not None:
                        await to_server.send(SessionMessage(message))
                    elif line.strip():
                        await self._transport.send(_NO_MESSAGE)
                except (TransportClosed, anyio.BrokenResourceError):
                    return

    async def _send(self, from_server: MemoryObjectReceiveStream[SessionMessage], sent: trio.Event) -> None:
        """Send messages until the server closes, or the client has gone. A checkpoint for each."""
        with from_server:
            async for item in from_server:
                try:
                    await self._transport.send(item.message.model_dump_json(by_alias=True, exclude_unset=True))
                except TransportClosed:
                    break
        sent.set()


_NO_MESSAGE: Final = to_json_text(
    {
        "jsonrpc": "2.0",
        "id": None,
        "error": {"code": PARSE_ERROR, "message": "this line is no JSON-RPC message; the others are read"},
    }
)
