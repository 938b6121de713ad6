"""Events on their way to a subscriber: merged, encoded once for all subscribers, bounded in size."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Protocol, TypeAlias, final

import attrs

from engine.control.protocol.server_side import LARGEST_MESSAGE
from engine.control.protocol.wire_converter import Elided, to_json
from engine.core import events as ev
from engine.core.ids import CallId
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
# Between two heartbeats of a call.
HEARTBEAT_SECONDS: Final = 2.0
# Some more than one send, so that subscribers that are a few sends apart share the work.
_KEPT_TEXTS: Final = 2048
_KEPT_CHARACTERS: Final = 8 << 20

Entry: TypeAlias = JournalEntry
_DELTAS: Final = tuple(DELTAS.values())


class EventSource(Protocol):
    """Where events are taken from: a cursor, or the store."""

    @property
    def position(self) -> Position:
        """Where it is."""
        ...

    async def wait(self, *, durable: bool = False) -> bool:
        """Wait until there is an event to return, or one of the record; False: there will be none."""
        ...

    def has_next(self, *, durable: bool = False) -> bool:
        """Return whether there is an event now, or one of the record. Not a checkpoint."""
        ...

    def merge(self) -> int:
        """Merge the deltas that are waiting, where that loses nothing; return how many. Not a checkpoint."""
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
        self._texts: OrderedDict[object, tuple[Entry, str]] = OrderedDict()
        self._size = 0

    def text(self, entry: Entry, elide: int) -> str:
        """Return the JSON of *entry*; of a reference, if it is longer than *elide* (0: never) or than any message."""
        text = self._encode(entry)
        # Deltas stay: they concatenate to the text of their part, and could not be fetched from elsewhere.
        elide = 0 if isinstance(entry, _DELTAS) else elide
        if len(text) <= min(elide or LARGEST_MESSAGE, LARGEST_MESSAGE // 2):
            return text
        after = (entry.seq or 1) - 1
        where = f"v1/sessions/{entry.session_id}/events?after={after}&limit=1" if entry.seq else ""
        return to_json_text(to_json(Elided(of=TAGS[type(entry)], seq=entry.seq, bytes=len(text), href=where)))

    def _encode(self, entry: Entry) -> str:
        # Subscribers that keep up get the same object from the journal; merged deltas are made for each of them.
        key = _span(entry) if isinstance(entry, _DELTAS) else id(entry)
        kept = self._texts.get(key)
        if kept is not None and _is_same(kept[0], entry):
            return kept[1]
        text = encode_event(entry)
        self._keep(key, entry, text)
        return text

    def _keep(self, key: object, entry: Entry, text: str) -> None:
        replaced = self._texts.pop(key, None)
        self._size += len(text) - (0 if replaced is None else len(replaced[1]))
        self._texts[key] = (entry, text)
        while self._size > _KEPT_CHARACTERS or len(self._texts) > _KEPT_TEXTS:
            _, (_, oldest) = self._texts.popitem(last=False)
            self._size -= len(oldest)


def _span(delta: ev.Delta) -> object:
    return delta.session_id, delta.part_id, delta.after, delta.offset, len(delta.text)


def _is_same(one: Entry, other: Entry) -> bool:
    """Return whether one text serves both: of a merged delta, the time is that of its making."""
    if isinstance(one, _DELTAS) and isinstance(other, _DELTAS):
        return one.text == other.text
    return one is other


@attrs.define(eq=False)
class HeartbeatFilter:
    """Lets through a heartbeat of each call every few seconds: an engine makes four in a second, for its host."""

    _times: dict[CallId, float] = attrs.field(factory=dict[CallId, float], init=False)

    def lets_through(self, entry: Entry) -> bool:
        """Return whether a subscriber gets *entry*: anything but a heartbeat that follows too soon. Not a checkpoint."""
        if isinstance(entry, ev.CallSettled):
            self._times.pop(entry.call_id, None)
        if not isinstance(entry, ev.CallHeartbeat):
            return True
        # A clock may be set back.
        if 0 <= entry.time - self._times.get(entry.call_id, -math.inf) < HEARTBEAT_SECONDS:
            return False
        self._times[entry.call_id] = entry.time
        return True


@attrs.define
class Batch:
    """What one message holds.

    Attributes:
        entries: the events.
        resync: comes after them, in a message of its own.
        merged: how many deltas became a part of the one before them.
    """

    _texts: EventTexts
    _elide: int = 0
    entries: list[Entry] = attrs.field(factory=list[Entry], init=False)
    resync: Resync | None = attrs.field(default=None, init=False)
    merged: int = attrs.field(default=0, init=False)
    _size: int = attrs.field(default=0, init=False)
    # The text of the delta at the end, joined once: adding each piece to one string would be quadratic.
    _open: ev.Delta | None = attrs.field(default=None, init=False)
    _pieces: list[str] = attrs.field(factory=list[str], init=False)
    # The place of each call's progress.
    _progress: dict[CallId, int] = attrs.field(factory=dict[CallId, int], init=False)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing in it."""
        return not self.entries and self.resync is None

    @property
    def is_full(self) -> bool:
        """Whether nothing more may be added."""
        return self.resync is not None or len(self.entries) >= MOST_EVENTS or self._size >= MOST_CHARACTERS

    def add(self, entry: Entry | Resync) -> None:
        """Add an event; a delta that continues the last one is merged with it, and progress with older progress of its call."""
        if isinstance(entry, Resync):
            self.resync = entry
        elif isinstance(entry, _DELTAS):
            self._add_delta(entry)
        elif isinstance(entry, ev.CallProgress):
            self._add_progress(entry)
        else:
            self._join()
            self.entries.append(entry)
            # Encoded now, once for all subscribers: only its text shows how large it is.
            self._size += len(self._texts.text(entry, self._elide))

    def _add_delta(self, delta: ev.Delta) -> None:
        self._size += len(delta.text)
        first = self._open
        if first is not None and (type(first), first.part_id) == (type(delta), delta.part_id):
            self._pieces.append(delta.text)
            self.merged += 1
            return
        self._join()
        self._open, self._pieces = delta, [delta.text]
        self.entries.append(delta)

    def _add_progress(self, progress: ev.CallProgress) -> None:
        """Add progress: the newest message of each call, with the end of its output in between."""
        self._join()
        place = self._progress.get(progress.call_id)
        if place is None:
            self._progress[progress.call_id] = len(self.entries)
            self.entries.append(progress)
            self._size += len(progress.output)
            return
        older = self.entries[place]
        assert isinstance(older, ev.CallProgress)
        output = (older.output + progress.output)[-_MOST_OUTPUT:]
        self._size += len(output) - len(older.output)
        self.entries[place] = attrs.evolve(progress, message=progress.message or older.message, output=output)

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

    def texts(self) -> tuple[str, ...]:
        """Return the JSON of its events, to which none can be added then."""
        self._join()
        return tuple([self._texts.text(entry, self._elide) for entry in self.entries])
