"""`task`: hands a piece of work to a sub-agent, and returns what it says in the end."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable
from itertools import pairwise
from typing import Annotated, Final

import attrs

from engine.errors import ConfigError, EngineError, ToolError
from engine.events import TurnResult
from engine.tools.builtin.texts import counted, description, metadata
from engine.tools.context import ToolContext
from engine.tools.schema import doc
from engine.tools.spec import Need, Tool, ToolOutput, tool

PERMISSION: Final = "task"
MAX_PROMPT_CHARS: Final = 50_000
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")


@attrs.frozen(kw_only=True)
class Agent:
    """A kind of sub-agent.

    Attributes:
        name: what it is called by.
        description: when to use it, for the model; empty: only if the user wants it by name.
        system: its system prompt; None: the one of who calls it.
        model: its model; None: the one of who calls it.
        steps: provider requests it may use up; None: as many as who calls it.
        tools: names of those it has, of the ones that who calls it has; None: all of them, so that it may call others
            like itself in turn.
    """

    name: str
    description: str = ""
    system: str | None = None
    model: str | None = None
    steps: int | None = None
    tools: tuple[str, ...] | None = None

    def __attrs_post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ConfigError(f"an agent's name is up to 64 letters, digits, - and _, not {self.name!r}")
        if self.steps is not None and self.steps < 1:
            raise ConfigError(f"the agent {self.name} must have at least one step, not {self.steps}")


@attrs.frozen
class Agents:
    """The kinds of sub-agents there are, sorted by name; make it with `of`."""

    agents: tuple[Agent, ...] = ()

    @classmethod
    def of(cls, agents: Iterable[Agent]) -> Agents:
        """Make a table. Raises `ConfigError` for two agents of one name."""
        found = sorted(agents, key=lambda agent: agent.name)
        for one, other in pairwise(found):
            if one.name == other.name:
                raise ConfigError(f"two agents are named {one.name}")
        return cls(tuple(found))

    @property
    def names(self) -> tuple[str, ...]:
        """Their names, sorted."""
        return tuple(agent.name for agent in self.agents)

    def get(self, name: str) -> Agent | None:
        """Return the agent of that name."""
        return next((agent for agent in self.agents if agent.name == name), None)

    def without(self, names: Collection[str]) -> Agents:
        """Return a table without these."""
        return Agents(tuple(agent for agent in self.agents if agent.name not in names))

    @property
    def text(self) -> str:
        """The list for the description of the tool."""
        lines = [
            f"- {agent.name}: {' '.join(agent.description.split()) or 'use it only if the user asks for it by name.'}"
            for agent in self.agents
        ]
        return "\n".join(lines) or "(there are none)"


def _says_what_to_do(_: object, field: attrs.Attribute[str], value: str) -> None:
    if not value.strip() or len(value) > MAX_PROMPT_CHARS:
        raise ValueError(f"{field.name!r} must say what to do, in at most {MAX_PROMPT_CHARS:,} characters")


@attrs.frozen
class Task:
    """Arguments of `task`."""

    agent: Annotated[str, doc("which sub-agent")]
    prompt: Annotated[str, doc("all that it needs to know, and what it is to report")] = attrs.field(
        validator=_says_what_to_do
    )


def task_tool(agents: Agents | Iterable[Agent], *, denied: Collection[str] = ()) -> Tool:
    """Return the tool `task`.

    Args:
        agents: the sub-agents there are.
        denied: names of those that the rules forbid: they are neither listed nor run.

    Raises:
        ConfigError: for two agents of one name.
    """
    table = (agents if isinstance(agents, Agents) else Agents.of(agents)).without(denied)

    async def task(args: Task, ctx: ToolContext) -> ToolOutput:
        """Run a sub-agent to its end. A checkpoint; if cancelled, the sub-agent's turn is settled and saved first."""
        agent = table.get(args.agent)
        if agent is None:
            close = difflib.get_close_matches(args.agent, table.names, n=3, cutoff=0.6) or table.names
            raise ToolError(f"There is no sub-agent named {args.agent[:64]!r}. There is: {', '.join(close) or 'none'}.")
        try:
            result = await ctx.run_agent(
                args.prompt, model=agent.model, system=agent.system, steps=agent.steps, tools=agent.tools
            )
        except EngineError as error:
            raise ToolError(f"The sub-agent {agent.name} could not be started: {error}") from error
        return _output(agent, result)

    def need(args: Task) -> Need:
        # Of one that is not there nobody needs to be asked: the call ends with the names of those that are.
        return Need(
            permission=PERMISSION,
            patterns=(args.agent,),
            detail=args.prompt,
            is_own=table.get(args.agent) is None,
        )

    # Sub-agents may work side by side; each of their calls asks for its own rights.
    return tool(
        name="task", description=description("task", agents=table.text), safe=True, need=need, permission="task"
    )(task)


def _output(agent: Agent, result: TurnResult) -> ToolOutput:
    text = result.text.strip()
    facts = metadata(
        f"{agent.name}: {result.stop_reason}, {counted(result.steps, 'step')}",
        agent=agent.name,
        stop_reason=result.stop_reason,
        steps=result.steps,
        tokens=result.usage.total,
        cost=result.cost,
    )
    if result.stop_reason == "completed":
        return ToolOutput(text=text or "(The sub-agent ended without a word.)", metadata=facts)
    why = f"{result.stop_reason}: {result.detail}" if result.detail else result.stop_reason
    said = f"What it had said:\n{text}" if text else "It had said nothing."
    return ToolOutput(
        text=f"The sub-agent {agent.name} did not complete its task ({why}, after {counted(result.steps, 'step')}). {said}",
        failed=True,
        metadata=facts,
    )
