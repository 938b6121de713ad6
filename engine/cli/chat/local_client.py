"""A session of this process, as the chat uses it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import final

import trio

from engine.cli.chat.chat_client import SessionEffect, give_answer
from engine.cli.chat.machine.chat_events import ChatEvent
from engine.cli.chat.machine.effects import CancelTurn, SendPrompt, SendQueued, SendSteer, SkipWait, TakeBack
from engine.cli.task.task_files import find_mentions, is_secret, load_file
from engine.cli.terminal.terminal_text import escape_on_one_line
from engine.cli.turn.turn_summary import Tally
from engine.core import events as ev
from engine.core.errors import ConfigError, SessionBusy
from engine.core.ids import InputId
from engine.core.messages import MediaPart
from engine.core.threads import to_thread
from engine.journal.state import Resync, SessionState
from engine.session.engine import Engine
from engine.session.session import Session
from engine.session.turn import Turn


@final
class LocalClient:
    """Talks to a session of an engine in this process."""

    def __init__(self, engine: Engine, session: Session) -> None:
        """Make it."""
        self.session = session
        self._engine = engine
        # All processes that this chat has started carry the mark of one of these sessions.
        self.tally: Tally = Tally()
        self._turn: Turn | None = None

    @property
    def state(self) -> SessionState:
        """What is true of the session now."""
        return self.session.state

    async def watch(self, deliver: Callable[[ChatEvent], None]) -> None:
        """Deliver what is true now, and then every event. Runs until cancelled. A checkpoint."""
        state = self.session.state
        # No checkpoint between the snapshot and the cursor: nothing is missed, and nothing comes twice.
        cursor = self.session.subscribe()
        deliver(
            Resync(
                session_id=self.session.id,
                epoch="",
                seq=state.seq,
                state=state,
                open_questions=self.session.open_questions,
            )
        )
        async for event in cursor:
            if not isinstance(event, Resync):
                self.tally.feed(event)
            deliver(event)

    async def perform(self, effect: SessionEffect) -> None:
        """Do what the user wants of the session. Always a checkpoint, after it. Raises `EngineError`."""
        try:
            await self._perform(effect)
        finally:
            await trio.lowlevel.checkpoint()  # noqa: ASYNC102  # nothing is left to do if it is cancelled

    async def idle(self) -> None:
        """Wait until no turn runs, or one waits for an answer. Always a checkpoint."""
        cursor = self.session.subscribe()
        while self.session.state.turn is not None and not self.session.open_questions:
            await cursor.__anext__()
        await trio.lowlevel.checkpoint()

    async def leave(self) -> None:
        """Cancel the running turn, and wait for its end; then end background commands. A checkpoint."""
        turn = self.session.state.turn
        if turn is not None:
            cursor = self.session.subscribe()
            if self.session.cancel(turn.turn_id):
                async for event in cursor:
                    if isinstance(event, ev.TurnEnded) and event.turn_id == turn.turn_id:
                        break
        await self.session.background.end_jobs()
        await trio.lowlevel.checkpoint()

    async def _perform(self, effect: SessionEffect) -> None:
        session = self.session
        match effect:
            case SendPrompt():
                await self._prompt(effect)
            case SendSteer():
                text, media = await self._with_files(effect.text)
                session.inputs.steer(text, attachments=media, turn_id=effect.turn_id, input_id=effect.input_id)
            case SendQueued():
                text, media = await self._with_files(effect.text)
                session.inputs.queue(text, attachments=media, input_id=effect.input_id)
            case TakeBack():
                session.inputs.remove(effect.input_id)
            case CancelTurn():
                session.cancel(effect.turn_id)
            case SkipWait():
                if self._turn is not None and self._turn.id == effect.turn_id:
                    self._turn.skip_wait()
            case _:
                await give_answer(session, effect)

    async def _prompt(self, effect: SendPrompt) -> None:
        """Start a turn. A checkpoint before; then there is none, so that no input is lost between removal and prompt."""
        loaded = [(part, await self._with_files(part.text)) for part in effect.parts]
        inputs = [each for part, each in loaded if part.waiting is None or self._remove(part.waiting.input_id)]
        if not inputs:
            return
        text = "\n\n".join(text for text, _ in inputs)
        media = [part for _, parts in inputs for part in parts]
        try:
            self._turn = self._engine.start_turn(self.session, text, attachments=media, input_id=effect.input_id)
        except SessionBusy:
            # A report of background work has just started a turn.
            self.session.inputs.queue(text, attachments=media, input_id=effect.input_id)

    async def _with_files(self, text: str) -> tuple[str, list[MediaPart]]:
        """Return *text* with the files that it names as `@path`. A checkpoint if it names any. Raises `ConfigError`."""
        if "@" not in text:
            return text, []
        return await to_thread(_load_mentions, text, Path(self.session.state.context.cwd))

    def _remove(self, input_id: InputId) -> bool:
        return self.session.inputs.remove(input_id)


def _load_mentions(text: str, folder: Path) -> tuple[str, list[MediaPart]]:
    """Return *text* with the text of the files that it names, and those that are no text. It blocks. Raises `ConfigError`."""
    mentions = find_mentions(text, folder)
    for name in filter(is_secret, mentions.paths):
        raise ConfigError(
            f"{escape_on_one_line(name)} looks like a file with keys. Next: remove the @, or copy what is needed"
        )
    parts = [load_file(name, folder) for name in mentions.paths]
    blocks = [mentions.text, *(part.text for part in parts if part.text)]
    return "\n\n".join(filter(str.strip, blocks)), [part.media for part in parts if part.media is not None]
