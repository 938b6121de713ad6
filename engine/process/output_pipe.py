"""`OutputPipe`: what a command writes, read as it comes and once more at its end."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import Final

import attrs
import trio

_CHUNK_BYTES: Final = 65_536
# As much as an ordinary user can make a pipe hold.
_REST_BYTES: Final = 1_048_576


@attrs.define(eq=False, repr=False)
class OutputPipe:
    """One of the command's output pipes, and the callback that takes what it writes."""

    stream: trio.lowlevel.FdStream
    sink: Callable[[bytes], None]
    room: Callable[[], Awaitable[None]] | None
    ended: trio.Event = attrs.field(factory=trio.Event, init=False)
    _sink_works: bool = attrs.field(default=True, init=False)

    @trio.lowlevel.enable_ki_protection
    async def pass_all_on(self) -> None:
        """Pass on what is written until the end of the pipe. A checkpoint per chunk; cancelling it loses nothing."""
        while chunk := await self.stream.receive_some(_CHUNK_BYTES):
            self._pass_on(chunk)
            if self.room is not None:
                await self.room()
        self.ended.set()

    def pass_rest_on(self) -> None:
        """Pass on what was written before the end, also by a handler of SIGTERM. Not a checkpoint.

        Bounded, because a survivor may go on writing.
        """
        for _ in range(_REST_BYTES // _CHUNK_BYTES if self._sink_works else 0):
            try:
                chunk = os.read(self.stream.fileno(), _CHUNK_BYTES)
            except BlockingIOError:
                return
            if not chunk:
                self.ended.set()
                return
            self._pass_on(chunk)

    def _pass_on(self, chunk: bytes) -> None:
        self._sink_works = False  # so it stays if the next line raises
        self.sink(chunk)
        self._sink_works = True
