"""Taking a compaction back: the journal has what was there before it, and what came since."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from engine.events import Durable, HistoryReplaced
from engine.fold import apply
from engine.messages import Message, Transcript
from engine.state import SessionState


@attrs.frozen
class _Done:
    """A compaction that can be taken back: the history before it, and how many messages it left."""

    before: Transcript
    messages: tuple[Message, ...]


def restored(events: Iterable[Durable]) -> tuple[Message, ...] | str:
    """Return the history of a session without its last compaction, or why there is none."""
    state = SessionState()
    done: list[_Done] = []
    for event in events:
        before = state
        state = apply(state, event)
        if not isinstance(event, HistoryReplaced):
            continue
        match event.kind:
            case "compact":
                done.append(_Done(before.transcript, event.messages))
            case "restore":
                done = done[:-1]
            case "fork" | "import":
                done = []
            case "prune" | "collapse":
                pass
    if not done:
        return "there is no compaction to take back"
    last = done[-1]
    now = state.transcript
    # Clearing old results changes messages, and leaves each in its place.
    if [message.id for message in now[: len(last.messages)]] != [message.id for message in last.messages]:
        return "the history was changed in other ways since the last compaction: it can't be taken back"
    return (*last.before, *now[len(last.messages) :])
