"""A session as one self-contained HTML file, without scripts and without links to other files. Pure.

All content is escaped and shown as text. In addition, the page's content security policy
forbids it to run or load anything.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

import attrs

from engine.core.ids import CallId, SessionId
from engine.core.messages import (
    AssistantMessage,
    CallPart,
    CallResult,
    FilePart,
    ImagePart,
    MediaPart,
    ProviderPart,
    ReasoningPart,
    ResultsMessage,
    TextPart,
    UserMessage,
)
from engine.export.format_cost import format_cost
from engine.export.history import History, HistoryEntry
from engine.export.html_style import STYLE, policy
from engine.export.html_text import escape, render_text
from engine.export.sanitize import one_line

# Types that a browser shows as a picture and nothing else. An SVG is a document, which may hold scripts.
IMAGES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})

_BASE64: Final = re.compile(r"[A-Za-z0-9+/]+={0,2}\Z")
_TITLE_CHARS: Final = 200
_BRIEF_CHARS: Final = 120
# Levels of sub-agents: a damaged store may have a cycle, and browsers stop at some depth of their own.
_DEEPEST: Final = 20
_HEADINGS: Final[Mapping[str, str]] = {
    "user": "User",
    "steer": "User, mid-turn",
    "queue": "User",
    "engine": "Engine",
    "summary": "Summary of the conversation before",
    "continue": "Engine",
}


@attrs.frozen(kw_only=True)
class ContextUsage:
    """What fills the window of a session's model.

    Attributes:
        tokens: the approximate size of the next request.
        usable: the size that it may have.
        kinds: the tokens of each kind of content.
    """

    tokens: int
    usable: int
    kinds: Sequence[tuple[str, int]]


def render_html(stories: Sequence[History], title: str, *, engine: str, window: ContextUsage | None = None) -> str:
    """Return the page of a session.

    Args:
        stories: its history, then those of its sub-agents.
        title: its title.
        engine: the version of the engine.
        window: what fills the window of its model.
    """
    root = stories[0]
    below: dict[tuple[SessionId, CallId | None], list[History]] = {}
    for story in stories[1:]:
        if story.state.parent_id is not None:
            below.setdefault((story.state.parent_id, story.parent_call_id), []).append(story)
    body = "\n".join(_Writer(below).session(root))
    heading = escape(one_line(title, _TITLE_CHARS) or "Untitled session")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy()}">\n'
        '<meta name="referrer" content="no-referrer">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{heading}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f"<header><h1>{heading}</h1>\n<p>{escape(_facts(stories))}</p>{_window(window)}</header>\n"
        f"<main>\n{body}\n</main>\n<footer><p>Written by engine {escape(engine)}.</p></footer>\n</body>\n</html>\n"
    )


def _facts(stories: Sequence[History]) -> str:
    """Return when the session began, its model, and the tokens and cost of it and its sub-agents."""
    spent, tokens_used = sum(story.state.cost for story in stories), sum(story.state.usage.total for story in stories)
    tokens = f"{tokens_used:,} tokens" if tokens_used else ""
    facts = (_time(stories[0].created), stories[0].state.model, tokens, format_cost(spent))
    return " · ".join(fact for fact in facts if fact)


def _window(filling: ContextUsage | None) -> str:
    """Return the table of what fills the model's window, in a closed `details` element."""
    if filling is None or not filling.kinds:
        return ""
    rows = "\n".join(
        f'<tr><th scope="row">{escape(one_line(kind, 100))}</th><td>{tokens:,}</td>'
        f'<td><meter min="0" max="{filling.tokens}" value="{tokens}"></meter></td></tr>'
        for kind, tokens in filling.kinds
    )
    return (
        f"\n<details><summary>The next request takes about {filling.tokens:,} of {filling.usable:,} tokens</summary>\n"
        f"<table>\n{rows}\n</table>\n</details>\n"
    )


def _time(moment: float) -> str:
    try:
        return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (ValueError, OverflowError, OSError):
        return ""


@attrs.define(eq=False)
class _Writer:
    """Writes the sessions, each inside the call that has created it."""

    _below: Mapping[tuple[SessionId, CallId | None], Sequence[History]]
    _count: int = attrs.field(default=0, init=False)

    def session(self, story: History, depth: int = 0) -> Iterator[str]:
        """Yield the elements of one session."""
        # Results are messages of their own, and shown with their calls.
        results = {
            result.call_id: result
            for entry in story.entries
            if isinstance(entry.message, ResultsMessage)
            for result in entry.message.results
        }
        for entry in story.entries:
            if not isinstance(entry.message, ResultsMessage):
                yield from self._entry(story, entry, results, depth)
        # Those that no call has created: in an imported session the call may be gone.
        yield from self._children(story, None, depth)

    def _entry(
        self, story: History, entry: HistoryEntry, results: Mapping[CallId, CallResult], depth: int
    ) -> Iterator[str]:
        message = entry.message
        if isinstance(message, UserMessage):
            parts = [
                f"<div>{render_text(message.text)}</div>",
                *(_media(p) for p in message.parts if not isinstance(p, TextPart)),
            ]
            kind = "user" if message.origin in {"user", "steer", "queue"} else "engine"
            yield self._article(kind, _HEADINGS[message.origin], entry, parts)
        elif isinstance(message, AssistantMessage):
            parts = [part for item in message.parts for part in self._part(story, item, results, depth)]
            yield self._article("assistant", message.model or "Assistant", entry, parts)

    def _article(self, kind: str, heading: str, entry: HistoryEntry, parts: Sequence[str]) -> str:
        self._count += 1
        at = f"m{self._count}"
        when = escape(_time(entry.time))
        return (
            f'<article class="{kind}" id="{at}"><h2><a href="#{at}" title="{when}">{escape(heading)}</a></h2>\n'
            + "\n".join(parts)
            + "\n</article>"
        )

    def _part(self, story: History, part: object, results: Mapping[CallId, CallResult], depth: int) -> Iterator[str]:
        match part:
            case TextPart():
                yield render_text(part.text)
                sources = [one_line(c.title or c.url, 200) for c in part.citations if c.title or c.url]
                if sources:
                    yield f'<p class="when">Sources: {escape("; ".join(sources))}</p>'
            case ReasoningPart() if part.text.strip():
                yield f"<details><summary>Thinking</summary>{render_text(part.text)}</details>"
            case CallPart():
                yield self._call(story, part, results.get(part.call_id), depth)
            case ProviderPart():
                yield f'<p class="when">{escape(one_line(part.kind, 100))}: done by the model\'s host</p>'
            case _:
                return

    def _call(self, story: History, call: CallPart, result: CallResult | None, depth: int) -> str:
        state, mark = _state(result)
        brief = escape(one_line(_brief(call.arguments), _BRIEF_CHARS))
        inside = [f"<pre>{escape(_readable(call.arguments))}</pre>"]
        if result is not None:
            inside.append(f"<pre>{escape(result.settlement.text)}</pre>")
            inside += [*map(_media, result.settlement.images), *map(_media, result.settlement.files)]
        inside += self._children(story, call.call_id, depth)
        return (
            f'<details><summary><span class="{mark}">{escape(state)}</span> <b>{escape(one_line(call.tool, 100))}</b>'
            f" {brief}</summary>\n" + "\n".join(inside) + "\n</details>"
        )

    def _children(self, story: History, call_id: CallId | None, depth: int) -> list[str]:
        children = self._below.get((story.state.session_id, call_id), ()) if depth < _DEEPEST else ()
        return [
            f"<details><summary>{escape(one_line(child.state.agent or 'Sub-agent', 100))}</summary>\n"
            + "\n".join(self.session(child, depth + 1))
            + "\n</details>"
            for child in children
        ]


def _state(result: CallResult | None) -> tuple[str, str]:
    """Return the outcome of a call in a word, and the class that colours it."""
    if result is None:
        return "no result", "bad"
    settlement = result.settlement
    if settlement.status == "completed" and not settlement.failed:
        return "done", "good"
    return ("failed" if settlement.failed else settlement.status), "bad"


def _brief(arguments: str) -> str:
    """Return what distinguishes calls of one tool: the first short text among the arguments."""
    try:
        value: object = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    if isinstance(value, dict):
        texts = [value for value in value.values() if isinstance(value, str) and value.strip()]  # pyright: ignore[reportUnknownVariableType]
        return str(texts[0]) if texts else ""
    return arguments


def _readable(arguments: str) -> str:
    try:
        return json.dumps(json.loads(arguments), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return arguments


def _media(part: MediaPart) -> str:
    # The data is checked as well: it is put into an attribute, and comes from a document that is not trusted.
    if isinstance(part, ImagePart) and part.media_type in IMAGES and _BASE64.match(part.data):
        return f'<p><img alt="" src="data:{part.media_type};base64,{part.data}"></p>'
    name = f"{part.name}, " if isinstance(part, FilePart) and part.name else ""
    note = one_line(f"{name}{part.media_type}, {len(part.data) * 3 // 4:,} bytes: not shown", 200)
    return f'<p class="when">{escape(note)}</p>'
