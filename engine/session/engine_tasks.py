"""`EngineTasks`: the engine's only nursery, and what runs in it: turns, and work outside of turns."""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import attrs
import trio
from trio.lowlevel import enable_ki_protection

from engine.core.errors import EngineClosed, WrongTask
from engine.core.exception_groups import ErrorBoundary, describe
from engine.core.threads import check_run
from engine.nursery.cleanup import until_empty
from engine.nursery.parking import run_own_turn
from engine.session.host_block import HostBlock

if TYPE_CHECKING:
    from engine.nursery.running_turn import TurnRun
    from engine.tools.background_jobs import TaskFunction

_log = logging.getLogger(__name__)

# Longer than turns need to end with the run: their calls' grace periods, then a flush.
_LAST_SECONDS: Final = 30.0


@attrs.define(eq=False, repr=False)
class EngineTasks:
    """The nursery of an engine."""

    _block: HostBlock | None = attrs.field(default=None, init=False)
    # The open blocks of turns, in the order in which they were entered.
    _blocks: dict[HostBlock, None] = attrs.field(factory=dict["HostBlock", None], init=False)
    # One scope per task: a model's server is cancelled alone, and turns are never cancelled here but ended, so that
    # each settles its calls first.
    _scopes: set[trio.CancelScope] = attrs.field(factory=set[trio.CancelScope], init=False)
    # A nursery that was inherited through a fork has the parent's tasks, and no event loop.
    _token: trio.lowlevel.TrioToken | None = attrs.field(default=None, init=False)
    _pid: int = attrs.field(factory=os.getpid, init=False)
    _closed: bool = attrs.field(default=False, init=False)
    # Set when the task that opened the engine has left its nursery.
    _gone: trio.Event = attrs.field(factory=trio.Event, init=False)

    @property
    def is_closed(self) -> bool:
        """Whether the engine is closed: not opened yet, closed again, or inherited through a fork."""
        return self._closed or self._block is None or self._pid != os.getpid()

    def check_open(self) -> trio.Nursery:
        """Return the nursery. Raises `EngineClosed`, `WrongThread`."""
        # First: in a forked process the other fields still look open.
        if self._pid != os.getpid():
            raise EngineClosed("this process was forked; an engine works only in the process that opened it")
        if self._closed:
            raise EngineClosed("the engine was closed; open a new one")
        if self._block is None:
            raise EngineClosed("the engine is not open; use it as: async with open_engine(...) as eng")
        self.check_run()
        return self._block.nursery

    @property
    def token(self) -> trio.lowlevel.TrioToken:
        """The token of the engine's Trio run, to call functions in it from any thread.

        Raises `EngineClosed` before it is open.
        """
        if self._token is None:
            raise EngineClosed("the engine is not open; use it as: async with open_engine(...) as eng")
        return self._token

    def check_run(self) -> None:
        """Raise `WrongThread` outside of the Trio run that opened the engine. Not a checkpoint."""
        check_run(self._token)

    def check_unused(self) -> None:
        """Raise `EngineClosed` if the engine was opened before."""
        if self._block is not None:
            raise EngineClosed("an engine is opened once; call open_engine() again")

    @enable_ki_protection
    async def open(self) -> None:
        """Open the nursery. Not a checkpoint."""
        self._block = await HostBlock.enter("the engine")
        self._token = trio.lowlevel.current_trio_token()
        trio.lowlevel.spawn_system_task(self._hold_run_open, name="the end of the engine")

    async def _hold_run_open(self) -> None:
        """Keep the Trio run open until the engine's tasks have ended, even if the task that opened it exits.

        A checkpoint.

        In that case its nursery belongs to no task any more. Trio cancels it but does not wait for its tasks, and fails
        with an internal error if they are still ending when it closes the last generators.
        """
        assert self._block is not None
        try:
            await self._gone.wait()
        finally:
            for block in (self._block, *self._blocks):
                await until_empty(block.nursery, _LAST_SECONDS)  # noqa: ASYNC102  # bounded: see cleanup.py

    @enable_ki_protection
    def close(self) -> None:
        """Refuse new work. Not a checkpoint."""
        self._closed = True

    def cancel(self) -> None:
        """Cancel everything but turns. Not a checkpoint; the tasks end a moment later."""
        # The set does not change during the loop: a cancelled task removes its scope only when it runs.
        for scope in self._scopes:
            scope.cancel(reason="the engine was closed")

    @enable_ki_protection
    async def leave(self, error: BaseException | None) -> None:
        """Wait until the last task has ended; *error* is the exception of the engine's block. A schedule point.

        Raises `WrongTask` if the engine's block, or a turn's, was not left by the task that entered it; all tasks have
        ended by then.
        """
        assert self._block is not None
        if not self._block.is_own:
            raise await self._block.leave_elsewhere() from error
        misplaced: WrongTask | None = None
        for block in reversed(tuple(self._blocks)):
            if block.is_own:
                # These were entered inside the engine's block and not left before it. Leaving them now keeps Trio's
                # stack of scopes in order.
                misplaced = WrongTask(block.what)
                with suppress(RuntimeError):
                    await block.leave(error or misplaced)
        try:
            await self._block.leave(error)
        finally:
            self._gone.set()
        if misplaced is not None and error is None:
            raise misplaced

    @enable_ki_protection
    async def enter_block(self, what: str) -> HostBlock:
        """Enter a block of a turn in this task. Not a checkpoint."""
        block = await HostBlock.enter(what)
        self._blocks[block] = None
        return block

    @enable_ki_protection
    async def leave_block(self, block: HostBlock, error: BaseException | None) -> None:
        """Leave a block whose turn is ending; *error* is the block's exception. A schedule point.

        Raises `WrongTask`.
        """
        if not block.is_own:
            raise await block.leave_elsewhere() from error
        self._blocks.pop(block, None)
        await block.leave(error)

    @enable_ki_protection
    def start(self, work: Callable[[], Awaitable[None]], *, name: str) -> trio.CancelScope | None:
        """Run *work* until it is done or the engine is closed; return the scope that cancels it. Not a checkpoint.

        Returns None if the engine is closed already.
        """
        if self.is_closed or self._block is None:
            return None
        scope = trio.CancelScope()
        self._scopes.add(scope)
        self._block.nursery.start_soon(self._run, work, scope, name, name=name)
        return scope

    @enable_ki_protection
    def run_turn(self, run: TurnRun) -> None:
        """Run a started turn. Not a checkpoint. Raises `EngineClosed`."""
        self.check_open().start_soon(run_own_turn, run, name=f"turn {run.journal.turn_id}")

    async def start_task(self, task: TaskFunction, *, name: str) -> None:
        """Start a task, and return when it reports that it has started. A checkpoint.

        If cancelled, the task is cancelled and waited for. Raises `EngineClosed`, and what the task raises before it
        has started.
        """
        await self.check_open().start(task, name=name)

    async def _run(self, work: Callable[[], Awaitable[None]], scope: trio.CancelScope, name: str) -> None:
        boundary = ErrorBoundary()
        try:
            # Entered here and not around `start_soon`: a scope that is cancelled before its task runs stays cancelled.
            with scope, boundary:
                await work()
        finally:
            self._scopes.discard(scope)
        if boundary.error is not None:
            # It would end all turns of the engine, and none of them has a part in it.
            _log.error("%s failed: %s", name, describe(boundary.error))
