"""A summary that is nobody's words: what can be taken out of a history without understanding it.

It stands in where a summariser's answer can't be used, so that work can go on. Its
lists are bounded; of what is carried from one to the next, the newest stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from engine.compaction.pins import rules_in
from engine.compaction.prune import CLEARED
from engine.compaction.speakers import is_users
from engine.compaction.summary import NONE, SECTIONS, sections_of
from engine.messages import AssistantMessage, Message, ResultsMessage, UserMessage

_LINES: Final[Mapping[str, int]] = {"objective": 3, "decisions": 40, "done": 40, "in progress": 3, "facts": 40}
_CHARS: Final = 400
_ERROR: Final = re.compile(
    r"\b(?:error|exception|traceback|failed|failure|fatal|panic|cannot|undefined|denied|not found|no such)\b|\w+Error\b",
    re.IGNORECASE,
)
_DECISION: Final = re.compile(
    r"\b(?:decid\w+|decision|we(?:'ll| will)|i(?:'ll| will)|instead of|because|chose\w*|choose|agreed|let's|plan)\b",
    re.IGNORECASE,
)


def extracted(head: Sequence[Message], previous: str) -> str:
    """Return a summary of *head* in the usual form, with what *previous*, an earlier one, has under the same headings."""
    before = sections_of(previous)
    asked = [message.text for message in head if isinstance(message, UserMessage) and is_users(message)]
    said = [message.text for message in head if isinstance(message, AssistantMessage) and message.text.strip()]
    results = [
        result.settlement for message in head if isinstance(message, ResultsMessage) for result in message.results
    ]
    found = {
        "objective": _old(before, "objective") or [_line(text) for text in asked[:1]] or ["not known"],
        "decisions": _together(before, "decisions", [line for text in (*asked, *said) for line in _telling(text)]),
        "done": _together(before, "done", [_line(text) for text in said]),
        "in progress": [_line(text) for text in said[-1:]],
        "next steps": ["Go on with what the newest messages show; look again at what is missing here."],
        "facts": _together(
            before,
            "facts",
            [
                line
                for s in results
                if not s.text.startswith(CLEARED)
                for line in _errors(s.text, has_failed=s.status != "completed")
            ],
        ),
    }
    return "\n\n".join(f"## {name}\n{_list(name, found.get(name.casefold(), []))}" for name in SECTIONS)


def _list(name: str, lines: Iterable[str]) -> str:
    most = _LINES.get(name.casefold(), 10)
    kept = [line for line in lines if line][-most:]
    return "\n".join(f"- {line}" for line in kept) or NONE


def _old(before: Mapping[str, str], name: str) -> list[str]:
    body = before.get(name, "")
    return [line.removeprefix("- ") for line in body.split("\n") if line.strip() and line.strip() != NONE]


def _together(before: Mapping[str, str], name: str, new: Iterable[str]) -> list[str]:
    return list(dict.fromkeys([*_old(before, name), *new]))


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _CHARS else f"{line[:_CHARS]}…"


def _telling(text: str) -> list[str]:
    lines = [_line(line) for line in re.split(r"(?<=[.!?])\s+|\n", text) if _DECISION.search(line)]
    return [*lines, *(_line(rule) for rule in rules_in(text))]


def _errors(text: str, *, has_failed: bool) -> list[str]:
    lines = [line for line in text.splitlines() if _ERROR.search(line)]
    if not lines and has_failed:
        lines = [line for line in text.splitlines() if line.strip()][-2:]
    return [_line(line) for line in lines[:3] + lines[3:][-3:]]
