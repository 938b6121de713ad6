"""What a tool gets with its arguments: a context, through which the turn serves the call."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar, TypeVarTuple, Unpack, cast, runtime_checkable

import attrs
import trio

from engine.config.agent_config import AgentConfig
from engine.core.errors import ConfigError
from engine.core.events import AnswerKind, Choice, QuestionOutcome, SharedContext
from engine.core.ids import CallId, SessionId, TurnId
from engine.core.named_locks import Locks
from engine.core.permission_types import Confinement
from engine.core.threads import to_thread
from engine.core.value_base import Value
from engine.process.secret_names import SecretVariables
from engine.tools.call_values import Need, ToolOutput
from engine.tools.output.spill import Spills

if TYPE_CHECKING:
    from engine.agents.agent_result import AgentResult
    from engine.agents.background import AgentJob, AgentJobs
    from engine.core.context_report import ContextReport
    from engine.tools.background_jobs import Jobs
    from engine.tools.editor_files import EditorFiles

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
UserAnswers = tuple[QuestionOutcome, tuple[str, ...]]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class AgentRequest(Value):
    """Work for a sub-agent.

    Attributes:
        prompt: its task.
        agent: its configuration; `tools` and `without` select among the caller's tools, and its budget is limited by the
            caller's.
        name: the agent's name; empty: none.
        resume: the session of an earlier sub-agent to continue; None: start a new one.
    """

    prompt: str
    agent: AgentConfig = AgentConfig()
    name: str = ""
    resume: str | None = None


class EditReviewer(Protocol):
    """Reviews each file that a tool edits: formats it before it is written, and reports errors in it afterwards."""

    async def format(self, path: Path, data: bytes, ctx: ToolContext) -> tuple[bytes, tuple[str, ...]]:
        """Return *data*, the new content of *path*, as it should be written, and notes for the model."""
        ...

    def has_checks(self, path: Path) -> bool:
        """Return whether `diagnose` may report anything about a file of that name."""
        ...

    async def diagnose(self, paths: Sequence[Path], ctx: ToolContext) -> str:
        """Return the errors in changed files; empty if there are none."""
        ...


@runtime_checkable
class EditDiagnostics(Protocol):
    """Reports errors in edited files, and works in the background for that while the engine is open."""

    async def run(self) -> None:
        """Do background work until cancelled. Must raise no ordinary exception."""
        ...

    def has_checks(self, name: str) -> bool:
        """Return whether `check` may report anything about a file of that name. Not a checkpoint."""
        ...

    async def check(self, paths: Sequence[Path], ctx: ToolContext) -> str:
        """Return the errors in the files that an edit has changed, as text for the model; empty if there are none."""
        ...


class CallHost(Protocol):
    """The turn's services for a running call."""

    @property
    def locks(self) -> Locks:
        """The locks that all sessions of the engine share."""
        ...

    @property
    def spills(self) -> Spills | None:
        """The outputs that the tree of sessions has kept."""
        ...

    @property
    def jobs(self) -> Jobs:
        """The background jobs of the session."""
        ...

    @property
    def agents(self) -> AgentJobs:
        """The sub-agents that work in the background for the session."""
        ...

    @property
    def edit_reviewer(self) -> EditReviewer | None:
        """What formats and checks each edited file; None: nothing does."""
        ...

    @property
    def editor(self) -> EditorFiles | None:
        """The user's editor, which may hold texts unsaved; None: there is none."""
        ...

    async def about_to_change(self, paths: Sequence[str]) -> None:
        """Record the files at *paths*, so that they can be restored."""
        ...

    def progress(self, message: str, output: str) -> None:
        """Show the tool's progress, and keep *output* in case it is aborted."""
        ...

    async def ask(self, need: Need) -> tuple[AnswerKind, str]:
        """Ask the user; return the answer and the feedback."""
        ...

    def permits(self, need: Need, answered: str) -> bool:
        """Return whether the rules allow *need*, or ask about it by the rule *answered*, which the user approved."""
        ...

    async def ask_user(self, question: str, choices: tuple[Choice, ...], *, several: bool) -> UserAnswers:
        """Ask the user a question; return the answers."""
        ...

    async def result_from_outside(self) -> ToolOutput:
        """Wait for the host's result."""
        ...

    def context_report(self) -> ContextReport:
        """Return what fills the window of the session's model."""
        ...

    async def run_agent(self, request: AgentRequest) -> AgentResult:
        """Run a sub-agent to its end inside this call."""
        ...

    async def start_agent(self, request: AgentRequest) -> AgentJob:
        """Start a sub-agent that continues after this call and its turn."""
        ...


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ToolContext:
    """A running call's view of its turn.

    Attributes:
        session_id: the session.
        turn_id: the turn.
        call_id: this call.
        shared: the context as it was when the call's batch began (C4).
        approved_paths: the `paths` of the approved `Need`: the body touches no other file. None: nothing was judged, for
            example because a host calls the tool itself.
        answered: the rule that asked about this call and was answered with yes; empty: none asked.
        secrets: the variables that processes of tools do not get.
        confinement: what the body must run in a box for, since no user was asked: see `Judgement`; empty: it need not.
    """

    session_id: SessionId
    turn_id: TurnId
    call_id: CallId
    shared: SharedContext
    _host: CallHost = attrs.field(alias="host")
    approved_paths: frozenset[str] | None = None
    answered: str = ""
    secrets: SecretVariables = SecretVariables()
    confinement: Confinement = ""

    @property
    def cwd(self) -> str:
        """The session's working directory."""
        return self.shared.cwd

    @property
    def locks(self) -> Locks:
        """Locks by name, shared by all sessions of the engine: hold a file's lock while you change the file."""
        return self._host.locks

    @property
    def spills(self) -> Spills | None:
        """Stores outputs that are too long to show; None if the session has no tool that could read them.

        Most tools don't need it: a result that is too long is stored and truncated anyway.
        """
        return self._host.spills

    @property
    def jobs(self) -> Jobs:
        """The background jobs of the session."""
        return self._host.jobs

    @property
    def agents(self) -> AgentJobs:
        """The sub-agents that work in the background for the session."""
        return self._host.agents

    @property
    def edit_reviewer(self) -> EditReviewer | None:
        """Formats and checks each edited file; None if nothing does."""
        return self._host.edit_reviewer

    @property
    def editor(self) -> EditorFiles | None:
        """The user's editor, which may hold texts unsaved; None if there is none."""
        return self._host.editor

    async def about_to_change(self, *paths: str) -> None:
        """Announce changes to files, by their real paths, so that `session.undo` can restore them.

        A checkpoint if they have to be recorded now: in a git repository they are recorded anyway.
        """
        await self._host.about_to_change(paths)

    def progress(self, message: str = "", *, output: str = "") -> None:
        """Report progress; *output* is kept, and shown if the tool is aborted. Not a checkpoint.

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
        """Ask the user for a further right. A checkpoint; if cancelled, the question is withdrawn."""
        return await self._host.ask(need)

    def permits(self, need: Need) -> bool:
        """Return whether something more may be done without a question. Not a checkpoint.

        It may if the rules allow it, or if they ask about it by the same rule as about this call, which was approved. A
        search checks each file that it finds, for example.
        """
        return self._host.permits(need, self.answered)

    async def ask_user(self, question: str, choices: Sequence[Choice] = (), *, several: bool = False) -> UserAnswers:
        """Ask the user a question; return `("answered", answers)`, or why there is no answer. A checkpoint.

        The answers are labels of the choices, or the user's own text. If no user is available, it is "declined" at
        once. If cancelled, it is withdrawn.
        """
        return await self._host.ask_user(question, tuple(choices), several=several)

    async def result_from_outside(self) -> ToolOutput:
        """Wait for the result that the host sets with `session.settle`, and return it. Always a checkpoint.

        The tool should be *resumable*: then the wait continues after a restart. If cancelled, a later result is
        dropped.
        """
        return await self._host.result_from_outside()

    def context_report(self) -> ContextReport:
        """Return what fills the window of the session's model, without this step's answer. Not a checkpoint."""
        return self._host.context_report()

    async def run_agent(
        self,
        prompt: str,
        *,
        agent: AgentConfig | None = None,
        name: str = "",
        resume: str | None = None,
        model: str | None = None,
        system: str | None = None,
        steps: int | None = None,
        seconds: float | None = None,
        cost: float | None = None,
        tools: Collection[str] | None = None,
    ) -> AgentResult:
        """Run a sub-agent, a turn of a child session, inside this call; return how it ended. Always a checkpoint.

        It shares this turn's budgets, and never has more rights or tools than this session. If this call is cancelled,
        the child's turn is settled and saved first, within this call's grace.

        Args:
            prompt: its task.
            agent: its configuration; the arguments below override it.
            name: its name in the record.
            resume: the `session_id` of an earlier `AgentResult`, whose conversation continues.
            model: its model; None: this turn's.
            system: its system prompt; None: this turn's.
            steps: how many requests it may send.
            seconds: how long it may take.
            cost: how much money it may spend.
            tools: the names of its tools, which are some of the session's; None: all.

        Raises:
            SubAgentRefused: it would be nested too deeply, or *resume* is no idle child of this session.
            ConfigError: its model or its tools are invalid.
        """
        base = AgentConfig() if agent is None else agent
        overrides = AgentConfig(
            model=model,
            system=system,
            steps=steps,
            seconds=seconds,
            cost=cost,
            tools=None if tools is None else names_of(tools),
        )
        return await self._host.run_agent(
            AgentRequest(prompt=prompt, agent=overrides.over(base), name=name, resume=resume)
        )

    async def start_agent(
        self, prompt: str, *, agent: AgentConfig | None = None, name: str = "", resume: str | None = None
    ) -> AgentJob:
        """Start a sub-agent in the background, and return once it is certain to run. A checkpoint.

        It continues after this call and its turn, until it is done or stopped, or the session or the engine is closed;
        the model gets a report. If cancelled before, there is none. Raises as `run_agent` does.
        """
        config = AgentConfig() if agent is None else agent
        return await self._host.start_agent(AgentRequest(prompt=prompt, agent=config, name=name, resume=resume))


def names_of(tools: Collection[str]) -> tuple[str, ...]:
    """Return *tools* as a tuple. Raises `ConfigError` if it is not a collection of names."""
    value = cast("object", tools)
    several = tuple(cast("Collection[object]", value)) if isinstance(value, Collection) else (None,)
    if isinstance(value, str) or not all(isinstance(name, str) for name in several):
        raise ConfigError(f"the tools of a sub-agent are a collection of names, not {value!r}")
    return cast("tuple[str, ...]", several)
