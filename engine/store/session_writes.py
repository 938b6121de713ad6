"""`SessionWrites`: what one store has put of a session, and which of that may not be durable yet."""

from __future__ import annotations

from collections import deque

import attrs


@attrs.define(eq=False, repr=False)
class SessionWrites:
    """The events put for one session: first and last number, and the tickets of those that may not be durable yet."""

    first: int
    last: int
    tickets: deque[tuple[int, int]] = attrs.field(factory=deque["tuple[int, int]"])

    def add(self, seq: int, ticket: int, durable: int) -> None:
        """Add one more, and drop those up to the ticket *durable*."""
        self.forget(durable)
        self.tickets.append((seq, ticket))
        self.last = max(self.last, seq)

    def forget(self, durable: int) -> None:
        """Drop those up to the ticket *durable*."""
        while self.tickets and self.tickets[0][1] <= durable:
            self.tickets.popleft()

    def ticket(self, seq: int) -> int:
        """Return the ticket of that event; 0 if it is durable."""
        return next((ticket for put_seq, ticket in self.tickets if put_seq >= seq), 0)
