"""What the chat needs of a session, wherever it runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol, TypeAlias

from engine.cli.chat.machine.chat_events import ChatEvent
from engine.cli.chat.machine.effects import (
    Answering,
    AnswerTool,
    CancelTurn,
    Recover,
    ReplyPermission,
    Send,
    SkipWait,
    SwapWaiting,
    TakeBack,
)
from engine.cli.turn.interactive import Answerable
from engine.core.errors import EngineError, RequestNotFound
from engine.core.ids import InputId
from engine.journal.state import SessionState

SessionEffect: TypeAlias = Send | TakeBack | SwapWaiting | CancelTurn | SkipWait | Answering


class SendFailure(EngineError):
    """A prompt could not be sent.

    Attributes:
        removed: waiting input that was removed for it already.
    """

    def __init__(self, message: str, removed: Sequence[InputId]) -> None:
        """Make it."""
        super().__init__(message)
        self.removed: tuple[InputId, ...] = tuple(removed)


class ChatClient(Protocol):
    """A session, in this process or at a server."""

    @property
    def state(self) -> SessionState:
        """What is true of the session now."""
        ...

    async def watch(self, deliver: Callable[[ChatEvent], None]) -> None:
        """Deliver what is true now, as a `Resync`, and then every event. Runs until cancelled."""
        ...

    async def perform(self, effect: SessionEffect) -> None:
        """Do what the user wants of the session. A checkpoint. Raises `EngineError`."""
        ...

    async def idle(self) -> None:
        """Wait until no turn runs, or one waits for an answer. A checkpoint."""
        ...

    async def leave(self) -> None:
        """End the turn that runs, if it is this process that runs it. A checkpoint."""
        ...


async def give_answer(session: Answerable, effect: Answering) -> None:
    """Answer a question. A checkpoint. Raises `RequestNotFound`, `ConfigError`."""
    match effect:
        case ReplyPermission():
            for request_id in effect.request_ids:
                # One of them may have been settled by the answer before.
                with suppress(RequestNotFound):
                    await session.reply(request_id, effect.answer)
        case AnswerTool():
            await session.answer(effect.request_id, *effect.answers)
        case Recover():
            await session.recover(effect.request_id, effect.how, model=effect.model)
