"""What every chat does: it carries out effects, follows the session, runs commands, and saves drafts."""

from __future__ import annotations

import os
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from functools import partial
from math import inf
from typing import ClassVar, Final

import attrs
import trio

from engine.cli.chat.attach_files import AttachedFile, attach_clipboard, attach_path
from engine.cli.chat.chat_client import ChatClient, SendFailure, SessionEffect
from engine.cli.chat.chat_drafts import ChatDrafts, DraftChanges
from engine.cli.chat.command_result import CommandResult, CommandRunner, NextSession
from engine.cli.chat.copy_text import copy_text
from engine.cli.chat.external_editor import EditFailure, edit_text
from engine.cli.chat.machine import effects as do
from engine.cli.chat.machine.chat_events import ChatEvent
from engine.cli.chat.machine.chat_machine import ChatMachine
from engine.cli.chat.machine.completion import CompletionRequest
from engine.cli.chat.machine.picker import PickerItem
from engine.cli.chat.notifier import Notifier
from engine.cli.chat.path_finder import PathFinder
from engine.cli.chat.status_sources import StatusSources
from engine.cli.chat.user_shell import UserShell
from engine.cli.terminal.exit_codes import DONE
from engine.cli.terminal.output import Output
from engine.cli.text.themes import THEMES
from engine.core import events as ev
from engine.core.errors import EngineError, RequestNotFound, TurnOver
from engine.core.threads import to_thread
from engine.journal.state import Resync

# After these, facts of the status line may be others.
_STATUS_EVENTS: Final = (ev.TurnStarted, ev.TurnEnded, ev.StepEnded, ev.ModelSwitched, ev.SessionConfigured, Resync)
# After these, the draft may be another one.
_DRAFT_EVENTS: Final = (ev.InputAdmitted, ev.InputRemoved, Resync)
# How long a terminal that takes nothing delays the exit.
_DRAIN_SECONDS: Final = 1.0
# After the last key, the draft is saved.
_DRAFT_SECONDS: Final = 1.0


@attrs.frozen(kw_only=True)
class ChatParts:
    """What a chat consists of.

    Attributes:
        machine: its state.
        client: the session.
        output: where it is shown.
        commands: what runs slash commands.
        drafts: where drafts are saved.
        shell: what runs the user's own commands.
        leave_at_once: ends the process without saving.
        sources: where facts of the status line come from; None: from events alone.
        notifier: what tells the user who looks elsewhere.
    """

    machine: ChatMachine
    client: ChatClient
    output: Output
    commands: CommandRunner
    drafts: ChatDrafts
    shell: UserShell
    leave_at_once: Callable[[int], Awaitable[object]]
    sources: StatusSources | None = None
    notifier: Notifier = attrs.field(factory=Notifier)


class ChatDriver(ABC):
    """Runs a chat; a subclass knows how it is shown and how keys come.

    Attributes:
        change: the session to continue with; None: the user leaves.
        has_sequences: it is shown by a terminal that may be sent sequences.
    """

    has_sequences: ClassVar[bool] = True

    def __init__(self, parts: ChatParts) -> None:
        """Make it."""
        self._machine = parts.machine
        self._client = parts.client
        self._output = parts.output
        self._commands = parts.commands
        self._drafts = parts.drafts
        self._shell = parts.shell
        self._paths = PathFinder(parts.shell.folder)
        self._leave_at_once = parts.leave_at_once
        self._sources = parts.sources
        self._notifier = parts.notifier
        self._effects, self._received = trio.open_memory_channel[do.Effect](inf)
        self._typed = trio.Event()
        self._saved_draft = ""
        self._saved_session = parts.drafts.session_id
        self._unsaved_entries: list[str] = []
        # What the session does not know yet.
        self._unsent: list[do.Send] = []
        self._code: int | None = None
        self._failure: EngineError | None = None
        self._leaving = trio.CancelScope()
        self.change: NextSession | None = None

    # -- what a subclass does ----------------------------------------------------------------

    @abstractmethod
    def start(self, nursery: trio.Nursery) -> None:
        """Start to read keys and to show things. Not a checkpoint."""

    @abstractmethod
    def print_lines(self, lines: Iterable[str], *, raw: str = "") -> None:
        """Print lines, after *raw* text for the terminal itself. Not a checkpoint."""

    @abstractmethod
    def note_change(self) -> None:
        """Note that the machine has changed. Not a checkpoint."""

    @abstractmethod
    def note_draft(self) -> None:
        """Note that the draft has become another one without the user's typing. Not a checkpoint."""

    @abstractmethod
    async def perform_here(self, effect: do.Suspend | do.Redraw | do.EditExternally | do.ShowPager) -> None:
        """Do what concerns the terminal. A checkpoint."""

    @abstractmethod
    def take_signal(self, number: int, nursery: trio.Nursery) -> bool:
        """Handle a signal that does not end the chat; return whether it was one. Not a checkpoint."""

    @abstractmethod
    async def finish(self) -> None:
        """Show what is left. A checkpoint."""

    @abstractmethod
    def restore(self) -> None:
        """Put the terminal back as it was. Not a checkpoint."""

    # -- the chat ----------------------------------------------------------------------------

    async def run(self, signals: AsyncIterator[int]) -> int:
        """Run the chat, and return the exit code. A checkpoint; the terminal is restored in any case."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._output.run)
                with self._leaving:
                    async with trio.open_nursery() as inner:
                        self._output.on_failure(lambda: self.leave(inner, 128 + signal.SIGHUP))
                        self.start(inner)
                        inner.start_soon(self._watch_signals, signals, inner)
                        inner.start_soon(self._watch_session, inner)
                        inner.start_soon(self._update_status)
                        inner.start_soon(self._perform_all, inner)
                        inner.start_soon(self._save_drafts)
                self._return_unsent()
                await self._save_draft()
                with trio.move_on_after(_DRAIN_SECONDS):
                    await self.finish()
                nursery.cancel_scope.cancel(reason="the chat is over")
        finally:
            self.restore()
            # Usually there is nothing left; after an error or a cancel, nothing can be awaited.
            self._return_unsent()
            self._save_draft_now()
        if self._failure is not None:
            raise self._failure
        return self._code or DONE

    def leave(self, nursery: trio.Nursery, code: int) -> None:
        """Begin to leave: the turn ends first. Not a checkpoint."""
        if self._code is None:
            self._code = code
            nursery.start_soon(self._end_turn)

    def apply(self, effects: Iterable[do.Effect]) -> None:
        """Print lines at once, and leave everything else to the task that does it. Not a checkpoint."""
        for effect in effects:
            if isinstance(effect, do.Print):
                self.print_lines(effect.lines)
            else:
                if isinstance(effect, (do.SendPrompt, do.SendSteer, do.SendQueued)):
                    self._unsent.append(effect)
                self._effects.send_nowait(effect)
        self.note_change()

    def note_typed(self) -> None:
        """Note that the draft may have changed. Not a checkpoint."""
        self._notifier.note_typed(trio.current_time())
        self._typed.set()

    async def edit_draft(self) -> None:
        """Edit the draft in the user's editor. A checkpoint."""
        text = await edit_text(self._machine.composer.text)
        if isinstance(text, EditFailure):
            self._machine.notice = text.message
            self.note_change()
        else:
            self._machine.composer.replace(text)
        self.note_typed()

    async def _watch_session(self, nursery: trio.Nursery) -> None:
        try:
            await self._client.watch(partial(self._take_event, nursery))
        except EngineError as error:
            # Raised outside of the nurseries, which would put it into a group.
            self._failure = error
        self.leave(nursery, DONE)

    def _take_event(self, nursery: trio.Nursery, event: ChatEvent) -> None:
        now = trio.current_time()
        self.apply(self._machine.handle_event(event, now))
        if isinstance(event, _DRAFT_EVENTS):
            # The session has, or has no more, what was a part of the draft.
            self._typed.set()
        if self._sources is not None and isinstance(event, _STATUS_EVENTS):
            self._sources.note_change()
        if news := self._notifier.feed(event):
            nursery.start_soon(self._notify, news, event)

    async def _notify(self, news: str, event: ChatEvent) -> None:
        if await self._notifier.looks_elsewhere(event):
            self.print_lines((), raw=self._notifier.sequence(news, os.environ))
            await self._notifier.run_command(news)

    async def _update_status(self) -> None:
        if self._sources is not None:
            await self._sources.run(self.note_change)

    async def _watch_signals(self, signals: AsyncIterator[int], nursery: trio.Nursery) -> None:
        async for number in signals:
            if self.take_signal(number, nursery):
                continue
            if self._code is not None:
                if number == signal.SIGHUP:
                    # A lost terminal is reported several times: by the end of its input, a failed write, and this signal.
                    continue
                self.restore()
                await self._leave_at_once(number)
            self.leave(nursery, 128 + number)

    async def _perform_all(self, nursery: trio.Nursery) -> None:
        # One after another: messages reach the session in the order in which they were sent.
        async for effect in self._received:
            match effect:
                case do.Leave(at_once=True):
                    self.restore()
                    await self._leave_at_once(signal.SIGINT)
                case do.Leave(when_idle=True):
                    await self._client.idle()
                    self.leave(nursery, DONE)
                case do.Leave():
                    self.leave(nursery, DONE)
                case do.Suspend() | do.Redraw() | do.EditExternally() | do.ShowPager():
                    await self.perform_here(effect)
                case do.RunCommand() | do.AttachFile() | do.AttachClipboard() | do.Complete() | do.RunShell():
                    nursery.start_soon(self._perform_aside, effect, nursery)
                case do.StopShell():
                    self._shell.stop()
                case do.Print():
                    self.print_lines(effect.lines)
                case _:
                    await self._perform(effect)

    async def _perform_aside(
        self,
        effect: do.RunCommand | do.AttachFile | do.AttachClipboard | do.Complete | do.RunShell,
        nursery: trio.Nursery,
    ) -> None:
        """Do what may take a while, and does not keep messages waiting. A checkpoint."""
        match effect:
            case do.RunCommand():
                await self._run_command(effect, nursery)
            case do.Complete():
                await self._complete(effect.request)
            case do.RunShell():
                await self._run_shell(effect.command)
            case _:
                await self._attach(effect)

    async def _perform(self, effect: SessionEffect) -> None:
        try:
            await self._client.perform(effect)
        except RequestNotFound:
            pass  # it was answered elsewhere a moment ago
        except EngineError as error:
            removed = error.removed if isinstance(error, SendFailure) else ()
            failure = do.EffectFailure(effect, str(error), isinstance(error, TurnOver), removed)
            self.apply(self._machine.handle_failure(failure))
        self._unsent = [each for each in self._unsent if each is not effect]

    def _return_unsent(self) -> None:
        """Put what the session does not have back into the draft: the chat is over. Not a checkpoint."""
        unsent, self._unsent = self._unsent, []
        self.apply(self._machine.end(unsent, {item.input_id for item in self._client.state.inbox}))

    async def _run_command(self, effect: do.RunCommand, nursery: trio.Nursery) -> None:
        if effect.name == "redraw":
            self._print_turns(effect.argument)
            return
        try:
            result = await self._commands.run(effect.name, effect.argument)
        except EngineError as error:
            self.apply(self._machine.handle_failure(do.EffectFailure(effect, str(error))))
            return
        if result.lines or result.diff or result.table:
            self.print_lines(self._machine.view.command_lines(effect.name))
        self._take_result(result, nursery)

    async def _attach(self, effect: do.AttachFile | do.AttachClipboard) -> None:
        """Put a file into the draft. A checkpoint."""
        machine = self._machine
        if isinstance(effect, do.AttachClipboard):
            attached = await attach_clipboard(self._drafts.folder / "images", os.environ)
        else:
            attached = await to_thread(attach_path, effect.path, self._shell.folder())
        if isinstance(attached, AttachedFile):
            machine.attach(attached.path, attached.kind, attached.size)
        elif isinstance(effect, do.AttachFile) and effect.pasted is not None:
            machine.composer.paste(effect.pasted)
        else:
            machine.notice = attached.message
        self.note_change()
        self.note_typed()

    async def _complete(self, request: CompletionRequest) -> None:
        """Complete the draft. A checkpoint."""
        if request.kind == "argument":
            try:
                items = await self._commands.arguments(request.command)
            except EngineError:
                items = ()
            typed = request.typed.lower()
            starting = [item for item in items if item.value.lower().startswith(typed)]
            items = starting or [item for item in items if typed in item.label.lower()]
        else:
            paths = await self._paths.find(request.typed, is_fuzzy=request.kind == "mention")
            items = [PickerItem(path, path) for path in paths]
        self.apply(self._machine.show_candidates(request, items))

    async def _run_shell(self, command: str) -> None:
        """Run a command of the user's own. A checkpoint; if cancelled, its processes are ended."""
        machine = self._machine
        self.apply(machine.begin_shell(command, self._shell.remark, time.time()))
        status = await self._shell.run(command, lambda data: self.apply(machine.feed_shell(data)))
        self.apply(machine.end_shell(status))

    async def _copy(self, text: str) -> None:
        """Copy a text. A checkpoint."""
        outcome = await copy_text(text, os.environ, has_sequences=self.has_sequences)
        self.print_lines([outcome.remark], raw=outcome.raw)

    def _take_result(self, result: CommandResult, nursery: trio.Nursery) -> None:
        machine = self._machine
        machine.facts.effort = result.effort or machine.facts.effort
        if result.theme:
            machine.view.use_painter(attrs.evolve(machine.view.painter, theme=THEMES[result.theme]))
        view = machine.view
        self.print_lines([*view.diff(result.diff), *view.table(result.table), *view.wrapped(result.lines)])
        if result.copied:
            nursery.start_soon(self._copy, result.copied)
        if result.pager:
            self.apply([do.ShowPager(result.pager)])
        if result.picker is not None:
            self.apply(machine.open_picker(result.picker))
        if result.draft:
            # What was typed in the meantime stays.
            typed = "" if machine.composer.is_empty else f"\n{machine.composer.buffer.text}"
            machine.composer.replace(result.draft + typed)
            self.note_draft()
        if result.prompt:
            self.apply(machine.send_text(result.prompt))
        if result.change is not None:
            self.change = result.change
            self.leave(nursery, DONE)
        self.note_change()

    def _print_turns(self, count: str) -> None:
        """Print the last turns again, at the present width."""
        turns = int(count) if count.isascii() and count.isdigit() else 1
        self.print_lines(self._machine.view.history(self._client.state, turns))

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
            self.note_draft()

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
        changes = self._draft_changes()
        if changes is not None:
            await to_thread(self._drafts.update, changes)
            self._note_saved(changes)

    def _save_draft_now(self) -> None:
        """Do the same at once. It blocks."""
        changes = self._draft_changes()
        if changes is not None:
            self._drafts.update(changes)
            self._note_saved(changes)

    def _draft_changes(self) -> DraftChanges | None:
        """Return what has to be saved; None: nothing."""
        self._unsaved_entries += self._machine.composer.history.take_new()
        session_id = self._client.state.session_id if self._client.state.turns else ""
        draft = self._machine.draft({effect.input_id for effect in self._unsent})
        if draft == self._saved_draft and not self._unsaved_entries and session_id == self._saved_session:
            return None
        return DraftChanges(draft=draft, entries=tuple(self._unsaved_entries), session_id=session_id)

    def _note_saved(self, changes: DraftChanges) -> None:
        self._saved_draft, self._saved_session = changes.draft, changes.session_id
        del self._unsaved_entries[: len(changes.entries)]
