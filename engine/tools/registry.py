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
from engine.core.llm_types import ToolSchema
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
    """

    tool: Tool
    arguments: attrs.AttrsInstance
    text: str
    mended: tuple[str, ...] = ()

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
        foreign: the foreign tools of a turn, by their exact names.
        offered: the schemas of foreign tools that requests have, after those of the other tools.
    """

    _tools: dict[str, Tool]
    foreign: Mapping[str, ForeignTool] = attrs.field(factory=dict[str, "ForeignTool"])
    offered: tuple[ToolSchema, ...] = ()
    _aliases: dict[str, Tool] = attrs.field(init=False)
    _schemas: dict[tuple[str, frozenset[str]], tuple[ToolSchema, ...]] = attrs.field(
        factory=dict[tuple[str, frozenset[str]], tuple[ToolSchema, ...]], init=False
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

    def schemas_for(self, model: str, hidden: frozenset[str] = frozenset()) -> tuple[ToolSchema, ...]:
        """Return the schemas that the model *model* gets, without *hidden* tools; the same object each time."""
        if (model, hidden) not in self._schemas:
            own_name = model.partition("/")[2] or model
            own = tuple(
                _schema(tool, hidden)
                for tool in self._tools.values()
                if tool.name not in hidden and tool.offered(own_name)
            )
            self._schemas[model, hidden] = own + self.offered
        return self._schemas[model, hidden]

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

    def with_foreign(self, foreign: Mapping[str, ForeignTool], offered: tuple[ToolSchema, ...]) -> Registry:
        """Return the registry of a turn that has *foreign* tools as well."""
        return Registry(self._tools, foreign, offered)

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
        if (foreign := self.foreign.get(name)) is not None:
            return foreign
        for spelling in (name, name.lower()):
            if (tool := self._tools.get(spelling) or self._aliases.get(spelling)) is not None:
                return tool
        return None

    def prepare(self, name: str, arguments: str) -> Prepared | Settlement:
        """Return the call ready to run, or an error for the model. No side effect."""
        tool = self.get(name)
        if tool is None:
            name = name[:_SHOWN_CHARS]
            # Imported here: models seldom make a name up.
            from difflib import get_close_matches

            close = get_close_matches(name, [*self._tools, *self.foreign], n=3, cutoff=0.5)
            hint = (
                f" Did you mean {' or '.join(close)}?" if close else f" There are: {', '.join(self._tools) or 'none'}."
            )
            return Settlement(status="error", text=f"There is no tool named {name!r}.{hint}")
        try:
            parsed = tool.parse(arguments)
        except InvalidArguments as error:
            return Settlement(
                status="error",
                text=f"The arguments of {tool.name} are not valid:\n{error}\nCall it again with arguments that fit its schema.",
            )
        return Prepared(
            tool=tool,
            arguments=parsed.arguments,
            text=parsed.text,
            mended=parsed.mended,
        )
