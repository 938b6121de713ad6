"""The tools of a session as its turns get them: its own, and those of its sources as they are at a turn's start.

What requests begin with stays the same within an epoch, whatever comes late, changes or goes: `offered` is decided once
per epoch. What may be *called* is decided at each turn's start, and once more just before a call runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import attrs
import trio
from trio.lowlevel import enable_ki_protection

from engine.core.exception_groups import ErrorBoundary, describe
from engine.core.foreign_calls import ForeignCall, call_foreign_now
from engine.sources.running_source import RunningSource, TaskStarter, start_sources

if TYPE_CHECKING:
    from engine.tools.foreign import ForeignTool
    from engine.tools.registry import Registry
    from engine.tools.tool import Tool
    from engine.tools.tool_source import SourceScope, ToolSource

# Seconds for what the first turn of a session waits for, whatever a source says.
READY_SECONDS: Final = 30.0


class SessionView(Protocol):
    """The session, as its tools see it."""

    @property
    def own_registry(self) -> Registry:
        """Its tools without those of sources."""
        ...

    @property
    def source_scope(self) -> SourceScope:
        """What sources are asked for."""
        ...

    def has_tool(self, name: str, right: str) -> bool:
        """Return whether its agent may use the foreign tool of that name and right."""
        ...

    def notice(self, text: str) -> None:
        """Report what a source has to say to clients."""
        ...


@attrs.define(eq=False, repr=False)
class SessionTools:
    """The tools of a session.

    Attributes:
        own: the sources of this session only, at work.
    """

    _session: SessionView
    _shared: tuple[RunningSource, ...] = attrs.field(alias="shared")
    own: tuple[RunningSource, ...] = attrs.field(default=(), init=False)
    _notified: set[str] = attrs.field(factory=set[str], init=False)
    _is_ready: bool = attrs.field(default=False, init=False)
    _last: Registry | None = attrs.field(default=None, init=False)
    _base: Registry | None = attrs.field(default=None, init=False)

    @property
    def sources(self) -> tuple[RunningSource, ...]:
        """All sources, those of the engine first. Sub-agents share them."""
        return (*self._shared, *self.own)

    @enable_ki_protection
    def start(self, sources: Iterable[ToolSource], start_task: TaskStarter) -> None:
        """Let the session's own sources work. Not a checkpoint."""
        self.own = start_sources(sources, start_task)

    def stop(self) -> None:
        """End the session's own sources. Not a checkpoint."""
        for source in self.own:
            source.stop()

    async def stopped(self) -> None:
        """Wait until the session's own sources have ended. A checkpoint if there are any."""
        for source in self.own:
            await source.stopped()

    # -- a turn's tools -----------------------------------------------------------------------

    @enable_ki_protection
    def registry(self) -> Registry:
        """Return the tools of a turn that begins now. Not a checkpoint."""
        base = self._session.own_registry
        if not self.sources:
            return base
        foreign = self._collect(base)
        last = self._last
        # The same object where nothing has changed: what was computed for a request is kept with it.
        if last is None or self._base is not base or dict(last.foreign) != foreign:
            self._last = base.with_foreign(foreign, tuple(tool.schema for tool in foreign.values()))
            self._base = base
        assert self._last is not None
        return self._last

    def current(self, tool: Tool) -> Tool | None:
        """Return the tool that has the place of *tool* by now; None: it is gone. Not a checkpoint."""
        base = self._session.own_registry
        if not self.sources:
            return base.get(tool.name)
        from engine.tools.foreign import ForeignTool

        if not isinstance(tool, ForeignTool):
            return base.get(tool.name)
        now = self._collect(base).get(tool.name)
        return tool if now is not None and now.version == tool.version else now

    async def ready(self) -> None:
        """Wait for what the sources hold the first turn for. A checkpoint in the first turn, if there are sources.

        If cancelled, the next turn waits again.
        """
        if self._is_ready or not self.sources:
            return
        with trio.move_on_after(READY_SECONDS):
            async with trio.open_nursery() as nursery:
                for source in self.sources:
                    nursery.start_soon(self._wait_for, source, name=f"readiness of {source.name}")
        self._is_ready = True

    async def _wait_for(self, source: RunningSource) -> None:
        with ErrorBoundary() as boundary:
            await ForeignCall(f"`ready` of {source.name}", partial(source.source.ready, self._session.source_scope))
        if boundary.error is not None:
            self._notify(f"{source.name}: {describe(boundary.error)}")

    def report_problems(self) -> None:
        """Report what the sources have to say, each text once. Not a checkpoint."""
        for source in self.sources:
            if source.problem:
                self._notify(f"{source.name} has failed, and its tools are gone: {source.problem}")
            for text in _ask(
                f"`notices` of {source.name}", partial(source.source.notices, self._session.source_scope), self._notify
            ):
                self._notify(str(text))

    # -- helpers --------------------------------------------------------------------------------

    def _collect(self, base: Registry) -> dict[str, ForeignTool]:
        """Return the foreign tools as they are now, by name, those with a name that is taken under another one."""
        from engine.tools.foreign import ForeignTool

        tools: dict[str, ForeignTool] = {}
        for source in self.sources:
            if source.problem:
                continue
            for tool in _ask(
                f"`tools` of {source.name}", partial(source.source.tools, self._session.source_scope), self._notify
            ):
                if not isinstance(tool, ForeignTool):
                    self._notify(f"{source.name} offers what engine.tools.foreign_tool has not made: {tool!r}")
                    continue
                named = tool if base.get(tool.name) is None else tool.renamed()
                if not self._session.has_tool(named.name, named.permission):
                    continue
                if tools.setdefault(named.name, named) is not named:
                    self._notify(f"{named.name} of {source.name} is left out: another tool has that name")
        return dict(sorted(tools.items()))

    def _notify(self, text: str) -> None:
        if text not in self._notified:
            self._notified.add(text)
            self._session.notice(text)


def _ask(what: str, function: Callable[[], Sequence[object]], report: Callable[[str], None]) -> Sequence[object]:
    """Return what a source answers; if it fails, nothing, and report that. Not a checkpoint."""
    try:
        return tuple(call_foreign_now(what, function))
    except Exception as error:  # noqa: BLE001  # foreign code; the other sources still count
        report(f"{what} failed: {describe(error)}")
        return ()
