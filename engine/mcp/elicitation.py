"""What a server asks the user: each field as a question of the session, checked before it is sent. A model fills in nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import urlsplit

from engine.core.events import Choice
from engine.mcp.server_text import bounded, one_line

if TYPE_CHECKING:
    from mcp_types import ElicitRequestParams, ElicitResult

    from engine.tools.tool_context import ToolContext

# Fields of one form, and choices of one field.
_MOST_FIELDS: Final = 20
_MOST_CHOICES: Final = 50
_ATTEMPTS: Final = 3
_SKIP: Final = "(leave it empty)"
_REFUSE: Final = "(answer nothing)"

_TYPES: Final[Mapping[str, tuple[type, ...]]] = {"boolean": (bool,), "integer": (int,), "number": (int, float)}

Json = Mapping[str, object]
Answer = str | int | float | bool | list[str] | None


class _Declined(Exception):
    """The user does not answer."""


async def ask_user(server: str, ctx: ToolContext, params: ElicitRequestParams) -> ElicitResult:
    """Return the user's answer to what a server asks; without a user, decline at once. A checkpoint.

    If cancelled, the question is withdrawn.
    """
    from mcp_types import ElicitRequestFormParams, ElicitResult

    try:
        if isinstance(params, ElicitRequestFormParams):
            content = await _ask_form(server, ctx, params.message, params.requested_schema)
            return ElicitResult(action="accept", content=content)
        await _ask_link(server, ctx, params.message, params.url)
        return ElicitResult(action="accept")
    except _Declined:
        return ElicitResult(action="decline")


async def _ask_form(server: str, ctx: ToolContext, message: str, schema: Json) -> dict[str, Answer]:
    fields = _table(schema.get("properties"))
    required = {str(name) for name in _list(schema.get("required"))}
    if len(fields) > _MOST_FIELDS:
        raise _Declined
    head = f"The MCP server {server} asks:\n{bounded(message)}"
    content: dict[str, Answer] = {}
    for name, value in fields.items():
        answer = await _ask_field(ctx, head, name, _table(value), is_required=name in required)
        if answer is not None:
            content[name] = answer
    if not fields:
        await _confirm(ctx, head, "Yes")
    return content


async def _ask_field(ctx: ToolContext, head: str, name: str, field: Json, *, is_required: bool) -> Answer:
    labels = _labels(field)
    default = _default(field)
    skip = _SKIP if default is None else f"(use {one_line(_shown(default), 100)})"
    can_skip = default is not None or not is_required
    choices = [Choice(label=label) for label in labels[:_MOST_CHOICES]]
    choices += [Choice(label=skip), Choice(label=_REFUSE)] if can_skip else [Choice(label=_REFUSE)]
    question = f"{head}\n\n{_describe(name, field)}"
    problem = ""
    for _ in range(_ATTEMPTS):
        outcome, answers = await ctx.ask_user(question + problem, choices, several=field.get("type") == "array")
        if outcome != "answered" or not answers or _REFUSE in answers:
            break
        if skip in answers and can_skip:
            return default
        try:
            return _parse(field, labels, answers)
        except ValueError as error:
            problem = f"\n\n(That does not fit: {error}.)"
    raise _Declined


def _default(field: Json) -> Answer:
    """Return what the server proposes, which counts where the user leaves the field as it is; None: nothing of its type."""
    value, labels, kind = field.get("default"), _labels(field), str(field.get("type"))
    if kind == "array":
        listed = [str(one) for one in _list(value)]
        return listed if listed and set(listed) <= set(labels) else None
    fits = isinstance(value, _TYPES.get(kind, (str,))) and isinstance(value, bool) == (kind == "boolean")
    is_offered = kind in _TYPES or not labels or value in labels
    return cast("Answer", value) if fits and is_offered else None


def _shown(value: Answer) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(value) if isinstance(value, list) else str(value)


def _describe(name: str, field: Json) -> str:
    title = one_line(str(field.get("title") or name), 100)
    words = bounded(str(field.get("description") or ""), 500)
    return f"{title}: {words}" if words else f"{title}?"


async def _ask_link(server: str, ctx: ToolContext, message: str, url: str) -> None:
    """Show a page that the server wants to be visited. The engine opens no browser; the user does, or not."""
    parts = urlsplit(url)
    if parts.scheme != "https" and parts.hostname not in {"localhost", "127.0.0.1", "::1"}:
        raise _Declined
    host = one_line(parts.hostname or "?", 253)
    await _confirm(
        ctx,
        f"The MCP server {server} asks you to visit a page:\n{bounded(message)}\n\nHost: {host}\nPage: {bounded(url, 2_000)}\n\n"
        "Open it in your browser only if you know this host, and answer when you are done there.",
        "I have visited it",
    )


async def _confirm(ctx: ToolContext, question: str, label: str) -> None:
    outcome, answers = await ctx.ask_user(question, [Choice(label=label), Choice(label=_REFUSE)])
    if outcome != "answered" or answers != (label,):
        raise _Declined


def _labels(field: Json) -> list[str]:
    if field.get("type") == "boolean":
        return ["yes", "no"]
    items = _table(field.get("items")) if field.get("type") == "array" else field
    listed = items.get("enum") or [_table(one).get("const") for one in _list(items.get("oneOf") or items.get("anyOf"))]
    return [one_line(str(value)) for value in _list(listed)]


def _parse(field: Json, labels: list[str], answers: tuple[str, ...]) -> Answer:
    """Return the answer in the field's type. Raises `ValueError` if it does not fit."""
    kind = field.get("type")
    if labels and not set(answers) <= set(labels):
        raise ValueError("choose one of the answers")
    if kind == "array":
        return list(answers)
    (text, *_) = answers
    match kind:
        case "boolean":
            return text == "yes"
        case "integer" | "number":
            number: float = int(text) if kind == "integer" else float(text)
            _check_range(field, number, "minimum", "maximum")
            return number
        case _:
            _check_range(field, len(text), "minLength", "maxLength")
            pattern = {"email": r"[^@\s]+@[^@\s]+", "uri": r"[a-z][a-z0-9+.-]*:\S+", "date": r"\d{4}-\d\d-\d\d"}
            expected = pattern.get(str(field.get("format")))
            if expected is not None and not re.fullmatch(expected, text, re.IGNORECASE):
                raise ValueError(f"it is no {field.get('format')}")
            return text


def _check_range(field: Json, value: float, least: str, most: str) -> None:
    low, high = field.get(least), field.get(most)
    if isinstance(low, int | float) and value < low:
        raise ValueError(f"{least} is {low}")
    if isinstance(high, int | float) and value > high:
        raise ValueError(f"{most} is {high}")


def _table(value: object) -> Json:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def _list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []
