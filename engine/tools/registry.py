"""The tools of a session, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs
import trio

from engine.config.agent_config import AgentConfig
from engine.core.errors import ConfigError, InvalidArguments
from engine.core.exception_groups import ErrorBoundary
from engine.core.foreign_calls import ForeignCall, call_foreign_now, defer_interrupt
from engine.core.llm_types import TOOL_USE, ToolSchema
from engine.core.messages import Settlement
from engine.core.value_base import Value
from engine.tools.tool import Tool
from engine.tools.tool_choices import ChoiceTool, choice_name, denied_choices

if TYPE_CHECKING:
    from engine.tools.foreign import ForeignTool

# A name has 64 characters at most; a model may make up one of any length.
_SHOWN_CHARS: Final = 80


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Prepared(Value):
    """A call that can run.

    Attributes:
        tool: the tool, found by its name or an alias.
        arguments: the parsed arguments.
        text: the arguments as JSON text, as the model wrote them or as corrected.
        mended: what was corrected in them.
        unwrapped: the arguments as the model wrote them inside of those of `tool_use`; None: it called the tool itself.
    """

    tool: Tool
    arguments: attrs.AttrsInstance
    text: str
    mended: tuple[str, ...] = ()
    unwrapped: str | None = None

    @property
    def safe(self) -> bool | None:
        """Whether it may run in parallel with other safe calls; None: `assess` decides."""
        if self.tool.assess is not None:
            return None
        try:
            return bool(call_foreign_now(f"`safe` of the tool {self.tool.name}", self.tool.safe, self.arguments))
        except KeyboardInterrupt:
            # Not from here: a batch of the stream would be half recorded.
            defer_interrupt()
            return False
        except BaseException:  # noqa: BLE001, ASYNC103  # the author's plain function
            # In doubt the call runs alone.
            return False  # noqa: ASYNC104  # a plain function can't be cancelled

    async def assess(self, cwd: str) -> bool:
        """Return whether it may run in parallel with other safe calls in that working directory.

        Always a cancel point; a schedule point if the tool's function is one. Raises nothing ordinary; if cancelled, nothing is left behind.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        if self.tool.assess is None:
            return self.safe is True
        with ErrorBoundary():
            call = ForeignCall(f"`assess` of the tool {self.tool.name}", partial(self.tool.assess, self.arguments, cwd))
            return bool(await call)
        return False  # in doubt the call runs alone


def _schema(tool: Tool, hidden: frozenset[str]) -> ToolSchema:
    denied = denied_choices(tool, hidden)
    return tool.schema_without(denied) if denied and isinstance(tool, ChoiceTool) else tool.schema


@attrs.define(eq=False, repr=False)
class Registry:
    """An immutable set of tools, sorted by name: requests must begin with the same bytes for the prompt cache.

    Attributes:
        foreign: the foreign tools of a turn, by their exact names; None: nothing can bring any.
        offered: the schemas of foreign tools that requests have, after those of the other tools.
    """

    _tools: dict[str, Tool]
    foreign: Mapping[str, ForeignTool] | None = None
    offered: tuple[ToolSchema, ...] = ()
    _aliases: dict[str, Tool] = attrs.field(init=False)
    _schemas: dict[tuple[str, frozenset[str], bool], tuple[ToolSchema, ...]] = attrs.field(
        factory=dict[tuple[str, frozenset[str], bool], tuple[ToolSchema, ...]], init=False
    )

    def __attrs_post_init__(self) -> None:
        self._aliases = {}
        for tool in self._tools.values():
            for alias in tool.aliases:
                # The model's call would be ambiguous.
                if alias in self._tools or alias in self._aliases:
                    raise ConfigError(f"two tools can be called {alias}")
                self._aliases[alias] = tool

    @classmethod
    def of(cls, tools: Iterable[Tool]) -> Registry:
        """Make a registry. Raises `ConfigError` for two tools with one name, and for what is not a tool."""
        named: dict[str, Tool] = {}
        for tool in tools:
            if not isinstance(tool, Tool):  # pyright: ignore[reportUnnecessaryIsInstance]  # a host may be untyped
                raise ConfigError(f"tools are made with @engine.tool; this is not one: {tool!r}")
            if tool.name in named:
                raise ConfigError(f"two tools are named {tool.name}")
            named[tool.name] = tool
        return cls(dict(sorted(named.items())))

    def schemas_for(
        self, model: str, hidden: frozenset[str] = frozenset(), *, defers: bool = False
    ) -> tuple[ToolSchema, ...]:
        """Return the schemas that the model *model* gets, without *hidden* tools; the same object each time.

        *defers*: its host takes deferred tools, which are left out otherwise.
        """
        if (model, hidden, defers) not in self._schemas:
            own_name = model.partition("/")[2] or model
            own = tuple(
                _schema(tool, hidden)
                for tool in self._tools.values()
                if tool.name not in hidden and tool.offered(own_name)
            )
            offered = tuple(schema for schema in self.offered if defers or not schema.deferred)
            self._schemas[model, hidden, defers] = own + offered
        return self._schemas[model, hidden, defers]

    def hidden_choices(self, denies: Callable[[Tool, str], bool]) -> frozenset[str]:
        """Return the names of what tools offer to choose and *denies* reports as denied."""
        return frozenset(
            choice_name(tool.name, choice)
            for tool in self._tools.values()
            if isinstance(tool, ChoiceTool)
            for choice in tool.choices
            if denies(tool, choice)
        )

    def hidden_by(self, hides: Callable[[str], bool]) -> frozenset[str]:
        """Return the names of the tools whose permission *hides* reports as denied for everything."""
        return frozenset(tool.name for tool in self._tools.values() if tool.permission and hides(tool.permission))

    def of_agent(self, agent: AgentConfig) -> Registry:
        """Return the registry of an agent, which may have only some of the tools."""
        if agent.tools is None and not agent.without:
            return self
        return Registry({name: tool for name, tool in self._tools.items() if agent.has(name)})

    def with_tools(self, *tools: Tool) -> Registry:
        """Return the registry with more tools. Raises `ConfigError` if a name is taken."""
        return Registry.of([*self._tools.values(), *tools])

    def with_foreign(self, foreign: Mapping[str, ForeignTool], offered: tuple[ToolSchema, ...]) -> Registry:
        """Return the registry of a turn that has *foreign* tools as well, also in place of some of its own."""
        overriding = {name for name, tool in foreign.items() if tool.overrides}
        own = (
            {name: tool for name, tool in self._tools.items() if name not in overriding} if overriding else self._tools
        )
        return Registry(own, foreign, offered)

    @property
    def protected(self) -> frozenset[str]:
        """The names of tools whose results are never cleared from the history."""
        return frozenset(tool.name for tool in self._tools.values() if tool.protected)

    @property
    def read_only(self) -> frozenset[str]:
        """The names of tools that change nothing."""
        return frozenset(tool.name for tool in self._tools.values() if tool.read_only)

    @property
    def names(self) -> tuple[str, ...]:
        """The tools' names, sorted."""
        return tuple(self._tools)

    def get(self, name: str) -> Tool | None:
        """Return a tool by its name or an alias, also by the lower-case form: models write "Read" for `read`.

        A foreign tool has only its exact name: a server may have both `getUser` and `getuser`.
        """
        if self.foreign is not None and name in self.foreign:
            return self.foreign[name]
        for spelling in (name, name.lower()):
            if (tool := self._tools.get(spelling) or self._aliases.get(spelling)) is not None:
                return tool
        return None

    def prepare(self, name: str, arguments: str) -> Prepared | Settlement:
        """Return the call ready to run, or an error for the model. No side effect.

        A call of `tool_use` is one of the tool that it names: hooks, rules, questions and the record see no other.
        """
        if self.foreign is not None and name == TOOL_USE:
            # Imported here: most engines have no foreign tools.
            from engine.tools.tool_search import unwrap

            try:
                name, arguments = unwrap(arguments)
            except InvalidArguments as error:
                return Settlement(status="error", text=str(error))
            prepared = self._prepare(name, arguments)
            return prepared if isinstance(prepared, Settlement) else attrs.evolve(prepared, unwrapped=arguments)
        return self._prepare(name, arguments)

    def _prepare(self, name: str, arguments: str) -> Prepared | Settlement:
        tool = self.get(name)
        if tool is None and any(schema.name == name for schema in self.offered):
            # Requests still list it: what they begin with does not change when a tool goes.
            text = f"Not executed: There is no tool {name} any more. Go on without it."
            return Settlement(status="error", text=text)
        if tool is None:
            return Settlement(status="error", text=f"There is no tool named {name[:_SHOWN_CHARS]!r}.{self._hint(name)}")
        try:
            parsed = tool.parse(arguments)
        except InvalidArguments as error:
            # A model may call a foreign tool that it has not searched for.
            schema = f" Its schema: {tool.schema.schema}" if self.foreign and tool.name in self.foreign else ""
            return Settlement(
                status="error",
                text=f"The arguments of {tool.name} are not valid:\n{error}\nCall it again with arguments that fit its schema.{schema}",
            )
        return Prepared(
            tool=tool,
            arguments=parsed.arguments,
            text=parsed.text,
            mended=parsed.mended,
        )

    def _hint(self, name: str) -> str:
        """Return what a model that has called *name* may have meant."""
        # Imported here: models seldom make a name up.
        from difflib import get_close_matches

        close = get_close_matches(name[:_SHOWN_CHARS], self._tools, n=3, cutoff=0.5)
        if self.foreign:
            from engine.tools.tool_catalogue import search_tools

            close += [one.name for one in search_tools(tuple(self.foreign.values()), name[:_SHOWN_CHARS], 3)]
        return f" Did you mean {' or '.join(close)}?" if close else f" There are: {', '.join(self._tools) or 'none'}."
