"""Follows a turn for a caller: progress, questions and their answers, until it ends or a new request has to be waited for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from typing import Final, final

import attrs
import trio

from engine.core.errors import EngineError
from engine.core.events import PermissionAsked, QuestionAsked, TurnStarted
from engine.core.ids import RequestId, TurnId
from engine.core.schema import Json
from engine.journal.cursors import Cursor
from engine.mcp_server.caller import McpCaller
from engine.mcp_server.elicited_answers import Question, permission_reply, question_reply
from engine.mcp_server.turn_report import TurnReport
from engine.session.session import Session

# Clients end calls that are silent for long, the strictest after a minute.
PROGRESS_SECONDS: Final = 5.0
_BATCH: Final = 512


@attrs.frozen
class InputNeeded:
    """The turn waits for answers that can only come with another request."""

    questions: tuple[Question, ...]


@final
class TurnFollower:
    """Follows one turn for one request."""

    def __init__(self, session: Session, turn_id: TurnId, caller: McpCaller) -> None:
        """Make it; `run` does its work."""
        self._session = session
        self._caller = caller
        self.report: TurnReport = TurnReport(session.id, turn_id)
        self._asking: dict[RequestId, trio.CancelScope] = {}

    async def run(self) -> InputNeeded | None:
        """Follow the turn to its end, or to a question that ends the request. A checkpoint.

        If cancelled, open forms are withdrawn; the turn goes on.
        """
        needed: InputNeeded | None = None
        cursor = self._session.subscribe(_start_of(self._session, self.report.turn_id))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._report_progress)
            while self.report.result is None and needed is None and await cursor.wait(durable=True):
                self._take(cursor)
                if self._caller.can_answer:
                    needed = self._ask(nursery)
                # A long record is read in pieces.
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel(reason="the request is answered")
        return needed

    async def settle(self, question: Question, result: Json) -> None:
        """Give an answer; one that comes too late changes nothing. A checkpoint."""
        by = self._caller.name
        with suppress(EngineError):
            if isinstance(question, PermissionAsked):
                await self._session.reply(question.request_id, permission_reply(question, result), by=by)
            else:
                await self._session.answer(question.request_id, *question_reply(result), by=by)

    async def _report_progress(self) -> None:
        """Report until cancelled. A checkpoint."""
        for number in count(1):
            await self._caller.report(number, self.report.activity)
            await trio.sleep(PROGRESS_SECONDS)

    def _take(self, cursor: Cursor) -> None:
        for _ in range(_BATCH):
            event = cursor.try_next()
            if event is None:
                return
            self.report.feed(event)

    def _ask(self, nursery: trio.Nursery) -> InputNeeded | None:
        """Ask what is open, and withdraw what is not any more."""
        questions = {question.request_id: question for question in open_questions(self._session)}
        if self._caller.must_retry:
            return InputNeeded(tuple(questions.values())) if questions else None
        for request_id in self._asking.keys() - questions.keys():
            self._asking.pop(request_id).cancel(reason="the question is settled")
        for request_id in questions.keys() - self._asking.keys():
            scope = self._asking[request_id] = trio.CancelScope()
            nursery.start_soon(self._elicit, questions[request_id], scope)
        return None

    async def _elicit(self, question: Question, scope: trio.CancelScope) -> None:
        with scope:
            await self.settle(question, await self._caller.elicit(question))


def open_questions(session: Session) -> Iterator[Question]:
    """Yield the open questions that a form can ask."""
    return (each for each in session.open_questions if isinstance(each, (PermissionAsked, QuestionAsked)))


def _start_of(session: Session, turn_id: TurnId) -> int:
    """Return the number of the event before the turn's first one."""
    for event in reversed(session.events()):
        if isinstance(event, TurnStarted) and event.turn_id == turn_id:
            return (event.seq or 1) - 1
    return 0
