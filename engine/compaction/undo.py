"""Taking a compaction back: the journal has what was there before it, and what came since."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from engine.core.events import Durable, HistoryReplaced, TurnRedone, TurnUndone
from engine.core.fold import apply
from engine.core.ids import TurnId
from engine.core.messages import Message, Transcript
from engine.core.state import SessionState


@attrs.frozen
class _Done:
    """A compaction that can be taken back: the history before it, what it left, and the turn in which it was made."""

    before: Transcript
    messages: tuple[Message, ...]
    turn_id: TurnId | None


def restored(events: Iterable[Durable]) -> tuple[Message, ...] | str:
    """Return the history of a session without its last compaction, or why there is none."""
    state = SessionState()
    done: list[_Done] = []
    # What was taken back with its turn counts again if that does.
    gone: dict[TurnId, list[_Done]] = {}
    for event in events:
        before = state
        state = apply(state, event)
        match event:
            case HistoryReplaced(kind="compact"):
                done.append(_Done(before.transcript, event.messages, event.turn_id))
            case HistoryReplaced(kind="restore"):
                done = done[:-1]
            case HistoryReplaced(kind="fork" | "import"):
                done = []
            case TurnUndone(undone=turn_id):
                gone[turn_id] = [one for one in done if one.turn_id == turn_id]
                done = [one for one in done if one.turn_id != turn_id]
            case TurnRedone(redone=turn_id):
                done += gone.pop(turn_id, [])
            case _:
                pass
    if not done:
        return "there is no compaction to take back"
    last = done[-1]
    now = state.transcript
    # Clearing old results changes messages, and leaves each in its place.
    if [message.id for message in now[: len(last.messages)]] != [message.id for message in last.messages]:
        return "the history was changed in other ways since the last compaction: it can't be taken back"
    return (*last.before, *now[len(last.messages) :])
