"""The driver of the chat: it reads keys and events, carries out effects, and draws frames."""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Final, final

import trio

from engine.cli.chat import effects as do
from engine.cli.chat.chat_client import ChatClient, SessionEffect
from engine.cli.chat.command_result import CommandResult, CommandRunner, SessionChange
from engine.cli.chat.draft_store import DraftStore
from engine.cli.chat.editor.key_decoder import KeyDecoder
from engine.cli.chat.external_editor import EditFailure, edit_text
from engine.cli.chat.layout import Size, draw
from engine.cli.chat.live_region import LiveRegion
from engine.cli.chat.machine import ChatEvent, ChatMachine, EffectFailure
from engine.cli.chat.terminal_mode import RawTerminal, reflows
from engine.cli.terminal.exit_codes import DONE
from engine.cli.terminal.output import Output
from engine.core.errors import EngineError, RequestNotFound, TurnOver
from engine.core.threads import to_thread

# At most so many frames in a second.
_FRAME_SECONDS: Final = 1 / 30
# A window that is being resized reports many sizes.
_RESIZE_SECONDS: Final = 0.05
# How long a terminal that takes nothing delays the exit.
_DRAIN_SECONDS: Final = 1.0
# After the last key, the draft is saved.
_DRAFT_SECONDS: Final = 1.0


@final
class ChatDriver:
    """Runs the chat on a terminal."""

    def __init__(
        self,
        *,
        machine: ChatMachine,
        client: ChatClient,
        terminal: RawTerminal,
        output: Output,
        commands: CommandRunner,
        drafts: DraftStore,
        leave_at_once: Callable[[int], Awaitable[object]],
    ) -> None:
        """Make it. *leave_at_once* ends the process without saving, once the terminal is restored."""
        self._machine = machine
        self._client = client
        self._terminal = terminal
        self._output = output
        self._commands = commands
        self._drafts = drafts
        self._typed = trio.Event()
        self._saved_draft = ""
        self._leave_at_once = leave_at_once
        self._region = LiveRegion(terminal.size[0])
        self._reflows = reflows(os.environ)
        self._lines: list[str] = []
        self._changed = trio.Event()
        self._effects, self._received = trio.open_memory_channel[do.Effect](math.inf)
        self._screen = trio.Lock()
        self._resized_at = float("-inf")
        self._code: int | None = None
        self._raw = ""
        self.change: SessionChange | None = None
        self._leaving = trio.CancelScope()

    async def run(self, signals: AsyncIterator[int]) -> int:
        """Run the chat, and return the exit code. A checkpoint; the terminal is restored in any case."""
        self._terminal.arm()
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._output.run)
                with self._leaving:
                    async with trio.open_nursery() as inner:
                        self._output.on_failure(lambda: self._leave(inner, 128 + signal.SIGHUP))
                        inner.start_soon(self._watch_signals, signals, inner)
                        inner.start_soon(self._watch_session, inner)
                        inner.start_soon(self._read_keys, inner)
                        inner.start_soon(self._perform_all, inner)
                        inner.start_soon(self._paint)
                        inner.start_soon(self._save_drafts)
                await self._save_draft()
                with trio.move_on_after(_DRAIN_SECONDS):
                    await self._draw_last()
                nursery.cancel_scope.cancel(reason="the chat is over")
        finally:
            self._terminal.restore()
        return self._code or DONE

    def print_lines(self, lines: Iterable[str]) -> None:
        """Print lines above the live region. Not a checkpoint."""
        self._lines += lines
        self._changed.set()

    # -- what comes in ------------------------------------------------------------------------

    async def _watch_session(self, nursery: trio.Nursery) -> None:
        await self._client.watch(self._take_event)
        self._leave(nursery, DONE)

    def _take_event(self, event: ChatEvent) -> None:
        self._apply(self._machine.handle_event(event, trio.current_time()))

    async def _read_keys(self, nursery: trio.Nursery) -> None:
        decoder = KeyDecoder()
        while True:
            data: bytes | None = None
            with trio.move_on_at(decoder.deadline if decoder.deadline is not None else math.inf):
                data = await self._terminal.read()
            now = trio.current_time()
            if data == b"":
                self._leave(nursery, 128 + signal.SIGHUP)
                return
            for event in decoder.expire(now) if data is None else decoder.feed(data, now):
                self._apply(self._machine.handle_key(event, now))
            self._typed.set()

    async def _watch_signals(self, signals: AsyncIterator[int], nursery: trio.Nursery) -> None:
        async for number in signals:
            if number == signal.SIGWINCH:
                self._resized_at = trio.current_time()
                self._changed.set()
            elif number == signal.SIGCONT:
                # Stopped by another process: the shell has used the terminal since.
                self._rearm()
            elif self._code is not None:
                self._terminal.restore()
                await self._leave_at_once(number)
            else:
                self._leave(nursery, 128 + number)

    # -- what is done -------------------------------------------------------------------------

    def _apply(self, effects: Iterable[do.Effect]) -> None:
        """Print lines at once, and leave everything else to the task that does it. Not a checkpoint."""
        for effect in effects:
            if isinstance(effect, do.Print):
                self._lines += effect.lines
            else:
                self._effects.send_nowait(effect)
        self._changed.set()

    async def _perform_all(self, nursery: trio.Nursery) -> None:
        # One after another: messages reach the session in the order in which they were sent.
        async for effect in self._received:
            match effect:
                case do.Leave(at_once=True):
                    self._terminal.restore()
                    await self._leave_at_once(signal.SIGINT)
                case do.Leave():
                    self._leave(nursery, DONE)
                case do.Suspend():
                    await self._suspend()
                case do.Redraw():
                    await self._redraw()
                case do.EditExternally():
                    await self._edit()
                case do.RunCommand():
                    nursery.start_soon(self._run_command, effect, nursery)
                case do.Print():
                    self.print_lines(effect.lines)
                case _:
                    await self._perform(effect)

    async def _perform(self, effect: SessionEffect) -> None:
        try:
            await self._client.perform(effect)
        except RequestNotFound:
            return  # it was answered elsewhere a moment ago
        except EngineError as error:
            failure = EffectFailure(effect, str(error), is_turn_over=isinstance(error, TurnOver))
            self._apply(self._machine.handle_failure(failure))

    async def _run_command(self, effect: do.RunCommand, nursery: trio.Nursery) -> None:
        if effect.name == "redraw":
            self._print_turns(effect.argument)
            return
        try:
            result = await self._commands.run(effect.name, effect.argument)
        except EngineError as error:
            self._apply([self._machine.note(str(error))])
            return
        self._take_result(result, nursery)

    def _take_result(self, result: CommandResult, nursery: trio.Nursery) -> None:
        machine = self._machine
        self.print_lines(result.lines)
        self._raw += result.raw
        if result.picker is not None:
            machine.open_picker(result.picker)
        if result.draft:
            machine.composer.replace(result.draft)
        if result.prompt:
            self._apply(machine.send_text(result.prompt))
        if result.leaves or result.change is not None:
            self.change = result.change
            self._leave(nursery, DONE)

    def _print_turns(self, count: str) -> None:
        """Print the last turns again, at the present width."""
        turns = int(count) if count.isascii() and count.isdigit() else 1
        self.print_lines(self._machine.view.history(self._client.state, turns))

    def _leave(self, nursery: trio.Nursery, code: int) -> None:
        """Begin to leave: the turn ends first. Not a checkpoint."""
        if self._code is None:
            self._code = code
            nursery.start_soon(self._end_turn)

    async def _end_turn(self) -> None:
        await self._client.leave()
        await trio.lowlevel.checkpoint()
        self._leaving.cancel(reason="the user leaves")

    # -- drafts -------------------------------------------------------------------------------

    async def load_drafts(self) -> None:
        """Bring back the draft and the history. A checkpoint."""
        entries, everywhere = await to_thread(self._drafts.entries)
        self._machine.composer.history.load(entries, everywhere)
        draft = await to_thread(self._drafts.load)
        if draft:
            self._saved_draft = draft
            self._machine.composer.paste(draft)

    async def _save_drafts(self) -> None:
        """Save the draft, a second after the last key."""
        while True:
            await self._typed.wait()
            self._typed = trio.Event()
            with trio.move_on_after(_DRAFT_SECONDS) as pause:
                await self._typed.wait()
            if pause.cancelled_caught:
                await self._save_draft()

    async def _save_draft(self) -> None:
        """Save the draft and what was sent since the last time. A checkpoint if there is anything new."""
        for entry in self._machine.composer.history.take_new():
            await to_thread(self._drafts.add_entry, entry)
        if self._client.state.turns:
            self._drafts.move_to(self._client.state.session_id)
        draft = self._machine.draft
        if draft != self._saved_draft:
            await to_thread(self._drafts.save, draft)
            self._saved_draft = draft

    # -- the screen ---------------------------------------------------------------------------

    async def _paint(self) -> None:
        while True:
            delay = self._machine.tick_after(trio.current_time())
            with trio.move_on_after(math.inf if delay is None else delay):
                await self._changed.wait()
            self._machine.handle_tick(trio.current_time())
            begun_at = trio.current_time()
            async with self._screen:
                await self._draw()
            await trio.sleep_until(begun_at + _FRAME_SECONDS)

    async def _draw(self) -> None:
        """Draw a frame. A checkpoint; if cancelled, the frame is written or will be."""
        columns, rows = self._terminal.size
        while columns != self._region.columns:
            # Once the size has been the same for a while.
            await trio.sleep(_RESIZE_SECONDS)
            before, (columns, rows) = columns, self._terminal.size
            if columns == before:
                self._output.write(self._region.resize(columns, reflows=self._reflows))
                self._machine.view.resize(columns)
        self._changed = trio.Event()
        lines, self._lines = self._lines, []
        raw, self._raw = self._raw, ""
        self._output.write(raw + self._region.draw(lines, draw(self._machine, Size(columns, rows), time.time())))
        await self._output.drain()

    async def _draw_last(self) -> None:
        """Print what is left, and remove the live region. A checkpoint."""
        self._output.write(self._region.clear() + "".join(f"{line}\r\n" for line in self._lines))
        await self._output.drain()

    async def _redraw(self) -> None:
        async with self._screen:
            self._output.write(self._region.clear())
            await self._output.drain()
        self._changed.set()

    def _rearm(self) -> None:
        self._terminal.restore()
        self._terminal.arm()
        self._region.forget()
        self._changed.set()

    async def _suspend(self) -> None:
        """Stop this process until the shell continues it. A checkpoint, before."""
        async with self._screen:
            self._output.write(self._region.clear())
            await self._output.drain()
            self._terminal.restore()
            signal.raise_signal(signal.SIGTSTP)
            # Here it goes on; SIGCONT comes as a signal, too, and draws everything again.
            self._terminal.arm()
        self._changed.set()

    async def _edit(self) -> None:
        """Edit the draft in the user's editor. A checkpoint."""
        async with self._screen:
            self._output.write(self._region.clear())
            await self._output.drain()
            self._terminal.restore()
            try:
                text = await edit_text(self._machine.composer.text)
            finally:
                self._terminal.arm()
        if isinstance(text, EditFailure):
            self._apply([self._machine.note(text.message)])
        else:
            self._machine.composer.replace(text)
        self._changed.set()
