"""`RunningSource`: a source of tools at work in the engine's nursery."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Protocol

import attrs
import trio

from engine.core.exception_groups import ErrorBoundary, describe
from engine.core.foreign_calls import ForeignCall
from engine.tools.tool_source import TurnSource

if TYPE_CHECKING:
    from engine.tools.tool_source import ToolSource


class TaskStarter(Protocol):
    """Starts a task in the engine's nursery."""

    def __call__(self, work: Callable[[], Awaitable[None]], *, name: str) -> trio.CancelScope | None:
        """Start *work*; return the scope that cancels it, or None if the engine is closed. Not a checkpoint."""
        ...


@attrs.define(eq=False, repr=False)
class RunningSource:
    """A source at work.

    Attributes:
        source: the host's object.
        turn_source: the same, if it looks for changes at the start of each turn. Kept, since asking takes long.
        problem: why its work failed; empty: it did not.
        gone: set when its work is over.
    """

    source: ToolSource
    turn_source: TurnSource | None = attrs.field(default=None, init=False)
    problem: str = attrs.field(default="", init=False)
    gone: trio.Event = attrs.field(factory=trio.Event, init=False)
    _scope: trio.CancelScope | None = attrs.field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        if isinstance(self.source, TurnSource):
            self.turn_source = self.source

    @property
    def name(self) -> str:
        """What people call it."""
        return str(self.source.name)

    def start(self, start_task: TaskStarter) -> None:
        """Let it work in the engine's nursery. Not a checkpoint."""
        self._scope = start_task(self._run, name=f"source of tools {self.name}")

    def stop(self) -> None:
        """Cancel its work. Not a checkpoint."""
        if self._scope is not None:
            self._scope.cancel(reason="the session was closed")

    async def stopped(self) -> None:
        """Wait until its work is over. A checkpoint unless it never began."""
        if self._scope is not None:
            await self.gone.wait()

    async def _run(self) -> None:
        """Do the source's work. Always a checkpoint. Raises nothing ordinary."""
        await trio.lowlevel.checkpoint_if_cancelled()
        try:
            with ErrorBoundary() as boundary:
                await ForeignCall(f"the source of tools {self.name}", self.source.run)
            if boundary.error is not None:
                self.problem = describe(boundary.error)
        finally:
            self.gone.set()


def start_sources(sources: Iterable[ToolSource], start_task: TaskStarter) -> tuple[RunningSource, ...]:
    """Let sources work until the engine is closed. Not a checkpoint."""
    running = tuple(RunningSource(source) for source in sources)
    for source in running:
        source.start(start_task)
    return running
