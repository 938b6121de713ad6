"""`Turn`, a host's handle to one turn.

It lives inside its block: `__aenter__` opens a nursery and starts the turn's frame in
it, `__aexit__` ends the turn and leaves the nursery. Turns are left in the reverse
order in which they were entered, as all nurseries are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, final

import attrs
import trio
from trio.lowlevel import enable_ki_protection

from engine.core.errors import CursorInUse, SessionError, TurnNotEnded, TurnParked
from engine.core.events import Durable, Live, TurnEnded, TurnResult
from engine.core.ids import InputId, TurnId
from engine.core.messages import MediaPart
from engine.core.protocols import Model
from engine.core.value_base import Value
from engine.journal.cursors import Cursor, follow
from engine.journal.state import Resync
from engine.nursery.cleanup import all_over
from engine.nursery.loop_state import CANCELLED, TurnCause
from engine.nursery.running_turn import TurnRun
from engine.nursery.turn_supervisor import run_turn
from engine.session.answer_delivery import answer, recover, reply
from engine.session.answer_types import Answer, Recovery, require_text
from engine.session.validation import require_media

if TYPE_CHECKING:
    from engine.session.host_block import HostBlock
    from engine.session.live_session import LiveSession


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ExistingTurn(Value):
    """The turn of a prompt that was sent before.

    Attributes:
        before: the number of the event before its first one.
        run: the turn, while this engine runs it.
        result: how it ended, once it is over.
    """

    turn_id: TurnId
    before: int
    run: TurnRun | None = None
    result: TurnResult | None = None


@final
class Turn:
    """A turn: `async with session.prompt("…") as turn: async for event in turn: …`.

    Leaving the block ends the turn: it is settled and saved first, and none of its tasks remains. Made by
    `Session.prompt`, not by its constructor.
    """

    _session: LiveSession
    _begin: Callable[[], TurnRun]
    _find: Callable[[], ExistingTurn | None]
    _existing: ExistingTurn | None = None
    _run: TurnRun | None = None
    _block: HostBlock | None = None
    _cursor: Cursor | None = None
    _in_use: bool = False
    _seen_end: bool = False
    _cancelled_early: bool = False

    def __init__(self) -> None:
        """Raise TypeError."""
        raise TypeError("turns are made by a session: session.prompt(…)")

    @enable_ki_protection
    async def __aenter__(self) -> Self:
        """Start the turn. Not a checkpoint. Raises `SessionBusy`, `EngineClosed`."""
        run = self._start()
        if run is None:
            # Whatever runs it, this block does not; so it is not ended with this block either.
            return self
        self._block = await self._session.engine.tasks.enter_block(f"turn {run.journal.turn_id}")
        self._block.nursery.start_soon(run_turn, run, name=f"turn {run.journal.turn_id}")
        return self

    @enable_ki_protection
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> Literal[False]:
        """End the turn if it has not ended, and wait for its last task.

        A schedule point. Even if cancelled, the turn is settled and saved. The body's own exception propagates
        unchanged, since the nursery never sees it. Raises `WrongTask` in a task that did not enter the block, after the
        turn has ended.
        """
        if self._existing is not None:
            await trio.lowlevel.checkpoint()  # noqa: ASYNC102  # nothing is left to do if it is cancelled
            return False
        assert self._block is not None
        assert self._run is not None
        if self._run.ending.cause is None:
            # A `Cancelled` that gets here is the host's, or it came with the turn's own deadline; the turn's own cancel
            # never leaves the scope of its loop.
            self._run.end(self._run.ending.first_catch() if isinstance(error, trio.Cancelled) else _LEFT)
        if not self._block.is_own:
            await all_over([self._run])  # noqa: ASYNC102  # bounded: see cleanup.py
        await self._session.engine.tasks.leave_block(self._block, error)  # noqa: ASYNC102  # by design: a block is left when its last task has gone
        # The body's own exception propagates unchanged.
        return False

    def __aiter__(self) -> Self:
        """Return itself."""
        return self

    async def __anext__(self) -> Durable | Live | Resync:
        """Return the next event; the last one is `TurnEnded`. A cancellation point, see `Cursor`.

        One task at a time may iterate; for more watchers use `session.subscribe()`.
        """
        if self._seen_end:
            raise StopAsyncIteration
        cursor = self._started()
        if self._in_use:
            raise CursorInUse("another task iterates over this turn; use session.subscribe() for a second watcher")
        # A cursor has one position: two tasks would each get half of the events.
        self._in_use = True
        try:
            event = await cursor.__anext__()
        except StopAsyncIteration:
            self._check_parked()
            raise
        finally:
            self._in_use = False
        if isinstance(event, TurnEnded) and event.turn_id == self.id:
            self._seen_end = True
        return event

    @property
    def id(self) -> TurnId:
        """Its id, once it has started."""
        self._started()
        if self._existing is not None:
            return self._existing.turn_id
        assert self._run is not None
        return self._run.journal.turn_id

    @property
    def result(self) -> TurnResult:
        """How it ended.

        Raises `TurnNotEnded` before the end; `TurnParked` if the engine was closed while it waited for an answer.
        """
        self._check_parked()
        if self._existing is not None and self._existing.result is not None:
            return self._existing.result
        if self._run is None or self._run.result is None:
            raise TurnNotEnded("the turn has not ended yet; iterate over it, or await turn.wait(), first")
        return self._run.result

    async def wait(self) -> TurnResult:
        """Wait for the end and return the result. Always a checkpoint; cancelling the wait does not affect the turn.

        Raises `TurnParked` if the engine was closed while the turn waited for an answer.
        """
        self._session.engine.tasks.check_run()
        self._started()
        if self._run is not None:
            await self._run.ending.over.wait()
        await trio.lowlevel.checkpoint()
        return self.result

    @enable_ki_protection
    def cancel(self) -> None:
        """Cancel this turn, and no other. Synchronous, idempotent, not a checkpoint.

        The block then ends normally with `stop_reason == "aborted"`. Before the start, it cancels the turn as soon as
        that starts; after the end it does nothing.
        Raises `WrongThread` outside the engine's Trio run; see `cancel_from_thread`.
        """
        self._session.engine.tasks.check_run()
        if self._run is None:
            self._cancelled_early = self._existing is None
        else:
            self._run.end(CANCELLED)

    def cancel_from_thread(self) -> None:
        """Cancel this turn from any thread or signal handler, a moment later. Not a checkpoint.

        Does nothing after the end of the turn, or of its Trio run.
        """
        with suppress(trio.RunFinishedError):
            self._session.engine.tasks.token.run_sync_soon(self.cancel, idempotent=True)

    def steer(self, text: str, *, attachments: Sequence[MediaPart] = (), input_id: str | None = None) -> InputId:
        """Add a user message at the next step boundary; running tools are not interrupted. Not a checkpoint.

        Raises `TurnOver` if the turn is ending. An id that was used before, with the same content, is ignored.
        """
        self._session.engine.tasks.check_run()
        own = require_media(attachments)
        return self._session.input.steer(require_text(text, "a steer"), self.id, input_id, own)

    def skip_wait(self) -> None:
        """Retry a failed request now instead of after its delay. Not a checkpoint."""
        self._session.engine.tasks.check_run()
        self._started()
        if self._run is not None:
            self._run.state.skip_wait.set()

    async def reply(self, request_id: str, answer: Answer, *, by: str = "") -> None:
        """Answer an open question of this turn or of its sub-agents; see `Session.reply`."""
        await reply(self._session, request_id, answer, by)

    async def answer(self, request_id: str, *answers: str, by: str = "") -> None:
        """Answer a tool's question, in this turn or its sub-agents; see `Session.answer`."""
        await answer(self._session, request_id, answers, by)

    async def recover(self, request_id: str, how: Recovery, *, model: str | Model | None = None, by: str = "") -> None:
        """Decide how to continue after a failed request of this turn or its sub-agents; see `Session.recover`."""
        await recover(self._session, request_id, how, model=model, by=by)

    def _start(self) -> TurnRun | None:
        """Start the turn, and return it; None: it exists already."""
        if self._cursor is not None:
            raise SessionError("a turn can be started only once; call session.prompt() again")
        token = self._session.engine.tasks.token
        self._existing = self._find()
        if self._existing is not None:
            self._run = self._existing.run
            self._cursor = follow(self._session.journal, self._existing.before, token=token)
            if self._cancelled_early and self._run is not None:
                self._run.end(CANCELLED)
            return None
        # The cursor starts before the turn's first event, which is appended in the next line.
        before = self._session.journal.snapshot().seq
        self._run = self._begin()
        self._cursor = follow(self._session.journal, before, token=token)
        if self._cancelled_early:
            # Started and ended, so that the host gets a result and the record says what became of the prompt.
            self._run.end(CANCELLED)
        return self._run

    def _check_parked(self) -> None:
        if self._run is not None and self._run.ending.is_parked:
            raise TurnParked(
                f"turn {self._run.journal.turn_id} waits for an answer, and its engine was closed: go on with it in "
                "another, with session.resume()"
            )

    def _started(self) -> Cursor:
        if self._cursor is None:
            raise SessionError("the turn has not started; enter it: async with session.prompt(...) as turn")
        return self._cursor


def _find_none() -> None:
    """Find no turn."""


def new_turn(
    session: LiveSession, begin: Callable[[], TurnRun], find: Callable[[], ExistingTurn | None] = _find_none
) -> Turn:
    """Return a turn that is started by *begin*, unless *find* returns it when it is started."""
    turn = object.__new__(Turn)
    turn._session = session  # pyright: ignore[reportPrivateUsage]  # its factory
    turn._begin = begin  # pyright: ignore[reportPrivateUsage]  # its factory
    turn._find = find  # pyright: ignore[reportPrivateUsage]  # its factory
    return turn


@enable_ki_protection
def start_turn(turn: Turn) -> TurnRun | None:
    """Start a turn that the caller runs; None: it exists already. Not a checkpoint."""
    return turn._start()  # pyright: ignore[reportPrivateUsage]  # hosts enter it


_LEFT = TurnCause(kind="left", reason="aborted", detail="the block was left before the turn's end")
