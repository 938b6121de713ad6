"""`tool_search` and `tool_use`: how a model finds and calls foreign tools that its requests don't list.

Both are fixed: a request begins with the same bytes whatever servers come, change or go. `tool_use` has no body: the registry
takes its calls apart before anything else sees them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Final, cast

import attrs

from engine.core.errors import InvalidArguments, ToolError
from engine.core.llm_types import TOOL_SEARCH, TOOL_USE, ToolSchema
from engine.core.schema import doc
from engine.tools.call_values import Need, ToolOutput
from engine.tools.tool import Tool, tool
from engine.tools.tool_catalogue import search_tools
from engine.tools.tool_context import ToolContext
from engine.tools.tool_text import counted, description, metadata

if TYPE_CHECKING:
    from engine.tools.foreign import ForeignTool

DEFAULT_RESULTS: Final = 5
MAX_RESULTS: Final = 20
# So many are looked at if the rules deny the ones that fit best.
_RANKED: Final = 200
_USE_SCHEMA: Final = json.dumps(
    {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "the tool's name, as tool_search shows it"},
            "arguments": {
                "type": "object",
                "description": "its arguments, by its schema",
                "additionalProperties": True,
            },
        },
        "required": ["name", "arguments"],
    },
    separators=(",", ":"),
)


def _is_count(_: object, field: attrs.Attribute[int], value: int) -> None:
    if not 1 <= value <= MAX_RESULTS:
        raise ValueError(f"{field.name!r} must be from 1 to {MAX_RESULTS}")


@attrs.frozen
class Search:
    """Arguments of `tool_search`."""

    query: Annotated[str, doc("words about what the tool should do, or exact names; empty: list the servers")] = ""
    limit: Annotated[int, doc("how many tools to show")] = attrs.field(default=DEFAULT_RESULTS, validator=_is_count)


@attrs.frozen
class Use:
    """Arguments of `tool_use`; only their names count."""

    name: str


@attrs.frozen(kw_only=True, eq=False, repr=False)
class UseTool(Tool):
    """`tool_use`, whose arguments are those of another tool."""

    @property
    def schema(self) -> ToolSchema:
        """The tool as the model sees it."""
        return ToolSchema(name=self.name, description=self.description, schema=_USE_SCHEMA)


def search_tool(
    catalogue: Callable[[], Sequence[ForeignTool]],
    hides: Callable[[ForeignTool], bool],
    reveal: Callable[[Sequence[ForeignTool]], None],
) -> tuple[Tool, Tool]:
    """Return `tool_search` and `tool_use`.

    Args:
        catalogue: returns the foreign tools of the turn.
        hides: returns whether the rules deny a tool altogether, so that it is not shown.
        reveal: notes that the model has seen tools.
    """

    @tool(
        name=TOOL_SEARCH,
        description=description(TOOL_SEARCH, most=MAX_RESULTS),
        read_only=True,
        protected=True,  # a result that was cleared would hide the tools again
        need=lambda _: Need(permission=TOOL_SEARCH, is_own=True),
    )
    async def search(args: Search, _: ToolContext) -> ToolOutput:
        tools = catalogue()
        if not args.query.strip():
            return ToolOutput(text=list_servers(tools, hides), metadata=metadata(counted(len(tools), "tool")))
        # Ranked first: what the rules say of each tool takes longer than the search.
        ranked = search_tools(tools, args.query, _RANKED)
        matches = list(islice((match for match in ranked if not hides(match)), args.limit))
        if not matches:
            text = f"No tool fits {args.query[:200]!r}. {list_servers(tools, hides)}"
            return ToolOutput(text=text, metadata=metadata("no tool"))
        reveal(matches)
        return ToolOutput(
            text="\n\n".join([*map(describe_tool, matches), f"Call them with {TOOL_USE}."]),
            metadata=metadata(", ".join(match.name for match in matches)),
            tools=tuple(match.name for match in matches),
        )

    @tool(name=TOOL_USE, description=description(TOOL_USE), need=lambda _: Need(permission=TOOL_USE, is_own=True))
    async def use(args: Use, _: ToolContext) -> str:
        # The registry has taken the call apart.
        raise ToolError(f"There is no tool {args.name[:80]!r}.")

    fields = {field.name: getattr(use, field.name) for field in attrs.fields(Tool)}
    return search, UseTool(**fields)


def describe_tool(one: ForeignTool) -> str:
    """Return a tool in words for the model."""
    return f"{one.name} ({one.server} says): {one.description}\nIts arguments: {one.input.text}"


def list_servers(tools: Sequence[ForeignTool], hides: Callable[[ForeignTool], bool]) -> str:
    """Return which servers have how many tools, without those whose tools the rules deny altogether."""
    by_server: dict[str, list[ForeignTool]] = {}
    for one in tools:
        by_server.setdefault(one.server, []).append(one)
    counts = {name: len(own) for name, own in by_server.items() if not all(map(hides, own))}
    if not counts:
        return "There are no such tools now."
    return "There are tools of: " + ", ".join(f"{name} ({count})" for name, count in sorted(counts.items())) + "."


def unwrap(arguments: str) -> tuple[str, str]:
    """Return the name and the arguments, as JSON text, that a call of `tool_use` holds. Raises `InvalidArguments`."""
    try:
        value = cast("object", json.loads(arguments or "{}"))
    except (ValueError, RecursionError) as error:
        raise InvalidArguments(f"The arguments of {TOOL_USE} are not valid JSON: {error}") from error
    members = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    name, inner = members.get("name"), members.get("arguments")
    if not isinstance(name, str) or not name:
        raise InvalidArguments(f"{TOOL_USE} takes the name of a tool and its arguments: {_USE_SCHEMA}")
    if name == TOOL_USE:
        raise InvalidArguments(f"{TOOL_USE} can't call itself.")
    if inner is None:
        # Some models put the arguments next to the name.
        inner = {word: each for word, each in members.items() if word not in {"name", "arguments"}}
    return name, inner if isinstance(inner, str) else json.dumps(inner, ensure_ascii=False)
