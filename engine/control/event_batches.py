"""Events on their way to a subscriber: merged, encoded once for all subscribers, bounded in size."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Protocol, TypeAlias, final

import attrs

from engine.control.protocol.server_side import LARGEST_MESSAGE
from engine.control.protocol.wire_converter import Elided, to_json
from engine.core import events as ev
from engine.journal.codec import encode_event
from engine.journal.json_converter import TAGS
from engine.journal.json_text import to_json_text
from engine.journal.log import JournalEntry
from engine.journal.open_text import DELTAS
from engine.journal.position import Position
from engine.journal.state import Resync

MOST_EVENTS: Final = 512
MOST_CHARACTERS: Final = 256 * 1024
# Of a call's output between two sends; its result comes whole.
_MOST_OUTPUT: Final = 64 * 1024
# Some more than one send, so that subscribers that are a few sends apart share the work.
_KEPT_TEXTS: Final = 2048

Entry: TypeAlias = JournalEntry
_DELTAS: Final = tuple(DELTAS.values())


class EventSource(Protocol):
    """Where a subscription takes its events from: a cursor, or the store."""

    @property
    def position(self) -> Position:
        """Where it is."""
        ...

    async def __anext__(self) -> Entry | Resync:
        """Return the next event; if cancelled, it is returned next time. Raises `StopAsyncIteration` at the end."""
        ...

    def try_next(self) -> Entry | Resync | None:
        """Return the next event if there is one now. Not a checkpoint."""
        ...


def is_live(entry: Entry) -> bool:
    """Return whether *entry* is not part of the record, so it may wait for others."""
    return entry.seq is None


@final
class EventTexts:
    """The JSON of events. An event is encoded once, whatever the number of subscribers."""

    def __init__(self) -> None:
        """Make it empty."""
        # By identity: subscribers that keep up get the same object from the journal's tail.
        self._texts: OrderedDict[int, tuple[Entry, str]] = OrderedDict()

    def text(self, entry: Entry, elide: int) -> str:
        """Return the JSON of *entry*; of a reference, if it is longer than *elide* (0: never) or than any message."""
        cached = self._texts.get(id(entry))
        if cached is None or cached[0] is not entry:
            cached = self._texts[id(entry)] = (entry, encode_event(entry))
            if len(self._texts) > _KEPT_TEXTS:
                self._texts.popitem(last=False)
        text = cached[1]
        if len(text) <= min(elide or LARGEST_MESSAGE, LARGEST_MESSAGE // 2):
            return text
        after = (entry.seq or 1) - 1
        where = f"v1/sessions/{entry.session_id}/events?after={after}&limit=1" if entry.seq else ""
        return to_json_text(to_json(Elided(of=TAGS[type(entry)], seq=entry.seq, bytes=len(text), href=where)))


@attrs.define
class Batch:
    """What one message holds.

    Attributes:
        entries: the events.
        resync: comes after them, in a message of its own.
    """

    entries: list[Entry] = attrs.field(factory=list[Entry])
    resync: Resync | None = None
    _size: int = 0
    # The text of the delta at the end, joined once: adding each piece to one string would be quadratic.
    _open: ev.Delta | None = None
    _pieces: list[str] = attrs.field(factory=list[str])

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing in it."""
        return not self.entries and self.resync is None

    @property
    def is_full(self) -> bool:
        """Whether nothing more may be added."""
        return self.resync is not None or len(self.entries) >= MOST_EVENTS or self._size >= MOST_CHARACTERS

    @property
    def is_live(self) -> bool:
        """Whether nothing in it is part of the record."""
        return self.resync is None and all(map(is_live, self.entries))

    def add(self, entry: Entry | Resync) -> None:
        """Add an event; a delta that continues the last one is merged with it, and progress with older progress of its call."""
        if isinstance(entry, Resync):
            self.resync = entry
            return
        if isinstance(entry, _DELTAS):
            self._size += len(entry.text)
            if self._continues(entry):
                self._pieces.append(entry.text)
                return
            self._join()
            self._open, self._pieces = entry, [entry.text]
        else:
            self._join()
            last = self.entries[-1] if self.entries else None
            if (
                isinstance(entry, ev.CallProgress)
                and isinstance(last, ev.CallProgress)
                and last.call_id == entry.call_id
            ):
                self.entries.pop()
        self.entries.append(entry)

    def _continues(self, entry: ev.Delta) -> bool:
        first = self._open
        return first is not None and (type(first), first.part_id) == (type(entry), entry.part_id)

    def _join(self) -> None:
        if self._open is not None and len(self._pieces) > 1:
            self.entries[-1] = attrs.evolve(self._open, text="".join(self._pieces))
        self._open = None

    def add_ready(self, cursor: EventSource, wanted: Callable[[Entry], bool]) -> None:
        """Add what *cursor* has now, as far as there is room. Not a checkpoint."""
        while not self.is_full:
            entry = cursor.try_next()
            if entry is None:
                return
            if isinstance(entry, Resync) or wanted(entry):
                self.add(entry)

    def texts(self, texts: EventTexts, elide: int) -> tuple[str, ...]:
        """Return the JSON of its events, to which none can be added then."""
        self._join()
        return tuple([texts.text(entry, elide) for entry in self.entries])
