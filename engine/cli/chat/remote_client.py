"""A session of a server, as the chat uses it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast, final

import trio

from engine.cli.chat.chat_client import SendFailure, SessionEffect, give_answer
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
from engine.client.control_client import Client
from engine.client.remote_session import RemoteSession
from engine.client.session_stream import StreamItem
from engine.client.watch_items import Offline, Online
from engine.config.config import Config
from engine.control.protocol.session_methods import SessionHead
from engine.control.protocol.turn_methods import QueueRemoveResult
from engine.control.protocol.wire_converter import Elided
from engine.core import events as ev
from engine.core.errors import ConfigError, EngineError, SessionBusy
from engine.core.ids import InputId
from engine.core.messages import MediaPart
from engine.journal.codec import Unknown
from engine.journal.state import SessionState, Waiting

_INTERRUPTED = "Its turn was interrupted, as no engine runs it. Your next message ends it and begins a new one."
_PARKED = "Its turn waits for an answer, and no engine runs it. Next: engine attach --resume"


@final
class RemoteClient:
    """Talks to a session of a server. Leaving it ends nothing: the turn goes on."""

    def __init__(self, client: Client, session: RemoteSession, config: Config, *, resumes: bool = False) -> None:
        """Make it. *resumes*: go on with the turn that waits for an answer."""
        self._config = config
        self.session = session
        self._client = client
        self._resumes = resumes
        self._is_parked = False
        self._has_unknown = False
        self._changed = trio.Event()

    @property
    def state(self) -> SessionState:
        """What is true of the session now, as far as it is known."""
        return self.session.state or SessionState(session_id=self.session.id)

    async def watch(self, deliver: Callable[[ChatEvent], None]) -> None:
        """Deliver what is true now, and then every event. Runs until cancelled. Raises what the server refuses."""
        async with self.session.watch() as stream:
            if self._resumes:
                await self.session.resume()
            async for item in stream:
                if (event := self._event_of(item)) is not None:
                    deliver(event)
                self._changed.set()
                self._changed = trio.Event()

    async def perform(self, effect: SessionEffect) -> None:
        """Do what the user wants of the session. A checkpoint. Raises `EngineError`."""
        session = self.session
        match effect:
            case SendPrompt():
                await self._prompt(effect)
            case SendSteer() if self._is_parked:
                loaded = await self._load(effect.text)
                await session.prompt(loaded.text, attachments=loaded.media, key=effect.input_id)
            case SendSteer():
                loaded = await self._load(effect.text)
                turn = session.turn(effect.turn_id)
                await turn.steer(loaded.text, attachments=loaded.media, key=effect.input_id)
            case SendQueued():
                loaded = await self._load(effect.text)
                await session.queue(loaded.text, attachments=loaded.media, key=effect.input_id)
            case TakeBack():
                await self._remove(effect.input_id)
            case SwapWaiting():
                raise ConfigError("a server keeps the order of messages. Next: /queue edit NUMBER, and send it again")
            case CancelTurn():
                await session.turn(effect.turn_id).cancel()
            case SkipWait():
                await session.turn(effect.turn_id).skip_wait()
            case _:
                await give_answer(session, effect)

    async def idle(self) -> None:
        """Wait until no turn runs, or one waits for an answer. Always a checkpoint."""
        await trio.lowlevel.checkpoint()
        while self.state.turn is not None and not isinstance(self.state.status, Waiting):
            await self._changed.wait()

    async def leave(self) -> None:
        """Do nothing: the turn goes on. A checkpoint."""
        await trio.lowlevel.checkpoint()

    async def _prompt(self, effect: SendPrompt) -> None:
        inputs: list[LoadedMessage] = []
        removed: list[InputId] = []
        try:
            for part in effect.parts:
                loaded = await self._load(part.text)
                if part.waiting is None:
                    inputs.append(loaded)
                elif await self._remove(part.waiting.input_id):
                    removed.append(part.waiting.input_id)
                    inputs.append(loaded)
            if inputs:
                media = [each for loaded in inputs for each in loaded.media]
                await self._start("\n\n".join(loaded.text for loaded in inputs), media, effect.input_id)
        except EngineError as error:
            raise SendFailure(str(error), removed) from error

    async def _start(self, text: str, media: Sequence[MediaPart], input_id: InputId) -> None:
        try:
            await self.session.prompt(text, attachments=media, key=input_id)
        except SessionBusy:
            # Another client has started a turn.
            await self.session.queue(text, attachments=media, key=input_id)

    async def _load(self, text: str) -> LoadedMessage:
        """Return *text* with the files of this machine that it names. A checkpoint if it names any. Raises `ConfigError`."""
        # Which models there are, the server knows: it refuses what its model does not read.
        return await load_message(text, str(Path.cwd()), "", self._config)

    async def _remove(self, input_id: InputId) -> bool:
        result = await self._client.request("queue.remove", session_id=self.session.id, input_id=input_id)
        return cast("QueueRemoveResult", result).removed

    def _event_of(self, item: StreamItem) -> ChatEvent | None:
        """Return what the chat learns of an item of the stream."""
        match item:
            case SessionHead():
                was_parked, self._is_parked = self._is_parked, item.parked
                if item.parked == was_parked:
                    return None
                return ParkedTurn(item.parked, "" if not item.parked else _PARKED if item.asked else _INTERRUPTED)
            case Offline():
                return ChatRemark("The connection is lost; trying again.")
            case Online():
                return ChatRemark("Connected again.")
            case Elided():
                return ChatRemark(f"An event of {item.bytes} bytes is not shown.")
            case Unknown():
                if self._has_unknown:
                    return None
                self._has_unknown = True
                return ChatRemark("The server is newer than this program and sends what it can't show: update it.")
            case ev.TurnStarted():
                self._is_parked = False
                return item
            case _:
                return item
