"""`task`: give a piece of work to a sub-agent, and return its final message."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Final

import attrs

from engine.config.agent_config import AgentConfig
from engine.config.builtin_agents import OF_THE_FIRST
from engine.core.errors import ConfigError, EngineError, ToolError
from engine.core.lazy import regex
from engine.core.schema import doc
from engine.core.value_base import Value
from engine.tools.call_values import Need, ToolOutput
from engine.tools.tool import Tool, tool
from engine.tools.tool_choices import with_choices
from engine.tools.tool_context import ToolContext
from engine.tools.tool_text import description, metadata

if TYPE_CHECKING:
    from engine.agents.agent_result import AgentResult

PERMISSION: Final = "task"
# About 12,000 tokens; larger material should be named by its path.
MAX_PROMPT_CHARS: Final = 50_000
_NAME: Final = regex(r"[A-Za-z][A-Za-z0-9_-]{0,63}")


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Agent(AgentConfig):
    """A kind of sub-agent. Settings that it lacks are those of its caller.

    Attributes:
        name: its name.
    """

    name: str

    def __attrs_post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ConfigError(f"an agent's name is up to 64 letters, digits, - and _, not {self.name!r}")
        try:
            AgentConfig.__attrs_post_init__(self)
        except ConfigError as error:
            raise ConfigError(f"the agent {self.name}: {error}") from error

    @classmethod
    def of(cls, name: str, config: AgentConfig) -> Agent:
        """Return the agent of that name."""
        return cls(name=name, **attrs.asdict(config, recurse=False))


@attrs.frozen(eq=False, repr=False)
class Agents(Value):
    """The kinds of sub-agents, sorted by name; made by `of` or `of_config`."""

    agents: tuple[Agent, ...] = ()

    @classmethod
    def of(cls, agents: Iterable[Agent]) -> Agents:
        """Make a table. Raises `ConfigError` for two agents with one name."""
        by_name = sorted(agents, key=lambda agent: agent.name)
        for one, other in pairwise(by_name):
            if one.name == other.name:
                raise ConfigError(f"two agents are named {one.name}")
        return cls(tuple(by_name))

    @classmethod
    def of_config(cls, agents: Mapping[str, AgentConfig]) -> Agents:
        """Make a table of those *agents* that may be sub-agents; `Config.all_agents`, for example."""
        return cls.of(_below(Agent.of(name, config)) for name, config in agents.items() if config.mode != "primary")

    @property
    def names(self) -> tuple[str, ...]:
        """Their names, sorted."""
        return tuple(agent.name for agent in self.agents)

    def get(self, name: str) -> Agent | None:
        """Return the agent of that name."""
        return next((agent for agent in self.agents if agent.name == name), None)

    def without(self, names: Collection[str]) -> Agents:
        """Return a table without these names."""
        return Agents(tuple(agent for agent in self.agents if agent.name not in names))

    @property
    def shown(self) -> tuple[str, ...]:
        """The names that are listed for the model."""
        return tuple(agent.name for agent in self.agents if not agent.hidden)

    @property
    def text(self) -> str:
        """The list for the tool's description."""
        lines = [
            f"- {agent.name}: {' '.join(agent.description.split()) or 'use it only if the user asks for it by name.'}"
            for agent in self.agents
            if not agent.hidden
        ]
        return "\n".join(lines) or "(there are none)"


def _below(agent: Agent) -> Agent:
    """Return a sub-agent without the tools that talk to the user: only the main agent does that."""
    if agent.tools is not None:
        return agent  # it lists its tools explicitly
    return attrs.evolve(agent, without=tuple(dict.fromkeys((*agent.without, *OF_THE_FIRST))))


def _says_what_to_do(_: object, field: attrs.Attribute[str], value: str) -> None:
    if not value.strip() or len(value) > MAX_PROMPT_CHARS:
        raise ValueError(f"{field.name!r} must say what to do, in at most {MAX_PROMPT_CHARS:,} characters")


@attrs.frozen(eq=False, repr=False)
class Task(Value):
    """Arguments of `task`."""

    agent: Annotated[str, doc("which sub-agent")]
    prompt: Annotated[str, doc("all that it needs to know, and what it is to report")] = attrs.field(
        validator=_says_what_to_do
    )
    task_id: Annotated[str | None, doc("go on with a sub-agent of before, which knows what it did: its task_id")] = None


@attrs.frozen(eq=False, repr=False)
class BackgroundTask(Task):
    """Arguments of `task` with background sub-agents."""

    background: Annotated[bool, doc("go on at once; its report comes by itself when it is done")] = False


def task_tool(agents: Agents | Iterable[Agent], *, denied: Collection[str] = (), background: bool = False) -> Tool:
    """Return the tool `task`.

    Args:
        agents: the sub-agents.
        denied: names of those that the rules forbid: they are neither listed nor run.
        background: they may work in the background; offer `TASK_OUTPUT` and `TASK_STOP` then, as
            `task_tools` does.

    Raises:
        ConfigError: two agents have the same name.
    """
    table = (agents if isinstance(agents, Agents) else Agents.of(agents)).without(denied)

    async def task(args: Task, ctx: ToolContext) -> ToolOutput:
        """Run a sub-agent to its end. A checkpoint; if cancelled, the sub-agent's turn is settled and saved first."""
        return await _hand_on(table, args, ctx)

    async def task_or_start(args: BackgroundTask, ctx: ToolContext) -> ToolOutput:
        """The same, or start it in the background. A checkpoint; if cancelled before, there is none."""
        return await _hand_on(table, args, ctx, background=args.background)

    def need(args: Task) -> Need:
        # An unknown agent needs no permission: the call fails, and lists the existing ones.
        return Need(
            permission=PERMISSION,
            patterns=(args.agent,),
            detail=f"{args.agent}: {args.prompt}",
            is_own=table.get(args.agent) is None,
        )

    def text_without(names: Collection[str]) -> str:
        return description("task", agents=table.without(names).text, background=_BACKGROUND if background else "")

    text = text_without(())
    # Sub-agents may run in parallel: each of their calls is judged by itself.
    if background:

        def need_of(args: BackgroundTask) -> Need:
            return need(args)

        made = tool(name="task", description=text, safe=True, need=need_of, permission=PERMISSION)(task_or_start)
    else:
        made = tool(name="task", description=text, safe=True, need=need, permission=PERMISSION)(task)
    return with_choices(made, table.names, text_without)


_BACKGROUND: Final = (
    "\n- With background=true you go on at once. Its report comes by itself when it is done, so do not wait for it, and do "
    "not ask again and again: do something else, or end your turn. task_output shows how far it is, task_stop ends it."
)


async def _hand_on(table: Agents, args: Task, ctx: ToolContext, *, background: bool = False) -> ToolOutput:
    agent = table.get(args.agent)
    if agent is None:
        # Hidden agents are not suggested: the user calls them by name.
        import difflib

        close = difflib.get_close_matches(args.agent, table.shown, n=3, cutoff=0.6) or table.shown
        raise ToolError(f"There is no sub-agent named {args.agent[:64]!r}. There is: {', '.join(close) or 'none'}.")
    # Some models fill in every optional argument.
    resume = (args.task_id or "").strip() or None
    try:
        if background:
            return await _start(agent, args.prompt, resume, ctx)
        result = await ctx.run_agent(args.prompt, agent=agent, name=agent.name, resume=resume)
    except EngineError as error:
        raise ToolError(f"The sub-agent {agent.name} could not be started: {error}.") from error
    return _output(agent, result)


async def _start(agent: Agent, prompt: str, resume: str | None, ctx: ToolContext) -> ToolOutput:
    job = await ctx.start_agent(prompt, agent=agent, name=agent.name, resume=resume)
    return ToolOutput(
        text=f"The sub-agent {agent.name} works in the background: its task_id is {job.session_id}. Its report comes by "
        "itself when it is done.",
        metadata=metadata(f"{agent.name}: started", agent=agent.name, task_id=job.session_id, status="running"),
        changed=(),
    )


def _output(agent: Agent, result: AgentResult) -> ToolOutput:
    from engine.agents.reports import render_result, result_facts

    return ToolOutput(
        text=render_result(agent.name, result),
        failed=result.status != "completed",
        metadata=result_facts(agent.name, result),
        changed=(),
        # The footer has the id of the sub-agent, another one each time.
        produced=f"{result.status}: {result.text}",
    )
