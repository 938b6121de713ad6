"""The chat on a terminal with a live region: it reads keys and draws frames."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from math import inf
from typing import Final, final

import trio

from engine.cli.chat.chat_driver import ChatDriver, ChatParts
from engine.cli.chat.display.live_region import LiveRegion, Reflow
from engine.cli.chat.display.terminal_mode import RawTerminal, reflow_of
from engine.cli.chat.editor.key_decoder import KeyDecoder
from engine.cli.chat.external_editor import show_text
from engine.cli.chat.layout import Size, draw
from engine.cli.chat.machine import effects as do

# The pause between two frames while text streams: each draws the status again, and more of them would only add bytes. What
# is typed is shown at once.
_FRAME_SECONDS: Final = 1 / 20
_KEY_SECONDS: Final = 0.01
# A window that is being resized has many sizes, and tells of them late: tmux waits a quarter of a second between two
# reports. What is drawn for a size that is no more would be left behind, or erase what it does not own.
_RESIZE_SECONDS: Final = 0.3
_UNKNOWN_SIZE: Final = (0, 0)


@final
class ScreenDriver(ChatDriver):
    """Runs a chat on a terminal."""

    def __init__(self, parts: ChatParts, terminal: RawTerminal) -> None:
        """Make it."""
        super().__init__(parts)
        self._terminal = terminal
        self._size = terminal.size
        self._region = LiveRegion(self._size[0])
        self._reflow: Reflow = reflow_of(os.environ)
        self._has_stopped_itself = False
        self._lines: list[str] = []
        self._raw = ""
        self._changed = trio.Event()
        self._pressed = trio.Event()
        # Held while something is written: a frame, or by another program.
        self._screen = trio.Lock()

    def start(self, nursery: trio.Nursery) -> None:
        """Take the terminal, and start to read keys and to draw. Not a checkpoint."""
        self._terminal.arm()
        nursery.start_soon(self._read_keys, nursery)
        nursery.start_soon(self._paint)

    def print_lines(self, lines: Iterable[str], *, raw: str = "") -> None:
        """Print lines above the live region. Not a checkpoint."""
        self._lines += lines
        self._raw += raw
        self._changed.set()

    def note_change(self) -> None:
        """Draw a frame. Not a checkpoint."""
        self._changed.set()

    def note_draft(self) -> None:
        """Do nothing: the draft is seen."""

    def take_signal(self, number: int, nursery: trio.Nursery) -> bool:
        """Handle a change of the window's size, and the end of a suspension. Not a checkpoint."""
        del nursery
        if number == signal.SIGCONT:
            is_own, self._has_stopped_itself = self._has_stopped_itself, False
            if not is_own:
                # Stopped by another process: the shell has used the terminal since.
                self._terminal.restore()
                self._terminal.arm()
                self._region.forget()
        elif number == signal.SIGWINCH:
            # Even if the size is the same again: it was another one, and rows may be gone.
            self._size = _UNKNOWN_SIZE
        self._changed.set()
        return number in {signal.SIGCONT, signal.SIGWINCH}

    async def perform_here(self, effect: do.Suspend | do.Redraw | do.EditExternally | do.ShowPager) -> None:
        """Do what concerns the terminal. A checkpoint."""
        async with self._screen:
            self._output.write(self._region.clear())
            await self._output.drain()
            if not isinstance(effect, do.Redraw):
                self._terminal.restore()
                try:
                    if isinstance(effect, do.Suspend):
                        # It goes on here. The signal SIGCONT is handled a moment later, maybe after the next frame.
                        self._has_stopped_itself = True
                        signal.raise_signal(signal.SIGTSTP)
                    elif isinstance(effect, do.ShowPager):
                        self._machine.notice = await show_text(effect.text)
                    else:
                        await self.edit_draft()
                finally:
                    self._terminal.arm()
        self._changed.set()

    async def finish(self) -> None:
        """Print what is left, and remove the live region. A checkpoint."""
        self._output.write(self._region.clear() + "".join(f"{line}\r\n" for line in self._lines))
        await self._output.drain()

    def restore(self) -> None:
        """Put the terminal back as it was. Not a checkpoint."""
        self._terminal.restore()

    async def _read_keys(self, nursery: trio.Nursery) -> None:
        decoder = KeyDecoder()
        while True:
            data: bytes | None = None
            with trio.move_on_at(inf if decoder.deadline is None else decoder.deadline):
                data = await self._terminal.read()
            now = trio.current_time()
            if data == b"":
                self.leave(nursery, 128 + signal.SIGHUP)
                return
            for event in decoder.expire(now) if data is None else decoder.feed(data, now):
                self.apply(self._machine.handle_key(event, now))
            self.note_typed()
            self._pressed.set()

    async def _paint(self) -> None:
        while True:
            delay = self._machine.tick_after(trio.current_time())
            with trio.move_on_after(inf if delay is None else delay):
                await self._changed.wait()
            begun_at = trio.current_time()
            self._machine.handle_tick(begun_at)
            async with self._screen:
                await self._draw()
            with trio.move_on_at(begun_at + _FRAME_SECONDS):
                await self._pressed.wait()
                await trio.sleep_until(begun_at + _KEY_SECONDS)
            self._pressed = trio.Event()

    async def _draw(self) -> None:
        """Draw a frame. A checkpoint; if cancelled, the frame is written or will be."""
        while (found := self._terminal.size) != self._size:
            # Once it has been the same for a while.
            await trio.sleep(_RESIZE_SECONDS)
            if self._terminal.size == found:
                self._size = found
                self._output.write(self._region.resize(found[0], self._reflow))
                self._machine.view.resize(found[0])
        self._changed = trio.Event()
        lines, self._lines = self._lines, []
        raw, self._raw = self._raw, ""
        size = Size(*self._size)
        self._machine.view.has_little_room = size.is_small
        frame = draw(self._machine, size, time.time())
        self._output.write(raw + self._region.draw(lines, frame))
        await self._output.drain()
