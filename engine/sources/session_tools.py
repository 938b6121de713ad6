"""The tools of a session as its turns get them: its own, and those of its sources as they are at a turn's start.

What requests begin with stays the same within an epoch, whatever comes late, changes or goes: which foreign tools they list
is decided once per epoch, that is, until the history is summarised or the model or the session's own tools change. The others are
found with `tool_search`. What may be *called* is decided at each turn's start, and once more just before a call runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Final, Protocol

import attrs
import trio
from trio.lowlevel import enable_ki_protection

from engine.core.errors import ConfigError
from engine.core.exception_groups import ErrorBoundary, describe, reason_of
from engine.core.foreign_calls import ForeignCall, call_at_end, call_foreign_now
from engine.core.messages import UserMessage
from engine.sources.running_source import RunningSource, TaskStarter, start_sources
from engine.tools.tool_source import TurnSource

if TYPE_CHECKING:
    from engine.core.llm_types import ModelInfo, ToolSchema
    from engine.core.messages import Transcript
    from engine.tools.foreign import ForeignTool
    from engine.tools.registry import Registry
    from engine.tools.tool import Tool
    from engine.tools.tool_source import SourceQuestion, SourceScope, ToolSource

# Seconds for what the first turn of a session waits for, whatever a source says.
READY_SECONDS: Final = 30.0
# Of the window, and at most so many tokens: more foreign tools than that are searched for.
_EAGER_SHARE: Final = 0.04
_EAGER_TOKENS: Final = 10_000


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

    @property
    def transcript(self) -> Transcript:
        """Its history."""
        ...

    @property
    def model(self) -> ModelInfo:
        """Its model."""
        ...

    @property
    def eager_tokens(self) -> int | None:
        """`Settings.eager_tokens`."""
        ...

    def has_tool(self, tool: Tool) -> bool:
        """Return whether its agent may use a foreign tool."""
        ...

    def hides(self, permission: str) -> bool:
        """Return whether the rules deny everything that needs that permission."""
        ...

    def notice(self, text: str) -> None:
        """Report what a source has to say to clients."""
        ...


@attrs.frozen(eq=False, repr=False)
class Epoch:
    """Where requests begin with the same bytes.

    Attributes:
        base: the session's own tools.
        model: the name of its model.
        summary: the id of the last summary in its history; empty: nothing was summarised.
        offered: the schemas of the foreign tools that requests list.
        listed: the names of those that they list in full.
        overriding: the names of those that take the place of one of the session's own.
    """

    base: Registry
    model: str
    summary: str
    offered: tuple[ToolSchema, ...]
    listed: frozenset[str]
    overriding: frozenset[str] = frozenset()


@attrs.define(eq=False, repr=False)
class SessionTools:
    """The tools of a session.

    Attributes:
        own: the sources of this session only, at work.
        is_ready: nothing is waited for any more.
        seen: the tools that the model has seen, by name, each with the version that it saw; empty: which one is unclear.
    """

    _session: SessionView
    _shared: tuple[RunningSource, ...] = attrs.field(alias="shared")
    own: tuple[RunningSource, ...] = attrs.field(default=(), init=False)
    seen: dict[str, str] = attrs.field(factory=dict[str, str], init=False)
    _problems: dict[str, bool] = attrs.field(factory=dict[str, bool], init=False)
    is_ready: bool = attrs.field(default=False, init=False)
    _has_search: bool = attrs.field(default=False, init=False)
    _search: tuple[Tool, Tool] | None = attrs.field(default=None, init=False)
    # The session's own tools, and the same with the two for searching.
    _base: tuple[Registry, Registry] | None = attrs.field(default=None, init=False)
    _epoch: Epoch | None = attrs.field(default=None, init=False)
    _last: Registry | None = attrs.field(default=None, init=False)
    _announced: str = attrs.field(default="", init=False)

    @property
    def sources(self) -> tuple[RunningSource, ...]:
        """All sources, those of the engine first. Sub-agents share them."""
        return (*self._shared, *self.own)

    @enable_ki_protection
    def start(self, sources: Iterable[ToolSource], start_task: TaskStarter) -> None:
        """Let the session's own sources work. Not a checkpoint. Raises `ConfigError` for a tool named like one of ours."""
        several = tuple(sources)
        if any(not isinstance(source, TurnSource) for source in (*several, *(one.source for one in self._shared))):
            self.with_search(self._session.own_registry)
        self.own = start_sources(several, start_task)

    def inherit(self, parent: SessionTools) -> None:
        """Begin with what the session above has seen and waited for. Not a checkpoint."""
        self.seen, self.is_ready = dict(parent.seen), parent.is_ready

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
        own = self._session.own_registry
        if not self._may_bring_tools():
            return own
        foreign = self._collect(own)
        # Before the first turn's wait is over, nothing is decided for good.
        if self.is_ready and (self._epoch is None or not self._is_current(self._epoch, foreign)):
            self._epoch = self._begin_epoch(own, foreign)
        last, base = self._last, self.with_search(own)
        offered = () if self._epoch is None else self._epoch.offered
        # The same object where nothing has changed: what was computed for a request is kept with it.
        if last is None or self._base is None or last.offered is not offered or last.foreign != foreign:
            self._last = last = base.with_foreign(foreign, offered)
        return last

    def _may_bring_tools(self) -> bool:
        """Return whether there are sources, or were, whose tools may be searched for. Not a checkpoint."""
        if not self._has_search:
            self._has_search = any(not self._is_empty(one) for one in self.sources)
        return self._has_search

    def _is_empty(self, running: RunningSource) -> bool:
        if running.turn_source is None:
            return False
        is_empty = running.turn_source.is_empty
        return all(self._ask(f"`is_empty` of {running.name}", lambda scope: (is_empty(scope),)))

    def with_search(self, own: Registry) -> Registry:
        """Return the session's own tools with those for searching. Not a checkpoint. Raises `ConfigError`."""
        if self._base is None or self._base[0] is not own:
            # Imported here: most engines have no sources.
            from engine.tools.tool_search import search_tool

            # The same two objects as long as the session is open: a call of another one would be stale.
            self._search = self._search or search_tool(self._catalogue, self._hides, self._reveal)
            self._base, self._last = (own, own.with_tools(*self._search)), None
        return self._base[1]

    def stale(self, tool: Tool) -> str | None:
        """Return why a call of *tool* must not run now: it is gone, or not what the model saw; None if it may.

        Not a checkpoint.
        """
        name, server = tool.name, getattr(tool, "server", None)
        if not self._may_bring_tools() or server is None:
            own = self._session.own_registry
            now = (self.with_search(own) if self._may_bring_tools() else own).get(name)
            if now is tool:
                return None
            what = f"There is no tool {name} any more" if now is None else f"{name} has changed since you saw it"
            return f"Not executed: {what}. Look at the tools again, then go on."
        return self._stale_foreign(tool)

    def _stale_foreign(self, tool: Tool) -> str | None:
        from engine.tools.foreign import ForeignTool
        from engine.tools.tool_search import describe_tool

        assert isinstance(tool, ForeignTool)
        same = (one for one in self._offers() if one.server == tool.server and one.own_name == tool.own_name)
        now = next(same, None)
        if now is None:
            return f"Not executed: There is no tool {tool.name} any more. Go on without it."
        if now.version != tool.version:
            return f"Not executed: {tool.name} has changed since you saw it. It can be called again in the next turn."
        if (self.seen.get(tool.name) or now.version) == now.version:
            self.seen[tool.name] = now.version
            return None
        self.seen[tool.name] = now.version
        return (
            f"Not executed: {tool.name} has changed since you saw it. If it still is what you need, call it again as it is "
            f"now.\n\n{describe_tool(tool)}"
        )

    async def ready(self) -> None:
        """Wait for what the sources hold the first turn for, and let them look for changes. A checkpoint if one of them is.

        If cancelled, the next turn waits again.
        """
        if not self.is_ready and self.sources:
            with trio.move_on_after(READY_SECONDS):
                async with trio.open_nursery() as nursery:
                    for source in self.sources:
                        nursery.start_soon(self._wait_for, source, name=f"readiness of {source.name}")
            self.is_ready = True
        for source in self.sources:
            if source.turn_source is not None and not source.problem:
                await self._begin_turn(source, source.turn_source)

    async def _begin_turn(self, running: RunningSource, source: TurnSource) -> None:
        """Let a source look for changes. A checkpoint if it is one. Raises nothing ordinary."""
        with trio.move_on_after(READY_SECONDS), ErrorBoundary() as boundary:  # noqa: ASYNC912  # the source decides
            await ForeignCall(f"`begin_turn` of {running.name}", partial(source.begin_turn, self._session.source_scope))
        if boundary.error is not None:
            self._note(f"{running.name}: {reason_of(boundary.error)}")

    def end_turn(self) -> None:
        """Note that the turn is over. Not a checkpoint."""
        for running in self.sources:
            if running.turn_source is not None:
                call_at_end(f"`end_turn` of {running.name}", running.turn_source.end_turn, self._session.source_scope)

    async def _wait_for(self, source: RunningSource) -> None:
        with ErrorBoundary() as boundary:
            await ForeignCall(f"`ready` of {source.name}", partial(source.source.ready, self._session.source_scope))
        if boundary.error is not None:
            self._note(f"{source.name}: {reason_of(boundary.error)}")

    def questions(self) -> list[SourceQuestion]:
        """Return what the sources ask the user before a turn. Not a checkpoint."""
        if not self.sources:
            return []
        # Imported here: most engines have no sources.
        from engine.tools.tool_source import AskingSource, SourceQuestion

        asking = [(source.name, source.source) for source in self.sources if isinstance(source.source, AskingSource)]
        asked = [each for name, source in asking for each in self._ask(f"`questions` of {name}", source.questions)]
        return [each for each in asked if isinstance(each, SourceQuestion)]

    @enable_ki_protection
    def report_problems(self) -> None:
        """Report what the sources have to say, each text once. Not a checkpoint."""
        for source in self.sources:
            if source.problem:
                self._note(f"{source.name} has failed, and its tools are gone: {source.problem}")
            for text in self._ask(f"`notices` of {source.name}", source.source.notices):
                self._note(str(text))
        for text, is_reported in self._problems.items():
            if not is_reported:
                self._problems[text] = True
                self._session.notice(text)

    @enable_ki_protection
    def announcement(self) -> str | None:
        """Return what the model must know about tools that its requests don't list; None: nothing new. Not a checkpoint."""
        if self._last is None or self._epoch is None:
            return None
        from engine.tools.tool_search import list_servers

        listed = self._epoch.listed
        unlisted = [one for name, one in (self._last.foreign or {}).items() if name not in listed]
        text = list_servers(unlisted, self._hides) if unlisted or self._announced else ""
        if text == self._announced:
            return None
        self._announced = text
        return f"{text} Find them with tool_search." if unlisted else text

    # -- what requests list -------------------------------------------------------------------------

    def _is_current(self, epoch: Epoch, foreign: Mapping[str, ForeignTool]) -> bool:
        session = self._session
        return (
            epoch.base is session.own_registry
            and epoch.overriding == _overriding(foreign)
            and epoch.model == session.model.name
            and epoch.summary == _last_summary(session.transcript)
        )

    def _begin_epoch(self, base: Registry, foreign: Mapping[str, ForeignTool]) -> Epoch:
        """Decide which foreign tools requests list, in full or deferred. Not a checkpoint."""
        session, tools = self._session, tuple(foreign.values())
        for name in _revealed(session.transcript):
            self.seen.setdefault(name, "")
        is_small = self._fit(tools)
        # The others are needed only where a host takes deferred ones.
        needed = (tool for tool in tools if is_small or session.model.defers_tools or self._is_always_listed(tool))
        shown = [tool for tool in needed if not self._hides(tool)]
        listed = {tool.name: tool.version for tool in shown if is_small or self._is_always_listed(tool)}
        self.seen.update(listed)
        self._announced = ""
        return Epoch(
            base=base,
            model=session.model.name,
            summary=_last_summary(session.transcript),
            offered=tuple(attrs.evolve(tool.schema, deferred=tool.name not in listed) for tool in shown),
            listed=frozenset(listed),
            overriding=_overriding(foreign),
        )

    def _fit(self, tools: Sequence[ForeignTool]) -> bool:
        """Return whether requests list all tools, because they take few tokens. Not a checkpoint."""
        from engine.compaction.token_estimate import tool_tokens

        limit = self._session.eager_tokens
        if limit is None:
            limit = min(_EAGER_TOKENS, int(_EAGER_SHARE * self._session.model.context))
        # Summed up only as far as it matters: there may be thousands.
        sums = accumulate(tool_tokens(tool.schema) for tool in tools if not self._hides(tool))
        return all(total <= limit for total in sums)

    def _is_always_listed(self, tool: ForeignTool) -> bool:
        return tool.is_eager or tool.name in self.seen

    def _catalogue(self) -> Sequence[ForeignTool]:
        """Return the foreign tools of the turn. Not a checkpoint."""
        return () if self._last is None else tuple((self._last.foreign or {}).values())

    def _hides(self, tool: ForeignTool) -> bool:
        """Return whether the rules deny a tool altogether. Not a checkpoint; it takes up to 0.1 ms."""
        return self._session.hides(tool.permission)

    def _reveal(self, tools: Sequence[ForeignTool]) -> None:
        self.seen.update({tool.name: tool.version for tool in tools})

    # -- the sources -----------------------------------------------------------------------------------

    def _collect(self, base: Registry) -> dict[str, ForeignTool]:
        """Return the foreign tools as they are now, by name; where a name is taken, under another one."""
        tools: dict[str, ForeignTool] = {}
        for tool in self._offers():
            try:
                named = tool if tool.overrides or base.get(tool.name) is None else tool.renamed()
            except ConfigError as error:
                self._note(str(error))
                continue
            if self._session.has_tool(named) and tools.setdefault(named.name, named) is not named:
                self._note(f"{named.own_name} of {named.server} is left out: another tool is called {named.name}, too")
        return dict(sorted(tools.items()))

    def _offers(self) -> Iterator[ForeignTool]:
        """Yield what the sources offer now."""
        from engine.tools.foreign import ForeignTool

        for source in self.sources:
            for tool in () if source.problem else self._ask(f"`tools` of {source.name}", source.source.tools):
                if isinstance(tool, ForeignTool):
                    yield tool
                else:
                    self._note(f"{source.name} offers what engine.tools.foreign_tool has not made: {tool!r}"[:200])

    def _ask(self, what: str, function: Callable[[SourceScope], Sequence[object]]) -> Sequence[object]:
        """Return what a source answers; if it fails, nothing, and note that. Not a checkpoint."""
        try:
            return tuple(call_foreign_now(what, function, self._session.source_scope))
        except Exception as error:  # noqa: BLE001  # foreign code; the other sources still count
            self._note(f"{what} failed: {describe(error)}")
            return ()

    def _note(self, text: str) -> None:
        self._problems.setdefault(text, False)


def _overriding(foreign: Mapping[str, ForeignTool]) -> frozenset[str]:
    return frozenset(name for name, tool in foreign.items() if tool.overrides)


def _last_summary(transcript: Transcript) -> str:
    """Return the id of the last summary in a history; empty if there is none."""
    # Not each change of the history counts: where old results are cleared, what requests begin with stays.
    summaries = (each.id for each in reversed(transcript) if isinstance(each, UserMessage) and each.origin == "summary")
    return next(summaries, "")


def _revealed(transcript: Transcript) -> Iterator[str]:
    """Yield the names of the tools that the history has shown to the model."""
    from engine.compaction.verbatim_parts import revealed_tools

    return revealed_tools(transcript)
