"""`ToolSource`: where tools come from that come and go while an engine runs, such as MCP servers, plugins and editors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, runtime_checkable

import attrs

from engine.core.ids import SessionId
from engine.core.value_base import Value
from engine.tools.tool import Tool


@attrs.frozen(kw_only=True, eq=False, repr=False)
class SourceScope(Value):
    """The session for which a source is asked.

    Attributes:
        session_id: the session.
        root_id: the session that the user talks to; another one if this is a sub-agent's.
        cwd: its working directory now.
        agent: the name of its agent; empty: the default.
    """

    session_id: SessionId
    root_id: SessionId
    cwd: str
    agent: str = ""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class SourceQuestion(Value):
    """What a source asks the user before a turn: yes, or not now.

    Attributes:
        text: the question, with all that the user needs to know for it.
        yes: what the answer that agrees is called.
        answer: gets whether the user agrees. What it raises is reported, and the turn continues.
    """

    text: str
    yes: str
    answer: Callable[[bool], Awaitable[None]]


class ToolSource(Protocol):
    """Tools that come and go. Make them with `engine.tools.foreign_tool`.

    An engine has sources for all sessions (`Ports.sources`), a session may have more of its own.
    """

    @property
    def name(self) -> str:
        """What people call it in messages."""
        ...

    async def run(self) -> None:
        """Do the source's work: start servers, watch them, end them when cancelled.

        It runs in the engine's nursery from the moment the engine is opened (or the session, for one of its own) until
        it is closed; nothing waits for it to begin. It may return early; its tools stay. If it raises, its tools are
        gone, the sessions' next turns report that, and nothing else ends. When cancelled, it should end within half a
        second.
        """
        ...

    def tools(self, scope: SourceScope) -> Sequence[Tool]:
        """Return the tools that a session may call now. Not a checkpoint, and quick.

        Asked at the start of each turn, and for the tool of a call just before it runs: a call to a tool that is gone
        by then, or has another `version`, is not run, and the model is asked to look again.
        """
        ...

    async def ready(self, scope: SourceScope) -> None:
        """Wait for what the first turn of a session in this engine should not begin without; return at once otherwise.

        Cancelled with the turn, and after 30 seconds at the latest. What it raises is reported, and the turn continues.
        """
        ...

    def notices(self, scope: SourceScope) -> Sequence[str]:
        """Return what the user should know: servers that failed, tools that were refused. Not a checkpoint.

        Asked at the start of each turn; each text is shown once in a session.
        """
        ...


@runtime_checkable
class TurnSource(ToolSource, Protocol):
    """A source that looks for changes at the start of each turn, and whose tools stay the same until the turn is over."""

    def is_empty(self, scope: SourceScope) -> bool:
        """Return whether it has no tools: then the requests of the session are those without it. Not a checkpoint, and quick.

        Once it has had some in a session, that is not asked any more.
        """
        ...

    async def begin_turn(self, scope: SourceScope) -> None:
        """Look for changes: what `tools` returns for this session from now on stays until `end_turn`.

        Cancelled with the turn, and after 30 seconds at the latest. What it raises is reported, and the turn continues.
        """
        ...

    def end_turn(self, scope: SourceScope) -> None:
        """Note that the turn is over. Not a checkpoint. Called for each turn, also for one that never began or was parked."""
        ...


@runtime_checkable
class AskingSource(Protocol):
    """A source that also asks the user."""

    def questions(self, scope: SourceScope) -> Sequence[SourceQuestion]:
        """Return what the user must decide: about tools that are withheld. Not a checkpoint.

        Asked at the start of each turn, one after the other, where a user can answer; the turn waits for the answers. Then it
        is asked once more, for what the answers have raised. A source that returns a question again makes the user give in.
        """
        ...
