"""What a person is told when room is made in the model's window."""

from __future__ import annotations

from typing import Final, assert_never

from engine.cli.terminal_text import one_line
from engine.core.events import CompactionEnded, CompactionStarted, HistoryReplaced

_BEGUN: Final = {
    "full": "the model's window is nearly full: what is old is being summarised",
    "overflow": "the request was too large: room is being made for it",
    "manual": "what is old is being summarised",
}
_REPLACED: Final = {
    "prune": "old results were cleared to make room in the model's window",
    "restore": "the history is whole again: a summary was taken back",
}
_LONGEST: Final = 400


def note_of(event: CompactionStarted | CompactionEnded | HistoryReplaced) -> str:
    """Return the note that *event* is worth; empty: none, or another event tells it."""
    match event:
        case CompactionStarted():
            return _BEGUN[event.trigger]
        case HistoryReplaced():
            return _REPLACED.get(event.kind, "")
        case CompactionEnded(outcome="compacted"):
            return _done(event)
        case CompactionEnded(outcome="cancelled"):
            return "there is no summary: the history is as it was"
        case CompactionEnded():
            return ""  # a notice, or the end of the turn, says why
        case _:
            assert_never(event)


def _done(event: CompactionEnded) -> str:
    told = "summarised" if event.source else "room was made"
    if event.before:
        told += f": about {event.before:,} tokens before, about {event.after:,} now"
    return f"{told}; {one_line(event.detail, _LONGEST)}" if event.detail else told
