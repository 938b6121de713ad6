"""`StoredSession`: a session as read from disk, with its state folded and its events still JSON.

A session of ten thousand messages has sixty thousand events; decoding and folding them takes a
second, and callers rarely need more than the last few. So the state comes from a saved one
and the events after it, and each event is decoded on access.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableSequence, Sequence
from typing import TypeAlias, TypeVar, cast, overload

import attrs

from engine.core.errors import JournalCorrupt
from engine.core.events import Durable
from engine.journal.codec import PRESENT, Schema, decode_event
from engine.journal.json_converter import TAGS
from engine.journal.state import SessionState

E = TypeVar("E", bound=Durable)
_Slice: TypeAlias = "slice[int | None, int | None, int | None]"


def decode_stored_event(body: str, session_id: str, seq: int, schema: Schema = PRESENT) -> Durable:
    """Return the event in a stored *body*. Raises `JournalCorrupt` if it is not the expected one."""
    try:
        event = decode_event(body, schema=schema)
    except JournalCorrupt as error:
        raise JournalCorrupt(f"event {seq} of session {session_id} can't be read: {error}") from error
    # Readable JSON in the wrong row: a copied or edited file.
    if event.seq != seq or event.session_id != session_id:
        raise JournalCorrupt(
            f"event {seq} of session {session_id} says that it is event {event.seq} of {event.session_id}"
        )
    return cast("Durable", event)


class LazyEvents(MutableSequence[Durable]):  # noqa: PLW1641  # as a list: it changes
    """The events of one session, number 1 first; those from the disk are decoded on first access.

    A journal appends to it. Reading a damaged event raises `JournalCorrupt`.
    """

    __slots__ = ("_items", "_schema", "_session_id")

    def __init__(self, session_id: str, items: Iterable[str | Durable], schema: Schema = PRESENT) -> None:
        self._session_id = session_id
        self._items = list(items)
        self._schema = schema

    def copy(self) -> LazyEvents:
        """Return another sequence of the same events, at almost no cost."""
        return LazyEvents(self._session_id, self._items, self._schema)

    __copy__ = copy

    def of_type(self, kind: type[E]) -> Iterator[E]:
        """Yield the events of one class, without decoding others."""
        # The type is the first field of each document, so comparing a prefix is enough. But an upcaster may change a
        # document's type; in that case all must be decoded.
        head = "{" if self._schema.upcasters else f'{{"type":"{TAGS[kind]}",'
        for index, item in enumerate(self._items):
            if not isinstance(item, str) or item.startswith(head):
                event = self[index]
                if isinstance(event, kind):
                    yield event

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, index: int) -> Durable: ...
    @overload
    def __getitem__(self, index: _Slice) -> list[Durable]: ...
    def __getitem__(self, index: int | _Slice) -> Durable | list[Durable]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self._items)))]
        item = self._items[index]
        if isinstance(item, str):
            seq = index + 1 if index >= 0 else len(self._items) + index + 1
            # Kept decoded: a journal reads the same last events again and again.
            item = self._items[index] = decode_stored_event(item, self._session_id, seq, self._schema)
        return item

    @overload
    def __setitem__(self, index: int, value: Durable) -> None: ...
    @overload
    def __setitem__(self, index: _Slice, value: Iterable[Durable]) -> None: ...
    def __setitem__(self, index: int | _Slice, value: Durable | Iterable[Durable]) -> None:
        if isinstance(index, slice):
            self._items[index] = cast("Iterable[Durable]", value)
        else:
            self._items[index] = cast("Durable", value)

    def __delitem__(self, index: int | _Slice) -> None:
        del self._items[index]

    def insert(self, index: int, value: Durable) -> None:
        """Insert an event at that index."""
        self._items.insert(index, value)

    def append(self, value: Durable) -> None:
        """Append an event."""
        self._items.append(value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        others = cast("Sequence[object]", other)
        return len(self) == len(others) and all(a == b for a, b in zip(self, others, strict=True))

    def __repr__(self) -> str:
        return f"<{len(self)} events of session {self._session_id}>"


@attrs.frozen(eq=False, repr=False)
class StoredSession:
    """A session as it is stored.

    Attributes:
        state: the fold of all its events.
        events: all of them.
    """

    state: SessionState
    events: LazyEvents
