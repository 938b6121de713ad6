"""Tools that strangers describe, such as an MCP server: with a JSON Schema in place of a class, and words not to be trusted."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import TYPE_CHECKING, Final, cast

import attrs

from engine.core.errors import ConfigError
from engine.core.llm_types import ToolSchema
from engine.core.schema import Json
from engine.core.value_base import Value
from engine.json_schema.clean_text import clean_text
from engine.json_schema.foreign_schema import ForeignSchema, parse_foreign_schema
from engine.providers.wire.schema_dialects import adapt
from engine.providers.wire.untrusted_json import Json as WireJson
from engine.tools.call_values import GRACE, Need, ToolOutput
from engine.tools.foreign_names import foreign_name, foreign_right
from engine.tools.tool import Body, Tool
from engine.tools.tool_catalogue import WordCounts, argument_texts, count_words
from engine.tools.tool_context import ToolContext

if TYPE_CHECKING:
    from engine.core.arguments import Parsed

_SHOWN_ARGUMENTS_CHARS: Final = 2_000
# What hosts refuse at the root of a tool's schema.
_ROOT_CHOICES: Final = frozenset({"oneOf", "anyOf", "allOf", "not", "if", "$ref", "enum", "const"})
ForeignBody = Callable[["JsonArguments", ToolContext], Awaitable["str | ToolOutput"]]


@attrs.frozen(eq=False, repr=False)
class JsonArguments(Value):
    """The arguments of a foreign tool, valid by its schema.

    Attributes:
        value: the JSON object.
        text: the same as text.
    """

    value: dict[str, Json]
    text: str


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ForeignTool(Tool):
    """A tool that a stranger describes; made by `foreign_tool`.

    Attributes:
        server: who offers it.
        own_name: what the server calls it.
        input: the schema of its arguments, by which they are checked.
        shown: the same for models, as JSON text: an object at the root, not a choice of several, which hosts refuse.
        is_eager: it is offered in full also where most foreign tools have to be searched for.
        version: changes with everything that the model or the user was told about it.
        words: what it can be found by.
        overrides: it takes the place of the host's tool of its name, if there is one.
    """

    server: str
    own_name: str
    input: ForeignSchema
    shown: str
    is_eager: bool
    version: str
    words: WordCounts
    overrides: bool = False

    @property
    def schema(self) -> ToolSchema:
        """The tool as the model sees it."""
        return ToolSchema(name=self.name, description=self.description, schema=self.shown, server=self.server)

    def parse(self, arguments: str) -> Parsed[attrs.AttrsInstance]:
        """Return the arguments of a call. Raises `InvalidArguments`."""
        from engine.core.arguments import Parsed

        value, text, mended = self.input.parse(arguments)
        return Parsed(cast("attrs.AttrsInstance", JsonArguments(value, text)), text, mended)

    def renamed(self) -> ForeignTool:
        """Return the tool with the name that it has where the host has a tool of that name.

        Raises `ConfigError` if it is to be left out then.
        """
        return attrs.evolve(self, name=foreign_name(self.server, self.own_name, is_taken=True))


def foreign_tool(
    body: ForeignBody,
    *,
    server: str,
    name: str,
    schema: str | ForeignSchema,
    description: str = "",
    kind: str = "mcp",
    claims_read_only: bool = False,
    is_safe: bool = False,
    is_eager: bool = False,
    timeout: float | None = None,
    grace: float = GRACE,
    version: str = "",
) -> Tool:
    """Return a tool that a stranger describes. Raises `ConfigError`, which says why it can't be offered.

    It takes some 0.1 ms, and it may be called in a thread: for hundreds of tools, do.

    Each call asks the user, unless a rule about its right allows it: `allow mcp:SERVER/TOOL *`.

    Args:
        body: the async function of its `JsonArguments` and the context.
        server: who offers it, as the user calls it.
        name: what the server calls it; models see `{server}_{name}`.
        schema: of the arguments: JSON Schema as text, or one that was parsed before, in a thread if there are many.
        description: the server's words. Invisible characters are removed, and what is longer than 2,000 characters.
        kind: the first part of its right.
        claims_read_only: the server says that it changes nothing. Nothing relies on it: the question mentions it.
        is_safe: a call may run in parallel with other safe calls.
        is_eager: it is offered in full also where there are many foreign tools.
        timeout: seconds until a call is aborted; None: no limit.
        grace: seconds for cleaning up after a cancel.
        version: what else it must be asked for again if it changes, such as the schema of its output.
    """
    parsed = schema if isinstance(schema, ForeignSchema) else parse_foreign_schema(schema)
    words = clean_text(description) or f"A tool of {clean_text(server)}, which does not describe it."
    right = foreign_right(kind, server, name)
    if not server or not name:
        raise ConfigError("a foreign tool needs the name of its server and its own")
    claim = "; it says of itself that it changes nothing" if claims_read_only else ""

    def need(arguments: object, _: ToolContext) -> Need:
        detail = cast("JsonArguments", arguments).text[:_SHOWN_ARGUMENTS_CHARS]
        return Need(permission=right, detail=f"{clean_text(server)}: {clean_text(name)} {detail}{claim}")

    shown = [server, name, words, parsed.text, claims_read_only, version]
    return ForeignTool(
        name=foreign_name(server, name),
        description=words,
        arguments=JsonArguments,
        body=cast("Body", body),
        # Never what the server claims: a read-only tool may run unasked, and before its record is durable.
        read_only=False,
        safe=lambda _: is_safe,
        timeout=timeout,
        grace=grace,
        chain=False,
        need=need,
        permission=right,
        server=server,
        own_name=name,
        input=parsed,
        shown=_shown_schema(parsed),
        is_eager=is_eager,
        version=sha256(json.dumps(shown).encode()).hexdigest(),
        words=count_words([server, name], [words, *argument_texts(parsed.root)]),
    )


def _shown_schema(parsed: ForeignSchema) -> str:
    if _ROOT_CHOICES.isdisjoint(parsed.root):
        return parsed.text
    # Of a choice at the root, all members in one object: it allows more, and the arguments are checked by the original.
    return json.dumps(adapt(cast("WireJson", parsed.root), "openai"), ensure_ascii=False, separators=(",", ":"))
