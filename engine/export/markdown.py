"""A conversation as Markdown: for reading, for pasting, and for importing it again. Pure.

    ---
    format: engine-conversation/1
    title: Fix the parser
    folder: /home/dev/project
    model: anthropic/claude-sonnet-4-5
    ---

    # Fix the parser

    ## User

    Why does it fail?

    ## Assistant

    I'll look.

    ## Calls

    …the arguments and results of calls: for reading only

A line that is only `## User`, `## Assistant`, `## Calls` or `## Engine` begins a section. Such a line inside a text is
escaped with a backslash. An import takes the texts of the user and the assistant; it ignores what comes before the first
section, calls, and the engine's own messages. So any Markdown of that form can be imported, also one written by hand.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Literal, TypeAlias, cast, get_args

import attrs

from engine.core.errors import JournalCorrupt
from engine.core.ids import CallId, MessageId, PartId
from engine.core.messages import AssistantMessage, CallPart, CallResult, Message, ResultsMessage, TextPart, UserMessage
from engine.export.history import History, HistoryEntry
from engine.export.iso_time import iso_time
from engine.export.sanitize import escape_unsafe_chars, one_line

FORMAT: Final = "engine-conversation/1"

_TITLE_CHARS: Final = 200
_ANSWER_CHARS: Final = 500
Section: TypeAlias = Literal["User", "Assistant", "Calls", "Engine"]
_HEADING: Final = re.compile(r"(\\*)## (User|Assistant|Calls|Engine)[ \t]*\Z")
_ANY_HEADING: Final = re.compile(r"^(\\*## (?:User|Assistant|Calls|Engine)[ \t]*)$", re.MULTILINE)
_FIELD: Final = re.compile(r"([a-z]+): (.*)\Z")


@attrs.frozen(kw_only=True)
class Conversation:
    """A conversation that was read from Markdown.

    Attributes:
        title: its title; empty if unknown.
        model: the model that has answered.
        messages: those of the user and the assistant, in order.
    """

    title: str = ""
    model: str = ""
    messages: tuple[Message, ...] = ()


# -- writing ---------------------------------------------------------------------------------


def render_markdown(story: History, title: str) -> str:
    """Return the conversation as Markdown.

    Args:
        story: the history of the session.
        title: the title of the session.
    """
    state = story.state
    heading = one_line(title, _TITLE_CHARS) or "Untitled"
    fields = {
        "format": FORMAT,
        "title": heading,
        "session": state.session_id,
        "folder": state.context.cwd,
        "model": state.model,
        "created": iso_time(story.created),
    }
    front = "".join(f"{name}: {one_line(value, 1_000)}\n" for name, value in fields.items() if value)
    results = {
        result.call_id: result
        for entry in story.entries
        if isinstance(entry.message, ResultsMessage)
        for result in entry.message.results
    }
    sections = [
        f"## {name}\n\n{body}\n"
        for entry in story.entries
        for name, body in _sections(entry, results, story.answers)
        if body.strip()
    ]
    return "\n".join([f"---\n{front}---\n", f"# {heading}\n", *sections])


def _sections(
    entry: HistoryEntry, results: dict[CallId, CallResult], answers: Mapping[CallId, tuple[str, ...]]
) -> Iterator[tuple[Section, str]]:
    message = entry.message
    if isinstance(message, UserMessage):
        is_users = message.origin in {"user", "steer", "queue"}
        media = sum(not isinstance(part, TextPart) for part in message.parts)
        note = f"\n\n*({media} attached, not shown)*" if media and not is_users else ""
        yield ("User" if is_users else "Engine", _body(message.text) + note)
        if media and is_users:
            yield "Engine", f"*({media} attached to this message, not shown)*"
    elif isinstance(message, AssistantMessage):
        yield "Assistant", _body(message.text)
        yield (
            "Calls",
            "\n\n".join(
                _call(call, results.get(call.call_id), answers.get(call.call_id, ())) for call in message.calls
            ),
        )


def _call(call: CallPart, result: CallResult | None, answers: tuple[str, ...]) -> str:
    text = f"**{one_line(call.tool, 100)}**\n\n{_fenced(call.arguments, 'json')}"
    text += "".join(f"\n\n{one_line(answer, _ANSWER_CHARS)}" for answer in answers)
    if result is None:
        return f"{text}\n\n*(no result)*"
    settlement = result.settlement
    state = "failed" if settlement.failed else settlement.status
    return f"{text}\n\n{state}:\n\n{_fenced(settlement.text, 'text')}"


def _fenced(text: str, language: str) -> str:
    body = _body(text)
    # A fence must be longer than any run of its own sign in the text; tildes are rarer in code than backticks.
    longest = max((len(run) for run in re.findall(r"~+", body)), default=0)
    fence = "~" * max(3, longest + 1)
    return f"{fence}{language}\n{body}\n{fence}"


def _body(text: str) -> str:
    """Escape lines that would look like the heading of a section."""
    return _ANY_HEADING.sub(r"\\\1", escape_unsafe_chars(text).strip("\n"))


# -- reading ---------------------------------------------------------------------------------


def parse_markdown(text: str, new_id: Callable[[str], str]) -> Conversation:
    """Return the conversation in *text*. Raises `JournalCorrupt` if there is none.

    Args:
        text: the Markdown.
        new_id: makes an id with a prefix.
    """
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    fields, start = _front_matter(lines)
    format_name = fields.get("format", FORMAT)
    if format_name != FORMAT:
        raise JournalCorrupt(f"the Markdown says that its format is {format_name[:80]!r}; this engine knows {FORMAT}")
    model = fields.get("model", "")
    messages = tuple(_message(name, body, model, new_id) for name, body in _merged(_read(lines[start:])))
    if not messages:
        raise JournalCorrupt("there is no conversation in this Markdown: nothing stands below a line `## User`")
    return Conversation(title=fields.get("title", "") or _first_heading(lines[start:]), model=model, messages=messages)


def _front_matter(lines: Sequence[str]) -> tuple[dict[str, str], int]:
    """Return the fields of the front matter, and the line at which the text begins."""
    if lines[0].rstrip() != "---":
        return {}, 0
    fields: dict[str, str] = {}
    for number, line in enumerate(lines[1:], 1):
        if line.rstrip() == "---":
            return fields, number + 1
        match = _FIELD.match(line)
        if match is not None:
            fields[match[1]] = match[2].strip()
    return {}, 0


def _first_heading(lines: Sequence[str]) -> str:
    """Return the heading above the first section; empty if there is none."""
    for line in lines:
        if _HEADING.match(line):
            return ""
        if line.startswith("# "):
            return one_line(line[2:], _TITLE_CHARS)
    return ""


def _read(lines: Sequence[str]) -> Iterator[tuple[Section, str]]:
    name: Section | None = None
    body: list[str] = []
    for line in lines:
        match = _HEADING.match(line)
        if match is None:
            body.append(line)
        elif match[1]:
            # One backslash less: a text with such a line, exported again and again, stays the same.
            body.append(line[1:])
        else:
            if name is not None:
                yield name, "\n".join(body)
            name, body = _section(match[2]), []
    if name is not None:
        yield name, "\n".join(body)


def _section(name: str) -> Section:
    assert name in get_args(Section)
    return cast("Section", name)


def _merged(sections: Iterator[tuple[Section, str]]) -> list[tuple[Section, str]]:
    """Merge consecutive sections of the assistant: providers accept no two answers in a row."""
    merged: list[tuple[Section, str]] = []
    for name, body in sections:
        text = body.strip("\n")
        # Providers want the user's message first.
        is_spoken = name == "User" or (name == "Assistant" and bool(merged))
        if not is_spoken or not text.strip():
            continue
        if name == "Assistant" and merged and merged[-1][0] == "Assistant":
            merged[-1] = (name, f"{merged[-1][1]}\n\n{text}")
        else:
            merged.append((name, text))
    return merged


def _message(name: Section, text: str, model: str, new_id: Callable[[str], str]) -> Message:
    message_id, part = MessageId(new_id("msg")), TextPart(id=PartId(new_id("part")), text=text)
    if name == "User":
        return UserMessage(id=message_id, parts=(part,))
    return AssistantMessage(id=message_id, parts=(part,), model=model, finish="stop")
