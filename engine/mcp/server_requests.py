"""Requests to a server: they run in the server's task, and a task that waits for one may stop at any time.

The SDK tells the server of a cancel before it lets go, and waits for the server to read it. So a request is never run by
the task that waits for its answer: that one leaves at once, and the server's task does the rest.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import attrs
import trio

from engine.core.deferred import Deferred
from engine.core.exception_groups import ErrorBoundary

if TYPE_CHECKING:
    from mcp_types import ElicitRequestParams, ElicitResult

    from engine.mcp.mcp_connection import McpConnection

T = TypeVar("T")

Ask = Callable[["ElicitRequestParams"], Awaitable["ElicitResult"]]

# Progress that a server reports is shown so often at most.
_PROGRESS_PAUSE: Final = 0.25


class ConnectionLost(Exception):
    """The connection ended while a request was open: nobody knows what the server did with it."""


class LoginNeeded(Exception):
    """The server wants the user to log in."""


class TookTooLong(Exception):
    """A request was given up: the server was silent, or busy, for too long."""


@attrs.frozen(eq=False)
class ServerQuestion:
    """What the server asks the user during a request."""

    params: ElicitRequestParams
    answer: Deferred[ElicitResult] = attrs.field(factory=Deferred["ElicitResult"])


@attrs.define(eq=False, kw_only=True)
class ServerRequest(Generic[T]):
    """A request and its outcome.

    Attributes:
        work: sends it.
        timeout: seconds without a sign of life from the server, before it is given up.
        limit: seconds in all. Waiting for the user counts for neither.
        on_progress: called with what the server reports, a few times per second at most.
        owner: whose request it is: a session's id, or empty.
        outcome: the result, or why there is none.
    """

    work: Callable[[McpConnection, ServerRequest[T]], Awaitable[T]]
    timeout: float
    limit: float
    on_progress: Callable[[str], None] = lambda _: None
    owner: str = ""
    outcome: Deferred[T | Exception] = attrs.field(factory=Deferred["T | Exception"], init=False)
    _scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    _news: trio.Event = attrs.field(factory=trio.Event, init=False)
    _questions: list[ServerQuestion] = attrs.field(factory=list[ServerQuestion], init=False)
    _last_sign: float = attrs.field(factory=trio.current_time, init=False)
    _shown: float = attrs.field(default=float("-inf"), init=False)

    # -- in the server's task ------------------------------------------------------------------

    async def run(self, connection: McpConnection) -> None:
        """Send it and settle it. A checkpoint. Raises nothing ordinary."""
        try:
            with self._scope, ErrorBoundary() as boundary:
                self._settle(await self.work(connection, self))
            if boundary.error is not None:
                self._settle(boundary.error if isinstance(boundary.error, Exception) else ConnectionLost())
        finally:
            self.lose()

    def lose(self) -> None:
        """Settle it as lost, if it has no outcome yet. Not a checkpoint."""
        self._settle(ConnectionLost())

    async def report(self, progress: float, total: float | None, message: str | None) -> None:
        """Take the server's word that it still works. Not a checkpoint, though the SDK awaits it."""
        now = trio.current_time()
        self._last_sign = now
        if now - self._shown >= _PROGRESS_PAUSE and not self.outcome.is_settled:
            self._shown = now
            share = f"{progress:g} of {total:g}" if total else f"{progress:g}"
            self.on_progress(f"{share}: {message}" if message else share)

    async def ask(self, params: ElicitRequestParams) -> ElicitResult:
        """Have the task that waits for the request answer a question. A checkpoint."""
        question = ServerQuestion(params)
        self._questions.append(question)
        self._news.set()
        return await question.answer.wait()

    def _settle(self, outcome: T | Exception) -> None:
        if self.outcome.settle(outcome):
            self._news.set()

    # -- in the task that waits ----------------------------------------------------------------

    async def wait(self, ask: Ask) -> T:
        """Return the result; answer the server's questions with *ask* meanwhile. Always a checkpoint.

        If cancelled, the request is withdrawn, whatever the server does. Raises what the request raised, `TookTooLong`
        and `ConnectionLost`.
        """
        begin, waited = trio.current_time(), 0.0
        try:
            while not self.outcome.is_settled:
                end = min(self._last_sign + self.timeout, begin + self.limit + waited)
                with trio.move_on_at(end):
                    await self._news.wait()
                if self._questions:
                    before = trio.current_time()
                    question = self._questions.pop(0)
                    question.answer.settle(await ask(question.params))
                    self._last_sign = trio.current_time()
                    waited += self._last_sign - before
                elif not self.outcome.is_settled:
                    self._check(begin + self.limit + waited)
                if not self._questions and not self.outcome.is_settled:
                    self._news = trio.Event()
            await trio.lowlevel.checkpoint()
        finally:
            # The end of the scope is seen by the server's task, which tells the server. Here nobody waits for that.
            self._scope.cancel(reason="the answer is not needed any more")
        outcome = self.outcome.value
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def _check(self, limit: float) -> None:
        now = trio.current_time()
        if now >= limit:
            raise TookTooLong(f"it did not answer within {self.limit:g} s, the limit of a call")
        if now >= self._last_sign + self.timeout:
            raise TookTooLong(f"the server was silent for {self.timeout:g} s")
