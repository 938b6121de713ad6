"""`MeteredStream`: a stream whose bytes are counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

import trio


@final
class MeteredStream(trio.abc.HalfCloseableStream):
    """Passes everything on to another stream, which it owns."""

    def __init__(self, stream: trio.abc.Stream, count: Callable[[str, int], None]) -> None:
        """Make it; *count* is called with `in` or `out`, and the number of bytes."""
        self._stream = stream
        self._count = count

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """See `trio.abc.SendStream`."""
        await self._stream.send_all(data)
        self._count("out", len(data))

    async def wait_send_all_might_not_block(self) -> None:
        """See `trio.abc.SendStream`."""
        await self._stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """See `trio.abc.ReceiveStream`."""
        data = await self._stream.receive_some(max_bytes)
        self._count("in", len(data))
        return data

    async def send_eof(self) -> None:
        """See `trio.abc.HalfCloseableStream`; a stream that can't be half closed stays open."""
        if isinstance(self._stream, trio.abc.HalfCloseableStream):
            await self._stream.send_eof()
        else:
            await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        """See `trio.abc.AsyncResource`."""
        await self._stream.aclose()
