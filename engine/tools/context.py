"""What a tool gets beside its arguments."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar, TypeVarTuple, Unpack

import attrs
import trio

from engine.events import AnswerKind, Choice, QuestionOutcome, SharedContext, TurnResult
from engine.ids import CallId, SessionId, TurnId
from engine.locks import Locks
from engine.threads import to_thread
from engine.tools.spec import Need
from engine.tools.spill import Spills

if TYPE_CHECKING:
    from engine.tools.formatters import Around
    from engine.tools.jobs import Jobs

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
Words = tuple[QuestionOutcome, tuple[str, ...]]


@attrs.frozen(kw_only=True)
class Errand:
    """A piece of work for a sub-agent.

    Attributes:
        prompt: what it is told.
        model: its model; None: the one of who asks.
        system: its system prompt; None: the one of who asks.
        steps: provider requests it may use up; None: as many as who asks.
        tools: names of those it has, of the ones that who asks has; None: all.
    """

    prompt: str
    model: str | None = None
    system: str | None = None
    steps: int | None = None
    tools: Collection[str] | None = None


class CallHost(Protocol):
    """What the turn does for a running call."""

    @property
    def locks(self) -> Locks:
        """The locks that all sessions of the engine share."""
        ...

    @property
    def spills(self) -> Spills | None:
        """What the tree of sessions has kept of long outputs."""
        ...

    @property
    def jobs(self) -> Jobs:
        """The background jobs of the session."""
        ...

    @property
    def around(self) -> Around | None:
        """What happens around each change of a file; None: nothing."""
        ...

    async def about_to_change(self, paths: Sequence[str]) -> None:
        """Note what is at *paths*, so that it can be put back."""
        ...

    def progress(self, message: str, output: str) -> None:
        """Show how far the tool is, and keep *output* in case it is aborted."""
        ...

    async def ask(self, need: Need) -> tuple[AnswerKind, str]:
        """Ask the user; return the answer and the feedback."""
        ...

    def permits(self, need: Need, answered: str) -> bool:
        """Tell whether the rules allow *need*, or ask about it by the rule *answered*, to which somebody has said yes."""
        ...

    async def ask_user(self, question: str, choices: tuple[Choice, ...], *, several: bool) -> Words:
        """Ask the user something; return what was said."""
        ...

    async def run_agent(self, errand: Errand) -> TurnResult:
        """Run a sub-agent to its end inside this call."""
        ...


@attrs.frozen(kw_only=True, eq=False)
class ToolContext:
    """A running call's view of its turn.

    Attributes:
        session_id: the session.
        turn_id: the turn.
        call_id: this call.
        shared: the context as it was when the call's batch began (C4).
        judged: the `paths` of the right that was judged, and given: the body touches no file but these. None:
            nobody has judged it, as where a host calls a tool itself.
        answered: the rule that asked about this call, where somebody said yes to it; empty: none did.
    """

    session_id: SessionId
    turn_id: TurnId
    call_id: CallId
    shared: SharedContext
    _host: CallHost = attrs.field(alias="host")
    judged: frozenset[str] | None = None
    answered: str = ""

    @property
    def cwd(self) -> str:
        """The session's working directory."""
        return self.shared.cwd

    @property
    def locks(self) -> Locks:
        """Locks by name, shared by all sessions of the engine: hold the one of a file while it is changed."""
        return self._host.locks

    @property
    def spills(self) -> Spills | None:
        """Where an output is kept that is too long to be shown; None if the session has no tool to read it there.

        Most tools don't need it: what they return is cut, and kept, if it is too long.
        """
        return self._host.spills

    @property
    def jobs(self) -> Jobs:
        """The background jobs of the session."""
        return self._host.jobs

    @property
    def around(self) -> Around | None:
        """What happens around each change of a file: formatters, checkers, diagnostics; None: nothing."""
        return self._host.around

    async def about_to_change(self, *paths: str) -> None:
        """Say which files, by their real paths, the body is about to change, so that `session.undo` can put them back.

        A checkpoint if somebody has to note them: where there is git, they are noted anyhow.
        """
        await self._host.about_to_change(paths)

    def progress(self, message: str = "", *, output: str = "") -> None:
        """Say how far the tool is; *output* is kept and shown if it is aborted. Not a checkpoint.

        From a thread, call it with `trio.from_thread.run_sync(ctx.progress, ...)`.
        """
        if not trio.lowlevel.in_trio_task():
            raise RuntimeError(
                "ctx.progress was called outside of trio; use trio.from_thread.run_sync(ctx.progress, ...)"
            )
        self._host.progress(message, output)

    async def to_thread(self, function: Callable[[Unpack[Ts]], T], *args: *Ts) -> T:
        """Run blocking work in a thread and return its result. A checkpoint.

        If cancelled, the thread is abandoned: it runs on, its result is dropped.
        """
        return await to_thread(function, *args)

    async def ask(self, need: Need) -> tuple[AnswerKind, str]:
        """Ask the user for a right in the middle of the work. A checkpoint; if cancelled, the question is withdrawn."""
        return await self._host.ask(need)

    def permits(self, need: Need) -> bool:
        """Tell whether something more may be done without asking anybody. Not a checkpoint.

        So it is if the rules allow it, or if they ask about it for the same reason as about this call, which somebody has
        allowed. A search asks this of each file that it found, say.
        """
        return self._host.permits(need, self.answered)

    async def ask_user(self, question: str, choices: Sequence[Choice] = (), *, several: bool = False) -> Words:
        """Ask the user something; return `("answered", answers)`, or why there is no answer. A checkpoint.

        The answers are labels of the choices, or words of the user's own. Where nobody is
        there to answer, it is "declined" at once. If cancelled, the question is withdrawn.
        """
        return await self._host.ask_user(question, tuple(choices), several=several)

    async def run_agent(
        self,
        prompt: str,
        *,
        model: str | None = None,
        system: str | None = None,
        steps: int | None = None,
        tools: Collection[str] | None = None,
    ) -> TurnResult:
        """Run a sub-agent, a turn of a child session, inside this call; return how it ended.

        It shares this turn's budgets, and has this session's tools: all, or those that
        *tools* names. If this call is cancelled, the child's turn is settled and saved
        first, within this call's grace.
        """
        return await self._host.run_agent(Errand(prompt=prompt, model=model, system=system, steps=steps, tools=tools))
