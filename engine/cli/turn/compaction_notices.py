"""Notes about compaction for the user."""

from __future__ import annotations

from typing import Final, assert_never

from engine.cli.terminal.terminal_text import one_line
from engine.core.events import CompactionEnded, CompactionStarted, HistoryReplaced

_STARTED: Final = {
    "full": "The context window is nearly full: summarising old messages",
    "overflow": "The request was too large: summarising old messages",
    "manual": "Summarising old messages",
}
_REPLACED: Final = {
    "prune": "Old tool results were cleared to free space in the context window",
    "restore": "The newest summary was undone: the full history is back",
}
_MAX_DETAIL_CHARS: Final = 400


def compaction_note(event: CompactionStarted | CompactionEnded | HistoryReplaced) -> str:
    """Return the note for *event*; empty if there is none, or another event reports it."""
    match event:
        case CompactionStarted():
            return _STARTED[event.trigger]
        case HistoryReplaced():
            # A compaction reports its own end, and forks and imports start with their history.
            return _REPLACED.get(event.kind, "")
        case CompactionEnded(outcome="compacted"):
            return _compacted(event)
        case CompactionEnded(outcome="cancelled"):
            return "Compaction cancelled: the history is unchanged"
        case CompactionEnded():
            return ""  # a notice or the end of the turn gives the reason
        case _:
            assert_never(event)


def _compacted(event: CompactionEnded) -> str:
    text = "History summarised" if event.source else "History shortened"
    if event.before:  # 0: the size was unknown
        text += f": from about {event.before:,} to about {event.after:,} tokens"
    return f"{text}; {one_line(event.detail, _MAX_DETAIL_CHARS)}" if event.detail else text
