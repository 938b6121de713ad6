"""A summary that is nobody's words: what can be taken out of a history without understanding it.

It stands in where a summariser's answer can't be used, so that work can go on. It has
as much room as a summary, shared out among its sections; where there is more than
that, the newest stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from engine.compaction.preserved import line_tokens, newest, rules_in
from engine.compaction.prune import CLEARED
from engine.compaction.roles import is_users
from engine.compaction.summary_prompt import MOST_TOKENS, NONE, SECTIONS, sections_of
from engine.compaction.token_estimate import text_tokens
from engine.compaction.user_rules import says_how
from engine.core.messages import AssistantMessage, Message, ResultsMessage, UserMessage

# Of the room that is left, section by section in this order; what one does not need, the next ones have.
_SHARES: Final[Mapping[str, float]] = {"decisions": 0.5, "facts": 0.8, "done": 1.0}
# Enough for a sentence, or for what a message begins with.
_CHARS: Final = 240
_BEGINNING_CHARS: Final = 400
# Headings, and what stands under those that have nothing.
_FRAME: Final = 60
# What only an error looks like; and what prose has as well.
_ERROR: Final = re.compile(
    r"\b(?:error|exception|fatal|panic|failure)\b\s*[:\[(!]|\b\w+(?:Error|Exception)\b|^\s*Traceback|\bFAIL(?:ED)?\b|\bERR!|^E  "
    r"|\b(?:command not found|no such file|permission denied|undefined (?:symbol|reference)|segmentation fault|core dumped|timed out)\b",
    re.IGNORECASE | re.MULTILINE,
)
_MAYBE: Final = re.compile(
    r"\b(?:errors?|failed|failure|cannot|can't|undefined|undeclared|denied|not found|no such|did not|could not|couldn't|unable to"
    r"|invalid|aborted|refused|deprecated)\b",
    re.IGNORECASE,
)
# Where nothing failed: a line that says so itself. What was read is full of names of errors.
_OUTRIGHT: Final = re.compile(
    r"^(?:[^\s:]*+:++\s*+)*(?:\w+ ){0,2}(?:error|fatal|panic|\w+(?:Error|Exception))(?:\[\w+\])?:\s", re.IGNORECASE
)
# That there are none is none.
_NO_ERROR: Final = re.compile(r"\b(?:0|no) (?:errors?|failed|failures?)\b", re.IGNORECASE)
_DECISION: Final = re.compile(
    r"\b(?:decid\w+|decision|we(?:'ll| will)|i(?:'ll| will)|instead of|rather than|because|since|chos\w+|choose|agreed|let's|plan|settled"
    r"|going with|go with|opt(?:ed)? for|keep(?:ing)? to|won't"
    r"|wir nehmen|entschieden|entscheid\w+|stattdessen|denn|weil|décid\w+|choisi\w*|parce que|decid\w*|elegi\w*|porque|scelt\w+|perché)\b"
    r"|решил|выбра|потому что|вместо|决定|選擇|选择|改用|因为|決め|ことにし|代わりに|결정|대신",
    re.IGNORECASE,
)


def extracted(head: Sequence[Message], previous: str, most: int = MOST_TOKENS) -> str:
    """Return a summary of *head* in the usual form, with what *previous*, an earlier one, has under the same headings.

    It has about *most* tokens at most.
    """
    before = sections_of(previous)
    asked = [message.text for message in head if isinstance(message, UserMessage) and is_users(message)]
    said = [message.text for message in head if isinstance(message, AssistantMessage) and message.text.strip()]
    results = [
        result.settlement for message in head if isinstance(message, ResultsMessage) for result in message.results
    ]
    found = {
        "objective": (_old(before, "objective") or [_line(text, _BEGINNING_CHARS) for text in asked[:1]])[:3],
        "decisions": _decisions(asked, said, _old(before, "decisions")),
        "done": _together(before, "done", [_line(text, _BEGINNING_CHARS) for text in said]),
        "in progress": [_line(text, _BEGINNING_CHARS) for text in said[-1:]],
        "next steps": ["Go on with what the newest messages show; look again at what is missing here."],
        "facts": _together(
            before,
            "facts",
            [
                line
                for s in results
                if not s.text.startswith(CLEARED)
                for line in _errors(s.text, has_failed=s.failed or s.status != "completed")
            ],
        ),
    }
    found["objective"] = found["objective"] or ["not known"]
    fixed = sum(text_tokens(line) for name, lines in found.items() if name not in _SHARES for line in lines)
    room = most - fixed - _FRAME
    for name, share in _SHARES.items():
        found[name] = list(newest(found[name], round(room * share)))
        room -= sum(map(line_tokens, found[name]))
    return "\n\n".join(f"## {name}\n{_list(found.get(name.casefold(), []))}" for name in SECTIONS)


def _list(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines if line) or NONE


def _old(before: Mapping[str, str], name: str) -> list[str]:
    body = before.get(name, "")
    return [line.removeprefix("- ") for line in body.split("\n") if line.strip() and line.strip() != NONE]


def _together(before: Mapping[str, str], name: str, new: Iterable[str]) -> list[str]:
    # What was said again is new again.
    return list(dict.fromkeys(reversed([*_old(before, name), *new])))[::-1]


def _line(text: str, most: int = _CHARS) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[:most]}…"


def _around(text: str, match: re.Match[str]) -> str:
    """Return a line, or what is around the place where it tells something."""
    line = " ".join(text.split())
    if len(line) <= _CHARS:
        return line
    # Blanks may have gone: near enough.
    start = max(0, min(match.start() - _CHARS // 3, len(line) - _CHARS))
    return f"{'…' if start else ''}{line[start : start + _CHARS]}{'…' if start + _CHARS < len(line) else ''}"


def _decisions(asked: Sequence[str], said: Sequence[str], before: Sequence[str]) -> list[str]:
    """Return what was decided, and in front of it, first to go, rules of the user: those are carried along elsewhere too."""
    sentences = [line for text in said for line in re.split(r"(?<=[.!?])\s+|\n", text.replace("\u2019", "'"))]
    rules = [_line(rule) for text in asked for rule in rules_in(text)]
    found = dict.fromkeys([*before, *rules, *_matching(sentences, _DECISION)])
    return sorted(found, key=lambda line: _DECISION.search(line) is not None or not says_how(line))


def _errors(text: str, *, has_failed: bool) -> list[str]:
    lines = [line for line in text.splitlines() if line.strip() and not _NO_ERROR.search(line)]
    if not has_failed:
        return _matching(lines, _OUTRIGHT)[:2]
    found = _matching(lines, _ERROR) or _matching(lines, _MAYBE)
    if not found:
        return [_line(line) for line in lines[-2:]]
    return found[:3] + found[3:][-3:]


def _matching(lines: Iterable[str], sign: re.Pattern[str]) -> list[str]:
    return [_around(line, match) for line in lines if (match := sign.search(line)) is not None]
