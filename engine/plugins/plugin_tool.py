"""Tools of plugins, as the turns get them: under a name that says whose they are, and asked about like those of strangers."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Final, cast

import attrs

from engine.core.errors import ConfigError, ToolError
from engine.core.value_base import Value
from engine.plugins.guarded_call import exit_text
from engine.tools.call_values import Need, ToolOutput
from engine.tools.foreign import ForeignTool, JsonArguments, foreign_tool
from engine.tools.foreign_names import foreign_right
from engine.tools.tool import Tool
from engine.tools.tool_context import ToolContext

if TYPE_CHECKING:
    from engine.core.arguments import Parsed

KIND: Final = "plugin"
# Of a tool that names no time limit itself: a turn must not wait for it for ever.
TIMEOUT: Final = 300.0
# The end of a cancelled turn waits for it.
MOST_GRACE: Final = 2.0


@attrs.frozen(eq=False, repr=False)
class PluginArguments(Value):
    """The arguments of a tool that runs inside of the engine.

    Attributes:
        parsed: as its author has declared them.
        text: the same as JSON text, for the question.
    """

    parsed: attrs.AttrsInstance
    text: str


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PluginTool(ForeignTool):
    """A tool of a plugin.

    Attributes:
        own: the tool as its author made it; None: it runs in another process.
        overrides: the user lets it take a name that may be another tool's.
    """

    own: Tool | None = None
    overrides: bool = False

    def parse(self, arguments: str) -> Parsed[attrs.AttrsInstance]:
        """Return the arguments of a call. Raises `InvalidArguments`."""
        from engine.core.arguments import Parsed

        if self.own is None:
            return ForeignTool.parse(self, arguments)
        parsed = self.own.parse(arguments)
        own = PluginArguments(parsed.arguments, parsed.text)
        return Parsed(cast("attrs.AttrsInstance", own), parsed.text, parsed.mended)

    def renamed(self) -> PluginTool:
        """Raise `ConfigError`: only the user's configuration may solve a conflict of names."""
        raise ConfigError(
            f"the tool {self.own_name} of the plugin {self.server} is left out: there is another tool called {self.name}. "
            f"Next: engine config set plugins.override '[\"{self.name}\"]'"
        )


def plugin_tool(plugin: str, own: Tool, override: Collection[str] = ()) -> PluginTool:
    """Return a tool that runs inside of the engine. Raises `ConfigError`, which says why it can't be offered."""

    async def body(arguments: JsonArguments, ctx: ToolContext) -> str | ToolOutput:
        try:
            return await own.body(cast("PluginArguments", arguments).parsed, ctx)
        except SystemExit as error:
            # The code of a plugin does not end the program; that of a host may.
            raise ToolError(f"The tool failed: {exit_text(error)}.") from error

    made = foreign_tool(
        body,
        server=plugin,
        name=own.name,
        schema=own.schema.schema,
        description=own.description,
        kind=KIND,
        claims_read_only=own.read_only,
        timeout=TIMEOUT if own.timeout is None else own.timeout,
        grace=min(own.grace, MOST_GRACE),
    )

    def safe(arguments: object) -> bool:
        return own.safe(cast("PluginArguments", arguments).parsed)

    made = attrs.evolve(
        made,
        safe=safe,
        direction=own.direction,
        protected=own.protected,
    )
    return _of(cast("ForeignTool", made), override, own)


def isolated_tools(plugin: str, tools: Iterable[Tool], override: Collection[str] = ()) -> tuple[PluginTool, ...]:
    """Return the tools of a plugin that runs in a process of its own, as an MCP server."""
    return tuple(_of(tool, override, None) for tool in tools if isinstance(tool, ForeignTool) and tool.server == plugin)


def _of(tool: ForeignTool, override: Collection[str], own: Tool | None) -> PluginTool:
    fields: dict[str, object] = attrs.asdict(tool, recurse=False)
    name = tool.own_name if tool.own_name in override else tool.name
    right = foreign_right(KIND, tool.server, tool.own_name)

    async def need(arguments: object, ctx: ToolContext) -> Need:
        need = tool.need(arguments, ctx)
        return attrs.evolve(need if isinstance(need, Need) else await need, permission=right)

    overrides = name in override
    fields |= {"name": name, "need": need, "permission": right, "own": own, "overrides": overrides}
    # One that takes the place of another tool is listed as that one was.
    fields["is_eager"] = tool.is_eager or overrides
    return PluginTool(**fields)  # type: ignore[arg-type]  # the fields of a tool of its base class
