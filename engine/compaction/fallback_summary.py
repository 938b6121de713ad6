"""A summary without a model: lines that are extracted from the history.

It replaces a summariser's unusable answer, so that the turn can continue. It has
the size of a summary, divided between its sections; the newest lines win.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from engine.compaction.message_origin import is_user_message
from engine.compaction.prune import CLEARED
from engine.compaction.summary_prompt import MOST_TOKENS, NONE, SECTIONS, parse_sections
from engine.compaction.token_estimate import text_tokens
from engine.compaction.user_rules import is_rule
from engine.compaction.verbatim_parts import line_tokens, newest_lines, rules_in
from engine.core.messages import AssistantMessage, Message, ResultsMessage, UserMessage

# The share of the remaining room for each section, in this order; what one section does not use is left to the next.
_SHARES: Final[Mapping[str, float]] = {"decisions": 0.5, "facts": 0.8, "done": 1.0}
# The length of a sentence, and of the beginning of a message.
_CHARS: Final = 240
_BEGINNING_CHARS: Final = 400
# Tokens for headings and empty sections.
_FRAME: Final = 60
# Text that only errors contain; and words that occur in prose as well.
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
# In a successful result, only a line that begins like an error counts: files are full of names of errors.
_OUTRIGHT: Final = re.compile(
    r"^(?:[^\s:]*+:++\s*+)*(?:\w+ ){0,2}(?:error|fatal|panic|\w+(?:Error|Exception))(?:\[\w+\])?:\s", re.IGNORECASE
)
# Lines that say that there are no errors.
_NO_ERROR: Final = re.compile(r"\b(?:0|no) (?:errors?|failed|failures?)\b", re.IGNORECASE)
_DECISION: Final = re.compile(
    r"\b(?:decid\w+|decision|we(?:'ll| will)|i(?:'ll| will)|instead of|rather than|because|since|chos\w+|choose|agreed|let's|plan|settled"
    r"|going with|go with|opt(?:ed)? for|keep(?:ing)? to|won't"
    r"|wir nehmen|entschieden|entscheid\w+|stattdessen|denn|weil|décid\w+|choisi\w*|parce que|decid\w*|elegi\w*|porque|scelt\w+|perché)\b"
    r"|решил|выбра|потому что|вместо|决定|選擇|选择|改用|因为|決め|ことにし|代わりに|결정|대신",
    re.IGNORECASE,
)


def extract_summary(head: Sequence[Message], previous: str, most: int = MOST_TOKENS) -> str:
    """Return a summary of *head* in the usual form, merged with the sections of the *previous* summary.

    It has at most about *most* tokens.
    """
    before = parse_sections(previous)
    prompts = [message.text for message in head if isinstance(message, UserMessage) and is_user_message(message)]
    answers = [message.text for message in head if isinstance(message, AssistantMessage) and message.text.strip()]
    beginnings = [_shorten_line(text, _BEGINNING_CHARS) for text in answers]
    objective = _previous_lines(before, "objective")
    objective = objective or [_shorten_line(text, _BEGINNING_CHARS) for text in prompts[:1]] or ["unknown"]
    sections = {
        "objective": objective[:3],
        "decisions": _decisions(prompts, answers, _previous_lines(before, "decisions")),
        "done": _merge_lines(before, "done", beginnings),
        "in progress": beginnings[-1:],
        "next steps": ["Continue with what the newest messages show; look again at what is missing here."],
        "facts": _merge_lines(before, "facts", _facts(head)),
    }
    return _fit_sections(sections, most)


def _fit_sections(sections: dict[str, list[str]], most: int) -> str:
    """Return the sections as text, with the oldest lines dropped so that it has about *most* tokens."""
    fixed = sum(text_tokens(line) for name, lines in sections.items() if name not in _SHARES for line in lines)
    room = most - fixed - _FRAME
    for name, share in _SHARES.items():
        sections[name] = list(newest_lines(sections[name], round(room * share)))
        # What this section has not used goes to the next one.
        room -= sum(map(line_tokens, sections[name]))
    return "\n\n".join(f"## {name}\n{_list(sections.get(name.casefold(), []))}" for name in SECTIONS)


def _facts(head: Sequence[Message]) -> Iterator[str]:
    """Yield the errors in results that were not cleared."""
    for message in head:
        for result in message.results if isinstance(message, ResultsMessage) else ():
            settled = result.settlement
            if not settled.text.startswith(CLEARED):
                yield from _errors(settled.text, has_failed=settled.failed or settled.status != "completed")


def _list(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines if line) or NONE


def _previous_lines(before: Mapping[str, str], name: str) -> list[str]:
    body = before.get(name, "")
    return [line.removeprefix("- ") for line in body.split("\n") if line.strip() and line.strip() != NONE]


def _merge_lines(before: Mapping[str, str], name: str, new: Iterable[str]) -> list[str]:
    # A repeated line counts as new.
    return list(dict.fromkeys(reversed([*_previous_lines(before, name), *new])))[::-1]


def _shorten_line(text: str, most: int = _CHARS) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[:most]}…"


def _excerpt(text: str, match: re.Match[str]) -> str:
    """Return a line, or the part of it around the match."""
    line = " ".join(text.split())
    if len(line) <= _CHARS:
        return line
    # The position is approximate: spaces were collapsed.
    start = max(0, min(match.start() - _CHARS // 3, len(line) - _CHARS))
    return f"{'…' if start else ''}{line[start : start + _CHARS]}{'…' if start + _CHARS < len(line) else ''}"


def _decisions(prompts: Sequence[str], answers: Sequence[str], before: Sequence[str]) -> list[str]:
    """Return the decisions, after rules of the user; rules are dropped first, since they are preserved elsewhere too."""
    sentences = [line for text in answers for line in re.split(r"(?<=[.!?])\s+|\n", text.replace("\u2019", "'"))]
    rules = [_shorten_line(rule) for text in prompts for rule in rules_in(text)]
    decisions = dict.fromkeys([*before, *rules, *_matching(sentences, _DECISION)])
    return sorted(decisions, key=lambda line: _DECISION.search(line) is not None or not is_rule(line))


def _errors(text: str, *, has_failed: bool) -> list[str]:
    lines = [line for line in text.splitlines() if line.strip() and not _NO_ERROR.search(line)]
    if not has_failed:
        return _matching(lines, _OUTRIGHT)[:2]
    matches = _matching(lines, _ERROR) or _matching(lines, _MAYBE)
    if not matches:
        # A failed command without a known word: its last lines say most.
        return [_shorten_line(line) for line in lines[-2:]]
    # The first errors are mostly the cause, the last ones the summary of a test run.
    return matches[:3] + matches[3:][-3:]


def _matching(lines: Iterable[str], sign: re.Pattern[str]) -> list[str]:
    return [_excerpt(line, match) for line in lines if (match := sign.search(line)) is not None]
