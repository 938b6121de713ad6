"""The text of parts that are still being written, and the deltas that carry it."""

from __future__ import annotations

from typing import Final

import attrs

from engine.core import events as ev
from engine.core.ids import MessageId, PartId, SessionId, TurnId

# Characters. Escaped as JSON, up to twelve for each, a longer delta would not fit into a message to a client.
LONGEST_DELTA: Final = 1 << 19

DELTAS: dict[ev.PartKind, type[ev.Delta]] = {
    "text": ev.TextDelta,
    "reasoning": ev.ReasoningDelta,
    "call": ev.ArgumentsDelta,
    "provider": ev.TextDelta,
}


@attrs.define(eq=False, repr=False, kw_only=True)
class OpenText:
    """The text of one open part. It is outside the folded state, where each delta would copy all of it.

    Attributes:
        session_id: the session of the part.
        path: from the root session to that one.
        length: of the text so far.
    """

    session_id: SessionId
    path: tuple[SessionId, ...]
    turn_id: TurnId | None
    message_id: MessageId
    part_id: PartId
    kind: ev.PartKind
    length: int = attrs.field(default=0, init=False)
    _chunks: list[str] = attrs.field(factory=list[str], init=False)

    def text(self) -> str:
        """Return the text so far."""
        # Joined when it is read, not when a chunk comes: adding each chunk to one string is quadratic in a long part.
        if len(self._chunks) > 1:
            self._chunks = ["".join(self._chunks)]
        return self._chunks[0] if self._chunks else ""

    def copy(self) -> OpenText:
        """Return one that stays as this one is now."""
        copied = OpenText(
            session_id=self.session_id,
            path=self.path,
            turn_id=self.turn_id,
            message_id=self.message_id,
            part_id=self.part_id,
            kind=self.kind,
        )
        copied.length, copied._chunks = self.length, [self.text()]
        return copied

    def extend(self, text: str, *, after: int, time: float) -> ev.Delta:
        """Add a chunk; return it as a delta that follows the durable event *after*."""
        delta = self._delta(text, offset=self.length, after=after, time=time)
        self._chunks.append(text)
        self.length += len(text)
        return delta

    def clear(self) -> None:
        """Start over."""
        self._chunks, self.length = [], 0

    def rest(self, *, offset: int, after: int, time: float, most: int | None = None) -> ev.Delta:
        """Return the text from *offset* as one delta, or the first *most* characters of it."""
        end = None if most is None else offset + most
        return self._delta(self.text()[offset:end], offset=offset, after=after, time=time)

    def _delta(self, text: str, *, offset: int, after: int, time: float) -> ev.Delta:
        return DELTAS[self.kind](
            session_id=self.session_id,
            turn_id=self.turn_id,
            path=self.path,
            time=time,
            message_id=self.message_id,
            part_id=self.part_id,
            after=after,
            offset=offset,
            text=text,
        )


def cut_delta(text: str) -> list[str]:
    """Return a long text in pieces for a delta each."""
    return [text[start : start + LONGEST_DELTA] for start in range(0, len(text), LONGEST_DELTA)]
