"""A session of this process, as the chat uses it."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

import attrs
import trio

from engine.cli.chat.chat_client import SessionEffect, give_answer
from engine.cli.chat.machine.chat_events import ChatEvent, ChatRemark, ParkedTurn
from engine.cli.chat.machine.effects import (
    CancelTurn,
    SendPrompt,
    SendQueued,
    SendSteer,
    SkipWait,
    SwapWaiting,
    TakeBack,
)
from engine.cli.chat.message_files import LoadedMessage, load_message
from engine.cli.turn.turn_summary import Tally
from engine.config.config import Config
from engine.core import events as ev
from engine.core.errors import ConfigError, SessionBusy
from engine.core.ids import InputId
from engine.core.llm_types import Effort
from engine.core.settings import Settings
from engine.journal.state import Resync, SessionState
from engine.session.engine import Engine
from engine.session.session import Session, live_session
from engine.session.turn import Turn


@final
class LocalClient:
    """Talks to a session of an engine in this process."""

    def __init__(self, engine: Engine, session: Session, config: Config) -> None:
        """Make it."""
        self._config = config
        self.session = session
        self._engine = engine
        # All processes that this chat has started carry the mark of one of these sessions.
        self.tally: Tally = Tally()
        self._turn: Turn | None = None
        # How much the model thinks, from the next turn on; None: as configured.
        self.effort: Effort | None = None

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
        try:
            async for event in cursor:
                self._deliver(event, deliver)
        finally:
            # What has happened until now: a message that was just taken back is only in such an event.
            while (last := cursor.try_next()) is not None:
                self._deliver(last, deliver)

    def _deliver(self, event: ChatEvent, deliver: Callable[[ChatEvent], None]) -> None:
        if not isinstance(event, (Resync, ChatRemark, ParkedTurn)):
            self.tally.feed(event)
        deliver(event)

    async def perform(self, effect: SessionEffect) -> None:
        """Do what the user wants of the session. Always a checkpoint, before it: if cancelled, no message was sent.

        Raises `EngineError`.
        """
        await trio.lowlevel.checkpoint()
        await self._perform(effect)

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
                loaded = await self._load(effect.text)
                session.inputs.steer(
                    loaded.text, attachments=loaded.media, turn_id=effect.turn_id, input_id=effect.input_id
                )
            case SendQueued():
                loaded = await self._load(effect.text)
                session.inputs.queue(loaded.text, attachments=loaded.media, input_id=effect.input_id)
            case TakeBack():
                session.inputs.remove(effect.input_id)
            case SwapWaiting():
                self._swap(effect)
            case CancelTurn():
                session.cancel(effect.turn_id)
            case SkipWait():
                if self._turn is not None and self._turn.id == effect.turn_id:
                    self._turn.skip_wait()
            case _:
                await give_answer(session, effect)

    async def _prompt(self, effect: SendPrompt) -> None:
        """Start a turn. A checkpoint before; then there is none, so that no input is lost between removal and prompt."""
        loaded = [(part, await self._load(part.text)) for part in effect.parts]
        inputs = [each for part, each in loaded if part.waiting is None or self._remove(part.waiting.input_id)]
        if not inputs:
            return
        text = "\n\n".join(each.text for each in inputs)
        media = [part for each in inputs for part in each.media]
        try:
            self._turn = self._engine.start_turn(
                self.session, text, attachments=media, input_id=effect.input_id, settings=self._settings()
            )
        except SessionBusy:
            # A report of background work has just started a turn.
            self.session.inputs.queue(text, attachments=media, input_id=effect.input_id)

    async def _load(self, text: str) -> LoadedMessage:
        """Return *text* with the files that it names. A checkpoint if it names any. Raises `ConfigError`."""
        state = self.session.state
        return await load_message(text, state.context.cwd, state.model, self._config)

    def _settings(self) -> Settings | None:
        """Return the settings of the next turn; None: those of the session."""
        if self.effort is None:
            return None
        usual = live_session(self.session).config.settings
        return attrs.evolve(usual, options=attrs.evolve(usual.options, effort=self.effort))

    def _swap(self, effect: SwapWaiting) -> None:
        """Swap two waiting messages. Not a checkpoint, so that none is there twice. Raises `ConfigError`."""
        waiting = {item.input_id: item.message for item in self.session.inputs.waiting}
        first, second = waiting.get(effect.first), waiting.get(effect.second)
        if first is None or second is None:
            return  # it was delivered a moment ago
        if len(first.parts) > 1 or len(second.parts) > 1:
            raise ConfigError("a message with attachments can't be moved. Next: /queue edit NUMBER")
        self.session.inputs.edit(effect.first, second.text)
        self.session.inputs.edit(effect.second, first.text)

    def _remove(self, input_id: InputId) -> bool:
        return self.session.inputs.remove(input_id)
