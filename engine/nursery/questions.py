"""Open questions: each a `Deferred` owned by the call that asks.

The answer and its event are one: whoever settles the Deferred appends
`PermissionAnswered` in the same breath. A call that is cancelled withdraws its question.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs
import trio
from trio.lowlevel import enable_ki_protection

from engine.deferred import Deferred
from engine.errors import RequestNotFound
from engine.events import AnswerKind, PermissionAnswered, PermissionAsked
from engine.ids import RequestId
from engine.journal import TurnJournal
from engine.ports import Approver, PermissionQuery

Given = tuple[AnswerKind, str]


@attrs.frozen(kw_only=True)
class _Open:
    asked: PermissionAsked
    query: PermissionQuery
    journal: TurnJournal
    answer: Deferred[Given]


@attrs.define(eq=False)
class Questions:
    """The open questions of a turn and of all turns below it."""

    approver: Approver
    _open: dict[RequestId, _Open] = attrs.field(factory=dict[RequestId, _Open], init=False)

    def __len__(self) -> int:
        return len(self._open)

    async def ask(
        self,
        asked: PermissionAsked,
        query: PermissionQuery,
        journal: TurnJournal,
        *,
        timeout: float | None,
        on_cancel: Callable[[], None] = lambda: None,
    ) -> Given:
        """Ask, and return the answer. Always a checkpoint.

        If cancelled, *on_cancel* is called, then the question is withdrawn, with an event.
        """
        if journal.is_closed:
            # A tool that outlives its turn: nobody would see the question, and it would stay open for ever.
            await trio.lowlevel.checkpoint()
            return "withdrawn", ""
        question = _Open(asked=asked, query=query, journal=journal, answer=Deferred())
        self._open[asked.request_id] = question
        journal.append(asked)
        expired = False
        try:
            with trio.move_on_after(float("inf") if timeout is None else timeout):
                await question.answer.wait()
            expired = True
        except trio.Cancelled:
            on_cancel()
            raise
        finally:
            self._settle(question, ("expired" if expired else "withdrawn", ""))
        return question.answer.value

    @enable_ki_protection
    def reply(self, request_id: RequestId, given: Given) -> None:
        """Answer a question. Raises `RequestNotFound` if it is not open (any more). Not a checkpoint.

        "Always" also releases the other open questions that the new grant covers.
        """
        question = self._open.get(request_id)
        if question is None:
            raise RequestNotFound(f"no open question has the id {request_id!r}")
        if given[0] == "always":
            self.approver.grant(question.asked)
        self._settle(question, given)
        if given[0] == "always":
            for other in list(self._open.values()):
                if self.approver.judge(other.query).verdict == "allow":
                    self._settle(other, ("once", ""))

    @enable_ki_protection
    def withdraw(self, journal: TurnJournal) -> None:
        """Withdraw what a turn that ends has asked: a tool that shields itself does not do it. Not a checkpoint."""
        for question in list(self._open.values()):
            if question.journal is journal:
                self._settle(question, ("withdrawn", ""))

    @enable_ki_protection
    def _settle(self, question: _Open, given: Given) -> None:
        self._open.pop(question.asked.request_id, None)
        if question.answer.settle(given):
            question.journal.append(
                PermissionAnswered(request_id=question.asked.request_id, answer=given[0], feedback=given[1])
            )
