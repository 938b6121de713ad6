"""`EventIndex`: durable events of a journal by an id in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, Protocol, TypeVar, runtime_checkable

import attrs

from engine.core.events import Durable, InputAdmitted, PermissionAnswered, QuestionAnswered, RecoveryAnswered
from engine.core.ids import InputId, RequestId

E = TypeVar("E", bound=Durable)
K = TypeVar("K")
V = TypeVar("V", bound=Durable)


class EventsOfType(Protocol):
    """Returns the events of one class."""

    def __call__(self, kind: type[E], /) -> Iterable[E]:
        """Return them."""
        ...


@runtime_checkable
class IndexedEvents(Protocol):
    """Events that return those of one class without decoding others."""

    def of_type(self, kind: type[E], /) -> Iterable[E]:
        """Return the events of one class."""
        ...


def select_events(events: Sequence[Durable]) -> EventsOfType:
    """Return what selects the events of one class."""
    if isinstance(events, IndexedEvents):
        return events.of_type

    def select(kind: type[E], /) -> Iterable[E]:
        return (event for event in events if isinstance(event, kind))

    return select


@attrs.define(eq=False, repr=False)
class EventIndex(Generic[K, V]):
    """Events of some classes, by an id. Those of a restored session are looked through when one is asked for."""

    _kinds: tuple[type[V], ...]
    _id_of: Callable[[V], K]
    _by_id: dict[K, V] = attrs.field(factory=dict[K, V], init=False)
    _earlier: EventsOfType | None = attrs.field(default=None, init=False)

    def restore(self, earlier: EventsOfType) -> None:
        """Begin with events from the store."""
        self._earlier = earlier

    def add(self, event: V) -> None:
        """Add an event."""
        self._by_id[self._id_of(event)] = event

    def find(self, key: K) -> V | None:
        """Return the event with that id; None: there is none."""
        if self._earlier is not None:
            for kind in self._kinds:
                for event in self._earlier(kind):
                    self._by_id.setdefault(self._id_of(event), event)
            self._earlier = None
        return self._by_id.get(key)


Answered = PermissionAnswered | QuestionAnswered | RecoveryAnswered


def input_index() -> EventIndex[InputId, InputAdmitted]:
    """Return an index of how inputs were admitted."""
    return EventIndex[InputId, InputAdmitted]((InputAdmitted,), lambda event: event.input_id)


def answer_index() -> EventIndex[RequestId, Answered]:
    """Return an index of the answers to questions."""
    kinds = PermissionAnswered, QuestionAnswered, RecoveryAnswered
    return EventIndex[RequestId, Answered](kinds, lambda event: event.request_id)
