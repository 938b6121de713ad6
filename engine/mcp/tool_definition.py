"""Tools as servers define them: values, checked one by one, with the hash that an approval is for."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Final, cast

import attrs

from engine.core.value_base import Value
from engine.mcp.repair_json import CUT_KEY

# Of the name that a server gives a tool.
_MOST_NAME_CHARS: Final = 256
_MOST_DEPTH: Final = 100


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ToolDefinition(Value):
    """A tool of a server's, in the server's own words.

    Attributes:
        name: the server's name for it.
        title: its name for people.
        description: what it says it does.
        input_schema: the schema of its arguments, as JSON text.
        output_schema: the schema of its structured results, as JSON text; empty: none.
        annotations: what it says about itself, as JSON text; empty: nothing. Nothing is allowed because of it.
        skill: the entry of the skill whose text it returns, as JSON text; empty: it is a tool of the server's.
    """

    name: str
    title: str = ""
    description: str = ""
    input_schema: str = "{}"
    output_schema: str = ""
    annotations: str = ""
    skill: str = ""

    @property
    def digest(self) -> str:
        """SHA-256 over the canonical JSON of all that it says: any change of it needs a new approval."""
        fields = attrs.asdict(self)
        if not self.skill:
            del fields["skill"]
        return hashlib.sha256(json.dumps(fields, sort_keys=True, ensure_ascii=True).encode()).hexdigest()


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ToolList(Value):
    """The tools of a server.

    Attributes:
        tools: those that are usable.
        refused: the others, by name, with the reason.
        instructions: how the server wants to be used, in its own words.
    """

    tools: tuple[ToolDefinition, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()
    instructions: str = ""


def read_definitions(listed: Sequence[object]) -> tuple[list[ToolDefinition], list[tuple[str, str]]]:
    """Return the tools of a list, and those that are refused, with reasons. It blocks for some milliseconds per 100."""
    definitions: dict[str, ToolDefinition] = {}
    refused: list[tuple[str, str]] = []
    for index, item in enumerate(listed):
        tool = cast("dict[str, object]", item) if isinstance(item, dict) else dict[str, object]()
        name = tool.get("name")
        shown = name if isinstance(name, str) and name else f"number {index + 1}"
        try:
            definition = _definition(tool)
        except (ValueError, RecursionError) as error:
            refused.append((shown[:_MOST_NAME_CHARS], str(error)))
            continue
        if definition.name in definitions:
            refused.append((shown, "the server has two tools of this name; the first one counts"))
        else:
            definitions[definition.name] = definition
    return list(definitions.values()), refused


def _definition(tool: Mapping[str, object]) -> ToolDefinition:
    """Return a tool's definition. Raises `ValueError` with the reason if it is none."""
    name = tool.get("name")
    if not isinstance(name, str) or not name:
        raise ValueError("it has no name")
    if len(name) > _MOST_NAME_CHARS:
        raise ValueError(f"its name has {len(name):,} characters")
    return ToolDefinition(
        name=name,
        title=_text(tool, "title"),
        description=_text(tool, "description"),
        input_schema=_object(tool, "inputSchema") or "{}",
        output_schema=_object(tool, "outputSchema"),
        annotations=_object(tool, "annotations"),
    )


def _text(tool: Mapping[str, object], field: str) -> str:
    value = tool.get(field)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"its {field} is no text")
    return value or ""


def _object(tool: Mapping[str, object], field: str) -> str:
    value = tool.get(field)
    if value is None:
        return ""
    if not isinstance(value, dict):
        raise ValueError(f"its {field} is no object")  # noqa: TRY004  # one kind of error for all of a stranger's mistakes
    table = cast("dict[str, object]", value)
    if CUT_KEY in table:
        raise ValueError(f"its {field} is too large or nested too deeply ({table[CUT_KEY]:,} bytes)")
    return canonical_json(table)


def canonical_json(value: object) -> str:
    """Return *value* as JSON text, the same for equal values. Raises `ValueError` for what JSON has no text for."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
