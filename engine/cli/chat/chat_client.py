"""What the chat needs of a session, wherever it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from engine.cli.chat.effects import AnswerQuestion, CancelTurn, Send, SkipWait, TakeBack
from engine.cli.chat.machine import ChatEvent
from engine.cli.turn.interactive import Answerable
from engine.cli.turn.question_prompts import parse_answer, parse_choices
from engine.core import events as ev
from engine.core.errors import ConfigError

SessionEffect = Send | TakeBack | CancelTurn | SkipWait | AnswerQuestion


class ChatClient(Protocol):
    """A session, in this process or at a server."""

    async def watch(self, deliver: Callable[[ChatEvent], None]) -> None:
        """Deliver what is true now, as a `Resync`, and then every event. Runs until cancelled."""
        ...

    async def perform(self, effect: SessionEffect) -> None:
        """Do what the user wants of the session. A checkpoint. Raises `EngineError`."""
        ...

    async def leave(self) -> None:
        """End the turn that runs, if it is this process that runs it. A checkpoint."""
        ...


async def give_answer(session: Answerable, effect: AnswerQuestion) -> None:
    """Answer a question with a typed line. A checkpoint. Raises `RequestNotFound`, `ConfigError`."""
    request, line = effect.request, effect.line
    match request:
        case ev.PermissionAsked():
            answer = parse_answer(line, request)
            if answer is None:
                raise ConfigError("that is no answer to this question")
            await session.reply(request.request_id, answer)
        case ev.QuestionAsked():
            await session.answer(request.request_id, *parse_choices(line, request))
        case ev.RecoveryAsked():
            word = line.strip().lower()
            if word in {"w", "wait"}:
                await session.recover(request.request_id, "wait")
            elif word in {"s", "stop"}:
                await session.recover(request.request_id, "stop")
            else:
                await session.recover(request.request_id, "switch", model=line.strip())
