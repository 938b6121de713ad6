"""`SessionHooks`: a session's hooks outside of turns: when it starts, is idle, and ends."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import attrs
import trio

from engine.core.events import Notice, TurnResult
from engine.core.foreign_calls import reporting_blocks
from engine.core.hooks import Hooks
from engine.core.protocols import IdSource
from engine.journal.log import Journal
from engine.nursery.hook_points import run_idle_hooks, run_session_end_hooks, run_session_start_hooks
from engine.session.engine_tasks import EngineTasks
from engine.tools.hook_runner import HookRunner


@attrs.define(eq=False, repr=False)
class SessionHooks:
    """A session's hooks outside of turns.

    Attributes:
        seconds: returns the time limit of a hook; the session's settings may change.
    """

    _hooks: Hooks
    _journal: Journal
    _tasks: EngineTasks
    _seconds: Callable[[], float]
    _idle: trio.CancelScope | None = attrs.field(default=None, init=False)

    async def run_start(self, ids: IdSource, source: Literal["new", "resumed"], model: str) -> None:
        """Run the session-start hooks. A checkpoint if a hook is one."""
        with reporting_blocks(self._notice):
            await run_session_start_hooks(self._hooks, self._runner, self._journal, ids, source=source, model=model)

    async def run_end(self, until: float) -> None:
        """Run the session-end hooks; *until* is their deadline. A checkpoint if a hook is one."""
        with reporting_blocks(self._notice):
            await run_session_end_hooks(self._hooks, attrs.evolve(self._runner, until=until), self._journal)

    def start_idle(self, result: TurnResult) -> None:
        """Start the idle hooks, in the engine's nursery. Not a checkpoint."""
        # In a task of their own: the end of a turn must not wait for a desktop notification.
        if self._hooks.idle:
            self._idle = self._tasks.start(
                partial(self._run_idle, result), name=f"idle hooks of {self._journal.session_id}"
            )

    async def _run_idle(self, result: TurnResult) -> None:
        with reporting_blocks(self._notice):
            await run_idle_hooks(self._hooks, self._runner, self._journal, result)

    def cancel_idle(self) -> None:
        """Cancel the idle hooks: a turn begins. Not a checkpoint."""
        # Cancelling the scope of a task that has ended does nothing.
        if self._idle is not None:
            self._idle.cancel(reason="a turn begins")

    @property
    def _runner(self) -> HookRunner:
        return HookRunner(self._seconds(), self._notice, transcript=self._write_transcript)

    async def _write_transcript(self) -> str:
        """Bring the session's file for command hooks up to date; return its path. A checkpoint."""
        # Imported here: most sessions have no command hooks.
        from engine.tools.claude_hooks.transcript_file import write_transcript

        return await write_transcript(self._journal)

    def _notice(self, level: Literal["info", "warning"], code: str, text: str) -> None:
        if not self._journal.is_closed:
            self._journal.append(Notice(level=level, code=code, text=text))
