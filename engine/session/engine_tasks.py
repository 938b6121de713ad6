"""`EngineTasks`: the one nursery of an engine, and what runs in it: turns, and work that is no part of a turn."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import attrs
import trio
from trio.lowlevel import enable_ki_protection

from engine.core.errors import EngineClosed, WrongTask
from engine.core.threads import check_run
from engine.nursery.concluder import until_empty
from engine.session.host_block import HostBlock

if TYPE_CHECKING:
    from engine.tools.background_jobs import TaskFunction

# Longer than turns need that end because the run does: their calls' graces, then a flush.
_LAST_SECONDS: Final = 30.0


@attrs.define(eq=False)
class EngineTasks:
    """The nursery of an engine."""

    _block: HostBlock | None = attrs.field(default=None, init=False)
    # The blocks of turns that are open, in the order in which they were entered.
    _blocks: dict[HostBlock, None] = attrs.field(factory=dict["HostBlock", None], init=False)
    # One scope for each task and not one for all: a model's server is cancelled alone, and turns are never cancelled
    # here; they are ended, so that each settles its calls first.
    _scopes: set[trio.CancelScope] = attrs.field(factory=set[trio.CancelScope], init=False)
    # A nursery that came here through a fork has the tasks of the parent, and no event loop.
    _token: trio.lowlevel.TrioToken | None = attrs.field(default=None, init=False)
    _pid: int = attrs.field(factory=os.getpid, init=False)
    _closed: bool = attrs.field(default=False, init=False)
    # Set when the task that opened the engine has left its nursery.
    _gone: trio.Event = attrs.field(factory=trio.Event, init=False)

    @property
    def is_closed(self) -> bool:
        """Whether the engine was closed, was not opened yet, or came here through a fork."""
        return self._closed or self._block is None or self._pid != os.getpid()

    def check_open(self) -> trio.Nursery:
        """Return the nursery. Raises `EngineClosed`, `WrongThread`."""
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
        """Calls functions in the Trio run of the engine, from any thread. Raises `EngineClosed` before it is open."""
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
        """Keep the Trio run open until the engine's tasks have gone, also if the task that opened it exits. A checkpoint.

        Then its nursery belongs to no task any more. Trio cancels it, but does not wait for its tasks, and fails with an
        internal error where they are still ending when it closes the last generators.
        """
        assert self._block is not None
        try:
            await self._gone.wait()
        finally:
            for block in (self._block, *self._blocks):
                await until_empty(block.nursery, _LAST_SECONDS)  # noqa: ASYNC102  # bounded: see concluder.py

    @enable_ki_protection
    def close(self) -> None:
        """Let nothing begin any more. Not a checkpoint."""
        self._closed = True

    def cancel(self) -> None:
        """Cancel everything but turns. Not a checkpoint; the tasks are over a moment later."""
        # The set does not change meanwhile: a cancelled task takes its scope out only when it runs.
        for scope in self._scopes:
            scope.cancel(reason="the engine was closed")

    @enable_ki_protection
    async def leave(self, error: BaseException | None) -> None:
        """Wait until the last task is over; *error* is that of the engine's block. A schedule point.

        Raises `WrongTask` if this task, or the one that entered a turn's block, did not leave it: all tasks are over then.
        """
        assert self._block is not None
        if not self._block.is_own:
            raise await self._block.leave_elsewhere() from error
        misplaced: WrongTask | None = None
        for block in reversed(tuple(self._blocks)):
            if block.is_own:
                # Inside of the engine's block, but not left before it. Left here, the stack of Trio's scopes is in order.
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
        """Leave a block whose turn is ending; *error* is its own. A schedule point. Raises `WrongTask`."""
        if not block.is_own:
            raise await block.leave_elsewhere() from error
        self._blocks.pop(block, None)
        await block.leave(error)

    @enable_ki_protection
    def start(self, work: Callable[[], Awaitable[None]], *, name: str) -> trio.CancelScope | None:
        """Run *work* until it is done or the engine is closed; return the scope that cancels it. Not a checkpoint.

        None: the engine is closed already.
        """
        if self.is_closed or self._block is None:
            return None
        scope = trio.CancelScope()
        self._scopes.add(scope)
        self._block.nursery.start_soon(self._run, work, scope, name=name)
        return scope

    async def start_task(self, task: TaskFunction, *, name: str) -> None:
        """Start a task, and return when it reports that it has started. A checkpoint.

        If cancelled, so is the task, and it is waited for. Raises `EngineClosed`, and what the task raised until then.
        """
        await self.check_open().start(task, name=name)

    async def _run(self, work: Callable[[], Awaitable[None]], scope: trio.CancelScope) -> None:
        try:
            # Entered here and not around `start_soon`: a scope that is cancelled before its task runs stays cancelled.
            with scope:
                await work()
        finally:
            self._scopes.discard(scope)
