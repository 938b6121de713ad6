"""Messages as lines over a stream of bytes: the Unix socket, and a server on its standard streams."""

from __future__ import annotations

from collections import deque
from typing import Final, final

import trio

from engine.control.transport.message_transport import TransportClosed, send_piece
from engine.control.transport.send_lock import SendLock
from engine.jsonrpc.message_stream import LineSplitter, line_of
from engine.jsonrpc.strict_json import FrameTooLarge

_PIECE: Final = 64 * 1024


@final
class LineTransport:
    """A transport of lines; it closes the stream."""

    def __init__(self, stream: trio.abc.Stream, *, message_bytes: int) -> None:
        """Make it of an open stream. A longer line than *message_bytes* ends it with 1009."""
        self._stream = stream
        self._splitter = LineSplitter(message_bytes)
        self._lines: deque[bytes] = deque()
        self._lock = SendLock()
        self._is_broken = False

    async def receive(self) -> bytes:
        """Return the next line. A checkpoint; if cancelled, nothing is lost. Raises `TransportClosed`."""
        await trio.lowlevel.checkpoint()
        while not self._lines:
            try:
                data = await self._stream.receive_some(_PIECE)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                data = b""
            if not data:
                raise TransportClosed(1006)
            try:
                self._lines.extend(self._splitter.feed(bytes(data)))
            except FrameTooLarge as error:
                raise TransportClosed(1009, str(error)) from None
        return self._lines.popleft()

    async def send(self, text: str) -> None:
        """Send a line. A checkpoint; cancelled in the middle, it is broken. Raises `TransportClosed`."""
        async with self._lock:
            # Cancelled before the first byte, it is as it was.
            await trio.lowlevel.checkpoint_if_cancelled()
            if self._is_broken:
                raise TransportClosed(1006)
            self._is_broken = True
            line = memoryview(line_of(text))
            for start in range(0, len(line), _PIECE):
                await send_piece(self._stream, line[start : start + _PIECE])
            self._is_broken = False

    async def close(self, code: int, reason: str) -> None:  # lines have no codes
        """Close the stream. A checkpoint."""
        await trio.aclose_forcefully(self._stream)
