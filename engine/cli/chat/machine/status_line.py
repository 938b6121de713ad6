"""The status line: fields from the left, of which the last are left out where there is no room. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from engine.cli.chat.editor.graphemes import cells
from engine.cli.chat.machine.chat_contents import ChatContents
from engine.cli.chat.machine.status_facts import StatusFacts
from engine.cli.terminal.terminal_text import escape_on_one_line
from engine.cli.text.styled_text import Style
from engine.export.format_cost import format_cost

# A window of which so many percent are full is amber, and then red.
_RATHER_FULL: Final = 70
_NEARLY_FULL: Final = 85
_SILENT_SECONDS: Final = 20


def status_line(chat: ChatContents, now: float, width: int) -> str:
    """Return the line in at most *width* cells; *now* is in seconds since the epoch."""
    painter = chat.view.painter
    if chat.notice:
        return painter.text(_cut(escape_on_one_line(chat.notice), width), Style.DIM)
    if chat.facts.custom:
        return painter.text(_cut(chat.facts.custom, width), Style.DIM)
    mark = chat.view.symbols.between
    shown: list[tuple[str, str]] = []
    room = width
    for name in chat.facts.setup.fields:
        text = escape_on_one_line(_FIELDS[name](chat, now))
        if not text:
            continue
        needs = cells(text) + (cells(mark) if shown else 0)
        if needs > room:
            # What comes later counts less; the first field is cut rather than left out.
            if not shown:
                shown.append((name, _cut(text, width)))
            break
        shown.append((name, text))
        room -= needs
    return painter.text(mark, Style.DIM).join(_painted(chat, name, text) for name, text in shown)


def _painted(chat: ChatContents, name: str, text: str) -> str:
    painter, percent = chat.view.painter, chat.facts.percent
    if name != "context" or percent < _RATHER_FULL:
        return painter.text(text, Style.DIM)
    return painter.raw(text, painter.theme.context[percent >= _NEARLY_FULL])


def _cut(text: str, width: int) -> str:
    if cells(text) <= width:
        return text
    while text and cells(text) > width - 1:
        text = text[:-1]
    return f"{text}…"


def state_text(chat: ChatContents, now: float) -> str:
    """Return what the session does."""
    facts = chat.facts
    if chat.turn_id is None:
        return "Ready"
    if chat.phase == "cancelling":
        return "Cancelling"
    if chat.questions.current is not None:
        return "Question"
    if chat.phase == "parked":
        return "Interrupted"
    if facts.retry_at is not None:
        return f"Retrying in {max(0, round(facts.retry_at - now))} s (Enter: now)"
    return _activity_text(facts, now)


def _activity_text(facts: StatusFacts, now: float) -> str:
    what, since = facts.activity
    seconds = int(max(0.0, now - (since or facts.turn_since or now)))
    if what == "Waiting":
        what = f"Waiting for {facts.model}" if facts.model else what
    silent = int(now - facts.sign_of_life) if facts.sign_of_life else 0
    quiet = f", nothing for {silent} s" if silent >= _SILENT_SECONDS and silent < seconds else ""
    return f"{what} {seconds} s{quiet} (Esc: cancel)"


def _model(chat: ChatContents, now: float) -> str:
    del now
    return " ".join(filter(None, (chat.facts.model, chat.facts.effort)))


def _context(chat: ChatContents, now: float) -> str:
    del now
    facts = chat.facts
    if facts.info is None or not facts.used:
        return ""
    full = " (nearly full: /compact)" if facts.percent >= _NEARLY_FULL else ""
    return f"context {facts.percent}% of {_short(facts.info.context)}{full}"


def _cost(chat: ChatContents, now: float) -> str:
    del now
    facts = chat.facts
    most = facts.setup.cost_limit
    limit = f" (of ${most:g})" if most is not None else ""
    if facts.cost:
        return f"{format_cost(facts.cost)}{limit}"
    # A model without a price costs something all the same.
    return f"cost ?{limit}" if facts.used else ""


def _jobs(chat: ChatContents, now: float) -> str:
    del now
    jobs = chat.facts.jobs
    return f"{jobs} {'job' if jobs == 1 else 'jobs'}" if jobs else ""


def _short(tokens: int) -> str:
    return f"{tokens / 1_000_000:g}M" if tokens >= 1_000_000 else f"{round(tokens / 1_000)}k"


_FIELDS: Final[Mapping[str, Callable[[ChatContents, float], str]]] = {
    "state": state_text,
    "profile": lambda chat, _: chat.facts.profile,
    "model": _model,
    "context": _context,
    "cost": _cost,
    "branch": lambda chat, _: chat.facts.branch,
    "jobs": _jobs,
    "agent": lambda chat, _: chat.facts.agent,
    "folder": lambda chat, _: chat.facts.folder,
    "title": lambda chat, _: chat.facts.title,
}
