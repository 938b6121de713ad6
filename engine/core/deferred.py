"""`Deferred`: one slot and a `trio.Event`, settled exactly once."""

from __future__ import annotations

from typing import Generic, TypeVar

import attrs
import trio

T = TypeVar("T")


@attrs.define(eq=False, repr=False)
class Deferred(Generic[T]):
    """A value that another task provides later, once.

    The first `settle` wins; a later one is dropped and counted, so a result that
    comes after the abort changes nothing. Decide by `is_settled`, never by
    whether `wait()` returned: in a cancelled scope `wait()` raises even if the
    event is set (`test_rule_01_settled_deferred_in_cancelled_scope`).
    """

    _event: trio.Event = attrs.field(factory=trio.Event, init=False)
    _slot: tuple[T] | None = attrs.field(default=None, init=False)
    dropped: int = attrs.field(default=0, init=False)

    @property
    def event(self) -> trio.Event:
        """Set when it is settled; for those who wait with a time limit."""
        return self._event

    @property
    def is_settled(self) -> bool:
        """Whether it has a value."""
        return self._slot is not None

    @property
    def value(self) -> T:
        """The value; only once it is settled."""
        if self._slot is None:
            raise RuntimeError("this Deferred is not settled yet")
        return self._slot[0]

    def settle(self, value: T) -> bool:
        """Provide the value; return whether this was the first one. Not a checkpoint."""
        if self._slot is not None:
            self.dropped += 1
            return False
        # A tuple, since None may be the value. Set before the event, so that no waiter finds the slot empty.
        self._slot = (value,)
        self._event.set()
        return True

    async def wait(self) -> T:
        """Return the value as soon as it is settled. Always a checkpoint; cancelling it changes nothing."""
        await self._event.wait()
        return self.value
